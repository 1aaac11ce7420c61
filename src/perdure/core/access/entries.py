"""What the audit log says: who did what to which thing, when, from where, and what came of it. Never any content.

Invariant: an entry holds codes, opaque ids and counts. People are named by the ids of their principals, addresses by a
keyed hash, so whoever is forgotten in the directory is a pseudonym here.
"""

import hmac
import re
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from perdure.core.errors import UnknownKind

MAX_CODE: Final = 128
MAX_REMARK: Final = 500
UNFIT: Final = "?"
"""Stands where something was given that does not belong into an audit log."""
_CODE: Final = re.compile(rf"[A-Za-z0-9_.:*/@-]{{0,{MAX_CODE}}}")
_ADDRESS: Final = re.compile(r"[0-9A-Za-z.:%_/\[\]-]{0,128}")
_SHOWN_DIGITS: Final = 24
Outcome = Literal["allowed", "denied", "flagged"]
STRANGERS: Final = "_strangers"
"""In whose audit log stands what nobody known asked for."""
OUTCOMES: Final[tuple[Outcome, ...]] = ("allowed", "denied", "flagged")


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="entry"):
    """Root of the closed union. Entries that differ in nothing but time and request are counted together: `at` is the
    first one's time, `until` the last one's.
    """

    at: int = 0
    until: int | None = None
    count: int = 1


class AuditEntry(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="access"):
    """Somebody asked for something. `what` names the occasion (an operation, `sign_in`, `token_reused`, …), `reason`
    says in one word why it came out so.
    """

    what: str
    tenant: str = ""
    actor: str | None = None
    """The opaque id of the principal; None when nobody is known."""
    credential: str | None = None
    action: str = ""
    thing: str = ""
    session: str | None = None
    outcome: Outcome = "allowed"
    reason: str = ""
    remark: str = ""
    """Why an admin broke the glass, in their own words; empty otherwise."""
    request: str | None = None
    address: str | None = None
    """Where it came from, as the edge saw it: written only where addresses may be kept in the clear."""
    origin: str | None = None
    """The same as a pseudonym: equal for equal addresses of one store."""


class Missed(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="missed"):
    """So many entries came faster than they could be written, and were only counted."""


AnyEntry: TypeAlias = AuditEntry | Missed
_CODES: Final = ("what", "actor", "credential", "action", "thing", "session", "reason", "request", "origin")


def tidied(entry: AnyEntry) -> AnyEntry:
    """The entry with nothing in it but what belongs into an audit log. What does not is replaced, never refused: that
    something happened is written down whatever somebody put into a request.
    """
    if isinstance(entry, Missed):
        return entry
    wrong: dict[str, Any] = {name: UNFIT for name in _CODES if not _is_code(getattr(entry, name))}
    if entry.address is not None and not (type(entry.address) is str and _ADDRESS.fullmatch(entry.address)):
        wrong["address"] = UNFIT
    if type(entry.remark) is not str or not entry.remark.isprintable():
        wrong["remark"] = UNFIT
    elif len(entry.remark) > MAX_REMARK:
        wrong["remark"] = entry.remark[:MAX_REMARK]
    if entry.outcome not in OUTCOMES:
        wrong["outcome"] = "flagged"
    return replace(entry, **wrong) if wrong else entry


def _is_code(value: object) -> bool:
    return value is None or (type(value) is str and _CODE.fullmatch(value) is not None)


def veiled(entry: AnyEntry, key: bytes, *, plainly: bool = False) -> AnyEntry:
    """The entry as it is written: the address as a pseudonym, and in the clear only if that is wished `plainly`."""
    if not isinstance(entry, AuditEntry) or not entry.address:
        return entry
    return replace(entry, origin=pseudonym(key, entry.address), address=entry.address if plainly else None)


def pseudonym(key: bytes, address: str) -> str:
    """An address as one store spells it: whoever has not the key cannot try out which address it is."""
    return f"adr_{hmac.digest(key, address.encode('utf-8', 'replace'), 'sha256').hex()[:_SHOWN_DIGITS]}"


# ── counting together ──


def likeness(entry: AnyEntry) -> tuple[Any, ...]:
    """Equal for entries that may be counted together."""
    if isinstance(entry, Missed):
        return ()
    alike = [getattr(entry, name) for name in _CODES if name != "request"]
    return (*alike, entry.outcome, entry.remark, entry.address)


def together(first: AnyEntry, then: AnyEntry) -> AnyEntry:
    """Two entries that are alike, as one."""
    until = max(then.until or then.at, first.until or first.at)
    return replace(first, at=min(first.at, then.at), count=first.count + then.count, until=until)


# ── as the log keeps them ──


def tag_of(entry: AnyEntry) -> str:
    """What the log calls an entry."""
    tag = type(entry).__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def to_document(entry: AnyEntry) -> dict[str, Any]:
    """An entry as plain data."""
    found: dict[str, Any] = msgspec.to_builtins(entry)
    return found


def from_document(document: object) -> AnyEntry:
    """The entry behind plain data, or `UnknownKind`."""
    try:
        found: AnyEntry = msgspec.convert(document, AnyEntry)
    except msgspec.ValidationError as wrong:
        raise UnknownKind(
            f"the audit log holds an entry that this perdure cannot read ({wrong}); upgrade it"
        ) from wrong
    return found


# ── looking for some of them ──


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to show; all given conditions must hold."""

    actor: str | None = None
    credential: str | None = None
    session: str | None = None
    what: str | None = None
    action: str | None = None
    thing: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    since: int | None = None
    until: int | None = None


ALL: Final = Filters()
_COMPARED: Final = ("actor", "credential", "session", "what", "action", "thing", "outcome", "reason")


def fits(entry: AnyEntry, filters: Filters) -> bool:
    """Whether an entry is to be shown."""
    if filters == ALL:
        return True
    last = entry.until or entry.at
    if (filters.since is not None and last < filters.since) or (filters.until is not None and entry.at > filters.until):
        return False
    asked = [(name, wanted) for name in _COMPARED if (wanted := getattr(filters, name)) is not None]
    return all(getattr(entry, name, None) == wanted for name, wanted in asked)
