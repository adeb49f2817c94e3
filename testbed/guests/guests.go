// Package guests lets the emulator's machines boot: each is a QEMU process on this computer, with a
// disk that begins as an image. What happens inside a machine is known from nothing else.
package guests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// What runs a machine, and makes its disks: of Debian's packages qemu-system-x86 and qemu-utils.
const (
	emulator = "qemu-system-x86_64"
	imager   = "qemu-img"
)

// Missing are the programs that machines need and that are not there.
func Missing() []string {
	var all []string
	for _, name := range []string{emulator, imager} {
		if _, err := exec.LookPath(name); err != nil {
			all = append(all, name)
		}
	}
	return all
}

// The ways to run a machine's instructions.
const (
	KVM = "kvm" // on this computer's processor
	TCG = "tcg" // one by one, by QEMU: it always works, and is slow
)

// Config is what machines are made of.
type Config struct {
	// Image is what the disks of systems begin as: a file of qcow2 or raw that boots by itself, or
	// with the kernel in Image.vmlinuz and the files in Image.initrd beside it.
	Image string
	Accel string            // KVM or TCG; empty tries KVM, and takes TCG if nothing boots with it
	Say   func(line string) // what a person should know
	// Online lets machines reach this computer, at their gateway's address, and what it reaches.
	Online bool
}

// Machines are the emulator's machines that run here. It is a pvesim.Guests.
type Machines struct {
	cfg            Config
	format         string // of the image
	kernel, initrd string // beside it; empty if it boots by itself
	size           int64  // of the disk that is in the image
	folder         string
	// What tests let go wrong: machines find no disc, or no room on the storage of their disks.
	discless, roomless bool
	mu                 sync.Mutex
	running            map[int]*machine // the last one of each VMID
	closed             bool
}

// New checks the image, and finds out how machines can be run. Whoever has made it closes it.
func New(ctx context.Context, cfg Config) (*Machines, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("not found: %s: install the packages qemu-system-x86 and qemu-utils", strings.Join(missing, ", "))
	}
	g := &Machines{cfg: cfg, running: map[int]*machine{}}
	if err := g.inspect(ctx); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "guests") // a socket's name must be short
	if err != nil {
		return nil, err
	}
	g.folder = folder
	if g.cfg.Accel == "" {
		g.cfg.Accel = g.tryKVM(ctx)
	}
	if err := ctx.Err(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// inspect reads what the image is.
func (g *Machines) inspect(ctx context.Context) error {
	var err error
	if g.cfg.Image, err = filepath.Abs(g.cfg.Image); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, imager, "info", "--output=json", g.cfg.Image).Output()
	if err != nil {
		return fmt.Errorf("%s: must be a disk image: %w", g.cfg.Image, said(err))
	}
	var info struct {
		Format string `json:"format"`
		Size   int64  `json:"virtual-size"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return fmt.Errorf("%s: what %s says of it: %w", g.cfg.Image, imager, err)
	}
	g.format, g.size = info.Format, info.Size
	if _, err := os.Stat(g.cfg.Image + ".vmlinuz"); err == nil {
		g.kernel, g.initrd = g.cfg.Image+".vmlinuz", g.cfg.Image+".initrd"
	}
	return nil
}

// said is an error with what the program wrote that failed.
func said(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// tries is how long a machine has to show that it boots with KVM.
const tries = 30 * time.Second

// tryKVM boots the image with KVM, if there is one. That a device is there says little: a KVM in
// software runs a firmware, and no ordinary kernel.
func (g *Machines) tryKVM(ctx context.Context) string {
	slow := "machines run by emulation, which is slow: "
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		g.cfg.Say(slow + "there is no KVM: " + err.Error())
		return TCG
	}
	_ = device.Close()
	g.cfg.Say(fmt.Sprintf("booting the image with KVM, to see whether it works: at most %s", tries))
	trial := &Machines{cfg: g.cfg, format: g.format, kernel: g.kernel, initrd: g.initrd, size: g.size, folder: g.folder}
	trial.cfg.Accel = KVM
	m := trial.newMachine(&pvesim.Machine{CPUs: 1, Memory: 512 << 20, Agent: true, Drives: []pvesim.Drive{{Key: "scsi0", System: true, Size: g.size}}}, nil)
	go m.run()
	defer func() {
		m.Kill()
		<-m.gone
		_ = os.RemoveAll(m.folder)
		_ = os.Remove(g.disk(0))
	}()
	end := time.After(tries)
	for {
		select {
		case <-ctx.Done():
			return TCG
		case <-m.gone:
			g.cfg.Say(slow + "with KVM, " + m.err.Error())
			return TCG
		case <-end:
			g.cfg.Say(fmt.Sprintf("%swith KVM, the image did not boot within %s", slow, tries))
			return TCG
		case <-time.After(time.Second / 4):
			if m.alive() {
				g.cfg.Say("machines run with KVM")
				return KVM
			}
		}
	}
}

// Start begins to run a machine. Its process begins when the last one with its disks has ended.
func (g *Machines) Start(spec *pvesim.Machine, over func()) pvesim.Running {
	m := g.newMachine(spec, over)
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.running[spec.VMID]; before != nil {
		m.after = before.gone
	}
	if g.closed {
		m.Kill()
	}
	g.running[spec.VMID] = m
	go m.run()
	return m
}

// Discard removes a disk.
func (g *Machines) Discard(disk int) { _ = os.Remove(g.disk(disk)) }

func (g *Machines) disk(n int) string {
	return filepath.Join(g.folder, fmt.Sprintf("disk-%d.qcow2", n))
}

// Forward lets this computer reach a port of a machine's first card, at the address that it
// returns, until the machine's process ends.
func (g *Machines) Forward(vmid, port int) (string, error) {
	g.mu.Lock()
	m := g.running[vmid]
	g.mu.Unlock()
	if m == nil {
		return "", fmt.Errorf("machine %d: must have been started", vmid)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return "", err
	}
	said, err := m.Monitor("human-monitor-command", map[string]any{"command-line": fmt.Sprintf("hostfwd_add net0 tcp:%s-:%d", address, port)})
	if text := strings.TrimSpace(fmt.Sprint(said)); err == nil && text != "" {
		err = errors.New(text)
	}
	return address, err
}

// Close ends all machines, and removes their disks.
func (g *Machines) Close() {
	g.mu.Lock()
	g.closed = true
	all := g.running
	g.mu.Unlock()
	for _, m := range all {
		m.Kill()
		<-m.gone
	}
	_ = os.RemoveAll(g.folder)
}
