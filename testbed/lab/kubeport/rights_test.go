//go:build lab

package kubeport

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// request is a line of the audit log, as far as it goes here.
type request struct {
	Verb                     string
	ImpersonatedUser         struct{ Username string }
	ObjectRef                struct{ Resource, Subresource, Namespace, Name, APIGroup string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	RequestURI               string
}

// need is what the API server had to allow.
func (r *request) need() kube.Need {
	n := kube.Need{Group: r.ObjectRef.APIGroup, Resource: r.ObjectRef.Resource, Verb: r.Verb}
	if r.ObjectRef.Subresource != "" {
		n.Resource += "/" + r.ObjectRef.Subresource
	}
	if r.ObjectRef.Subresource == "scale" {
		n.Group, n.Resource = "*", "*/scale"
	}
	n.Own = r.ObjectRef.Namespace == "plimsoll"
	return n
}

// requests reads what a user asked for.
func (w *world) requests(of string) []request {
	w.Helper()
	f, err := os.Open(w.lab.AuditLog())
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []request
	for d := json.NewDecoder(f); ; {
		var r request
		if err := d.Decode(&r); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all
		} else if err != nil {
			w.Fatal(err)
		}
		if r.ImpersonatedUser.Username == of {
			all = append(all, r)
		}
	}
}

// rights compares what is said to be needed with what was asked for.
func (w *world) rights() {
	needs := kube.Needs(kube.Active)
	used := map[kube.Need]bool{}
	for _, r := range w.requests(user) {
		if r.ObjectRef.Resource == "" {
			continue // which kinds there are, and readiness: everybody may ask
		}
		if r.ResponseStatus.Code == 403 {
			w.Errorf("refused: %s %s", r.Verb, r.RequestURI)
		}
		n := r.need()
		used[n] = true
		if !slices.Contains(needs, n) {
			w.Errorf("used and not said: %+v", n)
		}
	}
	for _, n := range needs {
		// Servers that stream the first list with the watch are not asked for it; older ones are.
		// What names the cluster is read once, at the start, and not by the port.
		if !used[n] && n.Verb != "list" && n.Resource != "namespaces" {
			w.Errorf("said and not used: %+v", n)
		}
	}
}
