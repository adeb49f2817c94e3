// Package must ends a test where a call fails that must not.
package must

// Test is what tests, benchmarks and laws have in common.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Get is the value of a call that must not fail: must.Get(os.ReadFile(name))(t).
func Get[T any](v T, err error) func(Test) T {
	return func(t Test) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Do ends the test if a call failed that has no value: must.Do(t, file.Close()).
func Do(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
