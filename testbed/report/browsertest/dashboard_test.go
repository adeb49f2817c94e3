//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/testbed/demo"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

// axe is where axe-core's script is, which make browser-test fetches where there is npm.
const axe = "../../../out/axe/package/axe.min.js"

// views are the dashboard's, each with what it must show of the demo's day.
var views = []struct{ name, path, shows string }{
	{"now", "#/now", "pve3"},
	{"then", "#/now?at=2026-06-01T11:00:00Z", "At 2026-06-01 11:00"},
	{"workloads", "#/workloads", "shop/web"},
	{"workload", "#/workload/shop/web", "Latency"},
	{"machines", "#/machines", "worker"},
	{"machine", "#/machine/worker-start-001", "Why it is not removed"},
	{"pending", "#/pending", "What the plan says"},
	{"decisions", "#/decisions?kind=Buy", "no node has room for"},
	{"money", "#/money", "saved by following the load"},
	{"approvals", "#/approvals", "Show what waits"},
	{"what-if", "#/whatif", "What is left empty stays as it was recorded."},
}

func TestTheDashboardShowsEveryViewToEverybody(t *testing.T) {
	h := dashboard.New(dashboard.Small)
	session := must.Get(demo.New(demo.Config{Seed: 1, Length: 12 * time.Hour, Journal: h}))(t)
	must.Get(session.Advance(t.Context(), 11*time.Hour))(t)
	h.Doors = dashboard.Doors{WhatIf: desk{}, Actions: desk{}}
	server := httptest.NewServer(h.Handler(true))
	defer server.Close()
	checks := axeScript(t)
	b := start(t)
	for _, view := range views {
		t.Run(view.name, func(t *testing.T) {
			p := b.tab(t)
			p.online(server.URL)
			var faults []string
			for _, width := range widths {
				for _, scheme := range schemes {
					p.see(width, "screen", scheme)
					p.visit("about:blank")
					p.visit(server.URL + "/" + view.path)
					if !p.shows(view.shows) {
						t.Fatalf("it does not show %q:\n%s", view.shows, p.text())
					}
					for _, of := range []string{"basics", "wide", "crowded", "contrast"} {
						for _, f := range p.faultsOf(of) {
							faults = append(faults, fmt.Sprintf("%s, %d wide: %s", scheme, width, f))
						}
					}
					faults = append(faults, p.axe(checks)...)
					if *shots != "" {
						name := fmt.Sprintf("dashboard-%s-%d-%s", view.name, width, scheme)
						p.shoot(filepath.Join(*shots, name+".png"), true)
						// as docs/dashboard has them
						p.shoot(filepath.Join(*shots, name+"-view.png"), false)
					}
				}
			}
			faults = append(faults, p.take()...)
			if len(faults) > 0 {
				t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults, "\n"))
			}
		})
	}
	t.Run("it plays what if", func(t *testing.T) { b.tab(t).playsWhatIf(server.URL, checks) })
	t.Run("it pauses by the reader's token", func(t *testing.T) { b.tab(t).pauses(server.URL, checks) })
	t.Run("it approves by the reader's token", func(t *testing.T) { b.tab(t).approves(server.URL, checks) })
	t.Run("it follows what comes", func(t *testing.T) {
		p := b.tab(t)
		p.online(server.URL)
		p.visit(server.URL)
		if !p.shows("Latest record 2026-06-01 16:59", "Latest record 2026-06-01 17:00") {
			t.Fatal(p.text())
		}
		must.Get(session.Advance(t.Context(), 30*time.Minute))(t)
		if !p.shows("Latest record 2026-06-01 17:") || !p.shows("17:29", "17:30") {
			t.Errorf("it does not follow:\n%s", p.text())
		}
		p.press("3", 51, "3")
		if !p.shows("since") {
			t.Errorf("3 does not show the machines:\n%s", p.text())
		}
		p.press("ArrowLeft", 37, "")
		if !p.shows("At 2026-06-01 17:") {
			t.Errorf("the arrow does not show the record before:\n%s", p.text())
		}
		if faults := p.take(); len(faults) > 0 {
			t.Error(strings.Join(faults, "\n"))
		}
	})
}

// playsWhatIf fills in the form of What if, and looks at the answer.
func (p *tab) playsWhatIf(url, checks string) {
	p.t.Helper()
	p.online(url)
	p.visit(url + "/#/whatif")
	p.shows("as recorded")
	p.eval(`document.querySelector('[name=targetMs]').value = 500; document.querySelector('[name=pool]').value = 'worker'; document.querySelector('[name=max]').value = 4;
		document.querySelector('main form').requestSubmit(); null`, nil)
	if !p.shows(`{"objective":{"targetMs":500},"pools":{"worker":{"max":4}}}`) || !p.shows("-25.0 %") || !p.shows("it is a test") {
		p.t.Errorf("it does not show the answer:\n%s", p.text())
	}
	if faults := append(p.take(), p.axe(checks)...); len(faults) > 0 {
		p.t.Error(strings.Join(faults, "\n"))
	}
}

// pauses fills in the form of a workload, and looks at what came of it.
func (p *tab) pauses(url, checks string) {
	p.t.Helper()
	p.online(url)
	p.visit(url + "/#/workload/shop/web")
	p.shows("Pause or resume")
	p.redrawsWhileItWaits(`dispatchEvent(new Event('resize'))`)
	p.eval(`document.querySelector('[name=token]').value = 'mine'; document.querySelector('[name=for]').value = '2h'; document.querySelector('button[value=pause]').click(); null`, nil)
	if !p.shows(`web: paused by {"action":"pause","kind":"WorkloadAutoscaler","namespace":"shop","name":"web","for":"2h"} of mine`) {
		p.t.Errorf("it does not pause:\n%s", p.text())
	}
	if faults := append(p.take(), p.axe(checks)...); len(faults) > 0 {
		p.t.Error(strings.Join(faults, "\n"))
	}
}

// approves lists what waits, approves it, and looks at what came of it.
func (p *tab) approves(url, checks string) {
	p.t.Helper()
	p.online(url)
	p.visit(url + "/#/approvals")
	p.shows("Show what waits")
	p.eval(`document.querySelector('[name=token]').value = 'mine'; document.querySelector('[name=token]').dispatchEvent(new Event('input'));
		document.querySelector('main form').requestSubmit(); null`, nil)
	if !p.shows("grow shop/web from 2 to 5 replicas") {
		p.t.Fatalf("it does not show what waits:\n%s", p.text())
	}
	faults := p.axe(checks)
	p.redrawsWhileItWaits(`location.hash = '#/machines'`)
	p.eval(`document.querySelector('[aria-label="Approve web-grow"]').click(); null`, nil)
	p.shows("since") // the machines
	p.eval(`location.hash = '#/approvals'; null`, nil)
	if !p.shows("web-grow: Approved by mine") || !p.shows("Nothing waits for an answer.") {
		p.t.Errorf("it does not approve:\n%s", p.text())
	}
	if faults = append(faults, p.take()...); len(faults) > 0 {
		p.t.Error(strings.Join(faults, "\n"))
	}
}

// redrawsWhileItWaits has the page do something that draws a view before an answer comes, as a new
// record would. The record that the stream begins with is drawn before that.
func (p *tab) redrawsWhileItWaits(script string) {
	p.eval(`{
		const asks = fetch;
		window.fetch = async (url, options) => {
			if (options?.method === 'POST') {
				await new Promise((then) => setTimeout(then, 1500));
				const before = document.querySelector('main h1');
				`+script+`;
				while (before.isConnected) await new Promise((then) => setTimeout(then, 10));
			}
			return asks(url, options);
		};
	}; null`, nil)
}

// desk answers the page's questions with what they were, and proposes one change.
type desk struct{}

func (desk) Choices() any {
	return whatif.Choices{Unit: "EUR", Workloads: []string{"shop/web"}, Policies: []string{"joint"}, NodePolicies: []string{"joint"}, Pools: []whatif.Limits{{Name: "worker", Max: 9}}}
}

func (desk) Ask(_ context.Context, question []byte) (any, error) {
	return whatif.Answer{Rows: []whatif.Row{{Name: string(question), Recorded: "4", Baseline: "4", Changed: "3", Difference: "-25.0 %"}}, Notes: []string{"it is a test"}}, nil
}

func (desk) Do(_ context.Context, token string, action []byte) (any, error) {
	proposal := v1alpha1.ScalingProposal{ObjectMeta: metav1.ObjectMeta{Name: "web-grow", Namespace: "shop", UID: "1"}}
	proposal.Spec.Proposed.What = "grow shop/web from 2 to 5 replicas"
	switch text := string(action); {
	case strings.Contains(text, `"list"`):
		return []v1alpha1.ScalingProposal{proposal}, nil
	case strings.Contains(text, `"approve"`):
		proposal.Spec.Approval = &v1alpha1.Approval{Decision: v1alpha1.Approved, By: token}
		return proposal, nil
	}
	return map[string]string{"name": "web", "paused": "true", "by": string(action) + " of " + token}, nil
}

// axeScript reads axe-core, where it was fetched.
func axeScript(t *testing.T) string {
	data, err := os.ReadFile(axe)
	if err != nil {
		t.Logf("WITHOUT axe-core: %v; make browser-test fetches it where there is npm", err)
	}
	return string(data)
}

// axe are the violations of WCAG that axe-core finds.
func (p *tab) axe(script string) (faults []string) {
	p.t.Helper()
	if script == "" {
		return nil
	}
	p.eval(script+"; null", nil)
	p.eval(`axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map(n => n.html).join(' ')))`, &faults)
	return faults
}

// shows waits until the page shows one of the texts.
func (p *tab) shows(texts ...string) bool {
	p.t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		shown := p.text()
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(shown, text) }) {
			return true
		}
	}
	return false
}

func (p *tab) text() (text string) {
	p.t.Helper()
	p.eval("document.body.innerText", &text)
	return text
}
