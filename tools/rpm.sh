#!/bin/sh
# rpm.sh FOLDER ARCHIVES - makes RPM packages in FOLDER, and judges them with rpmlint.
#
# They hold the files of the archive that tools/tarball.sh made in the folder ARCHIVES: these need few libraries.  The
# same archive gives the same packages.
set -eu
# The modes of folders are in packages too.
umask 022

cd "$(dirname "$0")/.."
out=$1
version=$(sed -n 's/^#define CLOISTER_VERSION "\(.*\)"$/\1/p' src/base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
archive=$(cd "$2" && echo cloister-*-linux-"$(uname -m)".tar.gz)
mkdir "$out/SOURCES"
cp "$2/$archive" "$out/SOURCES"
sed "s/@VERSION@/$version/; s/@ARCHIVE@/$archive/; s/@FOLDER@/${archive%.tar.gz}/" packaging/rpm/cloister.spec.in \
	>"$out/cloister.spec"
rpmbuild -bb --quiet --define "_topdir $out" --define "_rpmdir $out" \
	--define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
	--define '_buildhost reproducible' --define 'use_source_date_epoch_as_buildtime 1' \
	--define 'clamp_mtime_to_source_date_epoch 1' --define '_binary_payload w9.gzdio' "$out/cloister.spec"
rm -rf "$out/BUILD" "$out/BUILDROOT" "$out/SOURCES" "$out/SPECS" "$out/SRPMS" "$out/cloister.spec"
rpmlint --strict --config packaging/rpm/rpmlint.toml "$out"/*.rpm
