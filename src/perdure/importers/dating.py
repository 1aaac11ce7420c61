"""When something was said that is written down only now. An event's own time is that of its writing; the original one
lies beside what is said, as ISO 8601 in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from perdure.events import Draft, Message, Payload, ToolAsked, ToolFinished

SAID_AT: Final = "said_at"
"""When it was said, in the metadata of a message, a call or a result."""
BEGAN_AT: Final = "began_at"
"""When the conversation began, in the metadata of its session."""

P = TypeVar("P", bound=Payload | Draft)


def moment(held: Any) -> str | None:
    """A time as sources keep it (seconds, a date, or the text of one; without a zone it is UTC); None if it is none."""
    try:
        if isinstance(held, int | float) and type(held) is not bool:
            found = datetime.fromtimestamp(held, UTC)
        elif isinstance(held, str | datetime):
            found = datetime.fromisoformat(held) if isinstance(held, str) else held
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat().replace("+00:00", "Z")


def dated(payloads: Sequence[P], when: str | None) -> list[P]:
    """What was said, with the time when that was, if it is known."""
    return list(payloads) if when is None else [_dated(payload, when) for payload in payloads]


def _dated(found: Any, when: str) -> Any:
    if isinstance(found, Draft):
        return msgspec.structs.replace(found, payload=_dated(found.payload, when))
    if not isinstance(found, Message | ToolAsked | ToolFinished):
        return found
    return msgspec.structs.replace(found, metadata={**found.metadata, SAID_AT: when})


def beginning(times: Iterable[str | None]) -> dict[str, Any]:
    """The mark of a session whose items were said at these times."""
    known = [when for when in times if when is not None]
    return {BEGAN_AT: min(known, key=datetime.fromisoformat)} if known else {}
