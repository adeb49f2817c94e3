package machines

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// agentRights are who may ask an agent: those with a privilege, and those who may do anything with
// it.
func agentRights(priv string) api.Rule {
	return api.MayAny("/vms/{vmid}", priv, "VM.GuestAgent.Unrestricted")
}

var agentEndpoints = slices.Concat(agentCalls, []api.Endpoint{
	{Method: "GET", Path: onVM + "/agent", May: api.Anybody, Do: api.Index("name", agentIndex)},
	{
		Method: "POST", Path: onVM + "/agent", May: agentRights("VM.GuestAgent.Unrestricted"), Protected: true, Do: do(postAgent),
		In: "command:enum(" + strings.Join(world.Sorted(agentCommands), ",") + ")",
	},
	{
		Method: "POST", Path: onVM + "/agent/exec", May: api.May("/vms/{vmid}", "VM.GuestAgent.Unrestricted"), Protected: true, Do: do(postExec),
		In: "command:str[] input-data?:str[..65536]",
	},
	{
		Method: "GET", Path: onVM + "/agent/exec-status", May: api.May("/vms/{vmid}", "VM.GuestAgent.Unrestricted"), Protected: true,
		In: "pid:int", Do: do(getExec),
	},
	{
		Method: "GET", Path: onVM + "/agent/file-read", May: agentRights("VM.GuestAgent.FileRead"), Protected: true, Do: do(getFile),
		In: "file:str count?:int[1..16777216] decode?:bool offset?:int[0..]",
	},
	{
		Method: "POST", Path: onVM + "/agent/file-write", May: agentRights("VM.GuestAgent.FileWrite"), Protected: true, Do: do(postFile),
		In: "content:str[..61440] file:str encode?:bool",
	},
	{
		Method: "POST", Path: onVM + "/agent/set-user-password", May: api.May("/vms/{vmid}", "VM.GuestAgent.Unrestricted"), Protected: true,
		In: "password:str[5..1024] username:str crypted?:bool", Do: do(postPassword),
	},
})

// agentCalls are the commands that have an endpoint of their own.
var agentCalls = func() []api.Endpoint {
	var all []api.Endpoint
	for _, call := range []struct{ method, commands, priv string }{
		{"GET", "get-fsinfo get-host-name get-osinfo get-time get-vcpus info network-get-interfaces", "VM.GuestAgent.Audit"},
		{"POST", "ping", "VM.GuestAgent.Audit"},
		{"POST", "fstrim", "VM.GuestAgent.FileSystemMgmt"},
		{"POST", "shutdown", "VM.PowerMgmt"},
	} {
		for command := range strings.FieldsSeq(call.commands) {
			all = append(all, api.Endpoint{
				Method: call.method, Path: onVM + "/agent/" + command, May: agentRights(call.priv), Protected: true, Do: do(agentCall(command)),
			})
		}
	}
	return all
}()

// agentCommands are what a guest's agent can be asked by their name alone, with the answer of each.
var agentCommands = map[string]func(k *call, m *world.Guest) any{
	"fsfreeze-freeze": func(*call, *world.Guest) any { return 1 },
	"fsfreeze-status": func(*call, *world.Guest) any { return "thawed" },
	"fsfreeze-thaw":   func(*call, *world.Guest) any { return 1 },
	"fstrim": func(*call, *world.Guest) any {
		return map[string]any{"paths": []any{map[string]any{"path": "/", "trimmed": 0, "minimum": 0}}}
	},
	"get-fsinfo":             agentFilesystems,
	"get-host-name":          func(_ *call, m *world.Guest) any { return map[string]any{"host-name": m.Name()} },
	"get-memory-block-info":  func(*call, *world.Guest) any { return map[string]any{"size": 128 << 20} },
	"get-memory-blocks":      agentMemoryBlocks,
	"get-osinfo":             agentSystem,
	"get-time":               func(k *call, _ *world.Guest) any { return k.World.Clock.UnixNano() },
	"get-timezone":           func(*call, *world.Guest) any { return map[string]any{"zone": "UTC", "offset": 0} },
	"get-users":              func(*call, *world.Guest) any { return []any{} },
	"get-vcpus":              agentCPUs,
	"info":                   agentInfo,
	"network-get-interfaces": agentInterfaces,
	"ping":                   func(*call, *world.Guest) any { return map[string]any{} },
	"shutdown":               func(k *call, m *world.Guest) any { m.AskToStop(k.World); return map[string]any{} },
	"suspend-disk":           func(k *call, m *world.Guest) any { m.AskToStop(k.World); return map[string]any{} },
	"suspend-hybrid":         func(_ *call, m *world.Guest) any { m.State = "suspended"; return map[string]any{} },
	"suspend-ram":            func(_ *call, m *world.Guest) any { m.State = "suspended"; return map[string]any{} },
}

// agentIndex is what the directory lists: the commands, and those that take parameters.
const agentIndex = `exec exec-status file-read file-write fsfreeze-freeze fsfreeze-status fsfreeze-thaw fstrim get-fsinfo
	get-host-name get-memory-block-info get-memory-blocks get-osinfo get-time get-timezone get-users get-vcpus info
	network-get-interfaces ping set-user-password shutdown suspend-disk suspend-hybrid suspend-ram`

// askAgent is the machine that the call is about, if its guest's agent answers. If it does not,
// that takes the host three seconds to find out, during which one of its few workers is busy.
func (k *call) askAgent() (*world.Guest, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	if !vmconf.AgentEnabled(m.Conf) {
		return nil, failure.New("No QEMU guest agent configured")
	}
	if !m.Running() {
		return nil, failure.New("VM %d is not running", m.ID)
	}
	k.Process.Sleep(k.World.AgentFault(m))
	if !k.Process.Wait(world.WaitAgent, func() bool { return m.Agent && m.State == "running" || !m.Running() }) || !m.Running() {
		return nil, failure.New("QEMU guest agent is not running")
	}
	if m.Outside != nil && !k.hears(m) {
		return nil, failure.New("QEMU guest agent is not running")
	}
	return m, nil
}

// agentCall asks the agent one of the commands.
func agentCall(command string) func(k *call) (any, error) {
	return func(k *call) (any, error) {
		m, err := k.askAgent()
		if err != nil {
			return nil, err
		}
		if m.Outside == nil || command == "shutdown" {
			return map[string]any{"result": agentCommands[command](k, m)}, nil
		}
		result, err := k.agent(m, command, nil)
		return map[string]any{"result": result}, err
	}
}

func postAgent(k *call) (any, error) { return agentCall(k.In["command"])(k) }

func agentSystem(*call, *world.Guest) any {
	return map[string]any{
		"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 13 (trixie)", "version": "13 (trixie)",
		"version-id": "13", "machine": "x86_64", "kernel-release": "6.12.0-amd64", "kernel-version": "#1 SMP PREEMPT_DYNAMIC",
	}
}

func agentInfo(*call, *world.Guest) any {
	var all []any
	for _, name := range strings.Fields(agentIndex) {
		all = append(all, map[string]any{"name": "guest-" + name, "enabled": true, "success-response": true})
	}
	return map[string]any{"version": "10.0.3", "supported_commands": all}
}

func agentCPUs(_ *call, m *world.Guest) any {
	var all []any
	for i := range vmconf.CPUsOf(m.Conf) {
		all = append(all, map[string]any{"logical-id": i, "online": true, "can-offline": i > 0})
	}
	return all
}

func agentMemoryBlocks(_ *call, m *world.Guest) any {
	var all []any
	for i := range vmconf.MemoryOf(m.Conf) / 128 {
		all = append(all, map[string]any{"phys-index": i, "online": true, "can-offline": false})
	}
	return all
}

func agentFilesystems(_ *call, m *world.Guest) any {
	size := vmconf.ParseDrive(m.Conf[vmconf.BootDrive(m.Conf)]).Size()
	return []any{map[string]any{
		"name": "sda1", "mountpoint": "/", "type": "ext4", "total-bytes": size, "used-bytes": size / world.LinkedShare, "disk": []any{},
	}}
}

// agentInterfaces are the guest's network cards and their addresses: those of its configuration, or
// ones that follow from its number as if a DHCP server gave every machine its own.
func agentInterfaces(_ *call, m *world.Guest) any {
	all := []any{nic("lo", "00:00:00:00:00:00", netip.MustParsePrefix("127.0.0.1/8"))}
	for i := range 32 {
		card := m.Conf[fmt.Sprintf("net%d", i)]
		if card == "" {
			continue
		}
		address := leased(m.ID, i)
		if static, err := netip.ParsePrefix(params.PropertyString("qm-ipconfig", m.Conf[fmt.Sprintf("ipconfig%d", i)])["ip"]); err == nil {
			address = static
		}
		all = append(all, nic(fmt.Sprintf("eth%d", i), strings.ToLower(vmconf.ParseNet(card)["macaddr"]), address))
	}
	return all
}

// leased is the address that a machine's card gets from the network.
func leased(id, card int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(100 + id>>16&63 + 64*card), byte(id >> 8), byte(id)}), 8)
}

func nic(name, mac string, address netip.Prefix) map[string]any {
	return map[string]any{
		"name": name, "hardware-address": mac,
		"ip-addresses": []any{map[string]any{"ip-address": address.Addr().String(), "ip-address-type": "ipv4", "prefix": address.Bits()}},
		"statistics": map[string]any{
			"rx-bytes": 110, "rx-packets": 1, "rx-errs": 0, "rx-dropped": 0, "tx-bytes": 0, "tx-packets": 0, "tx-errs": 0, "tx-dropped": 0,
		},
	}
}

// execPID is of the first program that the agent runs in a guest.
const execPID = 1000

func postExec(k *call) (any, error) {
	m, err := k.askAgent()
	if err != nil {
		return nil, err
	}
	if m.Outside != nil {
		return k.run(m)
	}
	m.Execs++
	return map[string]any{"pid": execPID + m.Execs}, nil
}

// getExec shows a program that has been run: it has ended well and said nothing.
func getExec(k *call) (any, error) {
	m, err := k.askAgent()
	if err != nil {
		return nil, err
	}
	if m.Outside != nil {
		return k.outcome(m)
	}
	if pid := k.In.Int("pid", 0); pid <= execPID || pid > execPID+m.Execs {
		return nil, failure.New("Agent error: Invalid parameter 'pid'")
	}
	return map[string]any{"exited": 1, "exitcode": 0}, nil
}

func getFile(k *call) (any, error) {
	m, err := k.askAgent()
	if err != nil {
		return nil, err
	}
	content, is := m.Files[k.In["file"]]
	if !is {
		return nil, failure.New("Agent error: failed to open file '%s' (mode: 'r'): No such file or directory", k.In["file"])
	}
	content = content[min(k.In.Int("offset", 0), len(content)):]
	content = content[:min(k.In.Int("count", len(content)), len(content))]
	return map[string]any{"content": string(content), "bytes-read": len(content)}, nil
}

func postFile(k *call) (any, error) {
	m, err := k.askAgent()
	if err != nil {
		return nil, err
	}
	content := []byte(k.In["content"])
	if k.In.Has("encode") && !k.In.Is("encode") { // it is encoded already
		if content, err = base64.StdEncoding.DecodeString(k.In["content"]); err != nil {
			return nil, failure.New("Agent error: Invalid base64 data")
		}
	}
	if m.Files == nil {
		m.Files = map[string][]byte{}
	}
	m.Files[k.In["file"]] = content
	return nil, nil
}

func postPassword(k *call) (any, error) {
	if _, err := k.askAgent(); err != nil {
		return nil, err
	}
	return map[string]any{"result": map[string]any{}}, nil
}
