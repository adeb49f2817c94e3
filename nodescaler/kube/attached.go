package kube

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attachment is what is kept of a VolumeAttachment: which volume is attached to which node.
type attachment struct {
	metav1.ObjectMeta
	node, volume string
}

// keepAttachment is the transform of the copies of VolumeAttachments.
func keepAttachment(o any) (any, error) {
	a, ok := o.(*storagev1.VolumeAttachment)
	if !ok {
		return o, nil
	}
	kept := &attachment{ObjectMeta: keepMeta(&a.ObjectMeta), node: text(a.Spec.NodeName)}
	if a.Spec.Source.PersistentVolumeName != nil {
		kept.volume = *a.Spec.Source.PersistentVolumeName
	}
	return kept, nil
}

// attached are the volumes that are attached to each node, sorted. Those of daemons are not among
// them: they stay as long as their node.
func (c *Cluster) attached(seen *sight) map[string][]string {
	all := unsorted[*attachment](c, attachments)
	if len(all) == 0 {
		return nil
	}
	stays := map[[2]string]bool{} // node and claim
	for _, p := range seen.pods {
		for i := range p.claims {
			if p.said.Daemon {
				stays[[2]string{p.said.Node, p.Namespace + "/" + p.claims[i].claim}] = true
			}
		}
	}
	on := map[string][]string{}
	for _, a := range all {
		v, known := one[*volume](c, volumes, a.volume)
		if a.volume == "" || known && stays[[2]string{a.node, v.claim}] {
			continue
		}
		on[a.node] = append(on[a.node], a.volume)
	}
	for node := range on {
		slices.Sort(on[node])
	}
	return on
}
