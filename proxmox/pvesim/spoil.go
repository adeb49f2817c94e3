package pvesim

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// beforeAnswering may answer a request instead of everything else, before anything is checked.
func (k exchange) beforeAnswering(r *request, path string) *response {
	k.Asked = k.World.Clock
	k.Faults = k.World.Faults.Strike(faults.Event{Of: faults.OfCall, Host: k.Entry.Name, Who: claimed(r), Fits: func(f *faults.Injected) bool {
		return f.FitsCall(r.method, path)
	}})
	for _, f := range k.Faults {
		switch f.Name() {
		case "drop":
			return &response{lost: &net.OpError{Op: "write", Net: "tcp", Addr: addrOf(k.Entry), Err: syscall.ECONNRESET}}
		case "unauthorized":
			return k.instead(401, "Authentication failed!")
		case "answer":
			if code := f.Arg("CODE"); code != "596" {
				status, _ := strconv.Atoi(code)
				return k.instead(status, cmp.Or(f.Opt("text"), usualReason(status)))
			}
		}
	}
	return nil
}

// instead is an answer that comes when the server would give it, and looks like its own.
func (k exchange) instead(status int, reason string) *response {
	switch status {
	case 401:
		k.Process.Sleep(world.WaitUnauthorized)
	case 595, 596:
		k.Process.Sleep(world.WaitProxy)
	}
	return k.format("json", nil, &failure.Error{Status: status, Reason: reason, Bare: status == 401 || status >= 590})
}

// usualReason is what usually is beside a status.
func usualReason(status int) string {
	switch status {
	case 400:
		return "Parameter verification failed."
	case 401:
		return "Authentication failed!"
	case 403:
		return "Permission check failed"
	case 595, 596:
		return "Connection timed out"
	}
	return cmp.Or(http.StatusText(status), "got timeout")
}

// afterCode may lose the answer of a call that has been made, or change it.
func (k exchange) afterCode(answer *response) {
	for _, f := range k.Faults {
		switch f.Name() {
		case "slow":
			k.Process.Sleep(f.Delay())
		case "lose answer":
			answer.lost = &net.OpError{Op: "read", Net: "tcp", Addr: addrOf(k.Entry), Err: syscall.ECONNRESET}
		case "answer":
			k.Process.Sleep(k.Asked.Add(world.WaitProxy).Sub(k.World.Clock))
			*answer = *bare(&failure.Error{Status: 596, Reason: cmp.Or(f.Opt("text"), "Connection timed out")})
		}
	}
}

// claimed is who a request says it is from.
func claimed(r *request) string {
	if value, given := credential(r.header.Get("Authorization"), "PVEAPIToken"); given {
		who, _, _ := strings.Cut(value, "=")
		return who
	}
	if _, ticket, given := strings.Cut(r.header.Get("Cookie"), "PVEAuthCookie=PVE:"); given {
		who, _, _ := strings.Cut(ticket, ":")
		return who
	}
	return ""
}

// beforeCode lets another client be quicker than a clone.
func (k exchange) beforeCode(e *api.Endpoint) {
	if !strings.HasSuffix(e.Path, "/qemu/{vmid}/clone") {
		return
	}
	struck := k.World.Faults.Strike(faults.Event{Of: faults.OfTask, Host: k.Node.Name, VM: k.In["vmid"], Who: k.Who.String(), Fits: func(f *faults.Injected) bool { return f.Name() == "steal id" }})
	id, _ := strconv.Atoi(k.In["newid"])
	if len(struck) == 0 || k.World.VMs[id] != nil {
		return
	}
	h := k.World.Node(cmp.Or(struck[0].Opt("to"), k.Node.Name))
	k.World.VMs[id] = &world.Guest{
		ID: id, Host: h, State: "stopped", Since: k.World.Clock,
		Config: vmconf.New(map[string]string{
			"name": fmt.Sprintf("foreign-%d", id), "memory": "1024", "smbios1": "uuid=" + k.World.Access.UUID(fmt.Sprintf("foreign %d", id)),
		}),
	}
}
