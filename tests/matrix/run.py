#!/usr/bin/python3
"""Boots each system of the matrix in QEMU and runs the cases in it: run.py [SYSTEM...]

Images are made of the distributions' packages with mmdebstrap, by root, and kept in
$MATRIX_CACHE (~/.cache/cloister/matrix).  Logs, JUnit files and a table are in build/matrix.
"""
import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import boot                                     # noqa: E402
import cases                                    # noqa: E402
import report                                   # noqa: E402
from image import Failure, Image                # noqa: E402
from product import Product                     # noqa: E402
from systems import SYSTEMS, TREE, Unreachable  # noqa: E402

RESULTS = TREE / os.environ.get("B", "build") / "matrix"
RESULT_MIB = 256
# Until the first case runs: systemd takes a minute under emulation.
BOOT_SECONDS = {"kvm": 120, "tcg": 900}
MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "crc32c")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
for m in $(cat /modules/order); do insmod /modules/$m; done
mkdir /new
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /new || exec sh
mount --move /dev /new/dev
umount /proc
exec switch_root /new /sbin/init
"""


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help="only these (default: all)")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", choices=cases.CASES,
                        help="only this case; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the systems and the cases")
    parser.add_argument("--fresh", action="store_true", help="make the images again")
    parser.add_argument("--emulate", action="store_true", help="do not use KVM")
    parser.add_argument("--deadline", type=int, metavar="SECONDS", help="for each guest")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"no system '{unknown[0]}': there are {', '.join(SYSTEMS)}")
    return chosen


def list_all():
    for system in SYSTEMS.values():
        print(f"{system.name:20} {system.distribution.name} {system.version} ({system.suite}), "
              f"{system.kernel}")
    print()
    for case in cases.CASES.values():
        print(f"{case.name:12} {case.about} [{', '.join(case.places)}; {', '.join(case.accelerators)}]")


class Guest:
    """One system's turn."""

    def __init__(self, system, chosen):
        self.system, self.chosen = system, chosen
        self.folder = RESULTS / system.name
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.iterdir():
            old.unlink()

    def say(self, text):
        print(f"{self.system.name}: {text}", flush=True)

    def prepare(self):
        """The image, the product and the plan; returns how the guest is run."""
        if not boot.has(self.system.machine.qemu):
            raise Failure(f"no {self.system.machine.qemu}")
        accelerator, why = self.accelerate()
        self.say("with KVM" if accelerator == "kvm" else f"emulated ({why})")
        self.image = Image(self.system, accelerator)
        self.image.make(self.say, self.chosen.fresh)
        self.product = Product(self.image)
        if accelerator == "kvm":
            self.product.copy()
        else:
            self.product.build(self.say)
        self.plan = cases.plan(accelerator, self.chosen.only)
        self.product.make_disk(self.plan)
        return accelerator

    def accelerate(self):
        """KVM is tried with the kernel of the image, which therefore is needed first."""
        if self.chosen.emulate:
            return "tcg", "as asked"
        machine = self.system.machine
        if not machine.is_native or not os.path.exists("/dev/kvm"):
            return boot.pick_accelerator(machine, None, None)
        images = [Image(self.system, kind) for kind in ("kvm", "tcg")]
        image = next((image for image in images if image.is_made()), images[0])
        image.make(self.say)
        return boot.pick_accelerator(machine, image.kernel, image.busybox)

    def command(self, accelerator):
        initramfs, results = self.folder / "initramfs", self.folder / "results"
        modules = boot.find_modules(self.image.root / "usr/lib", MODULES)
        initramfs.write_bytes(boot.make_initramfs(self.image.busybox, INIT, modules))
        with open(results, "wb") as f:
            f.truncate(RESULT_MIB << 20)
        disks = [*boot.disk(self.image.disk, 0, writable=False),
                 *boot.disk(self.product.disk, 1, writable=False), *boot.disk(results, 2)]
        return boot.command(self.system.machine, self.image.kernel, initramfs,
                            accelerator=accelerator, is_counted=True,
                            memory=2048 if accelerator == "tcg" else 4096,
                            append="root=/dev/vda rw systemd.journald.forward_to_console=0 apparmor=1",
                            more=disks)

    def run(self):
        """Boot it and wait; the facts of results.json, or None if it did not finish."""
        accelerator = self.prepare()
        seconds = self.chosen.deadline or BOOT_SECONDS[accelerator] + sum(
            step["seconds"] for step in self.plan["steps"])
        self.say(f"booting {self.image.kernel.name}; {len(self.plan['steps'])} steps, at most {seconds} s")
        self.boot(self.command(accelerator), seconds)
        facts = report.read(self.folder / "results", self.folder)
        if facts is None:
            raise Failure(f"the guest did not finish: {self.folder}/console.txt")
        facts["accelerator"] = accelerator
        return facts

    def boot(self, command, seconds):
        """Run QEMU, with its console on ours and in a file."""
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            with open(self.folder / "console.txt", "wb") as console:
                for line in process.stdout:
                    console.write(line)
                    console.flush()
                    text = line.decode(errors="replace").rstrip()
                    print(f"{self.system.name} | {text}", flush=True)
            process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()


def run_all(names, chosen):
    """{system: its facts, or why there are none}"""
    results = {}
    for name in names:
        began = time.monotonic()
        try:
            facts = Guest(SYSTEMS[name], chosen).run()
        except Unreachable as e:
            facts = {"unreachable": str(e)}
        except (Failure, subprocess.CalledProcessError) as e:
            facts = {"failure": str(e)}
        facts["seconds"] = round(time.monotonic() - began)
        results[name] = facts
        report.write(results, RESULTS)
    return results


def main():
    chosen = options()
    if chosen.list:
        list_all()
        return 0
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", "--preserve-env=MATRIX_CACHE,XDG_CACHE_HOME,B", sys.executable,
                           *sys.argv])
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = run_all(chosen.systems or SYSTEMS, chosen)
    print("\n" + report.table(results))
    return report.verdict(results, asked=bool(chosen.systems))


if __name__ == "__main__":
    # So that the guest under way ends with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
