#!/bin/sh
# fuzz.sh BUILD TARGET... - fuzzes each target for FUZZ_SECONDS.
#
# What is found interesting is kept in BUILD/corpus for the next time; what
# fails is left in BUILD/found, and belongs in tests/seeds once it is mended.
set -eu

build=$1
shift
mkdir -p "$build/found"
failed=0
for target in "$@"; do
	corpus=$build/corpus/$target
	log=$build/$target.log
	mkdir -p "$corpus"
	printf '%-12s ' "$target"
	if "$build/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 \
		-rss_limit_mb=1024 -print_final_stats=1 -verbosity=1 \
		-artifact_prefix="$build/found/$target-" \
		"$corpus" "tests/seeds/$target" >"$log" 2>&1
	then
		sed -n 's/^stat::number_of_executed_units: *\([0-9]*\)/\1 runs, nothing found/p' "$log"
	else
		failed=$((failed + 1))
		echo FAILED
		tail -n 40 "$log"
	fi
done
exit "$((failed > 0))"
