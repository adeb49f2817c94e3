package pvesim

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func BenchmarkTenMinutesOfFiveHosts(b *testing.B) {
	l := newLab(b, func(cfg *world.Config) {
		for i := range 2 {
			cfg.Hosts = append(cfg.Hosts, world.Host{Name: fmt.Sprintf("pve%d", i+4), CPUs: 8, Memory: 64 << 30})
		}
		for i := range 50 {
			cfg.VMs = append(cfg.VMs, world.VM{ID: 1000 + i, Host: fmt.Sprintf("pve%d", i%5+1), Running: true, Storage: "shared", Disk: 8 << 30})
		}
	})
	for b.Loop() {
		l.Advance(10 * time.Minute)
	}
}

func BenchmarkCalls(b *testing.B) {
	for _, line := range []string{"GET /version", "GET /cluster/resources", "GET /nodes/pve1/qemu/201/config", "PUT /nodes/pve1/qemu/201/config description=x"} {
		b.Run(line, func(b *testing.B) {
			l := newLab(b, nil)
			for b.Loop() {
				l.must(line)
			}
		})
	}
}

func BenchmarkNewCluster(b *testing.B) {
	for b.Loop() {
		newLab(b, nil).Close()
	}
}
