// Package prometheus reads what a Prometheus kept: the values of series at moments that are a step
// apart.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Server speaks Prometheus' HTTP API.
type Server struct {
	URL    *url.URL
	Client *http.Client
	// Authorize adds to a query what the server wants to see; nil adds nothing.
	Authorize func(*http.Request)
}

// Series is one series, with a value for each moment that was asked for; NaN without one.
type Series struct {
	Labels map[string]string
	Values []float64
}

// Errors that others distinguish.
var (
	// ErrUnreachable wraps what went wrong when there was no answer of Prometheus.
	ErrUnreachable = errors.New("no answer of Prometheus")
	// ErrRefused wraps what Prometheus has against a query.
	ErrRefused = errors.New("prometheus refuses")
)

const (
	// answerLimit is how much of an answer is read: a million values, and more.
	answerLimit = 256 << 20
	// maxPoints is how many moments Prometheus answers for at most.
	maxPoints = 11_000
)

// moments are those of one answer.
type moments struct {
	from  time.Time
	step  time.Duration
	count int
}

// Range reads all series that answer a query at so many moments, in as many pieces as that takes.
// Series are in the order of their first values, and those of one moment as they came.
func (s *Server) Range(ctx context.Context, query string, from time.Time, step time.Duration, count int) ([]Series, error) {
	var all []Series
	index := map[string]int{}
	for at := 0; at < count; at += maxPoints {
		piece := moments{from.Add(time.Duration(at) * step), step, min(maxPoints, count-at)}
		list, err := s.ask(ctx, query, piece)
		if err != nil {
			return nil, err
		}
		for _, found := range list {
			name := Name(found.Labels)
			i, known := index[name]
			if !known {
				i = len(all)
				index[name] = i
				all = append(all, Series{found.Labels, nothing(count)})
			}
			copy(all[i].Values[at:], found.Values)
		}
	}
	return all, nil
}

// nothing is so many moments without a value.
func nothing(count int) []float64 {
	values := make([]float64, count)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// Name is a series' labels as PromQL has them.
func Name(labels map[string]string) string {
	var b strings.Builder
	for i, key := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", key, labels[key])
	}
	return "{" + b.String() + "}"
}

// ask reads all series at the moments of one answer.
func (s *Server) ask(ctx context.Context, query string, m moments) ([]Series, error) {
	form := url.Values{
		"query": {query}, "step": {seconds(m.step)},
		"start": {unix(m.from)}, "end": {unix(m.from.Add(time.Duration(m.count-1) * m.step))},
	}
	to := s.URL.JoinPath("api/v1/query_range")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.Authorize != nil {
		s.Authorize(request)
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case len(body) > answerLimit:
		return nil, fmt.Errorf("%s: the answer is larger than %d MiB; ask for a shorter time", query, answerLimit>>20)
	}
	if code := response.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		// What comes with it may be anything.
		return nil, fmt.Errorf("%w: %s", ErrRefused, response.Status)
	}
	list, err := m.matrix(response.Status, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return list, nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }

// matrix reads an answer.
func (m moments) matrix(status string, body []byte) ([]Series, error) {
	var answer struct {
		Status, Error string
		IsPartial     bool // VictoriaMetrics, where a storage node does not answer
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Values []sample
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %s, and what came is not Prometheus' JSON: %w", ErrUnreachable, status, err)
	}
	switch {
	case answer.Status != "success":
		return nil, fmt.Errorf("%w: %s: %s", ErrRefused, status, answer.Error)
	case answer.IsPartial:
		return nil, fmt.Errorf("%w: the answer is partial, a storage node did not answer; ask again when all do", ErrUnreachable)
	case answer.Data.ResultType != "matrix":
		return nil, fmt.Errorf("prometheus answers with a %q where a matrix was asked for", answer.Data.ResultType)
	}
	list := make([]Series, len(answer.Data.Result))
	for i, r := range answer.Data.Result {
		list[i] = Series{r.Metric, nothing(m.count)}
		for _, v := range r.Values {
			at := v.at.Sub(m.from) + m.step/2 // to the nearest moment, as either may be rounded
			if k := int(at / m.step); at >= 0 && k < m.count {
				list[i].Values[k] = v.value
			}
		}
	}
	return list, nil
}

// sample is a value at a time: [1735689600.123, "0.25"].
type sample struct {
	at    time.Time
	value float64
}

// UnmarshalJSON reads a sample.
func (s *sample) UnmarshalJSON(text []byte) error {
	var (
		at    float64
		value string
		pair  = []any{&at, &value}
	)
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("must be a time and a value, was %s", text)
	}
	s.at = time.UnixMilli(int64(math.Round(at * 1e3)))
	var err error
	s.value, err = strconv.ParseFloat(value, 64)
	return err
}
