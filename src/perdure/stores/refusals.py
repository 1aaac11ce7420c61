"""What every store says in the same words."""

from collections.abc import Sequence

from perdure.core.errors import (
    AlreadyExists,
    BranchRefused,
    Invalid,
    NotFound,
    PruneRefused,
    StoreClosed,
    VersionConflict,
)
from perdure.core.session.ids import SessionId
from perdure.ports.store import Commit


def closed() -> StoreClosed:
    """The refusal of everything, once the store is closed."""
    return StoreClosed("the store is closed; open it again")


def unknown(session: SessionId) -> NotFound:
    """The refusal of what concerns a session that is not there."""
    return NotFound(f"no session {session}; it was erased or never there", session=session)


def taken(session: SessionId) -> AlreadyExists:
    """The refusal of an id that is in use."""
    return AlreadyExists(f"session {session} exists already; choose another id", session=session)


def stale(session: SessionId, expected: int, found: int) -> VersionConflict:
    """The refusal of an append to a session that stands elsewhere, or is another one by now."""
    stands = f"is at version {found}, not {expected}"
    if found == expected:
        stands = f"is at version {found} of another log: it was erased and begun anew, or put back, meanwhile"
    return VersionConflict(
        f"session {session} {stands}; reload and decide again",
        session=session,
        expected=expected,
        found=found,
    )


def no_source(session: SessionId) -> NotFound:
    """The refusal of a branch of a log that is gone."""
    return NotFound(f"session {session} is gone; nothing to branch from", session=session)


def not_pruned(session: SessionId) -> PruneRefused:
    """The refusal to drop records that another log lives on."""
    return PruneRefused(f"branches still share the log of {session}; erase or keep them first", session=session)


def not_erased(session: SessionId) -> BranchRefused:
    """The refusal to remove a session whose records another log lives on."""
    return BranchRefused(f"branches still share the log of {session}; give them their copy first", session=session)


def refuse_beyond(upto: int, version: int) -> None:
    """Refuse to prune to a version that the log does not go beyond."""
    if not 0 < upto < version:
        raise Invalid(f"prune to a version from 1 to {version - 1}, not {upto}", upto=upto)


def no_record(first: int) -> NotFound:
    """The refusal to rewrite a record that is not there."""
    return NotFound(f"no record begins at version {first}", first=first)


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
