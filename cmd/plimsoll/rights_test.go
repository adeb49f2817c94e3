package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The rights that the manifests give are those that the code needs, right by right. What may be
// scaled is named in them, where the code would take any kind.
func TestManifestsGiveTheRightsThatTheCodeNeeds(t *testing.T) {
	for file, mode := range map[string]kube.Mode{"recommend.yaml": kube.Recommend, "active.yaml": kube.Active} {
		want := []string{
			"get configmaps in its own namespace", // what was ordered
			"list metrics.k8s.io/pods",            // what pods use
		}
		if mode == kube.Active {
			want = append(want, "create configmaps in its own namespace", "patch configmaps in its own namespace")
		}
		for _, n := range kube.Needs(mode) {
			if n.Resource != "*/scale" {
				want = append(want, right(n.Verb, n.Group, n.Resource, n.Own))
				continue
			}
			for _, kind := range []string{"deployments", "statefulsets"} {
				want = append(want, right(n.Verb, "apps", kind+"/scale", n.Own))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(slices.Compact(want), rightsIn(t, file)); diff != "" {
			t.Errorf("%s, -needed +given:\n%s", file, diff)
		}
	}
}

func right(verb, group, resource string, own bool) string {
	text := verb + " " + strings.TrimPrefix(group+"/"+resource, "/")
	if own {
		text += " in its own namespace"
	}
	return text
}

// rightsIn are the rights that the roles in a manifest give, sorted.
func rightsIn(t *testing.T, file string) []string {
	t.Helper()
	text := must.Get(deploy.Manifests.ReadFile("manifests/" + file))(t)
	var all []string
	for _, document := range strings.Split(string(text), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same keys
		must.Do(t, yaml.Unmarshal([]byte(document), &role))
		forUsers := slices.Contains([]string{"plimsoll-view", "plimsoll-edit", "plimsoll-approve"}, role.Name)
		if role.Kind != "ClusterRole" && role.Kind != "Role" || forUsers {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, right(verb, group, resource, role.Kind == "Role"))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
