"""Virtual machines as walls: what `run --boundary microvm` needs where KVM is of no use."""
import shutil

import pytest

import vm

KERNELS = {}


def environment():
    """Variables that make every cell an emulated virtual machine with a kernel of this machine."""
    if not KERNELS:
        kernel, modules = vm.installed_kernel()
        KERNELS.update({"CLOISTER_VM_KERNEL": str(kernel), "CLOISTER_VM_MODULES": str(modules)})
    if not any(shutil.which(f"qemu-system-{name}") for name in ("x86_64", "aarch64")):
        pytest.skip("no QEMU for this architecture")
    return {"CLOISTER_BOUNDARY": "microvm", "CLOISTER_VM_ACCEL": "tcg", **KERNELS}
