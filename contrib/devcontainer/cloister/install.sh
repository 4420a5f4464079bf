#!/bin/sh
# install.sh - installs cloister from the archive that `make tarball` makes.  The devcontainer feature and the GitHub
# action run it.
#
#   TARBALL  a URL, or a path
#   SHA256   the hash of the archive; a URL needs one
#   PREFIX   where to; by default /usr/local for root, and ~/.local otherwise
set -eu

fail() {
	echo "cloister: $1" >&2
	exit 1
}

tarball=${TARBALL:-}
[ -n "$tarball" ] || fail "no archive is given: set the option tarball"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $tarball in
https://*)
	[ -n "${SHA256:-}" ] || fail "an archive from the network needs its hash: set the option sha256"
	command -v curl >/dev/null || fail "curl is missing, which fetches the archive"
	curl -fsSL --proto =https -o "$work/cloister.tar.gz" "$tarball"
	;;
*://*)
	fail "'$tarball' is not an https URL"
	;;
*)
	cp "$tarball" "$work/cloister.tar.gz"
	;;
esac
if [ -n "${SHA256:-}" ]; then
	echo "$SHA256  $work/cloister.tar.gz" | sha256sum -c --quiet - || fail "the archive is not the one with this hash"
fi
mkdir "$work/unpacked"
tar -xzf "$work/cloister.tar.gz" -C "$work/unpacked" --strip-components=1 --no-same-owner
if [ -n "${PREFIX:-}" ]; then
	"$work/unpacked/install.sh" "$PREFIX"
else
	"$work/unpacked/install.sh"
fi
