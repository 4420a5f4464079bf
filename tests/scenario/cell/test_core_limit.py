"""A crash in a cell starts no program of the host's, whatever limit the operator has."""
import re

import pytest

import vm
from operators import BUILD, IS_STATIC

SCRIPT = """
mkdir -p /usr/bin /usr/lib /var /home
cp /bin/busybox /usr/bin
for a in sh sed; do ln -s busybox /usr/bin/$a; done
cat >/bin/handler <<'END'
#!/bin/sh
echo "handler: $*" >/dev/console
END
cat >/bin/crash <<'END'
#!/bin/sh
/opt/cloister run -q -- sh -c 'sed -n "s/Max core file size */limit /p" /proc/self/limits; kill -SEGV $$' 2>&1 | grep -v 'shown only once'
END
chmod 755 /bin/handler /bin/crash
none() { sh -c "ulimit -Hc 0; $1"; }
for pattern in core '|/bin/handler %e'; do
    echo "$pattern" >/proc/sys/kernel/core_pattern
    echo "=== root"; crash
    echo "=== root, none"; none crash
    echo "=== user"; su -s /bin/sh user -c crash
    echo "=== user, none"; none "su -s /bin/sh user -c crash"
done
# A positive control: outside, it is started.
sh -c 'kill -SEGV $$'
"""


@pytest.mark.skipif(not IS_STATIC, reason="the sanitizers' programs are not static")
def test_core_limit(tmp_path):
    files = {f"opt/libexec/{p.name}": p for p in (BUILD / "libexec").iterdir()}
    out = vm.run(tmp_path, SCRIPT, {**files, "opt/cloister": BUILD / "cloister"}, ["overlay"], disk=128)
    parts = [part.split("\n")[:2] for part in re.sub(r"limit (\d) .*", r"limit \1", out).split("=== ")[1:]]
    assert parts[:4] == [["root", "limit 1"], ["root, none", "limit 1"], ["user", "limit 1"],
                         ["user, none", "limit 0"]], out
    assert parts[4:7] == parts[:3], out
    assert parts[7][1].startswith("cloister: a crash in the cell would start this machine's"), out
    assert out.count("handler: ") == 1 and out.index("handler: ") > out.index(parts[7][1]), out
