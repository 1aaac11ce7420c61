"""A file that follows a session at a server: what it has already, and whether it may be written."""

import msgspec

from perdure.core.errors import BadExport
from perdure.core.session import jsonl
from perdure.core.session.ids import SessionId
from perdure.edge import files
from perdure.waiting import aside


async def had(path: str, session: SessionId) -> int:
    """How many lines of a session's export a file has, without its last; 0 when it is not there. `BadExport` when it
    holds something else.
    """
    if not await files.DiskFiles().size(path):
        return 0
    return await aside(lambda: _counted(path, session))


def _counted(path: str, session: SessionId) -> int:
    count = 0
    for line in files.lines(path):
        if not count:
            head = jsonl.read(line, 1)
            if not isinstance(head, jsonl.Header) or head.session != session:
                raise BadExport(f"{path} is not a mirror of session {session}; choose another file", path=path)
        try:
            count += b'"perdure":"end"' not in line[:20] and bool(msgspec.json.decode(line))
        except msgspec.DecodeError:  # torn by a crash: it is written anew
            break
    return count
