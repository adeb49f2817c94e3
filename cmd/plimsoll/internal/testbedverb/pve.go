package testbedverb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/guests"
)

// testbedPVE is what the pve verb is asked.
type testbedPVE struct {
	listen  string
	expose  bool
	hosts   int
	faults  string
	seed    uint64
	speed   float64
	release string
	state   string
	guests  string
	verbose bool
	format  cli.Output
}

func newTestbedPVECommand(env *cli.Env) *cobra.Command {
	var ask testbedPVE
	cmd := &cobra.Command{
		Use:   "pve",
		Short: "Serve an emulated Proxmox VE cluster",
		Long: "Serve an emulated Proxmox VE cluster over HTTPS until it is interrupted. Each host answers for the whole cluster, the\n" +
			"first at --listen and the others at the following ports. A template can be cloned at once. It prints how to reach the\n" +
			"cluster, and a token with all privileges.\n\n" +
			"Inject faults with a file, one fault a line:\n\n" + faultCatalogue(),
		Example: "  plimsoll testbed pve\n" +
			"  plimsoll testbed pve --hosts 5 --faults faults.txt --speed 10 --state lab.json -v\n" +
			"  plimsoll testbed pve --guests debian-13.qcow2",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask.run(cmd, env)
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.listen, "listen", "127.0.0.1:8006", "the `address` of the first host; port 0 takes free ones")
	f.BoolVar(&ask.expose, "expose", false, "listen on an address that other machines can reach")
	cli.AddFlag(cmd, &ask.hosts, cli.AtLeastOne, "hosts", "number", "3", "how many hosts there are")
	f.StringVar(&ask.faults, "faults", "", "a `file` that says what goes wrong")
	f.Uint64Var(&ask.seed, "seed", 1, "the seed of all random choices")
	cli.AddFlag(cmd, &ask.speed, parseSpeed, "speed", "factor", "1", "how fast time passes")
	cli.AddFlag(cmd, &ask.release, parseRelease, "release", "version", "", "the version of Proxmox VE, such as 8.4.1 (default: the newest that is emulated)")
	f.StringVar(&ask.state, "state", "", "a `file` to load the cluster from, if it exists, and to save it to at the end")
	f.StringVar(&ask.guests, "guests", "", "an `image` of a disk: machines are QEMU processes that boot it")
	f.BoolVarP(&ask.verbose, "verbose", "v", false, "print every call")
	cli.AddOutput(cmd, &ask.format)
	return cmd
}

// faultCatalogue lists the forms of faults for the help.
func faultCatalogue() string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, form := range pvesim.FaultForms() {
		fmt.Fprintf(columns, "  %s\t%s\n", form.Form, form.Does)
	}
	fmt.Fprintf(columns, "\nand each of them, as far as it makes sense, with\n\n")
	for _, selector := range pvesim.FaultSelectors() {
		fmt.Fprintf(columns, "  %s\t%s\n", selector.Form, selector.Does)
	}
	_ = columns.Flush() // to memory
	return strings.TrimRight(b.String(), "\n")
}

var release = regexp.MustCompile(`^[89]\.\d{1,3}(\.\d{1,3})?$`)

// parseRelease takes the releases whose rights and texts are emulated. Any other would be served as
// the nearest of them, and say that it is what it is not.
func parseRelease(text string) (string, error) {
	if !release.MatchString(text) {
		return "", fmt.Errorf("must be a version of Proxmox VE 8 or 9, such as 8.4.1, was %q", text)
	}
	return text, nil
}

func parseSpeed(text string) (float64, error) {
	speed, err := strconv.ParseFloat(text, 64)
	if err != nil || !(speed > 0 && speed <= 1e6) {
		return 0, fmt.Errorf("must be a number greater than 0, and at most 1000000, was %q", text)
	}
	return speed, nil
}

// run serves a cluster until the context is done.
func (ask *testbedPVE) run(cmd *cobra.Command, env *cli.Env) error {
	host, port, err := ask.address()
	if err != nil {
		return cli.SeeHelp(cmd, err)
	}
	booted, err := ask.realGuests(cmd.Context(), env)
	if err != nil {
		return err
	}
	if booted != nil {
		defer booted.Close()
	}
	c, err := ask.cluster(cmd, env, booted)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := ask.inject(env, c); err != nil {
		return err
	}
	stop := func() {}
	if ask.verbose {
		stop = printCalls(env.Stderr, c)
		defer stop()
	}
	at, listeners, cert, err := open(c, host, port)
	if err != nil {
		return err
	}
	at.Token = c.Token("root@pam", "testbed", false)
	failed := serve(c, at.Hosts, listeners, cert)
	defer hangUp(listeners)
	if err := ask.format.Print(env.Stdout, at, at.table); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return cli.WithCode(cli.ExitUnreachable, err)
	case <-cmd.Context().Done():
	}
	hangUp(listeners)
	stop() // no other client may be writing when save says what it did
	return ask.save(env, c)
}

func hangUp(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// address is where the first host listens. Others can reach it only if that was asked for: the
// emulator lets in every client with the token that it prints.
func (ask *testbedPVE) address() (host string, port int, err error) {
	host, port, ok := cli.SplitAddress(ask.listen)
	if !ok || port+ask.hosts > 65536 {
		return "", 0, cli.Misused("--listen: must be an address with a port that leaves room for the hosts, such as 127.0.0.1:8006, was %q", ask.listen)
	}
	if !ask.expose && !isThisMachine(host) {
		return "", 0, cli.Misused("--listen: must be of this machine alone, such as 127.0.0.1:8006, unless --expose is given, was %q", ask.listen)
	}
	return host, port, nil
}

// isThisMachine reports whether what listens there is reached from this machine alone.
func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// cluster makes the cluster, or goes on with one that was saved.
func (ask *testbedPVE) cluster(cmd *cobra.Command, env *cli.Env, booted *guests.Machines) (*pvesim.Cluster, error) {
	if ask.state != "" {
		text, err := env.ReadFile(ask.state)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--state: %w", err))
		default:
			for _, flag := range []string{"hosts", "seed", "release"} {
				if cmd.Flags().Changed(flag) {
					return nil, cli.SeeHelp(cmd, cli.Misused("--%s: must not be given with a cluster that was saved, was %q", flag, cmd.Flag(flag).Value))
				}
			}
			c, err := pvesim.Load(bytes.NewReader(text), pvesim.Config{Speed: ask.speed})
			if err != nil {
				return nil, cli.Misconfigured(ask.state, err)
			}
			return c, nil
		}
	}
	cfg := ask.config(env.Now())
	if booted != nil {
		cfg.Guests, cfg.VMs[0].Config["net0"] = booted, "virtio,bridge=vmbr0"
	}
	c, err := pvesim.New(cfg)
	if err != nil {
		return nil, cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--"))
	}
	return c, nil
}

// What there is in the emulated cluster from the start.
const (
	labTemplate = 9000
	labPool     = "plimsoll"
	labStorage  = "shared"
)

// config is a cluster as people have it at home, only larger.
func (ask *testbedPVE) config(now time.Time) pvesim.Config {
	between := func(least, most time.Duration) timing.Range { return timing.Range{Min: least, Max: most} }
	cfg := pvesim.Config{
		Seed: ask.seed, Start: now.UTC().Truncate(time.Second), Speed: ask.speed, Release: ask.release, Name: "testbed",
		Pools: []string{labPool},
		Storages: []pvesim.Storage{
			{Name: "local", Type: "dir", Total: 128 << 30, Used: 8 << 30, Content: []string{"backup", "import", "iso", "vztmpl", "snippets"}},
			{Name: "local-lvm", Type: "lvmthin", Total: 1 << 40, Content: []string{"images", "rootdir"}},
			{Name: labStorage, Type: "nfs", Shared: true, Total: 4 << 40, Content: []string{"images", "iso", "snippets"}},
		},
		VMs: []pvesim.VM{{
			ID: labTemplate, Host: "pve1", Template: true, Storage: labStorage, Disk: 16 << 30,
			Config: map[string]string{"name": "debian-13", "cores": "2", "memory": "4096", "agent": "1", "serial0": "socket", "ide2": labStorage + ":cloudinit,media=cdrom"},
		}},
		Times: timing.Machine{
			Clone: between(5*time.Second, 15*time.Second), Boot: between(15*time.Second, 40*time.Second), Delete: between(2*time.Second, 5*time.Second),
		},
	}
	for i := range ask.hosts {
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: fmt.Sprintf("pve%d", i+1), CPUs: 32, Memory: 128 << 30})
	}
	return cfg
}

// inject puts the faults of a file into the cluster.
func (ask *testbedPVE) inject(env *cli.Env, c *pvesim.Cluster) error {
	if ask.faults == "" {
		return nil
	}
	text, err := env.ReadFile(ask.faults)
	if err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("--faults: %w", err))
	}
	faults, err := pvesim.ParseFaults(string(text))
	if err != nil {
		return cli.Misconfigured(ask.faults, err)
	}
	var wrong []error
	for _, f := range faults {
		if err := c.Inject(f); err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %s: %w", f.Line(), f, err))
		}
	}
	if len(wrong) > 0 {
		return cli.Misconfigured(ask.faults, errors.Join(wrong...))
	}
	return nil
}

// reach is how a cluster that is served can be reached.
type reach struct {
	Hosts       []reachHost `json:"hosts"`
	Token       string      `json:"token"`
	Fingerprint string      `json:"fingerprint"`
	Template    int         `json:"template"`
	Storage     string      `json:"storage"`
	Pool        string      `json:"pool"`
}

type reachHost struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

func (l *reach) table(w io.Writer) {
	for _, h := range l.Hosts {
		fmt.Fprintf(w, "%s\t%s\n", h.Name, h.URL)
	}
	fmt.Fprintf(w, "token\t%s\n", l.Token)
	fmt.Fprintf(w, "fingerprint\t%s\n", l.Fingerprint)
	fmt.Fprintf(w, "template\t%d on storage %s, for pool %s\n", l.Template, l.Storage, l.Pool)
	fmt.Fprintf(w, "try\tcurl -sk -H 'Authorization: PVEAPIToken=%s' %s/api2/json/nodes\n", l.Token, l.Hosts[0].URL)
}

// open listens for every host, on ports behind each other, or on free ones if port is 0.
func open(c *pvesim.Cluster, host string, port int) (*reach, []net.Listener, tls.Certificate, error) {
	l := &reach{Template: labTemplate, Storage: labStorage, Pool: labPool}
	cert, fingerprint, err := pvesim.SelfSigned(cmp.Or(host, "localhost"), "localhost", "127.0.0.1", "::1")
	if err != nil {
		return nil, nil, cert, err
	}
	l.Fingerprint = fingerprint
	var listeners []net.Listener
	for i, name := range c.Hosts() {
		at := port
		if port > 0 {
			at += i
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(at)))
		if err != nil {
			hangUp(listeners)
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w (port 0 takes free ones)", err)
			}
			return nil, nil, cert, cli.WithCode(cli.ExitUnreachable, fmt.Errorf("--listen: %w", err))
		}
		listeners = append(listeners, listener)
		l.Hosts = append(l.Hosts, reachHost{name, "https://" + listener.Addr().String()})
	}
	return l, listeners, cert, nil
}

// serve answers for every host, and returns the error if that breaks down.
func serve(c *pvesim.Cluster, hosts []reachHost, listeners []net.Listener, cert tls.Certificate) <-chan error {
	failed := make(chan error, len(hosts))
	for i, h := range hosts {
		go func() {
			if err := c.Serve(listeners[i], h.Name, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}); err != nil {
				failed <- err
			}
		}()
	}
	return failed
}

// save writes the cluster to a file, if that was asked for.
func (ask *testbedPVE) save(env *cli.Env, c *pvesim.Cluster) error {
	if ask.state == "" {
		return nil
	}
	if err := env.WriteFile(ask.state, c.Save); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	fmt.Fprintln(env.Stderr, "the cluster is saved in", ask.state)
	return nil
}

// callsAhead is how many calls wait to be printed before some are omitted: the cluster is locked
// while it reports a call, and must not wait for a terminal.
const callsAhead = 4096

// printCalls prints calls as they end, until it is stopped; then all is printed, and nothing more
// is written. It may be stopped more than once.
func printCalls(w io.Writer, c *pvesim.Cluster) (stop func()) {
	calls := make(chan pvesim.Call, callsAhead)
	var printing sync.WaitGroup
	printing.Go(func() {
		for call := range calls {
			fmt.Fprintln(w, callLine(call))
		}
	})
	c.OnCall(func(call pvesim.Call) {
		select {
		case calls <- call:
		default:
		}
	})
	return sync.OnceFunc(func() {
		c.OnCall(nil) // no call is reported any more when this returns
		close(calls)
		printing.Wait()
	})
}

// callLine is a call on one line.
func callLine(call pvesim.Call) string {
	path := call.Path
	if call.Query != "" {
		path += "?" + call.Query
	}
	line := fmt.Sprintf("%s %s %s %s: %d %s", call.At.Format(time.TimeOnly), call.Host, call.Method, path, call.Status, call.Reason)
	if call.Took > 0 {
		line += fmt.Sprintf(" after %s", call.Took.Round(time.Millisecond))
	}
	if call.Task != "" {
		line += " " + call.Task
	}
	return line
}

// realGuests is what runs machines for real, if that was asked for.
func (ask *testbedPVE) realGuests(ctx context.Context, env *cli.Env) (*guests.Machines, error) {
	switch {
	case ask.guests == "":
		return nil, nil
	case ask.speed != 1:
		return nil, cli.Misused("--speed: must be 1 with --guests, whose machines follow the clock, was %v", ask.speed)
	case ask.state != "":
		return nil, cli.Misused("--state: must not be given with --guests, whose disks are not saved, was %q", ask.state)
	}
	booted, err := guests.New(ctx, guests.Config{Image: ask.guests, Say: func(line string) { fmt.Fprintln(env.Stderr, line) }})
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--guests: %w", err))
	}
	return booted, nil
}
