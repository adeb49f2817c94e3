package lab

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// sources are the tools' modules, for programs that are installed without a checkout. The modules
// are not of this one, so that they cannot be embedded as they are. make gen writes the file.
//
//go:embed sources.zip
var sources []byte

// sources is the folder that the tools' modules are below: a checkout's, or one in the cache with
// what this program has of them.
func (b Toolbox) sources() (string, error) {
	checkout, err := findCheckout(b.Checkout)
	if err == nil {
		return filepath.Join(checkout, filepath.FromSlash(labFolder)), nil
	}
	if b.Checkout != "" || !errors.Is(err, ErrNoCheckout) {
		return "", err
	}
	cache, err := CacheFolder(b.Cache)
	if err != nil {
		return "", err
	}
	return unpack(filepath.Join(cache, "sources"))
}

// unpack writes the sources below a folder, unless they are there, and returns where they are.
func unpack(below string) (string, error) {
	folder := filepath.Join(below, fmt.Sprintf("%x", sha256.Sum256(sources))[:12])
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	files, err := zip.NewReader(bytes.NewReader(sources), int64(len(sources)))
	if err != nil {
		return "", fmt.Errorf("the sources of the lab's tools: %w", err)
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		return "", err
	}
	// The folder is there as a whole or not at all, even after a crash.
	part, err := os.MkdirTemp(below, "part-")
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.CopyFS(part, files), os.Rename(part, folder)); err != nil {
		if _, there := os.Stat(folder); there != nil { // no other process was faster
			return "", errors.Join(err, os.RemoveAll(part))
		}
		return folder, os.RemoveAll(part)
	}
	return folder, nil
}
