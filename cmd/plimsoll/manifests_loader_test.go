package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// loaderManifests are what is printed, read as strictly as Kubernetes can.
func loaderManifests(t *testing.T, flags ...string) (services []corev1.Service, deployments []appsv1.Deployment) {
	t.Helper()
	out, stderr, code := inProcess(t, nil, append([]string{"manifests", "loader"}, flags...)...)
	if code != cli.ExitDone || stderr != "" {
		t.Fatalf("%v: exit %d: %s", flags, code, stderr)
	}
	for _, text := range strings.Split(out, "\n---\n")[1:] {
		var head struct{ Kind string }
		must.Do(t, yaml.Unmarshal([]byte(text), &head))
		var s corev1.Service
		var d appsv1.Deployment
		into := map[string]any{"Service": &s, "Deployment": &d}[head.Kind]
		if err := sigsyaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%v: %s: %v", flags, head.Kind, err)
		}
		if head.Kind == "Service" {
			services = append(services, s)
		} else {
			deployments = append(deployments, d)
		}
	}
	return services, deployments
}

// The verb takes the arguments of the pods, which lead from each to the services that are there.
func TestLoaderManifestsAreTakenByKubernetesAndByTheLoader(t *testing.T) {
	for _, c := range []struct {
		flags []string
		calls [][]string
	}{
		{nil, [][]string{nil}},
		{[]string{"--services", "3", "--calibrate", "20ms", "--memory", "2MB"}, [][]string{{"http://loader-2.default/"}, {"http://loader-3.default/"}, nil}},
		{[]string{"--services", "3", "--shape", "fan", "--digits", "900", "--name", "y", "--namespace", "true", "--image", "12"},
			[][]string{{"http://y-2.true/", "http://y-3.true/"}, nil, nil}},
	} {
		services, deployments := loaderManifests(t, c.flags...)
		if len(services) != len(c.calls) || len(deployments) != len(c.calls) {
			t.Fatalf("%v: %d services and %d deployments", c.flags, len(services), len(deployments))
		}
		for i, d := range deployments {
			s, pod := services[i], d.Spec.Template
			if s.Name != d.Name || !cmp.Equal(s.Spec.Selector, d.Spec.Selector.MatchLabels) || pod.Labels["app.kubernetes.io/name"] != s.Spec.Selector["app.kubernetes.io/name"] || d.Spec.Replicas != nil {
				t.Errorf("%v: service %+v and deployment %+v", c.flags, s.Spec, d.Spec)
			}
			args := pod.Spec.Containers[0].Args
			var calls []string
			for _, a := range args {
				if call, ok := strings.CutPrefix(a, "--call="); ok {
					calls = append(calls, call)
				}
			}
			if diff := cmp.Diff(c.calls[i], calls); diff != "" {
				t.Errorf("%v: %s, -want +got:\n%s", c.flags, s.Name, diff)
			}
			if got, want := slices.Contains(args, "--parallel"), len(calls) > 1; got != want {
				t.Errorf("%v: %v", c.flags, args)
			}
			// Only the port is wrong then, so all that is before it was taken.
			_, stderr, code := inProcess(t, nil, append(slices.Clone(args), "--listen=:99999")...)
			if want := `plimsoll: --listen: must be an address with a port, such as 127.0.0.1:8080, was ":99999"`; code != cli.ExitUsage || !strings.HasPrefix(stderr, want) {
				t.Errorf("%v: %v are refused: %s", c.flags, args, stderr)
			}
		}
	}
}

func TestTheUsualLoaderIsThePublishedOne(t *testing.T) {
	_, deployments := loaderManifests(t)
	container := deployments[0].Spec.Template.Spec.Containers[0]
	for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
		if cpu, memory := list.Cpu().MilliValue(), list.Memory().Value(); cpu != 500 || memory != 250_000_000 {
			t.Errorf("a pod has %d milli-CPU and %d bytes", cpu, memory)
		}
	}
	if !strings.HasPrefix(container.Image, "plimsoll.invalid/plimsoll:v") || !slices.Contains(container.Args, "--calibrate=50ms") {
		t.Errorf("image %s with %v", container.Image, container.Args)
	}
	if grace := *deployments[0].Spec.Template.Spec.TerminationGracePeriodSeconds; grace <= 5+30 {
		t.Errorf("it is killed after %d s, before it has finished", grace)
	}
}

func TestLoaderManifestsAreRefusedWithFlagRuleAndValue(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--services 33", "--services: must be at most 32, was 33"},
		{"--services 0", `--services: must be a whole number from 1 up, was "0"`},
		{"--shape fan", `--shape: must be omitted with one service, was fan with --services 1`},
		{"--shape ring", `--shape: must be one of chain, fan, was "ring"`},
		{"--digits 10 --calibrate 20ms", "--digits: must be omitted with calibrate, was 10"},
		{"--calibrate 1m", "--calibrate: must be from 2ms to 2s, was 1m0s"},
		{"--pod-memory 65MB --memory 2MB", "--pod-memory: must be 64MB or more, and a request's besides, was 65MB"},
		{"--pod-cpu 0", `--pod-cpu: must be greater than 0, was "0"`},
		{"--name 1e3", `--name: must be a name of at most 63 lower-case letters, digits and '-' that begins with a letter, was "1e3"`},
		{"--namespace a.b", `--namespace: must be a name`},
		{"--services 2 --name " + strings.Repeat("a", 62), "--name: must leave the last"},
	} {
		_, stderr, code := inProcess(t, nil, append([]string{"manifests", "loader"}, strings.Fields(c.flags)...)...)
		if code != cli.ExitUsage || !strings.HasPrefix(stderr, "plimsoll: "+c.want) {
			t.Errorf("%s: exit %d: %s", c.flags, code, stderr)
		}
	}
}
