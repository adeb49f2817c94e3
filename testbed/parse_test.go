package testbed

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out as what is expected; read the difference before keeping it")

// files returns the files of a folder that end so, and fails without any.
func files(t *testing.T, folder, end string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", folder, "*"+end))
	if err != nil || len(all) == 0 {
		t.Fatalf("no %s in %s: %v", end, folder, err)
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
}

func readGood(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join("testdata", "good", name+".yaml"))
}

func TestEveryFaultOfAFileIsNamed(t *testing.T) {
	for _, file := range files(t, "bad", ".yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Parse(read(t, file))
			if err == nil {
				t.Fatal("it was accepted")
			}
			// Which policies there are is not what the files are about.
			names := strings.Join(podpolicy.Names(), ", ")
			got, golden := strings.ReplaceAll(err.Error(), names, "POLICIES")+"\n", strings.TrimSuffix(file, ".yaml")+".txt"
			if *rewrite {
				must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			if want := string(read(t, golden)); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestGoodFilesRun(t *testing.T) {
	for _, file := range files(t, "good", ".yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			e := must.Get(Parse(read(t, file)))(t)
			r := must.Get(Run(t.Context(), e, Options{}))(t)
			if want := len(e.Policies) * (len(e.Load.Users) + len(e.Load.Scenarios)) * e.Trials; len(r.Runs) != want {
				t.Errorf("%d runs, want %d", len(r.Runs), want)
			}
			for _, run := range r.Runs {
				if run.Requests == 0 || run.CostUnits <= 0 || run.VMHours <= 0 || run.PodMinutes <= 0 {
					t.Errorf("nothing happened: %+v", run)
				}
			}
		})
	}
}

func TestTheCatalogueIsInOrder(t *testing.T) {
	for _, name := range Names() {
		data := must.Get(File(name))(t)
		if Replays(data) {
			continue // testbed/replay/hpaplus reads it
		}
		e, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Name != name {
			t.Errorf("file %s has experiment %s", name, e.Name)
		}
	}
	var unknown *UnknownExperiment
	if _, err := File("slo-cots"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "did you mean slo-cost?") {
		t.Errorf("an unknown experiment is answered with %v", err)
	}
}
