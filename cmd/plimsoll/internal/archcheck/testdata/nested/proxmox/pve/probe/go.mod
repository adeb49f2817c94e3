module github.com/plimsoll/plimsoll/proxmox/pve/probe
