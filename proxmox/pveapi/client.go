package pveapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// call makes one call through go-proxmox and returns what is in the answer's data, nil for null.
func (c *Client) call(ctx context.Context, method, path string, params map[string]any) (json.RawMessage, error) {
	var data json.RawMessage
	ctx = context.WithValue(ctx, answered{}, &data)
	var body any
	if len(params) > 0 {
		body = params
	}
	var err error
	switch method {
	case http.MethodGet:
		err = c.lib.Get(ctx, path, nil)
	case http.MethodPost:
		err = c.lib.Post(ctx, path, body, nil)
	case http.MethodPut:
		err = c.lib.Put(ctx, path, body, nil)
	default:
		err = c.lib.Delete(ctx, path, nil)
	}
	if err != nil {
		return nil, asError(method, path, err)
	}
	if string(data) == "null" {
		data = nil
	}
	return data, nil
}

// asError takes an Error out of what go-proxmox and net/http wrapped it in.
func asError(method, path string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Method: method, Path: withoutQuery(path), Message: err.Error(), class: notUnderstood(method), cause: err}
}

func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// get reads an answer into a fresh value. Data that is not there, or of another kind, is an error:
// an empty list is not what a server that answers null has said.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var into T
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	data, err := c.call(ctx, http.MethodGet, target, nil)
	if err != nil {
		return into, err
	}
	if data == nil {
		return into, &Error{Method: http.MethodGet, Path: path, Message: "the answer has no data", class: Garbled}
	}
	if err := json.Unmarshal(data, &into); err != nil {
		var none T
		return none, &Error{Method: http.MethodGet, Path: path, Message: "the answer is of another kind: " + err.Error(), class: Garbled, cause: err}
	}
	return into, nil
}

// order makes a call whose answer names a task. One that names none was accepted, perhaps.
func (c *Client) order(ctx context.Context, method, path string, params map[string]any) (UPID, error) {
	data, err := c.call(ctx, method, path, params)
	if err != nil {
		return "", err
	}
	return taskIn(method, path, data)
}

// taskIn returns the task that an answer names.
func taskIn(method, path string, data json.RawMessage) (UPID, error) {
	upid := UPID(asText(data))
	if !upid.Valid() {
		return "", &Error{Method: method, Path: withoutQuery(path), Message: fmt.Sprintf("the answer names no task: %.80q", asText(data)), class: Unanswered}
	}
	return upid, nil
}

// The names that the server takes in paths. What is not one is not sent: with a slash in it, it
// would be another call.
var (
	nodeName    = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
	storageName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]$`)
)

const (
	minVMID = 100
	maxVMID = 999_999_999
)

// onNode returns the path of something of a host.
func onNode(method, node, rest string) (string, error) {
	path := "/nodes/" + url.PathEscape(node) + rest
	if !nodeName.MatchString(node) {
		return "", invalid(method, path, "node must be the name of a host, was %q", node)
	}
	return path, nil
}

// onStorage returns the path of something of a storage as a host sees it.
func onStorage(method, node, storage, rest string) (string, error) {
	path, err := onNode(method, node, "/storage/"+url.PathEscape(storage)+rest)
	if err == nil && !storageName.MatchString(storage) {
		return "", invalid(method, path, "storage must be the name of a storage, was %q", storage)
	}
	return path, err
}

// bit is a boolean as the server wants it: JSON's true passes in some places only.
func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}
