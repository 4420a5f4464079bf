#!/bin/sh
# cc_flags.sh CC CACHE - prints those of our optional flags that CC knows.
#
# Compilers and releases differ in what they harden and warn about; a flag that
# one of them lacks is left out there.  The answer is kept in CACHE, because
# make asks on every run.
set -eu

cc=$1
cache=$2

bin=$(command -v "${cc%% *}" 2>/dev/null) || exit 0     # make deps installs it
# shellcheck disable=SC3013  # -nt: every sh we meet has it
if [ -s "$cache" ] && [ "$cache" -nt "$bin" ] && [ "$cache" -nt "$0" ]; then
	cat "$cache"
	exit 0
fi

common='
-Walloca -Wvla -Wshadow -Wundef -Wcast-qual -Wwrite-strings -Wpointer-arith
-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wnested-externs
-Wimplicit-fallthrough -Wdate-time -Wenum-conversion -Wconversion
-Wno-sign-conversion -Wno-string-conversion -Wno-enum-enum-conversion
-Wredundant-decls -Wformat=2 -Wno-format-nonliteral
-Wlogical-op -Wduplicated-cond -Wtrampolines -Wstringop-overflow=3
-fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero
-fno-strict-aliasing -fno-delete-null-pointer-checks'
case $("$bin" -dumpmachine) in
x86_64-*)  common="$common -fcf-protection=full" ;;
aarch64-*) common="$common -mbranch-protection=standard" ;;
esac

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo '#include <stdio.h>
int main(void) { char t[9]; return snprintf(t, sizeof(t), "x") != 1; }' >"$tmp/t.c"

# shellcheck disable=SC2086  # CC may carry words of its own
knows() {
	$cc -O2 -Wall -Werror "$@" -c "$tmp/t.c" -o "$tmp/t.o" 2>/dev/null
}

out=
for flag in $common; do
	# A compiler takes any -Wno-x without a word, knowing x or not.
	case $flag in -Wno-*) probe=-W${flag#-Wno-} ;; *) probe=$flag ;; esac
	if knows "$probe"; then out="$out $flag"; fi
done
# glibc warns where level 3 is not to be had.
if knows -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3; then level=3; else level=2; fi
out="$out -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$level"

mkdir -p "$(dirname "$cache")"
echo "${out# }" >"$cache.$$"
mv "$cache.$$" "$cache"
cat "$cache"
