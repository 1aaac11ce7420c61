"""Schema versions, what a change of schema costs, and the migrations between versions.

Invariant: two versions of the same major can read each other's documents. So adding an optional field or an enum
variant bumps MINOR and needs nothing; everything else bumps MAJOR and needs a migration.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from heapq import heappop, heappush
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from perdure.core.errors import Invalid, NoMigrationPath, SchemaError
from perdure.core.session.diff import Patch, diff
from perdure.core.session.values import Value, check, clone

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_LONGEST = 64


class SemVer(Struct, frozen=True):
    """A semantic version. Ordered by precedence: a pre-release comes before its release, build data does not count."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> "SemVer":
        """Read `major.minor.patch[-pre][+build]`; raises `Invalid` on anything else."""
        found = _SEMVER.fullmatch(text) if len(text) <= _LONGEST else None
        pre = found[4].split(".") if found and found[4] else []
        if found is None or any(part.isdigit() and part != "0" and part[0] == "0" for part in pre):
            raise Invalid(f"{text[:_LONGEST]!r} is not a semantic version; write it like 1.4.0", version=text)
        parts = tuple(int(part) if part.isdigit() else part for part in pre)
        return cls(int(found[1]), int(found[2]), int(found[3]), parts, found[5] or "")

    def __str__(self) -> str:
        pre = "-" + ".".join(map(str, self.pre)) if self.pre else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}" + (f"+{self.build}" if self.build else "")

    def precedence(self) -> tuple[Any, ...]:
        """Give the key to sort by: numbers before words, and no pre-release after any."""
        pre = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, pre)

    def __lt__(self, other: "SemVer") -> bool:
        return self.precedence() < other.precedence()

    def __le__(self, other: "SemVer") -> bool:
        return self.precedence() <= other.precedence()


class Impact(Enum):
    """Which part of the version a change must raise."""

    NONE = 0
    MINOR = 1
    MAJOR = 2


class Change(Enum):
    """What can happen to a schema."""

    ADD_OPTIONAL = "add_optional"
    ADD_REQUIRED = "add_required"
    REMOVE = "remove"
    CHANGE_TYPE = "change_type"
    RENAME = "rename"
    ADD_VARIANT = "add_variant"


class Rule(Struct, frozen=True):
    """The price of a change."""

    impact: Impact
    migration: bool


RULES: dict[Change, Rule] = {
    Change.ADD_OPTIONAL: Rule(Impact.MINOR, migration=False),
    Change.ADD_REQUIRED: Rule(Impact.MAJOR, migration=True),
    Change.REMOVE: Rule(Impact.MAJOR, migration=True),
    Change.CHANGE_TYPE: Rule(Impact.MAJOR, migration=True),
    Change.RENAME: Rule(Impact.MAJOR, migration=True),
    Change.ADD_VARIANT: Rule(Impact.MINOR, migration=False),
}


def required_bump(changes: Iterable[Change]) -> Impact:
    """Give the impact of all changes together."""
    return max((RULES[change].impact for change in changes), key=lambda impact: impact.value, default=Impact.NONE)


def check_bump(old: str, new: str, changes: Iterable[Change]) -> None:
    """Return if going from `old` to `new` announces these changes; raise `SchemaError` if it promises too much."""
    before, after, needed = SemVer.parse(old), SemVer.parse(new), required_bump(changes)
    fits = before <= after
    if needed is Impact.MAJOR:
        fits = after.major > before.major
    elif needed is Impact.MINOR:
        fits = (after.major, after.minor) > (before.major, before.minor)
    if not fits:
        least = f"{before.major + 1}.0.0" if needed is Impact.MAJOR else f"{before.major}.{before.minor + 1}.0"
        raise SchemaError(
            f"from {old} to {new} is too small a step for a {needed.name} change; use at least "
            f"{old if needed is Impact.NONE else least}",
            old=old,
            new=new,
            needed=needed.name,
        )


def compatible(stored: str, expected: str) -> bool:
    """Tell whether a reader of `expected` can read `stored` as it is: same major. An older minor lacks optional
    fields, a newer one has unknown fields and variants, which the reader carries along."""
    return SemVer.parse(stored).major == SemVer.parse(expected).major


Document: TypeAlias = dict[str, Any]
Migration: TypeAlias = Callable[[Document], Document]


class Step(Struct, frozen=True):
    """One step of a path. Without a migration it is a rise within a major, which changes no document."""

    source: str
    target: str
    migration: Migration | None = None

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


class DryStep(Struct, frozen=True):
    """What a step would change."""

    source: str
    target: str
    patch: Patch


class DryRun(Struct, frozen=True):
    """What a migration would do. `result` is the outcome, or UNSET and `error` says why there is none."""

    steps: tuple[DryStep, ...]
    result: Document | UnsetType = UNSET
    error: str | None = None


class Migrations:
    """The registry of migrations, indexed by (from, to), composed to paths."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], Step] = {}

    def add(self, source: str, target: str, migration: Migration) -> None:
        """Register a migration. Raises `SchemaError` if there is one already, `Invalid` if a version is no version."""
        if SemVer.parse(source).precedence() == SemVer.parse(target).precedence():
            raise SchemaError(f"a migration from {source} to itself does nothing; register another target")
        if (source, target) in self._steps:
            raise SchemaError(f"a migration from {source} to {target} is registered already; keep one of the two")
        self._steps[source, target] = Step(source, target, migration)

    def step(self, source: str, target: str) -> Callable[[Migration], Migration]:
        """Register a function as a decorator does: `@migrations.step("1.0.0", "2.0.0")`."""

        def register(migration: Migration) -> Migration:
            self.add(source, target, migration)
            return migration

        return register

    def path(self, source: str, target: str) -> tuple[Step, ...]:
        """Find the path from one version to another; the same for the same registry.

        Rising within a major is free, because it needs no migration. Of all paths it is the one with the fewest such
        rises (a registered migration is preferred), then with the fewest steps, then the first in version order.
        Raises `NoMigrationPath` if there is none.
        """
        versions = {text: SemVer.parse(text) for text in (source, target, *sum(self._steps, ()))}
        queue: list[tuple[int, int, list[Any], str, tuple[Step, ...]]] = [(0, 0, [], source, ())]
        seen: set[str] = set()
        while queue:
            rises, length, order, at, path = heappop(queue)
            if at == target:
                return path
            if at in seen:
                continue
            seen.add(at)
            for text, version in versions.items():
                step = self._steps.get((at, text))
                free = step is None
                if step is None:
                    if version.major != versions[at].major or not versions[at] < version:
                        continue
                    step = Step(at, text)
                rank = [*order, (version.precedence(), text)]
                heappush(queue, (rises + free, length + 1, rank, text, (*path, step)))
        raise NoMigrationPath(
            f"no chain of migrations leads from {source} to {target}; register the missing ones",
            source=source,
            target=target,
            known=[str(step) for step in self._steps.values()],
        )

    def migrate(self, document: Document, source: str, target: str) -> Document:
        """Take a document from one version to another, leaving the one given as it is.

        Raises `NoMigrationPath`, or `SchemaError` naming the step that failed.
        """
        for step in self.path(source, target):
            document = _run(step, document)
        return document

    def dry_run(self, document: Document, source: str, target: str) -> DryRun:
        """Tell step by step what `migrate` would change, and change nothing. Never raises on a checked document."""
        done: list[DryStep] = []
        try:
            for step in self.path(source, target):
                after = _run(step, document)
                done.append(DryStep(step.source, step.target, diff(document, after)))
                document = after
        except (SchemaError, Invalid) as error:
            return DryRun(tuple(done), error=error.message)
        return DryRun(tuple(done), result=document)


def _run(step: Step, document: Document) -> Document:
    if step.migration is None:
        return document
    try:
        after = step.migration(clone(document))
        if type(after) is not dict:
            raise SchemaError(f"it gave {type(after).__name__}, not a dict")
        check(after)
    except Exception as error:  # an application's function can fail in any way; say which one did
        raise SchemaError(
            f"the migration {step} failed: {type(error).__name__}: {error}; correct it",
            source=step.source,
            target=step.target,
        ) from error
    return after


class Field(Struct, frozen=True, kw_only=True):
    """One field of a record. Fields of nested records have dotted names, those inside lists and maps `name[].inner`."""

    name: str
    type: str
    required: bool = True
    default: Value | UnsetType = UNSET
    variants: tuple[str, ...] = ()


class FieldChange(Struct, frozen=True):
    """A change and the field it happened to; `was` is the old name of a renamed field."""

    change: Change
    field: str
    was: str = ""


def compare(old: Iterable[Field], new: Iterable[Field]) -> tuple[FieldChange, ...]:
    """Classify what happened between two schemas, in the order of field names.

    One field gone and one of the same type come, in the same record, is read as a rename: nobody can tell, and both
    readings bump MAJOR. Turning required into optional or back changes the type: readers of one do not read the other.
    Another default alone is no change, because documents are written whole.
    """
    before, after = {field.name: field for field in old}, {field.name: field for field in new}
    gone = _topmost(before.keys() - after.keys())
    come = _topmost(after.keys() - before.keys())
    found = []
    for name in list(gone):
        heirs = [new_name for new_name in come if _may_inherit(before[name], after[new_name])]
        rivals = [other for other in gone if heirs and _may_inherit(before[other], after[heirs[0]])]
        if len(heirs) == 1 and len(rivals) == 1:
            found.append(FieldChange(Change.RENAME, heirs[0], was=name))
            gone.remove(name)
            come.remove(heirs[0])
    found += [FieldChange(Change.REMOVE, name) for name in gone]
    found += [FieldChange(Change.ADD_REQUIRED if after[name].required else Change.ADD_OPTIONAL, name) for name in come]
    for name in before.keys() & after.keys():
        was, now = before[name], after[name]
        if (was.type, was.required) != (now.type, now.required) or not set(was.variants) <= set(now.variants):
            found.append(FieldChange(Change.CHANGE_TYPE, name))
        elif set(was.variants) != set(now.variants):
            found.append(FieldChange(Change.ADD_VARIANT, name))
    return tuple(sorted(found, key=lambda change: (change.field, change.change.value)))


def _topmost(names: set[str]) -> list[str]:
    """Leave out fields whose whole record came or went: the record speaks for them."""
    return sorted(name for name in names if _parent(name) not in names)


def _parent(name: str) -> str:
    return name.rpartition(".")[0].removesuffix("[]")


def _may_inherit(old: Field, new: Field) -> bool:
    alike = (old.type, old.required, old.variants) == (new.type, new.required, new.variants)
    return alike and _parent(old.name) == _parent(new.name)
