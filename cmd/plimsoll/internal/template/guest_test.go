//go:build guest

package template

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var (
	imageFile = flag.String("image", "", "an image to boot, in place of one that is built")
	kind      = flag.String("join", RKE2, "the kind of the image that is built")
)

// A machine of the image boots from its disk, as Proxmox VE starts it. It reads the first-boot
// disc, and its agent and its sshd answer. The emulated CPU is slow: what takes seconds on a host
// takes minutes.
func TestAGuestOfTheImageComesUp(t *testing.T) {
	image := *imageFile
	if image == "" {
		image = built(t, false)
	}
	comesUp(t, image)
}

// A machine of the image is at its user data no later than one of the plain image. The times are of
// this computer; their ratio says more.
func TestATunedImageBootsSooner(t *testing.T) {
	plain := comesUp(t, built(t, true))
	tuned := comesUp(t, built(t, false))
	t.Logf("from the start to the end of user data: plain %.0f s, tuned %.0f s, ratio %.2f", plain.Seconds(), tuned.Seconds(), tuned.Seconds()/plain.Seconds())
	if tuned > plain {
		t.Error("the tuned image boots later than the plain one")
	}
}

// comesUp boots a machine, sees what came of it, and returns how long that took.
func comesUp(t *testing.T, image string) time.Duration {
	t.Helper()
	began := time.Now()
	folder := t.TempDir()
	overlay := filepath.Join(folder, "disk.qcow2")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", must.Get(filepath.Abs(image))(t), overlay, "12G")
	disc := filepath.Join(folder, "seed.iso")
	ok(t, os.WriteFile(disc, seed(t), 0o600))
	agent, console := filepath.Join(folder, "agent"), &serial{}
	cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", "-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2",
		"-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot",
		"-device", "virtio-scsi-pci", "-drive", "if=none,id=d,file="+overlay, "-device", "scsi-hd,drive=d",
		"-drive", "media=cdrom,readonly=on,file="+disc,
		"-netdev", "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:0-:22", "-device", "virtio-net-pci,netdev=n,mac=bc:24:11:00:00:01",
		"-chardev", "socket,path="+agent+",server=on,wait=off,id=a", "-device", "virtio-serial", "-device", "virtserialport,chardev=a,name=org.qemu.guest_agent.0")
	cmd.Stdout, cmd.Stderr = console, console
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, want := range []string{"RESULT cloud-init status: done", "RESULT name w-1", "RESULT ssh active", "RESULT forward 1", "RESULT bridge 1", "RESULT failed 0", "RESULT grown yes"} {
		if !console.waitFor(want, 15*time.Minute) {
			t.Fatalf("the console never showed %q:\n%s", want, console.last(6000))
		}
	}
	took := time.Since(began)
	t.Log(console.last(3000))
	if answer := ping(t, agent); !strings.Contains(answer, `"return"`) {
		t.Errorf("the agent answers %q", answer)
	}
	_ = cmd.Process.Kill() // the next one is measured alone
	return took
}

// seed is a first-boot disc whose commands print what came of it.
func seed(t *testing.T) []byte {
	t.Helper()
	p := firstboot.Profile{Kind: firstboot.Custom, UserDataTemplate: `#cloud-config
hostname: {{.Name}}
write_files:
  - path: /etc/systemd/system/result.service
    content: |
      [Unit]
      After=cloud-final.service
      [Service]
      Type=oneshot
      ExecStart=/bin/sh /run/result.sh
  - path: /run/result.sh
    content: |
      {
        cloud-init status --wait | tail -n 1 | sed "s/^/RESULT cloud-init /"
        echo RESULT name $(hostname)
        echo RESULT ssh $(systemctl is-active ssh)
        echo RESULT forward $(cat /proc/sys/net/ipv4/ip_forward)
        echo RESULT bridge $(cat /proc/sys/net/bridge/bridge-nf-call-iptables)
        echo RESULT failed $(systemctl list-units --failed --no-legend | wc -l)
        systemctl list-units --failed --no-legend
        test $(df --output=size -k / | tail -n 1) -gt 9000000 && echo RESULT grown yes
        systemd-analyze time
        systemd-analyze blame | head -n 15
      } > /run/result 2>&1
      # The login prompt hangs up the console as it starts: print more than once.
      for i in $(seq 60); do cat /run/result > /dev/ttyS0; sleep 5; done
  - path: /run/unused
    content: "{{.ProviderID}}"
runcmd:
  - [systemctl, start, --no-block, result.service]
`, ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeTemplate, Template: "x://{name}"}}
	files, err := p.UserData(firstboot.Machine{Name: "w-1"})
	ok(t, err)
	return must.Get(firstboot.Disc(files, time.Now()))(t)
}

func built(t *testing.T, plain bool) string {
	t.Helper()
	r := Recipe{Kind: *kind, Suite: "trixie", Mirror: "http://deb.debian.org/debian", Updates: "http://deb.debian.org/debian-security", GiB: 4, Plain: plain}
	b := Builder{Cache: filepath.Join(os.TempDir(), "plimsoll-packages"), Now: time.Now, Root: os.Geteuid() == 0, Log: os.Stderr, Say: func(s string) { t.Log(s) }}
	image, err := b.Build(t.Context(), &r, t.TempDir(), false)
	ok(t, err)
	return image.File
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ping asks the agent whether it is there.
func ping(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	ok(t, err)
	defer func() { _ = conn.Close() }()
	ok(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintln(conn, `{"execute":"guest-ping"}`)
	ok(t, err)
	answer := make([]byte, 1000)
	n, err := conn.Read(answer)
	ok(t, err)
	return string(answer[:n])
}

// serial is what a machine printed.
type serial struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (s *serial) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(b)
}

func (s *serial) last(n int) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := s.text.String()
	return all[max(0, len(all)-n):]
}

func (s *serial) waitFor(text string, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) {
		if strings.Contains(s.last(1<<30), text) {
			return true
		}
	}
	return false
}
