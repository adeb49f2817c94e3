// Package fakeopencost answers for assets as OpenCost's sources say that it does, of nodes that a
// test states. No real OpenCost was asked.
package fakeopencost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Node is a node with its size and the time that it was there.
type Node struct {
	Name       string
	CPUs       float64
	GiB        float64
	Begun, End time.Time
}

// Server prices nodes.
type Server struct {
	Nodes []Node
	// PerCPU and PerGiB are the prices of an hour.
	PerCPU, PerGiB float64
	// Monthly takes them for those of a month, as releases have done on machines of one's own.
	Monthly bool
}

const hoursOfAMonth = 730

// ServeHTTP answers GET /assets?window=FROM,TO.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/assets" {
		http.NotFound(w, r)
		return
	}
	begun, ended, _ := strings.Cut(r.FormValue("window"), ",")
	from, err1 := time.Parse(time.RFC3339, begun)
	to, err2 := time.Parse(time.RFC3339, ended)
	if err1 != nil || err2 != nil || !from.Before(to) {
		http.Error(w, fmt.Sprintf("Invalid 'window' parameter: illegal window: %s", r.FormValue("window")), http.StatusBadRequest)
		return
	}
	set := map[string]any{
		"__undefined__/custom/__undefined__/Storage/cluster-one/Disk/Kubernetes/pv/pv": map[string]any{
			"type": "Disk", "properties": map[string]any{"name": "pv"}, "minutes": to.Sub(from).Minutes(), "totalCost": 0.5,
		},
	}
	for _, n := range s.Nodes {
		if key, a, there := s.asset(n, from, to); there {
			set[key] = a
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"code": http.StatusOK, "data": set})
}

// asset is a node's part of a time, with the fields that nodes have.
func (s *Server) asset(n Node, from, to time.Time) (string, any, bool) {
	if n.Begun.After(from) {
		from = n.Begun
	}
	if !n.End.IsZero() && n.End.Before(to) {
		to = n.End
	}
	hours := to.Sub(from).Hours()
	if hours <= 0 {
		return "", nil, false
	}
	cpu, ram := hours*n.CPUs*s.PerCPU, hours*n.GiB*s.PerGiB
	if s.Monthly {
		cpu, ram = cpu/hoursOfAMonth, ram/hoursOfAMonth
	}
	id := n.Name + "-" + fmt.Sprint(from.Unix())
	return "__undefined__/custom/__undefined__/Compute/cluster-one/Node/Kubernetes/" + id + "/" + n.Name, map[string]any{
		"type":       "Node",
		"properties": map[string]any{"category": "Compute", "provider": "custom", "service": "Kubernetes", "cluster": "cluster-one", "name": n.Name, "providerID": id},
		"labels":     map[string]string{}, "window": map[string]any{"start": from, "end": to}, "start": from, "end": to, "minutes": hours * 60,
		"nodeType": "", "cpuCores": n.CPUs, "ramBytes": n.GiB * (1 << 30), "cpuCoreHours": hours * n.CPUs, "ramByteHours": hours * n.GiB * (1 << 30), "GPUHours": 0,
		"preemptible": 0, "discount": 0, "cpuCost": cpu, "gpuCost": 0, "gpuCount": 0, "ramCost": ram, "adjustment": 0, "totalCost": cpu + ram,
	}, true
}
