"""Where the log keeps the rests of blocks: in the metadata of what they belong to, by their place among its blocks.

So content is what was said and nothing else, and a provider that gets its own words back gets all of them. Rests that
older logs have among the content are read as they stand there.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from perdure.core.talk.parts import Block, Call, Foreign, Result, Text
from perdure.core.talk.wire import rest, rest_in

RESTS: Final = "rests"
"""Where metadata has them: how many blocks stand before each, whose it is, and what it keeps."""


class Unit(msgspec.Struct, frozen=True):
    """What becomes one payload: words beside each other, or one call or result; and the metadata that goes with it."""

    blocks: list[Block]
    metadata: dict[str, Any]


def units_of(blocks: Iterable[Block]) -> list[Unit]:
    """Blocks as units, in their order, without empty texts. Where nothing is said there is nothing to have a rest."""
    found: list[Unit] = []
    early: list[dict[str, Any]] = []
    for block in blocks:
        kept = rest_in(block)
        if kept is not None and isinstance(block, Foreign):
            at = len(found[-1].blocks) if found else 0
            here = found[-1].metadata.setdefault(RESTS, []) if found else early
            here.append({"at": at, "provider": block.provider, "rest": kept})
        elif isinstance(block, Text) and not block.text:
            continue
        elif found and not isinstance(block, Call | Result) and not isinstance(found[-1].blocks[0], Call | Result):
            found[-1].blocks.append(block)
        else:
            found.append(Unit([block], {RESTS: early} if early and not found else {}))
    return found


def rejoined(blocks: Sequence[Block], metadata: Any) -> list[Block]:
    """Blocks with the rests that metadata has of them; what is not spelled as one is passed over."""
    listed = metadata.get(RESTS) if type(metadata) is dict else None
    if not isinstance(listed, list | tuple):
        return list(blocks)
    behind: dict[int, list[Block]] = {}
    for item in listed:
        match item:
            case {"at": int(at), "provider": str(provider), "rest": dict(kept)}:
                behind.setdefault(at, []).extend(rest(provider, kept))
            case _:
                pass
    found = behind.get(0, [])
    for at, block in enumerate(blocks, 1):
        found += [block, *behind.get(at, ())]
    return found


def results_end(blocks: Sequence[Block]) -> int:
    """Where the results at the beginning of a message end, with their rests."""
    end = 0
    for at, block in enumerate(blocks):
        if isinstance(block, Result) or (end and end == at and rest_in(block) is not None):
            end = at + 1
        elif rest_in(block) is None:
            break
    return end
