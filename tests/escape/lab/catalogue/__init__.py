"""The probes, by what they reach for.  Importing a module registers its probes."""
from . import (descriptors, egress, files, helpers, hooks, ipc, namespaces, network, proc, resources, supervisor,  # noqa: F401
               syscalls, terminal, tools, walls, workspace)
