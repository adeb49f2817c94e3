package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/pricing"
)

// priceQuestion is what the price verb is asked.
type priceQuestion struct {
	shape  pricing.Shape
	host   string
	at     time.Time
	length time.Duration
}

// priceAnswer is what a machine costs, and why.
type priceAnswer struct {
	Currency string         `json:"currency"`
	Amount   pricing.Micros `json:"amount"`
	// HostAmount is what the host's fixed part comes to, once, besides.
	HostAmount pricing.Micros `json:"hostAmount,omitempty"`
	For        string         `json:"for"`
	At         time.Time      `json:"at"`
	Shape      pricing.Shape  `json:"shape"`
	Host       string         `json:"host,omitempty"`
	pricing.Quote
	changes bool // the rate does, with the tariff
}

// exampleBook shows what a price book may have.
const exampleBook = `  currency: EUR
  pricePerVCPUHour: 0.0316
  pricePerGBHour: 0.0042       # or pricePerGiBHour
  pricePerDiskGBHour: 0.0001   # for each GB of disk of a machine that is stopped
  pricePerMachineHour: 0.03    # for each machine that runs, besides: about a vCPU's price
  pricePerHostHour: 0.01       # for each host, while it carries any machine
  hosts:
    pve2: {pricePerVCPUHour: 0.02, pricePerHostHour: 0}
  shapes:
    large: {pricePerHour: 0.25}
  timeZone: Europe/Berlin
  tariffs:
    - {name: night, from: "22:00", to: "06:00", percent: 60}
    - {name: weekend, from: "06:00", to: "22:00", weekdays: [Sat, Sun], pricePerVCPUHour: 0.02}

In place of the prices per vCPU and GB, they can be derived from power and hardware:

  derived:
    wattsPerHost: 60           # or wattsPerVCPU and wattsPerGB
    pricePerKWh: 0.30          # tariffs change this one, by percent or by pricePerKWh
    hardwarePrice: 900
    amortiseMonths: 48
    hostVCPU: 16               # what a host has to give in all, to share its cost out over
    hostMemory: 64GB
    vCPUSharePercent: 50       # the part that the vCPUs bear; memory bears the rest`

func newPriceCommand(env *cli.Env) *cobra.Command {
	var (
		ask    priceQuestion
		file   string
		format cli.Output
	)
	cmd := &cobra.Command{
		Use:   "price --vcpu N --memory SIZE",
		Short: "Show how the price of a machine is calculated",
		Long: "Show what a machine costs and how that is calculated. GB is 10⁹ bytes, GiB is 2³⁰.\n\n" +
			"Without a price book, a vCPU-hour and a GB-hour cost one unit each. A price book is a YAML file, or a\n" +
			"manifest of a PriceBook with these keys in its spec:\n\n" + exampleBook,
		Example: "  plimsoll price --vcpu 2 --memory 8GB --for 30m\n" +
			"  plimsoll price --vcpu 2 --memory 8GiB --book prices.yaml --host pve1 --at 2026-03-01T22:00:00+01:00",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.RequireFlags(cmd, "vcpu", "memory"); err != nil {
				return err
			}
			book, err := readBook(env, file)
			if err != nil {
				return err
			}
			if ask.at.IsZero() {
				ask.at = env.Now().Truncate(time.Second)
			}
			answer, err := answerPrice(book, ask)
			if err != nil {
				return err
			}
			noteUnpriced(env.Stderr, book, ask)
			return format.Print(env.Stdout, answer, answer.table)
		},
	}
	cli.AddFlag(cmd, &ask.shape.CPU, cli.Positive(pricing.ParseMilliCPU), "vcpu", "cores", "", "the machine's vCPUs, such as 2, 0.5 or 500m")
	cli.AddFlag(cmd, &ask.shape.Memory, cli.Positive(pricing.ParseBytes), "memory", "size", "", "the machine's memory, such as 8GB or 8GiB")
	cli.AddFlag(cmd, &ask.length, cli.Positive(cli.ParseDuration), "for", "duration", "1h", "how long the machine runs")
	cli.AddFlag(cmd, &ask.at, cli.ParseTime, "at", "time", "", "when it starts, such as 2026-03-01T12:00:00Z (default now)")
	cmd.Flags().StringVar(&ask.shape.Name, "shape-name", "", "the name of the shape, which may have a price of its own")
	cmd.Flags().StringVar(&ask.host, "host", "", "the host, which may have prices of its own")
	cmd.Flags().StringVar(&file, "book", "", "the price book, a YAML `file` (default: one unit per vCPU-hour and per GB-hour)")
	cli.AddOutput(cmd, &format)
	return cmd
}

// noteUnpriced says so when the host or shape that was named has no price of its own: it may be
// a slip, and the answer is then that of any other.
func noteUnpriced(w io.Writer, book *pricing.Book, ask priceQuestion) {
	if _, ok := book.Hosts[ask.host]; ask.host != "" && !ok {
		fmt.Fprintf(w, "note: --host: the book has no prices of its own for %q\n", ask.host)
	}
	if _, ok := book.Shapes[ask.shape.Name]; ask.shape.Name != "" && !ok {
		fmt.Fprintf(w, "note: --shape-name: the book has no price of its own for %q\n", ask.shape.Name)
	}
}

// readBook reads a price book, or returns the default one if there is no file.
func readBook(env *cli.Env, file string) (*pricing.Book, error) {
	if file == "" {
		return pricing.DefaultBook(), nil
	}
	return resources.ReadPrices(env, "--book", file)
}

// answerPrice prices a machine that runs for a while, through changes of tariff.
func answerPrice(book *pricing.Book, ask priceQuestion) (*priceAnswer, error) {
	answer := &priceAnswer{
		Currency: book.Unit, For: pricing.Short(ask.length), At: ask.at,
		Shape: ask.shape, Host: ask.host, Quote: book.Quote(ask.shape, ask.host, ask.at),
	}
	ledger := pricing.NewLedger(book)
	if err := ledger.Start("machine", ask.shape, ask.host, ask.at); err != nil {
		return nil, err
	}
	for _, share := range ledger.Each(ask.at, ask.at.Add(ask.length)) {
		if share.Host == "" {
			answer.Amount = share.Cost
		} else {
			answer.HostAmount = share.Cost
		}
	}
	answer.explain(book, ask)
	return answer, nil
}

// stretch is all the time that one tariff is in force.
type stretch struct {
	quote  pricing.Quote
	length time.Duration
}

// explain completes the working of the first moment with the tariffs that follow, and with how
// the rates come to the amounts.
func (a *priceAnswer) explain(book *pricing.Book, ask priceQuestion) {
	var stretches []stretch
	index := make(map[*pricing.Tariff]int)
	for p := range book.Periods(ask.at, ask.at.Add(ask.length)) {
		i, seen := index[p.Tariff]
		if !seen {
			i = len(stretches)
			index[p.Tariff] = i
			stretches = append(stretches, stretch{quote: book.Quote(ask.shape, ask.host, p.From)})
		}
		stretches[i].length += p.To.Sub(p.From)
	}
	a.changes = len(stretches) > 1
	for _, s := range stretches[1:] {
		a.Derivation = append(a.Derivation, s.quote.Derivation...)
	}
	sum := func(rate func(pricing.Quote) pricing.Rate) string {
		var terms []string
		for _, s := range stretches {
			terms = append(terms, fmt.Sprintf("%s %s/h × %s", rate(s.quote), book.Unit, pricing.Short(s.length)))
		}
		return strings.Join(terms, " + ")
	}
	a.Derivation = append(a.Derivation, pricing.Line{
		What: "amount", How: sum(func(q pricing.Quote) pricing.Rate { return q.Rate }), Value: a.Amount.String() + " " + book.Unit,
	})
	if a.HostAmount != 0 {
		a.Derivation = append(a.Derivation, pricing.Line{
			What: "amount of host " + ask.host, How: sum(func(q pricing.Quote) pricing.Rate { return q.HostRate }), Value: a.HostAmount.String() + " " + book.Unit,
		})
	}
}

func (a *priceAnswer) table(w io.Writer) {
	atFirst := ""
	if a.changes {
		atFirst = " at first"
	}
	fmt.Fprintf(w, "%s %s for %s, at %s %s/h%s\n", a.Amount, a.Currency, a.For, a.Rate, a.Currency, atFirst)
	if a.HostAmount != 0 {
		fmt.Fprintf(w, "%s %s more for host %s, if the machine is its only one\n", a.HostAmount, a.Currency, a.Host)
	}
	fmt.Fprintln(w)
	for _, l := range a.Derivation {
		fmt.Fprintf(w, "%s\t= %s\t= %s\n", l.What, l.How, l.Value)
	}
}
