"""What a store takes of what sources hold, found out before anything is written, in a store in memory that is thrown
away. So what does not fit is left out and named, in a dry run too, and everything else is brought over.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

import perdure
from perdure import errors
from perdure.events import Draft, Payload

BATCH_BYTES: Final = 8 << 20
"""So many bytes go into one append, unless one item alone has more."""

_SIZE: Final = re.compile(r"\d+ bytes, the limit is (\d+)")

P = TypeVar("P", bound=Payload | Draft)


def weight(payload: Payload | Draft) -> int:
    """About how many bytes a payload takes; of what has no bytes, as many as an append has room for."""
    try:
        return len(msgspec.msgpack.encode(payload))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return BATCH_BYTES


def batches(items: Iterable[Sequence[P]], most: int) -> Iterator[list[Sequence[P]]]:
    """Items in appends of a bearable size: at most so many, and not too many bytes. An item stays whole."""
    batch: list[Sequence[P]] = []
    size = 0
    for item in items:
        heavy = sum(map(weight, item))
        if batch and (len(batch) >= most or size + heavy > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += heavy
    if batch:
        yield batch


async def refusals(items: Iterable[Sequence[P]], most: int = 500, *, keyed: bool = False) -> list[str | None]:
    """Of each item, why no store takes it, `keyed` if it is written so; None for one that fits."""
    found: list[str | None] = []
    for batch in batches(items, most):
        whole = await _refusal([payload for item in batch for payload in item], keyed)
        found += [None] * len(batch) if whole is None else [await _refusal(item, keyed) for item in batch]
    return found


async def _refusal(payloads: Sequence[P], keyed: bool) -> str | None:
    with perdure.open(":memory:") as scratch:
        session = await scratch.aio.create()
        try:
            await (session.record(payloads, key="trial") if keyed else session.recorded(payloads))
        except errors.CallerError as error:
            return why(error)
    return None


async def row_refusal(**row: Any) -> str | None:
    """Why no store takes a session that is made so; None if it fits."""
    with perdure.open(":memory:") as scratch:
        try:
            await scratch.aio.create(**row)
        except errors.CallerError as error:
            return why(error)
    return None


def name_refusal(db: perdure.AsyncPerdure, name: str) -> str | None:
    """Why no session can have this name; None if one can."""
    try:
        db.named(name)
    except errors.Invalid as error:
        return why(error)
    return None


def why(error: errors.PerdureError) -> str:
    """Why something does not fit; what a caller would do about it is left out, since the source stays as it is."""
    told = _SIZE.sub(r"more than \1 bytes", error.message.partition(";")[0])
    return f"it does not fit: {told}"
