"""Mirroring: a file of JSON lines that follows a session. Calling again appends what is missing.

Invariants: the file is always the beginning of an export, but for a last line that a crash may have torn; content that
was redacted in the store is gone from the file before the redaction itself appears in it.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from perdure.core.errors import BadExport
from perdure.core.session import jsonl
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.jsonl import Footer, Header
from perdure.core.session.redaction import Redacted
from perdure.ports.files import Files
from perdure.ports.store import Head
from perdure.services.exporting import REPORTED, Progress, following, header_of
from perdure.services.log import Log
from perdure.services.mirrored import BATCH, Mirrored, lines_of, look
from perdure.services.sessions import Sessions
from perdure.waiting import Lane

_CHANGES: Final = 1000


class Mirroring:
    """Files that follow sessions. One call at a time writes."""

    def __init__(self, sessions: Sessions) -> None:
        self._log = sessions.log
        self._store = sessions.store
        self._lane = Lane()
        self._known: dict[str, Mirrored] = {}

    async def mirror(
        self, session: SessionId, path: str, files: Files, *, finish: bool = False, progress: Progress | None = None
    ) -> int:
        """Bring the file in step with the session; how many lines were written. `finish` makes it a whole export.

        `BadExport` when the file is something else: another session's, another history's, or one whose next events
        were pruned before they were mirrored. It is left as it is then.
        """
        async with self._lane:
            head = await self._log.head(session)
            found = self._known.pop(path, None)
            if found is None or found.size != await files.size(path):
                found = await look(files, path)
            if found is not None:
                await self._must_match(head, found, path)
            position = await self._store.position()
            writing = _Writing(self._log, head, files, path, finish, progress)
            if found is None:
                outcome = await writing.begin(await header_of(self._store, head))
            elif await self._inherited_changed(head, found, files, path):
                outcome = await writing.rewrite(found)
            else:
                outcome = await writing.go_on(found)
            self._known[path] = msgspec.structs.replace(outcome, position=position)
            return writing.written

    async def _must_match(self, head: Head, found: Mirrored, path: str) -> None:
        """Refuse a file that is not the beginning of this session's export."""
        row, version = head.row, found.version
        facts: dict[str, Any] = {"path": path, "session": row.session, "version": version}
        if (found.header.session, found.header.tenant) != (row.session, row.tenant):
            raise BadExport(f"{path} mirrors session {found.header.session}; choose another file", **facts)
        if version > row.version:
            raise BadExport(f"{path} is ahead of session {row.session}; choose another file", **facts)
        if version < head.anchor_version:
            raise BadExport(
                f"versions {version + 1} to {head.anchor_version} of session {row.session} were pruned before "
                f"{path} had them; begin a new file",
                **facts,
            )
        expected = head.anchor_digest
        if version > head.anchor_version:
            expected, _ = await self._log.place(head, version)
        if expected is not None and expected.hex() != found.digest:
            raise BadExport(f"{path} tells another history of session {row.session}; choose another file", **facts)

    async def _inherited_changed(self, head: Head, found: Mirrored, files: Files, path: str) -> bool:
        """Whether an event of a shared prefix was redacted, where it belongs, after it was mirrored here."""
        foreign = [item for item in head.segments if item.source != head.row.session]
        if not foreign:
            return False
        if found.position >= 0 and not await self._redacted_since(found.position, {item.source for item in foreign}):
            return False
        upto = max(head.anchor_version, min(foreign[-1].upto, found.version))
        kept: set[int] = set()
        async with aclosing(lines_of(files, path, found.end)) as lines:
            async for glance, _ in lines:
                if glance.version > upto:
                    break
                if glance.redacted:
                    kept.add(glance.version)
        async with aclosing(self._log.pages(head, head.anchor_version, upto)) as pages:
            async for events in pages:
                if any(event.redacted and event.version not in kept for event in events):
                    return True
        return False

    async def _redacted_since(self, position: int, sources: set[SessionId]) -> bool:
        while changes := await self._store.changes(position, _CHANGES):
            if any(change.session in sources and Redacted.kind in change.kinds for change in changes):
                return True
            position = changes[-1].position
        return False


class _Writing:
    """One call: from what a file holds to what it shall hold."""

    def __init__(self, log: Log, head: Head, files: Files, path: str, finish: bool, progress: Progress | None) -> None:
        self._log, self._head = log, head
        self._files, self._path = files, path
        self._finish, self._progress = finish, progress
        self._end = 0
        self._batch: list[bytes] = []
        self._held = 0
        self.written = 0

    async def begin(self, header: Header) -> Mirrored:
        """A new file."""
        await self._add(jsonl.written(header))
        async for event in following(self._log, self._head, self._head.anchor_version):
            await self._add(self._line(event))
        return await self._close(header)

    async def go_on(self, found: Mirrored) -> Mirrored:
        """What is missing; or all anew when that says content must go which the file still has."""
        if found.version == self._head.row.version and found.closed >= self._finish:
            return found
        self._end = found.end
        async for event in following(self._log, self._head, found.version):
            if _destroys(event, found.version):
                return await self.rewrite(found)
            await self._add(self._line(event))
        return await self._close(found.header)

    async def rewrite(self, found: Mirrored) -> Mirrored:
        """All lines anew, in the old file's place. Lines from before the anchor stay: the store has them no more."""
        self._end = self.written = 0
        await self._files.replace(self._path, self._anew(found))
        size = self._end
        end = size - len(self._footer(found.header)) if self._finish else size
        return self._outcome(found.header, end, size)

    async def _anew(self, found: Mirrored) -> AsyncIterator[bytes]:
        async for line in self._all_lines(found):
            self.written += 1
            self._end += len(line)
            yield line

    async def _all_lines(self, found: Mirrored) -> AsyncIterator[bytes]:
        async for glance, line in lines_of(self._files, self._path, found.end):
            if glance.version > self._head.anchor_version:
                break
            yield line
        async for event in following(self._log, self._head, self._head.anchor_version):
            yield self._line(event)
        if self._finish:
            yield self._footer(found.header)

    def _line(self, event: Event) -> bytes:
        done, total = event.version, self._head.row.version
        if self._progress is not None and (done % REPORTED == 0 or done == total):
            self._progress(done, total)
        return jsonl.written(jsonl.event_line(event))

    async def _add(self, line: bytes) -> None:
        if self._held + len(line) > BATCH:
            await self._flush()
        self._batch.append(line)
        self._held += len(line)
        self.written += 1

    async def _flush(self) -> None:
        if self._batch:
            await self._files.append(self._path, self._end, b"".join(self._batch))
            self._end += self._held
            self._batch, self._held = [], 0

    async def _close(self, header: Header) -> Mirrored:
        await self._flush()
        end = self._end
        if self._finish:
            await self._add(self._footer(header))
            await self._flush()
        return self._outcome(header, end, self._end)

    def _footer(self, header: Header) -> bytes:
        row = self._head.row
        begun = header.anchor.version if header.anchor is not None else 0
        return jsonl.written(Footer(events=row.version - begun, digest=row.digest.hex()))

    def _outcome(self, header: Header, end: int, size: int) -> Mirrored:
        row = self._head.row
        return Mirrored(
            header=header, size=size, end=end, version=row.version, digest=row.digest.hex(), closed=size > end
        )


def _destroys(event: Event, upto: int) -> bool:
    """Whether it says that one of the first `upto` events has lost its content."""
    return isinstance(event.data, Redacted) and any(version <= upto for version in event.data.versions)
