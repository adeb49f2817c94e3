package policy

import "slices"

// switches are what is switched off, to see what it pays.
type switches struct {
	forecast, pause, unpausing, waiting, caution, floor, agreed, start, late bool
}

// JointMechanism is a part of joint that can be switched off.
type JointMechanism struct {
	Name, Does string
	off        func(p *joint)
}

// JointMechanisms are all that can be.
var JointMechanisms = []JointMechanism{
	{"forecast", "sizes for the load to come", func(p *joint) { p.off.forecast = true }},
	{"pause", "learns how long users pause, from queues", func(p *joint) { p.off.pause = true }},
	{"unpausing", "detects users who do not pause", func(p *joint) { p.off.unpausing = true }},
	{"waiting", "takes requests that wait for something else for no queue", func(p *joint) { p.off.waiting = true }},
	{"headroom", "keeps response times 4 % below the objective", func(p *joint) { p.sizer.headroom = 0 }},
	{"caution", "keeps pods emptier while little is known", func(p *joint) { p.off.caution = true }},
	{"floor", "the guard's least", func(p *joint) { p.off.floor = true }},
	{"guard", "the guard's most", func(p *joint) { p.sizer.guard.off = true }},
	{"give-up", "gives up an objective that idle pods would miss", func(p *joint) { p.sizer.guard.never = true }},
	{"agreed", "buys a machine once several runs want it", func(p *joint) { p.off.agreed = true }},
	{"keep", "learns how long to keep replicas", func(p *joint) { p.holder.learns = false }},
	{"start", "keeps what it found for half an hour", func(p *joint) { p.off.start = true }},
	{"late", "keeps replicas while requests are late in a queue", func(p *joint) { p.off.late = true }},
	{"fill", "fills room that is paid for", func(p *joint) { p.allocator.fill = false }},
}

// switchOff switches a mechanism off, and reports whether there is one of that name, or none is
// named.
func (p *joint) switchOff(name string) bool {
	i := slices.IndexFunc(JointMechanisms, func(m JointMechanism) bool { return m.Name == name })
	if i >= 0 {
		JointMechanisms[i].off(p)
	}
	return i >= 0 || name == ""
}
