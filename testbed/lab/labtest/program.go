package labtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is the program, made once for all tests of a package.
var built = sync.OnceValues(func() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	program := filepath.Join(strings.TrimSpace(string(module)), "bin", "plimsoll")
	// With the flags of make build nothing is to be done behind it: other packages' tests run that
	// file meanwhile.
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "github.com/plimsoll/plimsoll/cmd/plimsoll").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

// Program builds this checkout's plimsoll where make build puts it, and returns where that is.
func Program(t testing.TB) string {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Verb runs a verb of a program in a cluster, and returns what it prints.
func Verb(t testing.TB, program, kubeconfig string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("plimsoll %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
