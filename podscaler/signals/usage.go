package signals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Usage reads what pods use from the resource metrics API (metrics.k8s.io).
type Usage struct {
	// Client carries the cluster's credentials, as rest.HTTPClientFor makes one.
	Client *http.Client
	// Host is the API server's address.
	Host string
	// Namespaces returns those that matter; all if it is nil or there are many.
	Namespaces func() []string
	// Sized returns the namespaces in which containers matter; nil keeps those of all. Those of
	// tens of thousands of pods take more memory than all else that is measured.
	Sized func() map[string]bool
	// MaxBytes bounds an answer; 0 is 128 MiB.
	MaxBytes int64

	mu         sync.Mutex
	containers map[string][]podscaler.ContainerUse
	many       int // pods of the last reading
}

// manyNamespaces is from where on one list of all pods costs less than one for each namespace.
const manyNamespaces = 10

// Pods returns each pod's CPU by namespace/name. Pods that the API does not speak of are not
// among them: their CPU is unknown. If a part of the namespaces could not be read, the others
// are returned beside the error.
func (u *Usage) Pods(ctx context.Context) (map[string]podscaler.Sample, error) {
	paths := []string{"/apis/metrics.k8s.io/v1beta1/pods"}
	if u.Namespaces != nil {
		if names := u.Namespaces(); len(names) < manyNamespaces {
			paths = nil
			for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
				paths = append(paths, "/apis/metrics.k8s.io/v1beta1/namespaces/"+n+"/pods")
			}
		}
	}
	u.mu.Lock()
	many := u.many
	u.mu.Unlock()
	var sized map[string]bool
	if u.Sized != nil {
		sized = u.Sized()
	}
	pods, containers := make(map[string]podscaler.Sample, many), map[string][]podscaler.ContainerUse{}
	var errs []error
	for _, path := range paths {
		err := u.list(ctx, path, func(m *podMetrics) {
			name := m.Metadata.Namespace + "/" + m.Metadata.Name
			if s := m.sample(); s.Known {
				pods[name] = s
			}
			if u.Sized != nil && !sized[m.Metadata.Namespace] {
				return
			}
			if all := m.containers(); len(all) > 0 {
				containers[name] = all
			}
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("resource metrics %s: %w", path, err))
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.containers, u.many = containers, len(pods)
	return pods, errors.Join(errs...)
}

// Containers returns what the last reading of Pods said of each pod's containers, by
// namespace/name, which costs no reading of its own. What was not measured is unknown. Containers
// that the API does not speak of are not among them, nor are those of namespaces that are not
// Sized. It is only to be read.
func (u *Usage) Containers() map[string][]podscaler.ContainerUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.containers
}

// podMetrics is the part of metrics.k8s.io/v1beta1 PodMetrics that is read.
type podMetrics struct {
	Metadata   struct{ Namespace, Name string }
	Timestamp  time.Time
	Window     within
	Containers []struct {
		Name  string
		Usage usage
	}
}

// within is a duration as its text. metav1.Duration is decoded by itself, which takes more memory
// than all else of the pod.
type within time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (w *within) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*w = within(d)
	return err
}

// usage is what a container uses.
type usage struct {
	CPU, Memory *resource.Quantity
	others      map[string]*resource.Quantity // nil where there are none, as most often
}

// UnmarshalJSON reads the two that all have without a map, of which a large cluster would have tens
// of thousands, and the others if there is more than two names and two texts in quotes.
func (u *usage) UnmarshalJSON(data []byte) error {
	if u.usual(data) {
		return nil
	}
	var usual struct{ CPU, Memory *resource.Quantity }
	if err := json.Unmarshal(data, &usual); err != nil {
		return err
	}
	*u = usage{CPU: usual.CPU, Memory: usual.Memory}
	if bytes.Count(data, []byte(`"`)) <= 8 {
		return nil
	}
	if err := json.Unmarshal(data, &u.others); err != nil {
		return err
	}
	delete(u.others, podscaler.ResourceCPU)
	delete(u.others, podscaler.ResourceMemory)
	return nil
}

// usual reads two names and two texts as they are written most often: {"cpu":"1n","memory":"2Ki"}.
func (u *usage) usual(data []byte) bool {
	cpu, is := bytes.CutPrefix(data, []byte(`{"cpu":"`))
	cpu, memory, has := bytes.Cut(cpu, []byte(`","memory":"`))
	memory, ends := bytes.CutSuffix(memory, []byte(`"}`))
	if !is || !has || !ends {
		return false
	}
	var read [2]resource.Quantity
	var errs [2]error
	read[0], errs[0] = resource.ParseQuantity(string(cpu))
	read[1], errs[1] = resource.ParseQuantity(string(memory))
	*u = usage{CPU: &read[0], Memory: &read[1]}
	return errs == [2]error{} // else it is written otherwise, or is no amount
}

// list reads a list, and hands over each pod in it.
func (u *Usage) list(ctx context.Context, path string, take func(*podMetrics)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u.Host, "/")+path, nil)
	if err != nil {
		return plain(ctx, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := u.Client.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	most := u.MaxBytes
	if most == 0 {
		most = 128 << 20
	}
	body := &limited{body: resp.Body, left: most, limit: most}
	defer func() { _ = body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, body)
	}
	err = eachItem(json.NewDecoder(body), func(m *podMetrics) {
		if m.Metadata.Name != "" {
			take(m)
		}
	})
	if err != nil {
		return plain(ctx, err)
	}
	return nil
}

// eachItem reads a list item by item: as a whole, that of a large cluster's pods takes tens of
// megabytes.
func eachItem(d *json.Decoder, do func(*podMetrics)) error {
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != "items" {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		if err := decodeItems(d, do); err != nil {
			return err
		}
	}
	return expect(d, json.Delim('}'))
}

func decodeItems(d *json.Decoder, do func(*podMetrics)) error {
	begin, err := d.Token()
	switch {
	case err != nil || begin == nil: // null is not an error
		return err
	case begin != json.Delim('['):
		return fmt.Errorf("items must be a list, was %v", begin)
	}
	for m := (podMetrics{}); d.More(); {
		clear(m.Containers) // what is decoded is put over what is there
		m = podMetrics{Containers: m.Containers[:0]}
		if err := d.Decode(&m); err != nil {
			return err
		}
		do(&m)
	}
	return expect(d, json.Delim(']'))
}

// expect reads a token that must come next.
func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("the list must go on with %s, was %v", want, got)
	}
	return err
}

// refusal is what the API server says, which is a Status where it is the one that answers.
func refusal(resp *http.Response, body io.Reader) error {
	var status metav1.Status
	if err := json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&status); err == nil && status.Message != "" {
		return fmt.Errorf("%s: %s", resp.Status, short(status.Message))
	}
	return errors.New(resp.Status)
}

// sample adds up a pod's containers. One of which a part was not measured is unknown. CPU is in
// whole millicores, rounded up, as HPA and kubectl top have it: nanocores are noise, and most of
// what a recording would hold.
func (m *podMetrics) sample() podscaler.Sample {
	if len(m.Containers) == 0 || m.Timestamp.IsZero() {
		return podscaler.Sample{}
	}
	var milli int64
	for _, c := range m.Containers {
		cpu := c.Usage.CPU
		if cpu == nil || cpu.Sign() < 0 {
			return podscaler.Sample{}
		}
		milli += cpu.MilliValue()
	}
	return podscaler.Sample{Known: true, Value: float64(milli) / 1000, At: m.Timestamp.Local(), Span: time.Duration(m.Window)}
}

// containers are all that have a name, with what was measured of them.
func (m *podMetrics) containers() []podscaler.ContainerUse {
	if m.Timestamp.IsZero() {
		return nil
	}
	var all []podscaler.ContainerUse
	for _, c := range m.Containers {
		use := podscaler.ContainerUse{Name: c.Name, CPU: m.of(c.Usage.CPU), Memory: m.of(c.Usage.Memory)}
		for name, used := range c.Usage.others {
			if use.Others == nil {
				use.Others = make(map[string]podscaler.Sample, len(c.Usage.others))
			}
			use.Others[name] = m.of(used)
		}
		if c.Name != "" {
			all = append(all, use)
		}
	}
	return all
}

// of is what was measured of a resource; nil is nothing.
func (m *podMetrics) of(used *resource.Quantity) podscaler.Sample {
	if used == nil || used.Sign() < 0 {
		return podscaler.Sample{}
	}
	return podscaler.Sample{Known: true, Value: used.AsApproximateFloat64(), At: m.Timestamp.Local(), Span: time.Duration(m.Window)}
}
