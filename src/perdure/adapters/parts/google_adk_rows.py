"""How sessions of Google's Agent Development Kit are named, what their rows say, and the objects made of them."""

from functools import lru_cache
from typing import Any, Final

import msgspec
from google.adk.sessions.base_session_service import ListSessionsResponse
from google.adk.sessions.session import Session

from perdure.adapters.parts.google_adk_events import Document

APP: Final = "adk_app"
USER: Final = "adk_user"
SESSION: Final = "adk_session"
LISTED: Final = "adk_state"
SHARED: Final = "adk_shared_by"
MOST_LISTED: Final = 4096
"""So many bytes of a session's state lie in its row, for lists; a larger one is read from the session."""
MARK: Final = "perdure:"


class SessionsPage(ListSessionsResponse):
    """A page of sessions; `cursor` leads to the next one, and is None on the last."""

    cursor: str | None = None


@lru_cache(maxsize=4096)
def session_name(app_name: str, user_id: str, session_id: str) -> str:
    """The name that the session of an app, a user and an id goes by; `db.named` of it opens it from anywhere."""
    return f"adk/{_part(app_name)}/{_part(user_id)}/{_part(session_id)}"


def app_state_name(app_name: str) -> str:
    """The name of the session that holds what all sessions of an app share."""
    return f"adk-app/{_part(app_name)}"


def user_state_name(app_name: str, user_id: str) -> str:
    """The name of the session that holds what all sessions of a user share."""
    return f"adk-user/{_part(app_name)}/{_part(user_id)}"


def _part(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def marker(session: str, version: int) -> str:
    """The revision an object stands at, as ADK carries it along, through copies too."""
    return f"{MARK}{version}:{session}"


def card(app_name: str, user_id: str, session_id: str, document: Document) -> Document:
    """What a session's row says: whose it is, and its state unless that is large."""
    found: Document = {APP: app_name, USER: user_id, SESSION: session_id, LISTED: None}
    text = msgspec.json.encode(document)
    if len(text) <= MOST_LISTED and msgspec.json.decode(text) == document:
        found[LISTED] = text.decode()
    return found


_FIELDS: Final = frozenset({"app_name", "user_id", "id", "state", "events", "last_update_time"})
_KNOWN: Final = Session.model_fields.keys() == _FIELDS and [*Session.__private_attributes__] == [
    "_storage_update_marker"
]
"""Whether ADK's object has just the fields that are filled in here."""


def session_of(
    app_name: str, user_id: str, session_id: str, state: Document, events: list[Any], at: float, mark: str
) -> Session:
    """ADK's object. It is not checked: every field is of its type already, and a list makes thousands."""
    fields: dict[str, Any] = {
        "id": session_id,
        "app_name": app_name,
        "user_id": user_id,
        "state": state,
        "events": events,
        "last_update_time": at,
    }
    if not _KNOWN:
        checked = Session(**fields)
        checked._storage_update_marker = mark
        return checked
    made = Session.__new__(Session)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", set(_FIELDS))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", {"_storage_update_marker": mark})
    return made
