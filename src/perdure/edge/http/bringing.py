"""What may be brought over HTTP: an export claims an id and an account, and neither may be somebody else's.

Ids that names lead to can be worked out by anybody, those of the server's own logs as well; whoever held one first
would keep its rightful session from ever being made. And an account is found by its id alone.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.ids import is_id, named, session_id
from perdure.core.session.origin import Configured, Created
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import may

_TELLING: Final = (Created.kind, Configured.kind)
_NAMED: Final = "8"
"""The version of ids that names lead to; those of all other sessions are made of time and chance."""


class _Line(msgspec.Struct):
    kind: str = ""
    data: Any = None
    session: str = ""
    perdure: str = ""
    raw: str | None = None


async def must_be_ours(ask: Ask, lines: Iterable[bytes]) -> None:
    """`Invalid` when an export has the id of a name that is not its own here, or draws on an account of somebody
    else's. What is no export at all is left to whoever reads it.
    """
    claimed, names, accounts = _claims(lines)
    if not is_id(claimed):
        return
    id = session_id(claimed)
    if id[14] == _NAMED and not any(named(ask.actor.tenant, name) == id for name in names):
        told = "this session's id is that of a name it does not go by here; import it on the server's machine instead"
        raise Invalid(told, session=claimed)
    for account in {name.partition("#")[0] for name in accounts} - {id}:  # behind the sign: a part of an account
        if not is_id(account) or not await may(ask, session_id(account)):
            told = "this session draws on the account of another one that is not here; import that one first"
            raise Invalid(told, session=claimed)


def _claims(lines: Iterable[bytes]) -> tuple[str, set[str], set[str]]:
    """The id an export claims, the names it may go by, and the accounts it draws on."""
    claimed, names, accounts = "", set[str](), set[str]()
    for line in lines:
        if (
            b'"account"' not in line
            and b'"kind":"created"' not in line
            and not (claimed == "" or b"configured" in line)
        ):
            continue
        try:
            found = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if found.perdure == "session":
            claimed = found.session
        elif found.kind in _TELLING and found.raw is not None:
            raise Invalid("this export does not say in JSON how its session began; export the session again")
        elif found.kind in _TELLING and isinstance(found.data, dict):
            data, metadata = found.data, found.data.get("metadata")
            names |= {text for text in (data.get("title"), _name(metadata)) if isinstance(text, str)}
            accounts |= {text for text in (data.get("account"),) if isinstance(text, str)}
    return claimed, names, accounts


def _name(metadata: Any) -> Any:
    return metadata.get("name") if isinstance(metadata, dict) else None
