package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/spf13/cobra"
)

// doctorAnswer is what the doctor found.
type doctorAnswer struct {
	OK      int         `json:"ok"`
	Warn    int         `json:"warn"`
	Fail    int         `json:"fail"`
	Skipped int         `json:"skipped"`
	Checks  []pve.Check `json:"checks"`
}

func newDoctorCommand(env *Env) *cobra.Command {
	var (
		file   string
		format output
	)
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Look whether machines could be made, and say what mends it",
		Long: "Look at everything that machines are made with on Proxmox VE: the connection, the cluster, the token's rights,\n" +
			"templates, storages, networks, pools and machines. Whatever is wrong is told with the command or the line that\n" +
			"mends it. Nothing is changed: the doctor only reads. Where the file names no pools, those are looked at that the\n" +
			"cluster's VMPools describe.\n\n" +
			"Exits with 1 if something must be mended first, with 3 if the configuration file is wrong, and with 4 if no\n" +
			"endpoint answers. Warnings are no failure.",
		Example: "  plimsoll doctor --config site.yaml\n" +
			"  plimsoll doctor --config site.yaml -o json | jq '.checks[] | select(.status == \"fail\")'",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireFlags(cmd, "config"); err != nil {
				return err
			}
			return examine(cmd.Context(), env, file, format)
		},
	}
	addConfig(cmd, &file)
	addOutput(cmd, &format)
	return cmd
}

// examine makes all checks and prints them.
func examine(ctx context.Context, env *Env, file string, format output) error {
	// As the provider does: with pools in the file, or with those that the cluster describes.
	site, err := readFor(env, file, &siteFile{parts: []string{partProvider}, examining: true})
	if err != nil {
		return err
	}
	known := site.checks()
	if site.inCluster() {
		more, err := (&running{site}).poolsInCluster(ctx)
		if err != nil {
			return err
		}
		known = append(known, more...)
	}
	connection := site.connection()
	connection.Warn = nil // the checks say it
	doctor := pve.Doctor{Site: &site.Site, Connection: connection, Known: known}
	report, err := doctor.Examine(ctx)
	if report == nil {
		return misconfigured(file, err)
	}
	report.Checks = append(report.Checks, (&running{site}).handOffInCluster(ctx)...)
	answer := &doctorAnswer{
		OK: report.Count(pve.OK), Warn: report.Count(pve.Warn), Fail: report.Count(pve.Fail), Skipped: report.Count(pve.Skipped),
		Checks: report.Checks,
	}
	if printed := format.print(env.Stdout, answer, answer.table); printed != nil {
		return printed
	}
	switch {
	case err != nil:
		return fmt.Errorf("interrupted: %w", err)
	case !report.Reached:
		return withCode(exitUnreachable, errors.New("no endpoint answers"))
	case answer.Fail > 0:
		return fmt.Errorf("%s must be mended first", count(answer.Fail, "thing", "things"))
	}
	return nil
}

// checks are what can be said of the files without any call.
func (s *siteFile) checks() []pve.Check {
	mode, open := s.openToken()
	if !open {
		return nil
	}
	return []pve.Check{{
		ID: "connection.tokenFile", Subject: s.token.name, Status: pve.Warn,
		Text: fmt.Sprintf("everybody on this machine can read the token (mode %04o)", mode),
		Mend: []string{"chmod 600 " + s.token.name},
	}}
}

// signs stand before a check's line. The status is told in a word, too, where it is no good one.
var signs = map[pve.Status]string{pve.OK: "✓", pve.Warn: "! warning:", pve.Fail: "✗ failed:", pve.Skipped: "- skipped:"}

func (a *doctorAnswer) table(w io.Writer) {
	group := ""
	for i := range a.Checks {
		c := &a.Checks[i]
		if g := c.Group(); g != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = g
			fmt.Fprintln(w, strings.ToUpper(g[:1])+g[1:])
		}
		fmt.Fprintln(w, " ", signs[c.Status], c.Text)
		for _, m := range c.Mend {
			fmt.Fprintln(w, "     →", m)
		}
	}
	fmt.Fprintf(w, "\n%d ok, %s, %d failed, %d skipped\n", a.OK, count(a.Warn, "warning", "warnings"), a.Fail, a.Skipped)
}

// count is a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
