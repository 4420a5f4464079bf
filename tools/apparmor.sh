#!/bin/sh
# apparmor.sh - where AppArmor keeps ordinary users from user namespaces, as Ubuntu does since
# 23.10, lets cells be started all the same.  Elsewhere it changes nothing.
#
#   apparmor.sh allow BUILD     the cloister in BUILD may make them, until the next boot
#   apparmor.sh lift COMMAND... everybody may while COMMAND runs: tests also start programs of
#                               others that need them, bubblewrap for one
set -eu

setting=${APPARMOR_SETTING:-/proc/sys/kernel/apparmor_restrict_unprivileged_userns}

is_restricted() {
	[ "$(cat "$setting" 2>/dev/null || echo 0)" != 0 ]
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Root is not restricted, and who loaded an own profile needs no other.
allow() {
	is_restricted && [ "$(id -u)" != 0 ] || return 0
	! "$1/cloister" run -q -- true 2>/dev/null || return 0
	build=$(cd "$1" && pwd -P)
	case $build in *[!A-Za-z0-9/._+@-]*)
		echo "AppArmor keeps cells from starting, and '$build' is no name for a profile" >&2
		return 0 ;;
	esac
	echo "AppArmor keeps ordinary users from making cells: loading a profile for $build," \
		"until the next boot"
	sed "s|^profile cloister [^ ]*|profile cloister-build $build/{cloister,libexec/cloister-*}|" \
		"$(dirname "$0")/../contrib/apparmor/cloister" | as_root apparmor_parser -r
}

# What sets it back outlives this, however COMMAND ends, and sudo; where another one has lifted
# it meanwhile, that one sets it back.
lift() {
	if is_restricted; then
		echo "AppArmor keeps ordinary users from making cells, as whom tests run: lifted until" \
			"they end (kernel.apparmor_restrict_unprivileged_userns)"
		# shellcheck disable=SC2016  # for the shell of root's
		as_root setsid -f sh -c '
			was=$(cat "$1")
			[ "$was" != 0 ] || exit
			trap : HUP INT TERM
			echo 0 >"$1" || exit
			exec 2>/dev/null
			tail --pid="$2" -f /dev/null
			echo "$was" >"$1"' sh "$setting" $$ </dev/null >/dev/null
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			! is_restricted || sleep 0.2
		done
	fi
	exec "$@"
}

what=$1
shift
"$what" "$@"
