"""Plain data: what a session may hold. Invariant: a checked value has exactly one canonical encoding.

A value is None, a bool, an int in −2^63 … 2^64−1, a finite float, a str without lone surrogates, bytes, a datetime in
UTC, a timedelta of at most int64 microseconds, a `Ref`, a list or tuple, a dict with str keys, or a set or frozenset.

- Types are exact. A subclass (an enum that is also a str, an OrderedDict, a numpy float) is refused rather than
  silently flattened: what was stored would no longer be what was given. A bool is never an int.
- Lists and tuples are one kind, sets and frozensets are one kind; reading gives `list` and `frozenset`
  (a `tuple` for a list inside a set, which must be hashable).
- 0.0 and −0.0 are different values: both are kept as they are.
- 1, 1.0 and True are different values (`same`), although Python calls them equal. A Python set cannot hold two of
  them, so neither can ours.

`survey` is the fast pass that says yes only when it is certain; `locate` is the definition, walks slowly and names
the path of what is wrong. Messages carry paths and types, never the data itself.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from math import copysign, inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from msgspec import Struct
from msgspec.msgpack import Encoder

from perdure.core.errors import Invalid, TooDeep, TooLarge

INT_MIN = -(2**63)
INT_MAX = 2**64 - 1
DURATION_MIN = timedelta(microseconds=-(2**63))
DURATION_MAX = timedelta(microseconds=2**63 - 1)

Path: TypeAlias = tuple[str | int, ...]


class Ref(Struct, frozen=True):
    """A pointer to content that lives elsewhere: where it is, and the SHA-256 of what must be found there."""

    uri: str
    sha256: bytes

    def __post_init__(self) -> None:
        if type(self.uri) is not str or not self.uri or not _encodable(self.uri):
            raise Invalid("a Ref needs a non-empty text as its uri; pass uri='scheme://…'")
        if type(self.sha256) is not bytes or len(self.sha256) != 32:
            raise Invalid("a Ref needs the 32 bytes of a SHA-256; pass hashlib.sha256(content).digest()")


if TYPE_CHECKING:
    Value: TypeAlias = (
        bool
        | int
        | float
        | str
        | bytes
        | datetime
        | timedelta
        | Ref
        | Sequence["Value"]
        | Mapping[str, "Value"]
        | AbstractSet["Value"]
        | None
    )
else:
    Value = Any  # msgspec reads annotations at run time and has no recursive unions; `check` guards instead


class Limits(Struct, frozen=True, kw_only=True):
    """How much one value may hold. `max_bytes` is measured on the encoding, by those who encode or decode."""

    max_bytes: int = 16 * 1024 * 1024
    max_depth: int = 64
    max_items: int = 1_000_000
    max_key: int = 1024


DEFAULT_LIMITS = Limits()
DOCUMENT_LIMITS = Limits(max_bytes=4 * 1024 * 1024, max_depth=60, max_items=250_000)
"""For a document that will be wrapped, in a state or in a patch that holds its old and its new form."""
STATE_LIMITS = Limits(max_bytes=256 * 1024 * 1024, max_depth=128, max_items=1 << 24, max_key=1 << 24)
"""For a state whole, or a patch between two: the usual limits held for each value when it came in, and a state that
cannot be written could be neither suspended nor ended."""

PLAIN, RICH, UNSURE = 0, 1, 2
_PROBE = Encoder()
_SURE_KEY = 4  # a key of n characters has at most 4n bytes


def check(value: object, limits: Limits = DEFAULT_LIMITS) -> None:
    """Return if `value` is plain data within the limits on shape; raise `Invalid`, `TooDeep` or `TooLarge` naming
    the path if not."""
    if survey(value, limits) == UNSURE:
        return locate(value, limits)
    try:
        _PROBE.encode(value)  # the survey does not look inside texts; this finds a lone surrogate at C speed
    except UnicodeEncodeError:
        locate(value, limits)
    except RecursionError as error:
        raise TooDeep("the value is nested too deep for this interpreter; nest less", limit=limits.max_depth) from error


def survey(value: object, limits: Limits = DEFAULT_LIMITS) -> int:
    """Judge types, numbers and shape in one pass, level by level.

    PLAIN: msgspec writes it as it is. RICH: valid, but holds sets, durations or refs. UNSURE: ask `locate`.
    Texts are not searched for lone surrogates: the encoder finds them.
    """
    max_depth, max_items, sure_key = limits.max_depth, limits.max_items, limits.max_key // _SURE_KEY
    verdict, depth, items = PLAIN, 0, 0
    level: list[Any] = [(value,)]
    while level:
        if depth > max_depth:
            return UNSURE
        depth += 1
        below: list[Any] = []
        for box in level:
            items += len(box)
            values = box
            if type(box) is dict:
                for key in box:
                    if type(key) is not str or len(key) > sure_key:
                        return UNSURE
                values = box.values()
            for item in values:
                kind = type(item)
                if kind is str or kind is bool or item is None:
                    continue
                if kind is int:
                    if -0x8000000000000000 <= item <= 0xFFFFFFFFFFFFFFFF:
                        continue
                    return UNSURE
                if kind is float:
                    if -inf < item < inf:
                        continue
                    return UNSURE
                if kind is dict or kind is list or kind is tuple:
                    below.append(item)
                elif kind is set or kind is frozenset:
                    verdict = RICH
                    below.append(item)
                elif kind is Ref or (kind is timedelta and DURATION_MIN <= item <= DURATION_MAX):
                    verdict = RICH
                elif kind is not bytes and (kind is not datetime or item.tzinfo is not UTC):
                    return UNSURE
        if items > max_items:
            return UNSURE
        level = below
    return verdict


def locate(value: object, limits: Limits = DEFAULT_LIMITS) -> None:
    """Find the first thing that is not storable and raise the error that names its path; return if there is none."""
    items = 0
    stack: list[tuple[Any, Path]] = [(value, ())]
    while stack:
        item, path = stack.pop()
        items += 1
        if items > limits.max_items:
            raise TooLarge(
                f"the value has more than {limits.max_items} items; split it, or store it as a blob and keep a Ref",
                limit=limits.max_items,
            )
        if type(item) not in _BOXES:
            _check_leaf(item, path)
            continue
        if len(path) >= limits.max_depth:
            raise TooDeep(
                f"at {path_text(path[:8])}…: nested deeper than {limits.max_depth} levels; nest less",
                path=path,
                limit=limits.max_depth,
            )
        if type(item) is dict:
            for key in item:
                _check_key(key, path, limits)
            stack += [(child, (*path, key)) for key, child in reversed(item.items())]
        else:
            stack += [(child, (*path, index)) for index, child in enumerate(item)][::-1]


_BOXES = frozenset({dict, list, tuple, set, frozenset})


def _check_key(key: Any, path: Path, limits: Limits) -> None:
    if type(key) is not str:
        _refuse(path, f"the key is {type(key).__name__}, not str; keys are exact str")
    if not _encodable(key):
        _refuse(path, "a key has a lone surrogate; clean it with .encode('utf-8', 'replace').decode()")
    size = len(key.encode())
    if size > limits.max_key:
        raise TooLarge(
            f"at {path_text(path)}: a key of {size} bytes, the limit is {limits.max_key}; use a shorter key",
            path=path,
            size=size,
            limit=limits.max_key,
        )


def _check_leaf(item: Any, path: Path) -> None:
    kind = type(item)
    if item is None or kind is bool or kind is bytes or kind is Ref:
        return
    if kind is str:
        if not _encodable(item):
            _refuse(path, "the text has a lone surrogate; clean it with .encode('utf-8', 'replace').decode()")
    elif kind is int:
        if not INT_MIN <= item <= INT_MAX:
            _refuse(path, "the integer is outside −2^63 … 2^64−1; store it as text")
    elif kind is float:
        if not -inf < item < inf:
            name = "NaN" if item != item else "an infinity"
            _refuse(path, f"{name} is not storable; use null or a string")
    elif kind is timedelta:
        if not DURATION_MIN <= item <= DURATION_MAX:
            _refuse(path, "the duration is longer than int64 microseconds; store a number of days")
    elif kind is datetime:
        if item.tzinfo is None:
            _refuse(path, "a datetime without a time zone is ambiguous; attach one with .replace(tzinfo=UTC)")
        if item.utcoffset():
            _refuse(path, "the datetime is not in UTC; convert it with .astimezone(UTC)")
    else:
        _refuse_type(item, path)


def _refuse_type(item: Any, path: Path) -> NoReturn:
    kind = type(item)
    for base in (bool, int, float, str, bytes, datetime, dict, list, tuple, set, frozenset):
        if isinstance(item, base):
            advice = f"it must be exactly {base.__name__} (of an enum member, pass .value)"
            _refuse(path, f"{kind.__name__} is a subclass; {advice}")
    if kind in (bytearray, memoryview):
        _refuse(path, f"{kind.__name__} can change under us; pass bytes(…)")
    _refuse(path, f"{kind.__name__} is not plain data; convert it to a dict, or declare a model for it")


def _refuse(path: Path, what: str) -> NoReturn:
    raise Invalid(f"at {path_text(path)}: {what}", path=path)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_text(path: Path) -> str:
    """Write a path for people: `vars.items[3]["unit price"]`; the empty path is `the top`."""
    text = ""
    for step in path:
        if type(step) is str and step.isidentifier():
            text += f".{step[:64]}" if text else step[:64]
        else:
            text += f"[{step!r}]" if type(step) is int else f"[{step[:64]!r}]"  # type: ignore[index]
    return text or "the top"


def storable(count: int) -> int:
    """Give the count, or the nearest one that can be stored: sums of what callers report stay storable."""
    return min(max(count, INT_MIN), INT_MAX)


def same(a: object, b: object) -> bool:
    """Tell whether two checked values have the same canonical encoding: 1, 1.0 and True differ, [1] and (1,) do not."""
    stack: list[tuple[Any, Any]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        kind, other = type(x), type(y)
        if kind is str or kind is int:
            if other is not kind or x != y:
                return False
        elif kind is dict:
            if other is not dict or x.keys() != y.keys():
                return False
            stack += [(item, y[key]) for key, item in x.items()]
        elif kind is list or kind is tuple:
            if (other is not list and other is not tuple) or len(x) != len(y):
                return False
            stack += zip(x, y, strict=True)
        elif kind is set or kind is frozenset:
            if (other is not set and other is not frozenset) or {exact(i) for i in x} != {exact(i) for i in y}:
                return False
        elif kind is not other or x != y or (kind is float and copysign(1, x) != copysign(1, y)):
            return False
    return True


def exact(element: Any) -> object:
    """Give a hashable stand-in for a set element; two are equal exactly when the elements are `same`."""
    kind = type(element)
    if kind is tuple:
        return (list, tuple(map(exact, element)))
    if kind is frozenset:
        return (set, frozenset(map(exact, element)))
    return (kind, element.hex() if kind is float else element)


def clone(value: Any) -> Any:
    """Copy every dict and list of a checked value, so that whoever changes the copy cannot change the original."""
    kind = type(value)
    if kind is dict:
        return {key: clone(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [clone(item) for item in value]
    return value if kind is not set else frozenset(value)
