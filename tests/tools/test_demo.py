"""The demo checks what it claims: with a cloister that does not hold, it fails."""
import os
import subprocess
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "tools" / "demo.sh"

# Does to its caller's files what a cell would keep apart, except for what the
# test switches on.
STAND_IN = r"""#!/bin/bash
state=$STATE
case $1 in
run)
    while [ "$1" != -- ]; do
        case $1 in -w) project=$2 ;; -s) secret=$2 ;; esac
        shift
    done
    shift
    if [ -n "$secret" ]; then
        echo "key $([ -n "$LEAKS_KEY" ] && echo "$DEMO_API_KEY" || echo sk-0)"
        [ -n "$LEAKS_LOOT" ] || echo "HTTP/1.1 403 Forbidden"
        exit
    fi
    if [ -z "$project" ]; then
        getent() { [ -n "$LEAKS_NAMES" ] || [ "$2" = api.github.com ]; }
        export -f getent
        bash "${@:2}"
        exit
    fi
    cp -a "$project" "$state/copy"
    [ -n "$LEAKS_ENV" ] || unset DEMO_API_KEY
    [ -n "$LEAKS_HOME" ] || mv "${@: -1}/.ssh" "$state/ssh"
    network=$([ -n "$LEAKS_NET" ] && echo true || echo false)
    cd "$([ -n "$LEAKS_FILES" ] && echo "$project" || echo "$state/copy")"
    "$1" "$2" "$(sed "s,bash -c \"[^\"]*\",$network," <<<"$3")" "${@:4}"
    ;;
diff)
    [ ! -e "$state/discarded" ] || [ -n "$LEAKS_DIFF" ] || exit 125
    printf 'A RANSOM.txt\nD README.md\n'
    [ -n "$HIDES_CHANGE" ] || echo D src/
    ;;
discard)
    touch "$state/discarded"
    ;;
events)
    [ -n "$HIDES_LOOT" ] || echo "a placeholder is where it may not be"
    ;;
why)
    [ -n "$HIDES_REFUSAL" ] || echo "name secret-data.paste.example"
    ;;
esac
"""


def demo(tmp_path, **switches):
    stand_in = tmp_path / "cloister"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "CLOISTER": str(stand_in), "STATE": str(tmp_path),
           "TMPDIR": str(tmp_path), **switches}
    done = subprocess.run([DEMO], env=env, capture_output=True, text=True, timeout=60)
    assert not list(tmp_path.glob("cloister-demo.*")), "it left its folder behind"
    return done


def test_passes_when_all_holds(tmp_path):
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout


@pytest.mark.parametrize("switch, complaint", [
    ("LEAKS_ENV", "read the key in the environment"),
    ("LEAKS_HOME", "read ~/.ssh"),
    ("LEAKS_NET", "reached the network"),
    ("LEAKS_FILES", "the project on the host was changed"),
    ("LEAKS_DIFF", "the changes are still there"),
    ("HIDES_CHANGE", "does not mention src"),
    ("LEAKS_NAMES", "could look up a name"),
    ("HIDES_REFUSAL", "the refusal is not explained"),
    ("LEAKS_KEY", "has the key"),
    ("LEAKS_LOOT", "could send even that to another host"),
    ("HIDES_LOOT", "the attempt was not recorded"),
])
def test_fails_when_it_does_not(tmp_path, switch, complaint):
    done = demo(tmp_path, **{switch: "1"})
    assert done.returncode == 1
    assert complaint in done.stdout


def test_says_so_when_the_cell_does_not_run(tmp_path):
    done = demo(tmp_path, CLOISTER="/bin/false")
    assert done.returncode == 1
    assert "doctor" in done.stdout
