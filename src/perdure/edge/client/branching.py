"""Branches at a server: made, listed, compared, merged."""

from typing import Any

from perdure.core.errors import Invalid, Refused
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.edge import given
from perdure.edge.client import documents, reading
from perdure.edge.client.asking import piece_of
from perdure.edge.client.transport import Transport
from perdure.edge.session import AsyncSession
from perdure.ports.store import Row
from perdure.services.merging import MergeReport


class Branching(AsyncSession):
    """The part of a handle that goes on elsewhere."""

    _transport: Transport
    _path: str

    async def _made(self, path: str, body: Any, *, key: str | None = None, keyed: bool = False) -> AsyncSession:
        found = await self._transport.send("POST", f"{self._path}/{path}", body, key=key, keyed=keyed)
        return self._other(reading.session_of(found))

    async def resume(
        self,
        checkpoint: str | None = None,
        *,
        title: str | None = None,
        config: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> AsyncSession:
        """Without a checkpoint, wake this session in place, as `wake` does; with one, a new session that goes on from
        there.
        """
        if checkpoint is None:
            await self.wake(key=key)
            return self
        body = documents.given(
            checkpoint_id=given.text_of(checkpoint, "checkpoint"),
            title=given.maybe_text(title, "title"),
            config_override=given.overrides_of(config) or None,
        )
        return await self._made("resume", body, key=key, keyed=True)

    async def branch(
        self,
        at: int | None = None,
        *,
        kind: str = "checkpoint",
        name: str = "",
        title: str | None = None,
        config: dict[str, Any] | None = None,
        id: str | None = None,
        key: str | None = None,
    ) -> AsyncSession:
        """A session that shares this one's log up to a version and goes its own way; the id of `db.named(…)` makes it
        go by that name.
        """
        body = documents.given(
            at=given.maybe_number(at, "a version"),
            kind=given.text_of(kind, "kind"),
            name=given.text_of(name, "name"),
            title=given.maybe_text(title, "title"),
            config=given.overrides_of(config) or None,
            called=None if id is None else self._called(given.id_of(id)),
        )
        return await self._made("branch", body, key=key, keyed=True)

    def _called(self, session: SessionId) -> str:
        name = self._transport.names.called(session)
        if name is None:
            raise Refused("the server chooses ids; leave id out, or give that of db.named(…)", session=session)
        return name

    async def rewind(self, turns: int = 1, *, to: int | None = None, title: str | None = None) -> AsyncSession:
        """A branch from before the last turns, or at a version."""
        place = {"turns": given.number_of(turns, "turns")} if to is None else {"to": given.number_of(to, "a version")}
        return await self._made("rewind", place | documents.given(title=given.maybe_text(title, "title")))

    async def edit(self, turn: int, content: Any, *, title: str | None = None) -> AsyncSession:
        """A branch in which a turn starts anew with other words, left open for the answer."""
        body = {"turn": given.number_of(turn, "a turn"), "content": content}
        return await self._made("edit", body | documents.given(title=given.maybe_text(title, "title")))

    async def branches(self) -> tuple[Row, ...]:
        """The branches made from this session, newest first."""
        return tuple(map(reading.row_of, (await self._transport.get(f"{self._path}/branches"))["items"]))

    async def merge(self, source: AsyncSession, policy: str = "escalate", *, summary: str | None = None) -> MergeReport:
        """Take over another session's vars and scratchpads, three-way."""
        if not isinstance(source, AsyncSession):
            raise Invalid(f"merge another session, not {shown(source)}")
        body = {"source": source.id, "policy": given.text_of(policy, "policy"), "summary": summary}
        return reading.merged_of(await self._transport.send("POST", f"{self._path}/merge", body))

    async def resolve(self, conflict: str, choices: dict[str, Any], *, summary: str | None = None) -> MergeReport:
        """Settle a conflict a merge left: for each path `ours` (what is there now), `theirs`, `base`, or a value as
        `{"value": …}`.
        """
        path = f"{self._path}/conflicts/{piece_of(given.text_of(conflict, 'conflict')) or '-'}/resolve"
        body = {"choices": choices, "summary": summary}
        return reading.merged_of(await self._transport.send("POST", path, body))
