package pricing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Fault is one thing that is wrong in a book, or in other configuration.
type Fault struct{ path, text string }

// NewFault is a fault of a key, and what is wrong with it.
func NewFault(path, text string) *Fault { return &Fault{path, text} }

// Path is the faulty key as it is written in configuration. It is the parent key if several keys
// contradict each other, and empty for the whole.
func (f *Fault) Path() string { return f.path }

// At is the fault under another key.
func (f *Fault) At(path string) *Fault { return &Fault{path, f.text} }

// Error names the key and what is wrong with it.
func (f *Fault) Error() string {
	if f.path == "" {
		return f.text
	}
	return f.path + ": " + f.text
}

// Faults collects what is wrong in configuration: all of it, not the first.
type Faults []error

// Must notes a fault of the key, with the rule that it breaks and its value, unless it keeps it.
func (f *Faults) Must(kept bool, key, rule string, was any) {
	if !kept {
		*f = append(*f, NewFault(key, fmt.Sprintf("must be %s, was %v", rule, was)))
	}
}

// Validate reports every fault of the book, as Faults joined together.
func (b *Book) Validate() error {
	var f faults
	if b.Unit == "" {
		f.add("currency", "must not be empty", `""`)
	}
	if b.Zone.Location == time.Local {
		f.add("timeZone", "must be UTC or the name of a time zone", "Local")
	}
	f.checkPrices("", b.base())
	atLeastZero(&f, "pricePerDiskGBHour", &b.PerDiskGB)
	atLeastZero(&f, "pricePerMachineHour", &b.PerMachine)
	atLeastZero(&f, "pricePerHostHour", &b.PerHost)
	for _, name := range slices.Sorted(maps.Keys(b.Hosts)) {
		f.named("hosts", name)
		f.checkHost(under("hosts", name), b.Hosts[name], b.Derived != nil)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Shapes)) {
		f.named("shapes", name)
		f.checkShape(under("shapes", name), b.Shapes[name])
	}
	f.checkTariffs(b)
	f.checkDerived(b)
	return errors.Join(f...)
}

// faults collects what is wrong.
type faults []error

func (f *faults) add(path, rule string, was any) {
	*f = append(*f, &Fault{path, fmt.Sprintf("%s, was %v", rule, was)})
}

// base returns the book's own prices, none where they are zero.
func (b *Book) base() Prices {
	set := func(m Micros) *Micros {
		if m == 0 {
			return nil
		}
		return &m
	}
	return Prices{PerVCPU: set(b.PerVCPU), PerGB: set(b.PerGB), PerGiB: set(b.PerGiB)}
}

// under is the path of a name that the user chose, in quotes where it would be misread.
func under(path, name string) string {
	if name == "" || strings.ContainsAny(name, ".[]: \t\n\"") {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	return path + "." + name
}

// named refuses an empty name: it would be that of every machine whose host or shape is not known.
func (f *faults) named(path, name string) {
	if name == "" {
		f.add(path, "must have names as keys", `""`)
	}
}

// atLeastZero, like every check of an optional value, lets pass what is not there.
func atLeastZero[T ~int | ~int64](f *faults, path string, v *T) {
	if v != nil && *v < 0 {
		f.add(path, "must be ≥ 0", *v)
	}
}

func moreThanZero[T ~int | ~int64](f *faults, path string, v *T) {
	if v != nil && *v <= 0 {
		f.add(path, "must be greater than 0", *v)
	}
}

// checkPrices checks the prices at a path, which is empty for the book's own.
func (f *faults) checkPrices(path string, p Prices) {
	prefix := ""
	if path != "" {
		prefix = path + "."
	}
	atLeastZero(f, prefix+"pricePerVCPUHour", p.PerVCPU)
	atLeastZero(f, prefix+"pricePerGBHour", p.PerGB)
	atLeastZero(f, prefix+"pricePerGiBHour", p.PerGiB)
	if p.PerGB != nil && p.PerGiB != nil {
		f.add(path, "must have no pricePerGiBHour beside pricePerGBHour", *p.PerGiB)
	}
}

// onlyDerived reports what only a derived book may have.
func onlyDerived[T any](f *faults, path, key string, v *T) {
	if v != nil {
		f.add(path, "must have no "+key+" in a book that is not derived", *v)
	}
}

func (f *faults) checkHost(path string, h HostPrices, derived bool) {
	f.checkPrices(path, h.Prices)
	atLeastZero(f, path+".pricePerHostHour", h.PerHost)
	f.checkHardware(path, h.Hardware, derived)
}

func (f *faults) checkHardware(path string, h Hardware, derived bool) {
	if !derived {
		onlyDerived(f, path, "wattsPerHost", h.WattsPerHost)
		onlyDerived(f, path, "hardwarePrice", h.HardwarePrice)
		onlyDerived(f, path, "hostVCPU", h.HostVCPU)
		onlyDerived(f, path, "hostMemory", h.HostMemory)
		return
	}
	atLeastZero(f, path+".wattsPerHost", h.WattsPerHost)
	atLeastZero(f, path+".hardwarePrice", h.HardwarePrice)
	moreThanZero(f, path+".hostVCPU", h.HostVCPU)
	moreThanZero(f, path+".hostMemory", h.HostMemory)
}

func (f *faults) checkShape(path string, s ShapePrices) {
	atLeastZero(f, path+".pricePerHour", s.PerHour)
	f.checkPrices(path, s.Prices)
	if s.PerHour != nil && s.Prices != (Prices{}) {
		f.add(path, "must have no pricePerHour beside prices per vCPU or memory", *s.PerHour)
	}
}

func (f *faults) checkTariffs(b *Book) {
	var sound []int // whose windows are windows
	for i := range b.Tariffs {
		t, path := &b.Tariffs[i], fmt.Sprintf("tariffs[%d]", i)
		if f.checkWindow(path, t) {
			sound = append(sound, i)
		}
		f.checkEffect(path, t, b.Derived != nil)
	}
	for n, i := range sound {
		for _, j := range sound[:n] {
			earlier, later := &b.Tariffs[j], &b.Tariffs[i]
			if at, ok := overlap(earlier, later); ok {
				rule := fmt.Sprintf("must not overlap tariffs[%d] (%s)", j, earlier.window())
				f.add(fmt.Sprintf("tariffs[%d]", i), rule, fmt.Sprintf("%s: both hold on %s", later.window(), at))
			}
		}
	}
}

// checkWindow reports whether a tariff's window is one.
func (f *faults) checkWindow(path string, t *Tariff) bool {
	before := len(*f)
	if t.From < 0 || t.From >= 24*60 {
		f.add(path+".from", "must be a time of day from 00:00 to 23:59", t.From)
	}
	if t.To < 0 || t.To > 24*60 {
		f.add(path+".to", "must be a time of day from 00:00 to 24:00", t.To)
	}
	if t.From == t.To {
		f.add(path, "must have a from and a to that differ (the whole day is 00:00 to 24:00)", t.window())
	}
	for i, d := range t.Weekdays {
		if d < 0 || d > 6 {
			f.add(fmt.Sprintf("%s.weekdays[%d]", path, i), "must be a day of the week", int(d))
		} else if slices.Contains(t.Weekdays[:i], d) {
			f.add(fmt.Sprintf("%s.weekdays[%d]", path, i), "must not be given twice", d)
		}
	}
	return len(*f) == before
}

// checkEffect checks that a tariff changes prices, in one way, and such as the book has.
func (f *faults) checkEffect(path string, t *Tariff, derived bool) {
	atLeastZero(f, path+".percent", t.Percent)
	f.checkPrices(path, t.Prices)
	atLeastZero(f, path+".pricePerHostHour", t.PerHost)
	atLeastZero(f, path+".pricePerKWh", t.PerKWh)
	perHour := t.Prices != Prices{} || t.PerHost != nil
	switch {
	case derived && perHour:
		f.add(path, "must have percent or pricePerKWh in a derived book", "prices per hour")
	case derived && (t.Percent != nil) == (t.PerKWh != nil):
		f.add(path, "must have either percent or pricePerKWh", bothOrNeither(t.Percent != nil))
	case !derived && t.PerKWh != nil:
		onlyDerived(f, path, "pricePerKWh", t.PerKWh)
	case !derived && (t.Percent != nil) == perHour:
		f.add(path, "must have either percent or prices of its own", bothOrNeither(perHour))
	}
}

func bothOrNeither(both bool) string {
	if both {
		return "both"
	}
	return "neither"
}

// overlap returns a moment of the week that two windows both hold. If they overlap at all, they
// do where one of them starts.
func overlap(a, b *Tariff) (string, bool) {
	for d := range Weekday(7) {
		for _, starts := range []*Tariff{a, b} {
			if a.covers(d, starts.From) && b.covers(d, starts.From) {
				return d.String() + " " + starts.From.String(), true
			}
		}
	}
	return "", false
}

// maxMonths is longer than any hardware lasts, and short enough to count in hours.
const maxMonths = 1200

func (f *faults) checkDerived(b *Book) {
	d := b.Derived
	if d == nil {
		return
	}
	f.notBeside("pricePerVCPUHour", b.base().PerVCPU)
	f.notBeside("pricePerGBHour", b.base().PerGB)
	f.notBeside("pricePerGiBHour", b.base().PerGiB)
	f.checkHardware("derived", d.Hardware, true)
	atLeastZero(f, "derived.wattsPerVCPU", d.WattsPerVCPU)
	atLeastZero(f, "derived.wattsPerGB", d.WattsPerGB)
	atLeastZero(f, "derived.pricePerKWh", &d.PerKWh)
	if m := d.AmortiseMonths; m < 0 || m > maxMonths {
		f.add("derived.amortiseMonths", fmt.Sprintf("must be from 1 to %d", maxMonths), m)
	}
	if s := d.VCPUShare; s != nil && (*s < 0 || *s > Hundred) {
		f.add("derived.vCPUSharePercent", "must be from 0 to 100", *s)
	}
	f.checkSources(b)
}

// checkSources checks that a derived book has something to derive prices from, stated in one
// way, and all that sharing it out takes.
func (f *faults) checkSources(b *Book) {
	d := b.Derived
	byPart := d.WattsPerVCPU != nil || d.WattsPerGB != nil
	byHost, hardware := d.WattsPerHost != nil, d.HardwarePrice != nil
	for _, h := range b.Hosts {
		byHost = byHost || h.WattsPerHost != nil
		hardware = hardware || h.HardwarePrice != nil
	}
	if byHost && byPart {
		f.add("derived", "must state power per host or per vCPU and GB", "both")
	}
	if !byHost && !byPart && !hardware {
		f.add("derived", "must have watts or a hardwarePrice", "neither")
	}
	if hardware && d.AmortiseMonths == 0 {
		f.add("derived.amortiseMonths", "must be greater than 0 where there is a hardwarePrice", 0)
	}
	if !hardware && d.AmortiseMonths > 0 {
		f.add("derived.amortiseMonths", "must not be set without a hardwarePrice", d.AmortiseMonths)
	}
	if !byHost && !hardware {
		return
	}
	needed(f, "derived.hostVCPU", d.HostVCPU)
	needed(f, "derived.hostMemory", d.HostMemory)
	needed(f, "derived.vCPUSharePercent", d.VCPUShare)
}

// notBeside reports what a derived book must not have.
func (f *faults) notBeside(key string, v *Micros) {
	if v != nil {
		f.add("", "must have no "+key+" beside derived", *v)
	}
}

// needed reports what is not set and must be.
func needed[T any](f *faults, path string, v *T) {
	if v == nil {
		f.add(path, "must be set where watts per host or a hardwarePrice are shared out", "not set")
	}
}
