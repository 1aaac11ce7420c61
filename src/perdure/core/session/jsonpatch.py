"""The two patches that HTTP knows for JSON documents: merge patches (RFC 7396) and operations (RFC 6902).

Nothing given is changed: what comes back shares what was not touched, and what is touched is copied once in a patch,
however many operations touch it. A patch that does not fit is `Invalid` and says
which operation; a failed `test` is `Refused`, since then the document is not what the caller took it for.
"""

from collections.abc import Iterator
from typing import Any, Final

from perdure.core.errors import Invalid, Refused, TooDeep, TooLarge
from perdure.core.session.shown import shown
from perdure.core.session.values import same

MAX_DEPTH: Final = 64
MAX_OPERATIONS: Final = 1_000
MAX_COPIED: Final = 16 * 1024 * 1024
"""How much the `copy` operations of a patch may copy together, in bytes or so; a few could double a document often."""
_NODE: Final = 16
_NEEDS: Final = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}


def merged(document: Any, patch: Any, depth: int = 0) -> Any:
    """What a merge patch makes of a document: maps merge, null takes away, everything else replaces."""
    if depth > MAX_DEPTH:
        raise TooDeep(f"the patch is nested deeper than {MAX_DEPTH} levels; nest less", limit=MAX_DEPTH)
    if type(patch) is not dict:
        return patch
    found = dict(document) if type(document) is dict else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value, depth + 1)
    return found


def patched(document: Any, operations: Any) -> Any:
    """What a list of operations makes of a document, all of them or none."""
    if type(operations) is not list:
        raise Invalid(f"a JSON patch is a list of operations, not {shown(operations)}")
    if len(operations) > MAX_OPERATIONS:
        told = f"a JSON patch has at most {MAX_OPERATIONS} operations, this one has {len(operations)}; send several"
        raise TooLarge(told, limit=MAX_OPERATIONS)
    draft = _Draft(document)
    for number, operation in enumerate(operations):
        draft.carry_out(operation, number)
    return draft.document


def pointed(operations: Any) -> Iterator[list[str]]:
    """Where the operations of a patch point, by `path` and by `from`; what is no pointer is passed over."""
    for operation in operations if type(operations) is list else ():
        for name in ("path", "from") if type(operation) is dict else ():
            if _is_pointer(operation.get(name)):
                yield _pieces(operation[name])


class _Draft:
    """A document while operations change it; `own` are the containers made for it, which may be changed in place."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._own: dict[int, Any] = {}
        self._copied = 0

    def carry_out(self, operation: Any, number: int) -> None:
        name = operation.get("op") if type(operation) is dict else None
        needs = _NEEDS.get(name) if type(name) is str else None
        if needs is None:
            raise Invalid(f"operation {number}: op is one of {', '.join(_NEEDS)}", operation=number)
        if missing := [need for need in needs if need not in operation]:
            raise Invalid(f"operation {number}: {name} needs {', '.join(missing)}", operation=number)
        path = _path(operation["path"], number)
        match name:
            case "add" | "replace":
                self._put(path, operation["value"], number, add=name == "add")
            case "remove":
                self._take(path, number)
            case "test":
                if not same(_looked_up(self.document, path, number), operation["value"]):
                    raise Refused(
                        f"operation {number}: the value is another one; read the document again", operation=number
                    )
            case _:
                self._transfer(_path(operation["from"], number), path, number, moves=name == "move")

    def _transfer(self, source: list[str], path: list[str], number: int, *, moves: bool) -> None:
        value = _looked_up(self.document, source, number)
        if not moves:
            value = self._copy(value, number)
        elif path[: len(source)] == source and path != source:
            raise Invalid(f"operation {number}: a value cannot move into itself", operation=number)
        else:
            self._take(source, number)
        self._put(path, value, number, add=True)

    def _copy(self, value: Any, number: int, depth: int = 0) -> Any:
        """The value with containers of its own."""
        kind = type(value)
        self._copied += _NODE + (len(value) if kind in (str, bytes) else 0)
        if self._copied > MAX_COPIED:
            raise TooLarge(f"operation {number}: this patch copies too much; copy less", operation=number)
        if depth > 2 * MAX_DEPTH:
            raise TooDeep(f"operation {number}: the value is nested too deep; nest less", operation=number)
        if kind is dict:
            return {name: self._copy(item, number, depth + 1) for name, item in value.items()}
        if kind in (list, tuple):
            return [self._copy(item, number, depth + 1) for item in value]
        return value

    def _owned(self, box: Any, number: int) -> Any:
        """The container itself if it was made here, else a copy."""
        if id(box) in self._own:
            return box
        if type(box) is not dict and type(box) not in (list, tuple):
            raise _missing(number)
        made = dict(box) if type(box) is dict else list(box)
        self._own[id(made)] = made  # kept, so that nothing else gets its id
        return made

    def _opened(self, path: list[str], number: int) -> Any:
        """The container at a path, and all that lead to it, made the draft's own."""
        box = self.document = self._owned(self.document, number)
        for piece in path:
            inner = self._owned(_inside(box, piece, number), number)
            box[piece if type(box) is dict else int(piece)] = inner
            box = inner
        return box

    def _put(self, path: list[str], value: Any, number: int, *, add: bool) -> None:
        """Have a value at a path."""
        if not path:
            self.document = value
            return
        box, piece = self._opened(path[:-1], number), path[-1]
        if type(box) is dict:
            if piece not in box and not add:
                raise _missing(number)
            box[piece] = value
        elif add:
            box.insert(len(box) if piece == "-" else _position(box, piece, number, len(box)), value)
        else:
            box[_position(box, piece, number, len(box) - 1)] = value

    def _take(self, path: list[str], number: int) -> None:
        """Take away what is at a path."""
        if not path:
            raise Invalid(f"operation {number}: the whole document cannot be removed; replace it", operation=number)
        box, piece = self._opened(path[:-1], number), path[-1]
        _inside(box, piece, number)
        del box[piece if type(box) is dict else int(piece)]


def _path(pointer: Any, number: int) -> list[str]:
    """The pieces of a JSON pointer."""
    if not _is_pointer(pointer):
        raise Invalid(f"operation {number}: a path is a JSON pointer like /cart/0, not {shown(pointer)}")
    return _pieces(pointer)


def _is_pointer(pointer: Any) -> bool:
    return type(pointer) is str and (not pointer or pointer.startswith("/"))


def _pieces(pointer: str) -> list[str]:
    return [piece.replace("~1", "/").replace("~0", "~") for piece in pointer.split("/")[1:]]


def _looked_up(document: Any, path: list[str], number: int) -> Any:
    for piece in path:
        document = _inside(document, piece, number)
    return document


def _inside(box: Any, piece: str, number: int) -> Any:
    if type(box) is dict and piece in box:
        return box[piece]
    if type(box) in (list, tuple):
        return box[_position(box, piece, number, len(box) - 1)]
    raise _missing(number)


def _position(box: Any, piece: str, number: int, last: int) -> int:
    plain = piece.isascii() and piece.isdigit() and (piece == "0" or piece[0] != "0") and len(piece) < 10
    if not plain or int(piece) > last:
        raise _missing(number)
    return int(piece)


def _missing(number: int) -> Invalid:
    return Invalid(f"operation {number}: there is nothing at that path; read the document again", operation=number)
