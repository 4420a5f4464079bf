#!/bin/sh
# data_loss.sh [closed] - an agent's changes to a workspace are kept, whatever system calls made them.
# With `closed`: also those in a folder that the agent closed to its own owner.
#
# Kernels before 6.6 cannot keep an overlay's changes in a tmpfs.  There an ordinary user's go to
# the disk, and the supervisor makes them: with the C library's calls of this architecture.
set -eu

cloister=$(realpath "${CLOISTER:-build/cloister}")
place=$(mktemp -d "${TMPDIR:-/tmp}/cloister-data-loss.XXXXXX")
trap 'chmod -R u+rwx "$place"; rm -rf "$place"' EXIT
export CLOISTER_STATE_DIR="$place/state" CLOISTER_DATA_DIR="$place/data"
canary=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')

fail() {
	echo "data lost: $*"
	exit 1
}

same() {
	[ "$1" = "$2" ] || fail "$3 is '$1', not '$2'"
}
state_of_work() {
	find . -printf '%P %m %l\n' | sort
}
# change SCRIPT: runs it in a cell, and applies what it did.
change() {
	before=$(state_of_work)
	"$cloister" run --name loss -w . -- sh -ec "$1" agent "$canary" || fail "the cell ended with status $?"
	[ "$(state_of_work)" = "$before" ] || fail "the workspace was changed by the cell"
	"$cloister" diff --name-status loss || fail "diff ended with status $?"
	"$cloister" apply loss || fail "apply ended with status $?"
}

mkdir -p "$place/work/old/deep"
cd "$place/work"
if [ "${1:-}" = closed ]; then
	# shellcheck disable=SC2016  # for the shell inside the cell
	change 'mkdir closed
echo "$1" >closed/in
chmod 0 closed'
	same "$(stat -c %a closed)" 0 "the mode of closed"
	chmod 700 closed
	same "$(cat closed/in)" "$canary" closed/in
	echo "all changes were kept"
	exit 0
fi

echo "$canary" >kept
echo "$canary" >gone
echo "$canary" >private
echo "$canary" >old/deep/moved
# shellcheck disable=SC2016  # for the shell inside the cell
change 'echo "$1 made" >new
chmod 640 new
chmod 600 private
echo "$1 more" >>kept
rm gone
mkdir -m 750 folder
mv old/deep folder/deep
ln -s kept link
ln kept twin
touch -d @1000000000 folder/dated'

same "$(cat new)" "$canary made" new
same "$(stat -c %a new private folder | tr '\n' ' ')" "640 600 750 " "the modes"
same "$(cat kept)" "$canary
$canary more" kept
same "$(cat twin)" "$(cat kept)" twin
same "$(readlink link)" kept link
[ ! -e gone ] || fail "gone is there"
[ ! -e old/deep ] || fail "old/deep is there"
same "$(cat folder/deep/moved)" "$canary" folder/deep/moved
same "$(stat -c %Y folder/dated)" 1000000000 "the time of folder/dated"
echo "all changes were kept"
