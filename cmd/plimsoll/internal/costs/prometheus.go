package costs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Prometheus is a server that speaks Prometheus' HTTP API, and how it is reached.
type Prometheus struct {
	URL    *url.URL
	Client *http.Client
	// Match are further matchers of the series that are read, as PromQL has them: cluster="home".
	Match string
}

// ErrUnreachable wraps what went wrong when there was no answer of Prometheus.
var ErrUnreachable = errors.New("no answer of Prometheus")

// series is one series, with a value for each moment of a history; NaN where there is none.
type series struct {
	labels map[string]string
	values []float64
}

// answerLimit is how much of an answer is read: a million values, and more.
const answerLimit = 256 << 20

// queryRange reads all series of a metric at the moments of a history.
func (p *Prometheus) queryRange(ctx context.Context, metric string, h *History) ([]series, error) {
	ask := url.Values{
		"query": {metric + "{" + p.Match + "}"}, "step": {seconds(h.Step)},
		"start": {unix(h.From)}, "end": {unix(h.From.Add(time.Duration(h.points()-1) * h.Step))},
	}
	to := p.URL.JoinPath("api/v1/query_range")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(ask.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case len(body) > answerLimit:
		return nil, fmt.Errorf("%s: the answer is larger than %d MiB; ask for a shorter time", metric, answerLimit>>20)
	}
	list, err := h.matrix(response.Status, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", metric, err)
	}
	return list, nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }

// matrix reads an answer.
func (h *History) matrix(status string, body []byte) ([]series, error) {
	var answer struct {
		Status, Error string
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
		return nil, fmt.Errorf("prometheus refuses: %s: %s", status, answer.Error)
	case answer.Data.ResultType != "matrix":
		return nil, fmt.Errorf("prometheus answers with a %q where a matrix was asked for", answer.Data.ResultType)
	}
	list := make([]series, len(answer.Data.Result))
	for i, r := range answer.Data.Result {
		list[i] = series{r.Metric, make([]float64, h.points())}
		for k := range list[i].values {
			list[i].values[k] = math.NaN()
		}
		for _, v := range r.Values {
			at := v.at.Sub(h.From) + h.Step/2 // to the nearest moment, whatever was rounded on the way
			if k := int(at / h.Step); at >= 0 && k < len(list[i].values) {
				list[i].values[k] = v.value
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
