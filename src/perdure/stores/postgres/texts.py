"""Callers' text in PostgreSQL, which cannot hold a NUL; and hashes in the place of text too long for an index.

Invariant: `told(kept(text)) == text`, and texts without a NUL or U+001A are kept as they are.
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.ports.seal import Place
from perdure.ports.store import Row
from perdure.projections.text import fold
from perdure.stores.packing import Packing, label_pairs, labels_json

LONGEST_WORD: Final = 200
"""Characters of a word that is indexed as it is; a longer one is indexed by its hash."""
_ODD: Final = re.compile("[\x00\x1a]")
_ESCAPED: Final = re.compile("\x1a([01])")


def kept(text: str) -> str:
    """The text as a column holds it."""
    return _ODD.sub(lambda found: "\x1a0" if found[0] == "\0" else "\x1a1", text) if _ODD.search(text) else text


def told(text: str) -> str:
    """The text behind a column."""
    return _ESCAPED.sub(lambda found: "\0" if found[1] == "0" else "\x1a", text) if "\x1a" in text else text


def mark(*parts: str) -> bytes:
    """A hash that equals another's exactly if the parts are equal."""
    hashed = sha256()
    for part in parts:
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.digest()


def key_mark(packing: Packing, principal: str, key: str) -> bytes:
    """An idempotency key as it is looked up."""
    return mark(principal, packing.key(principal, key))


def label_mark(packing: Packing, name: str, value: str) -> bytes:
    """A tag or an entry of the metadata as it is looked up."""
    return mark(*packing.label(name, value))


def indexed(words: Iterable[str]) -> list[str]:
    """Words as they are indexed, each once."""
    return sorted({word if len(word) <= LONGEST_WORD else "#" + sha256(word.encode()).hexdigest() for word in words})


def card_values(packing: Packing, place: Place, row: Row) -> tuple[str, str, str, str, list[bytes], bytes | None]:
    """The columns of a row that hold content: title, folded, metadata, labels, marks, card."""
    title, labels, card = packing.keep_card(place, row)
    clear = place.salt is None
    marks = [label_mark(packing, name, value) for name, value in label_pairs(row)]
    metadata = _plainly(row) if clear and row.metadata else "{}"
    return kept(title), kept(fold(row.title)) if clear else "", metadata, labels, marks, card


def _plainly(row: Row) -> str:
    """Metadata for people and their tools: what `jsonb` cannot hold is shown as U+FFFD."""
    text = labels_json(row)
    metadata: Any = msgspec.json.decode(text)["metadata"]
    if "\\u0000" in text:
        metadata = _without_nul(metadata)
    return msgspec.json.encode(metadata).decode()


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
        case list():
            return [_without_nul(item) for item in value]
        case dict():
            return {_without_nul(name): _without_nul(item) for name, item in value.items()}
        case _:
            return value
