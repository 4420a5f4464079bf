#!/bin/sh
# deps.sh LIST... - installs those packages of tools/packages that are missing.
#
# With apt, and sudo where we are not root.  Elsewhere it says what is missing.
# Does nothing, and quickly, when all is there.
set -eu

lists=" $* "
packages=$(dirname "$0")/packages
distribution=$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null | tr -d '"')
version=$(sed -n 's/^VERSION_ID=//p' /etc/os-release 2>/dev/null | tr -d '"')
has_dpkg=$(command -v dpkg-query || true)
arch=$([ -z "$has_dpkg" ] || dpkg --print-architecture)

# Prints "PACKAGE COMMAND OPTIONAL" for what these lists want on this system.
wanted() {
	sed -e 's/#.*//' -e '/^ *$/d' "$packages" | while read -r list package words; do
		case $lists in *" $list "*) ;; *) continue ;; esac
		name=- kind=needed
		for word in $words; do
			case $word in
			command=*) name=${word#command=} ;;
			optional) kind=optional ;;
			arch=*) [ -z "$arch" ] || [ "$arch" = "${word#arch=}" ] || kind=none ;;
			not=*) [ "$distribution" != "${word#not=}" ] || kind=none ;;
			only=*) [ "$distribution-$version" = "${word#only=}" ] || kind=none ;;
			service=*) ;;
			*) echo "$packages: what is '$word'?" >&2; exit 2 ;;
			esac
		done
		[ $kind = none ] || echo "$package $name $kind"
	done
}

# Prints "PACKAGE KIND" for what of it is missing.
absent() {
	have=" $([ -z "$has_dpkg" ] || dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
		sed -n 's/^installed //p' | tr '\n' ' ')"
	while read -r package name kind; do
		case $have in *" $package "*) continue ;; esac
		if [ -x "/usr/bin/$name" ] || [ -x "/usr/sbin/$name" ]; then continue; fi
		echo "$package $kind"
	done
}

list=$(wanted | absent)
missing=$(echo "$list" | sed -n 's/ needed$//p' | tr '\n' ' ')
wished=$(echo "$list" | sed -n 's/ optional$//p' | tr '\n' ' ')
[ -n "$missing$wished" ] || exit 0

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

# Prints the services that PACKAGE... bring.
services() {
	for package; do
		sed -n "s/^[a-z]* *$package //p" "$packages" | tr ' ' '\n' | sed -n 's/^service=//p'
	done
}

# A server that the tests want is theirs to start: it must not run by itself, neither
# now (policy-rc.d is what package scripts ask) nor after the next boot.
policy=/usr/sbin/policy-rc.d
our_policy=
hold_services() {
	[ ! -e "$policy" ] || return 0
	our_policy=$policy
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	as_root chmod 755 "$policy"
}

release_services() {
	[ -z "$our_policy" ] || as_root rm -f "$our_policy"
	our_policy=
}

disable_services() {
	for unit; do
		if command -v systemctl >/dev/null; then
			as_root systemctl disable "$unit" || true
		elif command -v update-rc.d >/dev/null; then
			as_root update-rc.d "${unit%.*}" disable || true
		fi
	done
}

give_up() {
	[ -n "$missing" ] || exit 0
	echo "cloister needs these packages (by Debian's names): $missing" >&2
	echo "$1" >&2
	exit 1
}

{ [ -n "$has_dpkg" ] && command -v apt-get >/dev/null; } ||
	give_up "Install what your system calls them, then run this again."
[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
	give_up "There is no sudo here; as root: apt-get install $missing"

log=$(mktemp)
trap 'rm -f "$log"; release_services' EXIT
trap 'exit 1' HUP INT TERM
install() {
	units=$(services "$@")
	[ -z "$units" ] || hold_services
	result=0
	apt install -y --no-install-recommends "$@" >>"$log" 2>&1 || result=$?
	release_services
	# shellcheck disable=SC2086  # a list of words
	[ "$result" != 0 ] || disable_services $units >>"$log" 2>&1
	return "$result"
}

if [ -n "$missing" ]; then
	echo "Installing: $missing"
	# A new system has no package lists, and old ones name files that are gone.
	# shellcheck disable=SC2086  # a list of words
	if ! install $missing; then
		apt update >>"$log" 2>&1 || true
		if ! install $missing; then
			cat "$log" >&2
			give_up "apt-get could not install them."
		fi
	fi
fi
has_candidate() {
	case $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) in
	'' | *'Candidate: (none)'*) return 1 ;;
	esac
}

# Not every distribution has everything.  The lists are asked for again once a day at most,
# not whenever something is built.
obtainable() {
	if has_candidate "$1"; then return 0; fi
	[ -z "$(find /var/lib/apt/lists/partial -maxdepth 0 -mtime -1 2>/dev/null)" ] || return 1
	[ -z "${updated:-}" ] || return 1
	updated=1
	apt update >>"$log" 2>&1 || true
	has_candidate "$1"
}

for package in $wished; do
	if ! obtainable "$package"; then
		echo "There is no $package to be had here: what wants it will be skipped"
		continue
	fi
	echo "Installing: $package (optional)"
	install "$package" || echo "Could not install $package: what wants it will be skipped"
done
