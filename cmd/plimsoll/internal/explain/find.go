package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Which names a record of a journal: by its id, or as the last one that decided something.
type Which struct{ id string }

// ParseWhich reads last, a number such as 42, or an id such as d-000042.
func ParseWhich(text string) (Which, error) {
	if text == "last" {
		return Which{}, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "d-"), 10, 31)
	if err != nil || n == 0 {
		return Which{}, fmt.Errorf("must be last, a number such as 42 or an id such as d-000042, was %q", text)
	}
	return Which{id: fmt.Sprintf("d-%06d", n)}, nil
}

// Find returns the record of a journal that is meant, or an error that says what there is.
func Find(journal io.Reader, w Which) (*loop.Step, error) {
	var found *loop.Step
	first, last := "", ""
	err := loop.Read(journal, func(s *loop.Step) error {
		if first == "" {
			first = s.ID
		}
		last = s.ID
		if w.id == s.ID || w.id == "" && s.Decided() {
			found = s
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return found, nil
	case last == "":
		return nil, fmt.Errorf("the journal holds no record")
	case w.id == "":
		return nil, fmt.Errorf("no step from %s to %s changed anything; name one, such as %s", first, last, last)
	}
	return nil, fmt.Errorf("there is no %s: the journal goes from %s to %s", w.id, first, last)
}
