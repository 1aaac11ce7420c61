"""A session's blobs in a folder: one file each, named by its SHA-256, and a list of what people say of them."""

import os
import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from perdure.compose import Services
from perdure.core.errors import BadExport, BlobMissing
from perdure.core.session.ids import SessionId
from perdure.core.session.values import Ref
from perdure.edge import files
from perdure.edge.content import note_of, source_of
from perdure.edge.given import Progress
from perdure.ports.blobs import Note

LIST: Final = "blobs.jsonl"
_NAMED: Final = re.compile("[0-9a-f]{64}")


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and what the session points to although it is not here."""

    written: tuple[Ref, ...]
    missing: tuple[Ref, ...]


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the list says of one blob."""

    sha256: str
    size: int
    media_type: str = ""
    name: str = ""


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(_Line).decode


async def export(services: Services, session: SessionId, folder: str, progress: Progress | None) -> Exported:
    """Write the blobs a session points to, each proven on its way out."""
    await files.names(folder, make=True)
    wanted = await services.blobs.of_session(session)
    lines: list[bytes] = []
    written: list[Ref] = []
    for done, ref in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted))
        try:
            info = await services.blobs.stat(ref)
            reader = await services.blobs.open(ref)
        except BlobMissing:
            continue
        await files.DiskFiles().replace(os.path.join(folder, ref.sha256.hex()), reader)
        said = _Line(sha256=ref.sha256.hex(), size=info.size, media_type=info.media_type, name=info.name)
        lines.append(_encode(said) + b"\n")
        written.append(ref)
    if progress is not None:
        progress(len(wanted), len(wanted))
    await files.DiskFiles().replace(os.path.join(folder, LIST), _each(lines))
    return Exported(written=tuple(written), missing=tuple(ref for ref in wanted if ref not in written))


async def _each(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def bring(services: Services, folder: str, progress: Progress | None) -> tuple[Ref, ...]:
    """Put the files of a folder that are named by their hash; one whose content is another's is `BadExport`."""
    names = [name for name in await files.names(folder) if _NAMED.fullmatch(name)]
    notes = await _notes(os.path.join(folder, LIST))
    found: list[Ref] = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names))
        source = source_of(os.path.join(folder, name))
        found.append(await services.blobs.put(source, notes.get(name, Note()), expected=bytes.fromhex(name)))
    if progress is not None:
        progress(len(names), len(names))
    return tuple(found)


async def _notes(path: str) -> dict[str, Note]:
    """What the list says, if there is one."""
    size = await files.DiskFiles().size(path)
    content = b"" if size is None else await files.DiskFiles().read(path, 0, size)
    try:
        lines = [_decode(line) for line in content.splitlines()]
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise BadExport(f"{path} does not parse: {wrong}; take the folder as it was exported", path=path) from wrong
    return {line.sha256: note_of(b"", line.media_type or None, line.name or None) for line in lines}
