#!/bin/sh
# deb.sh - builds Debian packages of what git has of this tree, and judges them with lintian.
#
# deb.sh FOLDER: the packages are in FOLDER afterwards.  The same sources give the same packages.
set -eu

cd "$(dirname "$0")/.."
out=$1
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
maintainer=${DEB_MAINTAINER:-The cloister authors <maintainers@cloister.invalid>}
# The distribution's own tools, and no other Python.
PATH=${DEB_PATH:-/usr/sbin:/usr/bin:/sbin:/bin}
export SOURCE_DATE_EPOCH PATH

tree=$out/cloister-$version
rm -rf "$out"
mkdir -p "$tree"
git ls-files -z | tar --null -T - -c | tar -x -C "$tree"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$tree/debian/source"
cp packaging/deb/rules packaging/deb/*.lintian-overrides "$tree/debian"
packages=$(sed -n 's/^build *\([a-z0-9.+-]*\).*/\1/p' tools/packages |
	grep -vxE 'gcc|make|libc6-dev|linux-libc-dev|libjitterentropy3-dev' | paste -sd, | sed 's/,/, /g')
sed "s/@BUILD@/$packages/; s/@MAINTAINER@/$maintainer/" packaging/deb/control.in >"$tree/debian/control"
sed "s/@YEAR@/$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)/" packaging/deb/copyright >"$tree/debian/copyright"
echo '3.0 (native)' >"$tree/debian/source/format"
cat >"$tree/debian/changelog" <<CHANGES
cloister ($version) unstable; urgency=medium

  * The sources as of $(date -u -d "@$SOURCE_DATE_EPOCH" +%F).

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGES

(cd "$tree" && dpkg-buildpackage --build=binary --no-sign)
rm -rf "$tree"
lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs \
	"$out"/*.changes
