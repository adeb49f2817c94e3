package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/pricing"
)

// receiverSettings is an address that notices are posted to.
type receiverSettings struct {
	Name string `json:"name" strict:"required"`
	// URL is where notices are posted to. Where it holds a secret, it is in a file of its own.
	URL     string `json:"url,omitempty" strict:"oneof=url"`
	URLFile string `json:"urlFile,omitempty" strict:"oneof=url"`
	// TokenFile holds a bearer token.
	TokenFile string `json:"tokenFile,omitempty"`
	// Format is JSON or Slack; empty is JSON.
	Format notify.Format `json:"format,omitempty"`
	// All is for notices of every object; others get only those of WorkloadAutoscalers that name
	// them.
	All bool `json:"all,omitempty"`
	// Conditions are those that it gets, and Scaled for changes of replicas; empty is all.
	Conditions []string `json:"conditions,omitempty"`
}

// checkReceivers returns what is wrong with the receivers.
func checkReceivers(all []receiverSettings) []error {
	var faults pricing.Faults
	seen := map[string]bool{}
	known := append(operator.ToldOf(), string(notify.Scaled))
	for i, r := range all {
		must := func(kept bool, key, rule, was string) {
			faults.Must(kept, fmt.Sprintf("notifications[%d].%s", i, key), rule, strconv.Quote(was))
		}
		must(r.Name != "" && !seen[r.Name], "name", "a name of its own", r.Name)
		seen[r.Name] = true
		if r.URL != "" && !isWebAddress(r.URL) {
			faults = append(faults, pricing.NewFault(fmt.Sprintf("notifications[%d].url", i), "must be an http or https address; it is not shown, since it may hold a secret"))
		}
		must(slices.Contains([]notify.Format{"", notify.JSON, notify.Slack}, r.Format), "format", "JSON or Slack", string(r.Format))
		for j, c := range r.Conditions {
			must(slices.Contains(known, c), fmt.Sprintf("conditions[%d]", j), "one of "+strings.Join(known, ", "), c)
		}
	}
	return faults
}

func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// notifier is the sender to the receivers, or nil without receivers.
func (r *clusterRun) notifier() (*notify.Sender, error) {
	var receivers []notify.Receiver
	for i, s := range r.Notifications {
		one := notify.Receiver{Name: s.Name, URL: s.URL, Format: s.Format, All: s.All, Conditions: s.Conditions}
		one.Renew = func(to *notify.Receiver) error { return r.readSecrets(i, to) }
		if err := one.Renew(&one); err != nil {
			return nil, cli.WithCode(cli.ExitConfig, err)
		}
		receivers = append(receivers, one)
	}
	if receivers == nil {
		return nil, nil
	}
	return notify.NewSender(receivers, &http.Client{}, r.logger()), nil
}

// readSecrets reads the address and the token of the receiver of a number, where they are in files.
func (r *clusterRun) readSecrets(i int, to *notify.Receiver) (err error) {
	s := &r.Notifications[i]
	if s.URLFile != "" {
		if to.URL, err = r.secret(s.URLFile); err == nil && !isWebAddress(to.URL) {
			err = fmt.Errorf("%s: must hold an http or https address", s.URLFile)
		}
		if err != nil {
			return pricing.NewFault(fmt.Sprintf("notifications[%d].urlFile", i), err.Error())
		}
	}
	if s.TokenFile != "" {
		if to.Token, err = r.secret(s.TokenFile); err != nil {
			return pricing.NewFault(fmt.Sprintf("notifications[%d].tokenFile", i), err.Error())
		}
	}
	return nil
}

// secret is the one line of a file.
func (r *clusterRun) secret(name string) (string, error) {
	data, err := r.readBeside(name)
	return connect.Trimmed(data), err
}
