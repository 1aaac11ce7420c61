"""What a request that was let in may reach beyond its own words: fields, other sessions, other people's sessions."""

from typing import Any, Final

import msgspec

from perdure.core.access.decide import decide
from perdure.core.access.fields import first_touch, parsed, spelled, touched
from perdure.core.access.roles import WRITES, Action, Actor, Context, Decision, Reason, Resource, Role, Thing, Verb
from perdure.core.access.views import SAID, hides_words
from perdure.core.errors import Denied, NotFound, VersionConflict
from perdure.core.memory.owning import is_log
from perdure.core.session.changes import changes
from perdure.core.session.diff import diff
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.edge.http.asking import Ask, allowed, missing, path_id
from perdure.edge.session import AsyncSession
from perdure.ports.store import Row
from perdure.services.loading import Loaded, stale

READ_STATE: Final = Action(Verb.READ, Thing.STATE)
WRITE_STATE: Final = Action(Verb.WRITE, Thing.STATE)
READ_SESSION: Final = Action(Verb.READ, Thing.SESSION)
READ_TURNS: Final = Action(Verb.READ, Thing.TURNS)
CREATE_SESSION: Final = Action(Verb.CREATE, Thing.SESSION)
NAMED: Final = "8"
"""The version of ids that names lead to."""
OF_ANY_LOG: Final = frozenset({"erase_session", "verify_session"})
"""What may be done to a log of memories as to any other, though it is no mere reading."""


def may_own_for_others(actor: Actor) -> bool:
    """Whether an actor may begin sessions that belong to somebody else."""
    return Role.ADMIN in actor.roles and actor.session is None


def owners_seen(actor: Actor) -> tuple[str, ...] | None:
    """Whose sessions an actor's lists show; None for everybody's."""
    if Role.ADMIN in actor.roles and actor.session is None:
        return None
    return own_names(actor)


def own_names(actor: Actor) -> tuple[str, ...]:
    """The names under which sessions are an actor's own, or of the person it acts for."""
    return tuple(name for name in (actor.acting_for, actor.name) if name)


def searched(ask: Ask, owner: str | None, conditions: dict[str, Any]) -> dict[str, Any] | None:
    """The conditions of a search with whose sessions it is among; None when nothing can match that may be seen. What is
    hidden of others' sessions finds none of them: then only one's own are searched.
    """
    must_not_search_hidden(ask, conditions)
    owners = owners_seen(ask.actor)
    if owners is None:
        by_content = any(conditions.get(name) is not None for name in ("title", "text", "tags", "metadata"))
        if not by_content or owner in own_names(ask.actor) or not hidden_of_others(ask):
            return conditions | {"owner": owner}
        owners = own_names(ask.actor)
    wanted = owners[0] if owner is None else owner
    return conditions | {"owner": wanted} if wanted in owners else None


def must_not_search_hidden(ask: Ask, conditions: dict[str, Any]) -> None:
    """`Denied` when a search would tell of a field that whoever asks may not see, or of words they may not read."""
    own = Resource(tenant=ask.actor.tenant, session="", owner=ask.actor.acting_for or ask.actor.name)
    if conditions.get("text") and not _sees(ask, READ_TURNS, own):
        raise Denied("you may not search what was said in sessions that you may not read", reason="role")
    if not ask.hidden:
        return
    asked = [spelled(("metadata", name)) for name in conditions.get("metadata") or {}]
    asked += [name for name in ("title", "tags") if conditions.get(name)]
    asked += ["title", *SAID] if conditions.get("text") else []  # words are looked for in titles, too
    if first_touch(asked, ask.hidden) is not None:
        raise Denied("you may not search by a field that is hidden from you", reason="field")


def hidden_of_others(ask: Ask) -> tuple[str, ...]:
    """The fields of other people's sessions that lists must not show to whoever asks, nor be searched by."""
    if ask.decision.reason is Reason.OVERRIDE:
        return ()
    others = Resource(tenant=ask.actor.tenant, session="")
    return decide(ask.actor, READ_SESSION, others, _context(ask), ask.policy).hidden


def _sees(ask: Ask, action: Action, resource: Resource) -> bool:
    return (
        ask.decision.reason is Reason.OVERRIDE or decide(ask.actor, action, resource, _context(ask), ask.policy).allowed
    )


def must_see_words(ask: Ask) -> None:
    """`Denied` when what was said and done is hidden from whoever asks."""
    if hides_words(ask.hidden):
        raise Denied("what was said here is hidden from you by a policy", reason="field")


def must_see_context(ask: Ask) -> None:
    """`Denied` when any of what a model is told is hidden from whoever asks: they could have it say that."""
    must_see_words(ask)
    if any(names[0] in ("scratchpad", "config", "memory", "*") for names in map(parsed, ask.hidden)):
        raise Denied(
            "what the model is told here is hidden from you in part, so you may not talk to it", reason="field"
        )


def must_see_all(ask: Ask) -> None:
    """`Denied` when any field is hidden from whoever asks: what cannot be shown in part is not shown."""
    if ask.hidden:
        raise Denied("some fields are hidden from you, so this cannot be had whole", reason="field")


async def must_write(
    ask: Ask, before: dict[str, Any], after: dict[str, Any], asked: tuple[str, ...] = ("vars",)
) -> None:
    """`Denied` when whoever asks may not change vars so: not at all here, or not a field that it touches. `asked` are
    the paths that the request names.
    """
    if ask.endpoint.action != WRITE_STATE or ask.policy.fields:
        await must(ask, Thing.STATE, written(ask, before, after, asked))


def written(
    ask: Ask, before: Any, after: Any, asked: tuple[str, ...], root: tuple[str, ...] = ("vars",)
) -> tuple[str, ...]:
    """The paths that a change of a document writes to: what it changes, and of what is hidden all that it names; else
    whoever guesses a hidden value right would be told so.
    """
    named = tuple(path for path in asked if first_touch((path,), ask.hidden) is not None)
    return (*touched(changes(diff(before, after)), root), *named)


def written_to_session(
    ask: Ask,
    state: State,
    *,
    title: str | None = None,
    tags: tuple[str, ...] | None = None,
    metadata: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[str, ...]:
    """The paths that a change of a session's title, tags, metadata or configuration writes to."""
    found = [name for name, value in (("title", title), ("tags", tags)) if value is not None]
    if metadata is not None:
        found += written(ask, state.origin.metadata, metadata, ("metadata",), ("metadata",))
    if config:
        document = msgspec.to_builtins(state.config)
        before = {name: document[name] for name in config if name in document}
        named = tuple(spelled(("config", name)) for name in config)
        found += written(ask, before, config, named, ("config",))
    return tuple(found)


async def pinned(ask: Ask, seen: int | bytes | None) -> Loaded:
    """The session as it stands, to check a write against, which then goes on from this very version. `VersionConflict`
    when the client saw another one: what is checked and what is written must not part.
    """
    loaded = await ask.services.sessions.loader.load(ask.id)
    if stale(loaded, seen):
        found, expected = loaded.state.version, seen.hex() if isinstance(seen, bytes) else seen
        told = f"session {ask.id} is at version {found}, not {expected}; reload and decide again"
        raise VersionConflict(told, session=ask.id, expected=expected, found=found)
    return loaded


async def must(ask: Ask, thing: Thing, fields: tuple[str, ...] = (), session: SessionId | None = None) -> None:
    """`Denied` when whoever asks may not write a part of the session, or of another one, that their request touches."""
    state = await state_of(ask, session or ask.id)
    if state is None:
        raise missing()
    _must(ask, Action(Verb.WRITE, thing), fields, resource_of(state))


async def must_in_branch(ask: Ask, title: str | None, config: dict[str, Any] | None) -> None:
    """`Denied` when a branch would get a title or configuration that whoever asks may not write."""
    state = await state_of(ask, ask.id)
    if ask.policy.fields and state is not None:
        fields = written_to_session(ask, state, title=title, config=config)
        _must(ask, ask.endpoint.action, fields, resource_of(state))


def must_begin(ask: Ask, **documents: Any) -> None:
    """`Denied` when a new session would hold a field that whoever asks may not write, in a session of their own."""
    if not ask.policy.fields:
        return
    fields: list[str] = []
    for name, value in documents.items():
        if isinstance(value, dict):
            fields += [spelled((name, inner)) for inner in value]
        elif value:
            fields.append(name)
    _must(ask, ask.endpoint.action, tuple(fields), Resource(tenant=ask.actor.tenant, session="", owner=ask.actor.name))


def _must(ask: Ask, action: Action | None, fields: tuple[str, ...], resource: Resource) -> None:
    if action is None:
        raise TypeError("an endpoint that writes names its action")
    context = msgspec.structs.replace(_context(ask), fields=fields)
    decision = decide(ask.actor, action, resource, context, ask.policy)
    if decision.reason is Reason.FIELD:
        told = f"{decision.by} is not yours to write, by a policy; leave it as it is"
        raise Denied(told, reason="field", field=decision.by)
    allowed(decision, action, ask.actor)


async def other(ask: Ask, spelled: str, action: Action = READ_STATE) -> AsyncSession:
    """Another session that a request names, if whoever asks may do this to it, all of its fields seen."""
    session = path_id(spelled)
    state = await state_of(ask, session)
    if state is None:
        raise missing()
    decision = allowed(decide(ask.actor, action, resource_of(state), _context(ask), ask.policy), action, ask.actor)
    if decision.hidden:
        raise Denied("some fields of the other session are hidden from you", reason="field")
    if action.verb in WRITES:
        must_not_hold_memories(state)
    return AsyncSession(ask.services, session)


def must_not_hold_memories(state: State, endpoint: str = "") -> None:
    """`Denied` when a session is where memories are kept, which are written by way of memory alone."""
    if state.session[14] != NAMED or endpoint in OF_ANY_LOG:
        return
    if is_log(state.origin.title, state.tenant, state.session):
        raise Denied("memories are kept here; /v1/memory is where they are changed", reason="memory")


async def entered(ask: Ask, session: SessionId, action: Action) -> State:
    """The session that a request is about without naming it in its path, decided on as if it did: what is not for
    whoever asks is not there, and what hides its words is closed. What this node remembers of it will do, unless rules
    ask for what changes.
    """
    remembered = not ask.policy.rules
    state = await state_of(ask, session, remembered=remembered)
    decision = _entering(ask, session, action, state)
    if remembered and not decision.allowed:  # perhaps another session has its name by now
        state = await state_of(ask, session)
        decision = _entering(ask, session, action, state)
    allowed(decision, action, ask.actor)
    if state is None:
        raise missing(Reason.MISSING)
    if action.verb in WRITES:
        must_not_hold_memories(state)
    if hides_words(decision.hidden):
        raise Denied("what was said here is hidden from you by a policy", reason="field")
    return state


def _entering(ask: Ask, session: SessionId, action: Action, state: State | None) -> Decision:
    absent = Resource(tenant=ask.actor.tenant, session=session, exists=False)
    resource = absent if state is None else resource_of(state)
    return decide(ask.actor, action, resource, _context(ask), ask.policy)


def must_create(ask: Ask, **documents: Any) -> None:
    """`Denied` when whoever asks may not begin a session of their own, or not with these documents."""
    own = Resource(tenant=ask.actor.tenant, session="", owner=ask.actor.name)
    allowed(decide(ask.actor, CREATE_SESSION, own, _context(ask), ask.policy), CREATE_SESSION, ask.actor)
    must_begin(ask, **documents)


async def may(ask: Ask, session: SessionId, action: Action = READ_SESSION) -> bool:
    """Whether whoever asks may do this to a session."""
    state = await state_of(ask, session)
    return state is not None and decide(ask.actor, action, resource_of(state), _context(ask), ask.policy).allowed


async def may_read(ask: Ask, session: SessionId, thing: Thing) -> bool:
    """Whether whoever was let into a session may read this of it, too; who broke the glass may."""
    return ask.decision.reason is Reason.OVERRIDE or await may(ask, session, Action(Verb.READ, thing))


async def seen_rows(ask: Ask, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows that whoever asks may see."""
    return tuple([row for row in rows if await may(ask, row.session)])


async def state_of(ask: Ask, session: SessionId, *, remembered: bool = False) -> State | None:
    """A session as it stands, or `remembered` as this node last saw it; None when it is not there, or another tenant's.
    Whose a session is and whom it lets in never changes, unless it is erased and begun anew under its name; whom a
    clade lets in does.
    """
    loader = ask.services.sessions.loader
    known = loader.recent(session) if remembered else None
    if known is not None:
        return known.state
    try:
        return (await loader.load(session)).state
    except NotFound:
        return None


def resource_of(state: State) -> Resource:
    """A session as access sees it."""
    origin = state.origin
    isolation = origin.isolation
    if isolation is None:
        return Resource(
            tenant=state.tenant, session=state.session, owner=origin.owner, phase=state.phase.value, tags=origin.tags
        )
    return Resource(
        tenant=state.tenant,
        session=state.session,
        owner=origin.owner,
        model=isolation.model,
        task=isolation.task,
        users=isolation.users,
        agents=isolation.agents,
        phase=state.phase.value,
        tags=origin.tags,
    )


def _context(ask: Ask) -> Context:
    return Context(at=ask.node.tenants.ambient.now(), address=ask.request.address)
