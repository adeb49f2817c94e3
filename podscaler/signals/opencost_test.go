package signals

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOpenCostIsHeldAgainstThePriceBook(t *testing.T) {
	nodes := func(prices ...float64) map[string]float64 {
		m := map[string]float64{}
		for i, p := range prices {
			m[string(rune('a'+i))] = p
		}
		return m
	}
	for _, c := range []struct {
		name        string
		book, shown map[string]float64
		want        string
	}{
		{"they agree", nodes(10, 10, 10, 10), nodes(10, 10.1, 9.9, 10), ""},
		{"scenario 28: 4 nodes are 40/h, and OpenCost shows 10/730 for each", nodes(10, 10, 10, 10), nodes(10./730, 10./730, 10./730, 10./730), "CostSourceMismatch: OpenCost shows 0.05479/h for 4 nodes, the price book 40/h (a 730th: a price an hour that it took for one a month): the price book counts"},
		{"multiplied by 730", nodes(10), nodes(7300), "CostSourceMismatch: OpenCost shows 7300/h for 1 node, the price book 10/h (730 times as much: a price a month that it took for one an hour): the price book counts"},
		{"without prices", nodes(10, 5), nodes(0, 0), "CostSourceMismatch: OpenCost shows 0/h for 2 nodes, the price book 15/h (it has no prices): the price book counts"},
		{"a price book without prices", nodes(0, 0), nodes(1, 2), "CostSourceMismatch: OpenCost shows 3/h for 2 nodes, the price book 0/h (the price book has no prices): the price book counts"},
		{"both without", nodes(0, 0), nodes(0, 0), ""},
		{"in dollars", nodes(10, 10), nodes(11.5, 11.5), "CostSourceMismatch: OpenCost shows 23/h for 2 nodes, the price book 20/h (1.15 times as much: other prices, or another currency): the price book counts"},
		{"one node is off", nodes(10, 10, 10), nodes(10, 12, 10), "CostSourceMismatch: OpenCost shows 12/h for node b, the price book 10/h, and they disagree on 1 of 3 nodes: the price book counts"},
		{"nodes that only one knows do not count", nodes(10, 10), nodes(10), ""},
		{"no node in common", nodes(10, 10), map[string]float64{"x": 10}, "CostSourceMismatch: OpenCost shows a cost for none of 2 nodes that the price book knows: the price book counts"},
		{"NaN is no cost", nodes(10, 10), nodes(10, nan()), ""},
		{"no nodes", nil, nodes(1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lines(CompareCosts(c.book, c.shown)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func nan() float64 { return inf - inf }

func TestOpenCostIsReadFromItsPageOrFromPrometheus(t *testing.T) {
	book := func() map[string]float64 { return map[string]float64{"n1": 10, "n2": 10} }
	const want = "CostSourceMismatch: OpenCost shows 0.0274/h for 2 nodes, the price book 20/h (a 730th: a price an hour that it took for one a month): the price book counts"
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("node_total_hourly_cost{instance=\"x\",node=\"n1\"} 0.0137\nnode_total_hourly_cost{node=\"n2\"} 0.0137\nnode_cpu_hourly_cost{node=\"n2\"} 5\n"))
	})
	page := httptest.NewServer(mux)
	t.Cleanup(page.Close)
	f := newFake(t, func(q string) string {
		if !strings.HasPrefix(q, "max by (node, exported_node) (node_total_hourly_cost)") {
			return "503"
		}
		return vector(noon, `{node="scraped";exported_node="n1"} 0.0137`, `{node="n2"} 0.0137`)
	})
	for _, c := range []struct {
		name, url, want string
	}{
		{"its page", page.URL, want},
		{"its page, with a slash", page.URL + "/", want},
		{"Prometheus", "", want},
		{"nowhere", page.URL + "/nowhere", "MetricsUnknown: openCost: invalid answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reader(t, f, source(Spec{OpenCost: &OpenCost{URL: c.url}}), Options{NodePrices: book})
			if got := lines(r.Findings("shop/cart")); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			// Cost is the price book's: what OpenCost does is no gap in what is measured.
			r.Prepare(context.Background(), noon.Add(1))
			if w := read(t, r, "shop/cart", noon.Add(1)); !w.Since.Equal(noon) {
				t.Errorf("measured without a gap since %s", w.Since)
			}
		})
	}
}
