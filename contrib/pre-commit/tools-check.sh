#!/bin/sh
# tools-check.sh - the hook of .pre-commit-hooks.yaml: checks every lock of tools in the repository.
set -eu

status=0
for lock in $(git ls-files -- tools.lock.yaml '*/tools.lock.yaml'); do
	policy=$(dirname "$lock")/cloister.yaml
	[ -f "$policy" ] || continue
	cloister tools check --policy "$policy" --lock "$lock" || status=1
done
exit "$status"
