"""What a request that was let in may reach beyond its own words: fields, other sessions, other people's sessions."""

from typing import Any, Final

import msgspec

from perdure.core.access.decide import decide
from perdure.core.access.fields import touched, within
from perdure.core.access.roles import Action, Actor, Context, Reason, Resource, Role, Thing, Verb
from perdure.core.errors import Denied, NotFound
from perdure.core.session.changes import changes
from perdure.core.session.diff import diff
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.edge.http.asking import Ask, allowed, missing, path_id
from perdure.edge.session import AsyncSession
from perdure.ports.store import Row

READ_STATE: Final = Action(Verb.READ, Thing.STATE)
WRITE_STATE: Final = Action(Verb.WRITE, Thing.STATE)
READ_SESSION: Final = Action(Verb.READ, Thing.SESSION)
READ_TURNS: Final = Action(Verb.READ, Thing.TURNS)


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
    asked = [f"metadata.{name}" for name in conditions.get("metadata") or {}]
    asked += [name for name in ("title", "tags") if conditions.get(name)]
    asked += ["turns"] if conditions.get("text") else []
    if any(within(path, ask.hidden) for path in asked):
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


def must_see(ask: Ask, field: str) -> None:
    """`Denied` when a field is hidden from whoever asks."""
    if ask.hidden and within(field, ask.hidden):
        raise Denied(f"{field} is hidden from you by a policy", reason="field")


def must_see_all(ask: Ask) -> None:
    """`Denied` when any field is hidden from whoever asks: what cannot be shown in part is not shown."""
    if ask.hidden:
        raise Denied("some fields are hidden from you, so this cannot be had whole", reason="field")


async def must_write(ask: Ask, before: dict[str, Any], after: dict[str, Any]) -> None:
    """`Denied` when whoever asks may not change vars so: not at all here, or not a field that it touches."""
    if ask.endpoint.action != WRITE_STATE or ask.policy.fields:
        await must(ask, Thing.STATE, touched(changes(diff(before, after))))


async def must(ask: Ask, thing: Thing, fields: tuple[str, ...] = ()) -> None:
    """`Denied` when whoever asks may not write a part of the session that their request touches besides its own."""
    state = await state_of(ask, ask.id)
    if state is None:
        raise missing()
    context = msgspec.structs.replace(_context(ask), fields=fields)
    action = Action(Verb.WRITE, thing)
    decision = decide(ask.actor, action, resource_of(state), context, ask.policy)
    if decision.reason is Reason.FIELD:
        told = f"{decision.by} is not yours to write, by a policy; leave it as it is"
        raise Denied(told, reason="field", field=decision.by)
    allowed(decision, action)


async def other(ask: Ask, spelled: str, action: Action = READ_STATE) -> AsyncSession:
    """Another session that a request names, if whoever asks may do this to it, all of its fields seen."""
    session = path_id(spelled)
    state = await state_of(ask, session)
    if state is None:
        raise missing()
    decision = allowed(decide(ask.actor, action, resource_of(state), _context(ask), ask.policy), action)
    if decision.hidden:
        raise Denied("some fields of the other session are hidden from you", reason="field")
    return AsyncSession(ask.services, session)


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


async def state_of(ask: Ask, session: SessionId, *, fresh: bool = False) -> State | None:
    """A session as this node last saw it, or `fresh` as it stands; None when it is not there, or another tenant's.
    Whose it is and whom it lets in never changes.
    """
    loader = ask.services.sessions.loader
    known = None if fresh else loader.recent(session)
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
