"""A turn as a block: what is said and done inside is durable step by step; leaving the block ends the turn."""

from types import TracebackType
from typing import Any, Self

from perdure.compose import Services
from perdure.core.errors import TurnRefused
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from perdure.steady import unbroken


class AsyncTurn:
    """An open turn. Every call is one durable append."""

    def __init__(self, services: Services, session: SessionId, text: Any, model: str | None, agent: str | None) -> None:
        self._services = services
        self._session = session
        self._text = text
        self._model = model
        self._agent = agent
        self._tokens = (0, 0)
        self._over = False
        self.number = 0

    async def _append(self, *payloads: Payload) -> int:
        if self._over:
            raise TurnRefused(f"turn {self.number} is over; begin another one", turn=self.number)
        drafts = tuple(Draft(item, agent=self._agent) for item in payloads)
        version, number = await self._write(drafts)
        self.number = number or self.number
        return version

    async def _write(self, drafts: tuple[Draft, ...]) -> tuple[int, int | None]:
        """Make these durable; the version that led to, and the turn they belong to."""
        outcome = await self._services.sessions.handle(self._session, do.Append(drafts=drafts))
        return outcome.version, outcome.events[0].turn if outcome.events else None

    async def _recover(self, reason: str) -> None:
        """Leave the turn interrupted."""
        await self._services.lifecycle.recover(self._session, reason=reason)

    def _fresh(self) -> str:
        """An id that nobody has used."""
        return self._services.sessions.fresh_id()

    async def __aenter__(self) -> Self:
        opening: list[Payload] = [TurnStarted(model=self._model)]
        if self._text is not None:
            opening.append(Message(role="user", content=self._text))
        try:
            await unbroken(self._append(*opening))
        except BaseException as stopped:
            if self.number:  # it was begun, but nobody gets inside to end it
                await unbroken(self._recover(type(stopped).__name__))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await unbroken(self._end(kind))

    async def _end(self, kind: type[BaseException] | None) -> None:
        try:
            if kind is None:
                await self._append(TurnFinished(tokens_in=self._tokens[0], tokens_out=self._tokens[1]))
            else:
                await self._recover(kind.__name__)
        except TurnRefused as unanswered:
            await self._recover(unanswered.code)
            raise
        finally:
            self._over = True

    async def say(self, role: str, content: Any) -> int:
        """A message of any role; the version it got."""
        return await self._append(Message(role=role, content=content))

    async def answer(self, content: Any) -> int:
        """The assistant's words."""
        return await self.say("assistant", content)

    async def ask(self, name: str, arguments: Any = None, *, call: str | None = None) -> str:
        """The model wants a tool run; the id of the call."""
        made = call or f"call-{self._fresh()}"
        await self._append(ToolAsked(call=made, name=name, arguments=arguments))
        return made

    async def start(self, call: str, *, key: str | None = None) -> int:
        """The tool is running; `key` is what a retry after a crash should use."""
        return await self._append(ToolStarted(call=call, key=key))

    async def finish(self, call: str, result: Any = None, *, error: str | None = None) -> int:
        """What the tool gave back."""
        return await self._append(ToolFinished(call=call, result=result, error=error))

    def count(self, tokens_in: int, tokens_out: int) -> None:
        """The tokens to note when the turn ends."""
        self._tokens = (tokens_in, tokens_out)
