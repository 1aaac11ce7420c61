"""What ports answer, checked: what passes has the types the rest relies on, and nothing but `Invalid` says no."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session.answers import LISTED, fitting, found_of, layer_of, tool_of, versions_of, yes_of
from perdure.core.session.constraints import constraint_of, version_of
from perdure.core.session.timeouts import LATEST
from perdure.core.session.waking import Found, Tool, ToolSpec
from tests.core.session.plain_values import values

NOW = 1_767_268_800_000_000
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
junk = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
versions = st.sampled_from(["0.1", "1", "1.2.0", "1.9.9", "2.0.0", "2.0.0-rc.1", "10.0.0"])
tools = st.builds(Tool, name=st.just("search") | junk, version=versions | junk)
founds = st.builds(Found, results=values | st.just(object()), fetched_at=st.integers(0, NOW * 2) | junk)


def checked(check: Any, answer: Any, *beside: Any) -> Any:
    """What the check gives, or the error."""
    try:
        return check(answer, *beside)
    except Invalid as wrong:
        return wrong


@given(junk | tools)
def test_what_passes_for_a_tool_has_a_name_and_a_version(answer: Any) -> None:
    tool = checked(tool_of, answer)
    if isinstance(tool, Invalid):
        assert tool.message.startswith("answered with") or "version" in tool.message
    elif tool is not None:
        assert (type(tool), type(tool.name), bool(tool.name)) == (Tool, str, True)
        assert version_of(tool.version)
    else:
        assert answer is None


@given(tools, st.sampled_from(["", "*", "^1.2", ">=2,<4", "==2.0.0-rc.1"]))
def test_what_fits_is_the_tool_that_was_asked_for_in_a_version_that_will_do(answer: Tool, constraint: str) -> None:
    tool = checked(fitting, answer, ToolSpec(name="search", constraint=constraint))
    known = not isinstance(checked(tool_of, answer), Invalid)
    will_do = known and answer.name == "search" and constraint_of(constraint).admits(version_of(answer.version))
    assert (tool == answer) == will_do
    assert isinstance(tool, Invalid) != will_do


@given(junk)
def test_only_true_and_false_are_answers_to_whether(answer: Any) -> None:
    found = checked(yes_of, answer)
    assert found is answer if type(answer) is bool else isinstance(found, Invalid)


@given(junk | founds)
def test_what_passes_for_evidence_was_fetched_by_now(answer: Any) -> None:
    found = checked(found_of, answer, NOW)
    if isinstance(found, Found):
        assert 0 <= found.fetched_at <= NOW < LATEST
        assert found.results is answer.results
    else:
        assert answer is None or isinstance(found, Invalid)


@given(junk)
def test_a_layer_is_a_list_and_a_text_is_none(answer: Any) -> None:
    found = checked(layer_of, answer)
    if answer is None or type(answer) is list:
        assert found == tuple(answer or ())
    else:
        assert isinstance(found, Invalid)


@given(st.lists(versions, max_size=3 * LISTED))
def test_versions_are_told_in_their_order_the_highest_if_there_are_many(given: list[str]) -> None:
    found = versions_of(given)
    order = [version_of(text).precedence() for text in found]
    assert order == sorted(order)
    assert len(found) == min(len(given), LISTED)


@pytest.mark.parametrize("answer", ["1.0.0", [None], ["latest"], [1], 5])
def test_what_is_no_version_is_none(answer: Any) -> None:
    assert isinstance(checked(versions_of, answer), Invalid)
