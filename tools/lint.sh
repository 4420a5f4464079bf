#!/bin/sh
# lint.sh - everything that reads our sources without running them.
#
# lint.sh [CHECK...]; without arguments, all of them.  B is the build folder.
# shellcheck disable=SC2317  # the checks are called by their names
set -u

cd "$(dirname "$0")/.." || exit 2
B=${B:-build}
jobs=$(nproc)
language="-std=gnu17 -D_GNU_SOURCE -Isrc -I$B/gen"
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

sources() {
	find src -name '*.c' ! -name filter_gen.c ! -name '*.bpf.c' | sort
}

# Each check prints what is wrong and returns non-zero for it.

lint_layers() {
	find src -name '*.[ch]' -exec tools/check_layers.sh {} +
}

lint_owned() {
	find src -name '*.c' -exec tools/check_owned.py {} +
}

lint_order() {
	# shellcheck disable=SC2016,SC2086  # for the inner shell; a list of words
	sources | grep -v _gen.c | xargs -P "$jobs" -n 40 sh -c 'language=$1 && shift &&
		tools/check_order.py "$@" -- $language' sh "$language"
}

banned_calls() {
	names=$1
	shift
	! grep -nEr --include='*.[ch]' "(^|[^a-zA-Z0-9_.>])($names)[[:space:]]*\(" "$@" |
		grep -vE ':[[:space:]]*(/\*|\*|//)'
}

# Functions with a safe twin; and tests that sleep and hope.  A short nap in a
# loop that waits for something is fine, and so is a program that stays for ever.
lint_banned() {
	everywhere='strcpy|strcat|sprintf|vsprintf|gets|strtok|mktemp|tmpnam|alloca'
	banned_calls "$everywhere" src tests tools || return 1
	banned_calls 'system|popen|atoi|atol|creat' src || return 1
	# They would lose their place among the loop's others: loop_prepare_timer().
	! grep -nEr --include='*.c' '= \(struct loop_(timer|round)\)' src || return 1
	! grep -nEr --include='*.py' '\bsleep\((0\.[1-9]|[1-9][0-9]?[).])' tests/scenario tests/escape tests/tools ||
		return 1
	! grep -nEr --include='*.c' '(^|[^a-zA-Z0-9_])sleep\(' tests/unit
}

# The other compiler's warnings; the build itself had the first one's.
lint_compilers() {
	for cc in gcc clang; do
		flags=$(tools/cc_flags.sh "$cc" "$B/.flags-$cc")
		# shellcheck disable=SC2086  # a list of words
		{ sources; find tests/unit tests/fuzz -name '*.c'; } |
			xargs -P "$jobs" -n 1 "$cc" $language -O2 -Wall -Wextra -Werror $flags \
				-fsyntax-only || return 1
	done
}

# The analyzers do not read err.c, which defines what lint.h wraps.
analyzed() {
	sources | grep -v '^src/base/err.c$'
}

# Of gcc's checks, leak takes every `*ret = copy` for one (the sanitizer looks
# for them), and two follow results above zero, which our functions never give.
lint_analyzer() {
	# shellcheck disable=SC2086
	analyzed | xargs -P "$jobs" -n 1 gcc $language -O1 -include tools/lint.h -Werror \
		-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-null-dereference \
		-Wno-analyzer-use-of-uninitialized-value -c -o /dev/null
}

lint_tidy() {
	# shellcheck disable=SC2016  # for the inner shell
	analyzed | xargs -P "$jobs" -n 4 sh -c 'language=$1 && shift &&
		clang-tidy --quiet "$@" -- $language -include tools/lint.h 2>/dev/null' sh "$language"
}

# Its memory check does not know OWN(), its index check not our end markers.
lint_cppcheck() {
	cppcheck --quiet --std=c11 --enable=warning,performance,portability \
		--inline-suppr --suppress=missingIncludeSystem --suppress=unknownMacro \
		--suppress=memleak --suppress=resourceLeak --suppress=internalAstError \
		--suppress=arrayIndexOutOfBounds --suppress=arrayIndexThenCheck \
		--error-exitcode=1 -D_GNU_SOURCE -D__linux__ "-D__$(uname -m)__" \
		-j "$jobs" -Isrc -I"$B/gen" src
}

lint_scripts() {
	find tools .ci tests contrib -type f \( -name '*.sh' -o -path '.ci/run' \) -exec shellcheck {} +
}

lint_python() {
	find tests tools -name '*.py' -exec /usr/bin/python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)' {} +
}

lint_man() {
	ls man/*.[0-9] >/dev/null 2>&1 || return 0
	mandoc -Tlint -Wwarning man/*.[0-9]
}

# Sentences of documents and man pages that are hard to read.
lint_prose() {
	tools/check_prose.py
}

# House style that no other tool sees.
lint_style() {
	! grep -nE ' +$|	+$' -r --include='*.[ch]' --include='*.py' --include='*.sh' src tests tools ||
		return 1
	find src -name '*.h' | while read -r header; do
		head -n 1 "$header" | grep -q "^/\* $(basename "$header") - " || {
			echo "$header: the first line does not say what it is for"
			exit 1
		}
	done
}

all='layers owned order banned style prose compilers scripts python man cppcheck analyzer tidy'
# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- $all
for check; do
	printf '%-10s ' "$check"
	if "lint_$check" >"$log" 2>&1; then
		echo ok
	else
		echo FAILED
		cat "$log"
		failed=$((failed + 1))
	fi
done
exit "$((failed > 0))"
