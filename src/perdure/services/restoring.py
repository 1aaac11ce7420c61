"""From a kept checkpoint back to the state it holds, every byte of it proven on the way."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from perdure.core.errors import Invalid, Tampered
from perdure.core.session import state as states
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.write import Base, Checkpoint, restore
from perdure.ports.store import Store


def document_of(kept: Iterable[Checkpoint], seq: int) -> dict[str, Any] | None:
    """The state document of checkpoint `seq`, through its chain of deltas; None when any link is damaged or gone."""
    by_seq = {item.seq: item for item in kept}
    links: list[Checkpoint] = []
    wanted: int | None = seq
    while wanted is not None:
        item = by_seq.get(wanted)
        if item is None or sha256(item.payload).digest() != item.payload_sha or (links and wanted >= links[-1].seq):
            return None
        links.append(item)
        wanted = item.base
    document: dict[str, Any] | None = None
    try:
        for item in reversed(links):
            document = restore(item.payload, document)
    except (Invalid, Tampered):
        return None
    if document is None or sha256(states.document_bytes(document)).digest() != links[0].state_sha:
        return None
    return document


async def base_of(store: Store, session: SessionId, state: State) -> Base | None:
    """What the session's next delta stands on: its latest checkpoint, if that can be read."""
    seq = state.checkpoints.seq
    if seq == 0:
        return None
    document = document_of(await store.checkpoints(session), seq)
    return None if document is None else Base(seq, document)
