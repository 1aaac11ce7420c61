"""What the machine has."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container says how much memory it may have; files that are not there, or say `max`, set no limit."""


def memory(limits: tuple[str, ...] = _LIMITS) -> int | None:
    """Bytes of memory that this process may have; None where nobody says."""
    known = []
    with suppress(AttributeError, ValueError, OSError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit in limits:
        with suppress(ValueError, OSError):
            known.append(int(Path(limit).read_text()))
    return min((each for each in known if each > 0), default=None)
