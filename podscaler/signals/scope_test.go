package signals

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
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
		`(sum(a{namespace="shop"})) or on() vector(0)`, "(a{namespace=\"shop\"} # all\n) or on() vector(0)",
		`1`, `vector(0x1F)`, `a{namespace="shop"} * 5m30s`,
		`a{namespace="shop",le=~"$target(\\.0)?"}`, `label_replace(a{namespace="shop"}, "b", "$1-${2}", "c", "(.*)-(.*)")`,
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

// Any query made of pieces that are in scope and of one that is not, is not in scope.
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

// On the Prometheus that all share an owner's query is about the owner's namespace. What is not is
// not sent, and the rest is measured.
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
		{Envoy, "outbound|80|v1|cart.shop.svc.k8s.example", nil, true},
		{Envoy, "outbound|80||shop.bank.svc.cluster.local", nil, false},
		{Envoy, "outbound|80||cart.bank.svc.shop.svc.local", nil, false},
		{Envoy, "httproute/shop/cart/rule/0", nil, true},
		{Envoy, "grpcroute/shop/cart/rule/12/backend/1", nil, true},
		{Envoy, "httproute/bank/shop/rule/0", nil, false},
		{Envoy, "bank_shop_80", nil, false},
		{Envoy, "shop_bank_svc_80", nil, false}, // Kuma's, of a service shop in the namespace bank
		{Envoy, "bank/shop", nil, false},
		{Envoy, "workshop_cart_80", nil, false},
		{Envoy, "shop-admin_cart_80", nil, false},
		{Envoy, "local_app", nil, false},
		{Envoy, "local_app", map[string]string{"namespace": "shop"}, true},
		{Envoy, "local_app", map[string]string{"namespace": "bank"}, false},
		{OTel, "", nil, true},
		{OTel, "bank/teller", nil, false},
		{OTel, "bank/shop", nil, false},
		{OTel, "cart", nil, false},
		{OTel, "cart", map[string]string{"namespace": "shop"}, true},
		{OTel, "shop/cart", nil, true},
		{Traefik, "", nil, true},
		{Traefik, "teller", nil, true},        // the namespace is put before it
		{Traefik, "admin-teller", nil, false}, // which could be that of shop-admin
		{Traefik, "admin-teller", map[string]string{"exported_namespace": "shop"}, true},
		{Traefik, "shop-cart-80@kubernetes", nil, true},
		{Traefik, "shop-cart-80@kubernetescrd", nil, true},
		{Traefik, "shop-admin-teller-80@kubernetes", nil, false},
		{Traefik, "shop-cart-80@file", nil, false},
		{Traefik, "bank-teller-80@kubernetes", nil, false},
		{IngressNginx, "teller", nil, true},
	} {
		f := newFake(t, func(string) string { return vector(noon) })
		r := New(Options{Prometheus: &Prometheus{URL: f.URL}})
		s := source(Spec{Preset: c.preset, Service: c.service, Match: c.match})
		must.Do(t, r.Configure(map[string]Source{"shop/cart": s}))
		r.Prepare(context.Background(), noon)
		refused := strings.Contains(lines(r.Findings("shop/cart")), refusedByPolicy)
		if asked := len(f.asked()) > 0; asked != c.fine || refused == c.fine {
			t.Errorf("%s %s %v: asked %t, refused %t", c.preset, c.service, c.match, asked, refused)
		}
	}
}

func TestAServiceOfNoCertainNamespaceIsRefusedWithWhatHelps(t *testing.T) {
	for _, c := range []struct {
		preset             Preset
		namespace, service string
		want               string
	}{
		{OTel, "shop", "bank/teller", `refused by policy: on the Prometheus that all namespaces share signals.service must be written as shop/<service>, was "bank/teller" in namespace shop: ` +
			`write it so, or have signals.match choose namespace: shop, or an administrator list shop in signals.freeQueries`},
		{Traefik, "shop-admin", "teller", `refused by policy: on the Prometheus that all namespaces share signals.service must be written as <word> or shop-admin-<word>-<word>@kubernetes<kind>, ` +
			`in a namespace of one <word>: a name of more words may be one of several namespaces', was "teller" in namespace shop-admin: ` +
			`write it so, or have signals.match choose namespace: shop-admin, or an administrator list shop-admin in signals.freeQueries`},
	} {
		s := source(Spec{Preset: c.preset, Service: c.service})
		s.Target.Namespace = c.namespace
		if err := s.serviceInScope(); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// written is what exporters write for a service of a namespace. Traefik makes one hyphen of all
// that is no letter or digit.
func written(t *rapid.T, preset Preset, namespace string, names *rapid.Generator[string]) string {
	name, port := names.Draw(t, "service"), rapid.IntRange(0, 99).Draw(t, "port")
	if preset == OTel {
		return namespace + "/" + name
	}
	if preset == Envoy {
		return rapid.SampledFrom([]string{
			fmt.Sprintf("outbound|%d|%s|%s.%s.svc.%s.%s", port, names.Draw(t, "subset"), name, namespace, names.Draw(t, "domain"), names.Draw(t, "domain")),
			fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port, name, namespace),
			fmt.Sprintf("%s_%s_%d", namespace, name, port),
			fmt.Sprintf("httproute/%s/%s/rule/%d", namespace, name, port),
			fmt.Sprintf("%s_%s_svc_%d", name, namespace, port),
		}).Draw(t, "cluster")
	}
	joined := rapid.SampledFrom([]string{
		fmt.Sprintf("%s-%s-%s@kubernetes", namespace, name, names.Draw(t, "name of the port")),
		fmt.Sprintf("%s-%s-%d@kubernetes", namespace, name, port),
		fmt.Sprintf("%s-%s-%d@kubernetescrd", namespace, name, port),
		fmt.Sprintf("%s-%s-http-%d@kubernetesgateway", namespace, name, port),
	}).Draw(t, "service")
	return regexp.MustCompile("-+").ReplaceAllString(joined, "-")
}

// What an object selects, by any name of its service, is nothing that an exporter writes for a
// service of another namespace. Names are of few words, so that they are often alike.
func TestNoServicesNameSelectsAnotherNamespaces(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "a", "shop", "api", "svc", "local", "cluster", "http", "httproute", "rule", "outbound", "80", "-"})
	names := rapid.Custom(func(t *rapid.T) string {
		return cmp.Or(strings.Trim(strings.Join(rapid.SliceOfN(words, 1, 3).Draw(t, "words"), "-"), "-"), "a")
	})
	admitted := 0
	rapid.Check(t, func(t *rapid.T) {
		preset := rapid.SampledFrom([]Preset{Envoy, OTel, Traefik}).Draw(t, "preset")
		mine, theirs := names.Draw(t, "mine"), names.Draw(t, "theirs")
		if mine == theirs {
			t.Skip("one namespace")
		}
		value := written(t, preset, theirs, names)
		from := rapid.IntRange(0, len(value)).Draw(t, "from")
		service := rapid.SampledFrom([]string{
			value, value[from:rapid.IntRange(from, len(value)).Draw(t, "to")], strings.TrimPrefix(value, mine+"-"), names.Draw(t, "other"), written(t, preset, mine, names),
			// For which the port is put behind it.
			strings.TrimPrefix(value[:max(0, strings.LastIndexByte(value, '-'))], mine+"-"),
		}).Draw(t, "chosen")
		s := source(Spec{Preset: preset, Service: service})
		s.Target = Target{Namespace: mine, Kind: "Deployment", Name: names.Draw(t, "workload")}
		if s.Validate() != nil || s.serviceInScope() != nil {
			return
		}
		admitted++
		if selects := presets[preset].names(&s)[0]; regexp.MustCompile("^(?:" + selects + ")$").MatchString(value) {
			t.Fatalf("%s in namespace %s selects %s of namespace %s", service, mine, value, theirs)
		}
	})
	if admitted == 0 {
		t.Error("nothing is ever admitted")
	}
}
