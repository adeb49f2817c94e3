package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/pricing"
)

func newManifestsOpenCostCommand(env *cli.Env) *cobra.Command {
	var namespace, name, prices string
	cmd := &cobra.Command{
		Use:   "opencost",
		Short: "Print the prices in OpenCost's format",
		Long: `Print a ConfigMap with a price book's prices in OpenCost's format: an hour of a vCPU and of a GiB of memory. OpenCost
has one price of each, so a book with several is refused. The disk price of stopped machines is omitted, with a note.

'plimsoll testbed rke2 costs' reports if your OpenCost takes hourly prices for monthly ones.`,
		Example: "  plimsoll manifests opencost --prices prices.yaml | kubectl apply -f -\n" +
			"  helm install opencost … --set opencost.customPricing.enabled=true,opencost.customPricing.createConfigmap=false",
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			book := pricing.DefaultBook()
			if prices != "" {
				var err error
				if book, err = resources.ReadPrices(env, "--prices", prices); err != nil {
					return err
				}
			}
			if prices != "" && book.PerDiskGB != 0 {
				fmt.Fprintf(env.Stderr, "note: %s: pricePerDiskGBHour is omitted: it is of machines that are stopped, which OpenCost does not see\n", prices)
			}
			if err := printOpenCost(env.Stdout, namespace, name, book); err != nil {
				return cli.WithCode(cli.ExitConfig, fmt.Errorf("%s: %w", prices, err))
			}
			return nil
		},
	}
	cli.AddFlag(cmd, &namespace, cli.ParseNamespace, "namespace", "name", "opencost", "the namespace that OpenCost runs in")
	cli.AddFlag(cmd, &name, cli.ParseName, "name", "name", "custom-pricing-model", "the name of the ConfigMap, as OpenCost's chart expects it")
	cmd.Flags().StringVar(&prices, "prices", "", "a price book, a YAML `file` (default: a unit per vCPU-hour and per GB-hour)")
	return cmd
}

// printOpenCost prints the ConfigMap.
func printOpenCost(w io.Writer, namespace, name string, book *pricing.Book) error {
	text, err := openCostPrices(book)
	if err != nil {
		return err
	}
	out, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Data:       map[string]string{"default.json": string(text) + "\n"},
	})
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// openCostPrices is a book as OpenCost's default.json. What the book has no price for costs nothing
// there.
func openCostPrices(book *pricing.Book) ([]byte, error) {
	var faults []error
	for _, has := range []struct {
		key   string
		there bool
	}{
		{"derived", book.Derived != nil},
		{"pricePerMachineHour", book.PerMachine != 0},
		{"pricePerHostHour", book.PerHost != 0},
		{"hosts", len(book.Hosts) > 0},
		{"shapes", len(book.Shapes) > 0},
		{"tariffs", len(book.Tariffs) > 0},
	} {
		if has.there {
			faults = append(faults, fmt.Errorf("%s: must be absent, for OpenCost has one price of a vCPU and one of memory for all machines and times", has.key))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	memory := big.NewRat(int64(book.PerGiB), int64(pricing.Unit))
	if book.PerGB != 0 {
		memory = new(big.Rat).Mul(big.NewRat(int64(book.PerGB), int64(pricing.Unit)), big.NewRat(int64(pricing.GiB), int64(pricing.GB)))
	}
	cpu, ram := book.PerVCPU.String(), strings.TrimRight(strings.TrimRight(memory.FloatString(9), "0"), ".")
	return json.MarshalIndent(map[string]string{
		"provider": "custom", "description": "Prices of Plimsoll, in " + book.Unit + " an hour", "CPU": cpu, "spotCPU": cpu, "RAM": ram, "spotRAM": ram,
		"GPU": "0", "storage": "0", "zoneNetworkEgress": "0", "regionNetworkEgress": "0", "internetNetworkEgress": "0",
		"natGatewayEgress": "0", "natGatewayIngress": "0", "firstFiveForwardingRulesCost": "0", "additionalForwardingRuleCost": "0", "LBIngressDataCost": "0",
	}, "", "  ")
}
