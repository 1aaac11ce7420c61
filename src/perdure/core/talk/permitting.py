"""Permission to run a tool: the rules of a session, of which the first that fits decides.

The rules stand in the session's configuration, `config.extra["tools"]`, as a list of documents:

    {"tool": "bank__*", "when": {"/amount": {">": 1000}}, "do": "ask", "reason": "much money"}

`tool` is a glob over names. `when` looks at the arguments: JSON pointers, and for each of them one or more comparisons
with what is there. All must hold: == != < <= > >=, `in`, `not in` (a list), `like`, `not like` (a glob), `exists`.
`do` is allow, ask or deny. When no rule fits, a safe tool is allowed and one that needs approval is asked for.

Invariants: a tool that nobody here can run is denied, whatever the rules say. A comparison that cannot be decided,
because what is there has another type or the arguments are no document, never makes things easier: it counts as met
where the rule asks or denies, and as not met where the rule allows. What is not there is unlike everything.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown

Do: TypeAlias = Literal["allow", "ask", "deny"]
Standing: TypeAlias = Literal["safe", "approval", "unknown"]
"""What is known of a tool without any rule."""

EXTRA: Final = "tools"
"""Where the rules stand in `config.extra`."""
MAX_RULES: Final = 256
MAX_CONDITIONS: Final = 32
MAX_TEXT: Final = 1024
_DOS: Final = ("allow", "ask", "deny")
_FIELDS: Final = ("tool", "when", "do", "reason")
_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "like", "not like", "exists")
_NOWHERE: Final = object()


class Permission(msgspec.Struct, frozen=True):
    """What may be done with a call, and why."""

    do: Do
    reason: str = ""


class Condition(msgspec.Struct, frozen=True):
    """One comparison of what a pointer leads to in the arguments."""

    at: tuple[str, ...]
    sign: str
    value: Any


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with calls of these tools, if all conditions hold."""

    tool: str
    do: Do
    when: tuple[Condition, ...] = ()
    reason: str = ""


class Policy(msgspec.Struct, frozen=True):
    """The rules of a session, in their order."""

    rules: tuple[Rule, ...] = ()


def permission(policy: Policy, standing: Standing, name: str, arguments: Any) -> Permission:
    """What may be done with a call of this tool with these arguments."""
    if standing == "unknown":
        return Permission("deny", f"there is no tool {shown(name)} here")
    for number, rule in _about(policy, name):
        if _fits(rule, arguments):
            return Permission(rule.do, rule.reason or f"rule {number} of the session's tools says {rule.do}")
    return Permission("ask", "the tool needs approval") if standing == "approval" else Permission("allow")


def never(policy: Policy, standing: Standing, name: str) -> bool:
    """Whether a tool is denied whatever its arguments: a model need not even know of it."""
    if standing == "unknown":
        return True
    for _, rule in _about(policy, name):
        if rule.do != "deny":
            return False
        if not rule.when:
            return True
    return False


def _about(policy: Policy, name: str) -> Iterator[tuple[int, Rule]]:
    return ((number, rule) for number, rule in enumerate(policy.rules) if fnmatchcase(name, rule.tool))


# ── comparing ──


def _fits(rule: Rule, arguments: Any) -> bool:
    undecided = rule.do != "allow"
    if rule.when and type(arguments) is not dict:
        return undecided
    found = (_holds(condition, arguments) for condition in rule.when)
    return all(undecided if held is None else held for held in found)


def _holds(condition: Condition, arguments: dict[str, Any]) -> bool | None:
    """Whether a condition is met; None when that cannot be said."""
    found, sign, value = _at(arguments, condition.at), condition.sign, condition.value
    if sign == "exists":
        return (found is not _NOWHERE) is value
    if sign == "!=" or sign.startswith("not "):
        held = _compared("==" if sign == "!=" else sign.removeprefix("not "), found, value)
        return None if held is None else not held
    return _compared(sign, found, value)


def _compared(sign: str, found: Any, value: Any) -> bool | None:
    if found is _NOWHERE:
        return False
    match sign:
        case "==":
            return _equal(found, value)
        case "in":
            return any(_equal(found, item) for item in value)
        case "like":
            return fnmatchcase(found, value) if type(found) is str else None
    if not (_is_number(found) and _is_number(value)) and not (type(found) is str and type(value) is str):
        return None
    less, equal = bool(found < value), bool(found == value)
    return {"<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[sign]


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON is: 1 and 1.0 are one number, true is none."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(_equal(item, other[name]) for name, item in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value == value)


def _at(document: Any, at: tuple[str, ...]) -> Any:
    """What a pointer leads to, or `_NOWHERE`."""
    for piece in at:
        if type(document) is dict and piece in document:
            document = document[piece]
        elif type(document) is list and _is_index(piece) and int(piece) < len(document):
            document = document[int(piece)]
        else:
            return _NOWHERE
    return document


def _is_index(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) < 10 and (piece == "0" or piece[0] != "0")


# ── reading ──


def policy_of(document: Any) -> Policy:
    """The rules that a configuration states; None states none. `Invalid` says which of them is wrong, and where."""
    if document is None:
        return Policy()
    if not isinstance(document, list | tuple):
        raise _wrong("", f"the rules for tools are a list, not {shown(document)}")
    if len(document) > MAX_RULES:
        raise _wrong("", f"there are {len(document)} rules and {MAX_RULES} at most; use globs to say more with fewer")
    return Policy(tuple(_rule(item, f"/{number}") for number, item in enumerate(document)))


def _rule(item: Any, where: str) -> Rule:
    if type(item) is not dict:
        raise _wrong(where, f"a rule is a document with tool and do, not {shown(item)}")
    for name in item:
        if name not in _FIELDS:
            raise _wrong(where, f"a rule has {', '.join(_FIELDS)}, and no {shown(name)}")
    for name in ("tool", "do"):
        if name not in item:
            raise _wrong(where, f"a rule needs {name}")
    do = item["do"]
    if type(do) is not str or do not in _DOS:
        raise _wrong(f"{where}/do", f"do is one of {', '.join(_DOS)}, not {shown(do)}")
    tool = _text(item["tool"], f"{where}/tool", "tool is a glob over names of tools")
    reason = _text(item.get("reason", ""), f"{where}/reason", "reason is a text", empty=True)
    return Rule(tool=tool, do=do, reason=reason, when=_conditions(item.get("when"), f"{where}/when"))  # type: ignore[arg-type]


def _conditions(item: Any, where: str) -> tuple[Condition, ...]:
    if item is None:
        return ()
    if type(item) is not dict:
        raise _wrong(where, f"when is a document of comparisons by JSON pointer, not {shown(item)}")
    found: list[Condition] = []
    for pointer, comparisons in item.items():
        if type(pointer) is not str or (pointer and pointer[0] != "/"):
            raise _wrong(where, f"{shown(pointer)} is no JSON pointer; write it like /amount or /items/0/price")
        at, here = tuple(_plain(piece) for piece in pointer.split("/")[1:]), f"{where}/{_escaped(pointer)}"
        if type(comparisons) is not dict or not comparisons:
            raise _wrong(here, f'a comparison is written like {{">": 5}}, not {shown(comparisons)}')
        found += [_condition(at, sign, value, here) for sign, value in comparisons.items()]
    if len(found) > MAX_CONDITIONS:
        raise _wrong(where, f"there are {len(found)} comparisons and {MAX_CONDITIONS} at most; use several rules")
    return tuple(found)


def _condition(at: tuple[str, ...], sign: Any, value: Any, where: str) -> Condition:
    if type(sign) is not str or sign not in _SIGNS:
        raise _wrong(where, f"comparisons are {', '.join(_SIGNS)}, not {shown(sign)}")
    if sign == "exists" and type(value) is not bool:
        raise _wrong(where, f"exists is compared with true or false, not {shown(value)}")
    if sign in ("in", "not in") and not isinstance(value, list | tuple):
        raise _wrong(where, f"{sign} takes a list, not {shown(value)}")
    if sign in ("like", "not like"):
        _text(value, where, f"{sign} takes a glob")
    if sign in ("<", "<=", ">", ">=") and type(value) is not str and not _is_number(value):
        raise _wrong(where, f"{sign} takes a number or a text, not {shown(value)}")
    return Condition(at, sign, value)


def _text(value: Any, where: str, what: str, *, empty: bool = False) -> str:
    if type(value) is not str or len(value) > MAX_TEXT or not (value or empty):
        raise _wrong(where, f"{what} of at most {MAX_TEXT} characters, not {shown(value)}")
    return value


def _plain(piece: str) -> str:
    return piece.replace("~1", "/").replace("~0", "~")


def _escaped(piece: str) -> str:
    return piece.replace("~", "~0").replace("/", "~1")


def _wrong(where: str, what: str) -> Invalid:
    told = f"tools{where}" if where else "tools"
    return Invalid(f"{told}: {what}", at=f"/{EXTRA}{where}")
