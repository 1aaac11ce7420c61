"""Exporting: a session as JSON lines, every byte proven on the way out. `core.session.jsonl` describes the lines.

A branch brings its shared prefix along, so that every export stands alone. Not in it: checkpoints (the log knows that
they were taken; their ids are not found in the store it is imported into), idempotency keys and the account's money.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

from perdure.core.errors import Damaged
from perdure.core.session import jsonl
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.jsonl import Anchor, Footer, Header, Part
from perdure.ports.store import Head, Store
from perdure.services.loading import opened
from perdure.services.log import Log
from perdure.services.sessions import Sessions

Progress = Callable[[int, int], None]
"""Called with how many events are done and how many there are."""
REPORTED: Final = 256


class Exporting:
    """Sessions as lines."""

    def __init__(self, sessions: Sessions) -> None:
        self._log = sessions.log
        self._store = sessions.store

    async def export(self, session: SessionId, progress: Progress | None = None) -> AsyncGenerator[bytes, None]:
        """The session as it stands, line by line with newlines; `NotFound`, or `Tampered` at the first bad byte."""
        head = await self._log.head(session)
        yield jsonl.written(await header_of(self._store, head))
        total = head.row.version - head.anchor_version
        done = 0
        async for event in following(self._log, head, head.anchor_version):
            yield jsonl.written(jsonl.event_line(event))
            done += 1
            if progress is not None and (done % REPORTED == 0 or done == total):
                progress(done, total)
        yield jsonl.written(Footer(events=total, digest=head.row.digest.hex()))


async def following(log: Log, head: Head, after: int) -> AsyncIterator[Event]:
    """The proven events after a version."""
    async for events in log.pages(head, after, small=True):
        for event in events:
            yield event


async def header_of(store: Store, head: Head) -> Header:
    """The first line of a session's export; `Damaged` when a pruned log has lost what it stands on."""
    row = head.row
    return Header(
        session=row.session,
        tenant=row.tenant,
        version=row.version,
        digest=row.digest.hex(),
        anchor=await _anchor_of(store, head),
        segments=tuple(
            Part(origin=item.origin, upto=item.upto, digest=item.digest.hex())
            for item in head.segments
            if item.upto > head.anchor_version
        ),
    )


async def _anchor_of(store: Store, head: Head) -> Anchor | None:
    if head.anchor_digest is None:
        return None
    found = await store.snapshot(head.row.session, head.anchor_version)
    if found is None or found.version != head.anchor_version or opened(found) is None:
        raise Damaged(
            f"the snapshot that anchors the pruned session {head.row.session} is unreadable; restore a backup",
            session=head.row.session,
        )
    return Anchor(
        version=found.version,
        digest=head.anchor_digest.hex(),
        state=jsonl.base64(found.state),
        sha=found.sha.hex(),
    )
