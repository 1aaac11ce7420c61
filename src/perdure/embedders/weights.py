"""Weights that come in an installed package: found without importing it, verified, read where they lie."""

import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from perdure.core.errors import Invalid, Tampered

_TYPES: Final = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
_LENGTH: Final = 8
"""Bytes that tell the length of the header."""


def folder_of(package: str, *, install: str) -> Path:
    """The folder of an installed package, which is not imported. `Invalid` says how to install it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Invalid(f"this embedder needs the package {package}: {install}", missing=package)
    return Path(next(iter(spec.submodule_search_locations)))


def verify(path: Path, digest: str) -> None:
    """`Tampered` unless the file is byte for byte the one that is known."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise Invalid(f"{path.name} is not there; install the package that brings it anew", path=str(path)) from None
    if found != digest:
        raise Tampered(
            f"{path.name} is not the file that is known; install its package anew, from a source you trust",
            path=str(path),
            expected=digest,
            found=found,
        )


def tensors(path: Path) -> Mapping[str, Any]:
    """The arrays of a safetensors file by name. They are mapped, not loaded: what is not touched costs no memory."""
    import numpy as np

    with path.open("rb") as file:
        size = int.from_bytes(file.read(_LENGTH), "little")
        header: dict[str, Any] = json.loads(file.read(size))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=_LENGTH + size)
    header.pop("__metadata__", None)
    return {
        name: data[slice(*told["data_offsets"])].view(_TYPES[told["dtype"]]).reshape(told["shape"])
        for name, told in header.items()
    }
