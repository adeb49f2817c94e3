package pricing_test

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"pgregory.net/rapid"
)

// noon is a Wednesday.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func shape(cpu pricing.MilliCPU, memory pricing.Bytes) pricing.Shape {
	return pricing.Shape{Name: "s", CPU: cpu, Memory: memory}
}

func clock(hour, minute int) pricing.Clock { return pricing.Clock(60*hour + minute) }

// plainBook is the default book at the same prices, in euros.
func plainBook() *pricing.Book {
	b := pricing.DefaultBook()
	b.Unit = "EUR"
	return b
}

func nightTariff() pricing.Tariff {
	return pricing.Tariff{Name: "night", From: clock(22, 0), To: clock(6, 0), Percent: new(60 * pricing.Hundred / 100)}
}

// derivedBook prices hosts of 16 vCPU and 64 GB that draw 73 W and cost 876 EUR over 50 months.
func derivedBook() *pricing.Book {
	return &pricing.Book{Unit: "EUR", Derived: &pricing.Derived{
		Hardware: pricing.Hardware{
			WattsPerHost:  new(73 * pricing.Watt),
			HardwarePrice: new(876 * pricing.Unit),
			HostVCPU:      new(16 * pricing.Core),
			HostMemory:    new(64 * pricing.GB),
		},
		PerKWh:         300_000,
		AmortiseMonths: 50,
		VCPUShare:      new(40 * pricing.Hundred / 100),
	}}
}

func TestDefaultBookChargesAUnitPerVCPUHourAndPerGBHour(t *testing.T) {
	b := pricing.DefaultBook()
	r := b.Rate(shape(2*pricing.Core, 8*pricing.GB), "", noon)
	if r != pricing.RateOf(10*pricing.Unit) {
		t.Errorf("2 vCPU and 8 GB cost %s an hour, want 10", r)
	}
	if got := r.For(30 * time.Minute); got != 5*pricing.Unit {
		t.Errorf("and %s in half an hour, want 5", got)
	}
	r = b.Rate(shape(2*pricing.Core, 8*pricing.GiB), "", noon)
	if r != 10_589_934_592 {
		t.Errorf("2 vCPU and 8 GiB cost %s an hour, want 10.589934592", r)
	}
	if got := r.For(30 * time.Minute); got != 5_294_967 {
		t.Errorf("and %s in half an hour, want 5.294967", got)
	}
}

func TestMostParticularPriceCounts(t *testing.T) {
	b := plainBook()
	b.PerHost = 100_000
	b.Hosts = map[string]pricing.HostPrices{
		"cheap": {Prices: pricing.Prices{PerVCPU: new(pricing.Micros(500_000))}, PerHost: new(pricing.Micros(0))},
		"gib":   {Prices: pricing.Prices{PerGiB: new(pricing.Unit)}},
	}
	b.Shapes = map[string]pricing.ShapePrices{
		"flat":  {PerHour: new(pricing.Micros(7_000_000))},
		"large": {Prices: pricing.Prices{PerGB: new(pricing.Micros(250_000))}},
	}
	night := nightTariff()
	night.Percent, night.PerVCPU, night.PerHost = nil, new(pricing.Micros(200_000)), new(pricing.Micros(40_000))
	b.Tariffs = []pricing.Tariff{night}
	must.Do(t, b.Validate())
	midnight := noon.Add(12 * time.Hour)
	for _, c := range []struct {
		shape, host string
		at          time.Time
		rate, fixed string
	}{
		{"s", "", noon, "10", "0"},
		{"s", "other", noon, "10", "0.1"},
		{"s", "cheap", noon, "9", "0"},
		{"s", "gib", noon, "9.450580597", "0.1"},
		{"flat", "cheap", noon, "7", "0"},
		{"large", "cheap", noon, "3", "0"},
		{"large", "gib", noon, "4", "0.1"},
		{"s", "other", midnight, "8.4", "0.04"},
		{"s", "cheap", midnight, "9", "0"},
		{"large", "other", midnight, "2.4", "0.04"},
		{"flat", "other", midnight, "7", "0.04"},
	} {
		s := pricing.Shape{Name: c.shape, CPU: 2 * pricing.Core, Memory: 8 * pricing.GB}
		if got := b.Rate(s, c.host, c.at).String(); got != c.rate {
			t.Errorf("%s on %q at %s costs %s, want %s", c.shape, c.host, c.at.Format("15:04"), got, c.rate)
		}
		if got := b.HostRate(c.host, c.at).String(); got != c.fixed {
			t.Errorf("host %q at %s costs %s, want %s", c.host, c.at.Format("15:04"), got, c.fixed)
		}
	}
}

func TestPercentageIsOfEveryPrice(t *testing.T) {
	b := plainBook()
	b.PerHost = 500_000
	b.Hosts = map[string]pricing.HostPrices{"own": {Prices: pricing.Prices{PerVCPU: new(2 * pricing.Unit)}}}
	b.Shapes = map[string]pricing.ShapePrices{"flat": {PerHour: new(pricing.Unit)}}
	b.Tariffs = []pricing.Tariff{nightTariff()}
	midnight := noon.Add(12 * time.Hour)
	for _, c := range []struct{ shape, host, rate, fixed string }{
		{"s", "any", "6", "0.3"},
		{"s", "own", "7.2", "0.3"},
		{"flat", "own", "0.6", "0.3"},
	} {
		s := pricing.Shape{Name: c.shape, CPU: 2 * pricing.Core, Memory: 8 * pricing.GB}
		if got, fixed := b.Rate(s, c.host, midnight).String(), b.HostRate(c.host, midnight).String(); got != c.rate || fixed != c.fixed {
			t.Errorf("at 60 %%, %s on %s costs %s and %s, want %s and %s", c.shape, c.host, got, fixed, c.rate, c.fixed)
		}
	}
}

func TestDerivedPricesComeFromPowerAndHardware(t *testing.T) {
	b := derivedBook()
	b.Hosts = map[string]pricing.HostPrices{
		"paid-off": {Hardware: pricing.Hardware{HardwarePrice: new(pricing.Micros(0))}},
		"big":      {Hardware: pricing.Hardware{HostVCPU: new(32 * pricing.Core), HostMemory: new(128 * pricing.GB)}},
		"own":      {Prices: pricing.Prices{PerVCPU: new(pricing.Unit)}},
	}
	b.Tariffs = []pricing.Tariff{nightTariff()}
	must.Do(t, b.Validate())
	// 73 W at 0.30 is 0.0219; 876 over 50 × 730 h is 0.024; together 0.0459, of which each of
	// 16 vCPU bears 0.4/16 and each of 64 GB 0.6/64.
	midnight := noon.Add(12 * time.Hour)
	for _, c := range []struct {
		host string
		at   time.Time
		want *big.Rat
	}{
		{"any", noon, big.NewRat(459*(4*64*2+6*16*8), 10*10000*16*64)},
		{"big", noon, big.NewRat(459*(4*64*2+6*16*8), 10*10000*16*64*2)},
		{"paid-off", noon, big.NewRat(219*(4*64*2+6*16*8), 10*10000*16*64)},
		{"any", midnight, big.NewRat((2400+219*6)*(4*64*2+6*16*8), 10*100000*16*64)},
		{"own", noon, new(big.Rat).Add(big.NewRat(2, 1), big.NewRat(459*6*8, 10*10000*64))},
	} {
		want, _ := new(big.Rat).Mul(c.want, big.NewRat(1e9, 1)).Float64()
		got := b.Rate(shape(2*pricing.Core, 8*pricing.GB), c.host, c.at)
		if got != pricing.Rate(math.Round(want)) {
			t.Errorf("on %s at %s the rate is %s, want %s", c.host, c.at.Format("15:04"), got, c.want.FloatString(10))
		}
	}
	parts := &pricing.Book{Unit: "EUR", Derived: &pricing.Derived{
		WattsPerVCPU: new(5 * pricing.Watt), WattsPerGB: new(pricing.MilliWatts(375)), PerKWh: 400_000,
	}}
	must.Do(t, parts.Validate())
	if got := parts.Rate(shape(2*pricing.Core, 8*pricing.GB), "", noon).String(); got != "0.0052" {
		t.Errorf("10 W and 3 W at 0.4 a kWh cost %s, want 0.0052", got)
	}
}

func TestTotalCountsEachHostsFixedPartOnce(t *testing.T) {
	b := plainBook()
	b.PerHost = 250_000
	s := shape(2*pricing.Core, 8*pricing.GB)
	machines := []pricing.Placed{{Shape: s, Host: "a"}, {Shape: s, Host: "b"}, {Shape: s, Host: "a"}, {Shape: s}}
	if got := b.Total(machines, noon).String(); got != "40.5" {
		t.Errorf("four machines on two hosts and on none in particular cost %s, want 40.5", got)
	}
}

func TestHavingAMachineCosts(t *testing.T) {
	plain, derived := plainBook(), derivedBook()
	for _, b := range []*pricing.Book{plain, derived} {
		b.PerMachine, b.Tariffs = 50_000, []pricing.Tariff{nightTariff()}
		b.Shapes = map[string]pricing.ShapePrices{"flat": {PerHour: new(pricing.Unit)}, "parts": {Prices: pricing.Prices{PerVCPU: new(2 * pricing.Unit)}}}
	}
	midnight := noon.Add(12 * time.Hour)
	for _, c := range []struct {
		name  string
		book  *pricing.Book
		shape string
		cpu   pricing.MilliCPU
		at    time.Time
		want  string
	}{
		{"beside its vCPUs and memory", plain, "s", pricing.Core, noon, "1.05"},
		{"beside prices that its shape has for them", plain, "parts", pricing.Core, noon, "2.05"},
		{"not beside a price for the whole machine", plain, "flat", pricing.Core, noon, "1"},
		{"and a tariff's percentage is of it, too", plain, "s", pricing.Core, midnight, "0.63"},
		{"but not where that is of the price of energy", derived, "s", 0, midnight, "0.05"},
	} {
		if got := c.book.Rate(pricing.Shape{Name: c.shape, CPU: c.cpu}, "", c.at).String(); got != c.want {
			t.Errorf("%s: %s an hour, want %s", c.name, got, c.want)
		}
	}
	if spare := plain.SpareRate(pricing.Shape{Disk: pricing.GB}); spare != pricing.RateOf(plain.PerDiskGB) {
		t.Errorf("one that is stopped costs %s an hour, and not its disk alone", spare)
	}
}

// What having a machine costs is what a machine of no size costs, and room in a machine is all but
// that.
func TestAMachineCostsItsRoomAndWhatHavingItDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, s, at := drawBook(t), drawShape(t), drawMoment(t)
		s.Name = "s"
		room, having := b.RoomRate(s.Resources(), at), b.Rate(pricing.Shape{Name: "s"}, "", at)
		// Each of the three is rounded by itself.
		if off := b.Rate(s, "", at) - room - having; off < -1 || off > 1 || b.PerMachine == 0 && off != 0 {
			t.Fatalf("%v costs %s, its room %s and having it %s", s, b.Rate(s, "", at), room, having)
		}
		without, flat := *b, pricing.Shape{Name: "flat", CPU: s.CPU, Memory: s.Memory, Disk: s.Memory}
		without.PerMachine = 0
		if b.Rate(flat, "", at) != without.Rate(flat, "", at) || b.SpareRate(flat) != without.SpareRate(flat) {
			t.Fatalf("%v costs more where having a machine does", flat)
		}
	})
}

func TestQuoteShowsItsWorking(t *testing.T) {
	withTariff := derivedBook()
	withTariff.PerHost = 10_000
	withTariff.Tariffs = []pricing.Tariff{nightTariff()}
	cheap := plainBook()
	cheap.Hosts = map[string]pricing.HostPrices{"pve1": {Prices: pricing.Prices{PerVCPU: new(pricing.Micros(31_600))}}}
	cheap.Tariffs = []pricing.Tariff{nightTariff()}
	flat := plainBook()
	flat.Shapes = map[string]pricing.ShapePrices{"s": {PerHour: new(pricing.Micros(123_456))}}
	each := plainBook()
	each.PerMachine, each.Tariffs = 50_000, []pricing.Tariff{nightTariff()}
	gib := plainBook()
	gib.PerGB, gib.PerGiB = 0, pricing.Unit
	for _, c := range []struct {
		name string
		book *pricing.Book
		s    pricing.Shape
		at   time.Time
		want string
	}{
		{"default", pricing.DefaultBook(), shape(2*pricing.Core, 8*pricing.GB), noon, `
vCPU = 2 vCPU × 1 units/vCPU-hour = 2 units/h
memory = 8 GB × 1 units/GB-hour = 8 units/h
machine = 2 + 8 = 10 units/h`},
		{"GiB at a price per GB", pricing.DefaultBook(), shape(2*pricing.Core, 8*pricing.GiB), noon, `
vCPU = 2 vCPU × 1 units/vCPU-hour = 2 units/h
memory size = 8GiB in GB = 8.589934592 GB
memory = 8.589934592 GB × 1 units/GB-hour = 8.589934592 units/h
machine = 2 + 8.589934592 = 10.589934592 units/h`},
		{"GB at a price per GiB", gib, shape(500, 8*pricing.GB), noon, `
vCPU = 0.5 vCPU × 1 EUR/vCPU-hour = 0.5 EUR/h
memory size = 8GB in GiB = 7.450580597 GiB
memory = 7.450580597 GiB × 1 EUR/GiB-hour = 7.450580597 EUR/h
machine = 0.5 + 7.450580597 = 7.950580597 EUR/h`},
		{"host and percentage", cheap, shape(2*pricing.Core, 8*pricing.GB), noon.Add(12 * time.Hour), `
tariff = Thu 00:00 in UTC = night (22:00–06:00)
vCPU = 2 vCPU × 0.0316 EUR/vCPU-hour (host pve1) = 0.0632 EUR/h
memory = 8 GB × 1 EUR/GB-hour = 8 EUR/h
machine = (0.0632 + 8) × 60 % (tariff night) = 4.83792 EUR/h`},
		{"each machine", each, shape(2*pricing.Core, 8*pricing.GB), noon.Add(12 * time.Hour), `
tariff = Thu 00:00 in UTC = night (22:00–06:00)
vCPU = 2 vCPU × 1 EUR/vCPU-hour = 2 EUR/h
memory = 8 GB × 1 EUR/GB-hour = 8 EUR/h
each machine = 0.05, besides its vCPUs and memory = 0.05 EUR/h
machine = (2 + 8 + 0.05) × 60 % (tariff night) = 6.03 EUR/h`},
		{"flat", flat, shape(2*pricing.Core, 8*pricing.GB), noon, `
machine = 0.123456 (shape s) = 0.123456 EUR/h`},
		{"derived", withTariff, shape(2*pricing.Core, 8*pricing.GB), noon.Add(12 * time.Hour), `
tariff = Thu 00:00 in UTC = night (22:00–06:00)
energy price = 0.3 × 60 % (tariff night) = 0.18 EUR/kWh
energy = 73 W × 0.18 EUR/kWh ÷ 1000 = 0.01314 EUR/h
hardware = 876 EUR ÷ (50 months × 730 h) = 0.024 EUR/h
host = 0.01314 + 0.024 = 0.03714 EUR/h
vCPU price = 40 % of 0.03714 ÷ 16 vCPU = 0.0009285 EUR/vCPU-hour
memory price = 60 % of 0.03714 ÷ 64 GB = 0.000348188 EUR/GB-hour
vCPU = 2 vCPU × 0.0009285 EUR/vCPU-hour = 0.001857 EUR/h
memory = 8 GB × 0.000348188 EUR/GB-hour = 0.0027855 EUR/h
machine = 0.001857 + 0.0027855 = 0.0046425 EUR/h
host pve1 = 0.01, once, while it carries any machine = 0.01 EUR/h`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines []string
			for _, l := range c.book.Quote(c.s, "pve1", c.at).Derivation {
				lines = append(lines, l.String())
			}
			if diff := cmp.Diff(strings.TrimSpace(c.want), strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// drawBook draws a valid book of any kind.
func drawBook(t *rapid.T) *pricing.Book {
	micros := func(name string) *pricing.Micros {
		if !rapid.Bool().Draw(t, name+"?") {
			return nil
		}
		return new(pricing.Micros(rapid.Int64Range(0, 5_000_000).Draw(t, name)))
	}
	prices := func(name string) pricing.Prices {
		p := pricing.Prices{PerVCPU: micros(name + " vCPU"), PerGB: micros(name + " GB")}
		if p.PerGB == nil {
			p.PerGiB = micros(name + " GiB")
		}
		return p
	}
	b := plainBook()
	derived := rapid.Bool().Draw(t, "derived")
	if derived {
		b = derivedBook()
	}
	b.PerHost = pricing.Micros(rapid.Int64Range(0, 100_000).Draw(t, "fixed"))
	b.PerMachine = pricing.Micros(rapid.SampledFrom([]int64{0, 1, 50_000, 3_333_333}).Draw(t, "machine"))
	b.Hosts = map[string]pricing.HostPrices{"pve1": {Prices: prices("pve1"), PerHost: micros("pve1")}}
	b.Shapes = map[string]pricing.ShapePrices{"own": {Prices: prices("own")}, "flat": {PerHour: new(pricing.Unit)}}
	b.Zone = drawZone(t)
	b.Tariffs = drawTariffs(t, derived)
	must.Do(t, b.Validate())
	return b
}

func drawZone(t *rapid.T) pricing.Zone {
	var z pricing.Zone
	name := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}).Draw(t, "zone")
	must.Do(t, z.UnmarshalText([]byte(name)))
	return z
}

// drawTariffs draws windows that share no minute of the week.
func drawTariffs(t *rapid.T, derived bool) []pricing.Tariff {
	marks := rapid.SliceOfNDistinct(rapid.IntRange(0, 24*60-1), 0, 6, rapid.ID).Draw(t, "marks")
	weekdays := [][]pricing.Weekday{nil, {1, 2, 3, 4, 5}, {0, 6}, {3}}
	var tariffs []pricing.Tariff
	for i := 0; i+1 < len(marks); i += 2 {
		w := pricing.Tariff{
			From: pricing.Clock(marks[i]), To: pricing.Clock(marks[i+1]),
			Weekdays: rapid.SampledFrom(weekdays).Draw(t, "weekdays"),
		}
		switch rapid.IntRange(0, 1).Draw(t, "effect") {
		case 0:
			w.Percent = new(pricing.Percent(rapid.Int64Range(0, 300_000).Draw(t, "percent")))
		case 1:
			if derived {
				w.PerKWh = new(pricing.Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "kWh")))
			} else {
				w.PerVCPU = new(pricing.Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "own")))
			}
		}
		with := plainBook()
		if derived {
			with = derivedBook()
		}
		with.Tariffs = append(tariffs[:len(tariffs):len(tariffs)], w)
		if with.Validate() == nil {
			tariffs = with.Tariffs
		}
	}
	return tariffs
}

func drawShape(t *rapid.T) pricing.Shape {
	return pricing.Shape{
		Name:   rapid.SampledFrom([]string{"s", "own", "flat"}).Draw(t, "shape"),
		CPU:    pricing.MilliCPU(rapid.Int64Range(0, 128_000).Draw(t, "cpu")),
		Memory: pricing.Bytes(rapid.Int64Range(0, int64(2*pricing.TiB)).Draw(t, "memory")),
	}
}

func drawMoment(t *rapid.T) time.Time {
	// A moment in 2026.
	return time.Unix(rapid.Int64Range(1_767_000_000, 1_799_000_000).Draw(t, "moment"), 0).UTC()
}

func TestRateNeverFallsWithSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, small, at := drawBook(t), drawShape(t), drawMoment(t)
		large := small
		large.CPU += pricing.MilliCPU(rapid.Int64Range(0, 64_000).Draw(t, "more cpu"))
		large.Memory += pricing.Bytes(rapid.Int64Range(0, int64(pricing.TB)).Draw(t, "more memory"))
		if b.Rate(small, "pve1", at) > b.Rate(large, "pve1", at) {
			t.Fatalf("%v costs more than %v", small, large)
		}
	})
}

func TestShortWayOfPricingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &pricing.Book{
			PerVCPU:    pricing.Micros(rapid.Int64Min(0).Draw(t, "vCPU")),
			PerGB:      pricing.Micros(rapid.Int64Min(0).Draw(t, "GB")),
			PerMachine: pricing.Micros(rapid.Int64Min(0).Draw(t, "machine")),
		}
		s := shape(pricing.MilliCPU(rapid.Int64Min(0).Draw(t, "cpu")), pricing.Bytes(rapid.Int64Min(0).Draw(t, "memory")))
		own := func(what string) *pricing.Micros {
			price := pricing.Micros(rapid.Int64Min(0).Draw(t, what))
			return rapid.SampledFrom([]*pricing.Micros{nil, &price}).Draw(t, what+" of its own")
		}
		b.Hosts = map[string]pricing.HostPrices{"pve1": {Prices: pricing.Prices{PerVCPU: own("vCPU"), PerGB: own("GB")}, PerHost: own("host")}}
		host := rapid.SampledFrom([]string{"", "pve1", "pve2"}).Draw(t, "host")
		long := *b
		long.Tariffs = []pricing.Tariff{{From: clock(0, 0), To: clock(24, 0), Percent: new(pricing.Hundred)}}
		if got, want := b.Rate(s, host, noon), long.Rate(s, host, noon); got != want || got < 0 {
			t.Fatalf("%v at %s and %s costs %s on %q, the long way %s", s, b.PerVCPU, b.PerGB, got, host, want)
		}
		if got, want := b.HostRate(host, noon), long.HostRate(host, noon); got != want || got < 0 {
			t.Fatalf("%q itself costs %s, the long way %s", host, got, want)
		}
	})
}

func TestRateIsTheExactPriceRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := plainBook()
		b.PerVCPU = pricing.Micros(rapid.Int64Range(0, 1e12).Draw(t, "vCPU"))
		price := pricing.Micros(rapid.Int64Range(1, 1e12).Draw(t, "memory price"))
		per := rapid.SampledFrom([]pricing.Bytes{pricing.GB, pricing.GiB}).Draw(t, "per")
		if b.PerGB = price; per == pricing.GiB {
			b.PerGB, b.PerGiB = 0, price
		}
		s := drawShape(t)
		exact := new(big.Rat).Mul(big.NewRat(int64(b.PerVCPU), 1000), big.NewRat(int64(s.CPU), 1000))
		exact.Add(exact, new(big.Rat).Mul(big.NewRat(int64(price), 1000), big.NewRat(int64(s.Memory), int64(per))))
		exact.Mul(exact, big.NewRat(1e6, 1)) // from thousands of units to Rate
		off := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(int64(b.Rate(s, "", noon))))
		if exact.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) < 0 && off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 {
			t.Fatalf("%v costs %s, want %s", s, b.Rate(s, "", noon), exact.FloatString(2))
		}
	})
}

func TestTooLargeIsTheLargestNotNegative(t *testing.T) {
	b := &pricing.Book{PerVCPU: math.MaxInt64, PerGB: math.MaxInt64, PerMachine: math.MaxInt64}
	s := shape(math.MaxInt64, math.MaxInt64)
	if got := b.Rate(s, "", noon); got != math.MaxInt64 {
		t.Errorf("the rate is %d", got)
	}
	if got := b.Total([]pricing.Placed{{Shape: s}, {Shape: s}}, noon); got != math.MaxInt64 {
		t.Errorf("the total is %d", got)
	}
	if got := pricing.Rate(math.MaxInt64).For(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("over 292 years it comes to %d", got)
	}
	if got := pricing.RateOf(math.MinInt64); got != math.MinInt64 {
		t.Errorf("the least amount an hour is %d", got)
	}
}

func TestBookIsTheSameAfterJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawBook(t)
		data := must.Get(json.Marshal(want))(t)
		var got pricing.Book
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		again, err := json.Marshal(&got)
		if err != nil || string(again) != string(data) || got.Zone.String() != want.Zone.String() {
			t.Fatalf("written as %s, then as %s, %v", data, again, err)
		}
		s, at := drawShape(t), drawMoment(t)
		if q, r := want.Quote(s, "pve1", at), got.Quote(s, "pve1", at); !reflect.DeepEqual(q, r) || q.Rate != want.Rate(s, "pve1", at) || q.HostRate != want.HostRate("pve1", at) {
			t.Fatalf("quotes %+v, then %+v", q, r)
		}
	})
}

func TestValidateReportsEveryFaultWithKeyRuleAndValue(t *testing.T) {
	b := &pricing.Book{
		PerVCPU:    -3 * pricing.Unit,
		PerGB:      pricing.Unit,
		PerGiB:     pricing.Unit,
		PerHost:    -1,
		PerMachine: -2,
		Hosts: map[string]pricing.HostPrices{"pve1.lan": {
			Prices:   pricing.Prices{PerGB: new(pricing.Unit), PerGiB: new(-pricing.Unit)},
			Hardware: pricing.Hardware{WattsPerHost: new(60 * pricing.Watt)},
		}},
		Shapes: map[string]pricing.ShapePrices{"l": {PerHour: new(pricing.Unit), Prices: pricing.Prices{PerVCPU: new(pricing.Unit)}}},
		Zone:   pricing.Zone{Location: time.Local},
		Tariffs: []pricing.Tariff{
			{From: clock(22, 0), To: clock(6, 0), Percent: new(-pricing.Hundred)},
			{From: clock(5, 0), To: clock(7, 0), Percent: new(pricing.Hundred), Prices: pricing.Prices{PerVCPU: new(pricing.Unit)}, Weekdays: []pricing.Weekday{2, 9, 2}},
			{From: clock(9, 0), To: clock(9, 0)},
			{From: clock(12, 0), To: clock(25, 0), PerKWh: new(pricing.Unit)},
			{From: clock(5, 0), To: clock(7, 0), Percent: new(pricing.Hundred), Weekdays: []pricing.Weekday{2}},
		},
	}
	want := `
currency: must not be empty, was ""
timeZone: must be UTC or the name of a time zone, was Local
pricePerVCPUHour: must be ≥ 0, was -3
must have no pricePerGiBHour beside pricePerGBHour, was 1
pricePerMachineHour: must be ≥ 0, was -0.000002
pricePerHostHour: must be ≥ 0, was -0.000001
hosts["pve1.lan"].pricePerGiBHour: must be ≥ 0, was -1
hosts["pve1.lan"]: must have no pricePerGiBHour beside pricePerGBHour, was -1
hosts["pve1.lan"]: must have no wattsPerHost in a book that is not derived, was 60
shapes.l: must have no pricePerHour beside prices per vCPU or memory, was 1
tariffs[0].percent: must be ≥ 0, was -100
tariffs[1].weekdays[1]: must be a day of the week, was 9
tariffs[1].weekdays[2]: must not be given twice, was Tue
tariffs[1]: must have either percent or prices of its own, was both
tariffs[2]: must have a from and a to that differ (the whole day is 00:00 to 24:00), was 09:00–09:00
tariffs[2]: must have either percent or prices of its own, was neither
tariffs[3].to: must be a time of day from 00:00 to 24:00, was 25:00
tariffs[3]: must have no pricePerKWh in a book that is not derived, was 1
tariffs[4]: must not overlap tariffs[0] (22:00–06:00), was Tue 05:00–07:00: both hold on Tue 05:00`
	checkFaults(t, b, want)
}

func TestValidateReportsEveryFaultOfADerivedBook(t *testing.T) {
	b := &pricing.Book{
		Unit:    "EUR",
		PerVCPU: pricing.Unit,
		PerGiB:  pricing.Unit,
		Derived: &pricing.Derived{
			Hardware:       pricing.Hardware{WattsPerHost: new(-pricing.Watt), HostVCPU: new(pricing.MilliCPU(0))},
			WattsPerVCPU:   new(pricing.Watt),
			PerKWh:         -1,
			AmortiseMonths: -2,
			VCPUShare:      new(pricing.Hundred + 1),
		},
		Hosts: map[string]pricing.HostPrices{"pve1": {Hardware: pricing.Hardware{HostMemory: new(pricing.Bytes(-1))}}},
		Tariffs: []pricing.Tariff{
			{From: clock(1, 0), To: clock(2, 0), PerHost: new(pricing.Unit)},
			{From: clock(3, 0), To: clock(4, 0)},
		},
	}
	checkFaults(t, b, `
hosts.pve1.hostMemory: must be greater than 0, was -1B
tariffs[0]: must have percent or pricePerKWh in a derived book, was prices per hour
tariffs[1]: must have either percent or pricePerKWh, was neither
must have no pricePerVCPUHour beside derived, was 1
must have no pricePerGiBHour beside derived, was 1
derived.wattsPerHost: must be ≥ 0, was -1
derived.hostVCPU: must be greater than 0, was 0
derived.pricePerKWh: must be ≥ 0, was -0.000001
derived.amortiseMonths: must be from 1 to 1200, was -2
derived.vCPUSharePercent: must be from 0 to 100, was 100.001
derived: must state power per host or per vCPU and GB, was both
derived.hostMemory: must be set where watts per host or a hardwarePrice are shared out, was not set`)
	checkFaults(t, &pricing.Book{Unit: "EUR", Derived: &pricing.Derived{}}, `
derived: must have watts or a hardwarePrice, was neither`)
	b = derivedBook()
	b.Derived.AmortiseMonths = 0
	checkFaults(t, b, `
derived.amortiseMonths: must be greater than 0 where there is a hardwarePrice, was 0`)
}

func checkFaults(t *testing.T, b *pricing.Book, want string) {
	t.Helper()
	err := b.Validate()
	if err == nil {
		t.Fatal("no fault is found")
	}
	if diff := cmp.Diff(strings.TrimSpace(want), err.Error()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkRate(b *testing.B) {
	s := shape(2*pricing.Core, 8*pricing.GB)
	tariffed := derivedBook()
	tariffed.Tariffs = []pricing.Tariff{nightTariff()}
	for name, book := range map[string]*pricing.Book{"plain": pricing.DefaultBook(), "derived": tariffed} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				book.Rate(s, "pve1", noon)
			}
		})
	}
}
