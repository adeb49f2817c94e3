//go:build lab

package trial_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A pod of one core serves 50 requests of 20 ms a second, by the law of the plane: what the real
// program finds, with a real control plane and k6, is near that line. A machine that is busy with
// other tests makes some answers late, and a tenth of them may be.
func TestAProfileOfAKnownServiceIsFoundAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	const perPod, replicas = 50., 3
	program, file := labtest.Program(t), filepath.Join(t.TempDir(), "profile.yaml")
	l := labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.KWOK{}, &plane.Part{Seed: 1}}})
	deployments := kubernetes.NewForConfigOrDie(l.REST()).AppsV1().Deployments("default")
	known(t, l, replicas)
	putBack := func() {
		t.Helper()
		if d := must.Get(deployments.Get(t.Context(), "web", metav1.GetOptions{}))(t); *d.Spec.Replicas != replicas {
			t.Errorf("%d replicas are left, want the %d that there were", *d.Spec.Replicas, replicas)
		}
	}
	args := []string{"profile", "--workload", "default/web", "--url", l.Endpoint(plane.PartName, "apps") + "/apps/default/web/",
		"--kubeconfig", l.Kubeconfig(), "--p", "90th", "--target", "225ms", "--for", "6750ms", "--pods", "1,2,4", "--out", file, "-o", "json"}
	interrupt(t, program, args...)
	putBack()
	out := verb(t, program, args...)
	var found testbed.Profiled
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got testbed.Number, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 0.05*want {
			t.Errorf("%s: %v, want %v within 5 %%", what, got, want)
		}
	}
	if len(found.Points) != 3 || found.Linear == nil {
		t.Fatalf("%+v, want a line through 3 points", found)
	}
	near("a pod more", found.Linear.B, perPod)
	if found.Linear.R2 < 0.98 {
		t.Errorf("R² is %v, want .98 at least", found.Linear.R2)
	}
	putBack()
	t.Logf("%s", must.Get(os.ReadFile(file))(t))
	said := labtest.Verb(t, program, l.Kubeconfig(), "simulate", "--trace", "diurnal", "--trace-length", "1d", "--train", "12h", "--policies", "naive", "--profile", file, "--quiet", "-o", "json")
	if !strings.Contains(said, "(profile.yaml)") {
		t.Errorf("simulate does not play it:\n%s", said)
	}
}

// interrupt interrupts the real program in its second load.
func interrupt(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"testbed"}, args...)...)
	errs := must.Get(cmd.StderrPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sent, last := false, ""
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		if last = lines.Text(); !sent && strings.HasPrefix(last, "pods: 1,") {
			sent = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || last != "plimsoll: interrupted" {
		t.Errorf("after an interrupt it ends with %v and says %q", err, last)
	}
}

// known makes a node with room for all, and the service.
func known(t *testing.T, l *lab.Lab, replicas int32) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(l.REST())
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20"), corev1.ResourceMemory: resource.MustParse("20Gi"), corev1.ResourcePods: resource.MustParse("50")}
	must.Get(client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "big", Labels: map[string]string{lab.KubeletLabel: lab.KubeletLabelValue}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{}))(t)
	labels, core := map[string]string{"app": "web"}, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	must.Get(client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{plane.AnnotationDemand: (20 * time.Millisecond).String()}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "server", Image: "lab.plimsoll.dev/server", Resources: corev1.ResourceRequirements{Requests: core, Limits: core},
				}}},
			},
		},
	}, metav1.CreateOptions{}))(t)
}
