package params

import "strings"

// QemuConfig are the keys of a virtual machine's configuration, as calls that create or change one
// take them.
const QemuConfig = `
	acpi?:bool affinity?:cpuset agent?:qm-agent allow-ksm?:bool amd-sev?:qemu-sev-fmt arch?:enum(x86_64,aarch64)
	args?:str audio0?:qm-audio autostart?:bool balloon?:int[0..] bios?:enum(seabios,ovmf) boot?:qm-boot
	bootdisk?:qm-bootdisk/(ide|sata|scsi|virtio)\d+/ cdrom?:qm-ide cicustom?:qm-cicustom cipassword?:str
	citype?:enum(configdrive2,nocloud,opennebula) ciupgrade?:bool ciuser?:str cores?:int[1..] cpu?:vm-cpu-conf
	cpulimit?:num[0..128] cpuunits?:int[1..262144] description?:str[..8192] efidisk0?:qm-efidisk freeze?:bool
	hookscript?:volume-id hostpci[0..15]?:qm-hostpci hotplug?:hotplug-features hugepages?:enum(any,2,1024)
	ide[0..3]?:qm-ide-import intel-tdx?:qemu-tdx-fmt ipconfig[0..31]?:qm-ipconfig
	ivshmem?:{name?:/[a-zA-Z0-9\-]+/ size:int[1..]} keephugepages?:bool
	keyboard?:enum(de,de-ch,da,en-gb,en-us,es,fi,fr,fr-be,fr-ca,fr-ch,hu,is,it,ja,lt,mk,nl,no,pl,pt,pt-br,sv,sl,tr)
	kvm?:bool localtime?:bool
	lock?:enum(backup,clone,create,migrate,rollback,snapshot,snapshot-delete,suspending,suspended)
	machine?:qm-machine memory?:qm-memory migrate_downtime?:num[0..] migrate_speed?:int[0..] name?:dns-name
	nameserver?:address-list net[0..31]?:qm-net numa?:bool numa[0..7]?:qm-numa onboot?:bool
	ostype?:enum(other,wxp,w2k,w2k3,w2k8,wvista,win7,win8,win10,win11,l24,l26,solaris)
	parallel[0..2]?://dev/parport\d+|/dev/usb/lp\d+/ protection?:bool reboot?:bool rng0?:qm-rng
	sata[0..5]?:qm-sata scsi[0..30]?:qm-scsi
	scsihw?:enum(lsi,lsi53c810,virtio-scsi-pci,virtio-scsi-single,megasas,pvscsi) searchdomain?:str
	serial[0..3]?:/(/dev/[^,]+|socket)/ shares?:int[0..50000] smbios1?:qm-smbios1[..512] smp?:int[1..]
	sockets?:int[1..] spice_enhancements?:{foldersharing?:bool videostreaming?:enum(off,all,filter)}
	sshkeys?:urlencoded startdate?:/(now|\d{4}-\d{1,2}-\d{1,2}(T\d{1,2}:\d{1,2}:\d{1,2})?)/ startup?:startup-order
	tablet?:bool tags?:tag-list tdf?:bool template?:bool tpmstate0?:qm-tpmstate unused[0..255]?:qm-unused
	usb[0..13]?:qm-usb vcpus?:int[1..] vga?:qm-vga virtio[0..15]?:qm-virtio virtiofs[0..9]?:qm-virtiofs
	vmgenid?:/(?:[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01])/ vmstatestorage?:storage-id
	watchdog?:qm-watchdog `

// What a disk may say of itself, regardless of what it hangs on.
const (
	diskLimits = ` bps?:int bps_max_length?:int[1..] bps_rd?:int bps_rd_length=bps_rd_max_length bps_rd_max_length?:int[1..]
	bps_wr?:int bps_wr_length=bps_wr_max_length bps_wr_max_length?:int[1..] iops?:int iops_max?:int
	iops_max_length?:int[1..] iops_rd?:int iops_rd_length=iops_rd_max_length iops_rd_max?:int
	iops_rd_max_length?:int[1..] iops_wr?:int iops_wr_length=iops_wr_max_length iops_wr_max?:int
	iops_wr_max_length?:int[1..] mbps?:num mbps_max?:num mbps_rd?:num mbps_rd_max?:num mbps_wr?:num mbps_wr_max?:num `
	diskCommon = `*file:volume-id-or-qm-path volume=file aio?:enum(native,threads,io_uring) backup?:bool
	cache?:enum(none,writethrough,writeback,unsafe,directsync) detect_zeroes?:bool discard?:enum(ignore,on)
	format?:enum(raw,qcow,qed,qcow2,vmdk,cloop) media?:enum(cdrom,disk) replicate?:bool
	rerror?:enum(ignore,report,stop) serial?:urlencoded[..60] shared?:bool size?:disk-size snapshot?:bool
	werror?:enum(enospc,ignore,report,stop)` + diskLimits
	diskWWN    = ` ssd?:bool wwn?:/(0x)[0-9a-fA-F]{16}.*/ `
	diskImport = ` import-from?:volume-id-or-absolute-path `
	smbiosText = `?:/[A-Za-z0-9+/]+={0,2}/ `
	pciAddress = `(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?`
	pciID      = `?:/0x[0-9a-fA-F]{4}/ `
	numbers    = `/\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*/`
)

// CPUModels are the processors that QEMU can emulate.
var CPUModels = strings.Fields(`486 a64fx athlon Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS
	Cascadelake-Server Cascadelake-Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5
	ClearwaterForest Conroe Cooperlake Cooperlake-v2 core2duo coreduo cortex-a35 cortex-a53 cortex-a55 cortex-a57
	cortex-a710 cortex-a72 cortex-a76 EPYC EPYC-Genoa EPYC-Genoa-v2 EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Milan-v3
	EPYC-Rome EPYC-Rome-v2 EPYC-Rome-v3 EPYC-Rome-v4 EPYC-Rome-v5 EPYC-Turin EPYC-v3 EPYC-v4 EPYC-v5 GraniteRapids
	GraniteRapids-v2 GraniteRapids-v3 Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS host Icelake-Client
	Icelake-Client-noTSX Icelake-Server Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5
	Icelake-Server-v6 Icelake-Server-v7 IvyBridge IvyBridge-IBRS KnightsMill kvm32 kvm64 max Nehalem Nehalem-IBRS
	neoverse-n1 neoverse-n2 neoverse-v1 Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 Penryn pentium pentium2
	pentium3 phenom qemu32 qemu64 SandyBridge SandyBridge-IBRS SapphireRapids SapphireRapids-v2 SapphireRapids-v3
	SapphireRapids-v4 SierraForest SierraForest-v2 SierraForest-v3 Skylake-Client Skylake-Client-IBRS
	Skylake-Client-noTSX-IBRS Skylake-Client-v4 Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS
	Skylake-Server-v4 Skylake-Server-v5 Westmere Westmere-IBRS`)

// netModels are the network cards; each may precede its address instead of model and macaddr.
var netModels = strings.Fields(`e1000 e1000-82540em e1000-82544gc e1000-82545em e1000e i82551 i82557b i82559er
	ne2k_isa ne2k_pci pcnet rtl8139 virtio vmxnet3`)

// PropertyNotations are the property strings that have names: those that the server calls so, less
// their pve-, and those of keys of a virtual machine's configuration that it leaves without.
var PropertyNotations = map[string]string{
	"node-location": `latitude:num[-90..90] longitude:num[-180..180] name?:str[..128]`,
	"qemu-sev-fmt":  `*type:enum(std,es,snp)[..3] allow-smt?:bool kernel-hashes?:bool no-debug?:bool no-key-sharing?:bool`,
	"qemu-tdx-fmt":  `*type:enum(tdx) attestation:bool vsock-cid?:int[2..] vsock-port?:int[0..]`,
	"qm-agent": `*enabled:bool freeze-fs?:bool freeze-fs-on-backup=freeze-fs fstrim_cloned_disks?:bool
		guest-fsfreeze=freeze-fs type?:enum(virtio,isa)`,
	"qm-audio":    `device:enum(ich9-intel-hda,intel-hda,AC97) driver?:enum(spice,none)`,
	"qm-boot":     `*legacy?:/[acdn]{1,4}/ order?:qm-bootdev-list`,
	"qm-cicustom": `meta?:volume-id network?:volume-id user?:volume-id vendor?:volume-id`,
	"qm-efidisk": `*file:volume-id-or-qm-path volume=file efitype?:enum(2m,4m)
		format?:enum(raw,qcow,qed,qcow2,vmdk,cloop) ms-cert?:enum(2011,2023,2023w,2023k) pre-enrolled-keys?:bool
		size?:disk-size` + diskImport,
	"qm-hostpci": `*host?:/` + pciAddress + `(?:;` + pciAddress + `)*/ device-id` + pciID + `driver?:enum(vfio,keep)
		legacy-igd?:bool mapping?:configid mdev?:/[^/\.:]+/ pcie?:bool rombar?:bool romfile?:/[^,;]+/
		sub-device-id` + pciID + `sub-vendor-id` + pciID + `vendor-id` + pciID + `x-vga?:bool`,
	"qm-ide":        diskCommon + diskWWN + ` model?:urlencoded[..120]`,
	"qm-ide-import": diskCommon + diskWWN + diskImport + ` model?:urlencoded[..120]`,
	"qm-ipconfig":   `gw?:ipv4&ip gw6?:ipv6&ip6 ip?:ipv4-config ip6?:ipv6-config`,
	"qm-machine": `*type?:/(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35|pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?` +
		`|virt(?:-\d+(\.\d+)+)?(\+pve\d+)?)/[..40]
		aw-bits?:num[32..64] enable-s3?:bool enable-s4?:bool viommu?:enum(intel,virtio)`,
	"qm-memory": `*current:int[16..]`,
	"qm-net": `*model:enum(` + strings.Join(netModels, ",") + `) ` + strings.Join(netModels, `=macaddr@model `) +
		`=macaddr@model bridge?:bridge-id firewall?:bool host-tunnel?:bool link_down?:bool macaddr?:mac-addr
		mtu?:int[1..65520] queues?:int[0..64] rate?:num[0..] tag?:int[1..4094] trunks?:` + numbers,
	"qm-numa": `cpus:` + numbers + ` hostnodes?:` + numbers + ` memory?:num policy?:enum(preferred,bind,interleave)`,
	"qm-rng":  `*source:enum(/dev/urandom,/dev/random,/dev/hwrng) max_bytes?:int period?:int`,
	"qm-sata": diskCommon + diskWWN + diskImport,
	"qm-scsi": diskCommon + diskWWN + diskImport + ` iothread?:bool product?:/[A-Za-z0-9\-_\s]{0,16}/ queues?:int[2..]
		ro?:bool scsiblock?:bool vendor?:/[A-Za-z0-9\-_\s]{0,8}/`,
	"qm-smbios1": `base64?:bool family` + smbiosText + `manufacturer` + smbiosText + `product` + smbiosText +
		`serial` + smbiosText + `sku` + smbiosText + `version` + smbiosText +
		`uuid?:/[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}/`,
	"qm-tpmstate": `*file:volume-id-or-qm-path volume=file format?:enum(raw,qcow2,vmdk) size?:disk-size
		version?:enum(v1.2,v2.0)` + diskImport,
	"qm-unused": `*file:volume-id volume=file`,
	"qm-usb": `*host?:/(?:(?:(0x)?[0-9A-Fa-f]{4}:(0x)?[0-9A-Fa-f]{4})|(?:\d+\-\d+(\.\d+)*)|[Ss][Pp][Ii][Cc][Ee])/
		mapping?:configid usb3?:bool`,
	"qm-vga": `*type?:enum(cirrus,qxl,qxl2,qxl3,qxl4,none,serial0,serial1,serial2,serial3,std,virtio,virtio-gl,vmware)
		clipboard?:enum(vnc) memory?:int[4..512]`,
	"qm-virtio": diskCommon + diskImport + ` iothread?:bool ro?:bool`,
	"qm-virtiofs": `*dirid:configid cache?:enum(auto,always,metadata,never) direct-io?:bool expose-acl?:bool
		expose-xattr?:bool`,
	"qm-watchdog": `*model?:enum(i6300esb,ib700) action?:enum(reset,shutdown,poweroff,pause,debug,none)`,
	"vm-cpu-conf": `*cputype?:str flags?:/([+-])([a-zA-Z0-9\-_\.]+)(;([+-])([a-zA-Z0-9\-_\.]+))*/
		guest-phys-bits?:int[32..64] hidden?:bool hv-vendor-id?:/[a-zA-Z0-9]{1,12}/ level?:int[0..4294967295]
		phys-bits?:phys-bits reported-model?:enum(` + strings.Join(CPUModels, ",") + `)`,
}
