#!/bin/sh
# verity.sh - a registered capability on a file system with fs-verity: nobody changes its bytes.
set -eu

cloister=${CLOISTER:-build/cloister}
place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-verity.XXXXXX")
disk=$place/disk
cleanup() {
	umount "$disk" 2>/dev/null || true
	rm -rf "$place"
}
trap cleanup EXIT

fail() {
	echo "NOT SO: $*"
	exit 1
}

mkdir "$disk" "$place/notes"
truncate -s 64M "$place/image"
mkfs.ext4 -q -b 4096 -O verity "$place/image"
mount -o loop "$place/image" "$disk"
mkdir -m 700 "$disk/data"
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$disk/data"

echo 'buy bread' >"$place/notes/list"
echo 'name: notes' >"$place/notes/capability.yaml"
printf 'name: reader\ncapabilities: [notes]\ncommand: [cat, /capabilities/notes/list]\n' >"$place/reader.yaml"
"$cloister" capability register "$place/notes"
"$cloister" agent register "$place/reader.yaml"
"$cloister" dispatch reader | grep -qx 'buy bread' || fail "the agent did not read its capability"

list=$(find "$disk/data/registry/trees" -name list)
[ -n "$list" ] || fail "there is no tree"
chmod u+w "$list"
if (echo 'buy poison' >>"$list") 2>/dev/null; then
	fail "root changed a registered file"
fi
chmod u-w "$list"
[ "$(cat "$list")" = 'buy bread' ] || fail "the file has other bytes"
echo "ok: not even root changes its bytes"

# It can be replaced: a dispatch then notices.
chmod u+w "$(dirname "$list")"
cp "$list" "$list.new"
echo 'buy poison' >>"$list.new"
mv -f "$list.new" "$list"
if "$cloister" dispatch reader >"$place/said" 2>&1; then
	fail "a dispatch ran with a replaced file"
fi
cat "$place/said"
grep -q "is not what was registered" "$place/said" || fail "no reason is given"
echo "ok: a replaced file is refused"
