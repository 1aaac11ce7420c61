"""People who signed in with a browser: one-time codes, and what was begun with them.

A code is good once and for minutes. A sign-in is over when nobody used it for a while, and in any case after a day's
work. What is kept are ids and hashes.
"""

from collections.abc import Mapping
from hmac import compare_digest
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from perdure.core.access.claims import SECOND, Handle, Plain, Seconds, Text
from perdure.core.access.families import hashed

CODE: Final = 600
"""Seconds that a code is good for."""
IDLE: Final = 30 * 60
ABSOLUTE: Final = 12 * 3600
NOTICED: Final = 10
"""A use is written down when this part of the idle time has passed since the last one that was."""
CODES: Final = 64
SIGNINS: Final = 4096
"""So many are kept; beyond, the one used longest ago is over."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: how long a code is good, how long a sign-in lasts unused, and how long at all."""

    code: int = CODE
    idle: int = IDLE
    absolute: int = ABSOLUTE


class Cookie(Plain, frozen=True, kw_only=True, rename={"principal": "sub"}):
    """What a browser's cookie claims."""

    iss: Text
    aud: Text
    typ: Literal["signin"]
    jti: Handle
    id: Handle
    principal: Text
    iat: Seconds
    nbf: Seconds
    exp: Seconds


class Offered(msgspec.Struct, frozen=True, kw_only=True, tag="offered"):
    """A code was made for a principal; kept by its hash."""

    code: str
    principal: str
    until: int
    at: int


class Entered(msgspec.Struct, frozen=True, kw_only=True, tag="entered"):
    """Somebody signed in with a code, which is used up."""

    code: str
    id: str
    handle: str
    principal: str
    at: int
    ends: int


class Noticed(msgspec.Struct, frozen=True, kw_only=True, tag="noticed"):
    """A sign-in is in use."""

    id: str
    at: int


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left"):
    """Signed out: one sign-in, or all of a principal with the codes made for it."""

    at: int
    id: str | None = None
    principal: str | None = None


class Offer(msgspec.Struct, frozen=True):
    """A code that may be used."""

    principal: str
    until: int


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that lasts."""

    principal: str
    handle: str
    seen: int
    ends: int


class Book(msgspec.Struct, frozen=True):
    """Codes by hash, and sign-ins by id."""

    codes: Mapping[str, Offer] = MappingProxyType({})
    people: Mapping[str, SignedIn] = MappingProxyType({})


class Summed(msgspec.Struct, frozen=True, kw_only=True, tag="summed"):
    """All that lasts, so that nobody needs to read what came before."""

    codes: dict[str, Offer]
    people: dict[str, SignedIn]


Entry: TypeAlias = Offered | Entered | Noticed | Left | Summed
BLANK: Final = Book()


def fold(book: Book, entry: Entry) -> Book:
    """The book after an entry."""
    match entry:
        case Summed():
            return Book(entry.codes, entry.people)
        case Offered():
            codes = {code: offer for code, offer in book.codes.items() if offer.until > entry.at}
            while len(codes) >= CODES:
                del codes[min(codes, key=lambda code: (codes[code].until, code))]
            return Book({**codes, entry.code: Offer(entry.principal, entry.until)}, book.people)
        case Entered():
            return _entered(book, entry)
        case Noticed():
            found = book.people.get(entry.id)
            if found is None:
                return book
            seen = msgspec.structs.replace(found, seen=max(found.seen, entry.at))
            return Book(book.codes, {**book.people, entry.id: seen})
        case Left():
            gone = entry.principal
            codes = {code: offer for code, offer in book.codes.items() if gone is None or offer.principal != gone}
            people = {
                id: found
                for id, found in book.people.items()
                if id != entry.id and (gone is None or found.principal != gone)
            }
            return Book(codes, people)
        case _:
            assert_never(entry)


def _entered(book: Book, entry: Entered) -> Book:
    codes = {code: offer for code, offer in book.codes.items() if code != entry.code}
    people = {id: found for id, found in book.people.items() if found.ends > entry.at}
    while len(people) >= SIGNINS:
        del people[min(people, key=lambda id: (people[id].seen, id))]
    people[entry.id] = SignedIn(principal=entry.principal, handle=entry.handle, seen=entry.at, ends=entry.ends)
    return Book(codes, people)


def summed(book: Book, now: int) -> Summed:
    """What of the book lasts."""
    return Summed(
        codes={code: offer for code, offer in book.codes.items() if offer.until > now},
        people={id: found for id, found in book.people.items() if found.ends > now},
    )


def offered(book: Book, code: str, now: int) -> Offer | None:
    """Whom a code, given by its hash, was made for; None when it is used up, over or none."""
    found = book.codes.get(code)
    return found if found is not None and now < found.until else None


def lasting(book: Book, cookie: Cookie) -> SignedIn | None:
    """The sign-in a cookie is of, if it was not ended; `over` tells whether its time is."""
    found = book.people.get(cookie.id)
    if found is None or found.principal != cookie.principal or not compare_digest(found.handle, hashed(cookie.jti)):
        return None
    return found


def over(found: SignedIn, limits: Limits, now: int) -> bool:
    """Whether a sign-in was left unused for too long, or lasted as long as any may."""
    return now >= min(found.seen + limits.idle * SECOND, found.ends)


def worth_noting(found: SignedIn, limits: Limits, now: int) -> bool:
    """Whether this use is to be written down."""
    return now - found.seen >= limits.idle * SECOND // NOTICED
