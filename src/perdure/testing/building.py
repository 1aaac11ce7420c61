"""Valid commits, made by the real core the way the services make them, for tests that talk to a store directly.

Invariant: every record built here is chained to what it was built upon, so a store full of them verifies.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core.session import chain, ids, record, state, write
from perdure.core.session.budget import AccountMove
from perdure.core.session.checkpoints import Trigger
from perdure.core.session.event import Draft, Payload, draft
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import BranchKind, Created, Lineage
from perdure.core.session.state import State
from perdure.core.session.turns import Message
from perdure.core.session.write import Mark
from perdure.ports.ambient import Ambient
from perdure.ports.store import Commit, KeyUse, Segment, Snapshot
from perdure.projections.row import row_of, same_listing


class Made(msgspec.Struct, frozen=True):
    """A commit and the state it leads to; `commit, state = made` works. The rest is what the next one builds upon."""

    commit: Commit
    state: State
    segments: tuple[Segment, ...]
    before: State
    start: bytes

    def __iter__(self) -> Iterator[Any]:
        return iter((self.commit, self.state))

    @property
    def session(self) -> SessionId:
        """Whose commit it is."""
        return self.commit.row.session

    @property
    def version(self) -> int:
        """Where the session stands after it."""
        return self.commit.row.version

    @property
    def digest(self) -> bytes:
        """The chain's value after it."""
        return self.commit.row.digest

    @property
    def snapshot(self) -> Snapshot:
        """The state it leads to, as stores cache it."""
        content = state.to_bytes(self.state)
        return Snapshot(self.version, content, sha256(content).digest())

    def at(self, version: int) -> tuple[State, bytes]:
        """State and digest after one of its own versions."""
        events = record.read(self.commit.record, self.state.tenant, self.start, version)
        return state.fold(self.before, events), events[-1].digest


class Builder:
    """Makes commits. It keeps nothing: whatever it needs of the past comes in with the call."""

    def __init__(self, ambient: Ambient, *, tenant: str = "tenant", actor: str = "someone") -> None:
        self._ambient = ambient
        self._tenant = tenant
        self._actor = actor

    def id(self) -> str:
        """A fresh id."""
        return ids.text(self._uid())

    def _uid(self) -> bytes:
        return ids.uuid7(self._ambient.now() // 1000, self._ambient.random(ids.RANDOM_BYTES))

    def create(self, *payloads: Payload, session: str | None = None, tenant: str | None = None, **more: Any) -> Made:
        """A new session. `more` are fields of `created` (owner, title, tags …) or of the commit (key, accounts …)."""
        name = SessionId(session or self.id())
        fields, rest = _sorted_out(more)
        start = chain.genesis(ids.raw(name))
        drafts = [draft(Created(**fields)), *map(draft, payloads)]
        made = self._write(name, tenant or self._tenant, state.BLANK, start, drafts)
        return _finished(made, creates=True, **rest)

    def append(self, made: Made, *items: Payload | Draft | Mark, **more: Any) -> Made:
        """The next commit of a session; one message when no payloads are given. `more` are fields of the commit."""
        drafts = [item if isinstance(item, Mark | Draft) else draft(item) for item in items or (said("more"),)]
        following = self._write(made.session, made.state.tenant, made.state, made.digest, drafts, made.segments)
        return _finished(following, **more)

    def branch(
        self,
        parent: Made,
        *payloads: Payload,
        version: int | None = None,
        kind: BranchKind = BranchKind.CHECKPOINT,
        **more: Any,
    ) -> Made:
        """A branch at the end of a commit, or at an earlier version inside it."""
        name = SessionId(self.id())
        at = parent.version if version is None else version
        before, digest = parent.at(at)
        fields, rest = _sorted_out(more)
        fields["lineage"] = Lineage(parent=parent.session, version=at, digest=digest, kind=kind)
        stretch = Segment(source=parent.session, origin=parent.session, upto=at, digest=digest)
        drafts = [draft(Created(**fields)), *map(draft, payloads)]
        start = chain.genesis(ids.raw(name), digest)
        made = self._write(name, parent.state.tenant, before, start, drafts, (*parent.segments, stretch))
        return _finished(made, creates=True, segments=made.segments, **rest)

    def mark(self, label: str = "", trigger: Trigger = Trigger.MANUAL, **more: Any) -> Mark:
        """A checkpoint to take, among the payloads of `append`."""
        return Mark(id=self.id(), label=label, trigger=trigger, **more)

    def _write(
        self,
        session: SessionId,
        tenant: str,
        before: State,
        start: bytes,
        drafts: Sequence[Draft | Mark],
        segments: tuple[Segment, ...] = (),
    ) -> Made:
        at = self._ambient.now()
        stamp = write.Stamp(
            tenant=tenant,
            session=session,
            raw_session=ids.raw(session),
            uid=self._uid(),
            at=at,
            actor=self._actor,
            blinds=self._ambient.random(chain.BLIND_BYTES * len(drafts)),
        )
        written = write.write(before, start, drafts, stamp)
        commit = Commit(
            row=row_of(written.state, digest=written.digest, at=at),
            expected=before.version,
            record=written.record,
            listing=not same_listing(before, written.state),
            checkpoints=written.checkpoints,
        )
        return Made(commit, written.state, segments, before, start)


def said(text: str, role: str = "user") -> Message:
    """A message."""
    return Message(role=role, content=text)


def key_use(key: str, *, principal: str = "someone", session: str | None = None, body: bytes = b"") -> KeyUse:
    """An idempotency key for a request with this body."""
    scope = None if session is None else SessionId(session)
    return KeyUse(principal=principal, session=scope, key=key, fingerprint=sha256(body).digest())


def opens(account: str, cap: int | None) -> tuple[AccountMove, ...]:
    """The move that gives an account its cap."""
    return (AccountMove(account=account, cap=cap, sets_cap=True),)


def _sorted_out(more: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of `created`, and the rest, which are fields of the commit."""
    fields = {name: value for name, value in more.items() if name in Created.__struct_fields__}
    return fields, {name: value for name, value in more.items() if name not in fields}


def _finished(made: Made, **fields: Any) -> Made:
    return msgspec.structs.replace(made, commit=msgspec.structs.replace(made.commit, **fields))
