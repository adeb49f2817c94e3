package costs

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/allocation"
)

// costAnswer is what a cluster costs now.
type costAnswer struct {
	At       time.Time      `json:"at"`
	Cluster  string         `json:"context,omitempty"`
	Prices   string         `json:"prices"`
	Currency string         `json:"currency"`
	By       By             `json:"by"`
	Total    costLine       `json:"total"`
	Lines    []costLine     `json:"lines"`
	Unpriced []unpricedNode `json:"unpriced"`
	Notes    []string       `json:"notes,omitempty"`
}

// costLine is one row. Rates are per hour.
type costLine struct {
	Name string `json:"name"`
	Pool string `json:"pool,omitempty"`
	Host string `json:"host,omitempty"`
	// Nodes and Pods are those with a price; UnpricedPods are besides.
	Nodes        int                `json:"nodes,omitempty"`
	Pods         int                `json:"pods"`
	UnpricedPods int                `json:"unpricedPods,omitempty"`
	Requests     pricing.Resources  `json:"requests"`
	Allocatable  *pricing.Resources `json:"allocatable,omitempty"`

	// Known is whether the cost is known: not, if all the pods are on nodes without a price.
	Known     bool           `json:"known"`
	Cost      pricing.Rate   `json:"costPerHour"`
	Month     pricing.Micros `json:"costPerMonth"`
	Allocated pricing.Rate   `json:"allocatedPerHour"`
	Idle      pricing.Rate   `json:"idlePerHour"`
	System    pricing.Rate   `json:"systemPerHour"`
	Avoidable pricing.Rate   `json:"avoidablePerHour"`

	// Spare is whether a node could be done without, and Stays why not.
	Spare bool     `json:"spare,omitempty"`
	To    []string `json:"podsFitOn,omitempty"`
	Stays string   `json:"stays,omitempty"` // a code
	Why   string   `json:"why,omitempty"`
}

type unpricedNode struct {
	Node string `json:"node"`
	Pool string `json:"pool,omitempty"`
	Why  string `json:"why"`
	Pods int    `json:"pods"`
}

// What rows are called that are of nothing that has a name.
const (
	allRows = "*"
	noPool  = "(no pool)"
)

// answerCost lists costs by what was asked.
func answerCost(c *Costs, ask *costQuestion, notes []string, book *pricing.Book) *costAnswer {
	a := &costAnswer{
		At: c.At, Currency: c.Currency, By: ask.by, Total: newCostLine(&c.Total, true), Lines: []costLine{}, Unpriced: []unpricedNode{},
		Notes: slices.Clone(notes),
	}
	a.Total.Name, a.Total.Allocatable = allRows, &c.Total.Allocatable
	for _, u := range c.Unpriced {
		a.Unpriced = append(a.Unpriced, unpricedNode(u))
	}
	switch ask.by {
	case ByNode:
		a.nodes(c)
	case ByPool:
		a.lines(c.Pools, noPool, true)
	case ByNamespace:
		a.lines(c.Namespaces, Unallocated, false)
	case ByWorkload:
		a.lines(c.Workloads, Unallocated, false)
	}
	slices.SortStableFunc(a.Lines, func(x, y costLine) int { return cmp.Compare(y.order(ask.sort), x.order(ask.sort)) })
	a.note(c, book)
	return a
}

func newCostLine(l *allocation.Line, known bool) costLine {
	return costLine{
		Name: l.Name, Nodes: l.Nodes, Pods: l.Pods, UnpricedPods: l.Unpriced, Requests: l.Takes, Known: known,
		Cost: l.Cost, Month: l.Cost.PerMonth(), Allocated: l.Allocated, Idle: l.Idle, System: l.System, Avoidable: l.Avoidable,
	}
}

func (a *costAnswer) nodes(c *Costs) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		l := newCostLine(&n.Line, true)
		l.Pool, l.Host, l.Allocatable = n.Pool, n.Host, &n.Allocatable
		if s := c.Facts[n.Name].Spare; s != nil {
			l.Spare, l.To = s.Kept == nil, s.To
			if s.Kept != nil {
				l.Stays, l.Why = s.Kept.Code, s.Kept.Text
			}
		}
		a.Lines = append(a.Lines, l)
	}
}

// lines lists what is not nodes. A line of nothing but pods and nodes without a price has no known
// cost.
func (a *costAnswer) lines(list []allocation.Line, nameless string, sized bool) {
	unpriced := map[string]bool{}
	for _, u := range a.Unpriced {
		unpriced[u.Pool] = true
	}
	for i := range list {
		l := newCostLine(&list[i], list[i].Pods > 0 || list[i].Cost > 0 || list[i].Unpriced == 0)
		if sized {
			l.Allocatable, l.Known = &list[i].Allocatable, l.Nodes > 0 || !unpriced[l.Name]
		}
		if l.Name == "" {
			l.Name = nameless
		}
		a.Lines = append(a.Lines, l)
	}
}

// note prints what is not in the numbers.
func (a *costAnswer) note(c *Costs, book *pricing.Book) {
	if len(c.Unpriced) > 0 {
		var names []string
		for _, u := range c.Unpriced {
			names = append(names, u.Node+" ("+u.Why+")")
		}
		const most = 5
		if more := len(names) - most; more > 0 {
			names = append(names[:most], fmt.Sprintf("%d more", more))
		}
		a.Notes = append(a.Notes, fmt.Sprintf("without a price, and in no cost: %s with %s: %s",
			cli.Count(len(c.Unpriced), "node", "nodes"), cli.Count(c.Total.Unpriced, "pod", "pods"), strings.Join(names, ", ")))
	}
	if c.Strays > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%s on nodes that are gone, and in no cost", cli.Count(c.Strays, "pod", "pods")))
	}
	if c.Hostless > 0 && (book.PerHost != 0 || len(book.Hosts) > 0 || book.Derived != nil) {
		a.Notes = append(a.Notes, fmt.Sprintf("the hosts of %s are not known, so that their own prices are not in the cost, nor what would be saved with them in what is avoidable",
			cli.Count(c.Hostless, "node", "nodes")))
	}
}

// costOrdersSpent are the columns that rows can be sorted by, and costOrdersNow further ones of
// costs now.
var (
	costOrdersSpent = []string{"name", "cost", "allocated", "idle", "system"}
	costOrdersNow   = []string{"avoidable", "cpu", "cpu-percent", "memory", "memory-percent", "pods"}
	costOrders      = slices.Concat(costOrdersSpent, costOrdersNow)
)

// order is what a row is sorted by, the largest first. All names are alike: rows come by name.
func (l *costLine) order(by string) float64 {
	switch by {
	case "cost":
		return float64(l.Cost)
	case "allocated":
		return float64(l.Allocated)
	case "idle":
		return float64(l.Idle)
	case "system":
		return float64(l.System)
	case "avoidable":
		return float64(l.Avoidable)
	case "cpu":
		return float64(l.Requests.CPU)
	case "memory":
		return float64(l.Requests.Memory)
	case "pods":
		return float64(l.Pods + l.UnpricedPods)
	case "cpu-percent", "memory-percent":
		return l.used(by)
	}
	return 0
}

func (l *costLine) used(by string) float64 {
	switch {
	case l.Allocatable == nil:
		return 0
	case by == "cpu-percent":
		return float64(l.Requests.CPU) / math.Max(1, float64(l.Allocatable.CPU))
	}
	return float64(l.Requests.Memory) / math.Max(1, float64(l.Allocatable.Memory))
}

func (a *costAnswer) table(w io.Writer) {
	head := []string{strings.ToUpper(string(a.By))}
	if a.By == ByNode {
		head = append(head, "POOL", "HOST")
	}
	head = append(head, "PODS", "CPU", "MEMORY", "COST", "ALLOCATED", "IDLE", "SYSTEM", "AVOIDABLE")
	if a.By == ByNode {
		head = append(head, "COULD GO")
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, l := range append([]costLine{a.Total}, a.Lines...) {
		fmt.Fprintln(w, strings.Join(a.row(&l), "\t"))
	}
	if a.By == ByNode {
		for _, u := range a.Unpriced {
			fmt.Fprintf(w, "%s\t%s\t-\t%d\t-\t-\tnot known\t-\t-\t-\t-\t-\n", u.Node, cmp.Or(u.Pool, "-"), u.Pods)
		}
	}
}

func (a *costAnswer) row(l *costLine) []string {
	row := []string{l.Name}
	if a.By == ByNode {
		row = append(row, cmp.Or(l.Pool, "-"), cmp.Or(l.Host, "-"))
	}
	pods := strconv.Itoa(l.Pods)
	if l.UnpricedPods > 0 {
		pods += fmt.Sprintf(" (+%d unpriced)", l.UnpricedPods)
	}
	row = append(row, pods, amount(l, cli.Cores, func(r pricing.Resources) int64 { return int64(r.CPU) }),
		amount(l, cli.GiB, func(r pricing.Resources) int64 { return int64(r.Memory) }))
	if !l.Known {
		return append(row, "not known", "-", "-", "-", "-")
	}
	row = append(row, fmt.Sprintf("%s (%s/mo)", l.Cost.Display(a.Currency), l.Month.Display(a.Currency)))
	for _, part := range []pricing.Rate{l.Allocated, l.Idle, l.System} {
		row = append(row, part.Display(a.Currency)+cli.InPercent(int64(part), int64(l.Cost)))
	}
	avoidable := l.Avoidable.Display(a.Currency)
	// That of a namespace or a workload is no part of its cost, and may be more.
	if l.Allocatable != nil {
		avoidable += cli.InPercent(int64(l.Avoidable), int64(l.Cost))
	}
	if row = append(row, avoidable); a.By == ByNode {
		row = append(row, a.couldGo(l))
	}
	return row
}

// couldGo says of a node whether it could be done without, and of all how many.
func (a *costAnswer) couldGo(l *costLine) string {
	switch {
	case l.Name == allRows:
		spare := 0
		for i := range a.Lines {
			if a.Lines[i].Spare {
				spare++
			}
		}
		return fmt.Sprintf("%d of %d", spare, len(a.Lines))
	case l.Spare:
		return "yes"
	}
	return cmp.Or(l.Stays, "-")
}

// amount prints what is requested, of what there is and in percent of it where there is a size.
func amount(l *costLine, print func(n int64) string, of func(pricing.Resources) int64) string {
	if l.Allocatable == nil {
		return print(of(l.Requests))
	}
	return print(of(l.Requests)) + "/" + print(of(*l.Allocatable)) + cli.InPercent(of(l.Requests), of(*l.Allocatable))
}

// csv is the answer as rows of fixed columns, the same for everything that costs are listed by.
// Cells of what is not known are empty.
func (a *costAnswer) csv() [][]string {
	rows := [][]string{{
		"at", "by", "name", "pool", "host", "nodes", "pods", "unpriced_pods", "cpu_requested_cores", "cpu_allocatable_cores",
		"memory_requested_gib", "memory_allocatable_gib", "currency", "cost_per_hour", "allocated_per_hour", "idle_per_hour",
		"system_per_hour", "avoidable_per_hour",
	}}
	at := a.At.UTC().Format(time.RFC3339)
	exact := func(b pricing.Bytes) string { return strconv.FormatFloat(float64(b)/float64(pricing.GiB), 'f', -1, 64) }
	for _, l := range append([]costLine{a.Total}, a.Lines...) {
		row := []string{
			at, string(a.By), l.Name, l.Pool, l.Host, strconv.Itoa(l.Nodes), strconv.Itoa(l.Pods), strconv.Itoa(l.UnpricedPods),
			l.Requests.CPU.Cores(), "", exact(l.Requests.Memory), "", a.Currency, "", "", "", "", "",
		}
		if l.Allocatable != nil {
			row[9], row[11] = l.Allocatable.CPU.Cores(), exact(l.Allocatable.Memory)
		}
		if l.Known {
			for i, r := range []pricing.Rate{l.Cost, l.Allocated, l.Idle, l.System, l.Avoidable} {
				row[13+i] = r.String()
			}
		}
		rows = append(rows, row)
	}
	if a.By == ByNode {
		for _, u := range a.Unpriced {
			row := make([]string, len(rows[0]))
			row[0], row[1], row[2], row[3], row[5], row[6], row[7], row[12] = at, string(a.By), u.Node, u.Pool, "0", "0", strconv.Itoa(u.Pods), a.Currency
			rows = append(rows, row)
		}
	}
	return rows
}

func writeCSV(w io.Writer, rows [][]string) error {
	to := csv.NewWriter(w)
	return to.WriteAll(rows)
}
