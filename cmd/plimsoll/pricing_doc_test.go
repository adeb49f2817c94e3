package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const pricingDocument = "../../docs/pricing.md"

var fenced = regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$")

// TestPricingDocumentTellsWhatHappens runs the document's command lines with the files that it
// shows, on the cluster that it describes, and compares what they print.
func TestPricingDocumentTellsWhatHappens(t *testing.T) {
	document := must.Get(os.ReadFile(pricingDocument))(t)
	config := pricingCluster(t)
	files := map[string]string{}
	updated := fenced.ReplaceAllStringFunc(string(document), func(block string) string {
		parts := fenced.FindStringSubmatch(block)
		if name, ok := strings.CutPrefix(strings.SplitN(parts[2], "\n", 2)[0], "# "); ok {
			files[name] = parts[2]
		}
		if parts[1] == "yaml" {
			return block
		}
		line, _, _ := strings.Cut(parts[2], "\n")
		return "```console\n" + line + "\n" + printed(t, strings.TrimPrefix(line, "$ plimsoll "), files, config) + "```"
	})
	if *update {
		must.Do(t, os.WriteFile(pricingDocument, []byte(updated), 0o644))
	}
	if diff := cmp.Diff(string(document), updated); diff != "" && !*update {
		t.Errorf("(-document +program, -update writes it):\n%s", diff)
	}
}

// pricingCluster serves the document's cluster, and returns a kubeconfig that leads to it.
func pricingCluster(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/pricing-cluster.yaml"))(t)
	k := must.Get(newKubeAPI(string(text)))(t)
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "config")
	must.Do(t, os.WriteFile(name, kubeconfigOf(server), 0o600))
	return name
}

func printed(t *testing.T, line string, files map[string]string, config string) string {
	t.Helper()
	var out, errs bytes.Buffer
	env := &cli.Env{
		Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(key string) string { return map[string]string{"KUBECONFIG": config}[key] },
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist)
		},
		Now: func() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) },
	}
	if code := run(t.Context(), env); code != cli.ExitDone {
		t.Fatalf("plimsoll %s: exit %d: %s", line, code, errs.String())
	}
	return out.String()
}

// TestPricingDocumentHasAPriceBook reads the document's manifest as the cluster would be read.
func TestPricingDocumentHasAPriceBook(t *testing.T) {
	document := must.Get(os.ReadFile(pricingDocument))(t)
	for _, parts := range fenced.FindAllStringSubmatch(string(document), -1) {
		if !strings.Contains(parts[2], "kind: PriceBook") {
			continue
		}
		text := must.Get(yaml.YAMLToJSON([]byte(parts[2])))(t)
		var book v1alpha1.PriceBook
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		must.Do(t, decoder.Decode(&book))
		if _, err := resources.Book(&book); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("there is no PriceBook")
}
