"""The hub: what is asked of a node by those who want to be told what happens, and where each of them begins."""

from typing import TYPE_CHECKING, Any

from perdure.core.errors import Invalid
from perdure.edge.http.asgi import Answer
from perdure.edge.http.live.crowd import Crowd
from perdure.edge.http.live.sse import Follow, Watch

if TYPE_CHECKING:
    from perdure.edge.http.asking import Ask


class Hub(Crowd):
    """Everybody who is attached to this node, and how streams are begun."""

    async def follow(self, ask: "Ask") -> Answer:
        """A session's log from where the client is, and then what follows, as server-sent events."""
        self.must_have_room(ask.id)
        head = (await ask.services.sessions.log.head(ask.id)).row.version
        return Follow(self, ask, started(ask, head))

    async def watch(self, ask: "Ask") -> Answer:
        """The changes of the tenant's sessions, as far as whoever asks may see them, as server-sent events."""
        self.must_have_room(None)
        position = await self.tenants.store.position()
        after = last_id(ask)
        if after is None:
            after = ask.query().after
        if after is not None and after > position:
            raise Invalid(f"the feed stands at {position}, not at {after}; watch from there", position=position)
        return Watch(self, ask, position if after is None else after)


def last_id(ask: "Ask") -> int | None:
    """The id of the last event that a client has, as browsers send it when they come back."""
    told = ask.request.headers.get("last-event-id")
    if told is None or not told.strip():
        return None
    told = told.strip()
    if not (told.isascii() and told.isdigit() and len(told) <= 40):
        raise Invalid("Last-Event-ID is the id of an event of this stream, a whole number", header=told[:80])
    return int(told)


def started(ask: "Ask", head: int) -> int:
    """After which version a stream begins: what the client has, else what it asks for."""
    query: Any = ask.query()
    if getattr(query, "upto", None) is not None:
        raise Invalid("a stream has no last version; leave upto out")
    after = last_id(ask)
    if after is None:
        after = query.after
        if after is None:
            after = head
        if getattr(query, "last", None) is not None:
            after = max(after, head - query.last)
    if after > head:
        told = f"this session has versions up to {head}, not {after}; follow it from one of those"
        raise Invalid(told, version=head, after=after)
    return int(after)
