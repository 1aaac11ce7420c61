"""Paths of fields, and documents without some of them.

A path is names with dots between: `vars.salary`, `metadata.*`, `scratchpad`, `config.system_prompt`. `*` is any name;
a dot, a star or a backslash that belongs to a name has a backslash before it. A path reaches into a list by itself:
`vars.staff.salary` is the salary of everyone on the staff. It cannot single out a position, because positions shift as
a document changes; a number there means every element, like `*`.

Nothing given is ever changed: what is untouched is shared, and a document from which nothing goes is given back itself.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from perdure.core.errors import Invalid

ANY: Final = None
"""The star of a path that was read: any name."""
Names: TypeAlias = tuple[str | None, ...]
_GONE: Final = object()
_LISTS: Final = (list, tuple)
_SETS: Final = (set, frozenset)
MAX_PATH: Final = 1024


class _Node:
    """Where some hidden paths lead on from: by name, by any name; `ends` if one of them ends here."""

    __slots__ = ("any", "ends", "names", "through")

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.ends = False
        self.through = self
        """The same for the elements of a list: only what has a name."""

    def grow(self, path: Names) -> None:
        node = self
        for name in path:
            if name is ANY:
                node.any = node = node.any or _Node()
            else:
                node = node.names.setdefault(name, _Node())
        node.ends = True

    def settle(self) -> None:
        """Work out `through`, from here on down."""
        for below in (*self.names.values(), *(() if self.any is None else (self.any,))):
            below.settle()
        if self.any is not None or any(map(str.isdecimal, self.names)):
            self.through = _Node()
            self.through.names = {name: below for name, below in self.names.items() if not name.isdecimal()}


Nodes: TypeAlias = tuple[_Node, ...]


@lru_cache(4096)
def parsed(path: str) -> Names:
    """The names of a path. `Invalid` for what is no path."""
    if len(path) > MAX_PATH:
        raise Invalid(f"a path has at most {MAX_PATH} characters, this one has {len(path)}; shorten it", limit=MAX_PATH)
    names: list[str | None] = []
    name, plain = "", True
    steps = iter(path)
    for sign in steps:
        if sign == "\\":
            name, plain = name + next(steps, "\\"), False
        elif sign == ".":
            names.append(_name(name, plain, path))
            name, plain = "", True
        else:
            name += sign
    names.append(_name(name, plain, path))
    return tuple(names)


def _name(name: str, plain: bool, path: str) -> str | None:
    if not name:
        raise Invalid(f"{path[:80]!r} is not a path of fields; write names with dots between, as in vars.salary")
    return ANY if plain and name == "*" else name


def spelled(path: Iterable[str | int | None]) -> str:
    """The path with these steps, as a text that `parsed` reads back."""
    return ".".join("*" if name is ANY else _escaped(str(name)) for name in path)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(".", "\\.").replace("*", "\\*")


@lru_cache(1024)
def tree(hidden: tuple[str, ...]) -> Nodes:
    """The hidden paths, ready to walk along."""
    root = _Node()
    for path in hidden:
        root.grow(parsed(path))
    root.settle()
    return (root,)


def step(nodes: Nodes, name: str | int) -> Nodes:
    """Where the paths stand after one more step: a key, or the position in a list."""
    found: list[_Node] = []
    for node in nodes:
        if type(name) is str:
            if name in node.names:
                found.append(node.names[name])
        else:
            found += [below for key, below in node.names.items() if key.isdecimal()]
            found.append(node.through)
        if node.any is not None:
            found.append(node.any)
    return tuple(found)


def ends(nodes: Nodes) -> bool:
    """Whether a hidden path ends here, so that what is here and below is hidden."""
    return any(node.ends for node in nodes)


def without(document: Any, hidden: tuple[str, ...]) -> Any:
    """The document with the hidden paths taken out. A map or list that loses everything stays, empty."""
    return document if not hidden else pruned(document, tree(hidden))


def pruned(value: Any, nodes: Nodes) -> Any:
    """A value without what these nodes hide in it. Whether it is hidden itself, `ends` says."""
    if isinstance(value, dict):
        return _pruned_map(value, nodes)
    if isinstance(value, _LISTS):
        below = step(nodes, 0)
        items = [] if ends(below) else [_left(item, below) for item in value]
        if len(items) == len(value) and all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, _SETS) and value and ends(step(nodes, 0)):
        return frozenset()
    return value


def _pruned_map(value: dict[str, Any], nodes: Nodes) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    starred = any(node.any is not None for node in nodes)
    for name in value if starred else {name for node in nodes for name in node.names if name in value}:
        left = _left(value[name], step(nodes, name))
        if left is not value[name]:
            changed[name] = left
    if not changed:
        return value
    return {name: new for name, item in value.items() if (new := changed.get(name, item)) is not _GONE}


def _left(item: Any, below: Nodes) -> Any:
    """What is left of a part of a document: `_GONE` for nothing."""
    if not below:
        return item
    return _GONE if ends(below) else pruned(item, below)


def changes_without(changes: Any, hidden: tuple[str, ...], root: tuple[str, ...] = ("vars",)) -> Any:
    """Changes of a document without those at hidden paths; values put above one lose what is hidden in them.

    Takes patches as they are stored (`["+", path, value]`, `["-", path]`, `["=", path, value]`) and the wider ones that
    tell old values, too. `root` says where the document stands. What has not the form of a change is left out.
    """
    if not hidden:
        return changes
    nodes = tree(hidden)
    for name in root:
        nodes = step(nodes, name)
        if ends(nodes):
            return []
    if not nodes:
        return changes
    return [left for change in changes if (left := _change(change, nodes)) is not None] if _listed(changes) else []


def _listed(value: Any) -> bool:
    return type(value) in _LISTS


def _change(change: Any, nodes: Nodes) -> list[Any] | None:
    if not _listed(change) or len(change) < 2 or not _listed(change[1]):
        return None
    for name in change[1]:
        nodes = step(nodes, name)
        if ends(nodes):
            return None
    sign, path, *values = change
    return [sign, path, *(pruned(value, nodes) for value in values)]


def touched(changes: Any, root: tuple[str, ...] = ("vars",)) -> tuple[str, ...]:
    """The paths that changes write to, spelled; what a decision about a write wants to know.

    A change that cannot be read is taken to touch all of the document.
    """
    found: dict[str, None] = {}
    for change in changes if _listed(changes) else (changes,):
        readable = _listed(change) and len(change) > 1 and _listed(change[1])
        found[spelled((*root, *change[1]) if readable else root)] = None
    return tuple(found)


def meets(patch: Any, hidden: tuple[str, ...], root: tuple[str, ...] = ("vars",)) -> bool:
    """Whether a merge patch names something hidden, or puts something in the place of what holds it."""
    if not hidden:
        return False
    nodes = tree(hidden)
    for name in root:
        nodes = step(nodes, name)
        if ends(nodes):
            return True
    return _meets(patch, nodes)


def _meets(patch: Any, nodes: Nodes) -> bool:
    if ends(nodes):
        return True
    if isinstance(patch, dict):
        return bool(nodes) and any(_meets(item, step(nodes, name)) for name, item in patch.items())
    return any(node.names or node.any is not None for node in nodes)


def may_write(paths: Iterable[str], barred: Sequence[str]) -> bool:
    """Whether none of the paths touches a barred one."""
    return first_touch(paths, barred) is None


def first_touch(paths: Iterable[str], barred: Sequence[str]) -> str | None:
    """The first barred path that is written to: itself, something in it, or the whole that it is a part of."""
    if not barred:
        return None
    written = [_steps(path) for path in paths]
    for path in barred:
        names = parsed(path)
        if any(_touch(names, other) for other in written):
            return path
    return None


def within(path: str, hidden: tuple[str, ...]) -> bool:
    """Whether a path asks for something hidden: a hidden field, or a part of one."""
    nodes = tree(hidden)
    for name in _steps(path):
        nodes = tuple(dict.fromkeys(below for node in nodes for below in _matching(node, name)))
        if ends(nodes):
            return True
    return False


def _steps(path: str) -> Names:
    """The names of a path that comes with a request. One that cannot be read names everything."""
    try:
        return parsed(path)
    except Invalid:
        return ()


def _matching(node: _Node, name: str | None) -> list[_Node]:
    """Where a path leads on from a node by a name, which may be any name or a position."""
    below = [other for key, other in node.names.items() if _alike(key, name)]
    if _in_list(name):
        below.append(node.through)
    return below if node.any is None else [*below, node.any]


def _touch(barred: Names, written: Names) -> bool:
    """Whether two paths overlap: one is at or inside the other. A list may stand between any two names of `barred`."""
    places = {0}
    for name in written:
        if len(barred) in places:
            return True
        after = {place + 1 for place in places if _alike(barred[place], name)}
        places = after | places if _in_list(name) else after
    return bool(places)


def _alike(one: str | None, other: str | None) -> bool:
    """Whether two names of paths may mean the same; numbers may be positions, and those are all alike."""
    return one == other or one is ANY or other is ANY or (one.isdecimal() and other.isdecimal())


def _in_list(name: str | None) -> bool:
    """Whether a name may be a position in a list."""
    return name is ANY or name.isdecimal()
