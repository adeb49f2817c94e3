// Package helm runs the helm that this module pins.
package helm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// program is where Go keeps helm, which it builds if it has not.
var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("build helm: %w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// Run returns what helm answers. What it complains of is in the error.
func Run(args ...string) ([]byte, error) {
	helm, err := program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(helm, args...)
	// Rendering must not depend on the cluster that this machine happens to know.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HELM_NAMESPACE=")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}
