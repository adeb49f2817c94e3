//go:build linux

// Command pid1 is the whole system of the tiny guest that the test of real guests boots. It reads
// the first-boot disc, takes an address, answers as the QEMU guest agent does, and shuts down when
// the power button is pressed. Beside it in the guest there are a kernel and busybox.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// modules are what a machine of QEMU needs of Debian's kernel.
var modules = strings.Fields("virtio_pci virtio_scsi sd_mod ata_piix sr_mod isofs virtio_net virtio_console button evdev")

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		say("agent", serve())
		return
	}
	for _, m := range [][3]string{{"proc", "/proc", "proc"}, {"sysfs", "/sys", "sysfs"}, {"devtmpfs", "/dev", "devtmpfs"}} {
		_ = os.MkdirAll(m[1], 0o755)
		say("mount "+m[1], syscall.Mount(m[0], m[1], m[2], 0, ""))
	}
	for _, name := range modules {
		_ = exec.Command("/bin/busybox", "modprobe", name).Run() // some are built in
	}
	say("read the disc", readSeed())
	say("take an address", takeAddress())
	go pressed()
	agent := exec.Command("/init", "agent") // a process of its own, which may hang
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	say("agent", agent.Run())
	select {} // the first process must not end
}

// say prints to the console what failed.
func say(what string, err error) {
	if err != nil {
		fmt.Printf("pid1: %s: %v\n", what, err)
	}
}

// within waits for what the kernel brings about by itself.
func within(limit time.Duration, so func() bool) bool {
	for end := time.Now().Add(limit); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// readSeed mounts the disc at /seed, and takes the name that its user-data has.
func readSeed() error {
	_ = os.MkdirAll("/seed", 0o755)
	var err error
	within(5*time.Second, func() bool {
		err = syscall.Mount("/dev/sr0", "/seed", "iso9660", syscall.MS_RDONLY, "")
		return err == nil
	})
	if err != nil {
		return err
	}
	user, err := os.ReadFile("/seed/user-data")
	for line := range strings.Lines(string(user)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "hostname: "); is {
			return syscall.Sethostname([]byte(name))
		}
	}
	return err
}

const lease = `#!/bin/busybox sh
if [ "$1" = bound ]; then /bin/busybox ifconfig "$interface" "$ip" netmask "$subnet"; fi
`

func takeAddress() error {
	if err := os.WriteFile("/lease", []byte(lease), 0o755); err != nil { //nolint:gosec // it is run
		return err
	}
	for _, card := range []string{"lo", "eth0"} {
		if out, err := exec.Command("/bin/busybox", "ifconfig", card, "up").CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %s", card, out)
		}
	}
	return exec.Command("/bin/busybox", "udhcpc", "-q", "-n", "-i", "eth0", "-s", "/lease").Run()
}

// What the kernel says of the power button.
const (
	eventKey   = 1
	powerKey   = 116
	eventBytes = 24
)

// pressed shuts down when the power button is pressed.
func pressed() {
	buttons, _ := filepath.Glob("/dev/input/event*")
	for _, name := range buttons {
		go func() {
			f, err := os.Open(name)
			if err != nil {
				return
			}
			event := make([]byte, eventBytes)
			for {
				if _, err := f.Read(event); err != nil {
					return
				}
				if binary.LittleEndian.Uint16(event[16:]) == eventKey && binary.LittleEndian.Uint16(event[18:]) == powerKey {
					shutDown()
				}
			}
		}()
	}
}

func shutDown() {
	fmt.Println("pid1: the power button was pressed")
	syscall.Sync()
	say("power off", syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
}
