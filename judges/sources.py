"""The frameworks' source distributions: fetched once, by hash, into `.judges/`, never changed."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".judges"


class Source(NamedTuple):
    """A source distribution: its project, its version and the SHA-256 of its archive."""

    project: str
    version: str
    sha256: str

    @property
    def stem(self) -> str:
        return f"{self.project.replace('-', '_')}-{self.version}"


LANGGRAPH = Source("langgraph", "1.2.20", "79f86df92f2dd17d5ec464cab68dbb685439ab102ca39f0b1b7b198025a2414c")
OPENAI_AGENTS = Source("openai-agents", "0.24.0", "4b4b285f4fed81fdf1b4ac426a9101658d9cd29b4fb1aaeee18f639b77e704e3")


def folder_of(source: Source) -> Path:
    """Where a distribution lies unpacked; fetched if it is not there."""
    unpacked = CACHE / source.stem
    if unpacked.is_dir():
        return unpacked
    CACHE.mkdir(exist_ok=True)
    archive = CACHE / f"{source.stem}.tar.gz"
    if not archive.is_file():
        wanted = f"{source.project}=={source.version}"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--no-build-isolation", "-d", str(CACHE), wanted], check=True)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != source.sha256:
        raise SystemExit(f"{archive.name} has the hash {found}, not {source.sha256}: it is not the release we know")
    with tarfile.open(archive) as packed:
        packed.extractall(CACHE, filter="data")
    return unpacked
