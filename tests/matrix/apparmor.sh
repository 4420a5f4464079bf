#!/bin/sh
# apparmor.sh - an ordinary user's cells with AppArmor in force, and cloister installed.
#
# If AppArmor restricts user namespaces, a cell must not start until the profile that comes with
# cloister is loaded.  If AppArmor confines cloister so that a wall cannot be built, there must be
# no cell.
set -eu

place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-apparmor.XXXXXX")
trap 'rm -rf "$place"' EXIT
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$place/data"
share=/usr/local/share/doc/cloister/apparmor

fail() {
	echo "NOT SO: $*"
	cat "$place/said"
	exit 1
}
run() {
	status=0
	"$@" >"$place/said" 2>&1 </dev/null || status=$?
	sed 's/^/  /' "$place/said"
}
has_profile() {
	sudo grep -q "^$1 " /sys/kernel/security/apparmor/profiles
}

sudo make install >/dev/null
if [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null || echo 0)" = 1 ]; then
	run /usr/local/bin/cloister run -q -- true
	[ "$status" = 125 ] || fail "a cell without the profile ended with $status"
	run /usr/local/bin/cloister doctor
	grep -q "apparmor_parser -r /etc/apparmor.d/cloister" "$place/said" || fail "doctor does not say what to do"
	sudo cp $share/cloister /etc/apparmor.d/
	sudo apparmor_parser -r /etc/apparmor.d/cloister
	has_profile cloister || fail "the profile is not loaded"
	run /usr/local/bin/cloister doctor
	grep -q "lets cloister pass" "$place/said" || fail "doctor does not know the profile"
	echo "ok: the profile lets cells start"
fi
run /usr/local/bin/cloister run -q -- echo a cell
grep -qx "a cell" "$place/said" || fail "no cell starts"

if [ ! -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
	cat >"$place/profile" <<'END'
profile matrix-no-mounts flags=(attach_disconnected) {
  file,
  capability,
  network,
  signal,
  ptrace,
  unix,
  deny mount,
}
END
	sudo apparmor_parser -r "$place/profile"
	has_profile matrix-no-mounts || fail "the profile is not loaded"
	run aa-exec -p matrix-no-mounts -- /usr/local/bin/cloister run -q -- echo a cell
	[ "$status" = 125 ] || fail "a cell that may not mount ended with $status"
	! grep -qx "a cell" "$place/said" || fail "a cell ran without its walls"
	grep -q "^cloister: " "$place/said" || fail "no reason is given"
	echo "ok: there is no cell without its walls"
fi
sudo make uninstall >/dev/null
