// Command image builds the container image with ko, by the recipe of .ko.yaml, into
// out/plimsoll-image.tar. It needs no registry: in place of the recipe's base image it takes one
// that it makes itself. The archive is loaded with 'ctr images import' or 'docker load', or put
// into RKE2's folder agent/images. Beside it goes a list of what is in the program, in SPDX; its
// digest is printed.
//
// Arguments are handed on to ko build.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := build(context.Background(), filepath.Join("out", "plimsoll-image.tar"), os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// build runs ko in the root of the tree, with a base image that a registry on the loopback serves:
// ko takes base images from registries alone. The archive is named from the root.
func build(ctx context.Context, archive string, args ...string) error {
	root, err := treeRoot()
	if err != nil {
		return err
	}
	hub := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer hub.Close()
	base := strings.TrimPrefix(hub.URL, "http://") + "/base:latest"
	if err := serve(ctx, base); err != nil {
		return fmt.Errorf("base image: %w", err)
	}
	ko, err := tool(ctx, "ko")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(archive) {
		archive = filepath.Join(root, archive)
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, ko, append([]string{"build", "./cmd/plimsoll", "--push=false", "--base-import-paths", "--sbom=spdx", "--sbom-dir", filepath.Dir(archive), "--tarball", archive}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	// The name is the one that the chart asks for, so that what is loaded is found.
	cmd.Env = append(os.Environ(), "KO_DEFAULTBASEIMAGE="+base, "KO_DOCKER_REPO=plimsoll.invalid")
	if err := cmd.Run(); err != nil {
		return err
	}
	return printDigest(os.Stdout, archive)
}

// printDigest prints the digest, by which the image is named in a registry that it is pushed to as
// it is.
func printDigest(w io.Writer, archive string) error {
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: digest %s\n", archive, digest)
	return err
}

// tool is where Go keeps a tool of this module, which it builds if it has not.
func tool(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// treeRoot is the nearest folder with the recipe.
func treeRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, ".ko.yaml")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no .ko.yaml in this folder or one above")
		}
		dir = above
	}
}

// serve puts the base image into the registry, for both platforms.
func serve(ctx context.Context, base string) error {
	ref, err := name.ParseReference(base)
	if err != nil {
		return err
	}
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := baseImage(arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	return remote.WriteIndex(ref, index, remote.WithContext(ctx))
}
