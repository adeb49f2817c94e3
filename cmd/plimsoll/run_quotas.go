package main

import (
	"fmt"
	"regexp"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// quotaSettings are what namespaces may take. The first that fits a namespace counts.
type quotaSettings []oneQuota

// oneQuota is what each namespace of a name may take.
type oneQuota struct {
	// Namespace is a name, in which * is any letters: * alone is every namespace that none before
	// it fits.
	Namespace string `json:"namespace" strict:"required"`
	// MaxHourlyCost is what the namespace's part of the machines may cost an hour, in the price
	// book's currency.
	MaxHourlyCost pricing.Micros `json:"maxHourlyCost,omitempty" strict:"nonzero"`
	// MaxReplicas is how many pods it may have, daemons aside.
	MaxReplicas int `json:"maxReplicas,omitempty" strict:"nonzero"`
	// MaxOrdersPerHour is how many machines may be ordered for it in an hour.
	MaxOrdersPerHour int `json:"maxOrdersPerHour,omitempty" strict:"nonzero"`
}

// namespacePattern is a namespace's name with a * for any of its letters.
var namespacePattern = regexp.MustCompile(`^[a-z0-9*]([a-z0-9*-]{0,61}[a-z0-9*])?$`)

// check is what is wrong with them.
func (q quotaSettings) check() (faults pricing.Faults) {
	seen := map[string]int{}
	for i, one := range q {
		must := func(kept bool, key, rule string, was any) {
			faults.Must(kept, fmt.Sprintf("quotas[%d]%s", i, key), rule, was)
		}
		must(namespacePattern.MatchString(one.Namespace), ".namespace", "a namespace, in which * is any letters", fmt.Sprintf("%q", one.Namespace))
		must(one.MaxHourlyCost >= 0, ".maxHourlyCost", "above 0", one.MaxHourlyCost)
		must(one.MaxReplicas >= 0, ".maxReplicas", "above 0", one.MaxReplicas)
		must(one.MaxOrdersPerHour >= 0, ".maxOrdersPerHour", "above 0", one.MaxOrdersPerHour)
		must(one.MaxHourlyCost != 0 || one.MaxReplicas != 0 || one.MaxOrdersPerHour != 0, "", "a quota with maxHourlyCost, maxReplicas or maxOrdersPerHour", "without any of them")
		first, twice := seen[one.Namespace]
		must(!twice, ".namespace", fmt.Sprintf("another than that of quotas[%d], which counts", first), fmt.Sprintf("%q", one.Namespace))
		if every, said := seen["*"]; said && !twice {
			must(false, ".namespace", fmt.Sprintf("before quotas[%d], which fits every namespace", every), fmt.Sprintf("%q", one.Namespace))
		}
		if !twice {
			seen[one.Namespace] = i
		}
	}
	return faults
}

// quotas are they in the words of those who keep to them.
func (q quotaSettings) quotas() (all []nodescaler.Quota) {
	for _, one := range q {
		all = append(all, nodescaler.Quota{
			Namespace: one.Namespace, Rate: pricing.Per(one.MaxHourlyCost, time.Hour), Replicas: one.MaxReplicas, Orders: one.MaxOrdersPerHour,
		})
	}
	return all
}
