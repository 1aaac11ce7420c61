"""The name a session goes by. It leads to the session's id; the title tells it, or `name` in the metadata does.

Invariant: a session that was made with a name tells it for good, whatever its title and metadata become, unless `name`
in its metadata is given another meaning.
"""

from typing import TYPE_CHECKING, Any, Final

from perdure.core.session.ids import SessionId, named

if TYPE_CHECKING:
    from perdure.core.session.state import State

NAME: Final = "name"


def name_of(tenant: str, session: SessionId, title: str, metadata: dict[str, Any]) -> str | None:
    """The name, if there is one: what the metadata or the title say must lead to this very session. An id is none."""
    for name in (metadata.get(NAME), title):
        if type(name) is str and name and named(tenant, name) == session:
            return None if name.replace("-", "").lower() == session.replace("-", "") else name
    return None


def metadata_of(state: "State", title: str | None, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata a session gets with this title and metadata, None for what stays: with its name in it if that would
    have no place any more.
    """
    origin = state.origin
    name = name_of(state.tenant, SessionId(state.session), origin.title, origin.metadata)
    called = origin.title if title is None else title
    if name is None or name == called or (metadata is None and origin.metadata.get(NAME) == name):
        return metadata
    return {NAME: name, **(origin.metadata if metadata is None else metadata)}
