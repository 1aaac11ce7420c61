"""What every store says in the same words."""

from perdure.core.errors import VersionConflict
from perdure.core.session.ids import SessionId


def moved_on(session: SessionId) -> VersionConflict:
    """The refusal of what was decided on a log that has been pruned, erased or handed over meanwhile."""
    return VersionConflict(f"the log of session {session} changed meanwhile; reload and decide again", session=session)
