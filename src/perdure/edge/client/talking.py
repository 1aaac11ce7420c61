"""Sessions at a server that talk to models. A turn is followed as it goes, and rejoined where the way broke off."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final, Unpack

import msgspec

from perdure.core.errors import Invalid, PerdureError, Unreachable
from perdure.core.memory.provenance import Support
from perdure.core.session import codec
from perdure.core.session.ids import SessionId
from perdure.core.talk.children import Child
from perdure.core.talk.content import blocks_of, documents_of, stored
from perdure.core.talk.context import Context, LeftOut, Portion
from perdure.core.talk.parts import Said, Text, Tool, Usage
from perdure.core.talk.turning import (
    TurnBroke,
    TurnEnded,
    TurnEvent,
    TurnOutcome,
    TurnRequest,
    Waiting,
    event_of,
    is_last,
    place_of,
)
from perdure.edge import given
from perdure.edge.client.asking import Request, key_of, piece_of
from perdure.edge.client.documents import given as named
from perdure.edge.client.failures import by_code
from perdure.edge.client.transport import Transport
from perdure.edge.client.watching import GIVE_UP, MEDIA, SILENCE, words
from perdure.edge.http.wire import EXACT
from perdure.edge.talking import Asking, Spawned, request_of, spawn_of, words_of
from perdure.services.grounding import Grounds

LONGEST: Final = 30.0
"""Seconds that one request waits for children."""


class Speaking:
    """The part of a handle that talks to models, at the server."""

    _transport: Transport
    _path: str
    id: SessionId

    async def send(self, content: Any = None, **asked: Unpack[Asking]) -> TurnOutcome:
        """Say something to the session's model, and wait for what comes of it, however long that takes."""
        async with aclosing(self.stream(content, **asked)) as events:
            return await self._outcome(events)

    async def stream(self, content: Any = None, **asked: Unpack[Asking]) -> AsyncGenerator[TurnEvent, None]:
        """A turn as it goes, event by event, until it is over or waits for somebody. It goes on if nobody looks."""
        request = request_of(content, asked)
        key = key_of(request.key) if request.key is not None else self._transport.fresh_key()
        begin = Request(
            method="POST",
            target=f"{self._path}/messages",
            body=codec.to_json(_body(request)),
            headers={"Idempotency-Key": f'"{key}"'},
        )
        async for event in self._followed(begin):
            yield event

    async def _followed(self, begin: Request) -> AsyncGenerator[TurnEvent, None]:
        """The events of a turn; one that was heard is not heard again."""
        asked, failed = begin, 0
        while True:
            try:
                stream = await self._transport.stream(asked, accept=f"{MEDIA}, {EXACT}", silence=SILENCE)
                try:
                    async for word, data, place in words(stream):
                        turn, _ = place_of(place)
                        target = f"{self._path}/turns/{turn}/stream"
                        asked, failed = Request(method="GET", target=target, headers={"Last-Event-ID": place}), 0
                        event = _ended(data) if word == "turn_ended" else event_of(data)
                        yield event
                        if is_last(event):
                            return
                finally:
                    stream.close()
            except Unreachable:
                if failed >= GIVE_UP:
                    raise
            await self._transport.pause(failed)
            failed += 1

    async def _outcome(self, events: AsyncGenerator[TurnEvent, None]) -> TurnOutcome:
        """What came of a turn whose events these are; what broke it is raised."""
        last: TurnEvent | None = None
        async for event in events:
            last = event
        if isinstance(last, TurnEnded):
            return last.outcome
        assert isinstance(last, TurnBroke)
        if (error := error_of(last)) is not None:
            raise error
        return outcome_of(await self._transport.get(f"{self._path}/turns/{last.turn}"))

    async def steer(self, text: str, *, agent: str | None = None, key: str | None = None) -> int:
        """Change what the session is doing right now: what runs is cut short, and goes on with these words."""
        return await self._said("steer", text, agent, key)

    async def follow_up(self, text: str, *, agent: str | None = None, key: str | None = None) -> int:
        """Have something considered in the next turn. The version it got."""
        return await self._said("follow-up", text, agent, key)

    async def _said(self, where: str, text: str, agent: str | None, key: str | None) -> int:
        body = named(text=words_of(text, where.replace("-", "_")), agent=given.maybe_text(agent, "agent"))
        found = await self._transport.send("POST", f"{self._path}/{where}", body, key=key, keyed=True)
        version: int = found["version"]
        return version

    async def interrupt(self, reason: str = "interrupted") -> bool:
        """Stop the turn in flight; what it has said stays. Whether there was one."""
        body = {"reason": given.text_of(reason, "reason")}
        stopped: bool = (await self._transport.send("POST", f"{self._path}/interrupt", body))["interrupted"]
        return stopped

    async def approve(self, call: str, *, allowed: bool = True, note: str = "", key: str | None = None) -> TurnOutcome:
        """Allow a call that waits for a person, or deny it. When it was the last one, the turn goes on, and this waits
        for what comes of it.
        """
        path = f"{self._path}/approvals/{piece_of(given.text_of(call, 'call')) or '-'}"
        body = {"allowed": given.flag_of(allowed, "allowed"), "note": given.text_of(note, "note")}
        found = outcome_of(await self._transport.send("POST", path, body, key=key, keyed=True))
        if found.status != "open":
            return found
        follow = Request(method="GET", target=f"{self._path}/turns/{found.turn}/stream")
        async with aclosing(self._followed(follow)) as events:
            return await self._outcome(events)

    async def approvals(self) -> tuple[Waiting, ...]:
        """The calls that wait for a person."""
        found = await self._transport.get(f"{self._path}/approvals")
        return tuple(msgspec.convert(item, Waiting) for item in found["waiting"])

    async def grounds(self, turn: int) -> Grounds:
        """What the answer of a turn rests on. Where a memory comes from is told to those who may read it."""
        number = given.number_of(turn, "turn")
        return grounds_of(await self._transport.get(f"{self._path}/turns/{number}/memories"))

    async def context(self, content: Any = None, *, model: str | None = None, max_tokens: int | None = None) -> Context:
        """What the model would be asked with now, part by part, and why each is in."""
        request = request_of(content, {"model": model, "max_tokens": max_tokens})
        said = None if content is None else "".join(item.text for item in request.blocks if isinstance(item, Text))
        asked = {"content": said, "model": model, "max_tokens": max_tokens}
        return context_of(await self._transport.get(f"{self._path}/context", asked))

    async def spawn(self, task: str, *, wait: bool = False, key: str | None = None, **more: Unpack[Spawned]) -> Child:
        """Have a session of its own do a task for this one, on this one's account. Its result comes back to this one's
        log, where this one's model reads it; with `wait`, to whoever calls.
        """
        request = spawn_of(task, more)
        body = named(**msgspec.structs.asdict(request))
        found = await self._transport.send("POST", f"{self._path}/spawn", body, key=key, keyed=True)
        child = child_of(found)
        return (await self.wait_for_children([child.session]))[0] if given.flag_of(wait, "wait") else child

    async def children(self) -> tuple[Child, ...]:
        """All that this session ever spawned, the first one first, as they stand."""
        return tuple(map(child_of, (await self._transport.get(f"{self._path}/children"))["items"]))

    async def wait_for_children(
        self, children: Iterable[str] | None = None, *, seconds: float | None = None
    ) -> tuple[Child, ...]:
        """These children, or all that are at work, when they have ended; after so many seconds, as they stand."""
        wanted = None if children is None else list(given.texts_of(children, "child"))
        left, step = seconds, min(LONGEST, self._transport.timeout / 2)
        while True:
            now = step if left is None else max(0.0, min(step, left))
            body = named(children=wanted, timeout=now)
            found = await self._transport.send("POST", f"{self._path}/children/wait", body, again=True)
            items = tuple(map(child_of, found["items"]))
            wanted = wanted or [child.session for child in items]
            left = None if left is None else left - now
            over = all(child.status in ("finished", "failed") for child in items)
            if over or (left is not None and left <= 0):
                return items


def _body(request: TurnRequest) -> dict[str, Any]:
    """What is said, as the server takes it."""
    if request.extra:
        raise Invalid("extra fields for a provider are not sent over a connection; leave them out")
    results = [{"id": item.call, "content": stored(item.content), "failed": item.failed} for item in request.results]
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in request.tools
    ]
    return named(
        content=None if request.content is None else documents_of(request.blocks),
        results=results,
        model=request.model,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop),
        tools=tools,
        busy=request.busy,
        cache=request.cache,
        agent=request.agent,
        strategy=request.strategy,
        stream=True,
    )


def error_of(broke: TurnBroke) -> PerdureError | None:
    """What broke a turn, as the embedded library raises it; None when somebody ended it."""
    kind = by_code().get(broke.code)
    return None if kind is None else kind(broke.detail, **broke.fields)


def _ended(data: bytes) -> TurnEnded:
    """The end of a turn, whose outcome has the form of a plain answer."""
    return TurnEnded(outcome=outcome_of(msgspec.json.decode(data)["outcome"]))


def outcome_of(document: dict[str, Any]) -> TurnOutcome:
    """What came of a turn, as the server tells it."""
    return TurnOutcome(
        session=document["session_id"],
        turn=document["turn"],
        version=document["version"],
        status=document["status"],
        content=blocks_of(document["content"]),
        model=document["model"],
        stop=document["stop_reason"],
        usage=msgspec.convert(document["usage"], Usage),
        cost=document["cost"],
        estimated=document["estimated"],
        rounds=document["rounds"],
        waiting=tuple(msgspec.convert(item, Waiting) for item in document["waiting"]),
        reason=document["reason"],
        cached=document["cached"],
    )


def context_of(document: dict[str, Any]) -> Context:
    """A context, as the server shows it; of its tools the names."""
    return Context(
        system=tuple(block for block in blocks_of(document["system"]) if isinstance(block, Text)),
        messages=tuple(Said(role=item["role"], blocks=blocks_of(item["content"])) for item in document["messages"]),
        tools=tuple(Tool(name=name) for name in document["tools"]),
        portions=tuple(msgspec.convert(item, Portion) for item in document["parts"]),
        tokens=document["tokens"],
        left_out=tuple(msgspec.convert(item, LeftOut) for item in document["left_out"]),
        over=document["over"],
    )


def child_of(document: dict[str, Any]) -> Child:
    """A child, as the server tells of it."""
    return msgspec.convert({"session": document["session_id"], **document}, Child)


def grounds_of(document: dict[str, Any]) -> Grounds:
    """What an answer rests on, as the server tells of it."""
    found = [
        {
            **ground,
            "support": msgspec.convert({**ground, "memory": ground["memory_id"]}, Support),
            "checkpoint": ground["checkpoint_id"],
        }
        for ground in document["grounds"]
    ]
    return msgspec.convert({**document, "session": document["session_id"], "grounds": found}, Grounds)
