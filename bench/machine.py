"""Where the run happens: what to say about the machine, where databases may live, what there is to measure."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.client import ROOT

MEMORY_FILESYSTEMS = {"tmpfs", "ramfs", "devtmpfs"}


def filesystem(path: Path) -> str:
    """The type of the filesystem that holds `path`; "unknown" where there is no /proc."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best, kind = "", "unknown"
    for line in mounts.read_text().splitlines():
        _, point, found, *_ = line.split()
        inside = path.resolve().is_relative_to(point.replace("\\040", " "))
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def working_folder(wanted: str | None) -> Path:
    """A fresh folder on a real disk; exits with an explanation when there is none."""
    candidates = [Path(wanted)] if wanted else [Path(tempfile.gettempdir()), Path("/var/tmp"), ROOT]
    for base in candidates:
        if base.is_dir() and filesystem(base) not in MEMORY_FILESYSTEMS:
            return Path(tempfile.mkdtemp(prefix="perdure-bench-", dir=base))
    sys.exit("databases in memory would be measured; name a folder on a disk with --dir")


def fsync_time(folder: Path) -> float:
    """Median milliseconds of writing 4 KiB at the end of a file and forcing it to disk."""
    taken = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(60):
            start = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    (folder / "fsync").unlink()
    return statistics.median(taken) * 1e3


def facts(folder: Path) -> dict[str, str]:
    """About the machine, without its name."""
    return {
        "cores": str(os.cpu_count()),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "filesystem": filesystem(folder),
        "appending 4 KiB with fsync": f"{fsync_time(folder):.2f} ms",
    }


def load() -> str:
    """The one-minute load average, where the system has one."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def has_perdure() -> bool:
    """Whether there is a perdure to measure."""
    return _runs("import perdure, perdure.events; perdure.open; perdure.aopen")


def has_peers() -> bool:
    """Whether the libraries that perdure is measured against are installed beside it."""
    needed = ("agents", "aiosqlite", "google.adk", "langchain_core", "langgraph.checkpoint.sqlite")
    return _runs(f"from importlib.util import find_spec; assert all(map(find_spec, {needed}))")


def _runs(probe: str) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", probe]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    return found.returncode == 0
