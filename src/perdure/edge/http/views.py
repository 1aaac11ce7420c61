"""What answers look like. One struct per thing; the OpenAPI document is made from them.

Times are microseconds since 1970 unless a field says otherwise; money is micro-dollars unless it says USD.
"""

from typing import Any, Final

import msgspec

from perdure.core.access.fields import without
from perdure.core.access.views import hides_pad, hides_words, of_event, of_state
from perdure.core.session import jsonl
from perdure.core.session import state as states
from perdure.core.session.budget import Account
from perdure.core.session.event import Event
from perdure.core.session.state import State
from perdure.core.session.steering import Steered
from perdure.core.session.transcript import Turn, heard
from perdure.core.session.turns import Message
from perdure.edge.http.wire import Voice
from perdure.ports.store import Change, Row
from perdure.services.checkpoints import CheckpointInfo

_REDACTED: Final = {"redacted": True}


class SessionView(msgspec.Struct, kw_only=True):
    """A session as lists show it."""

    session_id: str
    tenant: str
    owner: str
    title: str
    name: str | None
    phase: str
    version: int
    digest: str
    schema_version: str
    created_at: int
    active_at: int
    expires_at: int | None
    turns: int
    open_turn: int | None
    parent: str | None
    branch_kind: str | None
    branched_at: int | None
    account: str | None
    tags: tuple[str, ...]
    metadata: Any
    due_at: int | None = None
    cold: str | None = None


class ScratchpadView(msgspec.Struct, kw_only=True):
    """The scratchpad; `last_updated_at` is in milliseconds since 1970."""

    session_id: str
    content: str
    last_updated_at: int
    token_count: int
    version: int = 0


class CheckpointView(msgspec.Struct, kw_only=True):
    """A checkpoint."""

    checkpoint_id: str
    session_id: str
    seq: int
    version: int
    label: str
    trigger: str
    full: bool
    at: int
    expires_at: int | None
    pinned: bool
    size: int
    metadata: Any


class ChildView(msgspec.Struct, kw_only=True):
    """A child that is still at work, and its slice of the budget."""

    session_id: str
    slice: int


class RecordView(SessionView, kw_only=True):
    """A session whole, but for its history."""

    agent_id: str | None
    model: str | None
    config: Any
    isolation: Any
    checkpoints: tuple[CheckpointView, ...]
    scratchpad: ScratchpadView
    sub_agents: tuple[ChildView, ...]
    total_cost_usd: float
    max_cost_usd: float | None
    compaction_count: int


class Listed(msgspec.Struct, kw_only=True):
    """A page of sessions; `cursor` leads to the next one, null after the last."""

    items: tuple[SessionView, ...]
    cursor: str | None


class EventView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event of a log."""

    version: int
    id: str
    kind: str
    kind_version: int
    at: int
    actor: str
    digest: str
    agent: str | None = None
    child_agent: str | None = None
    target: str | None = None
    turn: int | None = None
    redacted: bool = False
    data: Any = None
    record: int | None = None
    session: str | None = None
    tenant: str | None = None
    epoch: int | None = None
    key: str | None = None
    blind: str | None = None
    commitment: str | None = None
    raw: str | None = None


class Events(msgspec.Struct, kw_only=True):
    """A page of a log, oldest first; `after` leads to the next one, null when this was the last."""

    items: tuple[Any, ...]
    version: int
    after: int | None


class TurnView(msgspec.Struct, kw_only=True):
    """One exchange: its events, grouped. A message that was redacted is `{"redacted": true}`."""

    number: int | None
    status: str
    at: int
    first: int
    last: int
    messages: Any
    calls: Any
    events: tuple[Any, ...] = ()


class Turns(msgspec.Struct, kw_only=True):
    """Turns, oldest first. `after` is where the next page begins; null on the last one."""

    items: tuple[TurnView, ...]
    version: int
    after: int | None = None


class Version(msgspec.Struct, kw_only=True):
    """Where a session stands after a write."""

    session_id: str
    version: int


class StateView(msgspec.Struct, kw_only=True):
    """Everything about a session but its history, as of a version."""

    session_id: str
    version: int
    phase: str
    vars: Any
    state: Any


class AccountView(msgspec.Struct, kw_only=True):
    """What a tree of sessions may spend together."""

    cap: int | None
    spent: int
    reserved: int
    paused: bool
    left: int | None


class ChangeView(msgspec.Struct, kw_only=True):
    """One committed append, as the change feed tells it."""

    position: int
    session_id: str
    first: int
    last: int
    at: int
    kinds: tuple[str, ...]
    erased: bool


def session_view(row: Row, voice: Voice, hidden: tuple[str, ...] = ()) -> SessionView:
    """A session as lists show it, to someone who may not see what is hidden."""
    return SessionView(**_row(row, voice, hidden))


def _row(row: Row, voice: Voice, hidden: tuple[str, ...]) -> dict[str, Any]:
    shown = {"title": row.title, "tags": row.tags, "metadata": row.metadata}
    if hidden:
        shown = {"title": "", "tags": (), "metadata": {}} | without(shown, hidden)
    return {
        "session_id": row.session,
        "tenant": row.tenant,
        "owner": row.owner,
        "title": shown["title"],
        "name": row.name,
        "phase": row.phase,
        "version": row.version,
        "digest": row.digest.hex(),
        "schema_version": row.schema_version,
        "created_at": row.created_at,
        "active_at": row.active_at,
        "expires_at": row.expires_at,
        "turns": row.turns,
        "open_turn": row.open_turn,
        "parent": row.parent,
        "branch_kind": row.branch_kind,
        "branched_at": row.branched_at,
        "account": row.account,
        "tags": shown["tags"],
        "metadata": voice.content(shown["metadata"]),
        "due_at": row.due_at,
        "cold": None if row.cold is None else "cold",
    }


def record_view(
    row: Row,
    state: State,
    account: Account,
    checkpoints: tuple[CheckpointInfo, ...],
    voice: Voice,
    hidden: tuple[str, ...] = (),
) -> RecordView:
    """A session whole, to someone who may not see what is hidden."""
    document = msgspec.to_builtins(state.config)
    config = without({"config": document}, hidden).get("config", {}) if hidden else document
    return RecordView(
        **_row(row, voice, hidden),
        agent_id=state.origin.agent_id,
        model=config.get("model"),
        config=voice.content(config),
        isolation=msgspec.to_builtins(state.origin.isolation),
        checkpoints=tuple(checkpoint_view(item, voice) for item in checkpoints),
        scratchpad=scratchpad_view(state, "", hidden),
        sub_agents=tuple(ChildView(session_id=name, slice=share) for name, share in state.children.open.items()),
        total_cost_usd=account.spent / 1_000_000,
        max_cost_usd=None if account.cap is None else account.cap / 1_000_000,
        compaction_count=state.turns.compactions,
    )


def scratchpad_view(state: State, agent: str, hidden: tuple[str, ...] = ()) -> ScratchpadView:
    """What a scratchpad says."""
    pad = state.scratchpads.pads.get(agent)
    if pad is None or hides_pad(agent, hidden):
        return ScratchpadView(
            session_id=state.session, content="", last_updated_at=0, token_count=0, version=state.version
        )
    return ScratchpadView(
        session_id=state.session,
        content=pad.content,
        last_updated_at=pad.at // 1000,
        token_count=pad.tokens,
        version=state.version,
    )


def checkpoint_view(info: CheckpointInfo, voice: Voice) -> CheckpointView:
    """A checkpoint."""
    facts = msgspec.structs.asdict(info)
    named = {"checkpoint_id": facts.pop("id"), "session_id": facts.pop("session")}
    return CheckpointView(**named, **(facts | {"metadata": voice.content(info.metadata)}))


def event_view(event: Event, voice: Voice, hidden: tuple[str, ...] = ()) -> Any:
    """One event: for those who speak exactly the line of an export, which can be proven; else without what proves it.
    Of what is hidden nothing shows, and then nothing can be proven either.
    """
    if voice.exact and not hidden:
        return jsonl.event_line(event)
    data: Any = None
    if not event.redacted:
        data = msgspec.to_builtins(event.data, builtin_types=(bytes,)) if voice.exact else event.data
        if hidden:
            data = of_event(event.kind, msgspec.to_builtins(event.data, builtin_types=(bytes,)), hidden, event.agent)
    return EventView(
        version=event.version,
        id=event.id,
        kind=event.kind,
        kind_version=event.kind_version,
        at=event.at,
        actor=event.actor,
        digest=event.digest.hex(),
        agent=event.agent,
        child_agent=event.child_agent,
        target=event.target,
        turn=event.turn,
        redacted=event.redacted,
        data=data,
    )


def turn_view(turn: Turn, voice: Voice, hidden: tuple[str, ...] = ()) -> TurnView:
    """One exchange."""
    covered = hides_words(hidden)
    return TurnView(
        number=turn.number,
        status=turn.status,
        at=turn.at,
        first=turn.first,
        last=turn.last,
        messages=() if voice.exact or covered else _messages(turn),
        calls=() if voice.exact or covered else turn.calls,
        events=tuple(event_view(event, voice, hidden) for event in turn.events) if voice.exact else (),
    )


def _messages(turn: Turn) -> tuple[Any, ...]:
    """What was said, in order, and where something was that is redacted."""
    if not any(event.redacted for event in turn.events):
        return turn.messages
    found = (
        _REDACTED if event.redacted and isinstance(event.data, Message | Steered) else heard(event.data)
        for event in turn.events
    )
    return tuple(item for item in found if item is not None)


def state_view(state: State, voice: Voice, hidden: tuple[str, ...] = ()) -> StateView:
    """A state, to someone who may not see what is hidden."""
    document = states.to_document(state)
    vars_shown = state.vars.document
    if hidden:
        document = of_state(document, hidden)
        vars_shown = without({"vars": vars_shown}, hidden).get("vars", {})
    return StateView(
        session_id=state.session,
        version=state.version,
        phase=state.phase.value,
        vars=voice.content(vars_shown),
        state=voice.content(document),
    )


def account_view(account: Account) -> AccountView:
    """An account as it stands."""
    return AccountView(
        cap=account.cap, spent=account.spent, reserved=account.reserved, paused=account.paused, left=account.left
    )


def change_view(change: Change) -> ChangeView:
    """One committed append."""
    return ChangeView(
        position=change.position,
        session_id=change.session,
        first=change.first,
        last=change.last,
        at=change.at,
        kinds=change.kinds,
        erased=change.erased,
    )
