package main

import (
	"fmt"
	"html"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	identity  = regexp.MustCompile(`id="([^"]*)"`)
)

// broken are the links of the site's pages that lead to no file or heading of the site.
func broken(files map[string][]byte) []error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, to := range references(name, files[name]) {
			file, anchor, _ := strings.Cut(to, "#")
			data, there := files[file]
			switch {
			case !there:
				faults = append(faults, fmt.Errorf("%s: links to %s, which is not in the site", name, to))
			case anchor != "" && !slices.Contains(identities(data), anchor):
				faults = append(faults, fmt.Errorf("%s: links to %s, which has no such heading", name, to))
			}
		}
	}
	return faults
}

// references are the relative links of a page, from the site's root.
func references(name string, data []byte) []string {
	if path.Ext(name) != ".html" {
		return nil
	}
	var all []string
	for _, m := range reference.FindAllSubmatch(data, -1) {
		to := html.UnescapeString(string(m[1]))
		if strings.HasPrefix(to, "#") {
			all = append(all, name+to)
		} else if !elsewhere.MatchString(to) {
			file, anchor, found := strings.Cut(to, "#")
			to = path.Join(path.Dir(name), file)
			if found {
				to += "#" + anchor
			}
			all = append(all, to)
		}
	}
	return all
}

func identities(data []byte) []string {
	var all []string
	for _, m := range identity.FindAllSubmatch(data, -1) {
		all = append(all, html.UnescapeString(string(m[1])))
	}
	return all
}
