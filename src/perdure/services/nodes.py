"""The name of this process among all that share a store, and whether another one surely has ended."""

import os
from hashlib import sha256
from pathlib import Path
from platform import node
from typing import Final


def _space() -> str:
    """Where process numbers mean the same: a container has its own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


_MACHINE: Final = sha256(f"{node()} {_space()}".encode()).hexdigest()[:12]


def this_node(chance: bytes = b"") -> str:
    """Machine, process and when it began, and a chance for whoever opens several stores in one process: nobody else has
    this name. The machine's own is not in it.
    """
    pid = os.getpid()
    return f"{_MACHINE}.{pid}.{_began(pid)}.{chance.hex()}"


def is_gone(name: str) -> bool:
    """Whether the process of this name has surely ended: it was on this machine, and is no more."""
    machine, pid, began, *_ = (*name.split("."), "", "")
    if machine != _MACHINE or not pid.isdigit() or not Path("/proc/self/stat").exists():
        return False
    return _began(int(pid)) != began


def _began(pid: int) -> str:
    """When a process began, in the system's own ticks and boot; empty when there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except OSError:
        return ""
    fields = told.rpartition(")")[2].split()
    return f"{boot}-{fields[19]}" if len(fields) > 19 and fields[0] not in ("Z", "X") else ""
