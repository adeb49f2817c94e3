package chart

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/yaml"
)

// rights are what the roles of a name allow: "verb group/resource", sorted.
func rights(r *rendered, role string) []string {
	var all []string
	for name, rules := range rolesOf(r) {
		if name != role {
			continue
		}
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, fmt.Sprintf("%s %s/%s", verb, group, resource))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rolesOf are the rules of all roles, by kind and name.
func rolesOf(r *rendered) map[string][]rbacv1.PolicyRule {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, c := range all[*rbacv1.ClusterRole](r) {
		if !forUsers(c) {
			rules["ClusterRole "+c.Name] = c.Rules
		}
	}
	for _, o := range all[*rbacv1.Role](r) {
		rules["Role "+o.Namespace+"/"+o.Name] = o.Rules
	}
	return rules
}

// forUsers reports whether a role is for people: the cluster's own roles take it in.
func forUsers(c *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.Labels)), func(l string) bool { return strings.Contains(l, "/aggregate-to-") })
}

// Whoever may edit a namespace may write its WorkloadAutoscalers, and neither pools nor statuses.
func TestUsersOfANamespaceWriteItsAutoscalers(t *testing.T) {
	r := render(t, installations["pods"])
	for _, c := range all[*rbacv1.ClusterRole](r) {
		if !forUsers(c) {
			continue
		}
		edits := c.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
		if c.Name == "plimsoll-approve" {
			if edits || c.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "true" || len(c.Rules) != 1 || !slices.Equal(c.Rules[0].Resources, []string{"scalingproposals"}) || slices.Contains(c.Rules[0].Verbs, "create") {
				t.Errorf("those who administer a namespace approve, and make no proposals: %+v", c)
			}
			continue
		}
		for _, rule := range c.Rules {
			reads := !slices.ContainsFunc(rule.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
			if edits == reads || edits && !slices.Equal(rule.Resources, []string{"workloadautoscalers"}) {
				t.Errorf("%s: %+v", c.Name, rule)
			}
		}
	}
	if got := render(t, `{components: [podscaler], rbac: {aggregate: false}}`).kinds(); slices.Contains(got, "ClusterRole plimsoll-edit") {
		t.Error("it is there all the same")
	}
}

// In mode recommend no object of another owner can be written: the role that reads has verbs that
// read, and the role that reports reaches statuses of our own kinds and events.
func TestRecommendModeOnlyReads(t *testing.T) {
	for name, values := range installations {
		r := render(t, values, withMonitoring...)
		mode := "Recommend"
		if strings.Contains(values, "mode: Active") {
			mode = "Active"
		}
		for role, rules := range rolesOf(r) {
			for _, rule := range rules {
				switch {
				case strings.HasSuffix(role, "-read"):
					for _, verb := range rule.Verbs {
						if !slices.Contains([]string{"get", "list", "watch"}, verb) {
							t.Errorf("%s: %s may %s %v", name, role, verb, rule.Resources)
						}
					}
				case strings.HasSuffix(role, "-report"):
					for _, resource := range rule.Resources {
						if resource != "events" && !(rule.APIGroups[0] == "plimsoll.dev" && strings.HasSuffix(resource, "/status")) {
							t.Errorf("%s: %s reaches %s", name, role, resource)
						}
					}
				case strings.HasPrefix(role, "ClusterRole ") && mode == "Recommend":
					t.Errorf("%s: %s is there", name, role)
				}
			}
		}
	}
}

// No right is given by a wildcard, and secrets are named.
func TestRightsAreNamed(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		for role, rules := range rolesOf(r) {
			for _, rule := range rules {
				for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
					if slices.Contains(words, "*") {
						t.Errorf("%s: %+v", role, rule)
					}
				}
				if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
					t.Errorf("%s: any secret: %+v", role, rule)
				}
			}
		}
	})
}

// The program keeps its lease, and what it ordered, under names that the configuration file says.
func TestRightsFollowTheLease(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		var config struct{ Lease, State string }
		for _, m := range all[*corev1.ConfigMap](r) {
			if text := m.Data["config.yaml"]; text != "" {
				if err := yaml.Unmarshal([]byte(text), &config); err != nil {
					t.Fatal(err)
				}
			}
		}
		lease := cmp.Or(config.Lease, "plimsoll")
		want := map[string][]string{"leases": {lease}}
		if config.State == "kubernetes" {
			want["configmaps"] = []string{lease + "-intents"}
		}
		got := map[string][]string{}
		for role, rules := range rolesOf(r) {
			for _, rule := range rules {
				if strings.HasPrefix(role, "Role plimsoll/") && len(rule.ResourceNames) > 0 {
					got[rule.Resources[0]] = slices.Compact(append(got[rule.Resources[0]], rule.ResourceNames...))
				}
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("with lease %s, names -want +got:\n%s", lease, diff)
		}
	})
}

// What may be done follows from what runs.
func TestRightsFollowComponents(t *testing.T) {
	pods := []string{"create /pods/eviction", "patch /pods/resize", "patch apps/deployments/scale", "patch apps/statefulsets/scale"}
	asks := []string{"create plimsoll.dev/scalingproposals", "delete plimsoll.dev/scalingproposals", "patch plimsoll.dev/scalingproposals/status"}
	for _, c := range []struct {
		components string
		want       []string
	}{
		{"podscaler", pods},
		{"nodescaler", []string{"create /pods/eviction", "delete /nodes", "delete /pods", "get /nodes", "patch /nodes"}},
		{"provider", []string{"delete /nodes", "get /nodes"}},
		{"podscaler, provider", append([]string{
			"create autoscaling.x-k8s.io/capacitybuffers", "delete /nodes", "get /nodes", "get autoscaling.x-k8s.io/capacitybuffers",
		}, append(slices.Clone(pods), "update autoscaling.x-k8s.io/capacitybuffers")...)},
		{"podscaler, nodescaler, provider", append([]string{"delete /nodes", "delete /pods", "get /nodes", "patch /nodes", "patch /pods"}, pods...)},
		{"podscaler, nodescaler", append([]string{"delete /nodes", "delete /pods", "get /nodes", "patch /nodes", "patch /pods"}, pods...)},
	} {
		if c.components != "provider" {
			c.want = slices.Concat(c.want, asks)
		}
		slices.Sort(c.want)
		r := render(t, fmt.Sprintf("{mode: Active, components: [%s], provider: {tlsSecret: provider-tls}, %s}", c.components, site))
		if diff := gocmp.Diff(c.want, rights(r, "ClusterRole plimsoll-act")); diff != "" {
			t.Errorf("%s may, -want +got:\n%s", c.components, diff)
		}
	}
}

// CapacityBuffers take rights where they are served alone.
func TestCapacityBuffersAreAskedFor(t *testing.T) {
	for _, served := range []bool{false, true} {
		r := render(t, fmt.Sprintf("{mode: Active, components: [nodescaler], config: {owner: home, endpoints: [\"https://pve1.example:8006\"], capacityBuffers: %t}, proxmox: {existingSecret: pve}}", served))
		for role, right := range map[string]string{
			"ClusterRole plimsoll-read": "watch /podtemplates", "ClusterRole plimsoll-act": "patch autoscaling.x-k8s.io/capacitybuffers/status",
		} {
			if has := slices.Contains(rights(r, role), right); has != served {
				t.Errorf("served %t: %s has %q: %t", served, role, right, has)
			}
		}
	}
}

// Placeholders take rights that no one has who does not ask for them, and a class that gives way
// and is named in the configuration.
func TestPlaceholdersAreAskedFor(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		classes := all[*schedulingv1.PriorityClass](r)
		may := slices.Contains(rights(r, "ClusterRole plimsoll-act"), "create apps/deployments")
		if asked := t.Name() == "TestPlaceholdersAreAskedFor/places"; may != asked || len(classes) > 0 != asked {
			t.Errorf("it may make Deployments: %t, and there are %d classes", may, len(classes))
		}
		for _, c := range classes {
			config := only[*corev1.ConfigMap](t, r).Data["config.yaml"]
			if c.Value != -10 || c.PreemptionPolicy == nil || *c.PreemptionPolicy != corev1.PreemptNever || !strings.Contains(config, "priorityClass: "+c.Name) {
				t.Errorf("%+v, and the configuration is\n%s", c, config)
			}
		}
	})
	const own = `{mode: Active, components: [podscaler], config: {handoff: {by: Placeholders, priorityClass: low}}}`
	if all := all[*schedulingv1.PriorityClass](render(t, own)); len(all) > 0 {
		t.Errorf("beside a class of one's own there is %s", all[0].Name)
	}
}

// Every role is bound to the account that the pods run as, and every binding finds its role.
func TestRolesAreBoundToThePods(t *testing.T) {
	forEach(t, func(t *testing.T, r *rendered) {
		bound := map[string]bool{}
		check := func(name string, subjects []rbacv1.Subject) {
			bound[name] = true
			for _, pod := range podsOf(r) {
				want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: pod.Spec.ServiceAccountName, Namespace: "plimsoll"}}
				if diff := gocmp.Diff(want, subjects); diff != "" {
					t.Errorf("%s is bound to others, -want +got:\n%s", name, diff)
				}
			}
		}
		for _, b := range all[*rbacv1.ClusterRoleBinding](r) {
			check("ClusterRole "+b.RoleRef.Name, b.Subjects)
		}
		for _, b := range all[*rbacv1.RoleBinding](r) {
			check("Role "+b.Namespace+"/"+b.RoleRef.Name, b.Subjects)
		}
		for role := range rolesOf(r) {
			if !bound[role] {
				t.Errorf("%s is bound to nobody", role)
			}
			delete(bound, role)
		}
		for role := range bound {
			t.Errorf("%s is bound and not there", role)
		}
	})
}
