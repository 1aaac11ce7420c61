"""The names that callers used, by the ids they lead to: a server is told names, and finds the ids itself."""

from typing import Final

from perdure.core.errors import NotFound
from perdure.core.session.ids import SessionId, named

MOST: Final = 4096
SESSIONS: Final = "/v1/sessions/"


class Names:
    """What sessions of one tenant are called here."""

    def __init__(self) -> None:
        self.tenant = ""
        self.own = ""
        """Who asks, or for whom they act."""
        self._known: dict[SessionId, str] = {}

    def id_of(self, name: str) -> SessionId:
        """The id a name leads to; the name is remembered."""
        found = named(self.tenant, name)
        if found != name:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[found] = name
        return found

    def told(self, missing: NotFound, path: str) -> NotFound:
        """What is said of a session that is not there, in the words of whoever asked for it."""
        session = SessionId(path.removeprefix(SESSIONS)[:36])
        if missing.fields or not path.startswith(SESSIONS):
            return missing
        name = self._known.get(session)
        if name is None:
            return NotFound(f"no session {session} here; find lists those there are", session=session)
        told = f"no session named {name!r} here; create(name={name!r}) makes it, find lists those there are"
        return NotFound(told, session=session, name=name)

    def called(self, session: SessionId) -> str | None:
        """The name that led to an id, if one did."""
        return self._known.get(session)
