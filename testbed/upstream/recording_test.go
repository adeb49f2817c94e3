package upstream_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recorded is a line of a recorded conversation of a cluster-autoscaler and another provider.
type recorded struct {
	line int
	at   time.Duration
	kind string // rpc: a call; prov: what that provider did; ctl: what the experimenter did next
	text string
	call *exchange // of an rpc
}

// exchange is a call, with its answer.
type exchange struct {
	method string
	group  string
	delta  int32
	nodes  []string // by name; of those that have not registered, by id
	pod    string

	refused   string // the code, if it was
	groups    []string
	ofNode    string // the group of a node
	target    int
	instances []instance
	label     string
}

// partOf reads a part of the recording, which is kept beside the project.
func partOf(t *testing.T, part string) []recorded {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "ca-trace", "part-"+part+".log"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the recorded conversation is not there: %v", err)
		}
		t.Skipf("NOT TRIED, for the recorded conversation is not there: %v", err)
	}
	var all []recorded
	for i, text := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Fields(text)
		if len(fields) < 3 {
			t.Fatalf("line %d: %q", i+1, text)
		}
		at, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		_, rest, _ := strings.Cut(text, " "+fields[1]+" ")
		r := recorded{line: i + 1, at: time.Duration(at * float64(time.Second)), kind: fields[1], text: strings.TrimSpace(rest)}
		if r.kind == "rpc" {
			if r.call, err = readExchange(r.text); err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
		}
		all = append(all, r)
	}
	return all
}

var (
	exchangeForm = regexp.MustCompile(`^(\w+) +\{(.*?)\} -> +(.*) \([0-9.]+ ms[^)]*\)$`)
	idForm       = regexp.MustCompile(`"id":"([^"]*)"`)
	deltaForm    = regexp.MustCompile(`"delta":(-?\d+)`)
	nodesForm    = regexp.MustCompile(`"nodes":\[([^\]]*)\]`)
	errorForm    = regexp.MustCompile(`^ERR rpc error: code = (\w+) desc = `)
	instanceForm = regexp.MustCompile(`\{"id":"([^"]+)",(?:(\w+)\}|"status":\{"errorInfo":\{"errorCode":"([^"]+)","errorMessage":"[^"]*","instanceErrorClass":(\d+)\},"instanceState":"instance(\w+)"\}\})`)
)

func readExchange(text string) (*exchange, error) {
	m := exchangeForm.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("not a call and its answer: %q", text)
	}
	e := &exchange{method: m[1]}
	asked, answer := m[2], m[3]
	if id := idForm.FindStringSubmatch(asked); id != nil {
		e.group = id[1]
	}
	if delta := deltaForm.FindStringSubmatch(asked); delta != nil {
		n, err := strconv.ParseInt(delta[1], 10, 32)
		if err != nil {
			return nil, err
		}
		e.delta = int32(n)
	}
	if nodes := nodesForm.FindStringSubmatch(asked); nodes != nil {
		e.nodes = strings.Split(nodes[1], ",")
	}
	switch what, rest, _ := strings.Cut(asked, " "); what {
	case "node":
		e.nodes = strings.Fields(rest)[:1]
	case "pod":
		e.pod = strings.Fields(rest)[0]
	}
	return e, e.readAnswer(answer)
}

func (e *exchange) readAnswer(text string) error {
	if m := errorForm.FindStringSubmatch(text); m != nil {
		e.refused = m[1]
		return nil
	}
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return fmt.Errorf("not an answer: %q", text)
	}
	text = text[1 : len(text)-1]
	switch e.method {
	case "NodeGroups":
		e.groups = strings.Split(strings.Trim(text, "[]"), ",")
	case "NodeGroupForNode":
		e.ofNode = strings.Trim(strings.TrimPrefix(text, "nodeGroup "), `"`)
	case "NodeGroupTargetSize":
		if text != "" {
			n, err := strconv.Atoi(strings.TrimPrefix(text, `"targetSize":`))
			e.target = n
			return err
		}
	case "GPULabel":
		e.label = strings.Trim(strings.TrimPrefix(text, `"label":`), `"`)
	case "NodeGroupNodes":
		for _, m := range instanceForm.FindAllStringSubmatch(text, -1) {
			class, _ := strconv.Atoi(cmp.Or(m[4], "0"))
			e.instances = append(e.instances, instance{ID: m[1], State: m[2] + m[5], Code: m[3], Class: int32(class)})
		}
		if len(e.instances) != strings.Count(text, `"id":`) {
			return fmt.Errorf("not a list of instances: %q", text)
		}
	}
	return nil
}

var nameForm = regexp.MustCompile(`\b(small|big)-(\d{3})\b`)

// machinesOf are the machines of a recording, by group, in the order in which they were made.
func machinesOf(all []recorded) map[string][]string {
	byGroup := map[string][]string{}
	for _, r := range all {
		if r.kind != "rpc" && r.kind != "prov" {
			continue
		}
		for _, m := range nameForm.FindAllStringSubmatch(r.text, -1) {
			if !slices.Contains(byGroup[m[1]], m[0]) {
				byGroup[m[1]] = append(byGroup[m[1]], m[0])
			}
		}
	}
	for _, names := range byGroup {
		slices.Sort(names)
	}
	return byGroup
}
