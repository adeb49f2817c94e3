package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

//nolint:gosec // it is what the server tells changes by

// normalTags are tags as the server keeps them.
func normalTags(c *World, text string) string {
	style, _ := c.options["tag-style"].(string)
	tags := params.SplitList(text)
	if !strings.Contains(style, "case-sensitive=1") {
		for i, tag := range tags {
			tags[i] = strings.ToLower(tag)
		}
	}
	var once []string
	for _, tag := range tags {
		if !slices.Contains(once, tag) {
			once = append(once, tag)
		}
	}
	if !strings.Contains(style, "ordering=config") {
		slices.Sort(once)
	}
	return strings.Join(once, ";")
}

// mayTag refuses tags that somebody may not set or remove: those that are registered, and all
// others as far as the datacenter's options narrow them.
func (j *job) mayTag(id int, before, after string) error {
	if j.c.access.May(j.who, "/", "Sys.Modify") {
		return nil
	}
	was, is := params.SplitList(before), params.SplitList(after)
	for _, tag := range slices.Concat(was, is) {
		if slices.Contains(was, tag) && slices.Contains(is, tag) {
			continue
		}
		if err := j.onVM(id, "", "VM.Config.Options"); err != nil {
			return err
		}
		if !tagAllowed(j.c, tag) {
			return failure.New("'Sys.Modify' required on '/' for modifying tag '%s'", tag)
		}
	}
	return nil
}

func tagAllowed(c *World, tag string) bool {
	registered, _ := c.options["registered-tags"].(string)
	if slices.Contains(params.SplitList(registered), tag) {
		return false
	}
	text, _ := c.options["user-tag-access"].(string)
	allow, list := "free", []string(nil)
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "user-allow":
			allow = value
		case "user-allow-list":
			list = params.SplitList(value)
		}
	}
	switch allow {
	case "free":
		return true
	case "existing":
		return slices.Contains(list, tag) || tagUsed(c, tag)
	case "list":
		return slices.Contains(list, tag)
	}
	return false
}

func tagUsed(c *World, tag string) bool {
	for _, m := range c.vms {
		if slices.Contains(params.SplitList(m.Conf["tags"]), tag) {
			return true
		}
	}
	return false
}

func printNet(c *World, net params.Values) string {
	if !net.Has("macaddr") {
		net["macaddr"] = newMAC(c)
	}
	parts := []string{net["model"] + "=" + strings.ToUpper(net["macaddr"])}
	for _, key := range slices.Sorted(maps.Keys(net)) {
		if key != "model" && key != "macaddr" {
			parts = append(parts, key+"="+net[key])
		}
	}
	return strings.Join(parts, ",")
}

// newMAC draws an address for a card.
func newMAC(c *World) string {
	prefix, _ := c.options["mac_prefix"].(string)
	if prefix == "" {
		prefix = "BC:24:11"
	}
	rng := c.rng("addresses")
	mac := strings.TrimSuffix(strings.ToUpper(prefix), ":")
	for len(mac) < len("00:00:00:00:00:00") {
		mac += fmt.Sprintf(":%02X", rng.IntN(256))
	}
	return mac
}
