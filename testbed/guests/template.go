//go:build guest

package guests

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Package is a package of Debian that holds files.
type Package struct {
	Name, Depends string
	Files         map[string][]byte
	Links         map[string]string // from a name to what it leads to
}

// Template builds an image with plimsoll's own verb, unless it is there. A package comes into it as
// packages of operators do: from a further source.
func Template(t *testing.T, program, join, cache string, p *Package) string {
	t.Helper()
	for _, name := range []string{"mmdebstrap", "dpkg-deb", "mke2fs"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("NOT TRIED: %s not found; install mmdebstrap, dpkg and e2fsprogs", name)
		}
	}
	// apt reads it as a user of its own, who sees no one's cache.
	folder := filepath.Join(os.TempDir(), p.Name)
	version := p.Offer(t, folder)
	cmd := exec.CommandContext(t.Context(), program, "template", "build", "--join", join, "--out", filepath.Join(cache, "guests"),
		"--package", p.Name+"="+version, "--source", "deb [trusted=yes] copy:"+folder+" ./", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var made struct{ File string }
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return made.File
}

// Offer makes a folder a source of packages with this one. Its version follows from its files, so
// that an image with others is another image.
func (p *Package) Offer(t *testing.T, folder string) (version string) {
	t.Helper()
	root, sum := t.TempDir(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(p.Files[name]))
		sum.Write(p.Files[name])
		mode := os.FileMode(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		write(t, filepath.Join(root, name), p.Files[name], mode)
	}
	for _, at := range slices.Sorted(maps.Keys(p.Links)) {
		fmt.Fprintln(sum, at, p.Links[at])
		link := filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p.Links[at], link); err != nil {
			t.Fatal(err)
		}
	}
	version = fmt.Sprintf("1-%x", sum.Sum(nil)[:6])
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: none <none@localhost>\nDescription: for a test\n", p.Name, version)
	if p.Depends != "" {
		control += "Depends: " + p.Depends + "\n"
	}
	write(t, filepath.Join(root, "DEBIAN", "control"), []byte(control), 0o644)
	write(t, filepath.Join(folder, "README"), []byte("Made by a test of Plimsoll.\n"), 0o644)
	deb := filepath.Join(folder, p.Name+".deb")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-Znone", "--root-owner-group", "-b", root, deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	content, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	index := fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, filepath.Base(deb), len(content), sha256.Sum256(content))
	write(t, filepath.Join(folder, "Packages"), []byte(index), 0o644)
	return version
}

func write(t *testing.T, name string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, mode); err != nil {
		t.Fatal(err)
	}
}
