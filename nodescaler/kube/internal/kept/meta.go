package kept

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Resources reads CPU and memory, rounded up as the scheduler does. A sum that is too large to be
// counted wraps around. Below zero it would make room for other pods, and in its namespace's quota.
func Resources(list corev1.ResourceList) pricing.Resources {
	return pricing.Resources{
		CPU:    max(0, pricing.MilliCPU(list.Cpu().MilliValue())),
		Memory: max(0, pricing.Bytes(list.Memory().Value())),
	}
}

// extras reads what there is besides CPU, memory and pod slots: devices, huge pages, ephemeral
// storage.
func extras(list corev1.ResourceList) pricing.Amounts {
	var all map[string]int64
	for name, amount := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods {
			continue
		}
		if n := amount.Value(); n > 0 {
			if all == nil {
				all = make(map[string]int64, len(list))
			}
			all[Text(string(name))] = n
		}
	}
	return pricing.AmountsOf(all)
}

// thousandths are the amounts of a list; nil if it is empty.
func thousandths(list corev1.ResourceList) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	all := make(map[string]int64, len(list))
	for name, amount := range list {
		all[Text(string(name))] = amount.MilliValue()
	}
	return all
}

// keepMeta keeps what every copy needs: who it is, and who controls it.
func keepMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Name: m.Name, Namespace: Text(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		owner.APIVersion, owner.Kind, owner.Name = Text(owner.APIVersion), Text(owner.Kind), Text(owner.Name)
		owner.UID = unique.Make(owner.UID).Value()
		yes := true
		owner.Controller, owner.BlockOwnerDeletion = &yes, nil
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return kept
}

// Text returns a string that equal ones share: decoded objects have a copy of each.
func Text(s string) string { return unique.Make(s).Value() }

// same shares the strings of a map.
func same(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	shared := make(map[string]string, len(m))
	for key, value := range m {
		shared[Text(key)] = Text(value)
	}
	return shared
}

// Nowhere selects a node that there is not.
func Nowhere(what, help string) map[string]string {
	return map[string]string{nodescaler.SelectNowhere: what, nodescaler.SelectHelp: help}
}
