"""Which versions a constraint takes, held against what its signs mean for plain numbers."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session.constraints import best, constraint_of, version_of
from perdure.core.session.schema import SemVer

numbers = st.integers(0, 3)
releases = st.builds(SemVer, numbers, numbers, numbers)
pre = st.lists(st.sampled_from([0, 1, "alpha", "rc"]), min_size=1, max_size=2).map(tuple)
prereleases = st.builds(SemVer, numbers, numbers, numbers, pre)
written = st.lists(numbers, min_size=1, max_size=3).map(tuple)
EVERY = [SemVer(*parts) for parts in product(range(4), repeat=3)]


def spelled(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def triple(version: SemVer) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch


def admits(constraint: str, version: SemVer | str) -> bool:
    found = SemVer.parse(version) if isinstance(version, str) else version
    return constraint_of(constraint).admits(found)


@given(written, releases)
def test_a_version_cut_short_stands_for_all_that_begin_so(parts: tuple[int, ...], version: SemVer) -> None:
    begins = triple(version)[: len(parts)]
    assert admits(f"=={spelled(parts)}", version) == (begins == parts)
    assert admits(f"={spelled(parts)}", version) == admits(spelled(parts), version) == (begins == parts)
    assert admits(f"!={spelled(parts)}", version) == (begins != parts)
    assert admits(f"<{spelled(parts)}", version) == (begins < parts)
    assert admits(f"<={spelled(parts)}", version) == (begins <= parts)
    assert admits(f">{spelled(parts)}", version) == (begins > parts)
    assert admits(f">={spelled(parts)}", version) == (begins >= parts)


@given(written, releases)
def test_a_caret_holds_still_up_to_the_first_number_that_is_not_zero(parts: tuple[int, ...], version: SemVer) -> None:
    still = next((index for index, number in enumerate(parts, 1) if number), len(parts))
    low = (*parts, 0, 0)[:3]
    expected = triple(version) >= low and triple(version)[:still] == parts[:still]
    assert admits(f"^{spelled(parts)}", version) == expected


@given(written, releases)
def test_a_tilde_holds_still_up_to_the_minor(parts: tuple[int, ...], version: SemVer) -> None:
    still = min(len(parts), 2)
    expected = triple(version) >= (*parts, 0, 0)[:3] and triple(version)[:still] == parts[:still]
    assert admits(f"~{spelled(parts)}", version) == expected


@given(
    st.lists(st.tuples(st.sampled_from([">=", "<", "!=", "^", "~", "", ">", "<="]), written), min_size=1, max_size=3)
)
def test_commas_mean_and(clauses: list[tuple[str, tuple[int, ...]]]) -> None:
    parts = [f"{sign}{spelled(version)}" for sign, version in clauses]
    for version in EVERY:
        assert admits(" , ".join(parts), version) == all(admits(part, version) for part in parts)


@given(releases, prereleases)
def test_no_constraint_takes_every_release_and_no_pre_release(release: SemVer, early: SemVer) -> None:
    for anything in ("*", "", " * "):
        assert admits(anything, release)
        assert not admits(anything, early)


@given(prereleases, prereleases)
def test_a_pre_release_is_for_those_who_name_one_of_the_same_release(asked: SemVer, early: SemVer) -> None:
    same = triple(asked) == triple(early)
    assert admits(f">={asked}", early) == (same and asked <= early)
    assert admits(f"^{asked}", early) == (same and asked <= early)
    assert not admits(f">={spelled(triple(asked))}", early)
    assert not admits(f"!={asked}", early)


@pytest.mark.parametrize(
    ("constraint", "takes", "leaves"),
    [
        (">=1.2,<2", ("1.2.0", "1.99.0"), ("1.1.9", "2.0.0", "2.0.0-rc.1")),
        ("^1.2", ("1.2.0", "1.9.3"), ("1.1.0", "2.0.0")),
        ("^0.2.3", ("0.2.3", "0.2.9"), ("0.2.2", "0.3.0")),
        ("^0.0.3", ("0.0.3",), ("0.0.4",)),
        ("~1.4", ("1.4.0", "1.4.9"), ("1.5.0",)),
        ("==1.4.2", ("1.4.2", "1.4.2+build.7"), ("1.4.3", "1.4.2-rc")),
        ("*", ("0.0.1", "99.0.0"), ("1.0.0-rc",)),
    ],
)
def test_the_forms_people_write(constraint: str, takes: tuple[str, ...], leaves: tuple[str, ...]) -> None:
    assert [text for text in takes if not admits(constraint, text)] == []
    assert [text for text in leaves if admits(constraint, text)] == []


@pytest.mark.parametrize(
    "wrong",
    ["banana", ">=", ">=1.2,", ",", "1.2.x", "01.2", ">>1", "1.2 || 3", "1.2.3.4", "^-1", "1" * 300, None, 5, []],
)
def test_what_is_no_constraint_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="version constraint"):
        constraint_of(wrong)


@given(st.text(max_size=12))
def test_any_text_is_a_constraint_or_refused(text: str) -> None:
    try:
        found = constraint_of(text)
    except Invalid:
        return
    assert found.admits(SemVer(1, 0, 0)) in (True, False)


@given(written)
def test_a_tools_version_is_filled_up_with_zeros(parts: tuple[int, ...]) -> None:
    assert triple(version_of(spelled(parts))) == (*parts, 0, 0)[:3]


@pytest.mark.parametrize("wrong", ["", "latest", "1.", None, 5])
def test_what_is_no_version_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid):
        version_of(wrong)


@given(st.lists(releases, max_size=6), st.tuples(st.sampled_from(["^", ">=", "==", "~", "<"]), written))
def test_the_best_is_the_highest_that_will_do(offers: list[SemVer], clause: tuple[str, tuple[int, ...]]) -> None:
    constraint = f"{clause[0]}{spelled(clause[1])}"
    fitting = [version for version in offers if admits(constraint, version)]
    found = best([(str(version), version) for version in offers], constraint)
    assert (found is None) == (not fitting)
    assert found is None or triple(found) == max(map(triple, fitting))
