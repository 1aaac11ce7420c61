"""Structural diff of values: what to add, remove and replace to get from one document to another.

Laws, with equality being `same` (canonical bytes, so 1, 1.0 and True differ):
`apply(a, diff(a, b))` is b; `diff(a, a)` is empty; `apply(b, invert(diff(a, b)))` is a.

A path is map keys (str) and list positions (int) from the top. Operations apply in order, each to the outcome of
the ones before it. In a list, Add inserts before a position and Remove closes the gap. A list loses its common
prefix and suffix before it is compared position by position, so appending costs what is appended. A set is replaced
whole: its elements have no place that a path could name. Nothing given is ever changed; parts are shared.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from perdure.core.errors import Invalid, TooDeep
from perdure.core.session.packing import encode
from perdure.core.session.structs import learn
from perdure.core.session.values import DEFAULT_LIMITS, Path, Value, clone, path_text, same


class Add(Struct, frozen=True, array_like=True, tag="+"):
    """Put `value` at a key that is absent, or insert it before a list position."""

    path: Path
    value: Value


class Remove(Struct, frozen=True, array_like=True, tag="-"):
    """Take away what is there, which is `old`."""

    path: Path
    old: Value


class Replace(Struct, frozen=True, array_like=True, tag="="):
    """Put `new` where `old` is."""

    path: Path
    old: Value
    new: Value


Op: TypeAlias = Add | Remove | Replace
Patch: TypeAlias = tuple[Op, ...]

learn(Patch)
_LISTS = (list, tuple)


def diff(a: Value, b: Value) -> Patch:
    """List the operations that make `b` of `a`, in an order that depends on nothing else. Both must have been checked;
    of what they were not, only keys that are not text (`Invalid`) and bottomless depths (`TooDeep`) are noticed."""
    ops: list[Op] = []
    try:
        _diff(a, b, (), ops)
    except RecursionError as error:
        raise _too_deep() from error
    return tuple(ops)


def _diff(a: Any, b: Any, path: Path, ops: list[Op]) -> None:
    if a is b:
        return
    if type(a) is dict and type(b) is dict:
        changed = [key for key, item in b.items() if key not in a or item is not a[key]]
        changed += [key for key in a if key not in b]
        if not all(type(key) is str for key in changed):  # a number would be taken for a list position
            raise Invalid(
                f"at {path_text(path)}: a key is not exactly str; check the values before comparing", path=path
            )
        for key in sorted(changed):
            if key not in b:
                ops.append(Remove((*path, key), a[key]))
            elif key not in a:
                ops.append(Add((*path, key), b[key]))
            else:
                _diff(a[key], b[key], (*path, key), ops)
    elif type(a) in _LISTS and type(b) in _LISTS:
        _diff_lists(a, b, path, ops)
    elif not same(a, b):
        ops.append(Replace(path, a, b))


def _diff_lists(a: Any, b: Any, path: Path, ops: list[Op]) -> None:
    start, tail = 0, 0
    shorter = min(len(a), len(b))
    if len(a) != len(b):
        while start < shorter and same(a[start], b[start]):
            start += 1
        while tail < shorter - start and same(a[-1 - tail], b[-1 - tail]):
            tail += 1
    end = shorter - tail
    for index in range(start, end):
        _diff(a[index], b[index], (*path, index), ops)
    ops += [Add((*path, index), b[index]) for index in range(end, len(b) - tail)]
    ops += [Remove((*path, index), a[index]) for index in reversed(range(end, len(a) - tail))]


def apply(value: Value, patch: Patch) -> Any:
    """Give what the patch makes of `value`. Raises `Invalid`, naming the path, at the first operation that does not
    fit: its place is missing or taken, or holds something else than the patch says."""
    draft = _Draft(value)
    for op in patch:
        draft.do(op)
    return draft.root


class _Draft:
    """A value being changed. Each dict and list on the way to a change is copied once, the rest is shared."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copies: dict[int, Any] = {}  # by id; holding them keeps the ids theirs

    def do(self, op: Op) -> None:
        """Carry out one operation, or raise `Invalid` and leave everything equal to what it was."""
        if not op.path:
            if type(op) is not Replace or not same(self.root, op.old):
                raise _misfit(op)
            self.root = op.new
            return
        box, step = self._open(op), op.path[-1]
        if type(box) is dict:
            present = type(step) is str and step in box
            addable = type(step) is str and not present
        else:
            present = type(step) is int and 0 <= step < len(box)
            addable = type(step) is int and 0 <= step <= len(box)
        if type(op) is Add:
            if not addable:
                raise _misfit(op)
            if type(box) is dict:
                box[step] = op.value
            else:
                box.insert(step, op.value)
        elif not present or not same(box[step], op.old):  # type: ignore[union-attr]
            raise _misfit(op)
        elif type(op) is Replace:
            box[step] = op.new
        else:
            del box[step]

    def _open(self, op: Op) -> Any:
        """Give the box the operation works in, as a copy of our own."""
        self.root = box = self._own(self.root, op)
        for step in op.path[:-1]:
            if type(box) is dict:
                fits = type(step) is str and step in box
            else:
                fits = type(step) is int and 0 <= step < len(box)
            if not fits:
                raise _misfit(op)
            box[step] = inner = self._own(box[step], op)
            box = inner
        return box

    def _own(self, box: Any, op: Op) -> Any:
        if id(box) in self._copies:
            return box
        if type(box) is dict:
            copy: Any = dict(box)
        elif type(box) in _LISTS:
            copy = list(box)
        else:
            raise _misfit(op)
        self._copies[id(copy)] = copy
        return copy


def _misfit(op: Op) -> Invalid:
    what = type(op).__name__.lower()
    return Invalid(
        f"at {path_text(op.path)}: the patch's {what} does not fit what is there; diff again from the current value",
        path=op.path,
    )


def _too_deep() -> TooDeep:
    limit = DEFAULT_LIMITS.max_depth
    return TooDeep(f"the values are nested deeper than {limit} levels; nest less", limit=limit)


def invert(patch: Patch) -> Patch:
    """Give the patch that undoes this one."""
    return tuple(_invert(op) for op in reversed(patch))


def _invert(op: Op) -> Op:
    if isinstance(op, Add):
        return Remove(op.path, op.value)
    if isinstance(op, Remove):
        return Add(op.path, op.old)
    return Replace(op.path, op.new, op.old)


def size(patch: Patch) -> int:
    """Count the bytes of the patch's canonical encoding: what it costs to store or to send."""
    return len(encode(to_document(patch)))


def to_document(patch: Patch) -> list[Any]:
    """Write a patch as plain data: `["+", path, value]`, `["-", path, old]`, `["=", path, old, new]`. It shares no
    dict or list with the values that were compared, so later changes to those cannot reach it."""
    try:
        return [_to_list(op) for op in patch]
    except RecursionError as error:
        raise _too_deep() from error


def _to_list(op: Op) -> list[Any]:
    if isinstance(op, Add):
        return ["+", list(op.path), clone(op.value)]
    if isinstance(op, Remove):
        return ["-", list(op.path), clone(op.old)]
    return ["=", list(op.path), clone(op.old), clone(op.new)]


def from_document(document: Value) -> Patch:
    """Read what `to_document` wrote. Raises `Invalid` if it is something else."""
    try:
        return msgspec.convert(document, Patch)
    except msgspec.ValidationError as error:
        raise Invalid(f"this is not a patch ({error}); write it with to_document") from error
