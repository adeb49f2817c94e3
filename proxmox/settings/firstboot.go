package settings

import (
	"maps"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// NeedsDisc reports whether machines join by what is on a disc.
func (p *Pool) NeedsDisc() bool { return p.Join.HasUserData() }

// MachineOf is what is planned of one machine of a pool, as far as its first boot depends on it.
type MachineOf struct {
	Name, Host, UUID, MAC string
	Shape                 string
	VMID                  int
	VMIDs                 placement.VMIDs // the range that it was made in; empty is unknown
}

// FirstBoot is a machine of the pool as its join profile takes it.
func (p *Pool) FirstBoot(i MachineOf) firstboot.Machine {
	m := firstboot.Machine{
		Name: i.Name, Host: i.Host, Region: p.Region, UUID: i.UUID, VMID: i.VMID,
		Labels: p.ownLabels(&i), NICs: p.nics(&i),
	}
	for _, t := range p.Taints {
		m.Taints = append(m.Taints, firstboot.Taint(t))
	}
	return m
}

// nics are the machine's interfaces in the settings of its first boot.
func (p *Pool) nics(i *MachineOf) []firstboot.NIC {
	if !p.Network.Static() {
		return nil
	}
	n := firstboot.NIC{MAC: i.MAC}
	first := p.VMIDs.First
	if i.VMIDs.Holds(i.VMID) {
		first = i.VMIDs.First // another one if the range was changed while it is made
	}
	address := p.Network.Address(i.VMID - first).String()
	if p.Network.First.Addr().Is4() {
		n.IPv4, n.Gateway4 = address, p.Network.Gateway.String()
	} else {
		n.IPv4, n.IPv6, n.Gateway6 = "none", address, p.Network.Gateway.String()
	}
	for _, a := range p.Network.Nameservers {
		n.DNS = append(n.DNS, a.String())
	}
	if p.Network.Search != "" {
		n.Search = []string{p.Network.Search}
	}
	return []firstboot.NIC{n}
}

// ownLabels are those of one machine's node that its kubelet does not set by itself.
func (p *Pool) ownLabels(i *MachineOf) map[string]string {
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelPool], labels[labelShape] = p.Name, i.Shape
	for key, value := range map[string]string{labelRegion: p.Region, labelZone: p.Zone} {
		if value != "" {
			labels[key] = value
		}
	}
	return labels
}
