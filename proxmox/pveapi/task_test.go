package pveapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTaskNamesAreTakenApartOrRefused(t *testing.T) {
	for text, want := range map[string][4]string{
		"UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000:root@pam!t1:":   {"pve1", "qmclone", "9000", "root@pam!t1"},
		"UPID:pve-2:0000018A:12E506FFF:6B00A8B8:imgcopy::root@pam:":        {"pve-2", "imgcopy", "", "root@pam"},
		"UPID:pve1:000003E4:0003187E:6B00A93C:imgdel:local:auto@pve!t1:":   {"pve1", "imgdel", "local", "auto@pve!t1"},
		"UPID:pve1:000003F4:00031941:6B00A93E:download:x.iso:root@pam!t1:": {"pve1", "download", "x.iso", "root@pam!t1"},
		"UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000:root@pam!t1":    {},
		"UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000":                {},
		"UPID:pve1:18A:0002E506:6B00A8B8:qmclone:9000:root@pam:":           {},
		"UPID:../x:0000018A:0002E506:6B00A8B8:qmclone:9000:root@pam:":      {},
		"UPID::::::::": {}, "": {}, "UPID:": {}, ":": {},
	} {
		u := UPID(text)
		if got := [4]string{u.Node(), u.Type(), u.ID(), u.User()}; got != want || u.Valid() != (want[0] != "") {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := UPID("UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000:root@pam!t1:").Started(); got.Unix() != 1795205304 {
		t.Errorf("started %d", got.Unix())
	}
}

// Every task that was recorded reads as what it was.
func TestRecordedTasksAreRead(t *testing.T) {
	n := 0
	for _, e := range exchanges(t) {
		if e.UPID == "" {
			continue
		}
		n++
		u := UPID(e.UPID)
		c, _ := virtual(t, 1, func(*http.Request, string) reply { return data(string(e.Status)) })
		s, err := c.Task(t.Context(), u)
		if err != nil || s.Running || !u.Valid() || u.Node() == "" {
			t.Errorf("%s: %+v, %v", u, s, err)
		}
		if s.OK != strings.Contains(string(e.Status), `"OK"`) {
			t.Errorf("%s: %+v", e.Status, s)
		}
	}
	if n < 90 {
		t.Errorf("only %d tasks", n)
	}
}

func TestATasksStatusThatIsNoneIsNoEnd(t *testing.T) {
	for _, answer := range []string{`{}`, `{"status":""}`, `{"status":"done"}`, `[]`, `null`, `"stopped"`, `{"status":{"x":1}}`} {
		c, _ := virtual(t, 1, func(*http.Request, string) reply { return data(answer) })
		if s, err := c.Task(t.Context(), upidClone); !Is(err, Garbled) || s.OK {
			t.Errorf("%s: %+v, %v", answer, s, err)
		}
	}
	c, _ := virtual(t, 1, func(*http.Request, string) reply { return data(`{"status":"stopped"}`) })
	if s, err := c.WaitTask(t.Context(), upidClone); s.OK || !Is(err, Interrupted) {
		t.Errorf("stopped without an exit text: %+v, %v", s, err)
	}
}

func TestWaitingLooksLessAndLessOften(t *testing.T) {
	var looks []time.Duration
	var k *clock
	var began time.Time
	c, k := virtual(t, 1, func(*http.Request, string) reply {
		looks = append(looks, k.Now().Sub(began))
		if k.Now().Sub(began) > 40*time.Second {
			return task("OK")
		}
		return running
	})
	began = k.Now()
	if s, err := c.WaitTask(t.Context(), upidClone); err != nil || !s.OK {
		t.Fatalf("%+v, %v", s, err)
	}
	var pauses []string
	for i := 1; i < len(looks); i++ {
		pauses = append(pauses, (looks[i] - looks[i-1]).Round(100*time.Millisecond).String())
	}
	if got, want := strings.Join(pauses, " "), "500ms 800ms 1.1s 1.7s 2.5s 3.8s 5s 5s 5s 5s 5s 5s"; got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
}

// A wait survives what passes, and ends when the end will never be seen.
func TestWhatAWaitSurvives(t *testing.T) {
	status := func(quorate, online int) reply {
		return data(fmt.Sprintf(`[{"type":"cluster","name":"lab","quorate":%d},{"type":"node","name":"pve1","online":%d},{"type":"node","name":"pve2","online":1}]`, quorate, online))
	}
	lost, noTask := reply{status: 595, reason: "No route to host"}, reply{status: 400, reason: "Parameter verification failed.", body: `{"data":null,"errors":{"upid":"no such task"}}`}
	for _, c := range []struct {
		name    string
		looks   []reply // the last one again and again
		cluster reply
		class   Class
	}{
		{"all that passes", []reply{{}, {status: 596, reason: "Broken pipe"}, {status: 502, reason: "Bad Gateway"}, refuseDial, task("OK")}, status(1, 1), ""},
		{"a host that is away and thought to be there", []reply{lost, lost, task("OK")}, status(1, 1), ""},
		{"a host that is away, to a minority", []reply{lost, lost, task("OK")}, status(0, 0), ""},
		{"a host that is away, while nobody can be asked", []reply{lost, lost, task("OK")}, fault(403, "Permission check failed (/, Sys.Audit)"), ""},
		{"a host that is lost", []reply{lost}, status(1, 0), HostUnreachable},
		{"a host that has left the cluster", []reply{lost}, data(`[{"type":"cluster","quorate":1},{"type":"node","name":"pve2","online":1}]`), HostUnreachable},
		{"a task that nobody knows", []reply{running, noTask}, status(1, 1), NoTask},
		{"a right that was taken away", []reply{running, fault(403, "Permission check failed (/nodes/pve1, Sys.Audit)")}, status(1, 1), Forbidden},
		{"a text that nobody knows", []reply{running, fault(500, "what is this")}, status(1, 1), Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := 0
			client, k := virtual(t, 1, func(r *http.Request, _ string) reply {
				if strings.HasSuffix(r.URL.Path, "/cluster/status") {
					return c.cluster
				}
				a := c.looks[min(i, len(c.looks)-1)]
				i++
				return a
			})
			began := k.Now()
			s, err := client.WaitTask(t.Context(), upidClone)
			if ClassOf(err) != c.class || s.OK != (err == nil) {
				t.Errorf("%+v, %v, want %q", s, err, c.class)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Task != upidClone || !strings.Contains(err.Error(), "task qmclone 9000 on pve1")) {
				t.Errorf("it does not say which task: %v", err)
			}
			if k.Now().Sub(began) > 2*time.Minute {
				t.Errorf("it took %s", k.Now().Sub(began))
			}
		})
	}
}

func TestAWaitEndsWithItsContextWhateverHappens(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var looks atomic.Int32
	c, _ := virtual(t, 1, func(*http.Request, string) reply {
		if looks.Add(1) == 5 {
			cancel()
		}
		return reply{status: 596, reason: "Connection timed out"}
	})
	if _, err := c.WaitTask(ctx, upidClone); !Is(err, Canceled) || !errors.Is(err, context.Canceled) || looks.Load() != 5 {
		t.Errorf("%v after %d looks", err, looks.Load())
	}
}

func TestListsOfTasks(t *testing.T) {
	const list = `[
		{"upid":"UPID:pve1:00000001:00000001:6B00A8B8:qmclone:9000:auto@pve!t1:","status":"RUNNING","starttime":1795205304},
		{"upid":"UPID:pve1:00000002:00000001:6B00A8B9:qmstart:310:auto@pve!t1:","status":"OK","starttime":1795205305,"endtime":1795205306},
		{"upid":"UPID:pve1:00000003:00000001:6B00A8BA:qmstart:311:auto@pve!t1:","status":"bridge 'x' does not exist","endtime":1795205307},
		{"upid":"UPID:pve1:00000004:00000001:6B00A8BB:qmdestroy:312:auto@pve!t1:","status":"WARNINGS: 1","endtime":1795205308},
		{"upid":"UPID:pve1:00000005:00000001:6B00A8BC:qmshutdown:313:auto@pve!t1:"},
		{"upid":"UPID:pve1:00000006:00000001:6B00A8BD:qmstop:314:auto@pve!t1:","endtime":1795205309},
		{"upid":"nonsense"}, null, {}]`
	var queries []string
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply { queries = append(queries, r.URL.RawQuery); return data(list) })

	all, err := c.Tasks(t.Context(), "pve1", time.Unix(1795205000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%s running=%v ok=%v warnings=%v %q ended=%v", s.UPID.Type(), s.Running, s.OK, s.Warnings, s.Exit, !s.Ended.IsZero()))
	}
	want := []string{ // newest first
		`qmstop running=false ok=false warnings=false "unexpected status" ended=true`,
		`qmshutdown running=true ok=false warnings=false "" ended=false`,
		`qmdestroy running=false ok=true warnings=true "WARNINGS: 1" ended=true`,
		`qmstart running=false ok=false warnings=false "bridge 'x' does not exist" ended=true`,
		`qmstart running=false ok=true warnings=false "OK" ended=true`,
		`qmclone running=true ok=false warnings=false "" ended=false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if one, err := c.Tasks(t.Context(), "pve1", time.Time{}, 310); err != nil || len(one) != 1 || one[0].UPID.ID() != "310" {
		t.Errorf("of one machine: %v, %v", one, err)
	}
	if two, err := c.Tasks(t.Context(), "pve1", time.Time{}, 310, 9000); err != nil || len(two) != 2 {
		t.Errorf("of two machines: %v, %v", two, err)
	}
	wantQueries := []string{
		"limit=500&since=1795205000&source=all",
		"limit=500&source=all&vmid=310", "limit=500&source=all",
	}
	if diff := cmp.Diff(wantQueries, queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
}

// lines answers a log's pages, as the server numbers them.
func lines(r *http.Request, all []string) reply {
	start, _ := strconv.Atoi(r.URL.Query().Get("start"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	var page []string
	for i := start; i < min(start+limit, len(all)); i++ {
		page = append(page, fmt.Sprintf(`{"n":%d,"t":%q}`, i+1, all[i]))
	}
	return data("[" + strings.Join(page, ",") + "]")
}

func TestTheLastLinesOfALog(t *testing.T) {
	many := make([]string, 2*taskLogPage+7)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	for _, c := range []struct {
		log  []string
		last int
		want []string
	}{
		{[]string{"a", "b", "c"}, 2, []string{"b", "c"}},
		{[]string{"a", "b", "c"}, 9, []string{"a", "b", "c"}},
		{[]string{"a", "b", "c"}, 0, []string{}},
		{many, 3, many[len(many)-3:]},
		{many, taskLogPage + 9, many[len(many)-taskLogPage-9:]},
		{many[:taskLogPage], 1, many[taskLogPage-1 : taskLogPage]},
		{[]string{"no content"}, 5, nil},
		{[]string{"a", "no content"}, 1, []string{"no content"}},
	} {
		client, _ := virtual(t, 1, func(r *http.Request, _ string) reply { return lines(r, c.log) })
		got, err := client.TaskLog(t.Context(), upidClone, c.last)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("last %d of %d: %v (-want +got):\n%s", c.last, len(c.log), err, diff)
		}
	}
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply {
		return lines(r, []string{"unable to open file - No such file or directory"})
	})
	if _, err := c.TaskLog(t.Context(), upidClone, 5); !Is(err, NoTask) {
		t.Errorf("a log that is not there: %v", err)
	}
	var pages atomic.Int32
	c, _ = virtual(t, 1, func(*http.Request, string) reply {
		pages.Add(1)
		return data("[" + strings.Repeat("{},", taskLogPage-1) + "{}]")
	})
	if _, err := c.TaskLog(t.Context(), upidClone, 5); err != nil || pages.Load() != maxLogPages {
		t.Errorf("a log without end: %v after %d pages", err, pages.Load())
	}
}

// A clone whose order was not answered is found by what its log says: the task has the template's
// number in its name, as have those of all other clones of it.
func TestALostCloneIsFoundByItsLog(t *testing.T) {
	logs := map[string][]string{
		"00000001": {"creating a clone of VM 9000 with ID 31"},
		"00000002": {"creating a clone of VM 9000 with ID 310", "TASK OK"},
		"00000003": {"trying to acquire lock...", " OK", "TASK ERROR: unable to create VM 311: config file already exists"},
		"00000004": nil, // another's
		"00000005": {"unable to open file - No such file or directory"},
	}
	var since string
	c, k := virtual(t, 1, func(r *http.Request, _ string) reply {
		if strings.HasSuffix(r.URL.Path, "/log") {
			log := logs[strings.Split(r.URL.Path, ":")[2]]
			if log == nil {
				return fault(403, "Permission check failed (/nodes/pve1, Sys.Audit)")
			}
			return lines(r, log)
		}
		since = r.URL.Query().Get("since")
		var all []string
		for pid := range logs {
			all = append(all, fmt.Sprintf(`{"upid":"UPID:pve1:%s:00000001:6B00A8B8:qmclone:9000:auto@pve!t1:","status":"RUNNING"}`, pid))
		}
		all = append(all, `{"upid":"UPID:pve1:00000009:00000001:6B00A8B8:qmtemplate:9000:auto@pve!t1:","status":"OK","endtime":1}`)
		return data("[" + strings.Join(all, ",") + "]")
	})
	for newID, want := range map[int]string{310: "00000002", 311: "00000003", 31: "00000001", 3100: "", 9000: ""} {
		upid, found, err := c.FindClone(t.Context(), "pve1", 9000, newID, k.Now())
		if err != nil || found != (want != "") || !strings.Contains(string(upid), want) {
			t.Errorf("%d: %s, %v, %v", newID, upid, found, err)
		}
	}
	if want := strconv.FormatInt(k.Now().Add(-clockSkew).Unix(), 10); since != want {
		t.Errorf("since %s, want %s", since, want)
	}
	long := append([]string{"creating a clone of VM 9000 with ID 310"}, make([]string, 2*taskLogPage)...)
	for i := range long[1:] {
		long[i+1] = fmt.Sprintf("transferred %d MiB of 32.0 GiB", i)
	}
	slow, _ := virtual(t, 1, func(r *http.Request, _ string) reply {
		if strings.HasSuffix(r.URL.Path, "/log") {
			return lines(r, long)
		}
		return data(`[{"upid":"` + upidClone + `","status":"RUNNING"}]`)
	})
	if upid, found, err := slow.FindClone(t.Context(), "pve1", 9000, 310, k.Now()); upid != upidClone || !found || err != nil {
		t.Errorf("a clone that has written much since: %s, %v, %v", upid, found, err)
	}
	broken, _ := virtual(t, 1, func(r *http.Request, _ string) reply {
		if strings.HasSuffix(r.URL.Path, "/log") {
			return reply{status: 596, reason: "Connection timed out"}
		}
		return data(`[{"upid":"` + upidClone + `","status":"RUNNING"}]`)
	})
	if _, found, err := broken.FindClone(t.Context(), "pve1", 9000, 310, k.Now()); found || !Is(err, Unanswered) {
		t.Errorf("a log that could not be read is not one without the machine: %v, %v", found, err)
	}
}
