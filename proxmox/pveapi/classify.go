package pveapi

import (
	"net/http"
	"regexp"
	"strings"
)

// Classify returns the class of what the server says when something fails: the reason of a status
// of 500, or the exit text of a task.
func Classify(text string) Class {
	for _, t := range texts {
		if t.says.MatchString(text) {
			return t.class
		}
	}
	return Unknown
}

// texts are what the server says, the more specific ones first: a clone that fails for lack of
// quorum says "clone failed: cfs-lock 'storage-x' error: no quorum!".
var texts = []struct {
	class Class
	says  *regexp.Regexp
}{
	{NoQuorum, regexp.MustCompile(`no quorum|cluster not ready|unable to open file '/etc/pve/\S* - Permission denied`)},
	{Forbidden, regexp.MustCompile(`Permission check failed|only root can |Only root may `)},

	{StorageLock, regexp.MustCompile(`cfs-lock 'storage-[^']*' error|can't lock file '[^']*/pve-storage-[^']*' - got timeout`)},
	{LockTimeout, regexp.MustCompile(`can't lock file '[^']*' - got timeout|cfs-lock '[^']*' error: got lock (request )?timeout`)},
	{Locked, regexp.MustCompile(`(VM|CT)( \d+)? is locked`)},

	{Exists, regexp.MustCompile(`unable to create VM \d+: config file already exists` +
		`|VM \d+ already exists on node` +
		`|close \(rename\) atomic file '/etc/pve/nodes/[^/']+/(qemu-server|lxc)/\d+\.conf' failed: File exists`)},
	{Absent, regexp.MustCompile(`Configuration file '[^']*' does not exist|unable to find configuration file for VM \d+`)},

	{HAManaged, regexp.MustCompile(`used in HA resources`)},
	{Protected, regexp.MustCompile(`protection mode enabled`)},
	{InUse, regexp.MustCompile(`is still in use by linked clone`)},
	{Running, regexp.MustCompile(`VM \d+ is running|VM \d+ already running|if VM is running`)},
	{NoAgent, regexp.MustCompile(`No QEMU guest agent configured`)},
	{AgentSilent, regexp.MustCompile(`guest agent is not running`)},
	{NotRunning, regexp.MustCompile(`VM \d+ (is )?not running`)},
	{Changed, regexp.MustCompile(`checksum mismatch|detected modified configuration`)},

	{StorageFull, regexp.MustCompile(`(?i)out of space|no space left|insufficient free (space|extents)|not enough (free )?space` +
		`|free space in thin pool|disk quota exceeded`)},
	{MemoryFull, regexp.MustCompile(`(?i)cannot allocate memory|cannot set up guest memory`)},
	{NoStorage, regexp.MustCompile(`storage '[^']*' (does not exist|is not available on node|is disabled|is not online)|No such storage`)},
	{NoBridge, regexp.MustCompile(`bridge '[^']*' does not exist`)},
	{NoVolume, regexp.MustCompile(`(volume|disk) '[^']*' does not exist`)},
	{NoPool, saysNoPool},
	{NoHost, regexp.MustCompile(`no such cluster node|hostname lookup '[^']*' failed`)},
	{NoTask, regexp.MustCompile(`no such task|unable to parse worker upid`)},

	{GuestSilent, regexp.MustCompile(`VM quit/powerdown failed`)},
	{Interrupted, regexp.MustCompile(`received interrupt|interrupted by signal|^unexpected status$|got signal \d+`)},
	// The whole text: within another it is about something else, a storage's server for one.
	{HostUnreachable, regexp.MustCompile(`^(No route to host|Connection timed out|Connection refused)$`)},
	{Unsupported, regexp.MustCompile(`not implemented|Linked clone feature is not supported|not allowed for linked clones` +
		`|uses local storage|can't clone to non-shared storage|shrinking disks is not supported|if it's a template|have been migrated to rules`)},
}

// classify returns the class of an answer. Its status comes first, because a text may be quoted in
// another. Statuses that are not Proxmox VE's own come from a proxy in between, which knows nothing
// of machines: its 404 does not say that a machine is gone.
func classify(e *Error) Class {
	switch e.Status {
	case http.StatusBadRequest:
		return classifyParameters(e.Errors)
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusForbidden:
		return Forbidden
	case 0, http.StatusInternalServerError:
		if c := Classify(e.Message); c != Unknown {
			return c
		}
		return Classify(e.Reason)
	case http.StatusNotImplemented, http.StatusVariantAlsoNegotiates:
		return Unsupported
	case 595:
		return HostUnreachable
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 596, 597, 598, 599:
		return Unanswered
	default:
		return Unknown
	}
}

// classifyParameters says what is raised as a wrong parameter and says something else.
func classifyParameters(errs map[string]string) Class {
	if len(errs) == 1 {
		switch {
		case strings.HasSuffix(errs["vmid"], " already exists"):
			return Exists
		case errs["upid"] == "no such task":
			return NoTask
		case errs["storage"] == "No such storage.":
			return NoStorage
		}
	}
	return BadParameters
}

var (
	saysNoPool    = regexp.MustCompile(`pool '[^']*' does not exist`)
	saysPrivilege = regexp.MustCompile(`Permission check failed \((/?[^,()]*), ([A-Za-z.|]+)\)`)
	saysStorage   = []*regexp.Regexp{
		regexp.MustCompile(`cfs-lock 'storage-([^']+)'`),
		regexp.MustCompile(`pve-storage-([^']+)'`),
		regexp.MustCompile(`storage '([^']+)'`),
		regexp.MustCompile(`volume '([^':/]+):`),
		regexp.MustCompile(`allocated? .*'([^':/]+):`),
	}
)

// read takes out of the texts what they name.
func (e *Error) read() {
	text := e.Message
	if text == "" {
		text = e.Reason
	}
	if m := saysPrivilege.FindStringSubmatch(text); m != nil {
		e.ACLPath, e.Privilege = m[1], m[2]
	}
	for _, says := range saysStorage {
		if m := says.FindStringSubmatch(text); m != nil {
			e.Storage = m[1]
			return
		}
	}
}
