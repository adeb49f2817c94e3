package pve

import (
	"cmp"
	"crypto/sha1"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A machine of ours is known by six things together. Its VMID is in the range that its pool had
// when it was ordered, and its name is the one that was planned. It is in the resource pool and
// carries the owner's tag. Its notes hold the mark with the UID of our cluster, and its system UUID
// follows from owner and order. A copy or a restored backup has some of them, a machine that a
// person took over lacks some; only with all six is it destroyed.

// stage is how far a machine had come when its notes were written.
type stage string

const (
	stageCloned stage = "cloned" // by the clone itself: no tag and no UUID of ours yet
	stageReady  stage = "ready"  // with everything else that identifies a machine
)

// mark is the machine-readable line of a machine's notes. It names the VMID, so that a copy of the
// machine, notes and all, is not taken for it.
type mark struct {
	Owner, Order, Pool, Shape string
	VMID                      int
	Created                   time.Time
	Stage                     stage
	// Cluster is the UID of the cluster that the machine is a node of. Marks of before it was
	// written have none.
	Cluster string
}

const markPrefix = "plimsoll:v1"

func (m mark) String() string {
	text := fmt.Sprintf("%s owner=%s order=%s pool=%s shape=%s vmid=%d created=%s stage=%s", markPrefix,
		m.Owner, m.Order, m.Pool, m.Shape, m.VMID, m.Created.UTC().Format(time.RFC3339Nano), m.Stage)
	if m.Cluster != "" {
		text += " cluster=" + m.Cluster
	}
	return text
}

// How a machine was made is a line of its own: programs that know the mark and not this line still
// know the machine.
const madePrefix = "plimsoll-made:v1"

// madeLine is how a machine was made, for whoever finds it without its intent; empty if that is not
// known.
func madeLine(i *intents.Intent) string {
	if i.Settings == "" {
		return ""
	}
	line := fmt.Sprintf("%s settings=%s original=%s version=%s", madePrefix, i.Settings, i.Original, i.Version)
	if i.VMIDs != (placement.VMIDs{}) {
		line += " vmids=" + i.VMIDs.String()
	}
	return line
}

// readMade finds that in a machine's notes. What is not understood is not known.
func readMade(notes string, into *intents.Intent) {
	for line := range strings.Lines(notes) {
		fields := strings.Fields(strings.Trim(line, " `\t\r\n"))
		if len(fields) == 0 || fields[0] != madePrefix {
			continue
		}
		for _, field := range fields[1:] {
			switch key, value, _ := strings.Cut(field, "="); key {
			case "settings":
				into.Settings = value
			case "original":
				into.Original = value
			case "version":
				into.Version = value
			case "vmids":
				var v placement.VMIDs
				if _, err := fmt.Sscanf(value, "%d-%d", &v.First, &v.Last); err == nil && v.Holds(into.VMID) {
					into.VMIDs = v
				}
			}
		}
	}
}

// readMark finds the mark in a machine's notes. A machine with two has been tampered with.
func readMark(notes string) (m mark, ok bool) {
	for line := range strings.Lines(notes) {
		line = strings.Trim(line, " `\t\r\n")
		if !strings.HasPrefix(line, markPrefix+" ") {
			continue
		}
		if ok {
			return mark{}, false
		}
		if m, ok = parseMark(line); !ok {
			return mark{}, false
		}
	}
	return m, ok
}

func parseMark(line string) (m mark, ok bool) {
	seen := map[string]bool{}
	for _, field := range strings.Fields(line)[1:] {
		key, value, _ := strings.Cut(field, "=")
		if seen[key] { // which of the two counts would be a guess
			return mark{}, false
		}
		seen[key] = true
		var err error
		switch key {
		case "owner":
			m.Owner = value
		case "order":
			m.Order = value
		case "pool":
			m.Pool = value
		case "shape":
			m.Shape = value
		case "vmid":
			m.VMID, err = strconv.Atoi(value)
		case "created":
			m.Created, err = time.Parse(time.RFC3339Nano, value)
		case "stage":
			m.Stage = stage(value)
		case "cluster":
			if m.Cluster = value; !settings.ValidClusterID(value) {
				err = fmt.Errorf("no UID of a cluster")
			}
		default:
			err = fmt.Errorf("unknown key")
		}
		if err != nil {
			return mark{}, false
		}
	}
	whole := m.Owner != "" && m.Order != "" && m.Pool != "" && m.VMID != 0 && !m.Created.IsZero()
	return m, whole && (m.Stage == stageCloned || m.Stage == stageReady)
}

// namespace sets our UUIDs apart from those that others derive in the same way.
var namespace = [16]byte{0x5c, 0x8d, 0x1f, 0x0e, 0x37, 0x0b, 0x4e, 0x6a, 0x9b, 0x54, 0x2e, 0x6f, 0x70, 0x6c, 0x69, 0x6d}

// machineUUID is the system UUID of the machine that an order makes: a UUID of version 5.
func machineUUID(owner, order string) string {
	h := sha1.New()
	h.Write(namespace[:])
	fmt.Fprintf(h, "%s\n%s", owner, order)
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// seedDisc is the file name of a machine's first-boot disc.
func seedDisc(owner, name string) string { return discPrefix(owner) + name + ".iso" }

// discPrefix begins the names of all first-boot discs of an owner. Two hyphens end it: an owner
// that continues another one's name must not find that one's discs.
func discPrefix(owner string) string { return "plimsoll-" + strings.ReplaceAll(owner, "+", "_") + "--" }

// facts are what a machine shows of itself.
type facts struct {
	vmid   int
	name   string
	pool   string // resource pool; empty without one
	hidden bool   // which pool it is in cannot be seen
	tags   []string
	notes  string
	uuid   string
	lock   string
}

// claim is what a machine must show to be ours.
type claim struct {
	owner, order, pool, name string
	pvePools                 []string // one of them
	vmids                    placement.VMIDs
	vmid                     int
	cluster                  allegiance
}

// verdict is what the facts say of a claim.
type verdict string

const (
	provedReady  verdict = "ready"    // everything is there
	provedCloned verdict = "cloned"   // what a clone has before it is configured is there
	unproved     verdict = "unproved" // something that must be shown cannot be seen now
	stranger     verdict = "stranger" // nothing says that it is ours
	doubtful     verdict = "doubtful" // some of it is ours, and some is not
)

// judge holds the facts against the claim, and says what does not fit.
func (c claim) judge(f facts) (verdict, []string) {
	m, marked := readMark(f.notes)
	ours := marked && m.Owner == c.owner && m.Order == c.order
	uuid := machineUUID(c.owner, c.order)
	if f.lock == "clone" || f.lock == "create" {
		return unproved, []string{"it is still being cloned"}
	}
	if !ours && !strings.EqualFold(f.uuid, uuid) && f.name != c.name {
		return stranger, []string{"its name is " + cmp.Or(f.name, "empty") + ", and neither notes nor UUID are ours"}
	}
	var wrong []string
	must := func(kept bool, format string, args ...any) {
		if !kept {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	must(f.vmid == c.vmid, "its VMID is %d, not %d", f.vmid, c.vmid)
	must(f.name == c.name, "its name is %q, not %q", f.name, c.name)
	must(f.hidden || slices.Contains(c.pvePools, f.pool), "it is in pool %q, not %q", f.pool, c.pvePools[0])
	must(ours && m.VMID == c.vmid && m.Pool == c.pool, "its notes do not hold our mark for VMID %d", c.vmid)
	side := c.cluster.of(m.Cluster)
	must(!ours || side != sideForeign, "its notes hold the mark of cluster %s, and this is cluster %s", m.Cluster, c.cluster.uid)
	if ours && m.Stage == stageReady {
		must(strings.EqualFold(f.uuid, uuid), "its system UUID is %s, not %s", cmp.Or(f.uuid, "empty"), uuid)
		must(slices.Contains(f.tags, settings.OwnerTag(c.owner)), "it lacks the tag %s", settings.OwnerTag(c.owner))
	}
	switch {
	case len(wrong) > 0:
		return doubtful, wrong
	case f.hidden:
		return unproved, []string{"it is not seen to be in pool " + c.pvePools[0]}
	case !c.vmids.Holds(f.vmid):
		// All else is ours: it is the range that was changed, and may be again.
		return unproved, []string{fmt.Sprintf("its VMID %d is not in %s any more, and in which range it was made was not kept: "+
			"let vmids hold it again, or remove it by hand", f.vmid, c.vmids)}
	case side == sideUnmarked:
		return unproved, []string{"its notes do not name the cluster that it belongs to: " + adoptAdvice}
	case m.Stage == stageCloned:
		return provedCloned, nil
	}
	return provedReady, nil
}

// orderID is what an order may be called: part of a host name, and of a mark.
var orderID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
