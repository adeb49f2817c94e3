package access

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// sections are what the user interface asks for when it shows what a caller may.
var sections = map[string]*regexp.Regexp{
	"vms":     regexp.MustCompile(`^(?:VM\.|Permissions\.Modify)`),
	"access":  regexp.MustCompile(`^(?:(?:User|Group)\.|Permissions\.Modify)`),
	"storage": regexp.MustCompile(`^(?:Datastore\.|Permissions\.Modify)`),
	"nodes":   regexp.MustCompile(`^(?:Sys\.|Permissions\.Modify)`),
	"sdn":     regexp.MustCompile(`^(?:SDN\.|Permissions\.Modify)`),
	"dc":      regexp.MustCompile(`^(?:Sys\.Audit|Sys\.Modify|SDN\.)`),
	"mapping": regexp.MustCompile(`^(?:Mapping\.|Permissions\.Modify)`),
}

// Capabilities are what a caller may anywhere in a section.
func (a *Access) Capabilities(who *Identity) map[string]map[string]int {
	caps := map[string]map[string]int{}
	for section := range sections {
		caps[section] = map[string]int{}
	}
	paths := append([]string{"/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"}, slices.Sorted(maps.Keys(a.ACL))...)
	for _, path := range paths {
		for _, priv := range a.Held(who, path).All.Names() {
			top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			if top == "" {
				top = "dc"
			}
			for _, section := range sectionsOf(top) {
				if sections[section].MatchString(priv) {
					caps[section][priv] = 1
				}
			}
		}
	}
	return caps
}

// sectionsOf are the sections that a path counts in: what is given on a pool counts for what is in
// it.
func sectionsOf(top string) []string {
	switch {
	case top == "pool":
		return []string{"vms", "storage"}
	case sections[top] != nil:
		return []string{top}
	}
	return nil
}
