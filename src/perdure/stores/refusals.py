"""What every store says in the same words."""

from collections.abc import Sequence

from perdure.core.errors import Invalid, VersionConflict
from perdure.core.session.ids import SessionId
from perdure.ports.store import Commit


def moved_on(session: SessionId) -> VersionConflict:
    """The refusal of what was decided on a log that has been pruned, erased or handed over meanwhile."""
    return VersionConflict(f"the log of session {session} changed meanwhile; reload and decide again", session=session)


def refuse_doubles(commits: Sequence[Commit]) -> None:
    """Refuse an append of nothing, and one that names a session or an idempotency key twice."""
    if len(commits) == 1:
        return
    if not commits:
        raise Invalid("an append needs at least one commit")
    if len({commit.row.session for commit in commits}) != len(commits):
        raise Invalid("an append names each session once; put its events into one commit")
    keys = [(use.principal, use.session, use.key) for use in (commit.key for commit in commits) if use is not None]
    if len(set(keys)) != len(keys):
        raise Invalid("an append names each idempotency key once; put its events into one commit")
