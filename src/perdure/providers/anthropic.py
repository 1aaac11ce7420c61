"""Anthropic's Messages, and whoever else speaks them."""

from typing import Any, ClassVar, Final

from perdure.core.talk import anthropic
from perdure.core.talk.parts import Answer, Ask
from perdure.core.talk.routes import Form
from perdure.providers.events import Event
from perdure.providers.speaking import Reading, Speaking

VERSION: Final = "2023-06-01"


class Anthropic(Speaking):
    """A provider that speaks Anthropic's Messages."""

    form: Form = "anthropic"
    passed: ClassVar[frozenset[str]] = frozenset({"anthropic-beta", "anthropic-version"})

    def _path(self) -> str:
        return "/messages" if self._upstream.address.endswith("/v1") else "/v1/messages"

    def _key(self) -> dict[str, str]:
        key = {"x-api-key": self._upstream.key} if self._upstream.key else {}
        return {"anthropic-version": VERSION, **key}

    def _written(self, ask: Ask) -> dict[str, Any]:
        return anthropic.ask_to(ask)

    def _answer(self, document: object) -> Answer:
        return anthropic.answer_from(document)

    def _reading(self) -> Reading:
        return anthropic.Reading()

    def _last(self, event: Event, document: object) -> bool:
        return isinstance(document, dict) and document.get("type", event.name) == "message_stop"
