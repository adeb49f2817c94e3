package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// twin is a second program with a copied configuration and a state of its own, on the same Proxmox
// VE: in the same cluster, or in another one without nodes.
func (s *site) twin(uid string) *site {
	s.t.Helper()
	o := &site{t: s.t, sim: s.sim, folder: s.t.TempDir(), uid: uid, listen: freeAddress(s.t)}
	for _, name := range []string{"user-data", "kubeconfig", "site.yaml"} {
		text := must.Get(os.ReadFile(filepath.Join(s.folder, name)))(s.t)
		o.write(name, string(text))
	}
	o.edit(`listen: [0-9.:]+`, "listen: "+o.listen)
	o.edit(`metrics: [0-9.:]+`, "metrics: "+freeAddress(s.t))
	if uid != s.uid {
		cluster := httptest.NewServer(o)
		s.t.Cleanup(cluster.Close)
		text, _ := os.ReadFile(filepath.Join(o.folder, "kubeconfig"))
		o.write("kubeconfig", regexp.MustCompile(`server: "[^"]+"`).ReplaceAllString(string(text), fmt.Sprintf("server: %q", cluster.URL)))
	}
	o.write("token", s.sim.Token("plimsoll@pve", "twin", false))
	s.t.Cleanup(o.stop)
	return o
}

// edit changes the configuration file.
func (s *site) edit(what, to string) {
	s.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(s.folder, "site.yaml")))(s.t)
	out := regexp.MustCompile(what).ReplaceAllLiteralString(string(text), to)
	if out == string(text) {
		s.t.Fatalf("%s is not in the file", what)
	}
	s.write("site.yaml", out)
}

// order has cluster-autoscaler order machines, until it is answered.
func (s *site) order(ca externalgrpc.CloudProviderClient, delta int32) (err error) {
	s.t.Helper()
	s.until("the group is there", func() bool {
		answer, failed := ca.NodeGroups(s.t.Context(), &externalgrpc.NodeGroupsRequest{})
		if failed != nil || len(answer.NodeGroups) != 1 {
			return false
		}
		_, err = ca.NodeGroupIncreaseSize(s.t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: answer.NodeGroups[0].Id, Delta: delta})
		// It has not looked yet.
		return err == nil || !strings.Contains(err.Error(), "have not been seen")
	})
	return err
}

// group is the only node group's id; empty while no process answers.
func group(t *testing.T, ca externalgrpc.CloudProviderClient) string {
	answer, err := ca.NodeGroups(t.Context(), &externalgrpc.NodeGroupsRequest{})
	if err != nil || len(answer.NodeGroups) != 1 {
		return ""
	}
	return answer.NodeGroups[0].Id
}

// instances are the machines that cluster-autoscaler is shown; nil if it is shown none.
func instances(t *testing.T, ca externalgrpc.CloudProviderClient) (all []*externalgrpc.ExternalGrpcNode) {
	answer, err := ca.NodeGroupNodes(t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: group(t, ca)})
	if err != nil {
		return nil
	}
	for _, i := range answer.Instances {
		all = append(all, &externalgrpc.ExternalGrpcNode{ProviderID: i.Id, Name: i.Id})
	}
	return all
}

func (s *site) running() (n int) {
	for _, v := range s.sim.Inventory().VMs {
		if v.ID >= 1000 && v.ID < 1100 && v.State == "running" {
			n++
		}
	}
	return n
}

// Credentials that the API server refuses are no missing right on a namespace.
func TestRefusedCredentialsAreSaidToBe(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "token has expired")
	}))
	defer api.Close()
	_, err := (&running{&siteFile{}}).clusterUID(t.Context(), &rest.Config{Host: api.URL})
	if err == nil || !strings.Contains(err.Error(), "kubeconfig: must hold credentials that the API server accepts: token has expired") {
		t.Errorf("it says %v", err)
	}
}

func TestCopiedConfigurationInAnotherClusterOrdersNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start()
	ca := s.client()
	must.Do(t, s.order(ca, 2))
	s.until("both run", func() bool { return s.running() == 2 })
	o := s.twin("0a4c7a52-91d3-4a5e-8f53-77f1f9d1aa02")
	o.start()
	theirs := o.client()
	o.until("the copy says why", func() bool { return strings.Contains(o.said(), "OtherCluster") })
	_ = o.order(theirs, 1)
	time.Sleep(2 * time.Second) // 40 of the world's
	must.Do(t, s.order(ca, 1))
	s.until("the first goes on", func() bool { return s.running() == 3 })
	if n := len(s.machines()); n != 3 {
		t.Errorf("there are %d machines, want 3", n)
	}
	for _, say := range []string{s.uid, o.uid, "another owner"} {
		if !strings.Contains(o.said(), say) {
			t.Errorf("%q is not in what the copy says:\n%s", say, o.said())
		}
	}
	for _, c := range s.sim.Calls() {
		if c.User == "plimsoll@pve!twin" && c.Method != "GET" {
			t.Errorf("the copy called %s %s", c.Method, c.Path)
		}
	}
}

// said is what the program has written so far.
func (s *site) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

func TestWithoutAKubeconfigTheClusterIsNamedOnceAndAMismatchIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.edit("kubeconfig: kubeconfig\n", "")
	once := func() string {
		t.Helper()
		var text bytes.Buffer
		c := exec.Command("plimsoll", "run", "--components", "provider", "--config", "site.yaml")
		c.Dir, c.Stderr = s.folder, &text
		err := c.Start()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case err = <-done:
		case <-time.After(8 * time.Second):
			_ = c.Process.Kill()
			err = <-done
		}
		if err == nil {
			t.Error("it ended by itself, and well")
		}
		return text.String()
	}
	first := once()
	found := regexp.MustCompile(`(?m)^clusterID: (\S+)$`).FindStringSubmatch(first)
	if found == nil {
		t.Fatalf("it does not name the cluster:\n%s", first)
	}
	kept, err := os.ReadFile(filepath.Join(s.folder, "state", "cluster-id"))
	if err != nil || strings.TrimSpace(string(kept)) != found[1] {
		t.Errorf("kept is %q, %v; want %s", kept, err, found[1])
	}
	if second := once(); strings.Contains(second, "clusterID:") || !strings.Contains(second, "serving") {
		t.Errorf("at the second start it says\n%s", second)
	}
	s.edit("owner: home\n", "owner: home\nclusterID: "+found[1]+"\nkubeconfig: kubeconfig\n")
	if third := once(); strings.Contains(third, "serving") || !strings.Contains(third, "clusterID: must be the UID of the cluster's namespace kube-system, "+s.uid+", or omitted, was "+found[1]) {
		t.Errorf("beside another cluster's kubeconfig it says\n%s", third)
	}
}

// Two programs have a state each, and a third waits for the first one's. The first orders while the
// second is at its order, and both are killed at every kind of call that changes something. There
// are never more machines than the maximum that run, none is made twice, and nothing is left when
// all are reclaimed.
func TestKilledAtEveryWriteBesideOthersTheMaximumHolds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.edit("max: 5", "max: 3")
	o := s.twin(s.uid)
	most := 0
	// Each is killed at its own calls: by those of both, one that is slow to begin would be at
	// none.
	var seen, theirsSeen map[string]int
	s.kills, seen = everyWrite()
	o.kills, theirsSeen = everyWrite()
	s.sim.OnCall(func(c pvesim.Call) {
		if c.User == "plimsoll@pve!twin" {
			o.called(c)
		} else {
			s.called(c)
		}
	})
	s.start()
	o.start()
	standby := &site{t: t, sim: s.sim, folder: s.folder}
	standby.start() // ends at once while the first has the state, and is started again
	t.Cleanup(standby.stop)
	ca, theirs := s.client(), o.client()
	// The second has its order first: the first one's may leave it no room.
	ordered := false
	s.until("the second is killed at its order", func() bool {
		ordered = ordered || o.order(theirs, 1) == nil
		return o.deaths() > 0
	})
	_ = s.order(ca, 3)
	settled := 0
	s.until("as many run as may", func() bool {
		n := s.running()
		if most = max(most, n); n > 3 {
			t.Fatalf("%d run\n%s\n%s", n, s.said(), o.said())
		}
		if n == 3 && len(s.machines()) == 3 {
			settled++
		} else {
			settled = 0
		}
		// As cluster-autoscaler does when its order came to nothing.
		if n < 3 && len(s.machines()) < 3 {
			_, _ = ca.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: group(t, ca), Delta: 1})
		}
		return settled > 40
	})
	var failed error
	defer func() { t.Logf("the last return: %v", failed) }()
	s.until("all are gone", func() bool {
		for _, client := range []externalgrpc.CloudProviderClient{ca, theirs} {
			if all := instances(t, client); len(all) > 0 {
				_, failed = client.NodeGroupDeleteNodes(t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: group(t, client), Nodes: all})
			}
		}
		return len(s.machines()) == 0
	})
	s.until("no disc is left", func() bool {
		for _, v := range s.sim.Inventory().Volumes {
			if strings.Contains(v.ID, "iso") {
				return false
			}
		}
		return true
	})
	t.Logf("killed %d and %d times, at %v and %v", s.deaths(), o.deaths(), seen, theirsSeen)
	if s.deaths() == 0 {
		t.Error("the first was never killed")
	}
}
