"""Bodies that are not what an operation takes: JSON that is none, and documents that do not fit."""

import copy
import json
import random
from typing import Any

from barrage import words

Document = dict[str, Any]


def unfit(chance: random.Random, example: Any, schema: Document, schemas: Document) -> bytes:
    """A document that is JSON: one place of a fitting one holds what does not belong there."""
    document = copy.deepcopy(example) if example is not None else fitting(schema, schemas)
    roll = chance.random()
    if roll < 0.05:
        return encoded(words.value(chance))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        document = _hit(chance, document, schema, schemas)
    return encoded(document)


def _hit(chance: random.Random, document: Any, schema: Document, schemas: Document) -> Any:
    """The document with one place replaced, added or taken out; the schema says which places there could be."""
    shape = resolved(schema, schemas)
    if isinstance(document, list) and document and chance.random() < 0.7:
        at = chance.randrange(len(document))
        document[at] = _hit(chance, document[at], shape.get("items", {}), schemas)
        return document
    if not isinstance(document, dict):
        return words.value(chance)
    fields = list(shape.get("properties", {})) or list(document)
    roll = chance.random()
    if roll < 0.05:
        document[words.text(chance)] = words.value(chance)
    elif roll < 0.1 and document:
        document.pop(chance.choice(list(document)))
    elif fields:
        name = chance.choice(fields)
        inner = document.get(name)
        if isinstance(inner, dict | list) and chance.random() < 0.6:
            document[name] = _hit(chance, inner, shape.get("properties", {}).get(name, {}), schemas)
        else:
            document[name] = words.value(chance)
    else:
        document[words.text(chance)] = words.value(chance)
    return document


def resolved(schema: Document, schemas: Document) -> Document:
    """A schema behind its reference, and the object among its choices if there is one."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for choice in schema.get("anyOf", ()):
        found = resolved(choice, schemas)
        if found.get("type") == "object":
            return found
    return schema


def fitting(schema: Document, schemas: Document) -> Any:
    """A small document that fits."""
    shape = resolved(schema, schemas)
    if "enum" in shape:
        return shape["enum"][0]
    match shape.get("type"):
        case "object":
            return {name: fitting(shape["properties"][name], schemas) for name in shape.get("required", ())}
        case "array":
            return [fitting(shape.get("items", {}), schemas)] * shape.get("minItems", 0)
        case "integer" | "number":
            return shape.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "a"


def encoded(document: Any) -> bytes:
    """JSON as Python writes it, lone surrogates and all."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def broken(chance: random.Random, example: Any) -> bytes:
    """Bytes that hardly are JSON, or JSON that hardly anybody would write."""
    good = encoded(example if example is not None else {"a": 1})
    at = chance.randrange(len(good) + 1)
    depth = chance.choice((40, 65, 130, 1_000, 20_000, 200_000))
    kinds = (
        lambda: good[:at],
        lambda: good + good,
        lambda: good + b",",
        lambda: b"",
        lambda: b" \n\t" * 2_000,
        lambda: b"\xef\xbb\xbf" + good,
        lambda: good.decode().encode("utf-16"),
        lambda: b"\xff" + good,
        lambda: good[:at] + chance.choice((b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf5", b"\x1f", b"\\")) + good[at:],
        lambda: b"[" * depth,
        lambda: b"[" * depth + b"]" * depth,
        lambda: b'{"a":' * depth + b"1" + b"}" * depth,
        lambda: _nested(good, depth),
        lambda: _placed(good, chance.choice(words.LITERALS)),
        lambda: _placed(good, chance.choice(words.ALIKE)),
        lambda: _placed(good, b"9" * chance.choice((20, 400, 5_000, 100_000))),
        lambda: _placed(good, b"0." + b"1" * chance.choice((20, 5_000, 100_000))),
        lambda: _placed(good, b"1e" + b"9" * chance.choice((3, 20, 5_000))),
        lambda: b"{" + b'"a":1,' * chance.choice((2, 1_000)) + b'"a":2}',
        lambda: good[:-1] + b"," + good[1:] if good.startswith(b"{") and len(good) > 2 else b'{"a":1,"a":1}',
        lambda: b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(20_000)) + b"}",
        lambda: b'"' + b"s" * chance.choice((10, 200_000)) + b'"',
        lambda: b"{'a': 1}",
        lambda: b"{a: 1}",
        lambda: b"/* */ " + good,
        lambda: b"[1,]",
        lambda: b"null",
        lambda: chance.randbytes(chance.randrange(1, 400)),
        lambda: b"title=a&tags=b",
        lambda: b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>',
    )
    return chance.choice(kinds)()


def _placed(good: bytes, literal: bytes) -> bytes:
    """A document with a literal in the place of its first value, or the literal itself."""
    head, found, _ = good.partition(b":")
    return head + b": " + literal + b"}" if found else literal


def _nested(good: bytes, depth: int) -> bytes:
    return _placed(good, b'{"n":' * depth + b"0" + b"}" * depth)


def lines(chance: random.Random) -> bytes:
    """Lines like those of an export, which add up to none."""
    head = {
        "record": chance.choice((0, 1, "header", None)),
        "format": words.value(chance),
        "session": words.value(chance),
    }
    event = {name: words.value(chance) for name in ("version", "id", "kind", "at", "data", "digest", "prev")}
    made = [encoded(head)] + [encoded(event) for _ in range(chance.randrange(4))] + [broken(chance, event)]
    return b"\n".join(made) + b"\n"
