#!/bin/sh
# tarball.sh FOLDER [KEY] - builds what git has of this tree and packs it into FOLDER: an archive that runs wherever it
# is unpacked, install.sh, a list of its parts (CycloneDX), and SHA256SUMS.  The same sources give the same archive.
#
# KEY is a private key (Ed25519, in PEM).  With it, SHA256SUMS.sig is openssl's signature of SHA256SUMS.
set -eu
# The modes of folders are in packages too.
umask 022

cd "$(dirname "$0")/.."
out=$1
key=${2:-}
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
name=cloister-$version-linux-$(uname -m)

rm -rf "$out"
mkdir -p "$out/source" "$out/$name"
out=$(cd "$out" && pwd)
case $out in *[[:space:]]*)
	echo "tarball.sh: '$out' has a space, which the compiler's flags cannot have: use another folder" >&2
	exit 1 ;;
esac
packed=$out/$name
git ls-files -z | tar --null -T - -c | tar -x -C "$out/source"
# Where it is built is in no file of the archive.
make -s -C "$out/source" "-j${JOBS:-$(nproc)}" all LINK=portable MAPS=yes \
	CFLAGS="-O2 -g -ffile-prefix-map=$out/source=." ${CC:+CC="$CC"} >/dev/null
make -s -C "$out/source" -o all install LINK=portable PREFIX=/ DESTDIR="$packed" >/dev/null
install -m 755 packaging/install.sh "$packed/install.sh"
install -m 644 LICENSE README.md "$packed"
for file in "$packed/bin"/* "$packed/libexec/cloister"/cloister-*; do
	strip --strip-unneeded "$file"
done
tools/sbom.py "$packed" "$out/source/build" "$version" >"$out/$name.cdx.json"
rm -rf "$out/source"
(cd "$packed" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
	-C "$out" -c "$name" | gzip -n9 >"$packed.tar.gz"
rm -rf "$packed"
cp packaging/install.sh "$out"
(cd "$out" && sha256sum install.sh "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
[ -z "$key" ] || openssl pkeyutl -sign -rawin -inkey "$key" -in "$out/SHA256SUMS" -out "$out/SHA256SUMS.sig"
echo "$packed.tar.gz"
