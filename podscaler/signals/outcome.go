package signals

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// outcome decides what became of requests: which of them a server error answered, and which were
// refused or not answered at all.
type outcome struct {
	counter string   // the counter of requests; empty if no counter has their outcome
	labels  []string // its labels that have the outcome
	// failed looks at those labels. known is false where they say nothing.
	failed func(get func(label string) string) (failed, known bool)
}

// byCode is the outcome of a counter with the status code of HTTP in a label.
func byCode(counter, label string) outcome {
	return outcome{counter: counter, labels: []string{label}, failed: func(get func(string) string) (bool, bool) {
		return failedCode(get(label))
	}}
}

// failedCode reports whether a status code, or its class as in 5xx, is a failure of the server's.
// 429 is: its client, refused because of too many requests, has no answer.
func failedCode(code string) (failed, known bool) {
	if len(code) != 3 || code[0] < '1' || code[0] > '5' {
		return false, false
	}
	return code[0] == '5' || code == "429", true
}

// failedGRPC are the status codes of gRPC that say that the server failed or refused: unknown,
// deadline exceeded, resource exhausted, unimplemented, internal, unavailable and data loss. The
// others are the caller's doing.
var failedGRPC = []string{"2", "4", "8", "12", "13", "14", "15"}

// The flags by which an Envoy says, beside the code or in place of one, why a request came to no
// good end: for want of an upstream, by its failure, by a limit; or because the client went away.
var (
	failedFlags = []string{"UH", "UF", "UO", "UT", "UC", "UR", "URX", "UPE", "LH", "NC", "DF", "RL", "OM"}
	clientFlags = []string{"DC", "DPE", "DR"}
)

// istioOutcome looks at flags and gRPC's status, too: a call that gRPC ended with an error has the
// code 200, and a request without an answer has the code 0.
var istioOutcome = outcome{
	counter: "istio_requests_total",
	labels:  []string{"response_code", "response_flags", "grpc_response_status"},
	failed: func(get func(string) string) (failed, known bool) {
		code, flags := get("response_code"), strings.Split(get("response_flags"), ",")
		flagged := func(any []string) bool {
			return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(any, f) })
		}
		switch {
		case flagged(failedFlags) || slices.Contains(failedGRPC, get("grpc_response_status")):
			return true, true
		case code == "0":
			return !flagged(clientFlags), true
		}
		return failedCode(code)
	},
}

// linkerdOutcome is what the proxy makes of code and gRPC's status.
var linkerdOutcome = outcome{
	counter: "response_total",
	labels:  []string{"classification"},
	failed: func(get func(string) string) (failed, known bool) {
		c := get("classification")
		return c == "failure", c == "failure" || c == "success"
	},
}

// otelOutcome goes by the type of the error where no answer was sent, and so no code.
var otelOutcome = outcome{
	counter: "http_server_request_duration_seconds_count",
	labels:  []string{"http_response_status_code", "error_type"},
	failed: func(get func(string) string) (failed, known bool) {
		if failed, known = failedCode(get("http_response_status_code")); known {
			return failed, known
		}
		ended := get("error_type") != ""
		return ended, ended
	},
}

// tally counts requests, and those of them that failed.
type tally struct {
	requests, failed float64
	unsure           bool // of some the labels do not say whether they failed
}

// count adds requests whose outcome a series' labels have.
func (o *outcome) count(into *tally, requests float64, get func(label string) string) {
	failed, known := o.failed(get)
	into.requests += requests
	if failed {
		into.failed += requests
	}
	into.unsure = into.unsure || !known
}

// reading is the fraction that failed.
func (o *outcome) reading(t tally) podscaler.Reading {
	switch {
	case t.unsure:
		return podscaler.Reading{Why: fmt.Sprintf("a series of %s does not show by %s whether requests failed", o.counter, strings.Join(o.labels, ", "))}
	case t.requests == 0:
		return podscaler.Reading{Why: fmt.Sprintf("%s counts no request", o.counter)}
	}
	v := t.failed / t.requests
	if why := nonsense(errorRate, v); why != "" {
		return podscaler.Reading{Why: why}
	}
	return podscaler.Known(v)
}
