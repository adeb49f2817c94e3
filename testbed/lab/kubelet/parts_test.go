package kubelet

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestImagesAndCommandsHaveNames(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/plimsoll/plimsoll:v0.1.0": "plimsoll", "localhost:5000/k6": "k6", "k6@sha256:00": "k6",
		"a.example/b/k6:1@sha256:00": "k6", "/usr/bin/k6": "k6",
	} {
		if got := nameOf(image); got != want {
			t.Errorf("%s is %q, want %q", image, got, want)
		}
	}
}

func TestVariablesAreExpandedAsInKubernetes(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}, {Name: "A", Value: "2"}}
	for text, want := range map[string]string{
		"$(A)": "2", "x$(A)y$(B)": "x2y$(A)", "$$(A)": "$(A)", "$(C)": "$(C)", "$A": "$A", "$(A": "$(A", "a$": "a$", "$$$(A)": "$2",
	} {
		if got := expand(text, env); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestMountPathsAreReplacedWhereTheyStandAlone(t *testing.T) {
	p := paths{{"/etc/app/deep", "/D"}, {"/etc/app", "/A"}}
	for text, want := range map[string]string{
		"/etc/app": "/A", "--config=/etc/app/c.yaml": "--config=/A/c.yaml", "/etc/app/deep/x": "/D/x", "/etc/app/deeper": "/A/deeper",
		"/etc/apple": "/etc/apple", "/my/etc/app": "/my/etc/app", "a:/etc/app:/etc/app/deep": "a:/A:/D", "file:///etc/app/x": "file:///A/x",
		"/etc/app.d": "/etc/app.d", "http://host/etc/app": "http://host/etc/app",
	} {
		if got := p.in(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestPlimsollListensAtItsPodAndUsesItsAccount(t *testing.T) {
	as := Pod{Namespace: "plimsoll", Name: "p-1", IP: "127.70.0.1", Kubeconfig: "/k"}
	for text, want := range map[string]string{
		"metrics: :8080":                      "{kubeconfig: /k, namespace: plimsoll, metrics: '127.70.0.1:8080'}",
		"{metrics: '0.0.0.0:8080', owner: a}": "{kubeconfig: /k, namespace: plimsoll, metrics: '127.70.0.1:8080', owner: a}",
		"metrics: 127.0.0.1:8080":             "{kubeconfig: /k, namespace: plimsoll, metrics: '127.0.0.1:8080'}",
		"provider: {listen: ':8086', expander: ':8087', plaintext: x}": "{kubeconfig: /k, namespace: plimsoll, provider: {listen: '127.70.0.1:8086', expander: '127.70.0.1:8087', plaintext: x}}",
	} {
		data, err := Plimsoll("").File(as, "/etc/plimsoll/config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		if err := yaml.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if data, err := Plimsoll("").File(as, "/etc/plimsoll/token", []byte("a: b")); err != nil || string(data) != "a: b" {
		t.Errorf("other files become %q, %v", data, err)
	}
	if _, err := Plimsoll("").File(as, "/etc/plimsoll/config.yaml", []byte("a: [")); err == nil {
		t.Error("what cannot be read is passed on")
	}
}

// Two files of a volume always agree, to whoever opens the folder that is shown once and reads both
// there. Who has found where the folder is and comes too late to open it, for it was replaced
// meanwhile, finds the next: so it is with a real kubelet's.
func TestVolumesChangeAllAtOnce(t *testing.T) {
	folder := t.TempDir()
	var v volume
	write := func(text string) {
		if err := v.put(folder, map[string]file{"a": {[]byte(text), 0o644}, "sub/b": {[]byte(text), 0o400}}); err != nil {
			t.Fatal(err)
		}
	}
	write("0")
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for missed := 0; ; {
			select {
			case <-stop:
				return
			default:
			}
			root, err := os.OpenRoot(filepath.Join(folder, current))
			if errors.Is(err, fs.ErrNotExist) && missed < 10 {
				missed++
				continue
			}
			if err != nil {
				t.Error("there is a moment without files:", err)
				return
			}
			missed = 0
			a, errA := root.ReadFile("a")
			b, errB := root.ReadFile("sub/b")
			_ = root.Close()
			if errA == nil && errB == nil && !bytes.Equal(a, b) {
				t.Errorf("%s and %s", a, b)
				return
			}
		}
	})
	for i := range 200 {
		write(strings.Repeat("x", i))
	}
	close(stop)
	reading.Wait()

	if err := v.put(folder, map[string]file{"c": {nil, 0o644}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	all, _ := os.ReadDir(folder)
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), "..") {
			names = append(names, e.Name())
		}
	}
	if diff := cmp.Diff([]string{"c"}, names); diff != "" || len(all) != 3 {
		t.Errorf("left: %v\n%s", all, diff)
	}
	if err := v.put(folder, map[string]file{"../out": {nil, 0o644}}); err == nil {
		t.Error("a file was written outside")
	}
}

func TestLogsAreReadAsAsked(t *testing.T) {
	var log bytes.Buffer
	if err := stamp(&log, strings.NewReader("one\ntwo\n\nfour")); err != nil {
		t.Fatal(err)
	}
	at, _, _ := strings.Cut(log.String(), " ")
	for query, want := range map[string]string{
		"": "one\ntwo\n\nfour\n", "tailLines=1": "four\n", "tailLines=0": "", "limitBytes=5": "one\nt", "tailLines=9": "one\ntwo\n\nfour\n",
		"follow=true": "one\ntwo\n\nfour\n", "sinceTime=2100-01-01T00:00:00Z": "", "sinceTime=" + at: "one\ntwo\n\nfour\n",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		ask, err := readWanted(values)
		if err != nil {
			t.Fatal(err)
		}
		to := httptest.NewRecorder()
		if err := ask.answer(context.Background(), to, strings.NewReader(log.String()), func() bool { return false }); err != nil {
			t.Error(err)
		}
		if got := to.Body.String(); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"follow=maybe", "tailLines=x", "sinceTime=now"} {
		values, _ := url.ParseQuery(query)
		if _, err := readWanted(values); err == nil {
			t.Errorf("%s is taken", query)
		}
	}
}

func TestPhasesFollowThePolicy(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	over := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	again := waiting
	again.LastTerminationState = over(1).State
	type all = []corev1.ContainerStatus
	for _, c := range []struct {
		all    all
		policy corev1.RestartPolicy
		ended  bool
		want   corev1.PodPhase
	}{
		{all{waiting}, corev1.RestartPolicyAlways, false, corev1.PodPending},
		{all{running, waiting}, corev1.RestartPolicyAlways, false, corev1.PodRunning},
		{all{again}, corev1.RestartPolicyAlways, false, corev1.PodRunning},
		{all{over(0)}, corev1.RestartPolicyAlways, false, corev1.PodRunning},
		{all{over(0)}, corev1.RestartPolicyOnFailure, false, corev1.PodSucceeded},
		{all{over(1)}, corev1.RestartPolicyOnFailure, false, corev1.PodRunning},
		{all{over(1)}, corev1.RestartPolicyNever, false, corev1.PodFailed},
		{all{over(1), running}, corev1.RestartPolicyNever, false, corev1.PodRunning},
		{all{over(0), over(1)}, corev1.RestartPolicyNever, false, corev1.PodFailed},
		{all{over(0)}, corev1.RestartPolicyAlways, true, corev1.PodSucceeded},
		{all{over(143)}, corev1.RestartPolicyAlways, true, corev1.PodFailed},
		{nil, corev1.RestartPolicyAlways, true, corev1.PodFailed},
	} {
		if got := phaseOf(c.all, c.policy, c.ended); got != c.want {
			t.Errorf("%+v %s %v is %s, want %s", c.all, c.policy, c.ended, got, c.want)
		}
	}
}
