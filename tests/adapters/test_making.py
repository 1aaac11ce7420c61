"""Making the session of a name, where others make sessions too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

import perdure
from perdure import errors
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.parts.making import made
from perdure.adapters.pydantic_ai import PerdureConversationStore
from tests.adapters.test_langgraph import PerdureSaver, echo

TAKEN = "0b0a7d3e-6c1f-4b7e-9a54-2f6f3c1d9e10"


async def langgraph(db: perdure.AsyncPerdure) -> Any:
    config = {"configurable": {"thread_id": TAKEN}}
    return await echo(PerdureSaver(db)).ainvoke({"messages": [HumanMessage("hello")]}, config)


async def openai(db: perdure.AsyncPerdure) -> Any:
    return await PerdureSession(TAKEN, db).add_items([{"role": "user", "content": "hello"}])


async def pydantic(db: perdure.AsyncPerdure) -> Any:
    talk = Conversation(conversation_id=TAKEN)
    talk.messages = [ModelRequest(parts=[UserPromptPart("hello")])]
    return await PerdureConversationStore(db).save(talk)


@pytest.mark.parametrize("says", [langgraph, openai, pydantic])
def test_an_id_of_another_tenants_is_refused_at_once_and_said_so(says: Any, tmp_path: Path) -> None:
    async def run() -> None:
        async with await perdure.aopen(tmp_path / "a.db", tenant="one") as db:
            await says(db)
        async with await perdure.aopen(tmp_path / "a.db", tenant="two") as db:
            with pytest.raises(errors.Invalid, match="another tenant"):
                await asyncio.wait_for(says(db), 20)

    asyncio.run(run())


async def test_whoever_comes_second_finds_what_the_first_made() -> None:
    async with await perdure.aopen(":memory:") as db:
        assert await made(db, "trip", tags=["a"])
        assert not await made(db, "trip", tags=["b"])
        assert list((await db.named("trip").info()).tags) == ["a"]
