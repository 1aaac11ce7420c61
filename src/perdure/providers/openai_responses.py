"""OpenAI's Responses, and whoever else speaks them."""

from typing import Any, ClassVar, Final

from perdure.core.talk import responses
from perdure.core.talk.parts import Answer, Ask
from perdure.core.talk.routes import Form
from perdure.providers.events import Event
from perdure.providers.speaking import Reading, Speaking

_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class OpenAIResponses(Speaking):
    """A provider that speaks Responses."""

    form: Form = "openai-responses"
    passed: ClassVar[frozenset[str]] = frozenset({"openai-beta", "openai-organization", "openai-project"})

    def _path(self) -> str:
        return "/responses"

    def _key(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._upstream.key}"} if self._upstream.key else {}

    def _written(self, ask: Ask) -> dict[str, Any]:
        return responses.ask_to(ask)

    def _answer(self, document: object) -> Answer:
        return responses.answer_from(document)

    def _reading(self) -> Reading:
        return responses.Reading()

    def _last(self, event: Event, document: object) -> bool:
        return isinstance(document, dict) and document.get("type", event.name) in _LAST
