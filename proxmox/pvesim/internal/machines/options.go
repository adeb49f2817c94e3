package machines

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// normalTags are tags as the server keeps them.
func normalTags(c *world.World, text string) string {
	style, _ := c.Options["tag-style"].(string)
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

// mayTag refuses tags that the caller may not set or remove: those that are registered, and all
// others as far as the datacenter's options narrow them.
func mayTag(j *world.Errand, id int, before, after string) error {
	if j.World.Access.May(j.Who, "/", "Sys.Modify") {
		return nil
	}
	was, is := params.SplitList(before), params.SplitList(after)
	for _, tag := range slices.Concat(was, is) {
		if slices.Contains(was, tag) && slices.Contains(is, tag) {
			continue
		}
		if err := j.OnVM(id, "", "VM.Config.Options"); err != nil {
			return err
		}
		if !tagAllowed(j.World, tag) {
			return failure.New("'Sys.Modify' required on '/' for modifying tag '%s'", tag)
		}
	}
	return nil
}

func tagAllowed(c *world.World, tag string) bool {
	registered, _ := c.Options["registered-tags"].(string)
	if slices.Contains(params.SplitList(registered), tag) {
		return false
	}
	text, _ := c.Options["user-tag-access"].(string)
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

func tagUsed(c *world.World, tag string) bool {
	for _, m := range c.VMs {
		if slices.Contains(params.SplitList(m.Conf["tags"]), tag) {
			return true
		}
	}
	return false
}

func printNet(c *world.World, net params.Values) string {
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
func newMAC(c *world.World) string {
	prefix, _ := c.Options["mac_prefix"].(string)
	if prefix == "" {
		prefix = "BC:24:11"
	}
	rng := c.RNG("addresses")
	mac := strings.TrimSuffix(strings.ToUpper(prefix), ":")
	for len(mac) < len("00:00:00:00:00:00") {
		mac += fmt.Sprintf(":%02X", rng.IntN(256))
	}
	return mac
}
