#!/bin/sh
# story.sh - cloister in one screen: denied, explained, allowed, asked, swapped, revoked, proved.
#
# An agent calls a service on this machine.  All of it happens in a temporary folder, without network.
# Each claim is checked: if one does not hold, the script names it and fails.
set -eu

cloister=${CLOISTER:-build/cloister}
case $cloister in /*) ;; *) cloister=$(pwd)/$cloister ;; esac
tools=$(cd "$(dirname "$0")" && pwd)

if { [ -t 1 ] || [ -n "${STORY_COLOR:-}" ]; } && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
	bold=$(printf '\033[1m') dim=$(printf '\033[2m') red=$(printf '\033[31m')
	green=$(printf '\033[32m') plain=$(printf '\033[0m')
else
	bold='' dim='' red='' green='' plain=''
fi

step() { printf '%s%s%s %s\n' "$bold$green" "$1" "$plain$bold" "$2$plain"; }
show() { printf '  %s$ %s%s\n' "$dim" "$1" "$plain"; }
result() { printf '    %s\n' "$1"; }
wrong() {
	printf '  %s✗ %s%s\n' "$red" "$1" "$plain"
	exit 1
}

place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-story.XXXXXX")
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$place/data" CLOISTER_RUNTIME_DIR="$place/run"
export XDG_CONFIG_HOME="$place/config"
mkdir -m 700 "$place/state" "$place/data" "$place/run" "$place/config"
service=
tidy() {
	"$cloister" kill --all >/dev/null 2>&1 || true
	"$cloister" discard --all >/dev/null 2>&1 || true
	[ -z "$service" ] || kill "$service" 2>/dev/null || true
	rm -rf "$place"
}
trap tidy EXIT
trap 'exit 130' INT TERM

# ---- the service, its key, and a policy
key="demo_$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')"
mkfifo "$place/port"
"${PYTHON:-/usr/bin/python3}" "$tools/story_service.py" "$key" "$place/log" >"$place/port" &
service=$!
read -r port <"$place/port" || wrong "the service did not start"
host=host.cloister.internal:$port
cat >"$place/cloister.yaml" <<END
version: 1
egress:
  - ask: $host
    methods: [POST]
    reason: writes need a person
  - allow: $host
    paths: [/me]
END
printf %s "$key" | "$cloister" secret add NOTES_KEY --host "$host" --plain --shape 'demo_{x24}' >/dev/null ||
	wrong "the key could not be stored"
"$cloister" run -q -d --name agent -p "$place/cloister.yaml" -s NOTES_KEY -- sleep 600 >/dev/null 2>"$place/complaints" || {
	sed 's/^/  /' "$place/complaints" >&2
	wrong "the cell did not start; \`cloister doctor\` shows what this machine lacks"
}
in_cell() { "$cloister" exec agent -- "$@"; }
call() { in_cell curl -s --max-time 20 "$@"; }
reason() { printf '403 refused by cloister: %s' "$(printf %s "$1" | sed -n 's/.*"reason":"\([^"]*\)".*/\1/p')"; }

printf '%sAn agent in a cell calls a service on this machine, and its policy allows little.%s\n' "$bold" "$plain"
printf '%s"notes" is short for %s.%s\n' "$dim" "$host" "$plain"

step DENIED "no rule allows this request"
show "curl http://notes/notes"
denied=$(call "http://$host/notes")
case $denied in *'"error":"refused by cloister"'*'"reason":"no rule allows it"'*) ;; *) wrong "it was not refused: $denied" ;; esac
result "$(reason "$denied")"

step EXPLAINED "cloister prints the rule that would allow it"
show "cloister why agent"
why=$("$cloister" why agent)
rule=$(printf '%s\n' "$why" | sed -n '/^  - allow:/,/^$/p' | tr -s ' \n' ' ')
case $rule in *"allow: $host"*"methods: [GET]"*"paths: [/notes]"*) ;; *) wrong "there is no rule: $why" ;; esac
result "$(printf %s "$rule" | sed "s/$host/notes/; s/^ //; s/ $//")"

step ALLOWED "the rules of a running cell can be changed"
show "cloister allow agent 'GET notes/notes' && curl http://notes/notes"
"$cloister" allow agent "GET $host/notes" >/dev/null 2>&1 || wrong "the rule was not added"
[ "$(call "http://$host/notes")" = "three notes" ] || wrong "it is still refused"
result "three notes"

step ASKED "a write waits for a person"
show "curl -X POST http://notes/notes &"
call -X POST -o "/tmp/answer" -w '%{http_code}' "http://$host/notes" >"$place/answer" 2>/dev/null &
asking=$!
until id=$("$cloister" approvals --json agent 2>/dev/null | sed -n 's/.*"id":"\([^"]*\)".*/\1/p') && [ -n "$id" ]; do
	kill -0 "$asking" 2>/dev/null || wrong "the write did not wait"
done
! grep -q POST "$place/log" || wrong "the write went through unasked"
show "cloister approve $id"
"$cloister" approve "$id" >/dev/null 2>&1 || wrong "it could not be approved"
wait "$asking" || wrong "the write failed"
[ "$(cat "$place/answer")" = 201 ] || wrong "the write failed: $(cat "$place/answer")"
result "201 created, after the approval"

step SWAPPED "the agent holds a placeholder; the service gets the real key"
show "echo \$NOTES_KEY; curl -H \"authorization: Bearer \$NOTES_KEY\" http://notes/me"
# shellcheck disable=SC2016  # for the shell in the cell
me='curl -s --max-time 20 -H "authorization: Bearer $NOTES_KEY" '"http://$host/me"
# shellcheck disable=SC2016
held=$(in_cell sh -c 'echo "$NOTES_KEY"')
case $held in "$key") wrong "the agent has the key" ;; demo_*) ;; *) wrong "the agent has no placeholder: $held" ;; esac
[ "$(in_cell sh -c "$me")" = "welcome, Ada" ] || wrong "the service does not know the agent"
[ "$(tail -n 1 "$place/log")" = "GET /me the real key" ] || wrong "the service did not get the key"
result "$held"
result "welcome, Ada"

step REVOKED "the key is taken back while the cell runs"
show "cloister revoke agent NOTES_KEY"
"$cloister" revoke agent NOTES_KEY >/dev/null 2>&1 || wrong "it could not be revoked"
after=$(in_cell sh -c "$me")
case $after in *'"error":"refused by cloister"'*) ;; *) wrong "the key still works: $after" ;; esac
[ "$(grep -c 'the real key' "$place/log")" = 1 ] || wrong "the service got the key again"
result "$(reason "$after")"

step PROVED "each request is in a signed timeline, and one record can be proved"
n=$("$cloister" events --json --type http agent | sed -n '1s/.*"n": *\([0-9]*\).*/\1/p')
show "cloister audit prove agent $n >proof && cloister audit verify proof && cloister audit verify --all"
"$cloister" kill agent >/dev/null
"$cloister" audit verify --all >"$place/verified" || wrong "the timelines do not verify"
"$cloister" audit prove agent "$n" >"$place/proof" || wrong "there is no proof"
"$cloister" audit verify "$place/proof" --key "$("$cloister" audit key)" >"$place/proved" || wrong "the proof does not hold"
sed 's/verdict/Verdict/' "$place/proof" >"$place/forged"
! "$cloister" audit verify "$place/forged" --key "$("$cloister" audit key)" >/dev/null 2>&1 || wrong "a forged proof passes"
result "$(sed -n "1s,^$place/,,p" "$place/proved")"
result "$(tail -n 1 "$place/verified")"
