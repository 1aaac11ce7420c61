"""Providers made from what is configured; each is loaded when it is first made."""

from typing import assert_never

from perdure.core.talk.routes import Upstream
from perdure.ports.provider import Provider


def made(upstream: Upstream) -> Provider:
    """The provider for an upstream. It connects when it is first asked."""
    match upstream.kind:
        case "anthropic":
            from perdure.providers.anthropic import Anthropic

            return Anthropic(upstream)
        case "openai-chat":
            from perdure.providers.openai_chat import OpenAIChat

            return OpenAIChat(upstream)
        case "openai-responses":
            from perdure.providers.openai_responses import OpenAIResponses

            return OpenAIResponses(upstream)
        case "offline":
            from perdure.providers.offline import OfflineProvider

            return OfflineProvider(upstream.name)
        case _:
            assert_never(upstream.kind)
