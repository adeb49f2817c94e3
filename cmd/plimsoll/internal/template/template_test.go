package template

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func recipe() *Recipe {
	return &Recipe{Kind: RKE2, Suite: "trixie", Mirror: "http://mirror.invalid/debian", GiB: 4}
}

// Programs are named by the packages that they are in.
func TestMissingPackagesAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	missing := Missing(true)
	if !slices.Contains(missing, "mmdebstrap") || !slices.Contains(missing, "qemu-utils") || slices.Contains(missing, "uidmap") {
		t.Errorf("missing are %v", missing)
	}
	if !slices.Contains(Missing(false), "uidmap") {
		t.Error("without root, uidmap is not missing")
	}
	_, err := (&Builder{Cache: t.TempDir(), Now: time.Now, Root: true}).Build(t.Context(), recipe(), t.TempDir(), false)
	if e, ok := errors.AsType[*MissingError](err); !ok || !strings.Contains(e.Advice(), "mmdebstrap") {
		t.Errorf("the build says %v", err)
	}
}

// fakes puts programs on the path that do what the real ones do, with a system of a few files.
// mmdebstrap fails if there is a file fail.
func fakes(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"mmdebstrap": `set -eu
if [ "$1" = --unshare-helper ]; then shift; exec "$@"; fi
if [ -e "` + folder + `/fail" ]; then echo "E: no such package" >&2; exit 7; fi
work=$(mktemp -d); mkdir -p "$work/boot/grub" "$work/etc"
printf boot > "$work/boot/grub/boot.img"; printf core > "$work/boot/grub/core.img"; echo host > "$work/etc/hostname"
mkdir -p "$work/etc/apt/apt.conf.d"; echo proxy > "$work/etc/apt/apt.conf.d/99mmdebstrap"
for a in "$@"; do case $a in "--customize-hook=tar-in "*) set -- ${a#--customize-hook=tar-in }; tar -C "$work" -xf "$1";; esac; done
tar -C "$work" -cf - .; rm -rf "$work"; echo built >> "` + folder + `/built"`,
		"mke2fs": `for a in "$@"; do case $prev in -d) test ! -e "$a/etc/hostname" && test ! -e "$a/etc/apt/apt.conf.d/99mmdebstrap" && test -L "$a/etc/resolv.conf" && grep -q plimsoll-root "$a/etc/fstab" || exit 9;; esac; prev=$a; done`,
		// The image is the disk's beginning, which tests look at.
		"qemu-img":  `head -c 1024 "$8" > "$9"`,
		"newuidmap": "", "apt-get": "",
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	return folder
}

// An image is built once for a recipe; a disk that boots begins with GRUB, and has one active
// partition up to its end.
func TestAnImageIsBuiltOnce(t *testing.T) {
	if _, err := os.Stat(keyring); err != nil {
		t.Skip("needs the package debian-archive-keyring")
	}
	programs, out := fakes(t), t.TempDir()
	b := &Builder{Cache: t.TempDir(), Now: time.Now, Root: os.Geteuid() == 0, Log: io.Discard, Say: func(string) {}}
	count := func() int {
		text, _ := os.ReadFile(filepath.Join(programs, "built"))
		return strings.Count(string(text), "built")
	}
	build := func(r *Recipe, anew bool, want int) *Image {
		t.Helper()
		image := must.Get(b.Build(t.Context(), r, out, anew))(t)
		if count() != want {
			t.Fatalf("it was built %d times, want %d", count(), want)
		}
		return image
	}
	image := build(recipe(), false, 1)
	disk := must.Get(os.ReadFile(image.File))(t)
	entry := []byte{0x80, 0xfe, 0xff, 0xff, 0x83, 0xfe, 0xff, 0xff, 0, 8, 0, 0, 0, 0xf8, 0x7f, 0}
	if !bytes.HasPrefix(disk, []byte("boot")) || !bytes.Equal(disk[446:462], entry) || disk[510] != 0x55 || disk[511] != 0xaa || !bytes.HasPrefix(disk[512:], []byte("core")) {
		t.Errorf("the disk begins with % x", disk)
	}
	build(recipe(), false, 1)
	other := recipe()
	other.Extra = []string{"htop"}
	build(other, false, 2)
	build(other, true, 3)

	// What was changed afterwards is no image any more.
	must.Do(t, os.WriteFile(image.File, []byte("x"), 0o600))
	if _, err := Read(image.File); err == nil || !strings.Contains(err.Error(), "build it again") {
		t.Errorf("a changed file is read: %v", err)
	}
	build(other, false, 4)

	// A program that fails says why, and leaves the image that was there.
	must.Do(t, os.WriteFile(filepath.Join(programs, "fail"), nil, 0o600))
	if _, err := b.Build(t.Context(), recipe(), out, true); err == nil || !strings.Contains(err.Error(), "mmdebstrap: exit status 7: E: no such package") {
		t.Errorf("the failure says %v", err)
	}
	if _, err := Read(image.File); err != nil {
		t.Error(err)
	}
}

// A recipe's digest and files depend on it alone, and containerd is of kubeadm's image only.
func TestRecipes(t *testing.T) {
	for _, kind := range Kinds {
		r := recipe()
		r.Kind = kind
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		if got := slices.Contains(r.Packages(), "containerd"); got != (kind == Kubeadm) {
			t.Errorf("%s: containerd: %v", kind, got)
		}
		again := *r
		if r.Digest() != again.Digest() {
			t.Errorf("%s: the digest changes", kind)
		}
		again.GiB++
		if r.Digest() == again.Digest() {
			t.Errorf("%s: the digest does not know the disk's size", kind)
		}
		files := tar.NewReader(bytes.NewReader(r.overlay()))
		for h, err := files.Next(); err != io.EOF; h, err = files.Next() {
			if err != nil || h.Uid != 0 || h.Mode != 0o644 || strings.HasPrefix(h.Name, "/") {
				t.Fatalf("%s: %v, %v", kind, h, err)
			}
		}
		if strings.Contains(assemble, "plimsoll-root") != strings.Contains(r.files()["etc/fstab"], label) {
			t.Error("the label of the file system differs")
		}
	}
}

// Packages of https sources pass by the proxy, which keeps none of them, and the keys that they are
// signed with are on the image.
func TestFurtherSourcesAreReached(t *testing.T) {
	r := recipe()
	r.Sources = []string{
		"deb [arch=amd64 signed-by=/usr/share/keyrings/kubernetes.gpg,/etc/apt/keyrings/more.asc] https://pkgs.k8s.io/core:/stable:/v1.34/deb/ /",
		"deb [trusted=yes] file:///srv/packages ./",
	}
	args := r.arguments("http://127.0.0.1:1", "overlay.tar")
	if !slices.Contains(args, `--aptopt=Acquire::https::Proxy "DIRECT"`) {
		t.Errorf("https sources are asked through the proxy: %q", args)
	}
	want := []string{
		`mkdir -p "$1/usr/share/keyrings"`, "copy-in /usr/share/keyrings/kubernetes.gpg /usr/share/keyrings",
		`mkdir -p "$1/etc/apt/keyrings"`, "copy-in /etc/apt/keyrings/more.asc /etc/apt/keyrings",
	}
	var hooks []string
	for _, a := range args {
		if hook, is := strings.CutPrefix(a, "--customize-hook="); is {
			hooks = append(hooks, hook)
		}
	}
	if got := hooks[len(hooks)-len(want):]; !slices.Equal(got, want) || !slices.Equal(args[len(args)-2:], r.Sources) {
		t.Errorf("hooks %q, want %q, in %q", hooks, want, args)
	}
}

// Folders of the workstation are no sources of the machines, where apt would find none of them and
// install nothing.
func TestOwnFoldersAreNoSourcesOfMachines(t *testing.T) {
	r := recipe()
	far := r.sourceLines()
	r.Sources = []string{"deb [trusted=yes] file:///srv/packages ./", "deb copy:/srv/more ./", "deb https://pkgs.k8s.io/core:/stable:/v1.34/deb/ /"}
	file := filepath.Join(t.TempDir(), "etc", "apt", "sources.list")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(strings.Join(r.sourceLines(), "\n\n")), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, a := range r.arguments("http://127.0.0.1:1", "overlay.tar") {
		if hook, is := strings.CutPrefix(a, "--customize-hook="); is && strings.Contains(hook, "sources.list") {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", hook, "sh", filepath.Dir(filepath.Dir(filepath.Dir(file)))).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	got := strings.FieldsFunc(string(must.Get(os.ReadFile(file))(t)), func(r rune) bool { return r == '\n' })
	if want := append(far, r.Sources[2]); !slices.Equal(got, want) {
		t.Errorf("the sources are %q, want %q", got, want)
	}
}

// What is on a disc of a machine of type q35 is seen only by a kernel that has AHCI.
func TestEverySuiteSeesTheFirstBootDisc(t *testing.T) {
	for suite, want := range map[string]string{"bookworm": "linux-image-amd64", "trixie": "linux-image-cloud-amd64"} {
		r := recipe()
		r.Suite = suite
		got := slices.DeleteFunc(r.Packages(), func(p string) bool { return !strings.HasPrefix(p, "linux-image") })
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: kernels %v, want %s", suite, got, want)
		}
	}
}

// breaking is a mirror that breaks off every answer after some bytes, as lines do.
type breaking struct {
	file   []byte
	after  int
	ranges bool
	sent   int
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := 0
	if b.ranges {
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	}
	switch {
	case from >= len(b.file) && from > 0:
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	case from > 0:
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(b.file)-1, len(b.file)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(b.file)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	n := min(b.after, len(b.file)-from)
	_, _ = w.Write(b.file[from : from+n])
	b.sent += n
	if from+n < len(b.file) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// However often a line breaks, a package arrives whole, and nothing of it twice where the mirror
// can go on.
func TestLawPackagesArriveWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		folder := must.Get(os.MkdirTemp("", "cache"))(rt)
		defer func() { _ = os.RemoveAll(folder) }()
		m := &breaking{
			file:  rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(rt, "file"),
			after: rapid.IntRange(1, 250).Draw(rt, "after"), ranges: rapid.Bool().Draw(rt, "ranges"),
		}
		mirror := httptest.NewServer(m)
		defer mirror.Close()
		mirror.Config.ErrorLog = nil
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := &cache{folder: folder, client: mirror.Client()}
		address := must.Get(c.serve(ctx))(rt)
		proxy, _ := url.Parse(address)
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
		whole := m.ranges || m.after >= len(m.file)
		for try := 0; try <= len(m.file); try++ {
			res := must.Get(client.Get(mirror.URL + "/debian/pool/main/a/a_1_amd64.deb"))(rt)
			got, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				continue
			}
			if err != nil || !bytes.Equal(got, m.file) {
				rt.Fatalf("got % x, %v, want % x", got, err, m.file)
			}
			if m.ranges && m.sent != len(m.file) {
				rt.Fatalf("%d bytes were sent of %d", m.sent, len(m.file))
			}
			before := m.sent
			if res, err = client.Get(mirror.URL + "/debian/pool/main/a/a_1_amd64.deb"); err != nil || m.sent != before {
				rt.Fatalf("what is there is fetched again: %v", err)
			}
			_ = res.Body.Close()
			return
		}
		if whole {
			rt.Fatal("it never arrived")
		}
	})
}

// What lets machines boot sooner is on an image unless it is to be plain, and takes away no source
// of first-boot data, no module of cloud-init and no wait for networks.
func TestImagesAreTuned(t *testing.T) {
	tunes := func(r *Recipe) bool { return slices.Contains(r.arguments("", ""), "--customize-hook="+tune) }
	r, plain := recipe(), recipe()
	plain.Plain = true
	if r.Digest() == plain.Digest() || !tunes(r) || tunes(plain) {
		t.Errorf("tuned: %v, plain: %v", tunes(r), tunes(plain))
	}
	for name := range tuned {
		if _, is := plain.files()[name]; is || r.files()[name] == "" {
			t.Errorf("%s: on the plain image: %v; on the other: %q", name, is, r.files()[name])
		}
	}
	if !strings.Contains(r.files()[menu], "timeout=0\n") || !strings.Contains(plain.files()[menu], "timeout=1\n") {
		t.Errorf("the menus are %q and %q", r.files()[menu], plain.files()[menu])
	}
	for name, text := range r.files() {
		if strings.Contains(text, "_modules:") || strings.Contains(name, "wait-online") || strings.Contains(text, "growpart") {
			t.Errorf("%s is %q", name, text)
		}
	}
}

// The profiles that confine nothing are disabled, and no other.
func TestProfilesThatConfineStay(t *testing.T) {
	programs, root := t.TempDir(), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(programs, "chroot"), []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(root, "etc/apparmor.d"), 0o700), os.Mkdir(filepath.Join(root, "var"), 0o700)))
	for name, text := range map[string]string{"Discord": "profile Discord /usr/share/discord flags=(unconfined) {\n}\n", "sshd": "profile sshd /usr/sbin/sshd {\n}\n"} {
		must.Do(t, os.WriteFile(filepath.Join(root, "etc/apparmor.d", name), []byte(text), 0o600))
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", tune, "sh", root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	links := must.Get(filepath.Glob(filepath.Join(root, "etc/apparmor.d/disable/*")))(t)
	if len(links) != 1 || filepath.Base(links[0]) != "Discord" {
		t.Errorf("disabled are %v", links)
	}
	for _, stamp := range []string{"etc/.updated", "var/.updated"} {
		if _, err := os.Stat(filepath.Join(root, stamp)); err != nil {
			t.Error(err)
		}
	}
}
