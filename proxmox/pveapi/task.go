package pveapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TaskStatus is how far a task is.
type TaskStatus struct {
	UPID    UPID
	Running bool
	Exit    string // how it ended: OK, WARNINGS: 2, or an error's text; empty while it runs
	OK      bool   // it ended and did what it should, perhaps with warnings
	// Warnings is set for a task that did what it should and had something to say about it.
	Warnings       bool
	Started, Ended time.Time // by the host's clock; Ended is zero where the list does not say
}

// Err returns what went wrong in a task that ended, as an *Error, and nil for all others.
func (s TaskStatus) Err() error {
	if s.Running || s.OK {
		return nil
	}
	e := &Error{Task: s.UPID, Message: s.Exit, class: Classify(s.Exit)}
	e.read()
	return e
}

// taskStatus reads an exit text. A task that has ended and left none was killed.
func taskStatus(upid UPID, running bool, exit string) TaskStatus {
	s := TaskStatus{UPID: upid, Running: running, Started: upid.Started()}
	if running {
		return s
	}
	if s.Exit = clip(exit); s.Exit == "" {
		s.Exit = "unexpected status"
	}
	s.Warnings = strings.HasPrefix(s.Exit, "WARNINGS:")
	s.OK = s.Exit == "OK" || s.Warnings
	return s
}

// onTask returns the path of something of a task.
func onTask(method string, upid UPID, rest string) (string, error) {
	if !upid.Valid() {
		return "", invalid(method, "/tasks", "upid must be UPID:host:…:, was %q", string(upid))
	}
	return onNode(method, upid.Node(), "/tasks/"+url.PathEscape(string(upid))+rest)
}

// Task looks at one task.
func (c *Client) Task(ctx context.Context, upid UPID) (TaskStatus, error) {
	path, err := onTask(http.MethodGet, upid, "/status")
	if err != nil {
		return TaskStatus{}, err
	}
	f, err := get[fields](ctx, c, path, nil)
	if err != nil {
		return TaskStatus{}, err
	}
	switch f.text("status") {
	case "running":
		return taskStatus(upid, true, ""), nil
	case "stopped":
		return taskStatus(upid, false, f.text("exitstatus")), nil
	default:
		return TaskStatus{}, &Error{Method: http.MethodGet, Path: path, Task: upid,
			Message: fmt.Sprintf("the task is neither running nor stopped, but %.40q", f.text("status")), class: Garbled}
	}
}

// StopTask asks a task to end, and has it killed when it does not. Whoever began it may: others
// need Sys.Modify on its host. One that has ended is left as it is.
func (c *Client) StopTask(ctx context.Context, upid UPID) error {
	path, err := onTask(http.MethodDelete, upid, "")
	if err != nil {
		return err
	}
	_, err = c.call(ctx, http.MethodDelete, path, nil)
	return err
}

// taskLogPage is more lines than most tasks write.
const taskLogPage = 2000

// maxLogPages keeps a log without end from being read without end.
const maxLogPages = 100

// TaskLog returns the last lines of what a task wrote.
func (c *Client) TaskLog(ctx context.Context, upid UPID, last int) ([]string, error) {
	path, err := onTask(http.MethodGet, upid, "/log")
	if err != nil {
		return nil, err
	}
	var lines []string
	for start := 0; start < maxLogPages*taskLogPage; start += taskLogPage {
		query := url.Values{"start": {strconv.Itoa(start)}, "limit": {strconv.Itoa(taskLogPage)}}
		page, err := get[[]fields](ctx, c, path, query)
		if err != nil {
			return nil, err
		}
		for _, line := range page {
			lines = append(lines, line.text("t"))
		}
		if start == 0 && len(lines) == 1 {
			// The server answers with a line of its own where it has none of the task's.
			switch {
			case lines[0] == "no content":
				return nil, nil
			case strings.HasPrefix(lines[0], "unable to open file"):
				return nil, &Error{Method: http.MethodGet, Path: path, Task: upid, Message: lines[0], class: NoTask}
			}
		}
		lines = lines[max(0, len(lines)-max(last, 0)):]
		if len(page) < taskLogPage {
			break
		}
	}
	return lines, nil
}

// maxTasks is how many tasks are asked for at a time: several for each machine that one host can
// be given in a minute.
const maxTasks = 500

// Tasks returns what a host has done and does since a time by its clock, newest first; only what
// worked on the machines named, if any are. A clone works on the machine that is copied.
//
// The door itself reads this list from two files, while the status of one task is asked of the
// daemon behind it, which has three workers for everything: 20 machines in the making would keep
// those busy with questions. The list of the whole cluster would be one call for all hosts, but is
// empty for a token without Sys.Audit, and keeps no more than 25 ended tasks of each host. A task
// that is missing here may still be known to Task.
func (c *Client) Tasks(ctx context.Context, node string, since time.Time, vmids ...int) ([]TaskStatus, error) {
	query := url.Values{"source": {"all"}, "limit": {strconv.Itoa(maxTasks)}}
	if !since.IsZero() {
		query.Set("since", strconv.FormatInt(since.Unix(), 10))
	}
	if len(vmids) == 1 {
		query.Set("vmid", strconv.Itoa(vmids[0]))
	}
	all, err := c.listTasks(ctx, node, query)
	if err != nil || len(vmids) == 0 {
		return all, err
	}
	return slices.DeleteFunc(all, func(s TaskStatus) bool {
		id, err := strconv.Atoi(s.UPID.ID())
		return err != nil || !slices.Contains(vmids, id)
	}), nil
}

func (c *Client) listTasks(ctx context.Context, node string, query url.Values) ([]TaskStatus, error) {
	path, err := onNode(http.MethodGet, node, "/tasks")
	if err != nil {
		return nil, err
	}
	list, err := get[[]fields](ctx, c, path, query)
	if err != nil {
		return nil, err
	}
	tasks := make([]TaskStatus, 0, len(list))
	for _, f := range list {
		upid := UPID(f.text("upid"))
		if !upid.Valid() {
			continue
		}
		// A task that runs has no end, and RUNNING in the place of its exit text.
		exit, end := f.text("status"), f.whole("endtime")
		s := taskStatus(upid, end == nil && (exit == "" || strings.EqualFold(exit, "running")), exit)
		if end != nil {
			s.Ended = time.Unix(*end, 0)
		}
		tasks = append(tasks, s)
	}
	slices.SortStableFunc(tasks, func(a, b TaskStatus) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.UPID, b.UPID))
	})
	return tasks, nil
}

// clockSkew is how far the hosts' clocks may be from ours.
const clockSkew = 2 * time.Minute

// FindClone looks for a clone whose order was not answered: the task on the template's host that
// was started since then, or shortly before, and says that it makes the machine newID. The task's
// own name has the template's number only. Tasks of others, whose logs are closed to the token, are
// passed over.
func (c *Client) FindClone(ctx context.Context, node string, template, newID int, since time.Time) (UPID, bool, error) {
	tasks, err := c.Tasks(ctx, node, since.Add(-clockSkew), template)
	if err != nil {
		return "", false, err
	}
	want := fmt.Sprintf("creating a clone of VM %d with ID %d", template, newID)
	taken := fmt.Sprintf("unable to create VM %d:", newID)
	for _, s := range tasks {
		if s.UPID.Type() != "qmclone" {
			continue
		}
		// It is the first lines that say it.
		lines, err := c.TaskLog(ctx, s.UPID, maxLogPages*taskLogPage)
		if err != nil && !Is(err, NoTask, Forbidden) {
			return "", false, err
		}
		for _, line := range lines {
			if line == want || strings.Contains(line, taken) {
				return s.UPID, true, nil
			}
		}
	}
	return "", false, nil
}

const (
	firstLook = 500 * time.Millisecond
	lastLook  = 5 * time.Second
)

// WaitTask waits for a task's end, for as long as the context lets it. A task that failed is an
// *Error with its text, besides its status. A look that fails is tried again, unless it says that
// the end will never be seen: the host does not know the task, or is lost to a cluster that has
// quorum.
func (c *Client) WaitTask(ctx context.Context, upid UPID) (TaskStatus, error) {
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		status, err := c.Task(ctx, upid)
		switch {
		case err == nil && !status.Running:
			return status, status.Err()
		case err != nil && !Retryable(err):
			return status, c.onBehalfOf(upid, err)
		case Is(err, HostUnreachable) && c.lost(ctx, upid.Node()):
			return status, c.onBehalfOf(upid, err)
		}
		if err := c.wait(ctx, pause); err != nil {
			return status, &Error{Task: upid, Message: "not waited for any longer: " + err.Error(), class: Canceled, cause: err}
		}
	}
}

// onBehalfOf says which task an error keeps from being seen.
func (c *Client) onBehalfOf(upid UPID, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Task = upid
	return &named
}

// lost reports whether the cluster, with quorum, takes a host for offline.
func (c *Client) lost(ctx context.Context, node string) bool {
	status, err := c.ClusterStatus(ctx)
	if err != nil || !status.Quorate {
		return false
	}
	for _, n := range status.Nodes {
		if n.Name == node {
			return !n.Online
		}
	}
	return true
}
