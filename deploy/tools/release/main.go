// Command release makes what a release consists of. These are static programs with a list of what
// is in each (SPDX), the image for both architectures and the charts, as OCI layouts and archives.
// Beside them are how all was built (SLSA provenance), and checksums. The network is asked only for
// modules that Go does not have yet. The same sources, Go and version give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/deploy/tools/internal/helm"
)

func main() {
	r := release{Root: ".", Package: "./cmd/plimsoll", Name: "plimsoll", Charts: []string{"deploy/charts/plimsoll", "deploy/charts/plimsoll-crds"}}
	flag.StringVar(&r.Root, "root", r.Root, "the `folder` of the sources")
	flag.StringVar(&r.Out, "out", "out/release", "the `folder` to write to, below the sources unless absolute")
	flag.StringVar(&r.Version, "version", "", "the `version`, such as v0.1.0")
	flag.StringVar(&r.Commit, "commit", "", "the `commit` of the sources, for the provenance")
	flag.Parse()
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is to be made.
type release struct {
	Root, Package, Name string
	Charts              []string
	Out                 string
	Version, Commit     string
}

// architectures are those that programs and images are made for, all of Linux.
var architectures = []string{"amd64", "arm64"}

var versioned = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func (r *release) make() error {
	if !versioned.MatchString(r.Version) {
		return fmt.Errorf("-version: must be a version such as v0.1.0, was %q", r.Version)
	}
	if !filepath.IsAbs(r.Out) {
		r.Out = filepath.Join(r.Root, r.Out)
	}
	out, err := filepath.Abs(r.Out)
	if err != nil {
		return err
	}
	r.Out = out
	if err := os.RemoveAll(r.Out); err != nil { // of what an earlier version had
		return err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	programs := map[string]string{}
	for _, arch := range architectures {
		if programs[arch], err = r.build(arch); err != nil {
			return err
		}
		if err := r.list(programs[arch]); err != nil {
			return err
		}
	}
	if err := r.manual(); err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	if err := r.image(programs); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, chart := range r.Charts {
		if err := r.chart(filepath.Join(r.Root, chart)); err != nil {
			return fmt.Errorf("chart %s: %w", chart, err)
		}
	}
	if err := r.provenance(); err != nil {
		return err
	}
	sums, err := r.sums()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(sums), 0o644)
}

// manual packs the manual pages that the program writes into an archive.
func (r *release) manual() error {
	folder, err := os.MkdirTemp("", "manual")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cmd := exec.Command("go", "run", "-trimpath", "-buildvcs=false", "-ldflags", r.linked(), r.Package, "man", "--out", folder)
	cmd.Dir, cmd.Stderr = r.Root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return err
	}
	packed, err := pack(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, fmt.Sprintf("%s-%s-man.tar.gz", r.Name, r.Version)), packed, 0o644)
}

// pack is the files of a folder as an archive, in their order and without their times.
func pack(folder string) ([]byte, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		head := &tar.Header{Name: f.Name(), Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}
		if err := archive.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := archive.Write(text); err != nil {
			return nil, err
		}
	}
	err = errors.Join(archive.Close(), compressed.Close())
	return packed.Bytes(), err
}

// linked is what the linker is given.
func (r *release) linked() string { return "-s -w -buildid= -X main.version=" + r.Version }

// build makes the program for an architecture. What the folder is called, who built it and when are
// not in it.
func (r *release) build(arch string) (string, error) {
	file := filepath.Join(r.Out, fmt.Sprintf("%s-%s-linux-%s", r.Name, r.Version, arch))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.linked(), "-o", file, r.Package)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build for %s: %w", arch, err)
	}
	return file, os.Chmod(file, 0o755)
}

// chart writes a chart as an archive and as an OCI layout.
func (r *release) chart(folder string) error {
	archive, err := helm.Pack(folder)
	if err != nil {
		return err
	}
	name := filepath.Base(folder) + "-" + strings.TrimPrefix(r.Version, "v")
	if err := os.WriteFile(filepath.Join(r.Out, name+".tgz"), archive, 0o644); err != nil {
		return err
	}
	meta, err := chartMeta(filepath.Join(folder, "Chart.yaml"), strings.TrimPrefix(r.Version, "v"))
	if err != nil {
		return err
	}
	l := &layout{folder: filepath.Join(r.Out, filepath.Base(folder)+"-chart.oci")}
	config, err := l.blob(meta, "application/vnd.cncf.helm.config.v1+json")
	if err != nil {
		return err
	}
	content, err := l.blob(archive, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
	if err != nil {
		return err
	}
	manifest, err := l.manifest(config, []descriptor{content})
	if err != nil {
		return err
	}
	return l.index([]descriptor{manifest}, strings.TrimPrefix(r.Version, "v"))
}

// provenance says of what and how the files were built, as SLSA's statement has it. It has no
// signature.
func (r *release) provenance() error {
	type subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	var subjects []subject
	sums, err := r.sums()
	if err != nil {
		return err
	}
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		subjects = append(subjects, subject{name, map[string]string{"sha256": sum}})
	}
	source := map[string]any{"uri": "git+https://github.com/plimsoll/plimsoll"}
	if r.Commit != "" {
		source["digest"] = map[string]string{"gitCommit": r.Commit}
	}
	text, err := json.MarshalIndent(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "https://github.com/plimsoll/plimsoll/blob/main/docs/install.md#a-release",
				"externalParameters":   map[string]any{"command": "make release", "version": r.Version},
				"internalParameters":   map[string]any{"go": runtime.Version(), "platforms": architectures},
				"resolvedDependencies": []any{source},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "https://github.com/plimsoll/plimsoll/blob/main/Makefile"}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "provenance.intoto.json"), append(text, '\n'), 0o644)
}

// sums are the checksums of all files, as sha256sum -c reads them.
func (r *release) sums() (string, error) {
	var lines []string
	err := filepath.WalkDir(r.Out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(r.Out, name)
		sum := sha256.Sum256(text)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+filepath.ToSlash(within)+"\n")
		return err
	})
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return strings.Join(lines, ""), err
}
