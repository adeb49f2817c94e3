// Package approval is what people are asked before it is done: which changes rules cover, what an
// answer covers, and what is proposed, claimed and closed of it in a step.
package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Codes of what waits for people.
const (
	CodeAwaitingApproval = "AwaitingApproval" // it is done once a person has approved it
	CodeApprovalRejected = "ApprovalRejected" // a person rejected it, and for some time that holds
)

// Consent is which pools and workloads people are asked about, by name, and what is done of them
// without asking. Others are in no mode that asks.
type Consent struct {
	Pools     map[string]PoolRules     `json:",omitempty"`
	Workloads map[string]WorkloadRules `json:",omitempty"`
}

// PoolRules are what is done to a pool's machines without asking.
type PoolRules struct {
	// BuysUpTo is what the pool's machines may come to cost an hour by orders and starts of spares.
	BuysUpTo pricing.Rate
	// Repairs has machines go that failed or are broken, and Ends all others.
	Repairs, Ends bool
}

// WorkloadRules are what is done to a workload without asking.
type WorkloadRules struct {
	GrowthUpTo       int // replicas
	Shrinks, Resizes bool
}

// Does is what a proposal does.
type Does string

// What a proposal does: the first three to a pool, the others to a workload.
const (
	OrderMachines Does = "Order"
	WakeSpares    Does = "Wake"
	EndMachine    Does = "End" // drain a machine, and delete it or keep it as a spare
	GrowWorkload  Does = "Grow"
	ShrinkTo      Does = "Shrink"
	ResizePod     Does = "Resize"
)

// Change is what people are asked about. It does not change once it is proposed: its digest is in
// the name of the proposal, and where those who approve cannot write.
type Change struct {
	Kind    string       `json:"kind"`   // VMPool or WorkloadAutoscaler
	Object  string       `json:"object"` // workers, shop/web
	Does    Does         `json:"does"`
	Subject string       `json:"subject,omitempty"` // a shape, a machine or a pod
	Count   int          `json:"count,omitempty"`   // at most so many machines
	From    int          `json:"from,omitempty"`    // replicas
	To      int          `json:"to,omitempty"`
	What    string       `json:"what"`                   // in words
	Price   pricing.Rate `json:"pricePerHour,omitempty"` // that it adds
	Unit    string       `json:"currency,omitempty"`
	// Why are the reasons that it was decided for.
	Why []nodescaler.Reason `json:"why,omitempty"`
	// Made is when it was proposed, and Until when an answer comes too late.
	Made  time.Time `json:"made"`
	Until time.Time `json:"until"`
}

// The kinds of object that changes are about, as manifests name them.
const (
	aboutPool     = "VMPool"
	aboutWorkload = "WorkloadAutoscaler"
)

// Digest is by what a change is known to be as it was proposed.
func (c *Change) Digest() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // of no change: all of it can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ProposalName is that of the change's proposal, which ends with the beginning of its digest.
func (c *Change) ProposalName() string {
	const object, digest = 40, 16
	_, name, both := strings.Cut(c.Object, "/")
	if !both {
		name = c.Object
	}
	name = strings.TrimRight(name[:min(len(name), object)], "-.")
	return fmt.Sprintf("%s-%s-%s", name, strings.ToLower(string(c.Does)), c.Digest()[:digest])
}

// plain is text that objects can hold: short, and without characters that steer a terminal.
func plain(text string) string {
	const limit = 1000
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// ProposalPhase is how far a proposal is.
type ProposalPhase string

// The phases of a proposal. All but Open are final.
const (
	ProposalOpen     ProposalPhase = "Open"
	ProposalFollowed ProposalPhase = "Followed" // it was approved, and that was claimed to be done
	ProposalRejected ProposalPhase = "Rejected"
	ProposalExpired  ProposalPhase = "Expired"
	ProposalOutgrown ProposalPhase = "Outgrown" // it does not follow any more from what is observed
	ProposalIgnored  ProposalPhase = "Ignored"  // it is not what was proposed, or by others
)

// Proposal is a change that people are asked about, as it is in the cluster.
type Proposal struct {
	ProposalRef
	Change
	// Digest and Phase are written by us alone; they are empty where we have written nothing.
	Digest string
	Phase  ProposalPhase
	Answer *Answer `json:",omitempty"`
}

// ProposalRef is which proposal is meant, and which version of it was observed.
type ProposalRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Version   string `json:"version,omitempty"`
}

// Answer is what a person said.
type Answer struct {
	Approved bool
	By       string
}

// ours reports whether the proposal is one of ours, and as it was proposed.
func (p *Proposal) ours() bool {
	return p.Digest != "" && p.Digest == p.Change.Digest() && p.Name == p.ProposalName()
}

// Asked is what is asked in a step, and what follows from answers.
type Asked struct {
	// Claim are approvals that are followed, before anything is done by them.
	Claim []Claim `json:"claim,omitempty"`
	// Propose are new proposals, Close those that nothing is done by any more, and Remove those
	// that have been closed for long.
	Propose []Change      `json:"propose,omitempty"`
	Close   []Closed      `json:"close,omitempty"`
	Remove  []ProposalRef `json:"remove,omitempty"`
}

// Claim is an approval that is followed. Where it cannot be claimed, nothing of it is done.
type Claim struct {
	ProposalRef
	Actions  []int  `json:"actions,omitempty"` // of the plan, by their places
	Workload string `json:"workload,omitempty"`
	Does     Does   `json:"does"`
}

// Closed is a proposal that is closed, and why.
type Closed struct {
	ProposalRef
	Phase ProposalPhase `json:"phase"`
	Why   string        `json:"why"`
}
