package pveapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// stated is what class each thing belongs to that the real server was heard to say. The first line
// whose status and words fit counts.
var stated = []struct {
	status int // 0 for the exit text of a task
	says   string
	class  Class
}{
	{401, "", Unauthorized},
	{403, "", Forbidden},
	{400, "vmid: VM 9000 already exists", Exists},
	{400, "vmid: VM 8001 already exists", Exists},
	{400, "upid: no such task", NoTask},
	{400, "storage: No such storage.", NoStorage},
	{400, "", BadParameters},
	{501, "", Unsupported},
	{506, "", Unsupported},
	{595, "Connection timed out", HostUnreachable},
	{595, "No route to host", HostUnreachable},
	{596, "Connection timed out", Unanswered},

	{500, "no quorum", NoQuorum},
	{500, "unable to open file '/etc/pve/nodes/pve1/qemu-server/201.conf.tmp.78' - Permission denied", NoQuorum},
	{500, "config file already exists", Exists},
	{500, "VM 9000 already exists on node 'pve1'", Exists},
	{500, "VM 201 already exists on node 'pve1'", Exists},
	{500, "VM 8001 already exists on node 'pve2'", Exists},
	{500, ".conf' does not exist", Absent},
	{500, "unable to find configuration file for VM", Absent},
	{500, "can't lock file '/var/lock/qemu-server", LockTimeout},
	{500, "VM is locked (backup)", Locked},
	{500, "VM is locked (clone)", Locked},
	{500, "VM is locked (snapshot)", Locked},
	{500, "is running - destroy failed", Running},
	{500, "if VM is running", Running},
	{500, "VM 201 not running", NotRunning},
	{500, "protection mode enabled", Protected},
	{500, "used in HA resources", HAManaged},
	{500, "checksum mismatch", Changed},
	{500, "QEMU guest agent is not running", AgentSilent},
	{500, "No QEMU guest agent configured", NoAgent},
	{500, "storage 'nostore' does not exist", NoStorage},
	{500, "is not available on node 'pve1'", NoStorage},
	{500, "volume 'shared:8310/nope.qcow2' does not exist", NoVolume},
	{500, "pool 'nope' does not exist", NoPool},
	{500, "pool 'j2' does not exist", NoPool},
	{500, "parent 'par' of pool 'par/sub' does not exist", NoPool},
	{500, "no such cluster node 'pve9'", NoHost},
	{500, "hostname lookup", NoHost},
	{500, "only root can set", Forbidden},
	{500, "Linked clone feature is not supported", Unsupported},
	{500, "not allowed for linked clones", Unsupported},
	{500, "VM uses local storage", Unsupported},
	{500, "ha groups have been migrated to rules", Unsupported},

	// Nothing we ask for, or nothing that is the same every time.
	{500, "already exists", Unknown}, // a user's or pool's name, not a machine's number
	{500, "already defined", Unknown},
	{500, "pool member", Unknown},
	{500, "belongs already to pool", Unknown},
	{500, "is not empty", Unknown},
	{500, "no such token", Unknown},
	{500, "role 'NoRole' does not exist", Unknown},
	{500, "no options specified", Unknown},
	{500, "snapshot", Unknown},
	{500, "convert a template to a template", Unknown},
	{500, "SSH public key validation error", Unknown},
	{500, "does not exist in cluster", Unknown},
	{500, "unmanaged resource", Unknown},
	{500, "malformed JSON", Unknown},
	{500, "Not a HASH reference", Unknown},

	{0, "config file already exists", Exists},
	{0, "8001.conf' failed: File exists", Exists},
	{0, ".conf' does not exist", Absent},
	{0, "unable to find configuration file for VM", Absent},
	{0, "unable to open file '/etc/pve", NoQuorum},
	{0, "can't lock file '/var/lock/qemu-server", LockTimeout},
	{0, "VM is locked (snapshot)", Locked},
	{0, "VM is locked (create)", Locked},
	{0, "VM 201 already running", Running},
	{0, "VM quit/powerdown failed", GuestSilent},
	{0, "received interrupt", Interrupted},
	{0, "interrupted by signal", Interrupted},
	{0, "unexpected status", Interrupted},
	{0, "still in use by linked cloned", InUse},
	{0, "bridge 'nobr' does not exist", NoBridge},
	{0, "volume 'shared:snippets/none.yaml' does not exist", NoVolume},
	{0, "disk 'scsi9' does not exist", NoVolume},
	{0, "shrinking disks is not supported", Unsupported},
	{0, "you can't start a vm if it's a template", Unsupported},
	{0, "snapshot", Unknown},
}

// heard returns the line of what is stated that a text belongs to, or -1.
func heard(status int, text string) int {
	for i, s := range stated {
		if s.status == status && strings.Contains(text, s.says) {
			return i
		}
	}
	return -1
}

func TestEveryRecordedErrorHasItsStatedClass(t *testing.T) {
	used := map[int]bool{}
	answers, tasks := 0, 0
	for _, e := range exchanges(t) {
		if e.Response != nil && e.Response.Status >= 300 && e.Response.Status != 301 {
			answers++
			used[checkRecorded(t, e)] = true
		}
		var status struct{ Status, ExitStatus string }
		if e.UPID == "" || json.Unmarshal(e.Status, &status) != nil || status.Status != "stopped" {
			continue
		}
		s := taskStatus(UPID(e.UPID), false, status.ExitStatus)
		if s.OK {
			continue
		}
		tasks++
		i := heard(0, s.Exit)
		if i < 0 {
			t.Errorf("the exit text %q is not stated", s.Exit)
			continue
		}
		used[i] = true
		if got := ClassOf(s.Err()); got != stated[i].class {
			t.Errorf("the exit text %q is %s, stated is %s", s.Exit, got, stated[i].class)
		}
	}
	if answers < 200 || tasks < 25 {
		t.Errorf("only %d errors and %d tasks that failed were looked at", answers, tasks)
	}
	for i, s := range stated {
		if !used[i] && s.says != "VM is locked (create)" && s.says != "unexpected status" {
			t.Errorf("nobody said %d %q", s.status, s.says)
		}
	}
	t.Logf("%d errors, %d tasks that failed", answers, tasks)
}

// checkRecorded compares the class of a recorded error with what is stated, as newer servers send
// it, as older ones do without a message, and as it looks behind a proxy that loses the reason.
func checkRecorded(t *testing.T, e *reference.Record) int {
	t.Helper()
	full := recordedError(e.Response.Status, e.Response.Reason, e.Response.Body)
	i := heard(e.Response.Status, full.Text())
	if i < 0 {
		t.Errorf("%d %q is not stated", e.Response.Status, full.Text())
		return i
	}
	forms := map[string]*Error{"as it was": full}
	if e.Response.Status == 500 {
		forms["without message"] = recordedError(500, e.Response.Reason, json.RawMessage(`{"data":null}`))
		if full.Message != "" {
			forms["without reason"] = recordedError(500, "Internal Server Error", e.Response.Body)
		}
	}
	for form, err := range forms {
		if err.Class() != stated[i].class {
			t.Errorf("%s: %d %q is %s, stated is %s", form, e.Response.Status, err.Text(), err.Class(), stated[i].class)
		}
	}
	return i
}

// recordedError reads a recorded answer as the wire does. A body that was recorded as a text is
// one.
func recordedError(status int, reason string, body json.RawMessage) *Error {
	raw := []byte(body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		raw = []byte(text)
	}
	return newError(&http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, reason), Body: http.NoBody}, raw)
}

// What the real server was not made to say, by its sources and by those who met it.
func TestTextsNobodyRecorded(t *testing.T) {
	for text, want := range map[string]Class{
		"clone failed: cfs-lock 'storage-ceph' error: got lock request timeout":                           StorageLock,
		"can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout":                     StorageLock,
		"clone failed: cfs-lock 'storage-ceph' error: no quorum!":                                         NoQuorum,
		"cfs-lock 'file-user_cfg' error: got lock request timeout":                                        LockTimeout,
		`clone failed: Volume group "pve" has insufficient free space (12 extents): 2560 required.`:       StorageFull,
		"clone failed: zfs error: cannot create 'rpool/data/vm-100-disk-0': out of space":                 StorageFull,
		"lvcreate 'pve/vm-1-disk-0' error: Cannot create new thin volume, free space in thin pool is low": StorageFull,
		"unable to create image: write failed: No space left on device":                                   StorageFull,
		"kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory":                                MemoryFull,
		"start failed: QEMU exited with code 1":                                                           Unknown,
		"VM 8200 is not running":                                                                          NotRunning,
		"CT is locked (backup)":                                                                           Locked,
		"storage 'nfs' is not online":                                                                     NoStorage,
		"storage 'old' is disabled":                                                                       NoStorage,
		"unexpected status":                                                                               Interrupted,
		"mount.nfs: No route to host":                                                                     Unknown,
		"a description that says unexpected status":                                                       Unknown,
		"VM 310 started": Unknown,
		"":               Unknown,
		"storage 'x' does not exist, and more of it": NoStorage,
	} {
		if got := Classify(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// A proxy in between knows nothing of machines: what it says is nothing that is acted on.
func TestForeignStatusesSayNothingOfMachines(t *testing.T) {
	absent := "Configuration file 'nodes/pve1/qemu-server/1.conf' does not exist"
	for status, want := range map[int]Class{
		301: Unknown, 302: Unknown, 404: Unknown, 405: Unknown, 408: Unknown, 409: Unknown, 410: Unknown, 413: Unknown, 429: Unknown,
		500: Absent, 502: Unanswered, 503: Unanswered, 504: Unanswered, 595: HostUnreachable, 596: Unanswered, 599: Unanswered,
	} {
		if got := (&Error{Status: status, Message: absent}).Class(); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

func TestErrorsNameWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ text, path, privilege, storage string }{
		{"Permission check failed (/vms/9000, VM.Clone)", "/vms/9000", "VM.Clone", ""},
		{"Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)", "/storage/local", "Datastore.Audit|Datastore.AllocateSpace", ""},
		{"Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)", "/sdn/zones/localnetwork/vmbr0", "SDN.Use", ""},
		{"Permission check failed (, Pool.Allocate)", "", "Pool.Allocate", ""},
		{"Permission check failed (pool 'nopool' does not exist)", "", "", ""},
		{"Permission check failed", "", "", ""},
		{"storage 'loc2' is not available on node 'pve1'", "", "", "loc2"},
		{"clone failed: cfs-lock 'storage-ceph-a' error: got lock request timeout", "", "", "ceph-a"},
		{"can't lock file '/var/lock/pve-manager/pve-storage-lvm' - got timeout", "", "", "lvm"},
		{"base volume 'local:9000/base-9000-disk-0.qcow2' is still in use by linked cloned", "", "", "local"},
	} {
		e := &Error{Message: c.text}
		e.read()
		if e.ACLPath != c.path || e.Privilege != c.privilege || e.Storage != c.storage {
			t.Errorf("%q: path %q, privilege %q, storage %q", c.text, e.ACLPath, e.Privilege, e.Storage)
		}
	}
}

func TestAdviceIsTheLineThatMendsIt(t *testing.T) {
	for _, c := range []struct {
		e    Error
		want string
	}{
		{
			Error{Status: 403, Message: "Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)", TokenID: testTokenID},
			"the token lacks Datastore.Audit|Datastore.AllocateSpace on /storage/local: " +
				"pveum role add PlimsollStorage --privs Datastore.Audit 2>/dev/null || pveum role modify PlimsollStorage --privs Datastore.Audit --append 1; " +
				"pveum acl modify /storage/local --users auto@pve --tokens 'auto@pve!t1' --roles PlimsollStorage",
		},
		{Error{Status: 403, Message: "Permission check failed"}, "the token may not do this, and the server does not say what it lacks: plimsoll doctor names it"},
		{Error{Status: 403, Message: "Permission check failed (pool 'x' does not exist)"}, "make the pool: pveum pool add POOL"},
		{Error{Status: 500, Message: "only root can set 'lock' config"}, "root@pam alone may do this, and no token, not even root's own"},
		{Error{Status: 500, Message: "unable to create image on storage 'fast': No space left on device"}, "make room on storage fast, or name another one: pvesm status"},
		{
			Error{Status: 403, Message: "Permission check failed (/pool/a b;`reboot`, VM.Audit)", TokenID: "o'brien@pam!t1"},
			"the token lacks VM.Audit on /pool/a b;`reboot`: pveum role add PlimsollMachines --privs VM.Audit 2>/dev/null || pveum role modify PlimsollMachines --privs VM.Audit --append 1; " +
				"pveum acl modify '/pool/a b;`reboot`' --users 'o'\\''brien@pam' --tokens 'o'\\''brien@pam!t1' --roles PlimsollMachines",
		},
		{Error{Method: "POST", Status: 596}, "it may or may not have been done: look before it is done again"},
		{Error{Method: "GET", Status: 596}, ""},
		{Error{Status: 500, Message: "what is this"}, ""},
	} {
		c.e.read()
		if diff := cmp.Diff(c.want, c.e.Advice()); diff != "" {
			t.Errorf("advice (-want +got):\n%s", diff)
		}
	}
}

func TestOnlyWhatIsSafeIsRetryable(t *testing.T) {
	for _, c := range []struct {
		method string
		class  Class
		want   bool
	}{
		{"GET", Unanswered, true}, {"POST", Unanswered, false}, {"PUT", Unanswered, false}, {"DELETE", Unanswered, false},
		{"GET", Garbled, true}, {"POST", HostUnreachable, true}, {"POST", NoEndpoint, true}, {"POST", StorageLock, true},
		{"POST", LockTimeout, true}, {"DELETE", Locked, true}, {"POST", NoQuorum, true}, {"GET", AgentSilent, true},
		{"GET", Unknown, false}, {"GET", Unauthorized, false}, {"GET", Forbidden, false}, {"POST", Exists, false},
		{"GET", Absent, false}, {"POST", StorageFull, false}, {"PUT", Changed, false}, {"DELETE", Running, false},
		{"GET", NoTask, false}, {"GET", Certificate, false}, {"POST", BadParameters, false},
	} {
		e := &Error{Method: c.method, class: c.class}
		if e.Retryable() != c.want || Retryable(fmt.Errorf("wrapped: %w", e)) != c.want {
			t.Errorf("%s %s: retryable is %v", c.method, c.class, e.Retryable())
		}
	}
	if Retryable(errors.New("not ours")) || Retryable(nil) {
		t.Error("what is no Error is retryable")
	}
}

func TestErrorsTellWhatWasDoneAndWhatWasSaid(t *testing.T) {
	for _, c := range []struct {
		e    *Error
		want string
	}{
		{
			&Error{Method: "POST", Path: "/nodes/pve1/qemu/9000/clone", Status: 500, Reason: "unable to create VM 310: config file already exists"},
			"POST /nodes/pve1/qemu/9000/clone: unable to create VM 310: config file already exists (500)",
		},
		{
			&Error{Method: "PUT", Path: "/x", Status: 400, Message: "Parameter verification failed.\n", Errors: map[string]string{"b": "two\nlines", "a": "one"}},
			"PUT /x: Parameter verification failed. a: one; b: two lines (400)",
		},
		{&Error{Task: "UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000:auto@pve!t1:", Message: "no"}, "task qmclone 9000 on pve1: no"},
		{&Error{Task: "UPID:pve1:0000018A:0002E506:6B00A8B8:imgcopy::auto@pve!t1:", Message: "no"}, "task imgcopy on pve1: no"},
		{&Error{Method: "GET", Path: "/x", Status: 504}, "GET /x: Gateway Timeout (504)"},
		{&Error{Method: "GET", Path: "/x", cause: io.EOF}, "GET /x: EOF"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	var e *Error
	wrapped := fmt.Errorf("order: %w", &Error{Status: 595, cause: context.DeadlineExceeded})
	if !errors.As(wrapped, &e) || !errors.Is(wrapped, context.DeadlineExceeded) || !Is(wrapped, Absent, HostUnreachable) || ClassOf(nil) != "" {
		t.Error("an Error is not found in what wraps it")
	}
}

// What is no answer is not copied into an error, and what is too long is cut.
func TestWhatIsToldOfAnAnswerIsShort(t *testing.T) {
	long := strings.Repeat("ü", 10_000)
	for body, want := range map[string]string{
		"<html>": "Bad Gateway", long: "Bad Gateway", "": "Bad Gateway", "[1]": "[1]", `{"message":{"a":1}}`: "Bad Gateway",
		"for data too large":                       "for data too large",
		`{"message":"no\n"}`:                       "no",
		`{"message":"no","errors":{"a":1,"b":{}}}`: "no a: 1; b:",
		`{"message":"no","errors":[]}`:             "no",
		`{"message":"a\u001b[2J\u0000b"}`:          "a?[2J?b",
		`{"message":"` + long + `"}`:               long[:maxText] + "…",
	} {
		e := newError(&http.Response{StatusCode: 502, Status: "502 Bad Gateway"}, []byte(body))
		if got := strings.TrimSpace(e.Text()); got != want || !utf8.ValidString(got) {
			t.Errorf("%.40s: %.80q, want %.80q", body, got, want)
		}
	}
}
