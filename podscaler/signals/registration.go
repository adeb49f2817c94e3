package signals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// registry is a workload's service registry.
type registry struct {
	workload  string
	source    *Source
	door      *door
	complaint complaint
	refused   error // why it may not be asked
}

// maxRegistry bounds a registry's answer, and maxCommas how many things may be in it: some bytes of
// JSON are much larger once they are read. Consul has about 80 for an instance.
const (
	maxRegistry = 2 << 20
	maxCommas   = 200000
)

// newRegistry returns the old one if it is for the same source: its connections stay.
func newRegistry(workload string, s *Source, o *Options, old *registry) *registry {
	if old != nil && old.source == s {
		return old
	}
	from := s.Spec.Registration
	g := &registry{workload: workload, source: s}
	permit, err := o.Access.permit(s.Target.Namespace, from.URL, from.Headers)
	g.door, g.refused = &door{headers: from.Headers, maxBytes: min(o.MaxBytes, maxRegistry), permit: permit}, err
	return g
}

// measure asks the registry.
func (g *registry) measure(r *round) func() {
	var got registered
	err := g.refused
	if err == nil {
		r.add(lineOwn, &job{
			flow: flow{g.source.Target.Namespace, g.source.Spec.Registration.URL}, unit: g.workload, limit: pageTimeout,
			run: func(ctx context.Context) error {
				got, err = g.ask(ctx, r.options)
				return err
			},
			refused: func(why error) { err = why },
		})
	}
	return func() {
		m := r.measured[g.workload]
		g.complaint.hear(r.options.Log, g.source.Target.Namespace, g.source.Spec.Registration.URL, err)
		switch {
		case err != nil:
			m.failed(CodeMetricsUnknown, registration, err)
		case got.age(r.now) > r.options.MaxAge:
			m.unknown(CodeMetricsStale, registration, fmt.Sprintf("the answer is %s old by this clock, must be at most %s", got.age(r.now).Round(time.Minute), r.options.MaxAge))
		default:
			m.registered(got)
		}
	}
}

func (g *registry) ask(ctx context.Context, o *Options) (registered, error) {
	from := g.source.Spec.Registration
	server := Prometheus{URL: from.URL, SecretName: from.SecretName, Headers: from.Headers}
	if err := open(ctx, o, g.door, g.source.Target.Namespace, server); err != nil {
		return registered{}, err
	}
	return askRegistry(ctx, g.door.client(), from.URL)
}

// registered is what a registry says of the instances that it sends requests to.
type registered struct {
	count    int
	versions map[string]int // of those whose version it knows; nil if it knows none
	cached   time.Duration  // how long the answer had been lying in a cache
	at       time.Time      // when it was true by its own word; zero if it does not say
}

func (g *registered) age(now time.Time) time.Duration {
	if g.at.IsZero() {
		return g.cached
	}
	return max(g.cached, now.Sub(g.at))
}

func (m *measurement) registered(g registered) {
	m.window.Registered = podscaler.Known(float64(g.count))
	m.window.RegisteredVersions = g.versions
}

func askRegistry(ctx context.Context, client *http.Client, url string) (g registered, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return g, failed(ctx, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return g, failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return g, invalid("the registry answers %s", resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case ctx.Err() != nil:
		return g, failed(ctx, ctx.Err())
	case err != nil:
		return g, invalid("%w", plain(ctx, err))
	}
	if g, err = readRegistry(ctx, body); err != nil {
		return registered{}, err
	}
	if age, err := strconv.Atoi(resp.Header.Get("Age")); err == nil && age > 0 {
		g.cached = time.Duration(min(age, math.MaxInt32)) * time.Second
	}
	return g, nil
}

// reading is held by who reads a registry's answer: each takes many times as much memory as it has
// bytes.
var reading = make(chan struct{}, 2)

func readRegistry(ctx context.Context, body []byte) (registered, error) {
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return registered{}, failed(ctx, ctx.Err())
	}
	g, err := parseRegistry(body)
	if err != nil {
		return registered{}, invalid("%w", err)
	}
	return g, nil
}

// instance is one of those that a registry lists.
type instance struct {
	name, version string
	away          bool // it is listed and gets no requests
}

// registryAnswer is Plimsoll's own shape of a registry's answer, and that of Eureka, which has it
// all in one application.
type registryAnswer struct {
	At        time.Time      `json:"at"`
	Count     *int           `json:"count"`
	Versions  map[string]int `json:"versions"`
	Instances *[]struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Status  string `json:"status"`
	} `json:"instances"`
	Application *struct {
		Instance eurekaInstances `json:"instance"`
	} `json:"application"`
}

// eurekaInstances is a list or, as older servers write it, the only one that there is.
type eurekaInstances []struct {
	InstanceID string `json:"instanceId"`
	HostName   string `json:"hostName"`
	Status     string `json:"status"`
	Metadata   struct {
		Version string `json:"version"`
	} `json:"metadata"`
}

func (e *eurekaInstances) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		data = append(append([]byte("["), data...), ']')
	}
	type list eurekaInstances
	return json.Unmarshal(data, (*list)(e))
}

// consulInstance is an entry of /v1/health/service, with Service and Checks, or of
// /v1/catalog/service.
type consulInstance struct {
	Node    json.RawMessage
	Service struct {
		ID   string
		Meta struct {
			Version string `json:"version"`
		}
	}
	Checks      []struct{ Status string }
	ServiceID   string
	ServiceMeta struct {
		Version string `json:"version"`
	}
}

// parseRegistry reads a registry's answer. That is one of
//
//	{"count": 3, "versions": {"1.4": 2, "1.5": 1}, "at": "2026-03-01T12:00:00Z"}
//	{"instances": [{"name": "10.0.0.7:8080", "version": "1.4", "status": "UP"}], "at": …}
//
// of which all but count or instances may be omitted, Eureka's GET /eureka/apps/NAME, Consul's
// GET /v1/health/service/NAME or /v1/catalog/service/NAME. Other fields are not looked at. An
// instance that is listed twice counts once, and one that is not UP, or fails a check, not at all.
// A list with nothing in it is no answer: Consul has one for names that it never heard of.
func parseRegistry(body []byte) (g registered, err error) {
	switch body = bytes.TrimSpace(body); {
	case len(body) == 0:
		return g, errors.New("the answer is empty")
	case bytes.Count(body, []byte(",")) > maxCommas:
		return g, fmt.Errorf("the answer must have at most %d things in it, has more", maxCommas)
	case body[0] == '[':
		var list []consulInstance
		if err := json.Unmarshal(body, &list); err != nil {
			return g, notJSON(err)
		}
		return countConsul(list)
	}
	var a registryAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return g, notJSON(err)
	}
	switch {
	case a.Application != nil:
		g, err = countEureka(a.Application.Instance)
	case a.Instances != nil:
		g, err = a.list()
	case a.Count != nil:
		g, err = a.counts()
	default:
		err = errors.New("the answer has neither a count nor instances, and is not that of Consul or Eureka")
	}
	g.at = a.At
	return g, err
}

func notJSON(err error) error {
	return fmt.Errorf("the answer must be JSON of a registry: %s", short(err.Error()))
}

// counts takes the number that is said, be it 0.
func (a *registryAnswer) counts() (g registered, err error) {
	sum := 0.0
	for version, n := range a.Versions {
		if n < 0 || version == "" {
			return g, errors.New("the answer's versions must have names, and numbers of at least 0")
		}
		sum += float64(n)
	}
	if *a.Count < 0 || *a.Count > math.MaxInt32 || sum > float64(*a.Count) {
		return g, fmt.Errorf("the answer's count must be at least 0 and what its versions add up to, was %d", *a.Count)
	}
	g.count = *a.Count
	for version, n := range a.Versions {
		g.add(version, n)
	}
	return g, nil
}

func (a *registryAnswer) list() (registered, error) {
	var all []instance
	for _, i := range *a.Instances {
		all = append(all, instance{i.Name, i.Version, i.Status != "" && !strings.EqualFold(i.Status, "UP")})
	}
	g, err := countInstances(all)
	if err == nil && a.Count != nil && *a.Count != g.count {
		return g, fmt.Errorf("the answer's count must be that of its instances which are up, %d, was %d", g.count, *a.Count)
	}
	return g, err
}

func countEureka(list eurekaInstances) (registered, error) {
	var all []instance
	for _, i := range list {
		all = append(all, instance{cmp.Or(i.InstanceID, i.HostName), i.Metadata.Version, !strings.EqualFold(i.Status, "UP")})
	}
	return countInstances(all)
}

// countConsul leaves out what Consul's own DNS leaves out: an instance with a critical check,
// such as one in maintenance. Service ids are unique on a node only.
func countConsul(list []consulInstance) (registered, error) {
	var all []instance
	for _, i := range list {
		one := instance{name: cmp.Or(i.Service.ID, i.ServiceID), version: cmp.Or(i.Service.Meta.Version, i.ServiceMeta.Version)}
		if one.name == "" {
			return registered{}, errors.New("the answer lists an instance without a service id, which is not how Consul writes it")
		}
		one.name += " " + string(i.Node)
		for _, c := range i.Checks {
			one.away = one.away || c.Status == "critical"
		}
		all = append(all, one)
	}
	return countInstances(all)
}

func countInstances(all []instance) (g registered, err error) {
	if len(all) == 0 {
		return g, errors.New("the registry lists no instance at all, which is what one says that does not know the name")
	}
	seen := map[string]bool{}
	for _, i := range all {
		if i.away || i.name != "" && seen[i.name] {
			continue
		}
		seen[i.name] = true
		g.count++
		g.add(i.version, 1)
	}
	return g, nil
}

// add counts instances of a version, if it is known and there are any.
func (g *registered) add(version string, n int) {
	if version == "" || n == 0 {
		return
	}
	if g.versions == nil {
		g.versions = map[string]int{}
	}
	g.versions[version] += n
}
