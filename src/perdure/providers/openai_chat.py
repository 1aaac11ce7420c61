"""OpenAI's Chat Completions, and the many that speak them: OpenRouter, vLLM, Ollama.

A stream tells what was used only if it is asked to, so it always is; a client that did not ask does not see it.
"""

from typing import Any, ClassVar, Final

from perdure.core.talk import chat
from perdure.core.talk.parts import Answer, Ask
from perdure.core.talk.routes import BASES, Form
from perdure.ports.provider import Sending
from perdure.providers.events import Event
from perdure.providers.speaking import Reading, Speaking

USAGE: Final = "include_usage"


class OpenAIChat(Speaking):
    """A provider that speaks Chat Completions."""

    form: Form = "openai-chat"
    passed: ClassVar[frozenset[str]] = frozenset({"openai-beta", "openai-organization", "openai-project"})

    def _path(self) -> str:
        return "/chat/completions"

    def _key(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._upstream.key}"} if self._upstream.key else {}

    def _written(self, ask: Ask) -> dict[str, Any]:
        """OpenAI has a newer name for the limit, which others do not all know."""
        own = self._upstream.address == BASES["openai-chat"]
        return chat.ask_to(ask, limit="max_completion_tokens" if own else "max_tokens")

    def _shaped(self, body: dict[str, Any], *, stream: bool) -> dict[str, Any]:
        shaped = super()._shaped(body, stream=stream)
        if stream:
            shaped["stream_options"] = {**_options(body), USAGE: True}
        else:
            shaped.pop("stream_options", None)  # which would be refused
        return shaped

    def _answer(self, document: object) -> Answer:
        return chat.answer_from(document)

    def _reading(self) -> Reading:
        return chat.Reading()

    def _last(self, event: Event, document: object) -> bool:
        return event.data == b"[DONE]"

    def _hides(self, sending: Sending) -> bool:
        return sending.form == self.form and _options(sending.body or {}).get(USAGE) is not True

    def _hidden(self, document: object) -> bool:
        return isinstance(document, dict) and document.get("choices") == [] and document.get("usage") is not None


def _options(body: dict[str, Any]) -> dict[str, Any]:
    options = body.get("stream_options")
    return options if isinstance(options, dict) else {}
