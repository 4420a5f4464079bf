#!/bin/sh
# deb.sh FOLDER [ROOT [ARCH]] - builds Debian packages of what git has of this tree, and judges them with lintian.
#
# The packages are in FOLDER afterwards.  The same sources give the same packages.  ROOT is a system to build in, as
# tools/deb_root.py makes them, by default this one.  For an ARCH other than the system's own, its cross compiler makes
# the packages that differ between architectures.
set -eu
# The modes of folders are in packages too.
umask 022

cd "$(dirname "$0")/.."
out=$1
root=${2:-}
arch=${3:-}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
maintainer=${DEB_MAINTAINER:-The cloister authors <maintainers@cloister.invalid>}
# The distribution's own tools, and no other Python.
PATH=${DEB_PATH:-/usr/sbin:/usr/bin:/sbin:/bin}
export SOURCE_DATE_EPOCH PATH
# A later release of the distribution must upgrade to its own package.
# shellcheck disable=SC1091  # a file of the system
release=$(. "$root/etc/os-release" && echo "$ID$VERSION_ID" | sed 's/^debian/deb/')
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)~$release

tree=$out/cloister-$version
rm -rf "$out"
mkdir -p "$tree"
out=$(cd "$out" && pwd)
git ls-files -z | tar --null -T - -c | tar -x -C "$tree"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$tree/debian/source"
cp packaging/deb/rules packaging/deb/*.lintian-overrides "$tree/debian"
# These run on the machine that builds, whatever it builds for.
packages=$(sed -n 's/^build *\([a-z0-9.+-]*\).*/\1/p' tools/packages |
	grep -vxE 'gcc|make|libc6-dev|linux-libc-dev|libjitterentropy3-dev' |
	sed -E 's/^(clang|libseccomp-dev|libnftnl-dev|libmnl-dev)$/&:native/' | paste -sd, | sed 's/,/, /g')
sed "s/@BUILD@/$packages/; s/@MAINTAINER@/$maintainer/" packaging/deb/control.in >"$tree/debian/control"
sed "s/@YEAR@/$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)/" packaging/deb/copyright >"$tree/debian/copyright"
# lintian knows the suites of each system by other names.
# shellcheck source=/dev/null  # the system's own
suite=$(. "$root/etc/os-release" && [ "$ID" = ubuntu ] && echo "$VERSION_CODENAME") || suite=unstable
echo '3.0 (native)' >"$tree/debian/source/format"
cat >"$tree/debian/changelog" <<CHANGES
cloister ($version) $suite; urgency=medium

  * The sources as of $(date -u -d "@$SOURCE_DATE_EPOCH" +%F).

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGES

# In a mount namespace of its own: $1 the system, $2 the folder that is /build in it, the rest a command.
# shellcheck disable=SC2016  # for the shell in there
CHROOT='set -eu
root=$1 out=$2
shift 2
mkdir -p "$out/.system"
mount -t tmpfs none "$out/.system"
mkdir "$out/.system/upper" "$out/.system/work" "$out/.system/root"
mount -t overlay -o "lowerdir=$root,upperdir=$out/.system/upper,workdir=$out/.system/work" none "$out/.system/root"
cd "$out/.system/root"
mkdir -p build
mount --bind "$out" build
mount -t proc none proc
mount --rbind /dev dev
if [ -n "${CCACHE_DIR:-}" ] && [ -e usr/lib/ccache ]; then
	mkdir -p ".$CCACHE_DIR"
	mount --bind "$CCACHE_DIR" ".$CCACHE_DIR"
fi
exec chroot . sh -c "cd /build && exec \"\$@\"" sh "$@"'
inside() {
	if [ -z "$root" ]; then
		(cd "$out" && "$@")
	else
		unshare --mount --propagation private sh -c "$CHROOT" sh "$root" "$out" "$@"
	fi
}

kind=binary
# What belongs to every architecture is made with the system's own.
[ -z "$arch" ] || [ "$arch" = "$(inside dpkg --print-architecture)" ] || kind=any
inside sh -c "cd 'cloister-$version' && dpkg-buildpackage --build=$kind --no-sign ${arch:+--host-arch $arch}"
# The list of parts of the packages with programs: their files as they are installed.
inside sh -c "for file in cloister_*.deb cloister-serve_*.deb; do dpkg-deb -x \"\$file\" .files; done
	python3 'cloister-$version/tools/sbom.py' .files 'cloister-$version/build' '$version' >parts.json"
rm -rf "$tree" "$out/.files"
mv "$out/parts.json" "$(echo "$out"/*.changes | sed 's/changes$/cdx.json/')"
inside sh -c 'lintian --fail-on error,warning --suppress-tags \
	bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs *.changes'
rm -rf "$out/.system"
