package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// provisioned is a client of an emulated cluster whose token may do everything.
func provisioned(t *testing.T, c *pvesim.Cluster, token string) *pveapi.Client {
	t.Helper()
	client, err := pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Insecure: true, Transport: c.Transport(),
		Token: func() (string, error) { return token, nil }, Now: c.Now,
		Wait: func(_ context.Context, d time.Duration) error { c.Advance(d); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestTokenMayDoWhatIsNeededAndIsGoneWithoutTrace(t *testing.T) {
	c, err := pvesim.New(pvesim.Config{
		Hosts: []pvesim.Host{{Name: "pve1", CPUs: 8, Memory: 32 << 30}}, Storages: []pvesim.Storage{{Name: "local", Type: "dir", Content: []string{"iso", "images"}, Total: 1 << 40}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, root := t.Context(), provisioned(t, c, c.Token("root@pam", "all", false))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.MakePool(ctx, "bench", "of a test bed"))
	site := plainSite()
	site.Pools[0].PVEPool, site.Pools[0].Storage = "bench", "local"
	needs := Needs(site, Release9, nil, nil)
	who := pveapi.Account{User: "root@pam", Token: "bench"}
	token, err := root.Access().MakeToken(ctx, who, "of a test bed")
	must(err)
	child := provisioned(t, c, token)
	have, err := child.Access().Permissions(ctx)
	must(err)
	if len(Missing(needs, have)) == 0 {
		t.Error("a new token may do something already")
	}
	roles, where := Tailored(needs, "bench")
	for name, privileges := range roles {
		must(root.Access().MakeRole(ctx, name, privileges))
	}
	for _, n := range where {
		must(root.Access().Grant(ctx, n.Path, n.Role, who, n.Below))
	}
	have, err = child.Access().Permissions(ctx)
	must(err)
	if lacks := Missing(needs, have); len(lacks) > 0 {
		t.Errorf("the token lacks %+v", lacks)
	}
	if there, err := root.Access().TokenExists(ctx, who); !there || err != nil {
		t.Error("the token is not there", err)
	}

	must(root.Access().RemoveToken(ctx, who))
	for name := range roles {
		must(root.Access().RemoveRole(ctx, name))
	}
	must(root.RemovePool(ctx, "bench"))
	if there, err := root.Access().TokenExists(ctx, who); there || err != nil {
		t.Error("the token is there", err)
	}
	if left, err := root.Access().Grants(ctx); len(left) > 0 || err != nil {
		t.Errorf("these grants are left: %+v, %v", left, err)
	}
	if _, err := root.Pool(ctx, "bench"); !pveapi.Is(err, pveapi.NoPool) {
		t.Error("the pool is left", err)
	}
}
