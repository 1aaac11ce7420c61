"""Asking whoever answers for a model: again where that helps, another one where it does not, and nobody who is down.

Invariant: once the first frame of an answer was handed on, nobody else is asked. What was said cannot be unsaid.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, Final, TypeVar, overload

import msgspec

from perdure.core.errors import PerdureError, ProviderCut, ProviderDown, ProviderFailed, ProviderRefused
from perdure.core.talk.carrying import lost
from perdure.core.talk.prices import Prices
from perdure.core.talk.retrying import (
    BOUND,
    CLOSED,
    FUSE,
    IMPATIENT,
    RANDOM_BYTES,
    Breaker,
    Fuse,
    admitted,
    delay,
    failed,
    released,
    seconds_left,
    succeeded,
    weighs,
    worth,
)
from perdure.core.talk.routes import Candidate, Models, Route, route
from perdure.ports.ambient import Ambient
from perdure.ports.provider import Frame, Provider, Sending, Whole
from perdure.providers.making import made

T = TypeVar("T")
REMEMBERED: Final = 1_000
"""Routes that are kept, so that they need not be looked for again."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that has begun, and who gives it. Whoever does not read the frames to the end closes them."""

    candidate: Candidate
    frames: AsyncGenerator[Frame, None]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer, who gave it, and what went wrong before."""

    candidate: Candidate
    whole: Whole
    failed: tuple[PerdureError, ...] = ()


class Calling:
    """Providers, asked by route. Works under asyncio alone, and on one event loop."""

    def __init__(
        self,
        models: Models,
        ambient: Ambient,
        providers: dict[str, Provider] | None = None,
        *,
        prices: Prices | None = None,
        fuse: Fuse = FUSE,
    ) -> None:
        self.models = models
        self._ambient = ambient
        self._providers: dict[str, Provider] = dict(providers or {})
        self._prices = prices
        self._fuse = fuse
        self._breakers: dict[str, Breaker] = {}
        self._routes: dict[str | None, Route] = {}

    def route(self, model: str | None) -> Route:
        """Who is asked for a model, None for the default. Raises `UnknownModel`."""
        found = self._routes.get(model)
        if found is None:
            found = route(self.models, model, self._prices)
            if len(self._routes) >= REMEMBERED:
                self._routes.clear()
            self._routes[model] = found
        return found

    def breaker(self, provider: str) -> Breaker:
        """What is known of a provider."""
        return self._breakers.get(provider, CLOSED)

    async def begin(self, route: Route, sending: Sending) -> Begun:
        """The answer from its first frame on. Raises what the first choice told when nobody answers."""

        async def first(provider: Provider, sent: Sending) -> tuple[Frame, AsyncGenerator[Frame, None]]:
            frames = provider.stream(sent)
            try:
                return await anext(frames), frames
            except StopAsyncIteration:
                raise ProviderCut(
                    f"{provider.name} ended its answer before it began; ask again",
                    provider=provider.name,
                    model=sent.ask.model,
                    retry_after=None,
                ) from None

        candidate, (frame, rest) = await self._somebody(route, sending, first)
        return Begun(candidate=candidate, frames=_Frames(frame, rest, lambda error: self._broke(candidate, error)))

    async def whole(self, route: Route, sending: Sending) -> Answered:
        """The whole answer. Raises what the first choice told when nobody answers."""

        failed = list[PerdureError]()

        async def ask(provider: Provider, sent: Sending) -> Whole:
            try:
                return await provider.whole(sent)
            except PerdureError as error:
                failed.append(error)
                raise

        candidate, whole = await self._somebody(route, sending, ask)
        return Answered(candidate=candidate, whole=whole, failed=tuple(failed))

    async def close(self) -> None:
        """Let go of all connections."""
        providers, self._providers = self._providers, {}
        for provider in providers.values():
            await provider.close()

    # ── trying ──

    async def _somebody(
        self, route: Route, sending: Sending, ask: Callable[[Provider, Sending], Awaitable[T]]
    ) -> tuple[Candidate, T]:
        """What the first candidate says that says anything."""
        told: PerdureError | None = None
        for number, candidate in enumerate(route.candidates, 1):
            sent = sending
            if sending.ask.model != candidate.model:
                sent = msgspec.structs.replace(sending, ask=msgspec.structs.replace(sending.ask, model=candidate.model))
            if (unsaid := lost(sent.ask, candidate.form)) is not None:
                if told is None:
                    raise unsaid
                continue  # who cannot be told what is asked is no help
            try:
                return candidate, await self._tried(candidate, sent, ask, last=number == len(route.candidates))
            except (ProviderFailed, ProviderRefused) as error:
                told = told or error
                if worth(error) == "nothing":
                    raise
        raise told or ProviderDown("nobody is named who could be asked; name a model", retry_after=None)

    async def _tried(
        self, candidate: Candidate, sent: Sending, ask: Callable[[Provider, Sending], Awaitable[T]], *, last: bool
    ) -> T:
        """What one candidate says, asked as often as its upstream allows and its failures are worth."""
        provider = self._provider(candidate.provider)
        upstream = self.models.upstreams.get(candidate.provider)
        retries = upstream.retries if upstream is not None else 0
        attempt = 0
        while True:
            attempt += 1
            self._admit(candidate)
            try:
                answer = await ask(provider, sent)
            except (ProviderFailed, ProviderRefused) as error:
                self._broke(candidate, error)
                told, random = error.fields.get("retry_after"), self._ambient.random(RANDOM_BYTES)
                pause = delay(attempt, random, told=told, bound=BOUND if last else IMPATIENT)
                given_up = attempt > retries or self.breaker(candidate.provider).state == "open"
                if given_up or pause is None or worth(error) != "again":
                    raise
            except BaseException:
                self._breakers[candidate.provider] = released(self.breaker(candidate.provider))
                raise
            else:
                self._breakers[candidate.provider] = succeeded(self.breaker(candidate.provider))
                return answer
            await self._ambient.sleep(pause)

    def _provider(self, name: str) -> Provider:
        provider = self._providers.get(name)
        if provider is None:
            provider = self._providers[name] = made(self.models.upstreams[name])
        return provider

    # ── what is known of each ──

    def _admit(self, candidate: Candidate) -> None:
        """`ProviderDown` while the candidate's provider is left alone."""
        name, now = candidate.provider, self._ambient.now()
        breaker = self.breaker(name)
        let = admitted(breaker, now, self._fuse)
        if let is None:
            left = seconds_left(breaker, now, self._fuse)
            raise ProviderDown(
                f"{name} failed {breaker.failures} times in a row and is left alone; ask again in {left:.0f} seconds",
                provider=name,
                model=candidate.model,
                status=0,
                retry_after=left,
            )
        self._breakers[name] = let

    def _broke(self, candidate: Candidate, error: PerdureError) -> None:
        breaker = self.breaker(candidate.provider)
        if weighs(error):
            self._breakers[candidate.provider] = failed(breaker, self._ambient.now(), self._fuse)
        else:
            self._breakers[candidate.provider] = succeeded(breaker)


class _Frames(AsyncGenerator[Frame, None]):
    """The first frame, which is there, and the rest, as they come. Closing this hangs up, even unread."""

    def __init__(self, first: Frame, rest: AsyncGenerator[Frame, None], broke: Callable[[PerdureError], None]) -> None:
        self._first: Frame | None = first
        self._rest = rest
        self._broke = broke

    async def asend(self, value: None) -> Frame:
        """The next frame."""
        if self._first is not None:
            frame, self._first = self._first, None
            return frame
        try:
            return await self._rest.asend(value)
        except ProviderFailed as error:
            self._broke(error)
            raise

    @overload
    async def athrow(
        self, typ: type[BaseException], val: object = None, tb: TracebackType | None = None, /
    ) -> Frame: ...
    @overload
    async def athrow(self, typ: BaseException, val: None = None, tb: TracebackType | None = None, /) -> Frame: ...
    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> Frame:
        """Stop where it stands, with an error."""
        self._first = None
        await self._rest.aclose()
        raise typ if val is None else val

    async def aclose(self) -> None:
        """Hang up."""
        self._first = None
        await self._rest.aclose()
