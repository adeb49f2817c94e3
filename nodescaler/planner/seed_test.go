package planner

import "flag"

// Laws meet the same random cases in every run, so that a change is the only reason for them
// to fail; -rapid.seed=0, as in make laws, draws new ones.
func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
