package pricing_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"pgregory.net/rapid"
)

func TestSizesAreReadInTheUnitTheyAreWrittenIn(t *testing.T) {
	for text, want := range map[string]pricing.Bytes{
		"8GB":         8_000_000_000,
		"8GiB":        8_589_934_592,
		"8 GB":        8_000_000_000,
		"250MB":       250_000_000,
		"512Mi":       536_870_912,
		"8G":          8_000_000_000,
		"1.5GB":       1_500_000_000,
		"1.5Gi":       1_610_612_736,
		"100k":        100_000,
		"64Ki":        65_536,
		"7kB":         7_000,
		"7KB":         7_000,
		"2TB":         2_000_000_000_000,
		"1Ti":         1 << 40,
		"0GB":         0,
		"17B":         17,
		"0.1KiB":      102,
		"0.3GiB":      322_122_547, // of 322 122 547.2
		"8388607.9TB": 8_388_607_900_000_000_000,
	} {
		got, err := pricing.ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, int64(got), err, int64(want))
		}
	}
}

func TestBadNumbersAreRefusedWithRuleAndValue(t *testing.T) {
	bytes := func(s string) error { _, err := pricing.ParseBytes(s); return err }
	cpu := func(s string) error { _, err := pricing.ParseMilliCPU(s); return err }
	money := func(s string) error { _, err := pricing.ParseMicros(s); return err }
	for _, c := range []struct {
		parse      func(string) error
		text, rule string
	}{
		{bytes, "", "must be a size in B, kB"},
		{bytes, "8XB", "must be a size in B, kB"},
		{bytes, "8", "must be a size in B, kB"},
		{bytes, "8gb", "must be a size in B, kB"},
		{bytes, "8m", "must be a size in B, kB"},
		{bytes, "GB", "must be a size in B, kB"},
		{bytes, ".5GB", "must be a size in B, kB"},
		{bytes, "1.GB", "must be a size in B, kB"},
		{bytes, "1e3GB", "must be a size in B, kB"},
		{bytes, "+8GB", "must be a size in B, kB"},
		{bytes, "8GB ", "must be a size in B, kB"},
		{bytes, "8  GB", "must be a size in B, kB"},
		{bytes, "-8GB", "must be ≥ 0"},
		{bytes, "9223373TB", "must be at most "},
		{cpu, "", "must be a number of cores such as 2, 0.5 or 500m"},
		{cpu, "2 cores", "must be a number of cores"},
		{cpu, "m", "must be a number of cores"},
		{cpu, "-1", "must be ≥ 0"},
		{cpu, "0.0005", "must be a whole number of thousandths of a core"},
		{cpu, "1.5m", "must be a whole number of thousandths of a core"},
		{cpu, "-0.0001", "must be a whole number of thousandths of a core"},
		{cpu, "9223372036854776", "must be at most 9223372036854775807m"},
		{money, "", "must be a decimal number such as 40 or 0.0316"},
		{money, "4 0", "must be a decimal number"},
		{money, "1e3", "must be a decimal number"},
		{money, "0x10", "must be a decimal number"},
		{money, "NaN", "must be a decimal number"},
		{money, "1_000", "must be a decimal number"},
		{money, "1,5", "must be a decimal number"},
		{money, "--1", "must be a decimal number"},
		{money, "٣", "must be a decimal number"},
		{money, "0.0000001", "must have at most 6 decimals"},
		{money, "9223372036854.775808", "must not be further from 0 than 9223372036854.775807"},
		{money, "-9223372036854.775809", "must not be further from 0 than -9223372036854.775808"},
	} {
		err := c.parse(c.text)
		if err == nil {
			t.Errorf("%q is accepted, want %q", c.text, c.rule)
			continue
		}
		if s := err.Error(); !strings.HasPrefix(s, c.rule) || !strings.HasSuffix(s, `, was "`+c.text+`"`) {
			t.Errorf("%q is refused with %q, want the rule %q and the value", c.text, s, c.rule)
		}
	}
}

func TestCoresAndMoneyAreReadExactly(t *testing.T) {
	for text, want := range map[string]pricing.MilliCPU{"2": 2000, "0.5": 500, "500m": 500, "1.25": 1250, "2.0m": 2, "0": 0} {
		if got, err := pricing.ParseMilliCPU(text); err != nil || got != want {
			t.Errorf("ParseMilliCPU(%q) = %d, %v, want %d", text, int64(got), err, int64(want))
		}
	}
	for text, want := range map[string]pricing.Micros{
		"40": 40_000_000, "0.0316": 31_600, "-3": -3_000_000, "0.000001": 1, "007": 7_000_000,
		"9223372036854.775807": math.MaxInt64, "-9223372036854.775808": math.MinInt64,
	} {
		if got, err := pricing.ParseMicros(text); err != nil || got != want {
			t.Errorf("ParseMicros(%q) = %d, %v, want %d", text, int64(got), err, int64(want))
		}
	}
}

func TestSizesPrintShortAndExact(t *testing.T) {
	for size, want := range map[pricing.Bytes]string{
		0:                      "0B",
		999:                    "999B",
		1000:                   "1kB",
		1024:                   "1KiB",
		1001:                   "1001B",
		1_500_000:              "1.5MB",
		8 * pricing.GB:         "8GB",
		8 * pricing.GiB:        "8GiB",
		512 * pricing.MiB:      "512MiB",
		1536 * pricing.MiB:     "1.5GiB",
		250 * pricing.MB:       "250MB",
		-8 * pricing.GiB:       "-8GiB",
		math.MaxInt64:          "9223372036854775807B",
		math.MinInt64:          "-8388608TiB",
		3*pricing.TiB + 512:    "3298534883840B",
		8*pricing.GB + 1:       "8000000001B",
		pricing.TB * 9_000_000: "9000000TB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d bytes print as %s, want %s", int64(size), got, want)
		}
	}
	for cpu, want := range map[pricing.MilliCPU]string{2000: "2", 500: "500m", 1250: "1250m", 0: "0", -500: "-500m"} {
		if got := cpu.String(); got != want {
			t.Errorf("%d thousandths of a core print as %s, want %s", int64(cpu), got, want)
		}
	}
	if got := pricing.Micros(math.MinInt64).String(); got != "-9223372036854.775808" {
		t.Errorf("the least amount prints as %s", got)
	}
}

func TestWhatIsPrintedReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := pricing.Bytes(rapid.Int64Min(0).Draw(t, "bytes"))
		if back, err := pricing.ParseBytes(b.String()); err != nil || back != b {
			t.Fatalf("%d bytes print as %s, read as %d, %v", int64(b), b, int64(back), err)
		}
		c := pricing.MilliCPU(rapid.Int64Min(0).Draw(t, "cpu"))
		if back, err := pricing.ParseMilliCPU(c.String()); err != nil || back != c {
			t.Fatalf("%d thousandths print as %s, read as %d, %v", int64(c), c, int64(back), err)
		}
		m := pricing.Micros(rapid.Int64().Draw(t, "money"))
		if back, err := pricing.ParseMicros(m.String()); err != nil || back != m {
			t.Fatalf("%d millionths print as %s, read as %d, %v", int64(m), m, int64(back), err)
		}
	})
}

// quantities has one of each type that has a JSON form of its own.
type quantities struct {
	Money  pricing.Micros
	Rate   pricing.Rate
	CPU    pricing.MilliCPU
	Memory pricing.Bytes
	Power  pricing.MilliWatts
	Part   pricing.Percent
}

func TestJSONReadsBackAndMeansTheSameAsNumberAndString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int64 { return rapid.Int64().Draw(t, name) }
		want := quantities{
			pricing.Micros(n("money")), pricing.Rate(n("rate")), pricing.MilliCPU(n("cpu")),
			pricing.Bytes(n("memory")), pricing.MilliWatts(n("power")), pricing.Percent(n("part")),
		}
		data := must.Get(json.Marshal(want))(t)
		var got quantities
		if err := json.Unmarshal(data, &got); err != nil || got != want {
			t.Fatalf("%+v is written as %s and read as %+v, %v", want, data, got, err)
		}
	})
	var got, want quantities
	text := `{"Money":"0.0316","Rate":"1.5","CPU":"500m","Memory":"8GiB","Power":"12.5","Part":"60"}`
	number := `{"Money":0.0316,"Rate":1.5,"CPU":0.5,"Memory":8589934592,"Power":12.5,"Part":60}`
	must.Do(t, json.Unmarshal([]byte(text), &got))
	must.Do(t, json.Unmarshal([]byte(number), &want))
	if got != want || got.Money != 31_600 || got.Rate != 1_500_000_000 || got.Power != 12_500 || got.Part != 60_000 {
		t.Errorf("strings read as %+v, numbers as %+v", got, want)
	}
	for _, bad := range []string{`{"Money":null}`, `{"Money":1e-3}`, `{"Money":"1 EUR"}`, `{"Money":true}`, `{"Memory":1.5}`, `{"Memory":"8"}`, `{"CPU":0.0001}`} {
		if err := json.Unmarshal([]byte(bad), new(quantities)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func FuzzParsedNumbersReadBack(f *testing.F) {
	for _, s := range []string{"8GB", "8GiB", "1.5 Gi", "500m", "0.0316", "-3", "99999999999999999999999GB", "1."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := pricing.ParseBytes(s); err == nil {
			if back, err := pricing.ParseBytes(b.String()); err != nil || back != b {
				t.Errorf("%q is %d bytes, prints as %s, reads as %d, %v", s, int64(b), b, int64(back), err)
			}
		}
		if c, err := pricing.ParseMilliCPU(s); err == nil {
			if back, err := pricing.ParseMilliCPU(c.String()); err != nil || back != c {
				t.Errorf("%q is %d thousandths, prints as %s, reads as %d, %v", s, int64(c), c, int64(back), err)
			}
		}
		if m, err := pricing.ParseMicros(s); err == nil {
			if back, err := pricing.ParseMicros(m.String()); err != nil || back != m {
				t.Errorf("%q is %d millionths, prints as %s, reads as %d, %v", s, int64(m), m, int64(back), err)
			}
		}
	})
}
