#!/bin/sh
# limits.sh - a cell runs into its limits, on cgroup v2 as systemd set it up.
#
# Nobody delegated anything to a plain login session: there the user's systemd gives each cell a scope.  Where that
# systemd is not to be found, a cell with a limit must not start.
set -eu

cloister=${CLOISTER:-build/cloister}
place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-limits.XXXXXX")
trap 'rm -rf "$place"' EXIT
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$place/data"

fail() {
	echo "NOT SO: $*"
	cat "$place/said"
	exit 1
}
run() {
	status=0
	"$cloister" run "$@" >"$place/said" 2>&1 </dev/null || status=$?
	sed 's/^/  /' "$place/said"
}
groups() {
	find /sys/fs/cgroup -name 'cloister-*' 2>/dev/null | sort
}
before=$(groups)
# The kernel's out-of-memory killer ends what dd allocates.
eat='dd if=/dev/zero of=/dev/null bs=96M count=1; echo "ended with $?"'

if [ "$(id -u)" != 0 ] && ! grep -q "user@$(id -u).service" /proc/self/cgroup; then
	session=$XDG_RUNTIME_DIR
	export XDG_RUNTIME_DIR="$place/nothing" CLOISTER_RUNTIME_DIR="$place/run"
	run --memory 32M -- sh -c "$eat"
	[ "$status" = 125 ] || fail "without a delegated cgroup, the status is $status"
	grep -q "^cloister: --memory cannot be enforced, because " "$place/said" || fail "no reason is given"
	export XDG_RUNTIME_DIR="$session"
	unset CLOISTER_RUNTIME_DIR
fi
run --memory 32M -- sh -c "$eat"
grep -q "ended with 137" "$place/said" || fail "the memory is not limited"
# shellcheck disable=SC2016  # for the shell inside the cell
run --pids 16 -- sh -c 'for i in $(seq 64); do sleep 1000 & done; wait'
[ "$status" != 0 ] || fail "the processes are not limited"
# What it used up in four seconds, in hundredths: the last line that `times` prints is that of its children.
run --cpus 0.25 -- sh -c 'timeout 4 sh -c "while :; do :; done"; times'
used=$(sed -n 's/^0m\([0-9]*\)[.]\([0-9][0-9]\).*/\1\2/p' "$place/said" | tail -n 1)
[ -n "$used" ] || fail "it says nothing of its time"
[ "$used" -lt 200 ] || fail "the processor is not limited: $used hundredths of a second in four"
run --memory 64M --cpus 0.5 --pids 32 -- true
[ "$status" = 0 ] || fail "a cell within its limits ended with $status"
# systemd removes a scope a moment after its last process.
for _ in $(seq 100); do
	left=$(groups)
	[ "$left" != "$before" ] || break
	sleep 0.1
done
[ "$left" = "$before" ] || fail "cgroups are left: $left"
echo "ok: limits strike, and nothing is left"
