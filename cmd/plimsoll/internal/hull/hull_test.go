package hull

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/demo"
	"github.com/plimsoll/plimsoll/testbed/golden"
)

var (
	small  = pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GB}
	medium = pricing.Shape{Name: "medium", CPU: 4000, Memory: 8 * pricing.GB}
)

func machine(name string, s pricing.Shape, phase nodescaler.Phase, pods int) loop.MachineLoad {
	return loop.MachineLoad{Name: "worker-" + name, Phase: phase, Shape: s, Pods: pods, Requests: pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}.Times(pods)}
}

func host(name string, machines ...loop.MachineLoad) loop.HostLoad {
	return loop.HostLoad{Name: name, Online: true, Room: pricing.Resources{CPU: 16000, Memory: 48 * pricing.GB}, Machines: machines}
}

// afternoon is a fleet in which everything that the frame shows is true of some machine.
func afternoon() *Frame {
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	f := &Frame{
		Title: "plimsoll demo · everything is simulated · seed 1",
		Time:  start.Add(14*time.Hour + 10*time.Minute + 5*time.Second), Pace: "960×",
		Day: Day{Start: start, Minutes: 24 * 60, Top: 320},
		Services: []demo.Service{{
			Name: "shop/web", Objective: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond},
			Latency: podscaler.Known(.284), Arrivals: podscaler.Known(212.4), Replicas: 24, Ready: 22, Over: 12,
		}, {
			Name: "office/reports", Objective: podscaler.SLO{Quantile: .95, Target: 5 * time.Second},
			Latency: podscaler.Known(1.62), Arrivals: podscaler.Known(.3), Replicas: 1, Ready: 1,
		}},
		Pending: 2,
		Unit:    "EUR", Rate: pricing.RateOf(134_400), Static: pricing.RateOf(218_400), Spent: 1_234_567, StaticSpent: 3_093_990,
		Keys: "? help  space pause  + - speed  f fault  p price  e explain  q quit",
	}
	for m := range 14*60 + 10 {
		f.Day.Rates = append(f.Day.Rates, 30+290*float64((m*m)%(14*60))/840)
	}
	full := machine("mpa1", medium, nodescaler.Joined, 7)
	emptied := machine("mpa2", small, nodescaler.Joined, 1)
	emptied.Draining = true
	away := host("pve3", machine("mpa5", small, nodescaler.Joined, 3), machine("mpa6", small, nodescaler.Booting, 0))
	away.Online = false
	f.Hosts = []loop.HostLoad{
		host("pve1", full, emptied, machine("mpa3", small, nodescaler.Booting, 0), machine("mpa4", small, nodescaler.Ordered, 0)),
		host("pve2", machine("mpb1", medium, nodescaler.Joined, 4), machine("mpb2", medium, nodescaler.Joined, 7), machine("mpb3", medium, nodescaler.Joined, 5),
			machine("mpb4", small, nodescaler.Deleting, 0), machine("mpb5", medium, nodescaler.Failed, 0)),
		away,
	}
	for i := range 20 {
		f.News = append(f.News, News{At: f.Time.Add(time.Duration(i-20) * time.Minute), Mark: "+", Style: Good, Text: fmt.Sprintf("worker-mp%02d ordered: small on pve1, +€0.017/h", i),
			Why: "500m CPU and 488 MiB asked for by 1 pod (shop/web+1) that no node can take"})
	}
	f.News = append(f.News, News{At: f.Time, Mark: "✗", Style: Bad, Text: "pve3 is down"})
	return f
}

func TestPictures(t *testing.T) {
	trouble := afternoon()
	trouble.Services[0].Latency, trouble.Services[0].Arrivals = podscaler.Reading{}, podscaler.Reading{}
	trouble.Dear, trouble.Pace, trouble.Notice = true, "paused", "fault: 1 host  2 clone  3 metrics  esc none"
	slow := afternoon()
	slow.Services[0].Latency = podscaler.Known(.412)
	early := afternoon()
	early.Day.Rates, early.Hosts, early.News = nil, nil, nil
	for _, c := range []struct {
		name          string
		frame         *Frame
		width, height int
	}{
		{"80x24", afternoon(), 80, 24},
		{"120x40", afternoon(), 120, 40},
		{"200x60", slow, 200, 60},
		{"trouble", trouble, 80, 24},
		{"empty", early, 80, 24},
		{"tiny", afternoon(), 50, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata", c.name+".txt"), Draw(c.frame, c.width, c.height, NoColour)+"\n")
		})
	}
}

func TestPicturesFillTheScreenAndNoMore(t *testing.T) {
	for width := 1; width < 220; width += 7 {
		for height := 1; height < 70; height += 3 {
			for _, hosts := range []int{0, 1, 3, 9, 40} {
				f := afternoon()
				for len(f.Hosts) < hosts {
					f.Hosts = append(f.Hosts, host(fmt.Sprint("pve", len(f.Hosts)+1)))
				}
				f.Hosts = f.Hosts[:hosts]
				lines := strings.Split(Draw(f, width, height, NoColour), "\n")
				if len(lines) != height {
					t.Fatalf("%d × %d: %d lines", width, height, len(lines))
				}
				for i, l := range lines {
					if w := lipgloss.Width(l); w > width {
						t.Fatalf("%d × %d with %d hosts: line %d is %d wide: %q", width, height, hosts, i, w, l)
					}
				}
			}
		}
	}
}

// TestColoursCarryNoMeaningAlone takes the colours off and must find the picture without them.
func TestColoursCarryNoMeaningAlone(t *testing.T) {
	for _, f := range []*Frame{afternoon(), {}} {
		coloured := Draw(f, 120, 40, Colour)
		if f.Title != "" && !strings.Contains(coloured, "\x1b[") {
			t.Error("the coloured picture has no colour")
		}
		if strings.Contains(coloured, "38;") || strings.Contains(coloured, "48;") {
			t.Error("the picture uses more than the sixteen colours")
		}
		bare := strip(coloured)
		if d := cmp.Diff(Draw(f, 120, 40, NoColour), bare); d != "" {
			t.Errorf("without colours the picture is another one:\n%s", d)
		}
	}
}

// strip takes escape sequences off, and the blanks at the ends of lines that they hid.
func strip(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, s, _ = strings.Cut(after, "m")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestHullAboveItsLineSaysSo(t *testing.T) {
	f := afternoon()
	f.Hosts = []loop.HostLoad{
		host("on-the-line", machine("a", pricing.Shape{CPU: 16000}, nodescaler.Joined, 0)),
		host("above-it", machine("b", pricing.Shape{CPU: 16001}, nodescaler.Joined, 0)),
		host("by-memory", machine("c", pricing.Shape{CPU: 1, Memory: 49 * pricing.GB}, nodescaler.Joined, 0)),
	}
	head := strings.Split(Draw(f, 120, 40, NoColour), "\n")[8]
	for i, want := range []bool{false, true, true} {
		if got := strings.Contains(string([]rune(head)[i*40:min(i*40+39, len([]rune(head)))]), "!"); got != want {
			t.Errorf("%s is marked: %t, want %t, in %q", f.Hosts[i].Name, got, want, head)
		}
	}
}
