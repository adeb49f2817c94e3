package proxmox
