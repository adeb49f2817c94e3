package machines

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// stepped is the emulated cluster of a part, in time that only passes when it is asked to.
func stepped(t *testing.T, p *Part) *pvesim.Cluster {
	t.Helper()
	cfg := p.cluster()
	cfg.Speed = 0
	c := must.Get(pvesim.New(cfg))(t)
	t.Cleanup(c.Close)
	return c
}

func TestTheTokenHasTheRightsThatTheSiteNeedsAndIsMadeOnce(t *testing.T) {
	p := &Part{}
	c, site := stepped(t, p), p.site("folder", []string{"https://pve1:8006"}, "AA")
	token, err := setUp(c, site)
	if err != nil || token == "" {
		t.Fatalf("%q, %v", token, err)
	}
	client, err := pveapi.Connect(pveapi.Connection{Endpoints: site.Endpoints, Token: func() (string, error) { return token, nil }, Transport: c.Transport(), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	have := must.Get(client.Access().Permissions(t.Context()))(t)
	parts := map[int]pveapi.Parts{template: {Storages: []string{images}, Networks: []pveapi.Bridge{{Name: bridge}}}}
	if missing := doctor.Missing(doctor.Needs(site, doctor.Release9, parts, nil), have); len(missing) > 0 {
		t.Errorf("it lacks %+v", missing)
	}
	if again, err := setUp(c, site); err != nil || again != "" {
		t.Errorf("a second time: %q, %v", again, err)
	}
}

// The file is what plimsoll run reads, and says what the site says.
func TestTheSiteFileIsTheSite(t *testing.T) {
	folder := t.TempDir()
	p := &Part{Hosts: 2, Site: func(s *settings.Site) { s.Pools[0].Max = 3 }}
	_, fingerprint, err := keptCertificate(folder)
	if err != nil {
		t.Fatal(err)
	}
	site := p.site(folder, []string{"https://127.0.0.1:1", "https://127.0.0.1:2"}, fingerprint)
	if err := writeSite(folder, "/etc/kubeconfig", site); err != nil {
		t.Fatal(err)
	}
	if _, err := keptToken(folder); err != nil {
		t.Fatal(err)
	}
	text := must.Get(os.ReadFile(filepath.Join(folder, siteFile)))(t)
	var read config
	if err := strict.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.State != filepath.Join(folder, "state") || read.Kubeconfig != "/etc/kubeconfig" || read.Pools[0].Max != 3 {
		t.Errorf("%+v", read)
	}
	if diff := cmp.Diff(*site, read.Site, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("site (-want +got):\n%s", diff)
	}
	if err := read.Read(os.ReadFile); err != nil {
		t.Fatal(err)
	}
	if err := read.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsKeptIsTheSameNextTime(t *testing.T) {
	folder := t.TempDir()
	first, print, err := keptCertificate(folder)
	if err != nil {
		t.Fatal(err)
	}
	second, again, err := keptCertificate(folder)
	if err != nil || again != print || !bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Errorf("%s and %s, %v", print, again, err)
	}
	token := must.Get(keptToken(folder))(t)
	if kept, err := keptToken(folder); err != nil || kept != token {
		t.Errorf("%q and %q, %v", token, kept, err)
	}
	other, err := keptToken(t.TempDir())
	if err != nil || other == token {
		t.Errorf("two labs join with %q, %v", other, err)
	}
}
