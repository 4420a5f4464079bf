#!/bin/sh
# check.sh - runs `cloister tools check` for the action beside it: POLICY, and SARIF, a file or "".
set -eu

status=0
cloister tools check --github --policy "${POLICY:-cloister.yaml}" || status=$?
if [ -n "${SARIF:-}" ]; then
	cloister tools check --sarif --policy "${POLICY:-cloister.yaml}" >"$SARIF" || [ $? -eq 1 ]
fi
exit "$status"
