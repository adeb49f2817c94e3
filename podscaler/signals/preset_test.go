package signals

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// parts are those of a preset's query: what its answer's series are labelled by, and conditions.
var (
	parts      = regexp.MustCompile(`by \(([^)]*)\) [^{]*\{([^}]*)\}`)
	conditions = regexp.MustCompile(`(\w+)(=~|=)("(?:[^"\\]|\\.)*")`)
)

// chosen answers a query as Prometheus does that has sampled one series, of 4 a second.
func chosen(query, labels string) string {
	has := map[string]string{}
	for pair := range strings.SplitSeq(labels, ";") {
		name, value, _ := strings.Cut(pair, "=")
		has[name] = strings.Trim(value, `"`)
	}
	var series []string
	for _, part := range parts.FindAllStringSubmatch(query, -1) {
		meets := true
		for _, c := range conditions.FindAllStringSubmatch(part[2], -1) {
			value, _ := strconv.Unquote(c[3])
			if c[2] == "=" {
				value = regexp.QuoteMeta(value)
			}
			meets = meets && regexp.MustCompile("^(?:"+value+")$").MatchString(has[c[1]])
		}
		if !meets {
			continue
		}
		var by []string
		for name := range strings.SplitSeq(part[1], ", ") {
			by = append(by, fmt.Sprintf("%s=%q", name, has[name]))
		}
		number := 4
		if strings.Contains(query, "timestamp(") {
			number = int(noon.Unix()) - 5
		}
		series = append(series, fmt.Sprintf("{%s} %d", strings.Join(by, ";"), number))
	}
	return vector(noon, series...)
}

// The series of a Service are those of its workload alone, by every name that exporters write,
// and whoever else's series an answer holds.
func TestRequestsAreThoseOfTheirOwnService(t *testing.T) {
	const hash = "0123456789abcdef0123"
	for _, c := range []struct {
		preset Preset
		labels string
		of     string // of the workloads web, web-http and web-http-admin
	}{
		{Traefik, `service="shop-web-80@kubernetes"`, "web"},
		{Traefik, `service="shop-web-metrics@kubernetes"`, "web"},
		{Traefik, `service="shop-web-80@kubernetescrd"`, "web"},
		{Traefik, `service="shop-web-http-80@kubernetes"`, "web-http"},
		{Traefik, `service="traefik";exported_service="shop-web-http-80@kubernetes"`, "web-http"},
		// An IngressRoute with one Service is counted by its own name and the hash of its rule.
		{Traefik, `service="shop-web-` + hash + `@kubernetescrd"`, ""},
		{Traefik, `service="shop-web-http-` + hash + `@kubernetescrd"`, ""},
		// A Gateway puts the route's kind between Service and port, before version 3.2 nothing.
		{Traefik, `service="shop-web-http-80@kubernetesgateway"`, "web"},
		{Traefik, `service="shop-web-grpc-80@kubernetesgateway"`, "web"},
		{Traefik, `service="shop-web-http-http-80@kubernetesgateway"`, "web-http"},
		{Traefik, `service="shop-web-80@kubernetesgateway"`, "web"},
		// This is namespace, Ingress, Service and port.
		{Traefik, `service="shop-web-http-80@kubernetesingressnginx"`, ""},
		{Traefik, `service="shop-web-80@file"`, ""},
		{IngressNginx, `namespace="shop";service="web"`, "web"},
		{IngressNginx, `namespace="ingress";service="web";exported_namespace="shop";exported_service="web-http"`, "web-http"},
		// A PodMonitor sets a namespace and no service.
		{IngressNginx, `namespace="ingress";exported_namespace="shop";service="web"`, "web"},
		{IngressNginx, `namespace="shop";exported_namespace="bank";service="web"`, ""},
		{IngressNginx, `namespace="shop";exported_namespace="shop";service="web";exported_service="web-http"`, "web-http"},
	} {
		f := newFake(t, func(q string) string { return chosen(q, c.labels) })
		r := New(Options{Access: lenient, Prometheus: &Prometheus{URL: f.URL}})
		sources, got := map[string]Source{}, ""
		for _, name := range []string{"web", "web-http", "web-http-admin"} {
			s := source(Spec{Preset: c.preset})
			s.Target.Name = name
			sources[name] = s
		}
		must.Do(t, r.Configure(sources))
		r.Prepare(context.Background(), noon)
		for name := range sources {
			if read(t, r, name, noon).Arrivals == podscaler.Known(4) {
				got += name
			}
		}
		if got != c.of {
			t.Errorf("%s {%s} counts for %q, want %q", c.preset, c.labels, got, c.of)
		}
	}
}
