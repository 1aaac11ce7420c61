"""What may be brought over HTTP: an export claims an id and an account, and neither may be somebody else's.

Ids that names lead to can be worked out by anybody, those of the server's own logs as well; whoever held one first
would keep its rightful session from ever being made. And an account is found by its id alone.
"""

from binascii import a2b_base64
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.parts import PREFIX
from perdure.core.session import state as states
from perdure.core.session.ids import is_id, named, session_id
from perdure.core.session.origin import Configured, Created, Recall
from perdure.edge.http.asking import Ask
from perdure.edge.http.granting import must_read, recall_of
from perdure.edge.http.reaching import may

_TELLING: Final = (Created.kind, Configured.kind)
_WORDS: Final = (b"created", b"configured", b"\\u")
"""One of these stands in every line that tells: a kind, or what may spell it."""
_NAMED: Final = "8"
"""The version of ids that names lead to; those of all other sessions are made of time and chance."""


class _Line(msgspec.Struct):
    kind: str = ""
    data: Any = None
    session: str = ""
    perdure: str = ""
    raw: str | None = None
    anchor: Any = None


class _Claims(msgspec.Struct, kw_only=True):
    """The id an export claims, the names it may go by, the accounts it draws on, whose it says it is, and what memory
    it is to be shown.
    """

    session: str = ""
    names: set[str] = msgspec.field(default_factory=set)
    accounts: set[str] = msgspec.field(default_factory=set)
    owners: set[tuple[str, str | None]] = msgspec.field(default_factory=set)
    shown: list[Recall | None] = msgspec.field(default_factory=list)


async def must_be_ours(ask: Ask, lines: Iterable[bytes]) -> None:
    """`Invalid` when an export has the id of a name that is not its own here, or draws on an account of somebody
    else's; `Denied` when its session would be shown what whoever asks may not read of memory. What is no export at all
    is left to whoever reads it.
    """
    claims = _claims(lines)
    claimed, names, accounts = claims.session, claims.names, claims.accounts
    if not is_id(claimed):
        return
    id = session_id(claimed)
    if id[14] == _NAMED and not any(named(ask.actor.tenant, name) == id for name in names):
        told = "this session's id is that of a name it does not go by here; import it on the server's machine instead"
        raise Invalid(told, session=claimed)
    if any(name.startswith(PREFIX) for name in names):
        raise Invalid("this goes by a name of the server's own; import it on the server's machine", session=claimed)
    for account in {name.partition("#")[0] for name in accounts} - {id}:  # behind the sign: a part of an account
        if not is_id(account) or not await may(ask, session_id(account)):
            told = "this session draws on the account of another one that is not here; import that one first"
            raise Invalid(told, session=claimed)
    for recall in claims.shown:
        for owner, agent in claims.owners:
            await must_read(ask, recall, owner, agent)


def _claims(lines: Iterable[bytes]) -> _Claims:
    """What an export says of whose it is."""
    claims = _Claims()
    for line in lines:
        if claims.session and not any(word in line for word in _WORDS):
            continue
        try:
            found = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if found.perdure == "session":
            claims.session = found.session
            _anchored(claims, found.anchor)
        elif found.kind in _TELLING and found.raw is not None:
            raise Invalid("this export does not say in JSON how its session began; export the session again")
        elif found.kind in _TELLING and isinstance(found.data, dict):
            _told(claims, found.kind, found.data)
    return claims


def _told(claims: _Claims, kind: str, data: dict[str, Any]) -> None:
    """What an event says."""
    claims.names |= {text for text in (data.get("title"), _name(data.get("metadata"))) if isinstance(text, str)}
    claims.accounts |= {text for text in (data.get("account"),) if isinstance(text, str)}
    if kind == Created.kind:
        owner, agent = data.get("owner", ""), data.get("agent_id")
        claims.owners.add((owner if isinstance(owner, str) else "", agent if isinstance(agent, str) else None))
    if isinstance(config := data.get("config"), dict) and config.get("memory") is not None:
        claims.shown.append(recall_of(config["memory"]))


def _anchored(claims: _Claims, anchor: Any) -> None:
    """What the state says that a pruned log stands on; one that is unsound is left to whoever reads it."""
    if not isinstance(anchor, dict):
        return
    try:
        state = states.from_bytes(a2b_base64(anchor.get("state", "").encode()))
    except (Invalid, ValueError, AttributeError):
        return
    claims.owners.add((state.origin.owner, state.origin.agent_id))
    claims.shown.append(state.config.memory)


def _name(metadata: Any) -> Any:
    return metadata.get("name") if isinstance(metadata, dict) else None
