"""Families of tokens: an access token, its successors, and the refresh token that keeps them coming.

A family is what one sign-in to one session began. At any moment one access token of it counts, and for a short grace
those it replaced; one refresh token may be used, once. What is kept are ids and hashes, nobody's name and no secret.

Invariant: of all who show the same refresh token, at most one makes a successor. The same client gets that one again
while its answer may have been lost; anybody else, or anyone later, ends the family.
"""

from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from typing import Final, TypeAlias, assert_never

import msgspec

from perdure.core.access.claims import SECOND, Claims

GRACE: Final = 30
"""Seconds that a replaced access token still counts, for requests that are under way."""
RETRY: Final = 10
"""Seconds in which a client whose answer was lost may show the same refresh token again."""
FAMILIES: Final = 1024
"""How many families of one session are kept; beyond, the one that would be over first is."""


class Issued(msgspec.Struct, frozen=True, kw_only=True, tag="issued"):
    """A family began. `epoch` counts how often all tokens of the principal had been taken back by then; `until` is
    when its refresh token is over, `ends` when all of it is.
    """

    family: str
    principal: str
    epoch: int
    jti: str
    kid: str
    handle: str
    client: str
    at: int
    until: int
    ends: int


class Refreshed(msgspec.Struct, frozen=True, kw_only=True, tag="refreshed"):
    """The refresh token was used: this generation follows, made for this client."""

    family: str
    generation: int
    jti: str
    kid: str
    handle: str
    client: str
    at: int
    until: int


class Rotated(msgspec.Struct, frozen=True, kw_only=True, tag="rotated"):
    """An access token was replaced; the old one has its grace."""

    family: str
    jti: str
    client: str
    at: int


class Revoked(msgspec.Struct, frozen=True, kw_only=True, tag="revoked"):
    """Taken back: one access token, one family, or, with neither, all of the session."""

    at: int
    reason: str = ""
    jti: str | None = None
    family: str | None = None


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One family as it stands. `retired` are replaced access tokens, and until when they still count."""

    principal: str
    epoch: int
    generation: int
    jti: str | None
    kid: str
    handle: str
    client: str
    rotator: str
    began: int
    """When this generation was made."""
    at: int
    """When its access token was."""
    until: int
    ends: int
    retired: dict[str, int] = {}


Families: TypeAlias = Mapping[str, Family]


class Summed(msgspec.Struct, frozen=True, kw_only=True, tag="summed"):
    """All families that count, so that nobody needs to read what came before."""

    families: dict[str, Family]


Entry: TypeAlias = Issued | Refreshed | Rotated | Revoked | Summed
BLANK: Final[Families] = {}


def fold(families: Families, entry: Entry) -> Families:
    """The families after an entry. What does not fit, such as a generation out of turn, changes nothing."""
    match entry:
        case Summed():
            return entry.families
        case Revoked(jti=None, family=None):
            return BLANK
        case Revoked(family=str() as family):
            return {name: item for name, item in families.items() if name != family}
        case Revoked(jti=jti):
            return {name: _without(item, jti) for name, item in families.items()}
        case Issued():
            return _with(families, entry)
        case Refreshed() | Rotated():
            found = families.get(entry.family)
            after = None if found is None else _advanced(found, entry)
            return families if after is None else {**families, entry.family: after}
        case _:
            assert_never(entry)


def _with(families: Families, entry: Issued) -> Families:
    kept = {name: item for name, item in families.items() if min(item.until, item.ends) > entry.at}
    while len(kept) >= FAMILIES:
        del kept[min(kept, key=lambda name: (kept[name].until, name))]
    kept[entry.family] = Family(
        principal=entry.principal,
        epoch=entry.epoch,
        generation=1,
        jti=entry.jti,
        kid=entry.kid,
        handle=entry.handle,
        client=entry.client,
        rotator=entry.client,
        began=entry.at,
        at=entry.at,
        until=entry.until,
        ends=entry.ends,
    )
    return kept


def _advanced(found: Family, entry: Refreshed | Rotated) -> Family | None:
    now = msgspec.structs.replace(
        found, jti=entry.jti, rotator=entry.client, at=entry.at, retired=_retired(found, entry.at)
    )
    if isinstance(entry, Rotated):
        return now
    if entry.generation != found.generation + 1:
        return None
    return msgspec.structs.replace(
        now,
        generation=entry.generation,
        kid=entry.kid,
        handle=entry.handle,
        client=entry.client,
        began=entry.at,
        until=entry.until,
    )


def _retired(found: Family, at: int) -> dict[str, int]:
    kept = {jti: until for jti, until in found.retired.items() if until > at}
    return kept if found.jti is None else {**kept, found.jti: at + GRACE * SECOND}


def _without(found: Family, jti: str | None) -> Family:
    retired = {name: until for name, until in found.retired.items() if name != jti}
    return msgspec.structs.replace(found, jti=None if found.jti == jti else found.jti, retired=retired)


def live(families: Families, now: int) -> Families:
    """Those that are not over by now."""
    return {name: item for name, item in families.items() if min(item.until, item.ends) > now}


def counts(families: Families, claims: Claims, epoch: int, now: int) -> bool:
    """Whether an access token has not been revoked: it is its family's, or in its grace."""
    found = _of(families, claims, epoch)
    if found is None or found.ends <= now:
        return False
    if found.jti is not None and compare_digest(found.jti, claims.jti):
        return claims.generation == found.generation
    return found.retired.get(claims.jti, 0) > now


def refreshable(families: Families, claims: Claims, epoch: int, now: int) -> bool:
    """Whether a refresh token's family still counts; if so, `renewal` tells what becomes of the token itself."""
    found = _of(families, claims, epoch)
    return found is not None and found.ends > now


def _of(families: Families, claims: Claims, epoch: int) -> Family | None:
    found = families.get(claims.family)
    return found if found is not None and found.principal == claims.principal and found.epoch == epoch else None


class Turn(Enum):
    """What becomes of a refresh token, or of an access token that is to be replaced."""

    NEXT = "next"
    """It makes a successor."""
    AGAIN = "again"
    """It made one just now, for the same client, who gets the same again."""
    REUSED = "reused"
    """It was used before: stolen, by this client or by the one before."""
    NONE = "none"
    """Its successor is not for this client, and nothing says theft."""


def renewal(family: Family, claims: Claims, by: str, now: int) -> Turn:
    """What becomes of a refresh token that this client shows."""
    if claims.generation == family.generation and compare_digest(hashed(claims.jti), family.handle):
        return Turn.NEXT
    lost = claims.generation == family.generation - 1 and now - family.began <= RETRY * SECOND
    return Turn.AGAIN if lost and compare_digest(by, family.client) else Turn.REUSED


def rotation(family: Family, claims: Claims, by: str, now: int) -> Turn:
    """What becomes of an access token that a sensitive operation used."""
    if claims.generation != family.generation or family.jti is None:
        return Turn.NONE
    if compare_digest(family.jti, claims.jti):
        return Turn.NEXT
    graced = family.retired.get(claims.jti, 0) > now
    return Turn.AGAIN if graced and compare_digest(by, family.rotator) else Turn.NONE


def hashed(handle: str) -> str:
    """What is kept of a handle."""
    return sha256(b"perdure handle" + handle.encode("utf-8", "surrogatepass")).hexdigest()


class Disowned(msgspec.Struct, frozen=True, kw_only=True, tag="disowned"):
    """Every token of a principal was taken back, in all sessions."""

    principal: str
    at: int
    reason: str = ""


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag="counted"):
    """How often each principal's were, so that nobody needs to read what came before."""

    epochs: dict[str, int]


Epochs: TypeAlias = Mapping[str, int]
NO_EPOCHS: Final[Epochs] = {}


def fold_epochs(epochs: Epochs, entry: Disowned | Counted) -> Epochs:
    """How often each principal's tokens were taken back, after an entry."""
    if isinstance(entry, Counted):
        return entry.epochs
    return {**epochs, entry.principal: epochs.get(entry.principal, 0) + 1}
