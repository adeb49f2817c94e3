package provider

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/pricing"
)

// Where a v1.Pod has what it asks for. A pod is not decoded whole: that would read every quantity
// in it, and one of a few bytes, such as 1e2000000000, is as many digits to go through.
const (
	specOfPod            protowire.Number = 2
	containersOfSpec     protowire.Number = 2
	initContainersOfSpec protowire.Number = 20
	overheadOfSpec       protowire.Number = 32
	resourcesOfSpec      protowire.Number = 40
	resourcesOfContainer protowire.Number = 8
	restartOfContainer   protowire.Number = 24
	requestsOfResources  protowire.Number = 2
	keyOfEntry           protowire.Number = 1
	valueOfEntry         protowire.Number = 2
	textOfQuantity       protowire.Number = 1
)

// requests is the room that a pod asks for: of its containers together or of the largest of those
// that run before them, whichever is more, with those that keep running beside. What the pod asks
// for as a whole is in place of that.
func requests(text []byte) (pricing.Resources, error) {
	var all, first, beside pricing.Resources
	whole, overhead := demand{}, demand{}
	err := fields(text, func(n protowire.Number, spec []byte) error {
		if n != specOfPod {
			return nil
		}
		return fields(spec, func(n protowire.Number, value []byte) error {
			switch n {
			case containersOfSpec:
				mine, _, err := container(value)
				all = plus(all, mine)
				return err
			case initContainersOfSpec:
				mine, stays, err := container(value)
				if stays {
					beside = plus(beside, mine)
				} else {
					first = most(first, plus(mine, beside))
				}
				return err
			case overheadOfSpec:
				return overhead.add(value)
			case resourcesOfSpec:
				return whole.addRequests(value)
			default:
				return nil
			}
		})
	})
	if err != nil {
		return pricing.Resources{}, status.Errorf(codes.InvalidArgument, "pod_bytes: must be a v1.Pod, was not: %s", err)
	}
	room := most(plus(all, beside), first)
	if cpu, given := whole[corev1.ResourceCPU]; given {
		room.CPU = pricing.MilliCPU(cpu)
	}
	if memory, given := whole[corev1.ResourceMemory]; given {
		room.Memory = pricing.Bytes(memory)
	}
	return plus(room, overhead.room()), nil
}

// container is what a container asks for, and whether it keeps running beside those that come after
// it.
func container(text []byte) (room pricing.Resources, stays bool, err error) {
	mine := demand{}
	err = fields(text, func(n protowire.Number, value []byte) error {
		switch n {
		case resourcesOfContainer:
			return mine.addRequests(value)
		case restartOfContainer:
			stays = string(value) == string(corev1.ContainerRestartPolicyAlways)
			return nil
		default:
			return nil
		}
	})
	return mine.room(), stays, err
}

// demand is how much is asked for of CPU, in thousandths, and of memory, in bytes.
type demand map[corev1.ResourceName]int64

func (a demand) room() pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(a[corev1.ResourceCPU]), Memory: pricing.Bytes(a[corev1.ResourceMemory])}
}

// addRequests adds the requests of a v1.ResourceRequirements.
func (a demand) addRequests(text []byte) error {
	return fields(text, func(n protowire.Number, entry []byte) error {
		if n != requestsOfResources {
			return nil
		}
		return a.add(entry)
	})
}

// add adds an entry of a v1.ResourceList.
func (a demand) add(entry []byte) error {
	var name corev1.ResourceName
	var amount string
	err := fields(entry, func(n protowire.Number, value []byte) error {
		if n == keyOfEntry {
			name = corev1.ResourceName(value)
		}
		if n != valueOfEntry {
			return nil
		}
		return fields(value, func(n protowire.Number, text []byte) error {
			if n == textOfQuantity {
				amount = string(text)
			}
			return nil
		})
	})
	unit, counts := units[name]
	if err != nil || !counts {
		return err
	}
	if a[name], err = count(amount, unit); err != nil {
		return fmt.Errorf("request of %s: %w", name, err)
	}
	return nil
}

// units are what is counted, and in what.
var units = map[corev1.ResourceName]resource.Scale{corev1.ResourceCPU: resource.Milli, corev1.ResourceMemory: 0}

// The longest quantity that is read, and the longest exponent of one. The API server writes none as
// long.
const (
	quantityLen = 64
	exponentLen = 3
)

// count is a quantity in whole units, rounded up, from 0 to as many as can be counted. Quantity's
// own ways of encoding them wrap around.
func count(text string, unit resource.Scale) (int64, error) {
	if text == "" {
		return 0, nil
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > quantityLen || len(strings.TrimLeft(exponent, "+-")) > exponentLen {
		return 0, fmt.Errorf("must be a quantity of at most %d characters, %d of them an exponent, was %.70q", quantityLen, exponentLen, text)
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("must be a quantity, was %q", text)
	}
	switch {
	case q.Sign() <= 0:
		return 0, nil
	case q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, unit)) >= 0:
		return math.MaxInt64, nil
	}
	return q.ScaledValue(unit), nil
}

// fields calls do with every field of a message that is a message, or a text, itself.
func fields(message []byte, do func(n protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(n, kind, message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := do(n, value); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}

func most(a, b pricing.Resources) pricing.Resources {
	return pricing.Resources{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory)}
}

// plus adds up what strangers ask for: more than can be counted is as much as can be.
func plus(a, b pricing.Resources) pricing.Resources {
	sum := a.Plus(b)
	if sum.CPU < a.CPU {
		sum.CPU = math.MaxInt64
	}
	if sum.Memory < a.Memory {
		sum.Memory = math.MaxInt64
	}
	return sum
}
