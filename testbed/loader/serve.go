package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"
)

// passedOn are headers that tracing goes by: a mesh joins the requests of a chain by them, if they
// are passed on.
var passedOn = []string{
	"Traceparent", "Tracestate", "Baggage", "X-Request-Id", "B3",
	"X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags",
}

// depthHeader counts the loaders that a request went through, and mostDepth is how many it may:
// loaders that call each other in a circle would never end.
const (
	depthHeader = "Plimsoll-Loader-Depth"
	mostDepth   = 32
)

// statusGone is what is counted where the client went away before its answer; no one sees it.
const statusGone = 499

// fault is an answer that is not the one that was asked for.
type fault struct {
	status int
	error
}

// serve does a request's work, passes it on, and answers with π.
func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	leave := s.meters.enter()
	defer leave()
	digits, err := s.answer(r)
	took := time.Since(began)
	// What it took here, so that a client can say that from what the way takes.
	w.Header().Set("Server-Timing", fmt.Sprintf("loader;dur=%.3f", float64(took)/float64(time.Millisecond)))
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if f := (*fault)(nil); errors.As(err, &f) {
			status = f.status
		}
		http.Error(w, err.Error(), status)
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "%s.%s\n", digits[:1], digits[1:])
	}
	s.meters.served(status, took)
}

// answer works and calls. The memory is held until the calls have come back.
func (s *Service) answer(r *http.Request) ([]byte, error) {
	c := s.work.Load()
	if c == nil {
		return nil, &fault{http.StatusServiceUnavailable, errNotReady}
	}
	depth, err := depthOf(r)
	if err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	case <-r.Context().Done():
		return nil, &fault{statusGone, errors.New("the client went away")}
	}
	digits, memory := c.spread(s.config.Spread * (2*rand.Float64() - 1)).do()
	<-s.slots // who waits for others does not work
	defer runtime.KeepAlive(memory)
	return digits, s.pass(r, depth+1)
}

// depthOf is how many loaders a request has come through.
func depthOf(r *http.Request) (int, error) {
	text := r.Header.Get(depthHeader)
	if text == "" {
		return 0, nil
	}
	depth, err := strconv.Atoi(text)
	if err != nil || depth < 0 {
		return 0, &fault{http.StatusBadRequest, fmt.Errorf("%s: must be a whole number from 0 up, was %q", depthHeader, text)}
	}
	if depth >= mostDepth {
		return 0, &fault{http.StatusLoopDetected, fmt.Errorf("%s: must be below %d, was %d: do loaders call each other in a circle?", depthHeader, mostDepth, depth)}
	}
	return depth, nil
}

// pass calls the others, all at once or until one of them fails.
func (s *Service) pass(r *http.Request, depth int) error {
	if !s.config.Parallel {
		for _, address := range s.config.Calls {
			if err := s.call(r, address, depth); err != nil {
				return err
			}
		}
		return nil
	}
	ends := make(chan error, len(s.config.Calls))
	for _, address := range s.config.Calls {
		go func() { ends <- s.call(r, address, depth) }()
	}
	var first error
	for range s.config.Calls {
		if err := <-ends; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// call passes a request on to one address, and reads all of what that answers.
func (s *Service) call(r *http.Request, address string, depth int) error {
	began := time.Now()
	status, err := s.get(r, address, depth)
	s.meters.called(address, status, time.Since(began))
	return err
}

func (s *Service) get(r *http.Request, address string, depth int) (status int, err error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, nil)
	if err != nil {
		return 0, &fault{http.StatusBadGateway, fmt.Errorf("call %s: %w", address, err)}
	}
	for _, name := range passedOn {
		if values := r.Header.Values(name); len(values) > 0 {
			request.Header[name] = values
		}
	}
	request.Header.Set(depthHeader, strconv.Itoa(depth))
	response, err := s.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		status = response.StatusCode
	}
	switch late := net.Error(nil); {
	case r.Context().Err() != nil:
		return 0, &fault{statusGone, context.Cause(r.Context())}
	case errors.As(err, &late) && late.Timeout():
		return 0, &fault{http.StatusGatewayTimeout, fmt.Errorf("call %s: no answer within %s", address, s.config.CallTimeout)}
	case err != nil:
		return 0, &fault{http.StatusBadGateway, fmt.Errorf("call %s: %w", address, err)}
	case status == http.StatusLoopDetected:
		return status, &fault{status, fmt.Errorf("call %s: it answers %d", address, status)}
	case status/100 != 2:
		return status, &fault{http.StatusBadGateway, fmt.Errorf("call %s: it answers %d", address, status)}
	}
	return status, nil
}
