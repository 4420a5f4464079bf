#!/bin/sh
# tarball.sh FOLDER [KEY] - packs what is built into FOLDER: an archive that runs wherever it is unpacked, with an
# install.sh, and SHA256SUMS.  The same build gives the same archive.  B is the build folder.
#
# KEY is a private key in PEM.  With it, SHA256SUMS.sig is openssl's signature of SHA256SUMS.
set -eu

cd "$(dirname "$0")/.."
out=$1
key=${2:-}
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=cloister-$version-linux-$(uname -m)

rm -rf "$out"
mkdir -p "$out/$name"
make -s -o all install B="${B:-build}" PREFIX=/ DESTDIR="$PWD/$out/$name" >/dev/null
install -m 755 packaging/install.sh "$out/$name/install.sh"
install -m 644 LICENSE README.md "$out/$name"
for file in "$out/$name/bin"/* "$out/$name/libexec/cloister"/cloister-*; do
	strip --strip-unneeded "$file"
done
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
	-C "$out" -c "$name" | gzip -n9 >"$out/$name.tar.gz"
rm -rf "${out:?}/$name"
(cd "$out" && sha256sum "$name.tar.gz" >SHA256SUMS)
[ -z "$key" ] || openssl pkeyutl -sign -rawin -inkey "$key" -in "$out/SHA256SUMS" -out "$out/SHA256SUMS.sig"
echo "$out/$name.tar.gz"
