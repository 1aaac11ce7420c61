"""Version constraints: which versions of a tool will do, such as `>=1.2,<2`, `^1.2`, `~1.4`, `==1.4.2` or `*`.

Invariant: a version cut short stands for a range, wherever it occurs: `1.2` is everything from 1.2.0 up to, but not
with, 1.3.0. So `==1.2` takes all of it, `>1.2` begins behind it and `<=1.2` ends with it. Commas mean "and". A
pre-release will do only where the constraint names one of the same release.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.schema import SemVer
from perdure.core.session.shown import shown

T = TypeVar("T")
LONGEST: Final = 256
ANY: Final = "*"
_CLAUSE = re.compile(r"(>=|<=|==|!=|>|<|=|\^|~)?\s*(\S+)")
_SHORT = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))?")


class Clause(msgspec.Struct, frozen=True):
    """One comparison with the versions from `low` up to, but not with, `high`; without a `high` it is `low` alone."""

    sign: str
    low: SemVer
    high: SemVer | None = None

    def admits(self, version: SemVer) -> bool:
        """Whether the version compares so."""
        match self.sign:
            case ">=":
                return self.low <= version
            case "<":
                return version < self.low
            case ">":
                return self._behind(version)
            case "<=":
                return not self._behind(version)
            case "!=":
                return version < self.low or self._behind(version)
            case _:
                return self.low <= version and not self._behind(version)

    def _behind(self, version: SemVer) -> bool:
        return self.low < version if self.high is None else self.high <= version


class Constraint(msgspec.Struct, frozen=True):
    """All of these comparisons; none of them takes every release."""

    clauses: tuple[Clause, ...] = ()

    def admits(self, version: SemVer) -> bool:
        """Whether this version will do."""
        return all(clause.admits(version) for clause in self.clauses) and self._expected(version)

    def _expected(self, version: SemVer) -> bool:
        """Pre-releases are for those who ask for them."""
        release = (version.major, version.minor, version.patch)
        return not version.pre or any(
            clause.low.pre and clause.sign != "!=" and (clause.low.major, clause.low.minor, clause.low.patch) == release
            for clause in self.clauses
        )


def constraint_of(text: str) -> Constraint:
    """What a constraint says; empty and `*` take every release. `Invalid` for anything else than the forms above."""
    if type(text) is not str or len(text) > LONGEST:
        raise Invalid(f"a version constraint is a text of at most {LONGEST} characters, not {shown(text)}")
    return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Constraint:
    if text.strip() in ("", ANY):
        return Constraint()
    clauses: list[Clause] = []
    for part in text.split(","):
        found = _CLAUSE.fullmatch(part.strip())
        if found is None:
            raise _no_constraint(text)
        try:
            clauses += _clauses(found[1] or "==", found[2])
        except Invalid as wrong:
            raise _no_constraint(text) from wrong
    return Constraint(tuple(clauses))


def version_of(text: str) -> SemVer:
    """A tool's version; what is cut short is filled up with zeros. `Invalid` when it is none."""
    if type(text) is not str:
        raise Invalid(f"a version is a text such as 1.4.0, not {shown(text)}")
    return SemVer.parse(text + ".0" * (2 - text.count(".")) if _SHORT.fullmatch(text) else text)


def best(offers: Iterable[tuple[str, T]], constraint: str) -> T | None:
    """What is offered under the highest version that will do; of equal ones the last. None when none will."""
    wanted = constraint_of(constraint)
    fitting = [(version.precedence(), item) for text, item in offers if wanted.admits(version := version_of(text))]
    chosen: tuple[tuple[object, ...], T] | None = None
    for offer in fitting:
        chosen = offer if chosen is None or chosen[0] <= offer[0] else chosen
    return None if chosen is None else chosen[1]


def _clauses(sign: str, text: str) -> tuple[Clause, ...]:
    low, parts = version_of(text), text.count(".") + 1 if _SHORT.fullmatch(text) else 3
    if sign == "~":
        return Clause(">=", low), Clause("<", _after(low, 1 if parts == 1 else 2))
    if sign == "^":
        return Clause(">=", low), Clause("<", _after(low, _leading(low, parts)))
    return (Clause("==" if sign == "=" else sign, low, None if parts == 3 else _after(low, parts)),)


def _leading(version: SemVer, parts: int) -> int:
    """Up to which part a caret holds still: the first that is not zero, or the last one written."""
    numbers = (version.major, version.minor, version.patch)[:parts]
    return next((index for index, number in enumerate(numbers, 1) if number), parts)


def _after(version: SemVer, parts: int) -> SemVer:
    """The first release behind all that begin with these parts."""
    if parts == 1:
        return SemVer(version.major + 1, 0, 0)
    if parts == 2:
        return SemVer(version.major, version.minor + 1, 0)
    return SemVer(version.major, version.minor, version.patch + 1)


def _no_constraint(text: str) -> Invalid:
    return Invalid(
        f"{shown(text)} is not a version constraint; write it like >=1.2,<2 or ^1.2 or ~1.4 or ==1.4.2 or *",
        constraint=text,
    )
