//go:build guest

package guests

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// tiny builds an image of Debian's kernel, busybox and pid1, without a network and without root.
// Where the parts are not installed, the test is skipped.
func tiny(t *testing.T) string {
	t.Helper()
	if missing := Missing(); len(missing) > 0 {
		t.Skipf("NOT TRIED: %s not found; install qemu-system-x86 and qemu-utils", strings.Join(missing, ", "))
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("NOT TRIED: busybox not found; install busybox-static")
	}
	kernels := must.Get(filepath.Glob("/boot/vmlinuz-*-cloud-amd64"))(t)
	if len(kernels) == 0 {
		t.Skip("NOT TRIED: /boot has no kernel of the cloud's; install linux-image-cloud-amd64")
	}
	kernel := kernels[len(kernels)-1]
	folder := t.TempDir()
	init := filepath.Join(folder, "init")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", init, "./pid1")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("pid1: %v\n%s", err, out)
	}
	a := &archive{t: t, folders: map[string]bool{}}
	a.file("init", init)
	a.file("bin/busybox", busybox)
	version := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
	a.modules("/lib/modules/"+version, strings.Fields(moduleNames))
	image := filepath.Join(folder, "tiny.qcow2")
	if out, err := exec.CommandContext(t.Context(), imager, "create", "-q", "-f", "qcow2", image, "64M").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, content := range map[string][]byte{".vmlinuz": must.Get(os.ReadFile(kernel))(t), ".initrd": a.end()} {
		if err := os.WriteFile(image+name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// moduleNames are those that pid1 loads.
const moduleNames = "virtio_pci virtio_scsi sd_mod ata_piix sr_mod isofs virtio_net virtio_console button evdev"

// archive is a system's first files, as the kernel unpacks them: in the format of cpio.
type archive struct {
	t       *testing.T
	out     bytes.Buffer
	folders map[string]bool
	entries int
}

func (a *archive) file(name, from string) {
	a.t.Helper()
	for i, c := range name {
		if dir := name[:i]; c == '/' && !a.folders[dir] {
			a.folders[dir] = true
			a.entry(dir, 0o40755, nil)
		}
	}
	a.entry(name, 0o100755, must.Get(os.ReadFile(from))(a.t))
}

func (a *archive) entry(name string, mode int, data []byte) {
	a.entries++
	fmt.Fprintf(&a.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.entries, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	a.out.WriteString(name)
	a.out.WriteByte(0)
	a.pad()
	a.out.Write(data)
	a.pad()
}

func (a *archive) pad() { a.out.Write(make([]byte, (4-a.out.Len()%4)%4)) }

// modules adds modules with those that they need, and the lists that modprobe reads.
func (a *archive) modules(from string, names []string) {
	a.t.Helper()
	var added []string
	for line := range strings.Lines(string(must.Get(os.ReadFile(filepath.Join(from, "modules.dep")))(a.t))) {
		file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if !slices.Contains(names, strings.ReplaceAll(name, "-", "_")) {
			continue
		}
		for _, f := range append(strings.Fields(needs), file) {
			if !slices.Contains(added, f) {
				added = append(added, f)
				a.file(strings.TrimPrefix(filepath.Join(from, f), "/"), filepath.Join(from, f))
			}
		}
	}
	for _, list := range []string{"modules.dep", "modules.alias", "modules.symbols", "modules.builtin"} {
		a.file(strings.TrimPrefix(filepath.Join(from, list), "/"), filepath.Join(from, list))
	}
}

func (a *archive) end() []byte {
	a.entry("TRAILER!!!", 0, nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(a.out.Bytes())
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return packed.Bytes()
}
