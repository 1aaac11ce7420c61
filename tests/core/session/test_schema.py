"""Schema versions, the price of changes, and migrations that compose, explain themselves and leave no trace."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from perdure.core.errors import Invalid, NoMigrationPath, SchemaError
from perdure.core.session.codec import encode
from perdure.core.session.diff import Add, apply
from perdure.core.session.schema import (
    RULES,
    Change,
    Field,
    FieldChange,
    Impact,
    Migrations,
    Rule,
    SemVer,
    check_bump,
    compare,
    compatible,
    required_bump,
)
from perdure.core.session.values import same
from tests.core.session.plain_values import documents

numbers = st.integers(0, 30)
semvers = st.builds(
    SemVer,
    major=numbers,
    minor=numbers,
    patch=numbers,
    pre=st.lists(numbers | st.sampled_from(["alpha", "beta", "x-1"]), max_size=2).map(tuple),
    build=st.sampled_from(["", "b1", "sha.5"]),
)


# ── versions ──────────────────────────────────────────────────────────────────────────────────────


@given(semvers)
def test_a_version_is_read_as_it_is_written(version: SemVer) -> None:
    assert SemVer.parse(str(version)) == version


@given(semvers, semvers, semvers)
def test_versions_are_ordered(a: SemVer, b: SemVer, c: SemVer) -> None:
    assert (a < b) + (b < a) + (a.precedence() == b.precedence()) == 1
    assert (a <= b) == (not b < a)
    if a < b and b < c:
        assert a < c


def test_precedence_is_that_of_semantic_versioning() -> None:
    before = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1"
    after = "1.0.0 1.0.1 1.9.0 1.10.0 2.0.0"
    versions = [SemVer.parse(text) for text in f"{before} {after}".split()]
    assert all(a < b for a, b in pairwise(versions))
    assert SemVer.parse("1.0.0+a").precedence() == SemVer.parse("1.0.0+b").precedence()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "1.0.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0-01",
        "1.0.0-a..b",
        "1.0.0+",
        "-1.0.0",
        "1.0.0 ",
        "\u0661.0.0",
        "9" * 99,
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"like 1\.4\.0"):
        SemVer.parse(text)


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_is_whole_and_only_a_major_change_needs_a_migration() -> None:
    assert set(RULES) == set(Change)
    assert {change for change, rule in RULES.items() if rule.impact is Impact.MINOR} == {
        Change.ADD_OPTIONAL,
        Change.ADD_VARIANT,
    }
    assert all(rule == Rule(rule.impact, migration=rule.impact is Impact.MAJOR) for rule in RULES.values())


changes = st.lists(st.sampled_from(Change), max_size=3)


@given(changes, changes)
def test_more_changes_never_cost_less(some: list[Change], more: list[Change]) -> None:
    assert required_bump(some).value <= required_bump(some + more).value
    assert required_bump([]) is Impact.NONE


@pytest.mark.parametrize(
    ("old", "new", "change", "fits"),
    [
        ("1.2.3", "1.2.3", None, True),
        ("1.2.3", "1.2.4", None, True),
        ("1.2.3", "1.2.2", None, False),
        ("1.2.3", "1.2.4", Change.ADD_OPTIONAL, False),
        ("1.2.3", "1.3.0", Change.ADD_OPTIONAL, True),
        ("1.2.3", "2.0.0", Change.ADD_VARIANT, True),
        ("1.2.3", "1.3.0", Change.REMOVE, False),
        ("1.2.3", "2.0.0", Change.REMOVE, True),
        ("1.2.3", "1.0.0", Change.ADD_VARIANT, False),
        ("2.0.0", "1.9.0", Change.RENAME, False),
    ],
)
def test_a_version_must_announce_its_changes(old: str, new: str, change: Change | None, fits: bool) -> None:
    given_changes = [] if change is None else [change]
    if fits:
        check_bump(old, new, given_changes)
        return
    with pytest.raises(SchemaError, match="use at least") as caught:
        check_bump(old, new, given_changes)
    check_bump(old, caught.value.message.rpartition(" ")[2], given_changes)


@pytest.mark.parametrize(
    ("stored", "expected", "reads"),
    [("1.0.0", "1.4.0", True), ("1.9.0", "1.4.0", True), ("2.0.0", "1.4.0", False), ("0.9.0", "1.0.0", False)],
)
def test_versions_of_one_major_read_each_other(stored: str, expected: str, reads: bool) -> None:
    assert compatible(stored, expected) is reads


# ── migrations ────────────────────────────────────────────────────────────────────────────────────


def marked(name: str) -> Any:
    return lambda document: document | {"path": [*document.get("path", []), name]}


def registry(*steps: str) -> Migrations:
    found = Migrations()
    for step in steps:
        source, target = step.split(">")
        found.add(source, target, marked(step))
    return found


def trail(migrations: Migrations, source: str, target: str) -> list[str]:
    return migrations.migrate({}, source, target).get("path", [])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("steps", "source", "target", "expected"),
    [
        ("1.0.0>2.0.0", "1.0.0", "1.0.0", ""),
        ("1.0.0>2.0.0 2.0.0>3.0.0", "1.0.0", "3.0.0", "1.0.0>2.0.0 2.0.0>3.0.0"),
        ("1.0.0>2.0.0 2.0.0>3.0.0 1.0.0>3.0.0", "1.0.0", "3.0.0", "1.0.0>3.0.0"),
        # rising within a major needs no migration
        ("1.2.0>2.0.0", "1.0.0", "2.1.0", "1.2.0>2.0.0"),
        ("", "1.0.0", "1.3.0", ""),
        # but one that is registered is taken
        ("1.0.0>1.2.0 1.2.0>2.0.0", "1.0.0", "2.0.0", "1.0.0>1.2.0 1.2.0>2.0.0"),
        # two ways of the same length: the lower version first
        ("1.0.0>2.0.0 1.0.0>3.0.0 2.0.0>4.0.0 3.0.0>4.0.0", "1.0.0", "4.0.0", "1.0.0>2.0.0 2.0.0>4.0.0"),
        # down, when somebody wrote it
        ("2.0.0>1.0.0", "2.0.0", "1.0.0", "2.0.0>1.0.0"),
        # a circle on the way
        ("1.0.0>2.0.0 2.0.0>1.0.0 2.0.0>3.0.0", "1.0.0", "3.0.0", "1.0.0>2.0.0 2.0.0>3.0.0"),
    ],
)
def test_migrations_compose_to_the_shortest_path(steps: str, source: str, target: str, expected: str) -> None:
    for order in (1, -1):
        assert trail(registry(*steps.split()[::order]), source, target) == expected.split()


@pytest.mark.parametrize(
    ("steps", "source", "target"),
    [
        ("", "1.0.0", "2.0.0"),
        ("1.0.0>2.0.0", "2.0.0", "1.0.0"),
        ("1.0.0>2.0.0", "1.1.0", "2.0.0"),
        ("", "1.3.0", "1.0.0"),
    ],
)
def test_a_missing_path_is_named(steps: str, source: str, target: str) -> None:
    with pytest.raises(NoMigrationPath) as caught:
        registry(*steps.split()).path(source, target)
    assert (caught.value.source, caught.value.target) == (source, target)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=12), st.integers(1, 6), st.integers(1, 6))
def test_a_path_is_found_whenever_there_is_one(edges: list[tuple[int, int]], start: int, end: int) -> None:
    migrations = registry(*{f"{a}.0.0>{b}.0.0" for a, b in edges if a != b})
    distance, reached = {start: 0}, [start]
    for at in reached:
        for a, b in edges:
            if a == at and b not in distance:
                distance[b] = distance[at] + 1
                reached.append(b)
    if end in distance:
        path = migrations.path(f"{start}.0.0", f"{end}.0.0")
        assert len(path) == distance[end]
        assert [step.source for step in path[1:]] == [step.target for step in path[:-1]]
    else:
        with pytest.raises(NoMigrationPath):
            migrations.path(f"{start}.0.0", f"{end}.0.0")


def test_a_migration_is_registered_once() -> None:
    migrations = registry("1.0.0>2.0.0")
    with pytest.raises(SchemaError, match="already"):
        migrations.add("1.0.0", "2.0.0", marked("again"))
    with pytest.raises(SchemaError, match="itself"):
        migrations.add("1.0.0", "1.0.0", marked("again"))
    with pytest.raises(Invalid):
        migrations.add("one", "2.0.0", marked("again"))


def test_a_decorator_registers_and_leaves_the_function() -> None:
    migrations = Migrations()

    @migrations.step("1.0.0", "2.0.0")
    def rename(document: dict[str, Any]) -> dict[str, Any]:
        document["new"] = document.pop("old")
        return document

    given_document = {"old": [1]}
    assert migrations.migrate(given_document, "1.0.0", "2.0.0") == {"new": [1]}
    assert given_document == {"old": [1]}
    assert rename({"old": 1}) == {"new": 1}


@given(documents)
def test_a_dry_run_tells_what_migrating_does_and_changes_nothing(document: Any) -> None:
    def clear(found: dict[str, Any]) -> dict[str, Any]:
        for item in found.values():
            if isinstance(item, dict | list):
                item.clear()
        found["cleared"] = True
        return found

    migrations = registry("2.0.0>3.0.0")
    migrations.add("1.5.0", "2.0.0", clear)
    before = encode(document)
    run = migrations.dry_run(document, "1.0.0", "3.0.0")
    assert encode(document) == before
    assert [(step.source, step.target) for step in run.steps] == [
        ("1.0.0", "1.5.0"),
        ("1.5.0", "2.0.0"),
        ("2.0.0", "3.0.0"),
    ]
    assert run.steps[0].patch == ()
    for step in run.steps:
        document = apply(document, step.patch)
    assert same(document, run.result)
    assert run.error is None


@pytest.mark.parametrize(
    "bad", [lambda _: 1 / 0, lambda doc: doc["missing"], lambda _: None, lambda _: {"x": object()}]
)
def test_a_migration_that_fails_is_named(bad: Any) -> None:
    migrations = registry("1.0.0>2.0.0")
    migrations.add("2.0.0", "3.0.0", bad)
    with pytest.raises(SchemaError, match=r"2\.0\.0 → 3\.0\.0 failed") as caught:
        migrations.migrate({}, "1.0.0", "3.0.0")
    assert (caught.value.source, caught.value.target) == ("2.0.0", "3.0.0")
    run = migrations.dry_run({}, "1.0.0", "3.0.0")
    assert run.result is UNSET
    assert run.error is not None
    assert "2.0.0 → 3.0.0" in run.error
    assert [step.patch for step in run.steps] == [(Add(("path",), ["1.0.0>2.0.0"]),)]


def test_a_dry_run_without_a_path_says_so() -> None:
    run = Migrations().dry_run({}, "1.0.0", "2.0.0")
    assert run.steps == ()
    assert run.error is not None
    assert "register the missing ones" in run.error


# ── comparing fields ──────────────────────────────────────────────────────────────────────────────

A = Field(name="a", type="int")
B = Field(name="b", type="str", required=False, default="x")
E = Field(name="e", type="enum", variants=("on", "off"))


def changed(old: list[Field], new: list[Field]) -> list[FieldChange]:
    return list(compare(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([A], [A], []),
        ([A], [A, B], [FieldChange(Change.ADD_OPTIONAL, "b")]),
        ([B], [A, B], [FieldChange(Change.ADD_REQUIRED, "a")]),
        ([A, B], [A], [FieldChange(Change.REMOVE, "b")]),
        ([A], [Field(name="a", type="float")], [FieldChange(Change.CHANGE_TYPE, "a")]),
        ([A], [Field(name="a", type="int", required=False)], [FieldChange(Change.CHANGE_TYPE, "a")]),
        ([A], [Field(name="z", type="int")], [FieldChange(Change.RENAME, "z", was="a")]),
        ([A], [B], [FieldChange(Change.REMOVE, "a"), FieldChange(Change.ADD_OPTIONAL, "b")]),
        (
            [A],
            [Field(name="y", type="int"), Field(name="z", type="int")],
            [
                FieldChange(Change.REMOVE, "a"),
                FieldChange(Change.ADD_REQUIRED, "y"),
                FieldChange(Change.ADD_REQUIRED, "z"),
            ],
        ),
        ([E], [Field(name="e", type="enum", variants=("on", "off", "dim"))], [FieldChange(Change.ADD_VARIANT, "e")]),
        ([E], [Field(name="e", type="enum", variants=("on", "dim"))], [FieldChange(Change.CHANGE_TYPE, "e")]),
        ([B], [Field(name="b", type="str", required=False, default="y")], []),
        # a record that comes or goes speaks for its fields
        (
            [A],
            [
                A,
                Field(name="r", type="record", required=False),
                Field(name="r.x", type="list[record]"),
                Field(name="r.x[].y", type="int"),
            ],
            [FieldChange(Change.ADD_OPTIONAL, "r")],
        ),
        (
            [Field(name="r", type="list[record]"), Field(name="r[].x", type="int")],
            [],
            [FieldChange(Change.REMOVE, "r")],
        ),
    ],
)
def test_changes_are_classified(old: list[Field], new: list[Field], expected: list[FieldChange]) -> None:
    assert changed(old, new) == expected


fields = st.lists(
    st.builds(
        Field,
        name=st.sampled_from("abcd"),
        type=st.sampled_from(["int", "str"]),
        required=st.booleans(),
        variants=st.sampled_from([(), ("x",), ("x", "y")]),
    ),
    unique_by=lambda field: field.name,
    max_size=4,
)


@given(fields, fields)
def test_nothing_changes_only_between_equal_schemas(old: list[Field], new: list[Field]) -> None:
    described = {(f.name, f.type, f.required, frozenset(f.variants)) for f in old}
    again = {(f.name, f.type, f.required, frozenset(f.variants)) for f in new}
    assert (compare(old, new) == ()) == (described == again)
    assert compare(old, new) == compare(old[::-1], new[::-1])


@given(fields, fields)
def test_what_can_break_a_reader_is_a_major_change(old: list[Field], new: list[Field]) -> None:
    """A document of either schema must be readable by the other, or the bump is MAJOR."""
    before, after = {f.name: f for f in old}, {f.name: f for f in new}
    breaks = any(f.required for name, f in after.items() if name not in before)
    breaks |= bool(before.keys() - after.keys())
    breaks |= any(
        (before[name].type, before[name].required) != (after[name].type, after[name].required)
        for name in before.keys() & after.keys()
    )
    if breaks:
        assert required_bump(change.change for change in compare(old, new)) is Impact.MAJOR
