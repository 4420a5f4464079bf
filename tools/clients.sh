#!/bin/sh
# clients.sh npm|wheel FOLDER - packs the JavaScript or the Python client into FOLDER, without any network.
#
# It is packed from a copy: the sources stay as they are, and their modes and times do not count.  So the same sources
# give the same package.
set -eu
umask 022

cd "$(dirname "$0")/.."
kind=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# take FOLDER FILE...: from that folder, each with the same mode.
take() {
	from=$1
	shift
	for file; do
		install -D -m 644 "$file" "$copy/${file#"$from/"}"
	done
}

case $kind in
npm)
	take clients/js clients/js/README.md clients/js/index.js clients/js/index.d.ts clients/js/lib/*.js
	take . LICENSE
	sed "s/^  \"version\": .*/  \"version\": \"$version\",/" clients/js/package.json >"$copy/package.json"
	(cd "$copy" && npm pack --offline --ignore-scripts --silent --cache "$copy/.cache" --pack-destination "$out")
	;;
wheel)
	take clients/python clients/python/README.md clients/python/cloister/*.py clients/python/cloister/py.typed
	take . LICENSE
	sed "s/^version = .*/version = \"$version\"/" clients/python/pyproject.toml >"$copy/pyproject.toml"
	${PYTHON:-/usr/bin/python3} -m build --wheel --no-isolation --outdir "$out" "$copy" >"$copy.log" 2>&1 ||
		{ cat "$copy.log" >&2; rm -f "$copy.log"; exit 1; }
	rm -f "$copy.log"
	echo "cloister_client-$version-py3-none-any.whl"
	;;
*)
	echo "clients.sh npm|wheel FOLDER" >&2
	exit 2
	;;
esac
