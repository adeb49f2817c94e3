package signals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/plimsoll/plimsoll/podscaler"
)

// nodeCost is OpenCost's series for what a node costs an hour.
const nodeCost = "node_total_hourly_cost"

// costSource is an OpenCost, and the workloads that want it held against the price book.
type costSource struct {
	namespace string
	url       string    // of its page; empty if a Prometheus is asked
	endpoint  *endpoint // which is asked
	door      *door
	refused   error // why its page may not be asked for
	workloads []string
	complaint *complaint
}

// measure reads what OpenCost shows, and has it compared with the price book. The price book counts
// even where they differ.
func (c *costSource) measure(r *round) func() {
	shown, err := map[string]float64{}, c.refused
	var asked *answer
	if c.url == "" {
		asked = r.query(c.endpoint, &request{text: "max by (node, exported_node) (" + nodeCost + ")", labels: []string{"node", "exported_node"}, namespace: c.endpoint.namespace, unit: "openCost"})
	} else if err == nil {
		r.add(lineOwn, &job{
			flow: flow{c.namespace, c.url}, unit: "openCost", limit: pageTimeout,
			run: func(ctx context.Context) error {
				shown, err = costPage(ctx, c.door, c.url)
				return err
			},
			refused: func(why error) { err = why },
		})
	}
	return func() {
		if asked != nil {
			shown, err = asked.nodeCosts(), asked.err
		} else {
			c.complaint.hear(r.options.Log, c.namespace, c.url, err)
		}
		reasons := CompareCosts(r.options.NodePrices(), shown)
		for _, name := range c.workloads {
			m := r.measured[name]
			switch {
			case errors.Is(err, errPutOff): // it is no more than a comparison
			case err != nil:
				m.note(CodeMetricsUnknown, "openCost", err.Error())
			default:
				for _, reason := range reasons {
					m.note(reason.Code, "", reason.Text)
				}
			}
		}
	}
}

func (a *answer) nodeCosts() map[string]float64 {
	shown := map[string]float64{}
	for _, s := range a.vector {
		node := string(s.Metric["exported_node"])
		if node == "" {
			node = string(s.Metric["node"])
		}
		shown[node] = float64(s.Value)
	}
	return shown
}

// costPage reads node prices from OpenCost's own page, which no credentials are sent to.
func costPage(ctx context.Context, d *door, url string) (map[string]float64, error) {
	if err := d.open(Credentials{}); err != nil {
		return nil, err
	}
	shown := map[string]float64{}
	err := get(ctx, d.client(), url, func(body io.Reader, complete bool) error {
		return parsePage(body, complete, func(name string) bool { return name == nodeCost }, func(s sample) error {
			node := s.get("node")
			switch {
			case node == "":
				return errors.New("a node's cost must name its node")
			case len(node) > maxLabel || len(shown) == maxSeries:
				return errors.New("there are too many nodes, or too long ones")
			}
			shown[node] = max(shown[node], s.value)
			return nil
		})
	})
	return shown, err
}

// costTolerance is how far prices of a node may be apart and still agree. What it takes to see
// is GB taken for GiB, which is 7 % of the memory's part.
const costTolerance = 0.03

// hoursAMonth is what OpenCost takes a month to have.
const hoursAMonth = 730.0

// CompareCosts holds what OpenCost shows for nodes against what the price book says, both in
// units an hour, and returns a finding if they disagree on the nodes that both know.
func CompareCosts(book, shown map[string]float64) []podscaler.Reason {
	var nodes, apart []string
	var ours, theirs float64
	for _, node := range slices.Sorted(maps.Keys(book)) {
		v, there := shown[node]
		if !there || !podscaler.Known(v).Known {
			continue
		}
		nodes = append(nodes, node)
		ours, theirs = ours+book[node], theirs+v
		if !agree(book[node], v) {
			apart = append(apart, node)
		}
	}
	switch {
	case len(book) == 0 || len(nodes) > 0 && len(apart) == 0:
		return nil
	case len(nodes) == 0:
		return mismatch("OpenCost shows a cost for none of %s that the price book knows: the price book counts", count(len(book)))
	case len(apart) < len(nodes):
		worst := apart[0]
		return mismatch("OpenCost shows %s/h for node %s, the price book %s/h, and they disagree on %d of %s: the price book counts",
			price(shown[worst]), worst, price(book[worst]), len(apart), count(len(nodes)))
	}
	return mismatch("OpenCost shows %s/h for %s, the price book %s/h (%s): the price book counts",
		price(theirs), count(len(nodes)), price(ours), cause(ours, theirs))
}

func mismatch(format string, args ...any) []podscaler.Reason {
	return []podscaler.Reason{podscaler.Because(CodeCostSourceMismatch, format, args...)}
}

func agree(a, b float64) bool {
	return math.Abs(a-b) <= costTolerance*max(math.Abs(a), math.Abs(b))
}

// cause is what most likely made the two disagree.
func cause(ours, theirs float64) string {
	switch {
	case theirs == 0:
		return "it has no prices"
	case ours == 0:
		return "the price book has no prices"
	case agree(theirs*hoursAMonth, ours):
		return "a 730th: a price an hour that it took for one a month"
	case agree(theirs, ours*hoursAMonth):
		return "730 times as much: a price a month that it took for one an hour"
	}
	return fmt.Sprintf("%s times as much: other prices, or another currency", price(theirs/ours))
}

func price(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func count(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}
