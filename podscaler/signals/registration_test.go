package signals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// fakeRegistry answers by path as the registries of this world do.
func fakeRegistry(t *testing.T) *httptest.Server {
	answers := map[string]string{
		"/count":    `{"count": 3, "comment": "others may write more"}`,
		"/none":     `{"count": 0}`,
		"/versions": `{"count": 4, "versions": {"1.4": 2, "1.5": 1, "1.3": 0}, "at": "2026-03-01T11:59:00Z"}`,
		"/instances": `{"instances": [{"name": "a", "version": "1.4", "status": "up"}, {"name": "b", "version": "1.5"}, {"name": "b", "version": "1.5"},
			{"name": "c", "status": "DOWN"}, {"version": "1.5"}, {}]}`,
		"/eureka/apps/CART": `{"application":{"name":"CART","instance":[
			{"instanceId":"10.0.0.7:cart:8080","hostName":"10.0.0.7","app":"CART","status":"UP","port":{"$":8080,"@enabled":"true"},"metadata":{"management.port":"8081","version":"1.4"}},
			{"instanceId":"10.0.0.8:cart:8080","status":"UP","metadata":{"@class":"java.util.Collections$EmptyMap"}},
			{"instanceId":"10.0.0.9:cart:8080","status":"STARTING","metadata":{"version":"1.5"}},
			{"hostName":"10.0.0.10","status":"OUT_OF_SERVICE"}]}}`,
		"/eureka/one": `{"application":{"name":"CART","instance":{"instanceId":"10.0.0.7:cart:8080","status":"UP"}}}`,
		"/v1/health/service/cart?ns=shop": `[
			{"Node":{"ID":"n1","Node":"node-1"},"Service":{"ID":"cart-1","Service":"cart","Meta":{"version":"1.4"}},"Checks":[{"CheckID":"serfHealth","Status":"passing"},{"CheckID":"x","Status":"warning"}]},
			{"Node":{"ID":"n2","Node":"node-2"},"Service":{"ID":"cart-1","Service":"cart","Meta":{}},"Checks":[]},
			{"Node":{"ID":"n3","Node":"node-3"},"Service":{"ID":"cart-1","Service":"cart","Meta":null},"Checks":[{"CheckID":"_service_maintenance","Status":"critical"}]}]`,
		"/v1/catalog/service/cart": `[{"Node":"node-1","ServiceID":"cart-1","ServiceMeta":{"version":"1.4"}},{"Node":"node-2","ServiceID":"cart-1"}]`,
		"/v1/health/service/typo":  `[]`,
		"/nobody":                  `{"instances": []}`,
		"/empty":                   " \n",
		"/other":                   `{"status": "ok"}`,
		"/xml":                     `<application/>`,
		"/number":                  `3`,
		"/list-of-others":          `[{"id": 3}]`,
		"/contradiction":           `{"count": 5, "instances": [{"name": "a"}]}`,
		"/negative":                `{"count": -1}`,
		"/too-many":                `{"count": 1, "versions": {"1.4": 2}}`,
		"/stale":                   `{"count": 3, "at": "2026-03-01T11:57:00Z"}`,
		"/cached":                  `{"count": 3}`,
		"/long":                    `{"count": 3, "x": "` + strings.Repeat("x", 1<<17) + `"}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, known := answers[r.URL.RequestURI()]
		switch {
		case r.URL.Path == "/hang":
			<-r.Context().Done()
			return
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/count", http.StatusFound)
			return
		case r.URL.Path == "/guarded" && r.Header.Get("Authorization") == "Bearer s3cret" && r.Header.Get("X-Scope") == "shop":
			body, known = `{"count": 7}`, true
		case r.URL.Path == "/cached":
			w.Header().Set("Age", "180")
		}
		if !known || r.Header.Get("Accept") != "application/json" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func registryAt(url string) Spec { return Spec{Registration: &Registration{URL: url}} }

func TestRegistriesSayHowManyInstancesGetRequests(t *testing.T) {
	s := fakeRegistry(t)
	for path, want := range map[string]struct {
		count    float64
		versions map[string]int
	}{
		"/count":                          {3, nil},
		"/none":                           {0, nil},
		"/versions":                       {4, map[string]int{"1.4": 2, "1.5": 1}},
		"/instances":                      {4, map[string]int{"1.4": 1, "1.5": 2}},
		"/eureka/apps/CART":               {2, map[string]int{"1.4": 1}},
		"/eureka/one":                     {1, nil},
		"/v1/health/service/cart?ns=shop": {2, map[string]int{"1.4": 1}},
		"/v1/catalog/service/cart":        {2, map[string]int{"1.4": 1}},
	} {
		t.Run(path, func(t *testing.T) {
			r := reader(t, nil, source(registryAt(s.URL+path)), Options{})
			w := read(t, r, "shop/cart", noon)
			want := podscaler.Window{Registered: podscaler.Known(want.count), RegisteredVersions: want.versions, Since: noon}
			if d := cmp.Diff(want, w); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got := r.Findings("shop/cart"); got != nil {
				t.Errorf("findings: %s", lines(got))
			}
		})
	}
}

// Nothing but a count that was said is one: no error, no empty list, no old answer is a 0.
func TestWhatIsNoRegistrationIsUnknownAndNeverZero(t *testing.T) {
	s := fakeRegistry(t)
	for path, want := range map[string]string{
		"/v1/health/service/typo": "MetricsUnknown: registration: the registry lists no instance at all, which is what one says that does not know the name",
		"/nobody":                 "MetricsUnknown: registration: the registry lists no instance at all, which is what one says that does not know the name",
		"/empty":                  "MetricsUnknown: registration: the answer is empty",
		"/other":                  "MetricsUnknown: registration: the answer has neither a count nor instances, and is not that of Consul or Eureka",
		"/xml":                    "MetricsUnknown: registration: the answer must be JSON of a registry: invalid character '<' looking for beginning of value",
		"/number":                 "MetricsUnknown: registration: the answer must be JSON of a registry: json: cannot unmarshal number into Go value of type signals.registryAnswer",
		"/list-of-others":         "MetricsUnknown: registration: the answer lists an instance without a service id, which is not how Consul writes it",
		"/contradiction":          "MetricsUnknown: registration: the answer's count must be that of its instances which are up, 1, was 5",
		"/negative":               "MetricsUnknown: registration: the answer's count must be at least 0 and what its versions add up to, was -1",
		"/too-many":               "MetricsUnknown: registration: the answer's count must be at least 0 and what its versions add up to, was 1",
		"/stale":                  "MetricsStale: registration: the answer is 3m0s old by this clock, must be at most 2m0s",
		"/cached":                 "MetricsStale: registration: the answer is 3m0s old by this clock, must be at most 2m0s",
		"/long":                   "MetricsUnknown: registration: the answer is longer than 65536 bytes",
		"/absent":                 "MetricsUnknown: registration: the registry answers 404 Not Found",
		"/moved":                  "MetricsUnknown: registration: the registry answers 302 Found",
		"/guarded":                "MetricsUnknown: registration: the registry answers 404 Not Found",
		"/hang":                   "MetricsUnknown: registration: no answer in time",
	} {
		t.Run(path, func(t *testing.T) {
			var log logbook
			r := reader(t, nil, source(registryAt(s.URL+path)), Options{Timeout: 500 * time.Millisecond, MaxBytes: 1 << 16, Log: slog.New(&log)})
			got := read(t, r, "shop/cart", noon)
			if got.Registered.Known || got.Registered.Why == "" || got.RegisteredVersions != nil {
				t.Errorf("got %+v", got)
			}
			// The status has a word for it; the rest is for the log.
			status := want
			if detail, unknown := strings.CutPrefix(want, "MetricsUnknown: registration: "); unknown {
				word := invalidAnswer
				if detail == "no answer in time" {
					word = unreachable
				}
				status = "MetricsUnknown: registration: " + word
				if !strings.HasSuffix(log.all(), "is "+word+" because "+detail) {
					t.Errorf("the log says %q, want %q", log.all(), detail)
				}
			}
			if got := lines(r.Findings("shop/cart")); got != status {
				t.Errorf("findings:\n%s\nwant\n%s", got, status)
			}
		})
	}
}

func TestARegistryThatIsAway(t *testing.T) {
	s := fakeRegistry(t)
	r := reader(t, nil, source(registryAt(s.URL+"/count")), Options{})
	s.Close()
	r.Prepare(context.Background(), noon.Add(15*time.Second))
	got := read(t, r, "shop/cart", noon.Add(15*time.Second))
	if got.Registered.Known || got.Registered.Why != unreachable || !got.Since.After(noon) {
		t.Errorf("got %+v, should be a gap", got)
	}
}

func TestARegistryIsShownItsOwnWorkloadsSecret(t *testing.T) {
	s := fakeRegistry(t)
	spec := registryAt(s.URL + "/guarded")
	spec.Registration.SecretName, spec.Registration.Headers = "consul", map[string]string{"X-Scope": "shop"}
	var asked []string
	o := Options{Credentials: func(_ context.Context, namespace string, p Prometheus) (Credentials, error) {
		asked = append(asked, namespace+"/"+p.SecretName)
		return Credentials{Token: "s3cret"}, nil
	}}
	if got := read(t, reader(t, nil, source(spec), o), "shop/cart", noon).Registered; got != podscaler.Known(7) {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(asked, []string{"shop/consul"}) {
		t.Errorf("asked for %q", asked)
	}
	o.Credentials = func(context.Context, string, Prometheus) (Credentials, error) {
		return Credentials{}, errors.New("it is gone")
	}
	if got := read(t, reader(t, nil, source(spec), o), "shop/cart", noon).Registered; got.Known || got.Why != "its credentials cannot be read: it is gone" {
		t.Errorf("got %+v", got)
	}
}

func TestRegistrationsByQuery(t *testing.T) {
	unknown := func(why string) podscaler.Window { return podscaler.Window{Registered: podscaler.Reading{Why: why}} }
	for _, c := range []struct {
		name, perVersion, answer string
		want                     podscaler.Window
	}{
		{"a number", "", vector(noon, `{} 4`), podscaler.Window{Registered: podscaler.Known(4)}},
		{"none", "", vector(noon, `{} 0`), podscaler.Window{Registered: podscaler.Known(0)}},
		{"nothing", "", vector(noon), unknown("the query returned nothing")},
		{"nothing by version", "version", vector(noon), unknown("the query returned nothing")},
		{"several", "", vector(noon, `{version="1.4"} 3`, `{version="1.5"} 1`), unknown("the query returned 2 series, must be one")},
		{"by version", "version", vector(noon, `{version="1.4"} 3`, `{version="1.5"} 1`, `{} 2`), podscaler.Window{
			Registered: podscaler.Known(6), RegisteredVersions: map[string]int{"1.4": 3, "1.5": 1},
		}},
		{"a version twice", "version", vector(noon, `{version="1.4";a="1"} 3`, `{version="1.4";a="2"} 1`), unknown(`the query returned several series for version "1.4", must be one`)},
		{"half an instance", "", vector(noon, `{} 2.5`), unknown("the query returned 2.5, must be a number of instances")},
		{"fewer than none", "version", vector(noon, `{version="1.4"} -1`), unknown("the query returned -1, must be a number of instances")},
		{"NaN", "version", vector(noon, `{version="1.4"} NaN`), unknown("the query returned NaN, which is no measurement")},
		{"what was true long ago", "", vector(noon.Add(-3*time.Minute), `{} 4`), unknown("the answer is 3m0s old by this clock, must be at most 2m0s")},
		{"a server that is down", "", "503", unknown("invalid answer")},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(string) string { return c.answer })
			spec := Spec{Registration: &Registration{Query: `sum(up{job="$workload"})`, PerVersion: c.perVersion}}
			r := reader(t, f, source(spec), Options{})
			c.want.Since = noon
			if d := cmp.Diff(c.want, read(t, r, "shop/cart", noon)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if asked := f.asked(); !slices.Equal(asked, []string{`sum(up{job="cart"})`}) {
				t.Errorf("asked %q", asked)
			}
			if told := len(r.Findings("shop/cart")) > 0; told == c.want.Registered.Known {
				t.Errorf("findings: %s", lines(r.Findings("shop/cart")))
			}
		})
	}
	t.Run("without a Prometheus", func(t *testing.T) {
		got := read(t, reader(t, nil, source(Spec{Registration: &Registration{Query: "x"}}), Options{}), "shop/cart", noon)
		if got.Registered.Known || !strings.HasPrefix(got.Registered.Why, "no Prometheus is known to ask") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestARegistrationThatIsTooOldIsUnknown(t *testing.T) {
	s := fakeRegistry(t)
	r := reader(t, nil, source(registryAt(s.URL+"/versions")), Options{})
	if got := read(t, r, "shop/cart", noon.Add(3*time.Minute)); got.Registered.Known || got.Registered.Why == "" || got.RegisteredVersions != nil {
		t.Errorf("got %+v", got)
	}
	fresh := New(Options{Access: lenient})
	must.Do(t, fresh.Configure(map[string]Source{"shop/cart": source(registryAt(s.URL + "/count"))}))
	if got := read(t, fresh, "shop/cart", noon).Registered; got.Known || got.Why != "it has not been measured yet" {
		t.Errorf("got %+v", got)
	}
}

// Any text of a registry is an error, or a count that its versions do not exceed.
func FuzzRegistries(f *testing.F) {
	for _, body := range []string{
		`{"count":2,"versions":{"a":1}}`, `{"instances":[{"name":"a","status":"UP"}],"count":1}`, `{"application":{"instance":{"status":"UP"}}}`,
		`[{"Node":{},"Service":{"ID":"a"},"Checks":[{"Status":"critical"}]}]`, `{"application":{"instance":[[]]}}`, `{"count":1,"versions":{"a":9223372036854775807,"b":9223372036854775807,"c":2}}`,
		`[null]`, `null`, `{"instances":null,"application":null,"count":null}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := parseRegistry(body)
		sum := 0
		for version, n := range g.versions {
			if version == "" || n <= 0 || sum > sum+n {
				t.Errorf("%q: %d of version %q", body, n, version)
			}
			sum += n
		}
		if err == nil && (g.count < 0 || sum > g.count) {
			t.Errorf("%q: %d instances, %v", body, g.count, g.versions)
		}
	})
}

func BenchmarkRegistry(b *testing.B) {
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprintf(`{"Node":{"Node":"n"},"Service":{"ID":"cart-%d","Meta":{"version":"1.4"}},"Checks":[{"Status":"passing"}]}`, i))
	}
	body := []byte("[" + strings.Join(list, ",") + "]")
	for b.Loop() {
		must.Get(parseRegistry(body))(b)
	}
}
