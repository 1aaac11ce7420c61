"""What the workers write: turns whose every event names the append it belongs to, so that a reader can tell.

Invariant: the events of an append follow from its name and shape alone. The worker makes them, the checker makes them
again, and a retry under the same key is the same request.
"""

import hashlib
import random
import string
from collections.abc import Iterable
from typing import Any

import msgspec

from perdure import events as ev

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
ALPHABET = string.ascii_letters + string.digits + "äλ✓ "


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """How many messages a turn has, how long each is, and whether a tool is called in between."""

    messages: int
    size: int
    tool: bool


def shape(rng: random.Random, *, bulky: bool = False) -> Shape:
    """Mostly small turns; now and then one that spans many pages."""
    if bulky or rng.random() < 0.04:
        return Shape(rng.randint(1, 3), rng.randint(20_000, 90_000), False)
    return Shape(rng.randint(1, 4), rng.choice((8, 60, 400, 2_000)), rng.random() < 0.3)


def compose(name: str, form: Shape) -> list[Any]:
    """The events of the turn called `name`."""
    rng = random.Random(name)
    call = f"{name}/call"
    turn: list[Any] = [ev.TurnStarted(model=name), ev.Message(role="user", content=_text(name, 0, form, rng))]
    if form.tool:
        turn += [
            ev.ToolAsked(call=call, name="look_up", arguments={"of": name, "depth": rng.randrange(9)}),
            ev.ToolStarted(call=call, key=call),
            ev.ToolFinished(call=call, result=[_text(name, 99, form, rng), rng.random(), None]),
        ]
    turn += [ev.Message(role="assistant", content=_text(name, i, form, rng)) for i in range(1, form.messages)]
    return [*turn, ev.TurnFinished(stop_reason=name, tokens_in=rng.randrange(9999))]


def _text(name: str, index: int, form: Shape, rng: random.Random) -> str:
    return f"{name}#{index} " + "".join(rng.choices(ALPHABET, k=form.size))


def piece(payload: Any) -> str:
    """What one event says, as a digest."""
    return hashlib.sha256(payload.kind.encode() + b"\0" + _encode(payload)).hexdigest()[:24]


def fingerprint(payloads: Iterable[Any]) -> str:
    """What a whole append says."""
    return hashlib.sha256("".join(map(piece, payloads)).encode()).hexdigest()[:24]
