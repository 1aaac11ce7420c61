"""Sessions that talk to models, as async callers hold them: turns, stepping in, answering for tools, children."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from msgspec.structs import replace

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.edge import given

if TYPE_CHECKING:
    from perdure.compose.talking import Talk
    from perdure.core.talk.children import Child, SpawnRequest
    from perdure.core.talk.context import Context
    from perdure.core.talk.parts import Result, Tool
    from perdure.core.talk.turning import TurnEvent, TurnOutcome, TurnRequest, Waiting
    from perdure.services.grounding import Grounds
    from perdure.services.spawning import Spawning
    from perdure.services.talking import Begun, Talking

Busy = Literal["reject", "enqueue", "interrupt", "rollback"]
Caching = Literal["off", "exact", "semantic"]


class Asking(TypedDict, total=False):
    """How something is said: to which `model`, in at most how many tokens, with which `tools` that the caller runs and
    `results` of those, by the ids of their calls. `busy` says what becomes of a turn that is still running, `cache`
    whether an answer that was given before will do. `agent` and `strategy` are who it is charged to.
    """

    results: "Mapping[str, Any] | Iterable[Result]"
    model: str | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: Iterable[str]
    tools: "Iterable[Tool | dict[str, Any]]"
    busy: Busy
    cache: Caching
    agent: str | None
    strategy: str
    key: str | None
    extra: dict[str, Any]


class Spawned(TypedDict, total=False):
    """How a child is begun. Without a `model` it has the cheap one; it sees `context` and its task alone. `max_tokens`
    bounds each answer; `max_cost`, in micro-dollars, is a slice of the budget, with `tokens` and `rounds` where those
    are limited. `tools` are the only ones it may use. It returns its `summary` or its conversation in `full`.
    """

    model: str | None
    context: str | None
    max_tokens: int | None
    return_format: Literal["summary", "full"]
    max_cost: int | None
    tokens: int | None
    rounds: int | None
    agent: str | None
    strategy: str
    tools: Iterable[str] | None


class Speaking:
    """The part of a session's handle that talks to models. What it begins goes on when nobody waits for it."""

    _services: Services
    id: SessionId

    async def send(self, content: Any = None, **asked: Unpack[Asking]) -> "TurnOutcome":
        """Say something to the session's model, and wait for what comes of it: an answer, calls of tools that are the
        caller's to run, or a call that a person must allow first.

        Without content, the session goes on where it stopped. What a provider, a budget or a limit refuses is raised;
        the session can be used afterwards.

        Options: `model`, `max_tokens`, `temperature`, `top_p` and `stop` for the model; `tools` that the caller runs,
        and `results` of those by the ids of their calls; `busy` (reject, enqueue, interrupt, rollback) for a turn that
        still runs; `cache` (off, exact, semantic); `agent` and `strategy` to charge; `key`, under which the same call
        is one turn; `extra` fields for the provider.
        """
        request = request_of(content, asked)
        return await self._services.home.do(lambda: self._services.talking.run(self.id, request))

    async def stream(self, content: Any = None, **asked: Unpack[Asking]) -> "AsyncGenerator[TurnEvent, None]":
        """A turn as it goes, event by event, until it is over or waits for somebody. It goes on if nobody looks.

        The last event is `TurnEnded`, with what came of it, or `TurnBroke`, with what went wrong. Options are those of
        `send`: model, max_tokens, temperature, top_p, stop, tools, results, busy, cache, agent, strategy, key, extra.
        """
        request = request_of(content, asked)
        async for event in self._services.home.each(lambda: self._events(request)):
            yield event

    async def _events(self, request: "TurnRequest") -> "AsyncGenerator[TurnEvent, None]":
        talking = self._services.talking
        begun = await talking.begin(self.id, request)
        lines = begun.running.follow() if begun.running is not None else talking.follow(self.id, begun.turn)
        async for line in lines:
            yield line.event

    async def steer(self, text: str, *, agent: str | None = None, key: str | None = None) -> int:
        """Change what the session is doing right now: what runs is cut short, and goes on with these words. Without a
        running turn, they are in the next one. The version they got.
        """
        words, who = words_of(text, "steer"), given.maybe_text(agent, "agent")
        return await self._services.home.do(lambda: self._talking.steer(self.id, words, agent=who, key=key))

    async def follow_up(self, text: str, *, agent: str | None = None, key: str | None = None) -> int:
        """Have something considered in the next turn. The version it got."""
        words, who = words_of(text, "follow_up"), given.maybe_text(agent, "agent")
        return await self._services.home.do(lambda: self._talking.follow_up(self.id, words, agent=who, key=key))

    async def interrupt(self, reason: str = "interrupted") -> bool:
        """Stop the turn in flight; what it has said stays. Whether there was one."""
        why = given.text_of(reason, "reason")
        return await self._services.home.do(lambda: self._talking.interrupt(self.id, why))

    async def approve(
        self, call: str, *, allowed: bool = True, note: str = "", key: str | None = None
    ) -> "TurnOutcome":
        """Allow a call that waits for a person, or deny it. When it was the last one, the turn goes on, and this waits
        for what comes of it.
        """
        name, yes = given.text_of(call, "call"), given.flag_of(allowed, "allowed")
        why = given.text_of(note, "note")

        async def answered() -> "TurnOutcome":
            begun = await self._talking.approve(self.id, name, allowed=yes, note=why, key=key)
            return await self._over(begun)

        return await self._services.home.do(answered)

    async def _over(self, begun: "Begun") -> "TurnOutcome":
        if begun.running is not None:
            await begun.running.done.wait()
            if begun.running.error is not None:
                raise begun.running.error
        return await self._talking.outcome(self.id, begun.turn)

    async def approvals(self) -> "tuple[Waiting, ...]":
        """The calls that wait for a person."""

        async def waiting() -> "tuple[Waiting, ...]":
            open = (await self._services.sessions.loader.load(self.id)).state.turns.open
            if open is None:
                return ()
            outcome = await self._talking.outcome(self.id, open.number)
            return tuple(item for item in outcome.waiting if item.approval)

        return await self._services.home.do(waiting)

    async def context(
        self, content: Any = None, *, model: str | None = None, max_tokens: int | None = None
    ) -> "Context":
        """What the model would be asked with now, part by part, and why each is in."""
        request = request_of(content, {"model": model, "max_tokens": max_tokens})
        return await self._services.home.do(lambda: self._talking.context(self.id, request))

    async def grounds(self, turn: int) -> "Grounds":
        """What the answer of a turn rests on: the memories that were shown, which part of it rests on which, and the
        message and checkpoint that each was learnt from.
        """
        number = given.number_of(turn, "turn")
        return await self._services.home.do(lambda: self._services.grounding.of(self.id, number))

    async def spawn(self, task: str, *, wait: bool = False, key: str | None = None, **more: Unpack[Spawned]) -> "Child":
        """Have a session of its own do a task for this one, on this one's account. Its result comes back to this one's
        log, where this one's model reads it; with `wait`, to whoever calls.
        """
        request, stays = spawn_of(task, more), given.flag_of(wait, "wait")

        async def begun() -> "Child":
            child = await self._spawning.spawn(self.id, request, key=key)
            return (await self._spawning.wait(self.id, [child.session]))[0] if stays else child

        return await self._services.home.do(begun)

    async def children(self) -> "tuple[Child, ...]":
        """All that this session ever spawned, the first one first, as they stand."""
        return await self._services.home.do(lambda: self._spawning.children(self.id))

    async def wait_for_children(
        self, children: Iterable[str] | None = None, *, seconds: float | None = None
    ) -> "tuple[Child, ...]":
        """These children, or all that are at work, when they have ended; after so many seconds, as they stand."""
        wanted = None if children is None else given.texts_of(children, "child")
        return await self._services.home.do(lambda: self._spawning.wait(self.id, wanted, seconds))

    @property
    def _talking(self) -> "Talking":
        return self._services.talking

    @property
    def _spawning(self) -> "Spawning":
        return self._services.spawning


def request_of(content: Any, asked: Asking) -> "TurnRequest":
    """What is asked of a turn, checked."""
    from perdure.core.talk.turning import TurnRequest

    fields: dict[str, Any] = dict(asked)
    unknown = sorted(fields.keys() - Asking.__annotations__.keys())
    if unknown:
        raise TypeError(f"send() got an unexpected keyword argument {unknown[0]!r}")
    for name, kinds in (("busy", Busy), ("cache", Caching)):
        if name in fields and fields[name] not in get_args(kinds):
            raise Invalid(f"{name} is one of {', '.join(get_args(kinds))}, not {shown(fields[name])}")
    fields["results"] = _results(asked.get("results", ()))
    fields["tools"] = tuple(_tool(item) for item in asked.get("tools", ()))
    fields["stop"] = given.texts_of(asked.get("stop", ()), "stop")
    for name in ("model", "agent", "strategy"):
        given.maybe_text(fields.get(name), name)
    if (most := fields.get("max_tokens")) is not None and given.number_of(most, "max_tokens") < 1:
        raise Invalid("max_tokens is at least 1", max_tokens=most)
    request = TurnRequest(content=content, **fields)
    if content is not None:
        request.blocks  # noqa: B018 - what is no content is told before anything is done
    return request


def _results(results: Any) -> "tuple[Result, ...]":
    from perdure.core.talk.content import result_blocks
    from perdure.core.talk.parts import Result

    if isinstance(results, Mapping):
        return tuple(Result(call=call, content=result_blocks(content)) for call, content in results.items())
    found = tuple(results)
    if any(not isinstance(item, Result) for item in found):
        raise Invalid("results are those of calls by their ids, like {call: content}, or perdure.models.Result objects")
    return found


def _tool(item: Any) -> "Tool":
    from perdure.core.talk.parts import Tool

    if isinstance(item, Tool):
        return item
    if type(item) is not dict or type(item.get("name")) is not str or not item["name"]:
        raise Invalid(f"a tool is a document with a name, a description and an input_schema, not {shown(item)}")
    schema: dict[str, Any] = item.get("input_schema", {})
    return Tool(name=item["name"], description=item.get("description", ""), schema=schema)


def spawn_of(task: str, more: Spawned) -> "SpawnRequest":
    """What is asked of a child, checked."""
    from perdure.core.talk.children import SpawnRequest

    unknown = sorted(more.keys() - Spawned.__annotations__.keys())
    if unknown:
        raise TypeError(f"spawn() got an unexpected keyword argument {unknown[0]!r}")
    fields: dict[str, Any] = dict(more)
    if fields.get("tools") is not None:
        fields["tools"] = given.texts_of(fields["tools"], "tool")
    for name in ("max_tokens", "max_cost", "tokens", "rounds"):
        given.maybe_number(fields.get(name), name)
    for name in ("model", "agent", "strategy"):
        given.maybe_text(fields.get(name), name)
    return SpawnRequest(task=words_of(task, "task"), **fields)


def words_of(text: Any, name: str) -> str:
    """Words that are not empty, or `Invalid`."""
    if type(text) is not str or not text.strip():
        raise Invalid(f"{name} needs words, not {shown(text)}")
    return text


def talk_of(talk: Any) -> "Talk | None":
    """How sessions talk, or `Invalid`."""
    if talk is None:
        return None
    from perdure.compose.talking import Talk

    if not isinstance(talk, Talk):
        raise Invalid(f"talk is a perdure.models.Talk, not {shown(talk)}")
    return _sound(talk)


def _sound(talk: "Talk") -> "Talk":
    """The same, if its models lead somewhere; else `Invalid` or `UnknownModel`, before anything is opened."""
    from perdure.compose.pricing import loaded
    from perdure.core.talk.routes import OFFLINE, Models, Upstream, checked

    models: Any = talk.models
    if models is OFFLINE:
        return talk
    if not isinstance(models, Models):
        raise Invalid(f"models is a perdure.models.Models, not {shown(models)}")
    upstreams: Any = models.upstreams
    if not isinstance(upstreams, dict) or any(not isinstance(item, Upstream) for item in upstreams.values()):
        raise Invalid("upstreams are perdure.models.Upstream objects by their names, like {name: Upstream(kind=…)}")
    return replace(talk, models=checked(models, loaded()))
