"""What is said, without what says nothing: the same words, calls and results have one hash, however they are sent.

Which differences say nothing, `matching` tells.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.talk.content import arguments_of, blob_at
from perdure.core.talk.parts import Block, Call, Foreign, Media, Text
from perdure.core.talk.wire import rest_in

_UNREADABLE: Final = (msgspec.MsgspecError, OverflowError, UnicodeError, RecursionError, TypeError)


def spoken(blocks: Sequence[Block]) -> bytes:
    """The hash of what an assistant says: its words, then its calls."""
    calls = [[block.name, _arguments(block)] for block in blocks if isinstance(block, Call)]
    others = [block for block in blocks if not isinstance(block, Call)]
    return hashed([*essences(others), calls])


def essences(blocks: Iterable[Block]) -> list[Any]:
    """What these blocks mean: texts beside each other as one, and what is not text. Rests mean nothing."""
    found: list[Any] = []
    texts: list[str] = []
    for block in blocks:
        if rest_in(block) is not None:
            continue
        if isinstance(block, Text):
            texts.append(block.text)
            continue
        found += _joined(texts)
        texts = []
        if isinstance(block, Media):
            found.append({"media": _media(block)})
        elif isinstance(block, Foreign):
            found.append({"foreign": _plain({name: item for name, item in block.block.items() if name not in _MARKS})})
    return found + _joined(texts)


_MARKS: Final = frozenset({"id", "cache_control", "status"})


def _media(media: Media) -> str:
    """The same for the same content, whether it is there or in a blob."""
    if media.data:
        return sha256(media.data).hexdigest()
    blob = blob_at(media)
    return media.url if blob is None else blob.sha256.hex()


def _joined(texts: Sequence[str]) -> list[Any]:
    text = "".join(texts).strip()
    return [_read(text) if text[0] in "{[" else text] if text else []


def _arguments(call: Call) -> Any:
    arguments = arguments_of(call)
    return _read(arguments.strip()) if isinstance(arguments, str) else _plain(arguments)


def _read(text: str) -> Any:
    """What a text says as JSON; the text itself if it is none."""
    try:
        return _plain(msgspec.json.decode(text))
    except _UNREADABLE:
        return text


def hashed(value: Any) -> bytes:
    """The hash of a meaning."""
    try:
        data = _JSON.encode(value)
    except _UNREADABLE:
        data = repr(value).encode("utf-8", "backslashreplace")
    return sha256(data).digest()


_JSON: Final = msgspec.json.Encoder(order="deterministic")


def _plain(value: Any) -> Any:
    """A value with whole numbers spelled as such."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
