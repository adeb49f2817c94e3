package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// tree is a small program with a chart, in a folder of its own.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "module example.com/small\n\ngo 1.26\n",
		"cmd/small/main.go":      "package main\n\nimport \"os\"\n\nvar version string\n\nfunc main() {\n\tif len(os.Args) > 1 {\n\t\tos.WriteFile(os.Args[3]+\"/small.1\", []byte(\"pages of \"+version), 0o600)\n\t}\n\tprintln(version)\n}\n",
		"chart/small/values":     "a: 1\n",
		"chart/small/.hidden":    "not packed",
		"chart/small/Chart.yaml": "apiVersion: v2\nname: small\nversion: 1.2.3\nappVersion: 1.2.3\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func released(t *testing.T, root string) (*release, string) {
	t.Helper()
	r := &release{Root: root, Package: "./cmd/small", Name: "small", Charts: []string{"chart/small"}, Out: "out", Version: "v1.2.3", Commit: "feed"}
	if err := r.make(); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(r.Out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	return r, string(sums)
}

// The same sources are the same bytes, wherever they lie, and the checksums are those of all files.
func TestTwoReleasesAreTheSame(t *testing.T) {
	r, first := released(t, tree(t))
	_, second := released(t, tree(t))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("built twice (-first +second):\n%s", diff)
	}
	var names []string
	for line := range strings.Lines(first) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		text, err := os.ReadFile(filepath.Join(r.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		if is := sha256.Sum256(text); hex.EncodeToString(is[:]) != sum {
			t.Errorf("the sum of %s is wrong", name)
		}
		if !strings.Contains(name, "blobs/") {
			names = append(names, name)
		}
	}
	want := []string{
		"provenance.intoto.json", "small-1.2.3.tgz", "small-chart.oci/index.json", "small-chart.oci/oci-layout", "small-image.digest",
		"small-image.oci/index.json", "small-image.oci/oci-layout",
		"small-v1.2.3-linux-amd64", "small-v1.2.3-linux-amd64.spdx.json", "small-v1.2.3-linux-arm64", "small-v1.2.3-linux-arm64.spdx.json",
		"small-v1.2.3-man.tar.gz",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// The program says its version, the list what is in it, and the provenance names both.
func TestAReleaseSaysWhatItIs(t *testing.T) {
	r, _ := released(t, tree(t))
	program := filepath.Join(r.Out, "small-v1.2.3-linux-"+runtime.GOARCH)
	if slices.Contains(architectures, runtime.GOARCH) && runtime.GOOS == "linux" {
		if said, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil || string(said) != "v1.2.3\n" {
			t.Errorf("it says %q, %v", said, err)
		}
	}
	var list struct {
		Packages []struct{ Name, VersionInfo string } `json:"packages"`
	}
	var made struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	for file, into := range map[string]any{program + ".spdx.json": &list, filepath.Join(r.Out, "provenance.intoto.json"): &made} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(list.Packages) != 2 || list.Packages[0].Name != "example.com/small" || list.Packages[1].Name != "std" {
		t.Errorf("the list holds %v", list.Packages)
	}
	if !slices.ContainsFunc(made.Subject, func(s struct {
		Name   string
		Digest map[string]string
	}) bool {
		return s.Name == filepath.Base(program) && len(s.Digest["sha256"]) == 64
	}) {
		t.Errorf("the provenance is of %v", made.Subject)
	}
}

// The manual is what the program writes of this version.
func TestTheManualIsTheProgramsOwn(t *testing.T) {
	r, _ := released(t, tree(t))
	packed, err := os.Open(filepath.Join(r.Out, "small-v1.2.3-man.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }() // only read
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	pages := tar.NewReader(unpacked)
	if head, err := pages.Next(); err != nil || head.Name != "small.1" {
		t.Fatalf("%v, %v", head, err)
	}
	if text, err := io.ReadAll(pages); err != nil || string(text) != "pages of v1.2.3" {
		t.Errorf("%q, %v", text, err)
	}
}

// Both layouts are what registries take: the image of both architectures, and the chart.
func TestLayoutsAreValid(t *testing.T) {
	r, _ := released(t, tree(t))
	for folder, platforms := range map[string][]string{"small-image.oci": {"linux/amd64", "linux/arm64"}, "small-chart.oci": nil} {
		index, err := ocilayout.ImageIndexFromPath(filepath.Join(r.Out, folder))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index, validate.Fast); err != nil && platforms != nil {
			t.Errorf("%s: %v", folder, err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("%s: %v, %v", folder, manifest, err)
		}
		if platforms == nil {
			continue
		}
		digest, err := os.ReadFile(filepath.Join(r.Out, "small-image.digest"))
		if err != nil || strings.TrimSpace(string(digest)) != manifest.Manifests[0].Digest.String() {
			t.Errorf("the digest is %s, %v", digest, err)
		}
		all, err := index.ImageIndex(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(platforms, platformsOf(t, all)); diff != "" {
			t.Error(diff)
		}
	}
}

func platformsOf(t *testing.T, index v1.ImageIndex) (out []string) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		out = append(out, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err == nil {
			err = validate.Image(img)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Platform, err)
		}
	}
	return out
}

// A version that the chart does not have, and what is no version, are refused.
func TestVersionsMustBeOne(t *testing.T) {
	root := tree(t)
	for version, want := range map[string]string{
		"1.2.3": `-version: must be a version such as v0.1.0, was "1.2.3"`, "": `-version: must be a version such as v0.1.0, was ""`,
		"v2.0.0": "chart chart/small: version and appVersion must be that of the release, 2.0.0, were 1.2.3 and 1.2.3",
	} {
		r := &release{Root: root, Package: "./cmd/small", Name: "small", Charts: []string{"chart/small"}, Out: t.TempDir(), Version: version}
		if err := r.make(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}
