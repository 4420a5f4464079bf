#!/bin/sh
# install.sh [PREFIX] - copies cloister from this folder to PREFIX, by default /usr/local as root and ~/.local
# otherwise.  It also runs where it is: bin/cloister.  `install.sh --remove [PREFIX]` takes it away again.
set -eu

from=$(cd "$(dirname "$0")" && pwd)
remove=
if [ "${1:-}" = --remove ]; then
	remove=yes
	shift
fi
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
prefix=${1:-$prefix}

cd "$from"
find bin libexec share -type f | while IFS= read -r file; do
	if [ -n "$remove" ]; then
		rm -f "$prefix/$file"
	else
		install -D -m "$(stat -c %a "$file")" "$file" "$prefix/$file"
	fi
done
if [ -n "$remove" ]; then
	echo "cloister is removed from $prefix; your data stays"
	exit 0
fi
missing=$(find "$prefix/libexec/cloister" -type f -name 'cloister-*' -exec ldd {} + 2>/dev/null |
	sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p' | sort -u | paste -sd' ')
[ -z "$missing" ] || echo "These libraries are missing: $missing" >&2
echo "cloister is installed in $prefix; now run \`$prefix/bin/cloister doctor\`"
[ -z "$missing" ]
