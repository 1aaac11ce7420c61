"""Every error perdure raises, in one tree. Each message says what to do next; `fields` carries the facts.

::

    PerdureError
    ├── CallerError                 the request cannot be served as it is: change it
    │   ├── Invalid                 a value is wrong
    │   │   ├── TooLarge            over a size limit
    │   │   ├── TooDeep             nested deeper than the limit
    │   │   ├── UnknownKind         an event kind this version does not know
    │   │   ├── BadCursor           a page cursor that this query did not make
    │   │   └── BadExport           a JSONL export that does not parse or does not add up
    │   ├── NotFound                no such session, version or checkpoint
    │   │   ├── CheckpointExpired   it was there; its time is over
    │   │   └── BlobMissing         no such blob here, or it was collected: put it again
    │   ├── Refused                 valid, but not in this state
    │   │   ├── MoveRefused         not in the lifecycle table; names what is allowed
    │   │   ├── GuardFailed         in the table, but its guard says no
    │   │   ├── Terminal            the session has ended
    │   │   ├── Suspended           the session sleeps: resume it first
    │   │   ├── TurnRefused         the turn is not open, or another one is
    │   │   ├── BranchRefused       this session may not be branched so
    │   │   ├── PruneRefused        a branch or checkpoint still needs the prefix
    │   │   ├── RedactionRefused    this event carries structure, not content
    │   │   ├── HookRefused         a hook before the move said no
    │   │   ├── NotOwner            only the session's owner may do this
    │   │   ├── LastAdmin           a tenant without an admin could not be administered
    │   │   ├── RenewalRefused      the session may not live any longer
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
        └── StoreClosed             used after close
"""

from typing import Any, ClassVar


class PerdureError(Exception):
    """Root of the tree. `code` is stable and machine-readable, `fields` are the facts behind the message."""

    code: ClassVar[str] = "perdure_error"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__name__
        cls.code = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        """Fields read as attributes: `error.found` after a `VersionConflict`."""
        fields: dict[str, Any] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {sorted(fields)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.fields))


def _rebuild(cls: type[PerdureError], message: str, fields: dict[str, Any]) -> PerdureError:
    return cls(message, **fields)


class CallerError(PerdureError):
    """The request cannot be served as it is."""


class ConflictError(PerdureError):
    """Somebody else was first."""


class WorldError(PerdureError):
    """The disk, the file or another version stands in the way."""


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


class NotFound(CallerError):
    """No such session, version or checkpoint."""


class CheckpointExpired(NotFound):
    """The checkpoint was there; its time is over."""


class BlobMissing(NotFound):
    """No such blob here, or it was collected: put it again."""


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


class PruneRefused(Refused):
    """A branch or checkpoint still needs the prefix."""


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


class Tampered(WorldError):
    """Stored bytes do not match their digest."""


class Damaged(Tampered):
    """Stored bytes cannot be read at all."""


class CheckpointIntegrity(Tampered):
    """A checkpoint is not what was written, and no other may be used."""


class SessionIntegrity(WorldError):
    """What is kept of a session does not add up; names the checks that failed."""


class BundleMissing(Damaged):
    """An archived session's bundle is not where it was put."""


class ColdUnreachable(WorldError):
    """Cold storage does not serve: the network, the credentials, the disk."""


class Unreachable(WorldError):
    """The server does not answer, or what answers is not perdure."""


class KeyMissing(WorldError):
    """Sealed, and the master key, the vault or a salt is not there."""


class WrongKey(KeyMissing):
    """A master key is there, but it is another one."""


class Shredded(KeyMissing):
    """The salt was destroyed, or never was in this vault: what it sealed cannot be read."""


class NotAStore(WorldError):
    """The file is something else."""


class NewerStore(WorldError):
    """Written by a newer perdure."""


class OldSqlite(WorldError):
    """The linked SQLite has a known corruption bug."""


class ReadOnly(WorldError):
    """The file or folder cannot be written."""


class DiskFull(WorldError):
    """No space left; reads still work."""


class StoreBusy(WorldError):
    """Another process has held the file for too long."""


class StorePoisoned(WorldError):
    """An fsync failed; the store must be reopened."""


class DeliveryFailed(WorldError):
    """The receiver of a webhook did not take it."""


class StoreClosed(WorldError):
    """Used after close."""
