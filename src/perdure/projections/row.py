"""A session's row: what a list shows of its state, and when something is due.

Invariant: a row is a pure function of the state, the chain's digest, the time of the append and the deployment's
default time-outs.
"""

from perdure.core.session.ids import SessionId
from perdure.core.session.origin import CHILD, Timeouts
from perdure.core.session.state import State
from perdure.core.session.timeouts import OFF, due_at
from perdure.core.session.values import same
from perdure.ports.store import Row


def row_of(state: State, *, digest: bytes, at: int, defaults: Timeouts = OFF) -> Row:
    """The row of a session that reached this state, with this digest, by an append at this time."""
    origin, turns = state.origin, state.turns
    lineage = origin.lineage
    parent, kind = (origin.spawner, None if origin.spawner is None else CHILD)
    if lineage is not None:
        parent, kind = lineage.parent, lineage.kind.value
    return Row(
        session=SessionId(state.session),
        tenant=state.tenant,
        owner=origin.owner,
        title=origin.title,
        phase=state.phase.value,
        created_at=origin.created_at,
        active_at=at,
        expires_at=origin.expires_at,
        version=state.version,
        digest=digest,
        schema_version=state.schema,
        turns=turns.count,
        open_turn=None if turns.open is None else turns.open.number,
        parent=None if parent is None else SessionId(parent),
        branch_kind=kind,
        branched_at=None if lineage is None else lineage.version,
        account=origin.account,
        tags=origin.tags,
        metadata=origin.metadata,
        due_at=due_at(state, defaults),
    )


def same_listing(before: State, after: State) -> bool:
    """Whether nothing but version, digest, activity, turns and what is due differs between the rows of two states.

    What is due moves with every word that is said; whoever comes to see to it finds out and arms it anew.

    A needless False costs one wider write; a wrong True would show a stale list, so 1 and True are not the same.
    """
    if before.phase is not after.phase or before.session != after.session or before.schema != after.schema:
        return False
    old, new = before.origin, after.origin
    return old is new or (old == new and same(old.metadata, new.metadata))
