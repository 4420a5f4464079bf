#!/bin/sh
# install.sh [--key FILE] [PREFIX] - installs cloister under PREFIX, by default /usr/local as root and ~/.local
# otherwise.  `install.sh --remove [PREFIX]` takes it away again, and leaves your data.
#
# It lies beside the archive and, for who has unpacked it, in it; bin/cloister also runs where it is.  It installs only
# files with the hashes that SHA256SUMS names.  With the publisher's public key (in PEM, from a place that you trust),
# the one beside the archive installs only if SHA256SUMS.sig is that key's signature.
set -eu

give_up() {
	echo "install.sh: $*" >&2
	exit 1
}

key='' remove=''
while [ $# -gt 0 ]; do
	case $1 in
	--key) [ $# -gt 1 ] || give_up "--key needs the file of a public key"; key=$2; shift ;;
	--remove) remove=yes ;;
	-*) give_up "'$1' is no option: install.sh [--key FILE] [--remove] [PREFIX]" ;;
	*) break ;;
	esac
	shift
done
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
prefix=${1:-$prefix}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
case $key in '' | /*) ;; *) key=$PWD/$key ;; esac

check_signature() {
	if [ -z "$key" ]; then
		echo "The signature is not checked: --key FILE checks it with the publisher's public key" >&2
		return
	fi
	[ -e SHA256SUMS.sig ] || give_up "there is no SHA256SUMS.sig in $PWD: nobody has signed this"
	openssl pkeyutl -verify -rawin -pubin -inkey "$key" -in SHA256SUMS -sigfile SHA256SUMS.sig >/dev/null 2>&1 ||
		give_up "SHA256SUMS.sig is not the signature of $key: do not use these files"
}

install_archive() {
	archive=$(echo cloister-*-linux-"$(uname -m)".tar.gz)
	[ -f "$archive" ] || give_up "there is no single archive for $(uname -m) in $PWD: fetch it, or unpack one"
	check_signature
	grep -qxF "$(sha256sum "$archive")" SHA256SUMS || give_up "$archive does not have the hash that SHA256SUMS names"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tar -xzf "$archive" -C "$work"
	cd "$work"/cloister-*/
}

files() {
	sed -n 's,^[0-9a-f]\{64\}  \(\(bin\|libexec\|share\)/.*\),\1,p' SHA256SUMS
}

cd "$(dirname "$0")"
if [ -e bin/cloister ]; then
	[ -z "$key" ] || give_up "the signature is beside the archive: run the install.sh that is there"
else
	[ -z "$remove" ] || give_up "use the install.sh of the unpacked archive to remove cloister"
	install_archive
fi
if [ -n "$remove" ]; then
	files | while IFS= read -r file; do rm -f "$prefix/$file"; done
	rmdir "$prefix/libexec/cloister" 2>/dev/null || true
	echo "cloister is removed from $prefix; your data stays"
	exit 0
fi
sha256sum --check --strict --quiet SHA256SUMS >&2 || give_up "files have changed since they were packed: nothing is installed"
files | while IFS= read -r file; do
	install -D -m "$(stat -c %a "$file")" "$file" "$prefix/$file"
done
missing=$(find "$prefix/libexec/cloister" -type f -name 'cloister-*' -exec ldd {} + 2>/dev/null |
	sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p' | sort -u | paste -sd' ')
echo "cloister is installed in $prefix; now run \`$prefix/bin/cloister doctor\`"
[ -z "$missing" ] || echo "These libraries are missing, which images and notifications need: $missing" >&2
