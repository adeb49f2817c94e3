package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// authentications are KEDA's objects that say by what a trigger is let in, by kind, namespace and
// name; that of a cluster has no namespace.
type authentications map[string]*authentication

type authentication struct {
	object map[string]any
	named  bool // a trigger names it
}

func readAuthentications(objects []map[string]any) authentications {
	all := authentications{}
	for _, object := range objects {
		if key := authenticationKey(object); key != "" {
			all[key] = &authentication{object: object}
		}
	}
	return all
}

// authenticationKey is empty for all else.
func authenticationKey(object map[string]any) string {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	switch {
	case !strings.HasPrefix(version, "keda.sh/"):
		return ""
	case kind == "ClusterTriggerAuthentication":
		return kind + " /" + name
	case kind == "TriggerAuthentication":
		return kind + " " + namespace + "/" + name
	}
	return ""
}

// used reports whether an object is one that a trigger names, and so is read with that.
func (a authentications) used(object map[string]any) bool {
	of := a[authenticationKey(object)]
	return of != nil && of.named
}

// parameters are what KEDA calls the parts of a credential, with the keys that they have in our
// Secrets.
var parameters = map[string]string{
	"bearerToken": "token", "username": "username", "password": "password", "ca": "ca.crt", "cert": "tls.crt", "key": "tls.key",
}

// authenticate carries over by what a trigger is let in, if its Secret can be read as it is.
func authenticate(p *v1alpha1.Prometheus, t tree) {
	settings, ref := t.at("metadata"), t.at("authenticationRef")
	addHeaders(p, settings.at("customHeaders"))
	modes := settings.at("authModes")
	if !ref.there() {
		modes.lose("follows from the keys of the secret in signals.prometheus.secretName, and no authenticationRef names one")
		return
	}
	secret, why := secretOf(ref, t.namespace)
	switch {
	case why != "":
		ref.lose("%s", why)
		modes.lose("follows from the keys of that secret")
	case p.SecretName != "" && p.SecretName != secret:
		ref.lose("names another secret than the triggers before it, %s, and one autoscaler shows one: %s", secret, p.SecretName)
		modes.lose("follows from the keys of that secret")
	default:
		p.SecretName = secret
		for _, mode := range strings.Split(modes.text(), ",") {
			if !slices.Contains([]string{"", "bearer", "basic", "tls"}, strings.TrimSpace(mode)) {
				modes.lose("%s: only a token, a name with a password, and certificates are shown", mode)
			}
		}
	}
}

// secretOf is the Secret that a trigger's credentials are in, or why Plimsoll cannot read them
// there.
func secretOf(ref tree, namespace string) (secret, why string) {
	const wanted = "signals.prometheus.secretName names one Secret of the workload's namespace, with token, or username and password, and ca.crt, tls.crt and tls.key"
	name, kind := ref.at("name").needed(), ref.at("kind").text()
	if kind == "" {
		kind = "TriggerAuthentication"
	}
	if kind == "ClusterTriggerAuthentication" {
		namespace = ""
	}
	of := ref.auths[kind+" "+namespace+"/"+name]
	if of == nil {
		return "", fmt.Sprintf("%s %s is not in this file, so that its secret is not known: %s", kind, name, wanted)
	}
	of.named = true
	var parts []string
	same := true
	spec, _ := of.object["spec"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		if key != "secretTargetRef" {
			return "", fmt.Sprintf("%s %s takes credentials from %s, which is not read: %s", kind, name, key, wanted)
		}
	}
	targets, _ := spec["secretTargetRef"].([]any)
	for _, target := range targets {
		from, _ := target.(map[string]any)
		parameter, in, key := fmt.Sprint(from["parameter"]), fmt.Sprint(from["name"]), fmt.Sprint(from["key"])
		ours := parameters[parameter]
		if ours == "" {
			return "", fmt.Sprintf("%s %s has the parameter %s, which is not shown: %s", kind, name, parameter, wanted)
		}
		same = same && (secret == "" || secret == in) && key == ours
		secret = in
		parts = append(parts, fmt.Sprintf("%s from %s in %s", ours, key, in))
	}
	switch {
	case len(parts) == 0:
		return "", fmt.Sprintf("%s %s names no secret: %s", kind, name, wanted)
	case kind == "ClusterTriggerAuthentication":
		return "", fmt.Sprintf("%s %s: its secret is in KEDA's own namespace, and those of the workload's are read: copy it, and %s (%s)", kind, name, wanted, strings.Join(parts, ", "))
	case !same:
		return "", fmt.Sprintf("%s %s: the keys are called otherwise here: %s (%s)", kind, name, wanted, strings.Join(parts, ", "))
	}
	return secret, ""
}

// What the API takes for headers.
var (
	headerName  = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)
	headerValue = regexp.MustCompile(`^[ -~]*$`)
)

// addHeaders carries over headers, as KEDA writes them: Name=value,Other=value.
func addHeaders(p *v1alpha1.Prometheus, t tree) {
	if !t.there() {
		return
	}
	for _, pair := range strings.Split(t.text(), ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || !headerName.MatchString(name) || strings.EqualFold(name, "Authorization") || len(value) > 1024 || !headerValue.MatchString(value) {
			t.lose("%q is no header that is sent: signals.prometheus.headers has a name and a value for each, and credentials are in a secret", pair)
			return
		}
		if len(p.Headers) == 16 && p.Headers[name] == "" {
			t.lose("has more than 16 headers, of which signals.prometheus.headers has no more")
			return
		}
		if p.Headers == nil {
			p.Headers = map[string]v1alpha1.HeaderValue{}
		}
		p.Headers[name] = v1alpha1.HeaderValue(value)
	}
}
