"""Templates render strictly, alike everywhere, and say by name what does not fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BadParams, BadTemplate, Invalid, NotFound
from perdure.core.talk.templates import LARGEST, Param, Template, chosen, escaped, read, rendered

TEXTS = st.text(st.characters(codec="utf-8"))
BRACED = st.text("a{}\\ \n", max_size=30)


def made(text: str, version: str = "1.0.0", name: str = "greeting", **params: Param) -> Template:
    return Template(name=name, version=version, text=text, params=params)


def test_params_are_put_in_their_places() -> None:
    template = made(
        "Dear {{who}}, {{count}} {{who}}! {{sure}}",
        who=Param(),
        count=Param(kind="integer"),
        sure=Param(kind="boolean"),
    )
    assert rendered(template, {"who": "Ana", "count": -3, "sure": True}) == "Dear Ana, -3 Ana! true"


def test_a_default_stands_where_nothing_is_given_and_what_is_given_goes_before_it() -> None:
    template = made("{{who}}", who=Param(default=""))
    assert rendered(template) == ""
    assert rendered(template, {"who": "Ana"}) == "Ana"


@given(st.one_of(TEXTS, BRACED))
def test_an_escaped_text_renders_as_itself(text: str) -> None:
    assert rendered(made(escaped(text))) == text


@given(st.one_of(TEXTS, BRACED))
def test_a_value_is_put_in_as_it_is_and_never_read_as_a_template(value: str) -> None:
    template = made("<{{who}}|{{other}}>", who=Param(), other=Param())
    assert rendered(template, {"who": value, "other": "{{who}}"}) == f"<{value}|{{{{who}}}}>"


@given(st.permutations(["a", "b", "c"]), st.dictionaries(st.sampled_from("abc"), TEXTS, min_size=3))
def test_the_order_of_params_changes_no_byte(order: list[str], values: dict[str, str]) -> None:
    one = made("{{a}}-{{b}}-{{c}}", a=Param(), b=Param(), c=Param())
    other = made("{{a}}-{{b}}-{{c}}", **{name: Param() for name in order})
    shuffled = {name: values[name] for name in order}
    assert rendered(one, values).encode() == rendered(other, shuffled).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        (r"\{{{x}}}", "{v}"),
        (r"\{{x}} is how", "{{x}} is how"),
        (r"\\{{x}}", "\\v"),
        (r"a\n{{x}}\d", r"a\nv\d"),
    ],
)
def test_literal_braces_and_backslashes(text: str, shown: str) -> None:
    params = {"x": Param()} if shown.count("v") else {}
    assert rendered(made(text, **params), {"x": "v"} if params else {}) == shown


def test_all_params_that_do_not_fit_are_named_at_once() -> None:
    template = made("{{who}}{{count}}{{sure}}", who=Param(), count=Param(kind="integer"), sure=Param(kind="boolean"))
    given_: Any = {"count": "3", "sure": 1, "whom": "Ana"}
    with pytest.raises(BadParams, match="give 'who'; leave out 'whom'; make 'count' a whole number") as caught:
        rendered(template, given_)
    assert caught.value.fields == {
        "template": "greeting",
        "version": "1.0.0",
        "missing": ["who"],
        "unknown": ["whom"],
        "mistyped": {"count": "integer", "sure": "boolean"},
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [("integer", True), ("integer", 1.0), ("integer", LARGEST + 1), ("text", 1), ("text", "\ud800"), ("boolean", 0)],
)
def test_nothing_is_taken_for_something_else(kind: Any, value: Any) -> None:
    with pytest.raises(BadParams) as caught:
        rendered(made("{{x}}", x=Param(kind=kind)), {"x": value})
    assert caught.value.mistyped == {"x": kind}


@pytest.mark.parametrize(
    ("text", "line", "column"), [("{{", 1, 1), ("a\nbc {{ who }}", 2, 4), ("{{{who}}}", 1, 1), ("{{Who}}", 1, 1)]
)
def test_braces_that_open_no_param_are_refused_with_their_place(text: str, line: int, column: int) -> None:
    with pytest.raises(BadTemplate, match="opens no param") as caught:
        made(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_declared_and_used_params_are_the_same() -> None:
    with pytest.raises(BadTemplate, match="uses 'whom', 'whose'; declare"):
        made("{{whose}} {{whom}}")
    with pytest.raises(BadTemplate, match="never uses 'who'"):
        made("hello", who=Param())


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"{", "no template"),
        (b'{"name": "a", "version": "1.0.0"}', "missing required field `text`"),
        (b'{"name": "a", "version": "1.0.0", "text": "", "txt": 1}', "unknown field `txt`"),
        (b'{"name": "a b", "version": "1.0.0", "text": ""}', "not a name"),
        (b'{"name": "a", "version": "1.0.0", "text": "{{X}}", "params": {"X": {}}}', "not the name of a param"),
        (b'{"name":"a","version":"1.0.0","text":"{{x}}","params":{"x":{"kind":"float"}}}', r"params\[...\].kind"),
        (b'{"name":"a","version":"1.0.0","text":"{{x}}","params":{"x":{"default":1}}}', "default of 'x' is not a text"),
        ({"name": "a", "version": "1.0.0", "text": "\ud800"}, "half a character"),
    ],
)
def test_a_template_that_could_never_be_rendered_is_refused(document: Any, problem: str) -> None:
    with pytest.raises(BadTemplate, match=problem):
        read(document)


def test_a_template_is_read_from_json() -> None:
    found = read(
        b'{"name": "a", "version": "1.0.0", "text": "{{n}}", "params": {"n": {"kind": "integer", "default": 7}}}'
    )
    assert rendered(found) == "7"


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="not a semantic version"):
        made("", version="latest")


def test_versions_are_compared_as_versions_and_a_release_goes_before_a_newer_trial() -> None:
    every = [made(v, version=v) for v in ("1.9.0", "1.10.0", "2.0.0-rc.1", "0.1.0")]
    assert chosen(every, "greeting").version == "1.10.0"
    assert chosen(reversed(every), "greeting").version == "1.10.0"
    assert chosen(every, "greeting", "2.0.0-rc.1").version == "2.0.0-rc.1"
    assert chosen(every[2:3], "greeting").version == "2.0.0-rc.1"


def test_what_is_not_there_is_said_with_what_is() -> None:
    every = [made("", version=v) for v in ("1.10.0", "1.9.0")]
    with pytest.raises(NotFound, match=r"no version 3\.0\.0; it has 1\.9\.0, 1\.10\.0"):
        chosen(every, "greeting", "3.0.0")
    with pytest.raises(NotFound, match="near it are greeting"):
        chosen(every, "greetings")
    with pytest.raises(NotFound, match="nothing is near it"):
        chosen([], "greetings")
