"""The two patches that HTTP knows for JSON documents: merge patches (RFC 7396) and operations (RFC 6902).

Nothing given is changed: what comes back shares what was not touched. A patch that does not fit is `Invalid` and says
which operation; a failed `test` is `Refused`, since then the document is not what the caller took it for.
"""

from typing import Any, Final

from perdure.core.errors import Invalid, Refused, TooDeep
from perdure.core.session.shown import shown
from perdure.core.session.values import same

MAX_DEPTH: Final = 64
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
    for number, operation in enumerate(operations):
        document = _carried_out(document, operation, number)
    return document


def _carried_out(document: Any, operation: Any, number: int) -> Any:
    name = operation.get("op") if type(operation) is dict else None
    needs = _NEEDS.get(name) if type(name) is str else None
    if needs is None:
        raise Invalid(f"operation {number}: op is one of {', '.join(_NEEDS)}", operation=number)
    if missing := [need for need in needs if need not in operation]:
        raise Invalid(f"operation {number}: {name} needs {', '.join(missing)}", operation=number)
    path = _path(operation["path"], number)
    match name:
        case "add":
            return _put(document, path, operation["value"], number, add=True)
        case "replace":
            return _put(document, path, operation["value"], number, add=False)
        case "remove":
            return _taken(document, path, number)
        case "test":
            if not same(_looked_up(document, path, number), operation["value"]):
                raise Refused(
                    f"operation {number}: the value is another one; read the document again", operation=number
                )
            return document
    source = _path(operation["from"], number)
    value = _looked_up(document, source, number)
    if name == "move":
        if path[: len(source)] == source and path != source:
            raise Invalid(f"operation {number}: a value cannot move into itself", operation=number)
        document = _taken(document, source, number)
    return _put(document, path, value, number, add=True)


def _path(pointer: Any, number: int) -> list[str]:
    """The pieces of a JSON pointer."""
    if type(pointer) is not str or (pointer and not pointer.startswith("/")):
        raise Invalid(f"operation {number}: a path is a JSON pointer like /cart/0, not {shown(pointer)}")
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


def _put(document: Any, path: list[str], value: Any, number: int, *, add: bool) -> Any:
    """The document with a value at a path."""
    if not path:
        return value
    piece, rest = path[0], path[1:]
    if type(document) is dict:
        if piece not in document and (rest or not add):
            raise _missing(number)
        return document | {piece: _put(document.get(piece), rest, value, number, add=add)}
    if type(document) not in (list, tuple):
        raise _missing(number)
    copy = list(document)
    if rest or not add:
        place = _position(copy, piece, number, len(copy) - 1)
        copy[place] = _put(copy[place], rest, value, number, add=add)
    else:
        copy.insert(len(copy) if piece == "-" else _position(copy, piece, number, len(copy)), value)
    return copy


def _taken(document: Any, path: list[str], number: int) -> Any:
    """The document without what is at a path."""
    if not path:
        raise Invalid(f"operation {number}: the whole document cannot be removed; replace it", operation=number)
    piece, rest = path[0], path[1:]
    inner = _inside(document, piece, number)
    if type(document) is dict:
        if rest:
            return document | {piece: _taken(inner, rest, number)}
        return {name: value for name, value in document.items() if name != piece}
    copy = list(document)
    place = _position(copy, piece, number, len(copy) - 1)
    if rest:
        copy[place] = _taken(inner, rest, number)
    else:
        del copy[place]
    return copy
