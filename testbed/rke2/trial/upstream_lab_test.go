//go:build lab

package trial_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// plays is the variable by which this program, as a pod's, plays cluster-autoscaler. Its value is
// the kubeconfig by which it does what that would: the client watches kinds that
// cluster-autoscaler's account may not.
const plays = "PLIMSOLL_TEST_PLAYS_CLUSTER_AUTOSCALER"

func init() {
	kubeconfig := os.Getenv(plays)
	if kubeconfig == "" {
		return
	}
	if err := play(context.Background(), kubeconfig, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// said is the value of a flag.
func said(args []string, name string) string {
	for _, a := range args {
		if v, is := strings.CutPrefix(a, "--"+name+"="); is {
			return v
		}
	}
	return ""
}

// play is a cluster-autoscaler of those flags that count in a trial of a minute: it serves its
// health, finds Plimsoll behind its Service's name, scans, and writes down that it did.
func play(ctx context.Context, kubeconfig string, args []string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	pods, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	namespace := cmp.Or(said(args, "namespace"), "kube-system")
	me, err := addressOf(ctx, pods, namespace, func(p *corev1.Pod) bool { return p.Name == os.Getenv("HOSTNAME") })
	if err != nil {
		return err
	}
	go func() {
		alive := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		log.Fatal(http.ListenAndServe(net.JoinHostPort(me, "8085"), alive))
	}()
	conn, err := dial(ctx, pods, deploy.UsualAutoscaler().Address, filepath.Dir(said(args, "grpc-expander-cert")))
	if err != nil {
		return err
	}
	cluster, err := upstream.NewKubernetes(cfg, false)
	if err != nil {
		return err
	}
	go func() { log.Fatal(cluster.Run(ctx)) }()
	if err := cluster.Synced(ctx); err != nil {
		return err
	}
	flags := upstream.DefaultFlags()
	c, err := upstream.New(upstream.Config{
		Provider: externalgrpc.NewCloudProviderClient(conn), Cluster: cluster, Unneeded: flags, Expander: upstream.Price, Now: time.Now, Log: log.Printf,
	})
	if err != nil {
		return err
	}
	for err = c.Begin(ctx); err != nil; err = c.Begin(ctx) {
		log.Print(err)
		time.Sleep(time.Second)
	}
	interval, err := time.ParseDuration(cmp.Or(said(args, "scan-interval"), "10s"))
	if err != nil {
		return err
	}
	for ; ; time.Sleep(interval) {
		if _, err := c.Once(ctx); err != nil {
			log.Print(err)
			continue
		}
		if err := noteScan(ctx, pods, namespace); err != nil {
			return err
		}
	}
}

// addressOf is where a pod is, once it is there.
func addressOf(ctx context.Context, pods kubernetes.Interface, namespace string, is func(*corev1.Pod) bool) (string, error) {
	for ; ; time.Sleep(500 * time.Millisecond) {
		list, err := pods.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return p.Status.PodIP != "" && p.DeletionTimestamp == nil && is(&p) })
		if at >= 0 {
			return list.Items[at].Status.PodIP, nil
		}
	}
}

// dial reaches Plimsoll at its pod, by the name of its Service and with the mounted certificates.
func dial(ctx context.Context, pods kubernetes.Interface, service, mounted string) (*grpc.ClientConn, error) {
	host, port, err := net.SplitHostPort(service)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(mounted, "tls.crt"), filepath.Join(mounted, "tls.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(mounted, "ca.crt"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca.crt: %w", errors.Join(err, errors.New("it has no certificate")))
	}
	plimsoll, err := addressOf(ctx, pods, "plimsoll", func(p *corev1.Pod) bool { return p.Labels["app.kubernetes.io/component"] == "autoscaler" })
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(net.JoinHostPort(plimsoll, port), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13, ServerName: host,
	})))
}

// noteScan writes down that there was a scan.
func noteScan(ctx context.Context, pods kubernetes.Interface, namespace string) error {
	status := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": "autoscalerStatus: Running"},
	}
	_, err := pods.CoreV1().ConfigMaps(namespace).Create(ctx, status, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// addonsText is what makes the lab's site one of cluster-autoscaler's.
const addonsText = `addons:
  plimsoll: {mode: Active, nodes: ClusterAutoscaler, clusterAutoscalerImage: 'registry.example/cluster-autoscaler:v1.34.0'}
`

// A row that cluster-autoscaler decides on, on a test bed that up has built with it: Plimsoll's
// manifests, the certificates and the provider are real, and cluster-autoscaler's image is played
// by the lab's client.
func TestClusterAutoscalerDecidesOnATestBed(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	program := labtest.Program(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]kubelet.Program{}
	r := newRig(t, program, rigged{
		programs: programs,
		site:     strings.Replace(siteFile, "  max: 16\n", "  max: 16\n  vmPool: {mode: Active, scaledBy: ClusterAutoscaler}\n", 1) + addonsText,
		before: func(kubeconfig string) {
			programs["cluster-autoscaler"] = kubelet.Program{Path: self, Env: []string{plays + "=" + kubeconfig}}
		},
	})
	out := filepath.Join(t.ArtifactDir(), "out")
	verb(t, program, "rke2", "run", "upstream", "--config", r.site, "--policies", "joint-ca", "--users", "40", "--trials", "1", "--for", "1m", "--out", out)

	res := labtest.Results(t, out)
	if len(res.Runs) != 1 {
		t.Fatalf("there are %d runs", len(res.Runs))
	}
	run := &res.Runs[0]
	t.Logf("%+v", run)
	if run.NodePolicy != "ClusterAutoscaler" || run.Requests == 0 || run.Failed > run.Requests/100 || run.Orders < 1 || run.PodMoves > 0 {
		t.Errorf("%s: %d requests of which %d failed, %d orders, %d moved", run.NodePolicy, run.Requests, run.Failed, run.Orders, run.PodMoves)
	}
	var d *appsv1.Deployment
	if d, err = r.Client.AppsV1().Deployments("kube-system").Get(t.Context(), "cluster-autoscaler", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("cluster-autoscaler is %v, %v", d, err)
	}
	must.Do(t, r.Bench().Down(t.Context()))
	if left := r.Left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
}
