package template

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tool is a program of the workstation, and the package of Debian and Ubuntu that it is in.
type tool struct {
	name, pkg string
	notRoot   bool // it is needed by others than root alone
}

var tools = []tool{
	{name: "mmdebstrap", pkg: "mmdebstrap"}, {name: "apt-get", pkg: "apt"}, {name: "tar", pkg: "tar"},
	{name: "mke2fs", pkg: "e2fsprogs"}, {name: "qemu-img", pkg: "qemu-utils"},
	{name: "newuidmap", pkg: "uidmap", notRoot: true},
}

// path is where programs are looked for: mke2fs is not on the path of ordinary users.
func searchPath() string { return os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" }

// find looks for a program on the path.
func find(name string) bool {
	for _, folder := range filepath.SplitList(searchPath()) {
		if at, err := os.Stat(filepath.Join(folder, name)); err == nil && at.Mode().IsRegular() && at.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Missing names the packages that the workstation lacks.
func Missing(root bool) []string {
	var all []string
	for _, t := range tools {
		if !(t.notRoot && root) && !find(t.name) {
			all = append(all, t.pkg)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		all = append(all, "debian-archive-keyring")
	}
	return all
}

// Image is a file with a disk, and what it was made by.
type Image struct {
	File    string    `json:"file"`
	Name    string    `json:"name"`
	Digest  string    `json:"recipe"` // of the recipe
	SHA256  string    `json:"sha256"` // of the file
	Size    int64     `json:"size"`
	Recipe  Recipe    `json:"made"`
	Built   time.Time `json:"built"`
	AtOnce  bool      `json:"-"` // it was there already
	Fetched int64     `json:"-"`
	Kept    int64     `json:"-"`
}

// Builder makes images.
type Builder struct {
	Cache string           // the folder of packages
	Now   func() time.Time //
	Root  bool             // the process is root
	Log   io.Writer        // what the programs print
	Say   func(string)     // one line at the beginning of each step
}

// Build makes an image in a folder, unless it is there.
func (b *Builder) Build(ctx context.Context, r *Recipe, folder string, anew bool) (*Image, error) {
	file := filepath.Join(folder, r.Name()+".qcow2")
	if made, err := Read(file); err == nil && made.Digest == r.Digest() && !anew {
		made.AtOnce = true
		return made, nil
	}
	if missing := Missing(b.Root); len(missing) > 0 {
		return nil, &MissingError{Packages: missing}
	}
	if err := errors.Join(os.MkdirAll(folder, 0o750), os.MkdirAll(b.Cache, 0o750)); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "plimsoll-template.")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	kept := &cache{folder: b.Cache, client: &http.Client{}}
	system := filepath.Join(work, "system.tar")
	if err := b.install(ctx, r, kept, system); err != nil {
		return nil, err
	}
	if err := b.disk(ctx, r, system, file+".part"); err != nil {
		return nil, err
	}
	made := &Image{File: file, Name: r.Name(), Digest: r.Digest(), Recipe: *r, Built: b.Now().UTC(), Fetched: kept.fetched, Kept: kept.kept}
	return made, made.keep()
}

// install writes a tar of the system.
func (b *Builder) install(ctx context.Context, r *Recipe, kept *cache, into string) error {
	b.Say(fmt.Sprintf("installing %d packages and what they need, from %s %s", len(r.Packages()), r.Mirror, r.Suite))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	proxy, err := kept.serve(ctx)
	if err != nil {
		return err
	}
	overlay := filepath.Join(filepath.Dir(into), "overlay.tar")
	if err := os.WriteFile(overlay, r.overlay(), 0o600); err != nil {
		return err
	}
	out, err := os.OpenFile(into, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = b.run(ctx, nil, out, "mmdebstrap", r.arguments(proxy, overlay)...)
	return errors.Join(err, out.Close())
}

// disk makes the image of the tar.
func (b *Builder) disk(ctx context.Context, r *Recipe, system, into string) error {
	b.Say(fmt.Sprintf("making a disk of %d GiB", r.GiB))
	in, err := os.Open(filepath.Clean(system))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Clean(into), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	args := []string{"sh", "-c", assemble, "assemble", fmt.Sprint(r.GiB), "-"}
	if !b.Root {
		args = append([]string{"mmdebstrap", "--unshare-helper"}, args...)
	}
	err = b.run(ctx, in, out, args[0], args[1:]...)
	return errors.Join(err, out.Close())
}

// run runs a program. What it printed last is in the error.
func (b *Builder) run(ctx context.Context, in io.Reader, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, "/usr/bin/env", append([]string{"PATH=" + searchPath(), "LC_ALL=C.UTF-8", name}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes what it made
	cmd.WaitDelay = time.Minute
	cmd.Stdin, cmd.Stdout = in, out
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var last []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Fprintln(b.Log, lines.Text())
		if last = append(last, lines.Text()); len(last) > 5 {
			last = last[1:]
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: packages that were fetched are kept, and the next build goes on with them")
	case err != nil:
		return fmt.Errorf("%s: %w: %s", name, err, cmp.Or(strings.Join(last, "; "), "it printed nothing"))
	}
	return nil
}

// keep puts the image in its place, with what is known of it beside it.
func (i *Image) keep() error {
	f, err := os.Open(i.File + ".part")
	if err != nil {
		return err
	}
	h := sha256.New()
	i.Size, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	i.SHA256 = hex.EncodeToString(h.Sum(nil))
	about, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	// The description goes first: an image beside that of another is seen by its sum.
	return errors.Join(os.WriteFile(i.File+".json", append(about, '\n'), 0o600), os.Rename(i.File+".part", i.File))
}

// Read reads what is known of an image, and sees that the file is that image.
func Read(file string) (*Image, error) {
	text, err := os.ReadFile(file + ".json")
	if err != nil {
		return nil, err
	}
	made := &Image{}
	if err := json.Unmarshal(text, made); err != nil {
		return nil, fmt.Errorf("%s.json: %w", file, err)
	}
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != made.SHA256 {
		return nil, fmt.Errorf("%s: its SHA-256 must be %s, as %s.json says, was %s: build it again", file, made.SHA256, file, sum)
	}
	made.File = file
	return made, nil
}

// MissingError names packages that the workstation lacks.
type MissingError struct{ Packages []string }

func (e *MissingError) Error() string {
	return "the workstation lacks programs of the packages " + strings.Join(e.Packages, ", ")
}

// Advice is the command that installs them.
func (e *MissingError) Advice() string {
	return "apt-get install " + strings.Join(e.Packages, " ") + " (on Debian 12, Ubuntu 24.04 or later)"
}
