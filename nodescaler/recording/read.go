package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Read calls f with every moment of a segment, in order, until f returns an error. What was cut off
// in the writing is omitted; any other line that is no moment is an error that names it.
func Read(r io.Reader, f func(*Moment) error) error {
	unzipped, err := gzip.NewReader(r)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil // it ends before it began
	case err != nil:
		return fmt.Errorf("is no segment of a recording: %w", err)
	}
	in := bufio.NewReader(unzipped)
	var p picture
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		}
		m, err := parse(text, &p, n == 1)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := f(m); err != nil {
			return err
		}
	}
}

// parse reads a line and brings the picture up to date by it.
func parse(text []byte, p *picture, first bool) (*Moment, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("is no moment: %w", err)
	}
	switch {
	case l.Time.IsZero():
		return nil, errors.New("is no moment: it has no time")
	case first && !l.Full:
		return nil, errors.New("must be a full picture, as the first of a segment")
	case first && l.Version != version:
		return nil, fmt.Errorf("version: must be %d, was %d; replay it with the version of Plimsoll that recorded it", version, l.Version)
	case l.Full:
		*p = picture{}
	}
	if err := p.apply(&l.Delta); err != nil {
		return nil, err
	}
	return l.moment(p), nil
}
