package reference

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Record is one line of what was recorded of the real server: an exchange, how a task ended, or
// something that was observed by the way.
type Record struct {
	Line int `json:"-"` // from 1
	// Group is what was being looked at, and Note what of it.
	Group, Note string
	// Shows the test bed and not the server: not to be compared.
	Stub     bool `json:"stub_artefact"`
	Request  *Request
	Response *Response

	UPID   string // of a task that has ended
	Log    []string
	Status json.RawMessage
	Secs   float64 // that were waited

	Meanwhile map[string]float64 // how long other calls took while there were many
	Results   [][]any            // status, reason and seconds of each of many calls at once
	What      string             // of something that was waited for
	Out       string             // of a client that was run
	Second    *string            // the answer to a second request on one connection
	N         int
	Dropped   *int
}

// Request is a recorded request. Credentials in it are placeholders.
type Request struct {
	Method, Path, Host string
	Headers            map[string]string
	Form               map[string]any
	Raw                *string
}

// Response is its answer, or what became of it.
type Response struct {
	Status    int
	Reason    string
	Headers   map[string]string
	MS        float64 // 0 when it was not measured
	Body      json.RawMessage
	Exception string
}

// Recordings reads all records.
func Recordings(data []byte) ([]*Record, error) {
	var all []*Record
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		r := &Record{Line: n}
		if err := Decode(lines.Bytes(), r); err != nil {
			return nil, fmt.Errorf("record %d: %w", n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// Decode reads JSON and keeps numbers as they are written.
func Decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// Data is the body of the answer; nil when there was none.
func (r *Response) Data() any {
	var body any
	if len(r.Body) == 0 || Decode(r.Body, &body) != nil {
		return nil
	}
	return body
}

// Params are the parameters of a recorded request but those in its path: ok is false when its body
// cannot be read at all.
func (q *Request) Params(path *url.URL) (params map[string]any, ok bool) {
	params = map[string]any{}
	for key, values := range path.Query() {
		params[key] = values[0]
	}
	for key, value := range q.Form {
		params[key], _ = plain(value)
	}
	if q.Raw == nil || *q.Raw == "" && q.Headers["Content-Type"] == "" {
		return params, true
	}
	switch kind := q.Headers["Content-Type"]; {
	case kind == "application/json":
		var body map[string]any
		if Decode([]byte(*q.Raw), &body) != nil {
			return nil, false
		}
		for key, value := range body {
			if value != nil {
				params[key] = value
			}
		}
	case strings.HasPrefix(kind, "multipart/form-data"):
		multipartParams(*q.Raw, params)
	case kind == "":
		curlParams(*q.Raw, params)
	default:
		return nil, false
	}
	return params, true
}

// multipartParams takes the parts of an upload: of the file its name is a parameter.
func multipartParams(raw string, params map[string]any) {
	for _, part := range strings.Split(raw, "--XBOUNDARY")[1:] {
		head, value, ok := strings.Cut(part, "\r\n\r\n")
		if !ok {
			continue
		}
		if _, after, isFile := strings.Cut(head, `filename="`); isFile {
			name, _, _ := strings.Cut(after, `"`)
			params["filename"] = name
		} else if _, after, ok := strings.Cut(head, `name="`); ok {
			name, _, _ := strings.Cut(after, `"`)
			params[name] = strings.TrimSuffix(value, "\r\n")
		}
	}
}

// curlParams reads what curl was asked to send.
func curlParams(raw string, params map[string]any) {
	for arg := range strings.SplitSeq(raw, "-d ") {
		if key, value, ok := strings.Cut(strings.TrimSpace(arg), "="); ok {
			params[key] = value
		}
	}
}
