r"""Prompt templates: a name, a version, declared params and a text in which `{{param}}` stands for a value.

A backslash before a brace or a backslash makes it literal: `\{`, `\}`, `\\`; a single brace is literal by itself, and
so is a backslash before anything else. Values are put in as they are and never read as templates again.
Invariant: the same template with the same params gives the same bytes, wherever and whenever it is rendered.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, assert_never

import msgspec

from perdure.core.errors import BadParams, BadTemplate, NotFound
from perdure.core.session.schema import SemVer

Kind: TypeAlias = Literal["text", "integer", "boolean"]
Value: TypeAlias = str | int | bool

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TITLE: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}")
_MARKS: Final = re.compile(r"\\(?P<literal>[\\{}])|\{\{(?P<param>[a-z][a-z0-9_]{0,63})\}\}|(?P<stray>\{\{)")
_BRACES: Final = re.compile(r"[\\{}]")
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character, which has no bytes."""
LARGEST: Final = 2**63 - 1
"""The largest whole number a param may be, and with its sign the least."""


class Param(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One value that a template takes. Without a default it must be given."""

    kind: Kind = "text"
    default: Value | None = None
    description: str = ""


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A text with places for params. It is checked when it is made, so that only params can be wrong later."""

    name: str
    version: str
    text: str
    params: dict[str, Param] = {}

    def __post_init__(self) -> None:
        if not _TITLE.fullmatch(self.name):
            raise _bad(self, f"{self.name!r} is not a name; use a-z, 0-9, dots, dashes and slashes")
        SemVer.parse(self.version)
        for name, param in self.params.items():
            if not _NAME.fullmatch(name):
                raise _bad(self, f"{name!r} is not the name of a param; use a-z, 0-9 and _", param=name)
            if param.default is not None and not _is(param.default, param.kind):
                raise _bad(self, f"the default of {name!r} is not {_article(param.kind)}; correct it", param=name)
        if _HALF.search(self.text):
            raise _bad(self, "its text has half a character in it (a lone surrogate); correct it")
        used = _used(self)
        if undeclared := sorted(used - self.params.keys()):
            raise _bad(self, f"its text uses {_list(undeclared)}; declare that in params", undeclared=undeclared)
        if unused := sorted(self.params.keys() - used):
            raise _bad(self, f"its text never uses {_list(unused)}; use it or drop it", unused=unused)


def read(document: bytes | str | dict[str, Any]) -> Template:
    """A template from JSON or from what was decoded of it. Raises `BadTemplate`, which names the place."""
    try:
        if isinstance(document, dict):
            return msgspec.convert(document, Template)
        return msgspec.json.decode(document, type=Template)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadTemplate(f"this is no template: {error}; it has a name, a version, a text and params") from error


def rendered(template: Template, params: Mapping[str, Value] | None = None) -> str:
    """The text with every param in its place.

    Raises `BadParams`, whose fields `missing`, `unknown` and `mistyped` name all that do not fit, at once.
    """
    values = _fitting(template, params or {})

    def put(mark: re.Match[str]) -> str:
        return mark["literal"] or values[mark["param"]]

    return _MARKS.sub(put, template.text)


def escaped(text: str) -> str:
    """A text that renders as what was given here, braces and all."""
    return _BRACES.sub(r"\\\g<0>", text)


def chosen(templates: Iterable[Template], name: str, version: str | None = None) -> Template:
    """The template of this name and version; without a version the highest one that is no pre-release, or else the
    highest. Raises `NotFound`, which names the versions or the names there are.
    """
    every = list(templates)
    named = sorted((found for found in every if found.name == name), key=_precedence)
    if not named:
        near = get_close_matches(name, sorted({found.name for found in every}), 3, 0.5)
        there = f"near it are {', '.join(near)}" if near else "nothing is near it"
        raise NotFound(f"there is no template {name!r}; {there}; correct the name or add it", name=name, near=near)
    if version is None:
        released = [found for found in named if not SemVer.parse(found.version).pre]
        return (released or named)[-1]
    wanted = SemVer.parse(version)
    for found in named:
        if SemVer.parse(found.version) == wanted:
            return found
    versions = [found.version for found in named]
    raise NotFound(
        f"template {name!r} has no version {version}; it has {', '.join(versions)}: ask for one of them",
        name=name,
        version=version,
        versions=versions,
    )


def _precedence(template: Template) -> tuple[Any, ...]:
    """Order by version; of versions that differ in build data alone, by that."""
    version = SemVer.parse(template.version)
    return (version.precedence(), version.build)


def _used(template: Template) -> set[str]:
    found = set()
    for mark in _MARKS.finditer(template.text):
        if mark["stray"]:
            before = template.text[: mark.start()]
            line, column = before.count("\n") + 1, mark.start() - (before.rfind("\n") + 1) + 1
            raise _bad(
                template,
                f"line {line}, column {column}: {{{{ opens no param; write {{{{name}}}}, or \\{{ for a literal brace",
                line=line,
                column=column,
            )
        if mark["param"]:
            found.add(mark["param"])
    return found


def _fitting(template: Template, params: Mapping[str, Value]) -> dict[str, str]:
    """Every declared param as text, given or by default."""
    declared = template.params
    missing = sorted(name for name, param in declared.items() if param.default is None and name not in params)
    unknown = sorted(map(str, params.keys() - declared.keys()))
    mistyped = {
        name: declared[name].kind
        for name in sorted(declared.keys() & params.keys())
        if not _is(params[name], declared[name].kind)
    }
    if missing or unknown or mistyped:
        wrong = [
            *([f"give {_list(missing)}"] if missing else []),
            *([f"leave out {_list(unknown)}"] if unknown else []),
            *(f"make {name!r} {_article(kind)}" for name, kind in mistyped.items()),
        ]
        raise BadParams(
            f"template {template.name} {template.version} cannot be rendered with these params: {'; '.join(wrong)}",
            template=template.name,
            version=template.version,
            missing=missing,
            unknown=unknown,
            mistyped=mistyped,
        )
    return {name: _written(params.get(name, param.default)) for name, param in declared.items()}


def _written(value: Value | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _is(value: Any, kind: Kind) -> bool:
    match kind:
        case "text":
            return type(value) is str and not _HALF.search(value)
        case "integer":
            return type(value) is int and -LARGEST <= value <= LARGEST
        case "boolean":
            return type(value) is bool
        case _:
            assert_never(kind)


def _article(kind: Kind) -> str:
    return {"text": "a text", "integer": "a whole number", "boolean": "true or false"}[kind]


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _bad(template: Template, problem: str, **fields: Any) -> BadTemplate:
    return BadTemplate(f"template {template.name!r} {template.version}: {problem}", template=template.name, **fields)
