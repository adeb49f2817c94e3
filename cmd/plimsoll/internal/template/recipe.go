// Package template makes the image of a virtual machine that can become a node: a Debian system
// with cloud-init, the guest agent and what RKE2, k3s or kubeadm need. It is built on a
// workstation, without root, and uploaded to Proxmox VE as a template.
package template

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The kinds of cluster that an image can be made for.
const (
	RKE2    = "rke2"
	K3s     = "k3s"
	Kubeadm = "kubeadm"
)

// Kinds are the kinds of cluster, in the order in which they are shown.
var Kinds = []string{RKE2, K3s, Kubeadm}

// Recipe says what is on an image. Two images of one recipe have the same packages of the day
// that they were built on.
type Recipe struct {
	Kind    string   `json:"kind"`
	Suite   string   `json:"suite"`   // of Debian
	Mirror  string   `json:"mirror"`  // with the archive of Debian, over http: packages are signed
	Updates string   `json:"updates"` // with the archive of security updates; empty: none
	Extra   []string `json:"extra"`   // further packages
	// Sources are further lines of sources.list, for those packages. Machines have them too, but
	// for folders of the workstation.
	Sources []string `json:"sources"`
	GiB     int      `json:"gib"` // the disk's size; a clone's system grows to its own disk
	// Plain leaves the system as its packages make it, without what lets it boot sooner.
	Plain bool `json:"plain,omitempty"`
}

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

var (
	suiteName   = regexp.MustCompile(`^[a-z]{2,20}$`)
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`)
)

// Validate names the first fault, by the flag that it comes from.
func (r *Recipe) Validate() error {
	if !slices.Contains(Kinds, r.Kind) {
		why := ""
		if r.Kind == "talos" {
			why = "; Talos has images of its own, at https://factory.talos.dev"
		}
		return fmt.Errorf("--join: must be one of %s, was %q%s", strings.Join(Kinds, ", "), r.Kind, why)
	}
	if !suiteName.MatchString(r.Suite) {
		return fmt.Errorf("--suite: must be the name of a release of Debian such as trixie, was %q", r.Suite)
	}
	for flag, address := range map[string]string{"--mirror": r.Mirror, "--security-mirror": r.Updates} {
		u, err := url.Parse(address)
		if flag == "--security-mirror" && address == "" {
			continue
		}
		if err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil || strings.ContainsAny(address, " []") {
			return fmt.Errorf("%s: must be an http:// address, so that packages can be cached (they are signed), was %q", flag, address)
		}
	}
	for _, p := range r.Extra {
		if !packageName.MatchString(p) {
			return fmt.Errorf("--package: must be the name of a package, or NAME=VERSION, was %q", p)
		}
	}
	for _, s := range r.Sources {
		if !strings.HasPrefix(s, "deb ") || strings.ContainsAny(s, "\n\r") {
			return fmt.Errorf("--source: must be one line of sources.list that begins with deb, was %q", s)
		}
	}
	if r.GiB < 3 || r.GiB > 64 {
		return fmt.Errorf("--disk: must be from 3GiB to 64GiB, was %dGiB", r.GiB)
	}
	return nil
}

// packages are those of every image, by what they are for.
var packages = []string{
	// Boot, and the first boot.
	"linux-image-cloud-amd64", "systemd-sysv", "udev", "dbus", "kmod", "grub-pc-bin", "grub-common",
	"cloud-init", "cloud-guest-utils", "cloud-initramfs-growroot", "e2fsprogs", "fdisk",
	// Network and clock; Proxmox VE, and people.
	"netplan.io", "systemd-resolved", "systemd-timesyncd", "iproute2",
	"qemu-guest-agent", "openssh-server", "sudo",
	// Install scripts; kubelets and network plugins; volumes.
	"ca-certificates", "curl", "gpg", "less", "procps", "zstd",
	"iptables", "nftables", "conntrack", "ethtool", "socat", "ipset", "apparmor",
	"nfs-common", "open-iscsi", "cryptsetup-bin",
}

// Packages are what is installed, with what that depends on.
func (r *Recipe) Packages() []string {
	all := slices.Clone(packages)
	if r.Suite == "bookworm" {
		all[0] = "linux-image-amd64" // its cloud kernel does not see discs of q35 machines
	}
	if r.Kind == Kubeadm {
		all = append(all, "containerd", "runc") // RKE2 and k3s bring their own
	}
	return append(all, r.Extra...)
}

// sourceLines are where packages come from, at the build and afterwards on the machines.
func (r *Recipe) sourceLines() []string {
	signed := "deb [signed-by=" + keyring + "] "
	lines := []string{signed + r.Mirror + " " + r.Suite + " main", signed + r.Mirror + " " + r.Suite + "-updates main"}
	if r.Updates != "" {
		lines = append(lines, signed+r.Updates+" "+r.Suite+"-security main")
	}
	return append(lines, r.Sources...)
}

// Digest names the recipe and what this version makes of it. An image that has it is not built
// again.
func (r *Recipe) Digest() string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(r) // to memory, and of strings and numbers
	fmt.Fprintln(h, r.Packages(), bootloader, unlist, assemble)
	if !r.Plain {
		fmt.Fprintln(h, tune)
	}
	h.Write(r.overlay())
	return hex.EncodeToString(h.Sum(nil))
}

// Name is the image's file without its ending, and the template's name on Proxmox VE.
func (r *Recipe) Name() string { return "plimsoll-" + r.Kind + "-" + r.Suite }

// Label is the root file system's, by which the kernel finds it.
const label = "plimsoll-root"

// files are put over those of the packages.
func (r *Recipe) files() map[string]string {
	all := map[string]string{
		"etc/fstab":                          "LABEL=" + label + " / ext4 defaults,errors=remount-ro 0 1\n",
		"etc/modules-load.d/kubernetes.conf": "overlay\nbr_netfilter\n",
		"etc/sysctl.d/90-kubernetes.conf": "net.ipv4.ip_forward = 1\nnet.ipv6.conf.all.forwarding = 1\n" +
			"net.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n" +
			"fs.inotify.max_user_instances = 8192\nfs.inotify.max_user_watches = 524288\n",
		// Where first-boot data comes from: a disc of Plimsoll's, or Proxmox VE's own.
		"etc/cloud/cloud.cfg.d/90-plimsoll.cfg": "datasource_list: [NoCloud, ConfigDrive, None]\n",
		// Of each machine its own; made at the first start.
		"etc/iscsi/initiatorname.iscsi": "GenerateName=yes\n",
		menu: "serial --unit=0 --speed=115200\nterminal_input console serial\nterminal_output console serial\n" +
			"set timeout=1\nsearch --no-floppy --label --set=root " + label + "\nmenuentry Debian {\n" +
			"  linux /vmlinuz root=LABEL=" + label + " ro console=tty0 console=ttyS0,115200\n  initrd /initrd.img\n}\n",
	}
	if r.Kind == Kubeadm {
		all["etc/containerd/config.toml"] = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n" +
			"  runtime_type = \"io.containerd.runc.v2\"\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true\n"
	}
	if !r.Plain {
		maps.Copy(all, tuned)
		all[menu] = strings.Replace(all[menu], "timeout=1", "timeout=0", 1)
	}
	return all
}

const menu = "boot/grub/grub.cfg"

// tuned are the files that let machines boot sooner. Nothing in them takes away what user data can
// ask for. The wait for networks stays: a kubelet may need the address of any card.
var tuned = map[string]string{
	// Drivers of Proxmox VE's disks and drives alone, in place of all that are for disks.
	"etc/initramfs-tools/conf.d/plimsoll": "MODULES=list\n",
	"etc/initramfs-tools/modules":         "virtio_pci\nvirtio_scsi\nvirtio_blk\nsd_mod\nsr_mod\nahci\nata_piix\nvmw_pvscsi\next4\n",
	// A key of RSA takes long to find, and what is printed of the others costs programs.
	"etc/cloud/cloud.cfg.d/91-plimsoll-boot.cfg": "ssh_genkeytypes: [ed25519, ecdsa]\nno_ssh_fingerprints: true\nssh: {emit_keys_to_console: false}\n",
}

// tune makes the initramfs anew, by tuned. It masks what would fetch lists of packages or look
// through disks while the machine joins. Profiles of AppArmor that confine nothing are not compiled
// at each boot, by the links that aa-disable makes too. The last line says that the caches of
// libraries, of hardware and of the journal's catalog are made already: without it, the first boot
// makes them again.
const tune = `chroot "$1" update-initramfs -u && ` +
	`chroot "$1" systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service && ` +
	`for f in $(cd "$1/etc/apparmor.d" && grep -l 'flags=(unconfined)' * 2> /dev/null); do ` +
	`mkdir -p "$1/etc/apparmor.d/disable" && ln -sf "/etc/apparmor.d/$f" "$1/etc/apparmor.d/disable/$f" || exit 1; done && ` +
	`touch "$1/etc/.updated" "$1/var/.updated"`

// overlay is a tar with the files, byte for byte the same for a recipe.
func (r *Recipe) overlay() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	files := r.files()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(0, 0)})
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close() // to memory
	return b.Bytes()
}

// bootloader makes GRUB's two parts within the new system. They lie in its /boot until assemble
// puts them on the disk; a new kernel needs no new ones.
const bootloader = `chroot "$1" grub-mkimage -O i386-pc -o /boot/grub/core.img -p "(hd0,msdos1)/boot/grub" ` +
	`biosdisk part_msdos ext2 normal configfile linux search search_label serial terminal echo test minicmd halt reboot gzio && ` +
	`cp "$1/usr/lib/grub/i386-pc/boot.img" "$1/boot/grub/boot.img"`

// unlist keeps the workstation's own folders from being sources of the machines: apt would find
// none of them there, and install nothing.
const unlist = `sed -i -E '/^deb +(\[[^]]*\] +)?(copy|file|cdrom):/d' "$1/etc/apt/sources.list"`

// assemble turns a tar of the system into a disk, as root or as root of a user's namespace.
//
//go:embed assemble.sh
var assemble string

// keyFile is a file in the options of a line of sources.list, whose packages are signed by it.
var keyFile = regexp.MustCompile(`[=,](/[\w./+-]+)`)

// keyHooks copy the keys of further sources to where apt on the machines looks for them.
func (r *Recipe) keyHooks() (hooks []string) {
	for _, line := range r.Sources {
		options, _, _ := strings.Cut(line, "]")
		for _, found := range keyFile.FindAllStringSubmatch(options, -1) {
			folder := path.Dir(found[1])
			hooks = append(hooks, `--customize-hook=mkdir -p "$1`+folder+`"`, "--customize-hook=copy-in "+found[1]+" "+folder)
		}
	}
	return hooks
}

// arguments are those of mmdebstrap, which prints a tar of the system. Packages come through proxy,
// but for those of https sources.
func (r *Recipe) arguments(proxy, overlay string) []string {
	args := []string{
		"--variant=minbase", "--format=tar", "--include=" + strings.Join(r.Packages(), ","),
		`--aptopt=Acquire::http::Proxy "` + proxy + `"`, `--aptopt=Acquire::https::Proxy "DIRECT"`, `--aptopt=Acquire::http::Timeout "3600"`, `--aptopt=Acquire::Retries "3"`,
		"--customize-hook=mkdir -p \"$1/boot/grub\"", "--customize-hook=" + bootloader, "--customize-hook=tar-in " + overlay + " /", "--customize-hook=" + unlist,
	}
	if !r.Plain {
		args = append(args, "--customize-hook="+tune)
	}
	return slices.Concat(args, r.keyHooks(), []string{r.Suite, "-"}, r.sourceLines())
}
