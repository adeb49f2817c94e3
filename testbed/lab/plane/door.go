package plane

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler is the plane's door:
//
//	/apps/NAMESPACE/WORKLOAD/...     a request to an application; so is any with a Host of
//	                                 WORKLOAD.NAMESPACE.svc, with .cluster.local or without. The
//	                                 answer says in X-Pod which pod it is from, and in
//	                                 Server-Timing how many milliseconds it took by the law
//	/                                the applications, as JSON
//	/metrics                         all proxies and containers, for Prometheus
//	/pods/NAMESPACE/POD/metrics      one pod's proxy and containers; so is /stats/prometheus with
//	                                 a pod's address as its Host, for readers that have the plane
//	                                 as their HTTP proxy
//	/healthz
func (p *Plane) Handler() http.Handler {
	mux := http.NewServeMux()
	app := func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, r.PathValue("namespace")+"/"+r.PathValue("workload"))
	}
	mux.HandleFunc("/apps/{namespace}/{workload}", app)
	mux.HandleFunc("/apps/{namespace}/{workload}/", app)
	mux.HandleFunc("GET /{$}", p.list)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", p.metrics(""))
	mux.HandleFunc("GET /pods/{namespace}/{pod}/metrics", func(w http.ResponseWriter, r *http.Request) {
		p.metrics(r.PathValue("namespace")+"/"+r.PathValue("pod")).ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, is := ofHost(r.Host); is {
			p.answer(w, r, name)
		} else if pod, is := p.ofAddress(r.Host); is {
			p.proxy(w, r, pod)
		} else {
			mux.ServeHTTP(w, r)
		}
	})
}

// ofAddress is the pod whose address a Host header is, by namespace and name.
func (p *Plane) ofAddress(host string) (pod string, is bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.at[host]; at != nil {
		return at.obs.key(), true
	}
	return "", false
}

// proxy answers as the proxy beside a pod does.
func (p *Plane) proxy(w http.ResponseWriter, r *http.Request, pod string) {
	if r.URL.Path != "/stats/prometheus" {
		http.Error(w, "pods are asked through their applications; at their own addresses there is /stats/prometheus", http.StatusNotFound)
		return
	}
	p.metrics(pod).ServeHTTP(w, r)
}

func (p *Plane) metrics(pod string) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{plane: p, only: pod, gateway: p.gateway && pod == ""})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// appHost is the Host of a request that is meant for an application: its name within a cluster.
var appHost = regexp.MustCompile(`^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?(?::\d+)?$`)

// ofHost is the application that a Host header means, if it means one.
func ofHost(host string) (app string, is bool) {
	parts := appHost.FindStringSubmatch(host)
	if parts == nil {
		return "", false
	}
	return parts[2] + "/" + parts[1], true
}

// answer lets an application answer a request.
func (p *Plane) answer(w http.ResponseWriter, r *http.Request, app string) {
	a := p.Send(r.Context(), app)
	if a.Code == 0 {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if a.Pod != "" {
		w.Header().Set("X-Pod", a.Pod)
	}
	if a.Code != http.StatusOK {
		w.Header().Set("X-Response-Flags", a.Flags)
		http.Error(w, a.Text, a.Code)
		return
	}
	w.Header().Set("Server-Timing", fmt.Sprintf("pod;dur=%.3f", a.Took.Seconds()*1000))
	fmt.Fprintln(w, a.Pod)
}

// Application is what the plane shows of an application.
type Application struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"`
	Pods      int      `json:"pods"`
	Ready     int      `json:"ready"`
	InFlight  int      `json:"inFlight"`
	Faults    []string `json:"faults,omitempty"` // why pods do not serve that should
}

// Applications are those that have had pods, by namespace and name.
func (p *Plane) Applications() []Application {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	all := make([]Application, 0, len(p.apps))
	for _, name := range slices.Sorted(maps.Keys(p.apps)) {
		app := p.apps[name]
		shown := Application{Namespace: app.namespace, Name: app.name, Path: "/apps/" + name + "/", Ready: len(app.ready)}
		for pod := range p.all {
			if pod.app != app {
				continue
			}
			pod.settle(now)
			shown.Pods++
			shown.InFlight += pod.Load()
			if pod.obs.fault != nil {
				shown.Faults = append(shown.Faults, fmt.Sprintf("pod %s: %v", pod.obs.name, pod.obs.fault))
			}
		}
		slices.Sort(shown.Faults)
		all = append(all, shown)
	}
	return all
}

func (p *Plane) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p.Applications()) // to a client that may be gone
}
