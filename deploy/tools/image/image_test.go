package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The image of this machine's architecture, by the recipe: it runs without a user name, needs
// nothing of a system but what is in it, and trusts the authorities that browsers trust.
func TestImageRunsAsNobodyAndNeedsNothing(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := build(context.Background(), archive, "--platform", "linux/"+runtime.GOARCH, "--tags", "v0.0.0-test"); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, img)
	files := filesOf(t, img)
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files[rootsFile]) {
		t.Errorf("%s holds no authority", rootsFile)
	}
	if n := bytes.Count(files[rootsFile], []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("%s holds %d authorities, want those of Mozilla", rootsFile, n)
	}
	for _, f := range []string{"etc/passwd", "etc/group"} {
		if !strings.Contains(string(files[f]), "nonroot:x:65532:") {
			t.Errorf("%s does not know who runs it: %q", f, files[f])
		}
	}
	checkBinary(t, files["ko-app/plimsoll"])

	lists, err := filepath.Glob(filepath.Join(filepath.Dir(archive), "*.spdx.json"))
	if err != nil || len(lists) == 0 {
		t.Errorf("no list of what is in it: %v, %v", lists, err)
	}
	for _, list := range lists {
		if text, err := os.ReadFile(list); err != nil || !strings.Contains(string(text), "k8s.io/client-go") {
			t.Errorf("%s does not say what is in it (%v)", list, err)
		}
	}
	var said strings.Builder
	if err := printDigest(&said, archive); err != nil {
		t.Fatal(err)
	}
	if digest, err := img.Digest(); err != nil || !strings.HasSuffix(said.String(), ": digest "+digest.String()+"\n") {
		t.Errorf("said %q, want digest %s (%v)", said.String(), digest, err)
	}

	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(manifest[0].RepoTags, " "); got != "plimsoll.invalid/plimsoll:v0.0.0-test" {
		t.Errorf("named %s", got)
	}
}

func checkConfig(t *testing.T, img v1.Image) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != "linux" || file.Architecture != runtime.GOARCH {
		t.Errorf("made for %s/%s", file.OS, file.Architecture)
	}
	// Kubernetes proves runAsNonRoot from a number alone.
	if file.Config.User != "65532" {
		t.Errorf("runs as %q", file.Config.User)
	}
	if got := strings.Join(file.Config.Entrypoint, " "); got != "/ko-app/plimsoll" {
		t.Errorf("starts %s", got)
	}
}

// filesOf are the image's files, by name.
func filesOf(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	layers := mutate.Extract(img)
	defer layers.Close() //nolint:errcheck // it is only read
	for r := tar.NewReader(layers); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(head.Name, "/")] = text
	}
}

// checkBinary wants a program that no loader and no library is needed for, and runs it.
func checkBinary(t *testing.T, text []byte) {
	t.Helper()
	program, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader, which is not there")
		}
	}
	at := filepath.Join(t.TempDir(), "plimsoll")
	if err := os.WriteFile(at, text, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(at, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "plimsoll ") {
		t.Errorf("version: %v, %s", err, out)
	}
}
