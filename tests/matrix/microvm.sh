#!/bin/sh
# microvm.sh - a cell with a kernel of its own, with this system's QEMU, virtiofsd and kernel.
#
# It uses KVM if that works, as it does in an emulated machine of arm64.  Otherwise the processor is emulated, which
# in an emulated machine takes many minutes for a boot.
set -eu

cloister=$(realpath "${CLOISTER:-build/cloister}")
place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-microvm.XXXXXX")
trap 'rm -rf "$place"' EXIT
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$place/data"

fail() {
	echo "NOT SO: $*"
	cat "$place/said"
	exit 1
}
run() {
	status=0
	"$cloister" run --memory 256M "$@" >"$place/said" 2>&1 || status=$?
	sed 's/^/  /' "$place/said"
}
has() {
	grep -qx -- "$1" "$place/said" || fail "no line '$1'"
}
templates() {
	find "$place/data/vm" -name 'template-*' | wc -l
}

if [ -c /dev/kvm ] && [ ! -w /dev/kvm ]; then
	sudo -n chmod a+rw /dev/kvm || true
fi
"$cloister" doctor >"$place/said" 2>&1 || true
grep " kvm " "$place/said"
grep -q "/dev/kvm runs guests" "$place/said" || export CLOISTER_VM_ACCEL=tcg
export CLOISTER_BOUNDARY=microvm

# Ubuntu's kernels are for root to read, and `run` says what to do.
if [ -n "$(find /boot -name 'vmlinuz-*' ! -readable)" ]; then
	run -- true
	grep -q 'chmod a+r' "$place/said" || fail "there is no word on the kernel's mode"
	sudo chmod a+r /boot/vmlinuz-*
fi

mkdir "$place/work"
cd "$place/work"
echo old >old
echo gone >gone
cat >"$place/policy.yaml" <<'END'
version: 1
egress:
  - allow: www.example.test
    methods: [GET]
END

# ---- a template, and the first cell from it: files, identity and the gate
# shellcheck disable=SC2016  # for the shell inside the cell
run --name first -w . -p "$place/policy.yaml" -- sh -c '
cat /proc/sys/kernel/random/boot_id
echo "user $(id -u)"
sed -n "s/^CapEff:\t/rights /p" /proc/self/status
echo more >>old
rm gone
mkdir -p new/deep
echo new >new/deep/file
ln -s ../old new/link
echo "post $(curl -s -o /dev/null -w "%{http_code}" -X POST -d x http://www.example.test/)"
curl -s http://other.example.test/ || echo "unknown name $?"
exit 3'
[ "$status" = 3 ] || fail "the status is $status"
has "user 1000"
has "rights 0000000000000000"
has "post 403"
has "unknown name 6"
! grep -qF "$(cat /proc/sys/kernel/random/boot_id)" "$place/said" || fail "the kernel is this machine's own"
[ "$(templates)" = 1 ] || fail "there are $(templates) templates"
"$cloister" events first >"$place/said"
grep -q "www.example.test" "$place/said" || fail "the refusal is not on the timeline"
[ "$(ls)" = "gone
old" ] || fail "the workspace was changed by the cell"
"$cloister" apply first
[ "$(cat old new/deep/file)" = "old
more
new" ] || fail "changes are lost"
[ ! -e gone ] || fail "gone is there"
[ "$(readlink new/link)" = ../old ] || fail "new/link is lost"
echo "ok: files, identity and the gate, in a cell from a template"

# ---- streams, and a tap as the network, which needs a template of its own
echo typed >"$place/typed"
# shellcheck disable=SC2016  # for the shell inside the cell
run -p "$place/policy.yaml" --vm-net tap -- sh -c '
cat
echo "post $(curl -s -o /dev/null -w "%{http_code}" -X POST -d x http://www.example.test/)"
head -c 300000 /dev/zero | tr "\0" x | wc -c' <"$place/typed"
[ "$status" = 0 ] || fail "the status is $status"
has typed
has "post 403"
has 300000
[ "$(templates)" = 2 ] || fail "there are $(templates) templates"
echo "ok: streams and a tap, in a cell from a template with a tap"

# ---- a boot, a command in a running cell, and its end
run --detach --name last --vm-boot -- sleep 100000
[ "$status" = 0 ] || fail "a cell that boots ended with $status"
"$cloister" exec last -- echo here >"$place/said" 2>&1 || fail "exec ended with $?"
has here
"$cloister" kill last
[ -z "$("$cloister" ps -q 2>/dev/null)" ] || fail "a cell is left"
if pgrep -f 'qemu -nodefaults' >"$place/said"; then
	fail "a monitor is left"
fi
echo "ok: a boot, exec and kill"
