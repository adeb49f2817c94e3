//go:build race

package policy

import "flag"

// Lives take ten times as long under the race detector, and one of them is as good as another for it.
func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}
