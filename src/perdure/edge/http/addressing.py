"""Which session a client means that knows nothing of sessions, and what else it says about it in headers.

A session is named in a header, else in the metadata of the request, else by the id that Claude's own programs give
theirs. A name that leads nowhere yet makes a session; an id does not. Who names none is charged all the same: to a
ledger, a session that keeps costs alone and belongs to nobody, so that nobody lifts their own cap.
"""

from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.errors import AlreadyExists, Denied, Invalid
from perdure.core.memory.parts import PREFIX
from perdure.core.session.ids import SessionId, is_id
from perdure.core.session.state import State
from perdure.core.talk.turning import Caching, Diverging
from perdure.edge.given import must_be_a_name, text_of
from perdure.edge.http.asking import Ask, missing, path_id
from perdure.edge.http.reaching import entered, must_create, state_of

WRITE_TURNS: Final = Action(Verb.WRITE, Thing.TURNS)
SESSION: Final = "perdure-session"
IN_METADATA: Final = "perdure_session"
CLAUDE: Final = "x-claude-code-session-id"
CLAUDE_NAME: Final = "claude-code:"
LEDGER: Final = "ledger"
LEDGER_NAME: Final = "gateway:"
OWN_NAMES: Final = (LEDGER_NAME, PREFIX)
"""What names begin with that only the server gives."""
NOBODY: Final = ""
PASSED: Final = ("anthropic-beta", "anthropic-version", "openai-beta", "openai-organization", "openai-project")
"""Headers of a client's that the provider is to see."""
_NEVER: Final = {"idle": 0, "absolute": 0, "max_active": 0, "grace": 0, "expiry": 0}
Mode: TypeAlias = Literal["record", "manage"]
T = TypeVar("T")


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says in headers about a request."""

    mode: Mode = "record"
    diverging: Diverging = "branch"
    agent: str | None = None
    strategy: str = ""
    cache: Caching = "off"


def wishes_of(headers: dict[str, str]) -> Wishes:
    """What a request's headers say; `Invalid` names what may be said."""
    found = Wishes(
        mode=_one_of(headers, "perdure-mode", Mode, "record"),
        diverging=_one_of(headers, "perdure-diverge", Diverging, "branch"),
        agent=_words(headers, "perdure-agent"),
        strategy=_words(headers, "perdure-strategy") or "",
        cache=_one_of(headers, "perdure-cache", Caching, "off"),
    )
    if found.cache != "off" and found.mode != "manage":
        raise Invalid("perdure-cache goes with perdure-mode: manage; a history of the client's own is always asked")
    return found


def addressed(headers: dict[str, str], body: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The session that a request names, and its body without that name, which is nothing to its provider."""
    metadata = body.get("metadata")
    inside = None
    if isinstance(metadata, dict) and IN_METADATA in metadata:
        inside = metadata[IN_METADATA]
        if type(inside) is not str:
            raise Invalid(f"metadata.{IN_METADATA} is a text: the session's name, or its id")
        left = {name: value for name, value in metadata.items() if name != IN_METADATA}
        body = {**body, "metadata": left} if left else {name: body[name] for name in body if name != "metadata"}
    claude = _words(headers, CLAUDE)
    return _words(headers, SESSION) or inside or (CLAUDE_NAME + claude if claude else None), body


async def reached(ask: Ask, spelled: str) -> State:
    """The session that a request names, made if it goes by a name that leads nowhere yet. It is taken note of as in any
    other request about it.
    """
    if is_id(spelled):
        session = path_id(spelled)
    else:
        if spelled.startswith(OWN_NAMES):
            raise missing()
        session = ask.db.named(text_of(spelled, "a session's name")).id
        if await state_of(ask, session) is None:
            await _begun(ask, spelled)
    ask.params["session_id"] = session  # so that a refusal is noted with it, too
    state = await entered(ask, session, WRITE_TURNS)
    if ask.node.entrance.watched(ask.actor, ask.endpoint, ask.request, session):
        ask.node.entrance.flagged(ask)
    return state


async def _begun(ask: Ask, name: str) -> None:
    must_create(ask, title=name)
    try:
        await ask.db.create(owner=ask.actor.acting_for or ask.actor.name, name=name)
    except AlreadyExists:
        return  # somebody was as fast


async def ledger(ask: Ask) -> SessionId:
    """The session that keeps what somebody costs who names none. An admin may set its cap."""
    name = LEDGER_NAME + ask.actor.principal
    session = ask.db.named(name).id
    state = await state_of(ask, session)
    if state is None:
        title, config = f"{LEDGER_NAME} {ask.actor.name}"[:200], {"timeouts": _NEVER}
        try:
            await ask.db.create(title, owner=NOBODY, name=name, tags=(LEDGER,), config=config)
        except AlreadyExists:
            return session
    elif state.origin.owner != NOBODY:
        raise Denied("what keeps your costs here is not the server's own; have an admin erase it", session=session)
    return session


def must_be_free(name: str | None) -> None:
    """`Denied` for a name that only the server gives, `Invalid` for one that is an id."""
    must_be_a_name(name)
    if name is not None and name.startswith(OWN_NAMES):
        told = f"names that begin with {' or '.join(OWN_NAMES)} are the server's own; choose another one"
        raise Denied(told, reason="name")


def passed(headers: dict[str, str]) -> dict[str, str]:
    """The headers that go on to the provider."""
    return {name: headers[name] for name in PASSED if name in headers}


def _one_of(headers: dict[str, str], name: str, kind: Any, default: T) -> T:
    told = headers.get(name, "").strip()
    if not told:
        return default
    choices: tuple[T, ...] = get_args(kind)
    for choice in choices:
        if told.lower() == choice:
            return choice
    raise Invalid(f"{name} is one of {', '.join(map(str, choices))}, not {told[:80]!r}")


def _words(headers: dict[str, str], name: str) -> str | None:
    """What a header says, which may be in UTF-8."""
    told = headers.get(name, "").strip()
    if not told:
        return None
    try:
        told = told.encode("latin-1").decode()
    except UnicodeError:
        pass
    return text_of(told, name)
