package pvesim

import (
	"bytes"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// contentType is a body's type without its parameters, and those.
func contentType(r *request) (string, map[string]string) {
	kind, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		kind, _, _ = strings.Cut(r.header.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(kind)), params
}

var uploadPath = regexp.MustCompile(`^/nodes/([^/]+)/storage/([^/]+)/upload/?$`)

// refuseBody is the answer to a body that is not even read.
func (r *request) refuseBody(path string) *response {
	kind, params := contentType(r)
	isUpload := r.method == "POST" && uploadPath.MatchString(path)
	switch {
	case len(r.body) == 0 && !r.tooLarge:
		return nil
	case r.method != "POST" && r.method != "PUT":
		return plain(501, fmt.Sprintf("Unexpected content for method '%s'", r.method))
	case isUpload && (kind != "multipart/form-data" || params["boundary"] == ""):
		return &response{lost: io.EOF} // pveproxy never answers, and closes the connection
	case isUpload:
		return nil
	case r.tooLarge || len(r.body) > maxBody:
		return plain(501, "for data too large")
	case kind != "" && kind != "application/x-www-form-urlencoded" && kind != "application/json":
		return plain(506, fmt.Sprintf("upload 'Content-Type '%s' not implemented", r.header.Get("Content-Type")))
	}
	return nil
}

// parameters reads those in the body and those of the query, which win.
func (k exchange) parameters(r *request) (map[string]any, *response) {
	sent := map[string]any{}
	if r.method == "POST" || r.method == "PUT" {
		var err error
		kind, params := contentType(r)
		switch kind {
		case "application/json":
			sent, err = decodeJSON(r.body)
		case "multipart/form-data":
			sent, err = k.decodeUpload(r.body, params["boundary"])
		default:
			sent = decodeForm(string(r.body))
		}
		if err != nil {
			e := failure.From(err)
			return nil, plain(e.Status, e.Reason+"\n")
		}
	}
	for key, value := range decodeForm(r.query) {
		sent[key] = value
	}
	delete(sent, "_dc") // by which browsers keep answers out of their caches
	return sent, nil
}

// decodeForm reads name=value pairs. A name without = has no value, and one that comes twice has
// several.
func decodeForm(text string) map[string]any {
	sent := map[string]any{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == '&' || r == ';' }) {
		key, value, given := strings.Cut(pair, "=")
		key = unescape(key)
		if !given {
			sent[key] = nil
			continue
		}
		var v any = unescape(value)
		switch before := sent[key].(type) {
		case nil:
		case []any:
			v = append(before, v)
		default:
			v = []any{before, v}
		}
		sent[key] = v
	}
	return sent
}

var escape = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// unescape reads what url.QueryUnescape does, and leaves alone what it refuses.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(text, "+", " "), func(hex string) string {
		s, _ := url.PathUnescape(hex)
		return s
	})
}

// How Perl's server says that a body is no JSON object.
const (
	malformed = "malformed JSON string, neither tag, array, object, number, string or atom, at character offset %d (before \"%s\") " +
		"at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934."
	garbage = "garbage after JSON object, at character offset %d (before \"%s\") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934."
	notHash = "Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 978."
)

func decodeJSON(body []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		offset := len(body)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			offset = min(int(syntax.Offset)-1, offset)
		}
		return nil, failure.New(malformed, offset, rest(body, offset))
	}
	if end := int(dec.InputOffset()); len(bytes.TrimSpace(body[end:])) > 0 {
		return nil, failure.New(garbage, end, rest(body, end))
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		for key, value := range v {
			v[key] = asText(value)
		}
		return v, nil
	}
	return nil, failure.New(notHash)
}

// rest is what an error message shows of a body from an offset on.
func rest(body []byte, offset int) string {
	if offset >= len(body) {
		return "(end of string)"
	}
	if left := body[offset:]; len(left) > 20 {
		return string(left[:20]) + "..."
	}
	return string(body[offset:])
}

// asText turns numbers into text, in arrays too.
func asText(value any) any {
	switch v := value.(type) {
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return v.String()
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return strconv.FormatFloat(f, 'g', 15, 64)
	case []any:
		for i := range v {
			v[i] = asText(v[i])
		}
	}
	return value
}

// decodeUpload reads the fields that may precede a file, and then that.
func (k exchange) decodeUpload(body []byte, boundary string) (map[string]any, error) {
	failed := &failure.Error{Status: 501, Reason: "upload failed"}
	sent := map[string]any{}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			return nil, failed
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, failed
		}
		name, file := part.FormName(), part.FileName()
		switch {
		case file != "" && name != "filename":
			return nil, &failure.Error{Status: 501, Reason: fmt.Sprintf("wrong field name '%s' for file upload, expected 'filename'", name)}
		case file != "":
			k.File = content
			sent["filename"], sent["tmpfilename"] = file, fmt.Sprintf("/var/tmp/pveupload-%x", md5.Sum(content))
			return sent, nil
		case name != "content" && name != "checksum" && name != "checksum-algorithm":
			return nil, failed
		}
		sent[name] = strings.TrimSpace(string(content))
	}
}

// format is the answer in the form the client asked for.
func (k exchange) format(formatter string, data any, err error) *response {
	body := map[string]any{"data": data}
	status, reason := 200, "OK"
	if k.Total != nil && *k.Total > 0 && err == nil {
		body["total"] = *k.Total
	}
	if err != nil {
		e := failure.From(err)
		if e.Bare {
			return bare(e)
		}
		status, reason = e.Status, failure.FirstLine(e.Reason)
		body["data"] = nil
		if formatter == "extjs" || k.World.Since("8.4") {
			body["message"] = e.Message()
		}
		if len(e.Errors) > 0 {
			body["errors"] = e.Errors
		}
	}
	if formatter == "extjs" {
		body["success"] = 1
		if err != nil {
			body["success"], body["status"] = 0, status
		}
		status, reason = 200, "OK"
	}
	return &response{status: status, reason: reason, kind: "application/json;charset=UTF-8", body: encodeJSON(body)}
}
