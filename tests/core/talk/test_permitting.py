"""Rules for tools: the first that fits decides, what cannot be decided is never made easier."""

from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.permitting import (
    MAX_CONDITIONS,
    MAX_RULES,
    Permission,
    Standing,
    never,
    permission,
    policy_of,
)

SIGNS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "like", "not like", "exists")
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text("ab*", max_size=3))
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab/~0"), inner, max_size=3)
)
ARGUMENTS = st.dictionaries(st.sampled_from("ab/~0"), VALUES, max_size=4)
NAMES = st.sampled_from(["read", "write", "far__read", "far__write"])
GLOBS = st.sampled_from(["*", "read", "far__*", "*write", "[rw]*", "nothing"])
POINTERS = st.sampled_from(["", "/a", "/b", "/a/b", "/a/0", "/~1", "/~0"])
DOS = st.sampled_from(["allow", "ask", "deny"])
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["==", "!="]), VALUES),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), st.integers(-9, 9) | st.text("ab", max_size=3)),
    st.tuples(st.sampled_from(["in", "not in"]), st.lists(VALUES, max_size=3)),
    st.tuples(st.sampled_from(["like", "not like"]), st.sampled_from(["*", "a*", "b"])),
    st.tuples(st.just("exists"), st.booleans()),
)
WHENS = st.dictionaries(POINTERS, COMPARISONS.map(lambda pair: dict([pair])), max_size=3)
RULES = st.builds(lambda tool, do, when: {"tool": tool, "do": do, "when": when}, GLOBS, DOS, WHENS)
STANDINGS: st.SearchStrategy[Standing] = st.sampled_from(["safe", "approval"])
EASE = {"deny": 0, "ask": 1, "allow": 2}


def decided(rules: Any, arguments: Any, name: str = "pay", standing: Standing = "safe") -> str:
    return permission(policy_of(rules), standing, name, arguments).do


def when(pointer: str, sign: str, value: Any, do: str = "deny") -> list[dict[str, Any]]:
    return [{"tool": "*", "when": {pointer: {sign: value}}, "do": do}]


def test_without_rules_a_safe_tool_is_allowed_one_that_needs_approval_asked_for_and_an_unknown_one_denied() -> None:
    assert permission(policy_of(None), "safe", "pay", {}) == Permission("allow")
    assert permission(policy_of([]), "approval", "pay", {}) == Permission("ask", "the tool needs approval")
    assert permission(policy_of([]), "unknown", "pay", {}) == Permission("deny", "there is no tool 'pay' here")


@given(NAMES, ARGUMENTS, st.lists(RULES, max_size=3))
def test_no_rule_allows_a_tool_that_is_not_there(name: str, arguments: Any, rules: Any) -> None:
    assert decided(rules, arguments, name, "unknown") == "deny"
    assert never(policy_of(rules), "unknown", name)


def test_the_first_rule_that_fits_decides_and_gives_its_reason() -> None:
    policy = policy_of(
        [
            {"tool": "bank__*", "when": {"/amount": {">": 1000}}, "do": "deny", "reason": "too much"},
            {"tool": "bank__*", "do": "ask"},
            {"tool": "*", "do": "allow"},
        ]
    )
    assert permission(policy, "safe", "bank__pay", {"amount": 1001}) == Permission("deny", "too much")
    asked = Permission("ask", "rule 1 of the session's tools says ask")
    assert permission(policy, "safe", "bank__pay", {"amount": 1000}) == asked
    assert permission(policy, "approval", "shop__pay", {"amount": 5000}).do == "allow"


@given(NAMES, ARGUMENTS, st.lists(RULES, max_size=5), STANDINGS)
def test_rules_behind_the_first_that_fits_change_nothing(
    name: str, arguments: Any, rules: list[Any], standing: Standing
) -> None:
    whole = permission(policy_of(rules), standing, name, arguments)
    until = next((number for number in range(len(rules)) if _fits(rules[number], name, arguments)), len(rules))
    cut = rules[: until + 1]
    assert permission(policy_of(cut), standing, name, arguments) == whole
    if until < len(rules):
        assert whole.do == rules[until]["do"]
    else:
        assert whole.do == ("ask" if standing == "approval" else "allow")


def _fits(rule: dict[str, Any], name: str, arguments: Any) -> bool:
    """Whether a rule decides when it stands alone: its reason shows it."""
    return permission(policy_of([{**rule, "reason": "it was me"}]), "safe", name, arguments).reason == "it was me"


@given(NAMES, ARGUMENTS, st.lists(RULES, max_size=5), STANDINGS)
def test_a_tool_that_is_never_run_is_denied_with_any_arguments(
    name: str, arguments: Any, rules: list[Any], standing: Standing
) -> None:
    policy = policy_of(rules)
    if never(policy, standing, name):
        assert permission(policy, standing, name, arguments).do == "deny"


@given(st.lists(RULES, max_size=5), STANDINGS, NAMES)
def test_a_tool_that_one_would_allow_or_ask_for_is_not_hidden(rules: list[Any], standing: Standing, name: str) -> None:
    first = next((rule for rule in rules if fnmatchcase(name, rule["tool"]) and not rule["when"]), None)
    denied = first is not None and first["do"] == "deny"
    before = rules[: rules.index(first)] if first is not None else rules
    opens = any(rule["do"] != "deny" and fnmatchcase(name, rule["tool"]) for rule in before)
    assert never(policy_of(rules), standing, name) == (denied and not opens)


@pytest.mark.parametrize(
    ("sign", "value", "met", "unmet"),
    [
        ("==", 5, [5, 5.0], [6, "5", None, [5]]),
        ("==", True, [True], [1, 1.0, "true", False]),
        ("==", {"a": [1]}, [{"a": [1.0]}], [{"a": [True]}, {"a": [1, 2]}, {}]),
        ("!=", 5, [6, "5", None], [5, 5.0]),
        ("<", 5, [4, 4.9], [5, 6]),
        ("<=", 5, [4, 5], [6]),
        (">", 5, [6], [5, 4]),
        (">=", 5, [5, 6], [4]),
        (">", "b", ["c", "ba"], ["b", "a"]),
        ("in", [1, "a"], [1, "a", 1.0], [2, "b", True]),
        ("not in", [1, "a"], [2, None], [1, "a"]),
        ("like", "/etc/*", ["/etc/passwd", "/etc/a\nb"], ["/var/etc/", "/ETC/passwd"]),
        ("not like", "/etc/*", ["/var"], ["/etc/x"]),
        ("exists", True, [None, 0, ""], []),
    ],
)
def test_comparisons(sign: str, value: Any, met: list[Any], unmet: list[Any]) -> None:
    for found in met:
        assert decided(when("/a/0", sign, value), {"a": [found]}) == "deny", found
        assert decided(when("/a/0", sign, value, "allow"), {"a": [found]}, standing="approval") == "allow", found
    for found in unmet:
        assert decided(when("/a/0", sign, value), {"a": [found]}) == "allow", found
        assert decided(when("/a/0", sign, value, "allow"), {"a": [found]}, standing="approval") == "ask", found


@pytest.mark.parametrize(("sign", "value"), [("<", 5), (">=", 5), (">", "b"), ("like", "a*"), ("not like", "a*")])
@pytest.mark.parametrize("found", [None, True, [9], {"": 9}])
def test_what_cannot_be_compared_is_denied_where_one_denies_and_not_allowed_where_one_allows(
    sign: str, value: Any, found: Any
) -> None:
    assert decided(when("/a", sign, value), {"a": found}) == "deny"
    assert decided(when("/a", sign, value, "ask"), {"a": found}) == "ask"
    assert decided(when("/a", sign, value, "allow"), {"a": found}, standing="approval") == "ask"


@pytest.mark.parametrize("arguments", [None, "rm -rf", [1], 5])
def test_arguments_that_are_no_document_meet_the_rules_that_deny_and_none_that_allow(arguments: Any) -> None:
    assert decided(when("/a", "==", 1), arguments) == "deny"
    assert decided(when("/a", "exists", False, "allow"), arguments, standing="approval") == "ask"


@pytest.mark.parametrize("sign", [sign for sign in SIGNS if sign != "exists"])
def test_what_is_not_there_is_unlike_everything(sign: str) -> None:
    value: Any = [1] if sign.endswith("in") else "1"
    expected = "deny" if sign in ("!=", "not in", "not like") else "allow"
    assert decided(when("/a", sign, value), {"b": 1}) == expected


@pytest.mark.parametrize(
    ("pointer", "there"),
    [("", True), ("/a~1b", True), ("/m~0n", True), ("/list/1", True), ("/list/01", False), ("/list/-", False)],
)
def test_a_pointer_leads_where_rfc_6901_says(pointer: str, there: bool) -> None:
    arguments = {"a/b": 1, "m~n": 2, "list": [1, 2]}
    assert (decided(when(pointer, "exists", True), arguments) == "deny") is there


@given(NAMES, ARGUMENTS, RULES, STANDINGS)
def test_every_argument_gets_an_answer(name: str, arguments: Any, rule: Any, standing: Standing) -> None:
    answer = permission(policy_of([rule]), standing, name, arguments)
    assert answer.do in EASE
    assert answer.do == "allow" or answer.reason


@pytest.mark.parametrize(
    ("document", "at"),
    [
        ({}, "/tools"),
        ("deny", "/tools"),
        ([{"tool": "*", "do": "deny"}] * (MAX_RULES + 1), "/tools"),
        ([{"tool": "*", "do": "deny"}, 5], "/tools/1"),
        ([{"tool": "*"}], "/tools/0"),
        ([{"do": "deny"}], "/tools/0"),
        ([{"tool": "*", "do": "deny", "unless": {}}], "/tools/0"),
        ([{"tool": "*", "do": "maybe"}], "/tools/0/do"),
        ([{"tool": "*", "do": ["deny"]}], "/tools/0/do"),
        ([{"tool": "", "do": "deny"}], "/tools/0/tool"),
        ([{"tool": 5, "do": "deny"}], "/tools/0/tool"),
        ([{"tool": "*", "do": "deny", "reason": 5}], "/tools/0/reason"),
        ([{"tool": "*", "do": "deny", "when": []}], "/tools/0/when"),
        ([{"tool": "*", "do": "deny", "when": {"amount": {">": 5}}}], "/tools/0/when"),
        ([{"tool": "*", "do": "deny", "when": {"/a": 5}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {"~": 5}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {">": None}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {">": float("nan")}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {"in": "abc"}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {"like": 5}}}], "/tools/0/when/~1a"),
        ([{"tool": "*", "do": "deny", "when": {"/a": {"exists": 1}}}], "/tools/0/when/~1a"),
        (
            [{"tool": "*", "do": "deny", "when": {f"/{n}": {"==": n} for n in range(MAX_CONDITIONS + 1)}}],
            "/tools/0/when",
        ),
    ],
)
def test_rules_that_say_nothing_are_refused_and_the_place_is_named(document: Any, at: str) -> None:
    with pytest.raises(Invalid) as caught:
        policy_of(document)
    assert caught.value.fields["at"] == at
    assert caught.value.message.startswith(at.lstrip("/"))


@given(
    VALUES
    | st.lists(st.dictionaries(st.sampled_from(["tool", "do", "when", "reason"]), VALUES, max_size=4), max_size=3)
)
def test_any_document_is_a_policy_or_invalid(document: Any) -> None:
    with suppress(Invalid):
        assert permission(policy_of(document), "safe", "read", {}).do in EASE
