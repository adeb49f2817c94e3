# Reads a tar of a system from standard input, and writes a compressed qcow2 image to $2. $1 is the
# size of the disk in GiB. One partition that begins at 1 MiB leaves room for GRUB before it, and a
# clone's system can grow to the end of its disk.
set -eu
umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-template.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/root"
tar --numeric-owner --xattrs --xattrs-include='*' -C "$work/root" -xf -
cd "$work/root"
# What makes one machine another. It is made at the first boot.
rm -f etc/ssh/ssh_host_* etc/hostname var/lib/systemd/random-seed var/lib/dbus/machine-id etc/resolv.conf
: > etc/machine-id
rm -f etc/apt/apt.conf.d/99mmdebstrap # the builder's proxy
ln -s ../run/systemd/resolve/stub-resolv.conf etc/resolv.conf
mv boot/grub/boot.img boot/grub/core.img "$work"
cd "$work"
truncate -s "${1}G" disk
# Features that GRUB and the tools of older releases know.
mke2fs -q -t ext4 -L plimsoll-root -m 1 -d root \
	-O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize \
	-E offset=1048576 disk "$(($1 * 1024 - 1))M"
rm -rf root
dd if=boot.img of=disk bs=440 count=1 conv=notrunc status=none
dd if=core.img of=disk bs=512 seek=1 conv=notrunc status=none
test "$(wc -c < core.img)" -le 1048064
# The table's only entry, active, of type Linux: from sector 2048 to the end.
sectors=$(($1 * 2097152 - 2048))
le() { printf "\\$(printf %03o $(($1 & 255)))\\$(printf %03o $((($1 >> 8) & 255)))\\$(printf %03o $((($1 >> 16) & 255)))\\$(printf %03o $((($1 >> 24) & 255)))"; }
{ printf '\200\376\377\377\203\376\377\377'; le 2048; le "$sectors"; } | dd of=disk bs=1 seek=446 conv=notrunc status=none
printf '\125\252' | dd of=disk bs=1 seek=510 conv=notrunc status=none
qemu-img convert -q -c -f raw -O qcow2 disk image
if [ "$2" = - ]; then cat image; else cat image > "$2"; fi
