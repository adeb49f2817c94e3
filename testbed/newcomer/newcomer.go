// Package newcomer is a person in their first hour: with an empty folder, an emulated Proxmox VE
// and a Kubernetes cluster, they enter the commands of the documentation. What stops a person there
// stops the test that plays it.
package newcomer

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// JoinToken is what the cluster's servers let agents join with.
const JoinToken = "K10c0ffee::node:s3cret"

// Cluster is the Kubernetes cluster, as kubectl reaches it. It has a control plane of RKE2, and a
// pod for which there is no node.
type Cluster interface {
	Kubeconfig() string
	// Apply applies the objects of a manifest.
	Apply(manifest string)
	// Activate sets mode: Active in a pool.
	Activate(pool string)
	Pool(name string) v1alpha1.VMPool
}

// Newcomer is that person.
type Newcomer struct {
	*testing.T
	Sim     *pvesim.Cluster
	program string // plimsoll
	checked string // out, where the documentation is
	folder  string
	address string // of the host
	cluster Cluster
	steps   int // that a person takes: commands, files that they write
}

// New returns a newcomer before a host that is as it was installed but for a template, with a
// plimsoll and the checkout that it was built from.
func New(t *testing.T, program, checkout string) *Newcomer {
	t.Helper()
	const gib = int64(1) << 30
	seconds := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	n := &Newcomer{T: t, program: program, checked: checkout, folder: t.TempDir()}
	n.Sim = must.Get(pvesim.New(pvesim.Config{
		Seed: 1, Name: "home", Speed: 20, Start: time.Now(),
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 16, Memory: 64 * gib}},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Content: []string{"iso"}, Total: 100 * gib},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 500 * gib},
		},
		VMs:   []pvesim.VM{{ID: 9000, Host: "pve1", Template: true, Storage: "local-lvm", Disk: 10 * gib, Config: map[string]string{"name": "golden", "agent": "1"}}},
		Times: timing.Machine{Clone: seconds(4, 8), Boot: seconds(10, 20), Delete: seconds(2, 4)},
	}))(t)
	t.Cleanup(n.Sim.Close)
	certificate, _, err := pvesim.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	door := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = door.Close() })
	go func() { _ = n.Sim.Serve(door, "pve1", &tls.Config{Certificates: []tls.Certificate{certificate}}) }()
	n.address = "https://" + door.Addr().String()
	return n
}

// documented is the command of a page that begins like this, with what is an example there as it
// is here.
func (n *Newcomer) documented(page, start string) string {
	n.Helper()
	for line := range strings.Lines(n.page(page)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, start) {
			line, _, _ = strings.Cut(line, " #")
			return strings.NewReplacer("https://pve1.example:8006", n.address, "/var/lib/plimsoll", "state", "/etc/plimsoll/", "").
				Replace(strings.TrimSpace(line))
		}
	}
	n.Fatalf("%s has no line that begins with %q", page, start)
	return ""
}

func (n *Newcomer) page(name string) string {
	n.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(n.checked, name)))(n.T))
}

func (n *Newcomer) write(name, text string) {
	n.Helper()
	n.steps++
	if err := os.WriteFile(filepath.Join(n.folder, name), []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
}

func (n *Newcomer) read(name string) string {
	n.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(n.folder, name)))(n.T))
}

// command is plimsoll in the folder.
func (n *Newcomer) command(line string) *exec.Cmd {
	n.steps++
	words := strings.Fields(line)
	cmd := exec.Command(n.program, words[1:]...)
	cmd.Dir, cmd.Env = n.folder, append(os.Environ(), "KUBECONFIG="+n.cluster.Kubeconfig())
	return cmd
}

// plimsoll enters a command, and returns what is printed.
func (n *Newcomer) plimsoll(line string) (stdout, stderr string, err error) {
	var out, said bytes.Buffer
	cmd := n.command(line)
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	return out.String(), said.String(), err
}

// must enters a command that has to go well.
func (n *Newcomer) must(line string) string {
	n.Helper()
	stdout, stderr, err := n.plimsoll(line)
	if err != nil {
		n.Fatalf("%s: %v\n%s%s", line, err, stdout, stderr)
	}
	return stdout
}

// root runs commands as root on the host, and returns the token that they show.
func (n *Newcomer) root(commands ...string) (token string) {
	n.Helper()
	shell := n.Sim.Console()
	for line := range strings.Lines(strings.Join(commands, "\n")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if err := shell.Run(line); err != nil {
				n.Fatalf("%s: %v", line, err)
			}
		}
	}
	n.steps++
	for _, shown := range shell.Tokens {
		token = shown
	}
	return token
}

// kubectl applies what kubectl apply would, or create.
func (n *Newcomer) kubectl(line, stdin string) {
	n.Helper()
	n.steps++
	words := strings.Fields(line)
	if name, is := strings.CutPrefix(line, "kubectl create namespace "); is {
		n.cluster.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
		return
	}
	for i, word := range words {
		switch {
		case word != "-f":
		case words[i+1] == "-":
			n.cluster.Apply(stdin)
		default:
			n.cluster.Apply(n.read(words[i+1]))
		}
	}
}

// made are the machines on Proxmox VE besides the template.
func (n *Newcomer) made() int { return len(n.Sim.Inventory().VMs) - 1 }

// run runs the program as the systemd unit does until something is so, and stops it as it does.
func (n *Newcomer) run(what string, so func() bool) {
	n.Helper()
	said := must.Get(os.Create(filepath.Join(n.folder, "log")))(n.T)
	defer func() { _ = said.Close() }()
	cmd := n.command(strings.TrimPrefix(n.documented("deploy/systemd/plimsoll.service", "ExecStart="), "ExecStart="))
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		n.Logf("plimsoll run ended: %v", <-ended)
	}()
	for end := time.Now().Add(3 * time.Minute); !so(); {
		if time.Now().After(end) || len(ended) > 0 {
			n.Fatalf("it is not so that %s; its status: %+v\n%s", what, n.cluster.Pool("workers").Status, n.read("log"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// shownFingerprint is in the hint of the first answer.
var shownFingerprint = regexp.MustCompile(`--fingerprint ([0-9A-F:]{95})`)

// FirstHour goes from an empty folder to a node: init, observe, report, act.
func (n *Newcomer) FirstHour(cluster Cluster) {
	n.Helper()
	n.cluster = cluster
	n.write("reader", n.root(n.documented("docs/get-started.md", "pveum user token add"), n.documented("docs/get-started.md", "pveum acl modify")))
	printed := n.begin()

	// What is printed are the commands of the pages.
	n.write("token", n.root(n.must(n.printed(printed, "docs/tasks/connect-proxmox.md", "plimsoll pve setup "))))
	n.write("join-token", JoinToken)
	if checked := n.must(n.printed(printed, "docs/tasks/connect-proxmox.md", "plimsoll doctor ")); !strings.Contains(checked, " 0 failed") {
		n.Errorf("the doctor says:\n%s", checked)
	}
	if plan := n.must(n.printed(printed, "docs/get-started.md", "plimsoll plan --config ")); !strings.Contains(plan, "buy: ") {
		n.Errorf("no machine is planned:\n%s", plan)
	}

	// Installed, it recommends and makes nothing.
	const install = "docs/install.md"
	n.kubectl(n.documented(install, "kubectl create namespace "), "")
	crds, apply, _ := strings.Cut(n.documented(install, "plimsoll manifests crds | "), " | ")
	n.kubectl(apply, n.must(crds))
	n.kubectl(n.documented(install, "kubectl apply -f pricebook.yaml"), "")
	mode := n.documented(install, "mode: ")
	n.write("kubeconfig", string(must.Get(os.ReadFile(cluster.Kubeconfig()))(n.T)))
	port := must.Get(net.Listen("tcp", "127.0.0.1:0"))(n.T)
	_ = port.Close() // it was only asked for a number
	n.write("plimsoll.yaml", strings.Join([]string{
		n.read("plimsoll.yaml"), mode, n.documented(install, "kubeconfig: "), n.documented(install, "namespace: "), n.documented(install, "state: "),
		"interval: 1s", "metrics: " + port.Addr().String(), "", // other tests run beside it
	}, "\n"))
	n.run("the pool says what it would do", func() bool {
		plan := cluster.Pool("workers").Status.LastPlan
		return plan != nil && strings.Contains(fmt.Sprintf("%+v", *plan), "Buy")
	})
	if n.made() != 0 {
		n.Fatalf("in %s %d machines were made", mode, n.made())
	}

	// When they agree, they set mode: Active, in the pool and in the file.
	cluster.Activate("workers")
	n.write("plimsoll.yaml", strings.Replace(n.read("plimsoll.yaml"), mode, "mode: Active", 1))
	n.run("a machine is a node", func() bool { m := cluster.Pool("workers").Status.Machines; return m != nil && m.Joined > 0 })

	// A person takes about half a minute for each.
	if n.Logf("it took %d steps", n.steps); n.steps > 20 {
		n.Errorf("it takes %d steps, which is more than ten minutes", n.steps)
	}
}

// begin enters plimsoll init twice: the first answer has the fingerprint to compare.
func (n *Newcomer) begin() (printed string) {
	n.Helper()
	line := n.documented("docs/get-started.md", "plimsoll init ")
	_, said, err := n.plimsoll(line)
	shown := shownFingerprint.FindStringSubmatch(said)
	if err == nil || shown == nil {
		n.Fatalf("%s: the first answer should have the fingerprint: %v\n%s", line, err, said)
	}
	return n.must(line + " --fingerprint " + shown[1])
}

// printed is the command that plimsoll init printed, which the page has word by word.
func (n *Newcomer) printed(all, page, start string) string {
	n.Helper()
	for line := range strings.Lines(all) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, start) {
			if !strings.Contains(n.page(page), line+"\n") {
				n.Errorf("%s does not have the line %q", page, line)
			}
			return line
		}
	}
	n.Fatalf("plimsoll init does not print %q:\n%s", start, all)
	return ""
}
