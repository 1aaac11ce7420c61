"""Patches for the log: they say what a document becomes, never what it was.

An event may have to lose its content. If a later event repeated what it replaced or removed, that content would still
be there, and a later value would be lost along with the one it replaced. So changes only look forward:
`["+", path, value]`, `["-", path]`, `["=", path, value]`. In a list `+` inserts before a position, `-` closes the gap.

Law: `apply(a, changes(diff(a, b)))` is b. On any other document `apply` still never fails: a value finds its key
whether or not something is there, an insertion beyond the end of a list goes to its end, and what has no place is left
out.
"""

from typing import Any

from perdure.core.session.diff import Add, Op, Patch, Remove, Replace
from perdure.core.session.values import clone

_LISTS = (list, tuple)
_SIGNS = {"+": 3, "=": 3, "-": 2}


def changes(patch: Patch) -> list[Any]:
    """Write a patch as changes, which share no dict or list with the values that were compared."""
    return [_change(op) for op in patch]


def _change(op: Op) -> list[Any]:
    match op:
        case Add():
            return ["+", list(op.path), clone(op.value)]
        case Remove():
            return ["-", list(op.path)]
        case Replace():
            return ["=", list(op.path), clone(op.new)]


def apply(document: dict[str, Any], written: Any) -> dict[str, Any]:
    """Give what the changes make of a document. Whatever is no change, or finds no place, is left out."""
    draft = _Draft(document)
    for change in written if type(written) in _LISTS else ():
        if type(change) in _LISTS and len(change) > 1 and _SIGNS.get(_text(change[0])) == len(change):
            draft.change(*change)
    return draft.root


def _text(value: Any) -> str:
    return value if type(value) is str else ""


class _Draft:
    """A document being changed. Each dict and list on the way to a change is copied once, the rest is shared."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = dict(root)
        self._copies: dict[int, Any] = {id(self.root): self.root}  # by id; holding them keeps the ids theirs

    def change(self, sign: str, path: Any, value: Any = None) -> None:
        """Carry out one change, if it has a place."""
        if type(path) not in _LISTS or not path:
            return
        box = self._open(path[:-1])
        step = path[-1]
        if type(box) is dict and type(step) is str:
            if sign == "-":
                box.pop(step, None)
            else:
                box[step] = value
        elif type(box) is list and type(step) is int and step >= 0:
            if sign == "+":
                box.insert(step, value)
            elif step < len(box):
                box[step : step + 1] = [value] if sign == "=" else []

    def _open(self, path: Any) -> Any:
        """Give the box at a path as a copy of our own, or None where there is none."""
        box: Any = self.root
        for step in path:
            if type(box) is dict:
                fits = type(step) is str and step in box
            else:
                fits = type(box) is list and type(step) is int and 0 <= step < len(box)
            if not fits:
                return None
            box[step] = box = self._own(box[step])
        return box

    def _own(self, box: Any) -> Any:
        if id(box) in self._copies or type(box) not in (dict, *_LISTS):
            return box
        copy: Any = dict(box) if type(box) is dict else list(box)
        self._copies[id(copy)] = copy
        return copy
