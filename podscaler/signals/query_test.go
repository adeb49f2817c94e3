package signals

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

func TestVariablesAreQuotedForWhereTheyStand(t *testing.T) {
	source := &Source{
		Target: Target{Namespace: "shop", Kind: "Deployment", Name: "cart.v2"},
		SLO:    podscaler.SLO{Quantile: 0.999, Target: 250 * time.Millisecond, Window: 90 * time.Second},
	}
	for _, c := range []struct{ name, text, want string }{
		{"a name is itself behind =", `a{w="$workload",n='$namespace'}`, `a{w="cart.v2",n='shop'}`},
		{"a name matches nothing but itself behind =~", `a{w=~"$workload-.*"}`, `a{w=~"cart\\.v2-.*"}`},
		{"and behind !~, with a space, in backquotes", "a{w !~ `$workload|x`}", "a{w !~ `cart\\.v2|x`}"},
		{"numbers and times need no quotes", `histogram_quantile($quantile, sum by (le) (rate(a[$window])))`, `histogram_quantile(0.999, sum by (le) (rate(a[90s])))`},
		{"nor mind them", `a{le="$target"} or a{le="$targetMs"}`, `a{le="0.25"} or a{le="250"}`},
		{"an edge as each Prometheus writes it", `a{le=~"$target(\\.0)?"} or a{le=~'$targetMs(\\.0)?'}`, `a{le=~"0\\.25(\\.0)?"} or a{le=~'250(\\.0)?'}`},
		{"the parts of a match are no variables", `label_replace(a{w="$workload"}, "b", "$1-${2}", "c", "(.*)-(.*)")`, `label_replace(a{w="cart.v2"}, "b", "$1-${2}", "c", "(.*)-(.*)")`},
		{"the end of a regular expression is no variable", `a{b=~"c$|d$"}`, `a{b=~"c$|d$"}`},
		{"an escaped quote does not end a string", `a{b="\"$workload"}`, `a{b="\"cart.v2"}`},
		{"a comment is left alone", "a # \"$nothing\n+b{c=\"$workload\"}", "a # \"$nothing\n+b{c=\"cart.v2\"}"},
		{"a # within quotes is no comment", `a{b="#$workload"}`, `a{b="#cart.v2"}`},
		{"the longest name counts", `$targetMs`, `250`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := expand(c.text, source.values())
			if err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestNoValueBreaksOutOfItsQuotes(t *testing.T) {
	nasty := "a\"b'c\\d\ne$workload"
	for _, c := range []struct{ text, want string }{
		{`m{a="$workload"}`, `m{a="a\"b'c\\d\ne$workload"}`},
		{`m{a='$workload'}`, `m{a='a"b\'c\\d\ne$workload'}`},
		{`m{a=~"$workload"}`, `m{a=~"a\"b'c\\\\d\ne\\$workload"}`},
	} {
		got, _, err := expand(c.text, map[string]string{"workload": nasty})
		if err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}

func TestWindowsAreWrittenAsPromQLReadsThem(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Minute: "60s", 20 * time.Minute: "1200s", 1500 * time.Millisecond: "1500ms"} {
		if got := promDuration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(`a{b="$workload"}[$window]`)
	f.Add("`$namespace")
	f.Add(`"\`)
	f.Fuzz(func(t *testing.T, text string) {
		out, met, err := expand(text, map[string]string{"workload": "w", "namespace": "n"})
		if err == nil && len(met) == 0 && out != text {
			t.Errorf("a query without variables became %q, was %q", out, text)
		}
		if err == nil && strings.Contains(text, "\x00") != strings.Contains(out, "\x00") {
			t.Errorf("%q became %q", text, out)
		}
	})
}
