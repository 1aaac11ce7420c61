"""A provider that says what a test wants and stops where a test wants, and the services of turns around it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from perdure.compose import Services, embedded
from perdure.core.errors import PerdureError
from perdure.core.session.ids import SessionId
from perdure.core.talk.folding import folded
from perdure.core.talk.parts import (
    Ask,
    Began,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Piece,
    Said,
    Stop,
    Text,
    Usage,
)
from perdure.core.talk.prices import Prices, read
from perdure.core.talk.routes import Models, Upstream
from perdure.edge.library import AsyncPerdure
from perdure.edge.session import AsyncSession
from perdure.ports.provider import Form, Frame, Sending, Whole
from perdure.services.calling import Calling
from perdure.services.pricing import Pricing
from perdure.services.talking import Talking

USED = Usage(input=10, output=5)


def priced(*models: tuple[str, int]) -> Prices:
    """Prices of models: so many micro-dollars for a token in, and twice that for one out."""
    listed = [
        {
            "provider": "acme",
            "models": [model],
            "rates": {
                "input": rate * 1_000_000,
                "output": rate * 2_000_000,
                "cache_read": rate * 100_000,
                "cache_write": rate * 1_250_000,
            },
            "window": 20_000,
            "max_output": 4_000,
        }
        for model, rate in models
    ]
    return read({"as_of": "2026-11-01", "prices": listed})


PRICES = priced(("small", 1), ("large", 1))
DEARER = priced(("small", 1), ("large", 10))
COST = 10 + 2 * 5


def says(text: str, *, usage: Usage = USED, stop: Stop = "end") -> list[Piece]:
    """An answer in words."""
    parts = text.split(" ")
    words = [Delta(index=0, text=part if number == 0 else f" {part}") for number, part in enumerate(parts)]
    begun = [Began(id="m", model="small", usage=Usage(input=usage.input)), BlockBegan(index=0, block=Text(text=""))]
    return [*begun, *words, BlockEnded(index=0), Ended(stop=stop, usage=usage)]


def wants(*calls: tuple[str, str, dict[str, Any]]) -> list[Piece]:
    """An answer that wants tools run."""
    found: list[Piece] = [Began(id="m", model="small", usage=Usage(input=USED.input))]
    for index, (id, name, arguments) in enumerate(calls):
        begun = BlockBegan(index=index, block=Call(id=id, name=name))
        found += [begun, Delta(index=index, json=msgspec.json.encode(arguments).decode()), BlockEnded(index=index)]
    return [*found, Ended(stop="tools", usage=USED)]


Step = Piece | PerdureError | asyncio.Event | Callable[[], None]


class Scripted:
    """A provider with a script: pieces are said, errors raised, events waited for. Without one it says `ok`."""

    name = "acme"
    form: Form = ""

    def __init__(self) -> None:
        self.script: list[list[Step]] = []
        self.asked: list[Ask] = []
        self.hung_up = 0
        self.usage = USED

    def then(self, *answers: list[Any]) -> None:
        """What is said to the next questions."""
        self.script += answers

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        """The next answer of the script."""
        self.asked.append(sending.ask)
        steps: list[Any] = self.script.pop(0) if self.script else says("ok", usage=self.usage)
        done = False
        try:
            for step in steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, PerdureError):
                    done = True
                    raise step
                elif callable(step):
                    step()
                else:
                    yield Frame((step,))
            done = True
        finally:
            self.hung_up += not done

    async def whole(self, sending: Sending) -> Whole:
        """The same at once."""
        pieces = [piece async for frame in self.stream(sending) for piece in frame.pieces]
        return Whole(folded(pieces))

    async def close(self) -> None:
        """There is nothing to let go of."""


class Stage:
    """A store, its services, and the provider that they ask."""

    def __init__(self, services: Services, provider: Scripted, prices: Prices = PRICES) -> None:
        self.services = services
        self.db = AsyncPerdure(services)
        self.provider = provider
        common = services.common
        models = Models(upstreams={"acme": Upstream(name="acme", kind="offline", retries=0)}, default="acme/small")
        models = msgspec.structs.replace(models, cheap="acme/small")
        common.calling = Calling(models, common.ambient, {"acme": provider}, prices=prices)
        common.pricing = Pricing(prices)
        common.prices = prices

    @property
    def talking(self) -> Talking:
        """Turns."""
        return self.services.talking

    async def session(self, **config: Any) -> AsyncSession:
        """A new session."""
        return await self.db.create("trip", config=config or None)

    async def kinds(self, session: SessionId | AsyncSession) -> list[str]:
        """What is in its log, after what every log begins with."""
        id = session.id if isinstance(session, AsyncSession) else session
        return [event.kind for event in await (await self.db.session(id)).events()][2:]


@asynccontextmanager
async def stage(path: str = ":memory:", provider: Scripted | None = None) -> AsyncIterator[Stage]:
    """A stage, cleared in the end."""
    services = embedded(path)
    made = Stage(services, provider or Scripted())
    try:
        yield made
    finally:
        await services.quiet()
        await made.db.close()


def words(said: Said) -> str:
    """The words of a message."""
    return "".join(block.text for block in said.blocks if isinstance(block, Text))
