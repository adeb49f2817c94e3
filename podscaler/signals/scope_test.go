package signals

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAQueryIsInScopeOnlyIfEverySelectorIs(t *testing.T) {
	for _, query := range []string{
		`up{namespace="shop"}`,
		`sum(rate(app_seconds_count{namespace="shop",app="cart"}[2m])) / 3`,
		`histogram_quantile(0.9, sum by (le, pod) (rate(app_bucket{app='cart',namespace='shop'}[60s])))`,
		`sum by (pod) (a{namespace="shop"}) * on (pod) group_left (node) b{exported_namespace="shop"} offset 5m`,
		`sum(a{namespace="shop"}) without (le) > bool 1e-3 and on() vector(1)`,
		`topk by(pod)(3, a{namespace="shop"}) or b{namespace="shop"} unless c{namespace="shop"} @ start()`,
		`max_over_time(rate({__name__="a", namespace="shop",}[5m])[1h:30s]) # other{namespace="x"}`,
		"a{ namespace = `shop`, b=~\"c|}{\", c!=\"\" } atan2 1.5 ^ -2 + Inf - .5",
		`a:b:rate5m{"c.d"="e", namespace="shop"} and {"http.requests", namespace="shop"}`,
		`count_values("v", a{destination_workload_namespace="shop"})`,
		`1`, `vector(0x1F)`, `a{namespace="shop"} * 5m30s`,
	} {
		if err := checkScope(query, "shop"); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for _, query := range []string{
		`up`, `up{}`, `up{app="cart"}`, `up{namespace="bank"}`, `up{namespace=~"shop"}`, `up{namespace!="bank"}`, `up{namespace="shop|bank"}`,
		`up{namespace=~"shop",namespace=~".+"}`, `sum(up)`, `sum(a{namespace="shop"}) + up`, `sum(a{namespace="shop"}) + sum(b)`,
		`a{namespace="shop"} or up`, `a{namespace="shop"} or sum by (x) (up)`, `a{namespace="shop"} offset 5m or up[5m]`, `sum by (x) up`,
		// what other stores' dialects have between braces
		`up{namespace="shop" or namespace="bank"}`, `up{namespace="shop" or app="x"}`, `WITH (x = {namespace="bank"}) up{x}`,
		`WITH (x = up) x`, `up{namespace="sh"+"op"}`, `up{common, namespace="shop"}`, `a{namespace="shop"} keep_metric_names`, `a{namespace="shop"} default up`,
		// words of the language where they are names
		`and`, `a{namespace="shop"} and and`, `by`, `sum`, `bool`, `a{namespace="shop"} + offset`, `on(x) up`, `group_left up`, `a{namespace="shop"} group_left up`,
		`info(a{namespace="shop"})`, `INFO(a{namespace="shop"})`,
		// what ends where one reader thinks and another does not
		"a{namespace=\"shop\"} # \r + up", "a{b=`\\`,namespace=\"shop\",c=`}`}", "`\\` + up + `", `a{b="\",namespace="shop"}`, "a{b=\"\n\",namespace=\"shop\"}",
		`a{namespace="shop"`, `sum by (le`, `a{namespace="shop"}}`, `}`, `"`, `a{namespace="shop"} + 1up`, `1or(up)`, `a{namespace="shop"} + é`, `$x`, `a\.b{namespace="shop"}`,
		`by (up{namespace="bank"})`, `sum by (sum(up)) (a{namespace="shop"})`, `by by (x)`, `{"up"}`, `{"namespace"}`,
	} {
		if checkScope(query, "shop") == nil {
			t.Errorf("%s is taken to be about the namespace shop alone", query)
		}
	}
}

// Whatever is put together of pieces that are in scope and of one that is not, is not.
func TestOneSelectorOutOfScopeIsFoundWhereverItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outside := rapid.SampledFrom([]string{`queue`, `queue{job="a"}`, `{__name__=~".+"}`, `queue{namespace="shops"}`, "queue{x=`namespace=\"shop\"`}"}).Draw(t, "outside")
		query := outside
		for range rapid.IntRange(0, 6).Draw(t, "depth") {
			switch inside := `a{b="}{\"",namespace="shop"}`; rapid.IntRange(0, 7).Draw(t, "how") {
			case 0:
				query = "sum by (le) (" + query + ")"
			case 1:
				query = query + " + " + inside
			case 2:
				query = inside + " or " + query
			case 3:
				query = inside + " * on (pod) group_left (a, b) " + query
			case 4:
				query = "rate(" + query + "[5m])"
			case 5:
				query = "# shop\n" + query + " # {namespace=\"shop\"}\n"
			case 6:
				query = query + " > bool 5m"
			case 7:
				query = "avg without (x) (" + inside + ") / (" + query + ")"
			}
		}
		if checkScope(query, "shop") == nil {
			t.Fatalf("%s is taken to be about the namespace shop alone", query)
		}
		within := strings.ReplaceAll(query, outside, `up{namespace="shop"}`)
		if err := checkScope(within, "shop"); err != nil {
			t.Fatalf("%s: %v", within, err)
		}
	})
}

func FuzzScope(f *testing.F) {
	f.Add(`sum by (le) (rate(a{namespace="shop"}[5m]))`)
	f.Add("a{b=`\\`}")
	f.Fuzz(func(t *testing.T, query string) {
		if checkScope(query, "shop") == nil && strings.ContainsRune(query, '{') && !strings.Contains(query, "shop") && !strings.ContainsAny(query, "\"'`#") {
			t.Errorf("%q", query)
		}
	})
}

// On the Prometheus that all share an owner's query is about the owner's namespace. What is not is not sent,
// and the rest is measured.
func TestOwnersAskTheSharedPrometheusAboutTheirNamespaceOnly(t *testing.T) {
	f := newFake(t, istio)
	spec := Spec{Preset: Istio, Metrics: []Series{
		{Name: "mine", Query: `sum(queue{namespace="$namespace"})`}, {Name: "theirs", Query: `sum(queue{namespace="bank"})`},
	}}
	strict := Access{FreeQueries: []string{"other"}}
	r := reader(t, f, source(spec), Options{Access: strict})
	w := read(t, r, "shop/cart", noon)
	if !w.Arrivals.Known || !w.Metrics["mine"].Total.Known || w.Metrics["theirs"].Total.Known {
		t.Errorf("got %+v", w)
	}
	want := `MetricsUnknown: theirs: refused by policy: on the Prometheus that all namespaces share a query must have namespace="shop" in every selector, was "one without"`
	if got := lines(r.Findings("shop/cart")); got != want {
		t.Errorf("findings:\n%s\nwant\n%s", got, want)
	}
	for _, q := range f.asked() {
		if strings.Contains(q, "bank") {
			t.Errorf("asked %s", q)
		}
	}
	strict.FreeQueries = []string{"shop"}
	if w := read(t, reader(t, f, source(spec), Options{Access: strict}), "shop/cart", noon); !w.Metrics["theirs"].Total.Known {
		t.Errorf("where the administrator allows it: %+v", w)
	}
}

func TestAServicesNameIsOneOfTheNamespace(t *testing.T) {
	for _, c := range []struct {
		preset  Preset
		service string
		match   map[string]string
		fine    bool
	}{
		{Envoy, "outbound|80||cart.shop.svc.cluster.local", nil, true},
		{Envoy, "shop_cart_80", nil, true},
		{Envoy, "outbound|80||cart.bank.svc.cluster.local", nil, false},
		{Envoy, "workshop/cart", nil, false},
		{Envoy, "shop-admin/cart", nil, false},
		{Envoy, "local_app", nil, false},
		{Envoy, "local_app", map[string]string{"namespace": "shop"}, true},
		{Envoy, "local_app", map[string]string{"namespace": "bank"}, false},
		{OTel, "", nil, true},
		{OTel, "bank/teller", nil, false},
		{OTel, "shop/cart", nil, true},
		{Traefik, "teller", nil, true}, // the namespace is put before it
		{Traefik, "shop-cart-80@kubernetes", nil, true},
		{Traefik, "bank-teller-80@kubernetes", nil, false},
		{IngressNginx, "teller", nil, true},
	} {
		f := newFake(t, func(string) string { return vector(noon) })
		r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
		s := source(Spec{Preset: c.preset, Service: c.service, Match: c.match})
		if err := r.Configure(map[string]Source{"shop/cart": s}); err != nil {
			t.Fatal(err)
		}
		r.Prepare(context.Background(), noon)
		refused := strings.Contains(lines(r.Findings("shop/cart")), refusedByPolicy)
		if asked := len(f.asked()) > 0; asked != c.fine || refused == c.fine {
			t.Errorf("%s %s %v: asked %t, refused %t", c.preset, c.service, c.match, asked, refused)
		}
	}
}
