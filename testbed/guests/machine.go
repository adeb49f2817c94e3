package guests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// machine is one start of a machine, until its process ends.
type machine struct {
	*Machines
	spec   *pvesim.Machine
	folder string
	over   func()
	ctx    context.Context //nolint:containedctx // of the process, which no caller's call outlasts
	cancel func()
	after  <-chan struct{} // closed when it may begin; nil is at once
	up     chan struct{}   // closed when its monitor answers
	gone   chan struct{}   // closed when its process has ended, or never began
	err    error           // why, once gone
	// Both the monitor and the agent listen to one at a time.
	monitors, agents sync.Mutex
}

func (g *Machines) newMachine(spec *pvesim.Machine, over func()) *machine {
	ctx, cancel := context.WithCancel(context.Background())
	return &machine{
		Machines: g, spec: spec, over: over, ctx: ctx, cancel: cancel, up: make(chan struct{}), gone: make(chan struct{}),
		folder: filepath.Join(g.folder, fmt.Sprint(spec.VMID)),
	}
}

// run is the machine's life.
func (m *machine) run() {
	if m.after != nil {
		<-m.after
	}
	m.err = m.live()
	m.cancel()
	close(m.gone)
	if m.over != nil {
		m.over()
	}
}

func (m *machine) live() error {
	runtime.LockOSThread() // whose end would be the process's
	defer runtime.UnlockOSThread()
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return err
	}
	args := m.basics()
	for i := range m.spec.Drives {
		more, err := m.drive(&m.spec.Drives[i])
		if err != nil {
			return err
		}
		args = append(args, more...)
	}
	cmd := exec.CommandContext(m.ctx, emulator, args...)
	var wrong bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &wrong, apart()
	_ = os.Remove(m.monitor())
	if err := cmd.Start(); err != nil {
		return err
	}
	go m.await()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("QEMU ended: %w: %s", err, strings.TrimSpace(wrong.String()))
	}
	return errors.New("QEMU ended")
}

// await waits until the machine's monitor answers.
func (m *machine) await() {
	for m.ctx.Err() == nil {
		if _, err := m.ask("query-status", nil); err == nil {
			close(m.up)
			return
		}
		select {
		case <-m.ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *machine) monitor() string { return filepath.Join(m.folder, "qmp") }
func (m *machine) agent() string   { return filepath.Join(m.folder, "agent") }

// Console is the file with what a machine has printed.
func (g *Machines) Console(vmid int) string {
	return filepath.Join(g.folder, fmt.Sprint(vmid), "console")
}

// basics are the arguments of QEMU for all but the drives.
func (m *machine) basics() []string {
	processor := map[string]string{KVM: "host", TCG: "max"}[m.cfg.Accel]
	args := []string{
		"-no-user-config", "-nodefaults", "-display", "none", "-machine", "pc,accel=" + m.cfg.Accel, "-cpu", processor,
		"-m", fmt.Sprint(m.spec.Memory >> 20), "-smp", fmt.Sprint(max(m.spec.CPUs, 1)),
		"-serial", "file:" + filepath.Join(m.folder, "console"), "-qmp", "unix:" + m.monitor() + ",server=on,wait=off",
		"-device", "virtio-scsi-pci,id=scsi",
	}
	if m.spec.UUID != "" {
		args = append(args, "-uuid", m.spec.UUID)
	}
	if m.kernel != "" {
		args = append(args, "-kernel", m.kernel, "-initrd", m.initrd, "-append", "console=ttyS0")
	}
	restrict := map[bool]string{true: "off", false: "on"}[m.cfg.Online]
	for i, mac := range m.spec.MACs {
		args = append(args, "-netdev", fmt.Sprintf("user,id=net%d,restrict=%s,net=10.%d.%d.0/24", i, restrict, i<<5|m.spec.VMID>>8&31, m.spec.VMID&255),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,romfile=,mac=%s", i, mac))
	}
	if m.spec.Agent {
		args = append(args, "-device", "virtio-serial-pci", "-chardev", "socket,id=agent,server=on,wait=off,path="+m.agent(),
			"-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0")
	}
	return args
}

// drive makes what a drive holds, and returns the arguments for it.
func (m *machine) drive(d *pvesim.Drive) ([]string, error) {
	bus := strings.TrimRight(d.Key, "0123456789")
	kind, file := "hd", m.disk(d.Disk)
	source := "if=none,id=" + d.Key
	switch {
	case (d.Disc != nil || d.Seed != nil) && !m.discless:
		var err error
		if file, err = m.disc(d); err != nil {
			return nil, err
		}
		kind, source = "cd", source+",media=cdrom,readonly=on,format=raw,file="+file
	case d.Empty || d.Disc != nil || d.Seed != nil:
		kind, source = "cd", source+",media=cdrom"
	default:
		if err := m.prepare(d, file); err != nil {
			return nil, err
		}
		source += ",format=qcow2,file=" + file
		if m.roomless {
			source = "if=none,id=" + d.Key + ",format=qcow2,file.driver=blkdebug,file.image.driver=file,file.image.filename=" + file +
				",file.inject-error.0.event=write_aio,file.inject-error.0.once=off,file.inject-error.0.errno=" + fmt.Sprint(int(syscall.ENOSPC))
		}
	}
	device := map[string]string{"scsi": "scsi-" + kind + ",bus=scsi.0", "ide": "ide-" + kind, "sata": "ide-" + kind, "virtio": "virtio-blk-pci"}[bus]
	if device == "" {
		return nil, fmt.Errorf("%s: must be a drive of scsi, virtio, ide or sata", d.Key)
	}
	return []string{"-drive", source, "-device", device + ",drive=" + d.Key}, nil
}

// disc writes a disc to a file: one that was uploaded, or Proxmox VE's own.
func (m *machine) disc(d *pvesim.Drive) (string, error) {
	image, file := d.Disc, filepath.Join(m.folder, d.Key+".iso")
	if image == nil {
		var err error
		if image, err = firstboot.Disc(firstboot.Files(d.Seed), time.Now()); err != nil {
			return "", err
		}
	}
	return file, os.WriteFile(file, image, 0o600)
}

// prepare makes a disk at a machine's first start, and larger if it is to be.
func (m *machine) prepare(d *pvesim.Drive, file string) error {
	size := fmt.Sprint(d.Size)
	args := []string{"resize", "-q", "-f", "qcow2", file, size}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		args = []string{"create", "-q", "-f", "qcow2"}
		if d.System {
			args, size = append(args, "-F", m.format, "-b", m.cfg.Image), fmt.Sprint(max(d.Size, m.size))
		}
		args = append(args, file, size)
	} else if d.System && d.Size <= m.size {
		return nil
	}
	if _, err := exec.CommandContext(m.ctx, imager, args...).Output(); err != nil {
		return fmt.Errorf("%s: %w", d.Key, said(err))
	}
	return nil
}

// Up waits until the machine's process is there.
func (m *machine) Up() error {
	select {
	case <-m.up:
		return nil
	case <-m.gone:
		return m.err
	}
}

// Kill ends the machine's process.
func (m *machine) Kill() { m.cancel() }

// Monitor has QEMU do something.
func (m *machine) Monitor(command string, arguments map[string]any) (any, error) {
	if err := m.Up(); err != nil {
		return nil, err
	}
	return decoded(m.ask(command, arguments))
}

func decoded(answer json.RawMessage, err error) (result any, _ error) {
	if err == nil {
		err = json.Unmarshal(answer, &result)
	}
	return result, err
}

func (m *machine) ask(command string, arguments map[string]any) (json.RawMessage, error) {
	m.monitors.Lock()
	defer m.monitors.Unlock()
	return askMonitor(m.monitor(), patience, command, arguments)
}

const ping = "guest-ping"

// Agent asks the agent in the guest.
func (m *machine) Agent(command string, arguments map[string]any) (any, error) {
	if err := m.Up(); err != nil {
		return nil, err
	}
	m.agents.Lock()
	defer m.agents.Unlock()
	limit := patience
	if command == ping {
		limit = pingPatience
	}
	return decoded(askAgent(m.agent(), limit, command, arguments))
}

// alive reports whether a system runs: its agent answers, or it has written to its disk, as no
// firmware does.
func (m *machine) alive() bool {
	select {
	case <-m.up:
	default:
		return false
	}
	text, err := m.ask("query-blockstats", nil)
	var drives []struct {
		Stats struct {
			Writes int `json:"wr_operations"`
		}
	}
	if err == nil && json.Unmarshal(text, &drives) == nil && len(drives) > 0 && drives[0].Stats.Writes > 0 {
		return true
	}
	_, err = m.Agent(ping, nil)
	return err == nil
}
