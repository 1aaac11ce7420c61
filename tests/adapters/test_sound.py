"""A text with half a surrogate pair has no bytes: it is refused in words, wherever a framework hands it over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent
from google.genai import types
from langchain_core.messages import HumanMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

import perdure
from perdure import errors
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph_store import PerdureStore
from perdure.adapters.pydantic_ai import PerdureConversationStore
from tests.adapters.test_langgraph import at, echo

HALF = "a\ud800"


async def message_id(db: perdure.AsyncPerdure) -> None:
    await echo(PerdureSaver(db)).ainvoke({"messages": [HumanMessage("x", id=HALF)]}, at())


async def key(db: perdure.AsyncPerdure) -> None:
    await PerdureStore(db).aput(("a",), HALF, {"a": 1})


async def state_key(db: perdure.AsyncPerdure) -> None:
    await PerdureSessionService(db).create_session(app_name="a", user_id="u", state={HALF: 1})


async def event(db: perdure.AsyncPerdure) -> None:
    service = PerdureSessionService(db)
    session = await service.create_session(app_name="a", user_id="u")
    content = types.Content(role="user", parts=[types.Part(text=HALF)])
    await service.append_event(session, AdkEvent(author="user", content=content))


async def prompt(db: perdure.AsyncPerdure) -> None:
    talk = Conversation(conversation_id="talk")
    talk.messages = [ModelRequest(parts=[UserPromptPart(HALF)])]
    await PerdureConversationStore(db).save(talk)


@pytest.mark.parametrize(
    ("hands", "where"),
    [
        (message_id, "id of a message"),
        (key, "item's key"),
        (state_key, "key of the state"),
        (event, "event "),
        (prompt, "a request of the conversation"),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_was_found(
    hands: Callable[[Any], Awaitable[None]], where: str
) -> None:
    async def run() -> None:
        async with await perdure.aopen(":memory:") as db:
            with pytest.raises(errors.Invalid, match=f"{where}.*lone surrogate"):
                await hands(db)

    asyncio.run(run())
