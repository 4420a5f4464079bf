#!/bin/sh
# vm_kernel.sh FOLDER [ARCH] - builds the small kernel for virtual machines into FOLDER.
#
# From Debian's package of the kernel's source, which is unpacked and not installed, and the
# configuration in tools/vm-kernel.  FOLDER then has vmlinuz-RELEASE, its config-RELEASE, the list of
# what is built in (modules.builtin) and SHA256SUMS.  Nothing is done if the version of the source, the
# configuration and this script are those of the last time.  ARCH is amd64 or arm64; for another than
# this machine's a cross compiler is needed.
set -eu

package=linux-source-6.1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
native=$(dpkg --print-architecture)
arch=${2:-$native}
jobs=${JOBS:--j$(nproc)}

give_up() {
	echo "vm-kernel: $*" >&2
	exit 1
}

case $arch in
amd64) kernel_arch=x86_64 image=arch/x86/boot/bzImage prefix=x86_64-linux-gnu- ;;
arm64) kernel_arch=arm64 image=arch/arm64/boot/Image prefix=aarch64-linux-gnu- ;;
*) give_up "there is no configuration for the architecture '$arch': use amd64 or arm64" ;;
esac
[ "$arch" != "$native" ] || prefix=
command -v "${prefix}gcc" >/dev/null ||
	give_up "there is no ${prefix}gcc: install a compiler for $arch (gcc-${prefix%-})"

version=$(LC_ALL=C apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: //p')
case $version in
'' | '(none)') give_up "there is no package $package here: this needs Debian 12, or its package sources" ;;
esac
configs="$here/vm-kernel/config-common $here/vm-kernel/config-$arch"
# shellcheck disable=SC2086  # a list of words
key=$({ echo "$version $arch"; cat $configs "$here/vm_kernel.sh"; } | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$folder/key" 2>/dev/null)" = "$key" ] && (cd "$folder" && sha256sum --quiet --check SHA256SUMS); then
	echo "vm-kernel: $(cd "$folder" && echo vmlinuz-*) is there already"
	exit 0
fi

work=$folder/work
log=$folder/build.log
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Shows the end of the log if the command fails.
try() {
	"$@" >>"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		give_up "'$*' failed; the whole log is $log"
	}
}

kernel_make() {
	# Nothing of this moment and this machine goes into the kernel.
	make -C "$work/$package" O="$work/out" ARCH="$kernel_arch" CROSS_COMPILE="$prefix" \
		KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=cloister KBUILD_BUILD_HOST=cloister \
		KBUILD_BUILD_VERSION=1 "$@"
}

# A line that the kernel's own rules overruled would be missed only when a cell needs it.
check_config() {
	grep '^CONFIG_' "$work/fragment" | while IFS= read -r line; do
		grep -qxF "$line" "$work/out/.config" || echo "$line"
	done >"$work/overruled"
	[ ! -s "$work/overruled" ] ||
		give_up "the kernel's configuration lacks: $(tr '\n' ' ' <"$work/overruled")"
}

unset MAKEFLAGS MFLAGS MAKELEVEL
: >"$log"
echo "vm-kernel: getting $package $version"
cd "$work"
try apt-get download -q "$package=$version"
try dpkg-deb -x "$package"_*.deb "$work/deb"
try tar -xJf "$work/deb/usr/src/$package.tar.xz"
rm -rf "$work/deb" "$package"_*.deb
mkdir "$work/out"
# shellcheck disable=SC2086  # a list of words
cat $configs >"$work/fragment"
echo "vm-kernel: building it for $arch, which takes a few minutes (log: $log)"
try kernel_make KCONFIG_ALLCONFIG="$work/fragment" allnoconfig
check_config
try kernel_make "$jobs" "$(basename "$image")"

release=$(cat "$work/out/include/config/kernel.release")
rm -f "$folder"/vmlinuz-* "$folder"/config-* "$folder/key"
install -m 644 "$work/out/$image" "$folder/vmlinuz-$release"
install -m 644 "$work/out/.config" "$folder/config-$release"
install -m 644 "$work/out/modules.builtin" "$folder/modules.builtin"
cd "$folder"
sha256sum "vmlinuz-$release" "config-$release" modules.builtin >SHA256SUMS
echo "$key" >key
cat SHA256SUMS
