package archcheck

import (
	"slices"
	"strings"
)

const (
	// module is the path that all our packages begin with.
	module = "github.com/plimsoll/plimsoll"
	// rulesFile is where the rules are.
	rulesFile = "cmd/plimsoll/internal/archcheck/rules.go"
)

// Rule names a rule of the house.
type Rule string

// The rules.
const (
	TopFolder  Rule = "top-folder"  // the root holds the agreed folders
	FolderName Rule = "folder-name" // no folder is a heap
	NoGoFiles  Rule = "no-go-files" // some folders only hold folders
	NoRoom     Rule = "no-room"     // every package is in the table
	PackageDoc Rule = "package-doc" // every package says once why it exists
	Imports    Rule = "imports"     // the table says what each room may import
	Adapters   Rule = "adapters"    // adapters do not know each other
	Testbed    Rule = "testbed"     // the product does not know its test bed
	Records    Rule = "records"     // the dashboard reads records and holds no controls
	Modules    Rule = "modules"     // every heavy module has one home
	Edge       Rule = "edge"        // sockets, files and processes are at the edge
	Log        Rule = "log"         // decisions return reasons and print nothing
	Clock      Rule = "clock"       // time is an argument
	Chance     Rule = "chance"      // randomness is handed in
	Goroutine  Rule = "goroutine"   // decisions run on their caller's goroutine
	DotImport  Rule = "dot-import"  // a name says which room it is from
	Nested     Rule = "nested"      // modules inside the module have their places, alone
)

// reasons are why the rules exist that have one reason wherever they are broken. The others
// have theirs in the tables below.
var reasons = map[Rule]string{
	TopFolder: "the folders at the root are the product's table of contents; what targets write goes to out/, " +
		"and a new one into docs/architecture.md and " + rulesFile + " first",
	FolderName: "a heap has no reason for anything to be in it; put the function beside the type it serves, " +
		"or name the folder after what it knows",
	NoGoFiles:  "a package of this name would clash with the library's, or with the module's; the packages below have names of their own",
	NoRoom:     "no room in the house for it: add it to the tables of docs/architecture.md and " + rulesFile,
	PackageDoc: "a reader meets the package by the one sentence that says why it exists",
	Adapters: "an adapter that knows another can be neither tested nor replaced alone; " +
		"what they share belongs in the rooms they point at",
	Testbed:   "the product must build and run without its test bed; let the test bed import the product",
	DotImport: "a name must say which room it comes from, to the reader and to this check",
	Nested: "a module inside the module is for programs that would swell the product's go.mod; each has its place in " + rulesFile +
		", and imports none of our packages, which would drag the product's go.mod along with its own, unless both are to run in one program",
}

// The folders at the root, and those that targets write to. Hidden folders are free.
var (
	topFolders = []string{
		"api", "cmd", "dashboard", "deploy", "docs", "grpc", "nodescaler",
		"podscaler", "pricing", "proxmox", "testbed",
	}
	scratch = []string{"out", "bin"}
)

// modules are the folders that may be modules of their own. They are built into programs of the
// test bed, or make and test what is shipped. The other rules do not apply to them.
var modules = []string{
	"deploy/tools",             // Helm, ko, and the tests of charts, alerts and images
	"testbed/lab/controlplane", // Kubernetes' servers
	"testbed/lab/tools/k6",     // versions, and no code, as those below
	"testbed/lab/tools/kubelet",
	"testbed/lab/tools/kwok",
	"testbed/lab/tools/prometheus",
	"testbed/peers", // Kubernetes, Karpenter, VPA and Prometheus, to compare with
}

// besides are those modules that run our packages and those of others in one program.
var besides = []string{"testbed/peers"}

// heaps are the names of folders that collect what has no place.
var heaps = []string{"util", "utils", "common", "helpers", "types", "misc", "shared", "base", "core"}

// goless folders hold folders only.
var goless = []string{".", "grpc", "proxmox"}

// floor is a storey of the house. A room imports from its own storey and those below it.
type floor string

const (
	pure     floor = "the pure rooms" // decides; nothing but arithmetic on what it is given
	once     floor = "the loop"       // observe, decide, act, once
	contract floor = "contracts"      // what others bind to: wire formats, CRD types, charts
	adapter  floor = "adapters"       // one technology each, pointing inward
	world    floor = "worlds"         // what the product runs in when it is tested
	aid      floor = "aids"           // what tests share, whichever package they are of
	command  floor = "cmd"            // wires it all together

	everything       = "everything"
	everythingButCmd = "everything but cmd"
)

// room is a folder of the house that may hold a package, and what that may import of ours: rooms
// by folder, whole floors, or everything. Standard library and modules are ruled further below.
type room struct {
	folder  string
	below   bool // the folders below are part of the room, unless they are rooms themselves
	floor   floor
	imports []string
	tests   []string // what its tests may import besides that, the pure rooms and the aids
	why     string   // why nothing else
}

// rooms is the table of docs/architecture.md, with the reasons. A room is here before it is
// built, so that the rule is there when its first line is written.
var rooms = []room{
	{
		folder: "pricing", floor: pure,
		why: "pricing is the leaf: every package uses its units, so it can import none",
	},
	{
		folder: "pricing/packing", floor: pure,
		imports: []string{"pricing"},
		why:     "packing holds anything that has a size and a price; Kubernetes' words stop at the node policies",
	},
	{
		folder: "pricing/allocation", floor: pure,
		imports: []string{"pricing"},
		why:     "a cost is shared out over anything with a name and a size; what could be done without is worked out by those who know nodes and pods",
	},
	{
		folder: "podscaler", floor: pure,
		imports: []string{"pricing"},
		why:     "how many pods is decided without knowing which machines carry them; only what they cost comes in",
	},
	{
		folder: "podscaler/policy", floor: pure,
		imports: []string{"podscaler", "podscaler/forecast", "podscaler/capacity", "pricing"},
		why:     "a pod policy sees its workload, forecasts and models; what the machines make of it is the node policy's business",
	},
	{
		folder: "podscaler/forecast", floor: pure,
		imports: []string{"podscaler/forecast/internal/htm", "podscaler/forecast/internal/lstm"},
		why:     "a forecaster sees a series of numbers and must not care what they count",
	},
	{
		folder: "podscaler/forecast/internal/htm", floor: pure,
		why: "a forecaster's parts see numbers",
	},
	{
		folder: "podscaler/forecast/internal/lstm", floor: pure,
		why: "a forecaster's parts see numbers",
	},
	{
		folder: "podscaler/capacity", floor: pure,
		why: "a queueing model is arithmetic that is checked against theory without a workload in sight",
	},
	{
		folder: "podscaler/rightsize", floor: pure,
		imports: []string{"podscaler", "pricing"},
		why:     "requests are sized and limits shared out from use and units alone",
	},
	{
		folder: "podscaler/signals", floor: adapter,
		imports: []string{"podscaler"},
		why:     "signals fills windows and knows nothing of what is decided from them",
	},
	{
		folder: "nodescaler", floor: pure,
		imports: []string{"pricing", "podscaler"},
		why:     "the words of node scaling hold no opinion; opinions are in nodescaler/policy and import the words",
	},
	{
		folder: "nodescaler/draft", floor: pure,
		imports: []string{"nodescaler", "pricing", "pricing/packing"},
		why:     "a plan counts what it takes and says why pods wait, whoever writes it",
	},
	{
		folder: "nodescaler/planner", floor: pure,
		imports: []string{"nodescaler", "nodescaler/draft", "pricing", "pricing/packing"},
		why:     "planner places pods, orders machines and empties nodes by the rules that a policy hands it, and knows no policy",
	},
	{
		folder: "nodescaler/policy", floor: pure,
		imports: []string{"nodescaler", "nodescaler/draft", "nodescaler/planner", "pricing"},
		why:     "a node policy sees the snapshot and what capacity costs; which pod policy asked for the pods must not matter to it",
	},
	{
		folder: "nodescaler/approval", floor: pure,
		imports: []string{"nodescaler", "podscaler", "podscaler/rightsize", "pricing"},
		why:     "what an answer covers follows from what is proposed and decided; where people are asked is the ports' business",
	},
	{
		folder: "nodescaler/sample", floor: aid,
		imports: []string{"nodescaler", "podscaler", "pricing"},
		why:     "clusters to decide on are the same for the planner and for policies, and know neither",
	},
	{
		folder: "nodescaler/sample/life", floor: aid,
		imports: []string{"nodescaler", "nodescaler/sample", "podscaler", "pricing", "pricing/packing"},
		why:     "a world that carries plans out is the same for our policies and for others', and knows none",
	},
	{
		folder: "nodescaler/loop", floor: once,
		imports: []string{string(pure)},
		why:     "the loop declares its ports and is handed what fills them; if it knew an adapter, the simulator could not run it",
	},
	{
		folder: "nodescaler/recording", floor: once,
		imports: []string{string(pure), "nodescaler/loop"},
		why:     "a recording holds what was observed, wanted and decided, and decides it again by the loop; it knows no adapter",
	},
	{
		folder: "nodescaler/kube", floor: adapter,
		imports: []string{
			"nodescaler/loop", "api/v1alpha1", "api/printable", "nodescaler", "nodescaler/approval", "podscaler", "podscaler/rightsize", "pricing",
			"nodescaler/kube/internal/copies", "nodescaler/kube/internal/kept", "nodescaler/kube/internal/sight", "nodescaler/kube/internal/targets",
		},
		tests: []string{"testbed/kubesim"},
		why:   "kube translates between Kubernetes and the loop's words and decides nothing",
	},
	{
		folder: "nodescaler/kube/internal/kept", floor: adapter,
		imports: []string{"nodescaler", "podscaler", "podscaler/rightsize", "pricing"},
		why:     "what is kept of an object follows from that object alone",
	},
	{
		folder: "nodescaler/kube/internal/copies", floor: adapter,
		imports: []string{"api/v1alpha1", "nodescaler/kube/internal/kept"},
		why:     "copies are held and known to be fresh without knowing what is made of them",
	},
	{
		folder: "nodescaler/kube/internal/targets", floor: adapter,
		imports: []string{"api/v1alpha1", "podscaler", "nodescaler/kube/internal/copies", "nodescaler/kube/internal/kept"},
		why:     "what autoscalers scale is found without what is observed of nodes and pods",
	},
	{
		folder: "nodescaler/kube/internal/sight", floor: adapter,
		imports: []string{"nodescaler/loop", "nodescaler", "podscaler", "pricing", "nodescaler/kube/internal/kept", "nodescaler/kube/internal/targets"},
		why:     "what is seen follows from what is kept, without a cluster, so that a load can be read from files",
	},
	{
		folder: "nodescaler/kube/internal/written", floor: aid,
		why: "objects that tests have as text are read alike in every package",
	},
	{
		folder: "proxmox/timing", floor: pure,
		why: "how long a machine takes is drawn alike in the simulated world and in the emulator, and depends on neither",
	},
	{
		folder: "proxmox/firstboot", floor: pure,
		why: "the configuration for a first boot is text and bytes, the same for every way to deliver it",
	},
	{
		folder: "proxmox/reference", floor: pure,
		why: "what is known of Proxmox VE judges the emulator and the client alike, so it can take nothing from either",
	},
	{
		folder: "proxmox/placement", floor: pure,
		imports: []string{"nodescaler", "pricing"},
		why:     "where a machine goes follows from what was seen and from the pool's rules, so that the fleet and the doctor answer alike",
	},
	{
		folder: "proxmox/pveapi", floor: adapter,
		imports: []string{"pricing"},
		why:     "the client knows Proxmox VE's answers and none of our machines, so that everything that asks can use it",
	},
	{
		folder: "proxmox/settings", floor: adapter,
		imports: []string{"nodescaler", "pricing", "proxmox/firstboot", "proxmox/placement", "proxmox/pveapi"},
		why:     "what operators write is checked alike for whoever makes machines by it, examines it or only reads it",
	},
	{
		folder: "proxmox/pvecode", floor: contract,
		why: "events, dashboards and alerts match on the codes: they outlive what says them",
	},
	{
		folder: "proxmox/intents", floor: adapter,
		imports: []string{"nodescaler", "pricing", "proxmox/placement", "proxmox/pvecode", "proxmox/settings"},
		why:     "what is kept of machines is read by whoever keeps it somewhere else, without what makes machines",
	},
	{
		folder: "proxmox/pve", floor: adapter,
		// The machine port is spoken in the loop's words (Order, MachineState).
		imports: []string{"nodescaler/loop", "nodescaler", "pricing", "proxmox/firstboot", "proxmox/intents", "proxmox/placement", "proxmox/pveapi", "proxmox/pvecode", "proxmox/settings"},
		tests:   []string{"proxmox/pvesim"},
		why:     "pve translates between Proxmox VE and the loop's words and decides nothing",
	},
	{
		folder: "proxmox/doctor", floor: adapter,
		// What is left over is what a fleet that only watches finds.
		imports: []string{"nodescaler", "pricing", "proxmox/firstboot", "proxmox/intents", "proxmox/placement", "proxmox/pve", "proxmox/pveapi", "proxmox/settings"},
		tests:   []string{"nodescaler/loop", "proxmox/pvesim"},
		why:     "the doctor reads and advises; the machine port makes machines without it",
	},
	{
		folder: "proxmox/pvesim", below: true, floor: world,
		imports: []string{"proxmox/timing"},
		why:     "the emulator is written from Proxmox VE's own API; if it shared code with our client, it would share its mistakes",
	},
	{
		folder: "grpc/externalgrpc", floor: contract,
		why: "a wire contract outlives the program: other people's autoscalers bind to it, not to our types",
	},
	{
		folder: "grpc/provider", floor: adapter,
		imports: []string{"grpc/externalgrpc", "nodescaler/loop", "nodescaler", "pricing"},
		why:     "the provider answers from memory it is handed; a call that waited for a machine would time out",
	},
	{
		folder: "grpc/externalscaler", floor: contract,
		why: "a wire contract outlives the program: KEDA binds to it, not to our types",
	},
	{
		folder: "grpc/scaler", floor: adapter,
		imports: []string{"grpc/externalscaler", "nodescaler/loop", "podscaler"},
		why:     "the scaler shows what was decided; one that decided anything would be a second policy",
	},
	{
		folder: "api/v1alpha1", floor: contract,
		why: "manifests outlive the program: the CRD types must not change because our own types do",
	},
	{
		folder: "api/printable", floor: pure,
		why: "what makes text harmless to look at must be within reach of all that print",
	},
	{
		folder: "dashboard", floor: adapter,
		imports: []string{"nodescaler", "nodescaler/loop", "pricing"},
		why:     "the dashboard shows a journal's records, live, recorded or simulated, and what those are made of; it cannot distinguish them",
	},
	{
		folder: "deploy", floor: contract,
		why: "deploy holds files for the binary to print, and fills in what differs between clusters; it needs no other package",
	},
	{
		folder: "docs", floor: contract,
		why: "docs holds pages for the binary to show; it needs no other package",
	},
	{
		folder: "testbed", below: true, floor: world,
		imports: []string{everythingButCmd},
		why:     "experiments drive the packages that the binary is made of; what only cmd can do, users of the packages cannot",
	},
	{
		folder: "testbed/serving", floor: pure,
		why: "how a pod serves is one law for the simulated world and the lab, so that their figures can be compared, and depends on neither",
	},
	{
		folder: "testbed/guests", below: true, floor: world,
		imports: []string{"proxmox/firstboot", "proxmox/pvesim"},
		tests:   []string{"nodescaler", "nodescaler/loop", "pricing", "proxmox/intents", "proxmox/placement", "proxmox/pve", "proxmox/pveapi", "proxmox/pvecode", "proxmox/settings", "proxmox/timing"},
		why:     "machines are run as the emulator asks, whoever asks the emulator; only the test brings the fleet along",
	},
	{
		folder: "testbed/golden", floor: aid,
		why: "what is compared with a golden file is text, whoever comes to it",
	},
	{
		folder: "testbed/must", floor: aid,
		why: "what may not fail in a test is of any kind",
	},
	{
		folder: "testbed/race", floor: aid,
		why: "whether the race detector is on is a fact of the build, and asked for in every package",
	},
	{
		folder: "testbed/seeded", floor: aid,
		why: "a seed is set alike for every package with laws",
	},
	{
		folder: "testbed/kubesim", floor: world,
		why: "the emulator is written from Kubernetes' own API; if it shared code with our adapter, it would share its mistakes",
	},
	{
		folder: "testbed/replay", floor: pure,
		imports: []string{"podscaler", "podscaler/policy", "podscaler/forecast", "podscaler/capacity", "pricing"},
		why:     "a load is played against scalers and models, without machines, a cluster or the simulated world, so that a year of minutes takes seconds",
	},
	{
		folder: "testbed/sim", floor: world,
		imports: []string{
			"nodescaler/loop", "nodescaler", "podscaler", "podscaler/forecast", "podscaler/capacity",
			"podscaler/rightsize", "pricing", "pricing/packing", "proxmox/timing", "testbed/serving",
		},
		why: "the simulated world is handed its policies and touches no adapter, so that a week in it takes seconds and repeats exactly",
	},
	{
		folder: "testbed/whatif", floor: world,
		imports: []string{
			"nodescaler/loop", "nodescaler/recording", "nodescaler", "nodescaler/policy", "podscaler", "podscaler/policy", "pricing",
			"proxmox/timing", "testbed/sim",
		},
		why: "what if is asked of a recording and the simulated world alone, so that the answer comes from the loop and from nothing beside it",
	},
	{
		folder: "cmd/plimsoll", below: true, floor: command,
		imports: []string{everything},
		why:     "the only place that knows everything",
	},
}

// roomOf returns the room that a folder belongs to, or nil.
func roomOf(folder string) *room {
	var best *room
	for i := range rooms {
		r := &rooms[i]
		if r.folder == folder {
			return r
		}
		if r.below && under(folder, r.folder) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// goesBy reports whether the room is meant by a word of the tables: its folder, its floor, or
// everything.
func (r *room) goesBy(word string) bool {
	return word == r.folder || word == string(r.floor) ||
		word == everything || word == everythingButCmd && r.floor != command
}

// Modules of others. Rooms that decide use none but the pure ones, tests also the test ones;
// those with a home are imported nowhere else; the rest is free above the loop.
var (
	pureModules    = []string{"gonum.org/v1/gonum"}
	pureModulesWhy = "what decides is arithmetic that others can read, simulate and check; it uses the standard library and gonum"

	testModules = []string{
		"github.com/chromedp", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal",
		"github.com/santhosh-tekuri/jsonschema", "go.uber.org/goleak", "pgregory.net/rapid",
	}
	testModulesWhy = "this module is for tests and must not be linked into the product"

	moduleHomes = []struct {
		modules []string
		homes   []string // folders, with those below
		why     string
	}{
		{
			[]string{"github.com/luthermonson/go-proxmox"},
			[]string{"proxmox/pveapi"},
			"go-proxmox takes some failures for success and repeats some orders; proxmox/pveapi is where that is put right, once",
		},
		{
			[]string{"k8s.io/api", "k8s.io/apimachinery"},
			[]string{"api", "cmd", "grpc/provider", "nodescaler/kube", "podscaler/signals", "testbed"},
			"Kubernetes' types stop at the adapters, so that decisions need no cluster to be read or tested",
		},
		{
			[]string{"k8s.io", "sigs.k8s.io"},
			[]string{"api", "cmd", "nodescaler/kube", "podscaler/signals", "testbed"},
			"Kubernetes' clients stop at the adapters that talk to it",
		},
		{
			[]string{"google.golang.org/grpc", "google.golang.org/protobuf"},
			[]string{"grpc", "cmd", "testbed"},
			"gRPC is one of several doors; nothing behind the door may depend on it",
		},
		{
			[]string{
				"charm.land", "github.com/charmbracelet", "github.com/spf13/cobra", "github.com/spf13/pflag",
			},
			[]string{"cmd"},
			"flags and screens belong to the binary; the packages are used without it",
		},
	}
)

// ban forbids packages of the standard library or of ours, or names of theirs, in some rooms.
type ban struct {
	rule     Rule
	in       []string // rooms by folder, or floors
	packages []string // import paths; "os/..." is os and everything below it
	only     []string // the names forbidden; with neither only nor except, the whole package
	except   []string // the names allowed, all others being forbidden
	why      string
}

// The rooms in which the same inputs must give the same outputs, byte for byte.
var repeatable = []string{string(pure), "nodescaler/loop", "testbed/sim"}

var bans = []ban{
	{
		rule: Edge, in: repeatable,
		packages: []string{"os/...", "flag", "syscall"},
		why:      "files, flags, environment and signals are read in cmd and handed in; a decision that reads them cannot be replayed",
	},
	{
		rule: Edge, in: []string{string(pure)},
		packages: []string{"net", "net/http/...", "net/rpc/...", "net/smtp"},
		why:      "what decides has no socket: it is given a snapshot, so that it can be simulated, replayed and tested",
	},
	{
		rule: Log, in: []string{string(pure)},
		packages: []string{"log/..."},
		why:      "what decides returns its reasons as data; a log line can be neither explained nor compared",
	},
	{
		rule: Log, in: []string{string(pure)},
		packages: []string{"fmt"}, only: []string{"Print", "Printf", "Println"},
		why: "what decides returns its reasons as data; standard output belongs to the command",
	},
	{
		rule: Clock, in: repeatable,
		packages: []string{"time"},
		only: []string{
			"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer",
		},
		why: "time is an argument: a second clock makes a simulated week take a week, and no replay repeats",
	},
	{
		rule: Clock, in: repeatable,
		packages: []string{"context"},
		only:     []string{"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
		why:      "a deadline reads the wall clock, which simulated time does not follow; deadlines belong to the adapters",
	},
	{
		rule: Chance, in: repeatable,
		packages: []string{"math/rand", "math/rand/v2"},
		except: []string{
			"New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf",
			"ChaCha8", "PCG", "Rand", "Source", "Source64", "Zipf",
		},
		why: "the global generator cannot be seeded for one run; take a *rand.Rand, so that the same seed is the same run",
	},
	{
		rule: Chance, in: repeatable,
		packages: []string{"crypto/rand", "hash/maphash"},
		why:      "this randomness cannot be repeated; take a *rand.Rand, so that the same seed is the same run",
	},
	{
		rule: Records, in: []string{"dashboard"},
		packages: []string{module + "/nodescaler/loop"},
		only:     []string{"Cluster", "Machines", "Signals", "New", "NewRunner", "Runner"},
		why:      "the dashboard reads the loop's records; a page that holds a port could act, and could not show a recording",
	},
}

// goroutines are forbidden like a name, but are a statement.
var goroutines = ban{
	rule: Goroutine, in: repeatable,
	why: "two goroutines finish in any order, and then the same inputs do not give the same journal; the caller owns concurrency",
}

// holds reports whether the ban is in force in a room.
func (b *ban) holds(r *room) bool {
	return slices.ContainsFunc(b.in, r.goesBy)
}

// covers reports whether an import path is one of the ban's packages.
func (b *ban) covers(target string) bool {
	return slices.ContainsFunc(b.packages, func(pattern string) bool {
		parent, tree := strings.CutSuffix(pattern, "/...")
		return target == parent || tree && under(target, parent)
	})
}

// whole reports whether the ban is on importing the package at all.
func (b *ban) whole() bool { return b.only == nil && b.except == nil }

// names reports whether the ban is on a name.
func (b *ban) names(name string) bool {
	if b.except != nil {
		return !slices.Contains(b.except, name)
	}
	return slices.Contains(b.only, name)
}
