package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// The parts of the product that run can run.
const (
	partPodScaler  = "podscaler"
	partNodeScaler = "nodescaler"
	partProvider   = "provider"
)

// components are all of them.
var components = []string{partPodScaler, partNodeScaler, partProvider}

// runMode is a lid on what is done, above the modes of single objects.
type runMode string

const (
	runRecommend runMode = "Recommend" // nothing is written but statuses and events
	runActive    runMode = "Active"
)

// clusterSettings are the part of the configuration file for what is decided by objects in the
// cluster.
type clusterSettings struct {
	// Mode is Recommend, in which nothing is written to scales, nodes and Proxmox VE even if the
	// objects' own modes are Active, or Active; empty is Recommend.
	Mode runMode `json:"mode,omitempty"`
	// LogLevel is the least that is logged: debug, info, warn or error. Empty is info.
	LogLevel string `json:"logLevel,omitempty"`
	// Interval is the time between two steps of the loop, if nothing happens; 0 is 10s.
	Interval time.Duration `json:"interval,omitempty" strict:"nonzero"`
	// Namespace is where our own lease and state are; empty is that of the pod.
	Namespace string `json:"namespace,omitempty"`
	// Lease is the name of the lease that the leader of several processes holds; empty is plimsoll.
	Lease string `json:"lease,omitempty"`
	// PriceBook names the PriceBook that machines are priced by; empty is default.
	PriceBook string `json:"priceBook,omitempty"`
	// Journal is where the records of the loop are kept; without it they are not.
	Journal *journalSettings `json:"journal,omitempty"`
	// Recording is where all is kept that steps are decided by, so that plimsoll replay can decide
	// them again; without it, it is not.
	Recording *recordingSettings `json:"recording,omitempty"`
	// Dashboard is where the web page of the records is served, host:port; without it, it is not.
	Dashboard string `json:"dashboard,omitempty"`
	// KEDAScaler is where KEDA's external scaler is served, host:port; without it, it is not.
	KEDAScaler string `json:"kedaScaler,omitempty"`
	// Admission is where pods get their requests as they are created; without it, they do not.
	Admission *admissionSettings `json:"admission,omitempty"`
	// Nodes is the policy by which the machines of all VMPools are decided on; without it joint.
	Nodes *nodeSettings `json:"nodes,omitempty"`
	// Limit is what all machines may cost; without it nothing but the pools' own bounds holds them.
	Limit *pricing.Limit `json:"limit,omitempty"`
	// Quotas are what namespaces may take of the machines; without them any namespace may take all.
	Quotas quotaSettings `json:"quotas,omitempty"`
	// HandOff is how replicas that are expected are made known to whoever orders machines in our
	// place; without it by CapacityBuffers where cluster-autoscaler is served and nodescaler does
	// not run, and else not at all.
	HandOff *handOffSettings `json:"handoff,omitempty"`
	// CapacityBuffers has the room kept free that CapacityBuffers in the cluster ask for.
	CapacityBuffers bool `json:"capacityBuffers,omitempty"`
	// Notifications are the receivers that events and conditions are posted to, and how.
	Notifications []receiverSettings `json:"notifications,omitempty"`
}

// admissionSettings are where the webhook is served, and its certificate.
type admissionSettings struct {
	// Listen is host:port.
	Listen      string `json:"listen" strict:"required"`
	Certificate string `json:"certificate" strict:"required"`
	Key         string `json:"key" strict:"required"`
}

// journalSettings is a file that is put aside when it is full, or standard output.
type journalSettings struct {
	// File is its name, or - for standard output, on which there is nothing else then.
	File string `json:"file" strict:"required"`
	// RotateSize is how large it gets; 0 is 64MiB.
	RotateSize pricing.Bytes `json:"rotateSize,omitempty" strict:"nonzero"`
	// Keep is how many that were put aside are kept; 0 is 3.
	Keep int `json:"keep,omitempty" strict:"nonzero"`
}

// recordingSettings is a folder of segments, of which the oldest are removed.
type recordingSettings struct {
	Folder string `json:"folder" strict:"required"`
	// Limit is how large it gets; 0 is 5GiB.
	Limit pricing.Bytes `json:"limit,omitempty" strict:"nonzero"`
}

// standardOutput, as a file, is it.
const standardOutput = "-"

// handOffSettings are by what expected replicas are made known.
type handOffSettings struct {
	By kube.HandOffBy `json:"by" strict:"required"`
	// PriorityClass is the class of placeholders, which must be below 0; empty is
	// plimsoll-placeholder.
	PriorityClass string `json:"priorityClass,omitempty"`
	// Image is what placeholders run, which does nothing; empty is Kubernetes' own.
	Image string `json:"image,omitempty"`
}

// check is what is wrong with them.
func (h *handOffSettings) check() (faults pricing.Faults) {
	if h == nil {
		return nil
	}
	must := func(kept bool, key, rule, was string) { faults.Must(kept, "handoff."+key, rule, strconv.Quote(was)) }
	// "" is missed otherwise.
	must(h.By == "" || slices.Contains(kube.HandOffs, h.By), "by", "CapacityBuffer, Placeholders or none", string(h.By))
	placing := h.By == kube.ByPlaceholders
	must(placing || h.PriorityClass == "", "priorityClass", "omitted but for Placeholders", h.PriorityClass)
	must(placing || h.Image == "", "image", "omitted but for Placeholders", h.Image)
	must(h.PriorityClass == "" || cli.IsName(h.PriorityClass), "priorityClass", "a name of lower-case letters, digits, '-' and '.'", h.PriorityClass)
	must(h.Image == "" || cli.IsImage(h.Image), "image", "an image such as "+placeholderImage, h.Image)
	return faults
}

// What placeholders are unless something else is said.
const (
	placeholderClass = "plimsoll-placeholder"
	placeholderImage = "registry.k8s.io/pause:3.10.1"
)

// handOff is how expected replicas are made known by the parts that run.
func (s *siteFile) handOff() kube.HandOff {
	has := func(part string) bool { return slices.Contains(s.parts, part) }
	switch h := s.HandOff; {
	case h != nil && h.By == kube.ByPlaceholders:
		return kube.HandOff{By: h.By, PriorityClass: cmp.Or(h.PriorityClass, placeholderClass), Image: cmp.Or(h.Image, placeholderImage)}
	case h != nil:
		return kube.HandOff{By: h.By}
	case has(partPodScaler) && has(partProvider) && !has(partNodeScaler):
		return kube.HandOff{By: kube.ByCapacityBuffer}
	}
	return kube.HandOff{By: kube.ByNothing}
}

// checkLimit is what is wrong with what all machines may cost.
func checkLimit(l *pricing.Limit) (faults pricing.Faults) {
	if l != nil {
		faults.Must(l.Amount > 0, "limit.amount", "above 0", l.Amount)
		faults.Must(l.Per >= time.Minute, "limit.per", "1m or longer", l.Per)
	}
	return faults
}

// nodeSettings names a node policy. The block of settings that bears its name counts; what that
// leaves out is the policy's default.
type nodeSettings struct {
	Policy   string       `json:"policy,omitempty"` // omitted, joint
	Pending  strict.Block `json:"pending,omitzero"`
	Unneeded strict.Block `json:"unneeded,omitzero"`
	Joint    strict.Block `json:"joint,omitzero"`
}

// Types without the readers that the settings have for other files: strict's own reports faults by
// line.
type (
	pendingSettings  nodepolicy.Pending
	unneededSettings nodepolicy.Unneeded
	jointSettings    nodepolicy.Joint
)

// defaultNodes is the policy where none is named.
const defaultNodes = "joint"

// spec is the policy that is named, or every fault of it. The unneeded policy is upstream's, but
// that a pod that waits wakes it.
func (n *nodeSettings) spec() (nodepolicy.Spec, error) {
	pending, unneeded, joint := nodepolicy.DefaultPending(), nodepolicy.DefaultUnneeded(), nodepolicy.DefaultJoint()
	unneeded.FrequentLoopsEnabled = true
	if n == nil {
		return nodepolicy.Spec{Policy: defaultNodes, Joint: &joint}, nil
	}
	if other := n.others(); n.Policy == "" && n.Joint.IsZero() && other != "" {
		return nodepolicy.Spec{}, pricing.NewFault("nodes.policy", fmt.Sprintf("must be set beside %s alone, because the default is %s", other, defaultNodes))
	}
	spec := nodepolicy.Spec{Policy: cmp.Or(n.Policy, defaultNodes)}
	if err := errors.Join(
		n.Pending.Decode((*pendingSettings)(&pending)), n.Unneeded.Decode((*unneededSettings)(&unneeded)), n.Joint.Decode((*jointSettings)(&joint)),
	); err != nil {
		return spec, err
	}
	spec.Pending, spec.Unneeded, spec.Joint = &pending, &unneeded, &joint
	_, err := nodepolicy.New(spec)
	var faults []error
	for _, err := range cli.Each(err) {
		key, rule, _ := strings.Cut(err.Error(), ": ")
		faults = append(faults, pricing.NewFault("nodes."+key, rule))
	}
	return spec, errors.Join(faults...)
}

// check is what is wrong with them, for every verb that reads them.
func (n *nodeSettings) check() (faults []error) {
	_, err := n.spec()
	for _, of := range cli.Each(err) { // each block has its own
		faults = append(faults, cli.Each(of)...)
	}
	return faults
}

// checkPending refuses the policy pending where it could not know which pool it orders from. Of
// VMPools in the cluster each step says so.
func checkPending(spec *nodepolicy.Spec, pools []settings.Pool) error {
	if spec.Policy != "pending" || len(pools) == 0 || spec.Pending.Pool == "" && len(pools) == 1 {
		return nil
	}
	var names []string
	for i := range pools {
		names = append(names, pools[i].Name)
	}
	if slices.Contains(names, spec.Pending.Pool) {
		return nil
	}
	return pricing.NewFault("nodes.pending.pool", fmt.Sprintf("must be one of %s, for policy pending orders from one pool, was %q", strings.Join(names, ", "), spec.Pending.Pool))
}

// others names a block of settings of another policy than the default one, if there is one.
func (n *nodeSettings) others() string {
	switch {
	case !n.Unneeded.IsZero():
		return "unneeded"
	case !n.Pending.IsZero():
		return "pending"
	}
	return ""
}

// stateInCluster, as the state, is a ConfigMap in our own namespace.
const stateInCluster = "kubernetes"

// checkCluster adds what is wrong with the settings of what runs in a cluster.
func (s *siteFile) checkCluster() []error {
	var faults pricing.Faults
	must := faults.Must
	quoted := func(text string) string { return fmt.Sprintf("%q", text) }
	if s.parts == nil { // for another verb, which looks at the site only
		return nil
	}
	faults = append(faults, checkLimit(s.Limit)...)
	if !s.inCluster() {
		for _, k := range s.clusterKeys() {
			must(false, k, "omitted where pools are in the file: they are decided on by cluster-autoscaler alone", "there")
		}
		return faults
	}
	must(slices.Contains([]runMode{"", runRecommend, runActive}, s.Mode), "mode", "Recommend or Active", quoted(string(s.Mode)))
	must(slices.Contains(logLevels, s.LogLevel), "logLevel", "debug, info, warn or error", quoted(s.LogLevel))
	must(s.Interval >= 0 && (s.Interval == 0 || s.Interval >= time.Second && s.Interval <= 10*time.Minute), "interval", "from 1s to 10m", s.Interval)
	faults = append(faults, s.checkNames()...)
	faults = append(faults, s.checkPrices()...)
	beside := partNodeScaler
	if !slices.Contains(s.parts, beside) {
		beside = partPodScaler
	}
	must(len(s.Pools) == 0, "pools", "omitted beside "+beside+": the VMPools in the cluster are the pools, and plimsoll pve setup --pools reads their manifests", fmt.Sprintf("%d of them", len(s.Pools)))
	must(s.examining || s.Limit == nil || slices.Contains(s.parts, partNodeScaler) || slices.Contains(s.parts, partProvider), "limit", "omitted without nodescaler or provider, which keep to it", "there")
	must(s.examining || s.Quotas == nil || slices.Contains(s.parts, partNodeScaler), "quotas", "absent without nodescaler, which keeps to them", "there")
	faults = append(faults, s.Quotas.check()...)
	must(s.examining || s.HandOff == nil || slices.Contains(s.parts, partPodScaler), "handoff", "omitted without podscaler, which knows what is expected", "there")
	faults = append(faults, s.HandOff.check()...)
	must(s.examining || !s.CapacityBuffers || slices.Contains(s.parts, partNodeScaler), "capacityBuffers", "omitted without nodescaler, which keeps the room", "true")
	must(!s.CapacityBuffers || s.Nodes == nil || s.Nodes.Policy != "pending", "capacityBuffers", "omitted beside the policy pending, which keeps loadHeadroom", "true")
	faults = append(faults, s.checkServed()...)
	faults = append(faults, checkReceivers(s.Notifications)...)
	return faults
}

// checkPrices adds prices that would not count, because those of the cluster do.
func (s *siteFile) checkPrices() (faults pricing.Faults) {
	faults.Must(s.Prices == nil || !s.inCluster(), "prices", "omitted: the PriceBook in the cluster says them", "there")
	return faults
}

// checkServed adds what is wrong with what is shown to others, and kept for them.
func (s *siteFile) checkServed() (faults pricing.Faults) {
	must := faults.Must
	for _, served := range []struct{ key, address string }{{"dashboard", s.Dashboard}, {"kedaScaler", s.KEDAScaler}} {
		_, _, ok := cli.SplitAddress(served.address)
		must(ok || served.address == "", served.key, "host:port", fmt.Sprintf("%q", served.address))
	}
	must(s.KEDAScaler == "" || s.examining || slices.Contains(s.parts, partPodScaler), "kedaScaler", "omitted without podscaler, which decides what it shows", "there")
	if a := s.Admission; a != nil {
		_, _, ok := cli.SplitAddress(a.Listen)
		must(ok || a.Listen == "", "admission.listen", "host:port", fmt.Sprintf("%q", a.Listen))
		must(s.examining || slices.Contains(s.parts, partPodScaler), "admission", "omitted without podscaler, which decides what pods request", "there")
	}
	if j := s.Journal; j != nil {
		must(j.RotateSize >= 0, "journal.rotateSize", "≥ 0", j.RotateSize)
		must(j.Keep >= 0, "journal.keep", "≥ 0", j.Keep)
		must(j.File != standardOutput || j.RotateSize == 0, "journal.rotateSize", "omitted where file is -: nothing is put aside", j.RotateSize)
		must(j.File != standardOutput || j.Keep == 0, "journal.keep", "omitted where file is -: nothing is put aside", j.Keep)
	}
	if r := s.Recording; r != nil {
		must(r.Limit >= 0, "recording.limit", "≥ 0", r.Limit)
	}
	return faults
}

// checkNames adds what the API server would not take for a name. Orders are kept under that of the
// lease with more to it.
func (s *siteFile) checkNames() (faults []error) {
	for _, name := range []struct {
		key, is string
		read    func(string) (string, error)
	}{
		{"namespace", s.Namespace, cli.ParseNamespace}, {"lease", s.Lease, readLease}, {"priceBook", s.PriceBook, cli.ParseName},
	} {
		if _, err := name.read(name.is); name.is != "" && err != nil {
			faults = append(faults, pricing.NewFault(name.key, err.Error()))
		}
	}
	return faults
}

// readLease reads a name that leaves room for what is added to it.
func readLease(text string) (string, error) {
	if most := 253 - len(intentMap("")); len(text) > most {
		return "", fmt.Errorf("must be a name of at most %d letters, was one of %d", most, len(text))
	}
	return cli.ParseName(text)
}

// inCluster reports whether what is decided is decided by objects in the cluster: always, but for
// the provider alone with its pools in the file.
func (s *siteFile) inCluster() bool {
	return slices.Contains(s.parts, partPodScaler) || slices.Contains(s.parts, partNodeScaler) || len(s.Pools) == 0
}

// clusterKeys are the keys that are there of those that only count in a cluster.
func (s *siteFile) clusterKeys() []string {
	var there []string
	for key, is := range map[string]bool{
		"mode": s.Mode != "", "logLevel": s.LogLevel != "", "interval": s.Interval != 0, "namespace": s.Namespace != "", "lease": s.Lease != "",
		"priceBook": s.PriceBook != "", "journal": s.Journal != nil, "recording": s.Recording != nil, "dashboard": s.Dashboard != "", "kedaScaler": s.KEDAScaler != "", "admission": s.Admission != nil, "nodes": s.Nodes != nil,
		"quotas": s.Quotas != nil, "handoff": s.HandOff != nil, "capacityBuffers": s.CapacityBuffers,
		"prometheus": s.Prometheus != nil, "scrape": s.Scrape != nil, "signals": s.Signals != nil, "notifications": s.Notifications != nil,
	} {
		if is {
			there = append(there, key)
		}
	}
	slices.Sort(there)
	return there
}

// makesMachines reports whether one of the parts needs the site.
func (s *siteFile) makesMachines() bool {
	return s.parts == nil || slices.Contains(s.parts, partNodeScaler) || slices.Contains(s.parts, partProvider)
}

// Optional says which keys of the file need not be there for the parts that run.
func (s *siteFile) Optional(key string) bool {
	switch key {
	case "pools":
		return s.parts != nil || s.planning
	case "owner", "endpoints", "tokenFile":
		return !s.makesMachines() || s.planning
	}
	return false
}

// What is kept of journal and recording, unless the file says how much.
const (
	usualRotateSize = 64 * pricing.MiB
	usualKeep       = 3
	usualLimit      = 5 * pricing.GiB
)

// keeps is what journal and recording take of a disk at most.
func (c *clusterSettings) keeps() (all pricing.Bytes) {
	if j := c.Journal; j != nil && j.File != standardOutput {
		all = cmp.Or(j.RotateSize, usualRotateSize) * pricing.Bytes(cmp.Or(j.Keep, usualKeep)+1)
	}
	if r := c.Recording; r != nil {
		all += cmp.Or(r.Limit, usualLimit)
	}
	return all
}

// complete fills in what was omitted for what runs in a cluster.
func (c *clusterSettings) complete(env *cli.Env) error {
	c.Mode, c.Interval = cmp.Or(c.Mode, runRecommend), cmp.Or(c.Interval, 10*time.Second)
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	c.Lease, c.PriceBook = cmp.Or(c.Lease, "plimsoll"), cmp.Or(c.PriceBook, v1alpha1.DefaultPriceBook)
	if c.Journal != nil {
		c.Journal.RotateSize, c.Journal.Keep = cmp.Or(c.Journal.RotateSize, usualRotateSize), cmp.Or(c.Journal.Keep, usualKeep)
	}
	if c.Recording != nil {
		c.Recording.Limit = cmp.Or(c.Recording.Limit, usualLimit)
	}
	if c.Namespace != "" {
		return nil
	}
	c.Namespace = env.Getenv("POD_NAMESPACE")
	if c.Namespace == "" {
		data, err := env.ReadFile(namespaceFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("namespace: %w", err)
		}
		c.Namespace = strings.TrimSpace(string(data))
	}
	if c.Namespace == "" {
		return pricing.NewFault("namespace", "must be set outside of a pod, which knows its own")
	}
	return nil
}

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// identity names this process among those that may lead. No two have the same, those of one pod
// that was started twice neither.
func identity(env *cli.Env) string {
	return cmp.Or(env.Getenv("POD_NAME"), env.Getenv("HOSTNAME"), "plimsoll") + "_" + strings.ToLower(rand.Text()[:8])
}

// journalFile is the journal's file, put aside under name.1, name.2 and so on.
func (s *siteFile) journalFile() string { return filepath.Clean(s.beside(s.Journal.File)) }
