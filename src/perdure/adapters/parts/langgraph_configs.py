"""Where LangGraph's configs point, and LangGraph's serializer with typed errors."""

import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Self

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure import errors
from perdure.adapters.parts.checkpoints import ROOT

_EXTENDED: Final = re.compile(rb"[\xc7-\xc9\xd4-\xd8]")
"""Bytes without any of these hold nothing but plain data."""
_Made = tuple[int | str, ...]
"""How something is made on loading: LangGraph's code for it, the module, the name, perhaps a method."""
_blocked: ContextVar[list[SerdeEvent] | None] = ContextVar("perdure_langgraph_blocked", default=None)


def _note_blocked(event: SerdeEvent) -> None:
    found = _blocked.get()
    if found is not None and event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        found.append(event)


def _not_ours(record: logging.LogRecord) -> bool:
    """LangGraph logs what it blocks, where its reader told us too: then the error says it."""
    return _blocked.get() is None or not str(record.msg).startswith("Blocked")


register_serde_event_listener(_note_blocked)
logging.getLogger(JsonPlusSerializer.__module__).addFilter(_not_ours)


class Told(str):
    """A checkpoint's id as this saver told it. `latest` is the version of the log at which it was told as the latest,
    with the conversation up to there: who goes on from it means to go on from the latest. From any other id a new line
    may begin.
    """

    __slots__ = ("latest",)
    latest: int

    def __new__(cls, id: str, latest: int = 0) -> Self:
        """The id, and how it was asked for."""
        made = super().__new__(cls, id)
        made.latest = latest
        return made

    def __eq__(self, other: object) -> bool:
        """Equal as texts are. Other kinds of text are asked themselves, as they would be about a plain one."""
        return str.__eq__(self, other) if type(other) in (str, Told) else NotImplemented

    __hash__ = str.__hash__


class Bytes:
    """LangGraph's serializer. What may not be loaded again is refused when it is written, and said so when read."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self._loadable: set[_Made] = set()

    def dump(self, value: Any) -> tuple[str, bytes]:
        """The value as LangGraph's bytes, with their type."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except TypeError as error:
            raise errors.Invalid(
                f"LangGraph's serializer cannot write this state: {error}; keep plain data, dataclasses or pydantic "
                "models in the state, or give PerdureSaver a serde that knows the type",
            ) from error
        typed = (str(kind), bytes(data))
        if kind == "msgpack" and isinstance(self.serde, JsonPlusSerializer) and _EXTENDED.search(data):
            made = _made_of(data)
            if not made <= self._loadable:
                self.load(typed)
                self._loadable |= made
        return typed

    def load(self, typed: tuple[str, bytes]) -> Any:
        """The value of LangGraph's bytes."""
        found: list[SerdeEvent] = []
        mark = _blocked.set(found)
        try:
            value = self.serde.loads_typed(typed)
        except NotImplementedError as error:
            raise errors.Invalid(
                f"this state was written as {typed[0]!r}, which the serializer does not read; give PerdureSaver the "
                "serde that wrote it",
                type=typed[0],
            ) from error
        finally:
            _blocked.reset(mark)
        if found:
            name = (found[0]["module"], found[0]["name"])
            raise errors.Invalid(
                f"{'.'.join(name)} is not on the allowlist, so state that holds it is not loaded; allow it with "
                f"PerdureSaver(db, serde=JsonPlusSerializer(allowed_msgpack_modules=[{name!r}])), "
                f"or saver.with_allowlist([{name!r}])",
                module=name[0],
                name=name[1],
            )
        return value


def _made_of(data: bytes) -> set[_Made]:
    """What is made of these bytes when they are loaded, and how; nothing is made here."""
    found: set[_Made] = set()

    def note(code: int, inside: bytes) -> tuple[()]:
        parts = ormsgpack.unpackb(inside, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
        names = [*parts[:2], *parts[3:]] if isinstance(parts, list | tuple) else []
        found.add((code, *[name for name in names if type(name) is str]))
        return ()

    ormsgpack.unpackb(data, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
    return found


class Place:
    """Where a config points."""

    __slots__ = ("id", "ns", "thread")

    def __init__(self, config: RunnableConfig) -> None:
        asked = config.get("configurable", {})
        if not asked.get("thread_id"):
            raise errors.Invalid("the config names no thread; pass {'configurable': {'thread_id': …}}")
        self.thread = str(asked["thread_id"])
        self.ns = str(asked.get("checkpoint_ns") or ROOT)
        self.id: str | None = asked.get("checkpoint_id") or None

    def record(self, parent: str | None, checkpoint: Mapping[str, Any], metadata: Any, codec: Bytes) -> dict[str, Any]:
        """What is noted of a checkpoint put here, besides its channel values."""
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        record: dict[str, Any] = {
            "id": str(checkpoint["id"]),
            "checkpoint": list(codec.dump(rest)),
            "metadata": list(codec.dump(metadata)),
        }
        return record | ({"ns": self.ns} if self.ns else {}) | ({} if parent is None else {"parent": parent})

    def config(self, id: str | None) -> RunnableConfig:
        """The config of a checkpoint here."""
        return {"configurable": {"thread_id": self.thread, "checkpoint_ns": self.ns, "checkpoint_id": id}}
