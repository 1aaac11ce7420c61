"""Every error perdure raises, in one tree. Each message says what to do next; `fields` carries the facts.

::

    PerdureError
    ├── CallerError                 the request cannot be served as it is: change it
    │   ├── Invalid                 a value is wrong
    │   │   ├── TooLarge            over a size limit
    │   │   ├── TooDeep             nested deeper than the limit
    │   │   ├── UnknownKind         an event kind this version does not know
    │   │   ├── BadCursor           a page cursor that this query did not make
    │   │   ├── BadExport           a JSONL export that does not parse or does not add up
    │   │   ├── BadPrices           a document of prices that is not one; names the place
    │   │   ├── BadScript           a script for the offline model that is not one; names the place
    │   │   ├── BadTemplate         a template that could never be rendered; names the place
    │   │   └── BadParams           params that do not fit their template; names each of them
    │   ├── NotFound                no such session, version or checkpoint
    │   │   ├── CheckpointExpired   it was there; its time is over
    │   │   ├── BlobMissing         no such blob here, or it was collected: put it again
    │   │   └── UnknownModel        no price is known for this model; names the nearest ones
    │   ├── Refused                 valid, but not in this state
    │   │   ├── MoveRefused         not in the lifecycle table; names what is allowed
    │   │   ├── GuardFailed         in the table, but its guard says no
    │   │   ├── Terminal            the session has ended
    │   │   ├── Suspended           the session sleeps: resume it first
    │   │   ├── TurnRefused         the turn is not open, or another one is
    │   │   ├── BranchRefused       this session may not be branched so
    │   │   ├── SpawnRefused        this session may not have a child, or not another one
    │   │   ├── PruneRefused        a branch, a checkpoint or what is remembered still needs the prefix
    │   │   ├── RedactionRefused    this event carries structure, not content
    │   │   ├── HookRefused         a hook before the move said no
    │   │   ├── NotOwner            only the session's owner may do this
    │   │   ├── LastAdmin           a tenant without an admin could not be administered
    │   │   ├── RenewalRefused      the session may not live any longer
    │   │   ├── MemoryRefused       what should be remembered is no memory, or is one already
    │   │   ├── ToolUnbound         the tool is bound to nothing that could be called here
    │   │   └── WakeRefused         the session cannot go on as things are; it stays asleep
    │   │       ├── NoCheckpoint             one was required, and there is none
    │   │       │   └── NoFullCheckpoint     there are deltas, and nothing they stand on
    │   │       ├── InsufficientTokenBudget  fewer tokens are left than it takes to go on
    │   │       ├── RequiredToolUnavailable  no version that will do, and no substitute
    │   │       ├── ToolUnauthorized         it is there, but not for this session
    │   │       ├── RetrievalFailed          required evidence is stale and could not be had again
    │   │       └── MemoryUnavailable        a layer of memory was required and could not be loaded
    │   ├── Unauthenticated         nobody known asks: no key or token, or one that does not count
    │   │   ├── TokenExpired            its time is over: refresh it
    │   │   └── TokenRevoked            it was taken back, or replaced by another one: sign in again
    │   ├── Denied                  known, but not allowed to do this
    │   ├── RateLimited             too many requests; says when the next one is taken
    │   ├── KeyReused               same idempotency key, another body
    │   ├── BudgetExhausted         the account has not that much left
    │   │   └── LimitReached        the session has had all the tokens, rounds or time that it may have
    │   ├── QuotaReached            a memory space's plan allows no more; says of what
    │   ├── ProviderRefused         the model's provider says that the request is wrong; tells its words
    │   ├── PromptTooLong           what must be said does not fit into the model's window
    │   └── SchemaError             a document does not fit its declared schema
    │       └── NoMigrationPath     no chain of migrations leads to the wanted version
    ├── ConflictError               somebody else was first: reload and decide again
    │   ├── VersionConflict         names the version found
    │   ├── AlreadyExists           the id is taken
    │   ├── KeyInFlight             the same key is being served right now
    │   └── MergeConflict           both sides changed the same thing; lists the paths
    └── WorldError                  not the caller's fault: the disk, the file, another version
        ├── Tampered                stored bytes do not match their digest
        │   ├── Damaged             stored bytes cannot be read at all
        │   │   └── BundleMissing   an archived session's bundle is not where it was put
        │   └── CheckpointIntegrity a checkpoint is not what was written, and no other may be used
        ├── SessionIntegrity        what is kept of a session does not add up; names the checks that failed
        ├── KeyMissing              sealed, and the master key, the vault or a salt is not there
        │   ├── WrongKey            a master key is there, but it is another one
        │   └── Shredded            the salt was destroyed: what it sealed is gone for good
        ├── ColdUnreachable         cold storage does not serve: the network, the credentials, the disk
        ├── Unreachable             the server does not answer, or what answers is not perdure
        ├── NotAStore               the file is something else
        ├── NewerStore              written by a newer perdure
        ├── OldSqlite               the linked SQLite has a known corruption bug
        ├── ReadOnly                the file or folder cannot be written
        ├── DiskFull                no space left; reads still work
        ├── StoreBusy               another process has held the file for too long
        ├── StorePoisoned           an fsync failed; the store must be reopened
        ├── DeliveryFailed          the receiver of a webhook did not take it
        ├── ProviderFailed          a model's provider did not give an answer
        │   ├── ProviderDenied      it does not know our key, or the key may not do this
        │   ├── ProviderBusy        it has too much to do; says when to ask again
        │   ├── ProviderDown        it cannot be reached, or fails on its side
        │   │   └── ProviderSlow    it did not answer in time
        │   ├── ProviderGarbled     what it said is not its own wire form
        │   └── ProviderCut         its answer broke off in the middle
        └── StoreClosed             used after close
"""

from perdure.core.faults import (
    BundleMissing,
    CheckpointIntegrity,
    ColdUnreachable,
    Damaged,
    DeliveryFailed,
    DiskFull,
    KeyMissing,
    NewerStore,
    NotAStore,
    OldSqlite,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderSlow,
    ReadOnly,
    SessionIntegrity,
    Shredded,
    StoreBusy,
    StoreClosed,
    StorePoisoned,
    Tampered,
    Unreachable,
    WrongKey,
)
from perdure.core.roots import CallerError, ConflictError, PerdureError, WorldError

__all__ = [  # what others define and this hands on
    "BundleMissing",
    "CallerError",
    "CheckpointIntegrity",
    "ColdUnreachable",
    "ConflictError",
    "Damaged",
    "DeliveryFailed",
    "DiskFull",
    "KeyMissing",
    "NewerStore",
    "NotAStore",
    "OldSqlite",
    "PerdureError",
    "ProviderBusy",
    "ProviderCut",
    "ProviderDenied",
    "ProviderDown",
    "ProviderFailed",
    "ProviderGarbled",
    "ProviderSlow",
    "ReadOnly",
    "SessionIntegrity",
    "Shredded",
    "StoreBusy",
    "StoreClosed",
    "StorePoisoned",
    "Tampered",
    "Unreachable",
    "WorldError",
    "WrongKey",
]


class Invalid(CallerError):
    """A value is wrong."""


class TooLarge(Invalid):
    """Over a size limit."""


class TooDeep(Invalid):
    """Nested deeper than the limit."""


class UnknownKind(Invalid):
    """An event kind this version does not know."""


class BadCursor(Invalid):
    """A page cursor that this query did not make."""


class BadExport(Invalid):
    """A JSONL export that does not parse or does not add up."""


class BadPrices(Invalid):
    """A document of prices that is not one; names the place."""


class BadScript(Invalid):
    """A script for the offline model that is not one; names the place."""


class BadTemplate(Invalid):
    """A template that could never be rendered; names the place."""


class BadParams(Invalid):
    """Params that do not fit their template: `missing`, `unknown` and `mistyped` name them."""


class NotFound(CallerError):
    """No such session, memory, version or checkpoint."""


class CheckpointExpired(NotFound):
    """The checkpoint was there; its time is over."""


class BlobMissing(NotFound):
    """No such blob here, or it was collected: put it again."""


class UnknownModel(NotFound):
    """No price is known for this model; `near` names the nearest ones."""


class Refused(CallerError):
    """Valid, but not in this state."""


class MoveRefused(Refused):
    """Not in the lifecycle table; names what is allowed."""


class GuardFailed(Refused):
    """In the lifecycle table, but its guard says no."""


class Terminal(Refused):
    """The session has ended."""


class Suspended(Refused):
    """The session sleeps: resume it first."""


class TurnRefused(Refused):
    """The turn is not open, or another one is."""


class BranchRefused(Refused):
    """This session may not be branched so."""


class SpawnRefused(Refused):
    """This session may not have a child, or not another one."""


class PruneRefused(Refused):
    """A branch, a checkpoint or what is remembered still needs the prefix."""


class RedactionRefused(Refused):
    """This event carries structure, not content."""


class HookRefused(Refused):
    """A hook before the move said no."""


class WakeRefused(Refused):
    """The session cannot go on as things are; it stays asleep."""


class NoCheckpoint(WakeRefused):
    """A checkpoint was required, and there is none."""


class NoFullCheckpoint(NoCheckpoint):
    """There are deltas, and nothing they stand on."""


class InsufficientTokenBudget(WakeRefused):
    """Fewer tokens are left than it takes to go on."""


class RequiredToolUnavailable(WakeRefused):
    """No version of the tool that will do, and no substitute."""


class ToolUnauthorized(WakeRefused):
    """The tool is there, but not for this session."""


class RetrievalFailed(WakeRefused):
    """Required evidence is stale and could not be had again."""


class MemoryUnavailable(WakeRefused):
    """A layer of memory was required and could not be loaded."""


class MemoryRefused(Refused):
    """What should be remembered is no memory, or is one already; `reason` says which."""


class ToolUnbound(Refused):
    """The tool is bound to nothing that could be called here."""


class NotOwner(Refused):
    """Only the session's owner may do this."""


class LastAdmin(Refused):
    """A tenant without an admin could not be administered."""


class RenewalRefused(Refused):
    """The session may not live any longer."""


class Unauthenticated(CallerError):
    """Nobody known asks: no key or token, or one that does not count."""


class TokenExpired(Unauthenticated):
    """The token's time is over: refresh it."""


class TokenRevoked(Unauthenticated):
    """The token was taken back, or replaced by another one: sign in again."""


class Denied(CallerError):
    """Known, but not allowed to do this."""


class RateLimited(CallerError):
    """Too many requests; `retry_after` says in how many seconds the next one is taken."""


class KeyReused(CallerError):
    """Same idempotency key, another body."""


class BudgetExhausted(CallerError):
    """The account has not that much left."""


class LimitReached(BudgetExhausted):
    """The session has had all the tokens, rounds or time that it may have; `limit` says which."""


class QuotaReached(CallerError):
    """A memory space's plan allows no more: `quota` says of what, `limit` how many."""


class ProviderRefused(CallerError):
    """The model's provider says that the request is wrong; `told` has its words."""


class PromptTooLong(CallerError):
    """What must be said does not fit into the model's window."""


class SchemaError(CallerError):
    """A document does not fit its declared schema."""


class NoMigrationPath(SchemaError):
    """No chain of migrations leads to the wanted version."""


class VersionConflict(ConflictError):
    """Someone appended first. Reload, decide again, retry."""


class AlreadyExists(ConflictError):
    """The id is taken."""


class KeyInFlight(ConflictError):
    """The same key is being served right now."""


class MergeConflict(ConflictError):
    """Both sides changed the same thing."""
