"""Pictures and files that are said as blobs: the model gets their content, the log where they are."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import BlobMissing, Invalid
from perdure.core.session.refs import blob_ref
from perdure.core.session.turns import Message, TurnStarted
from perdure.core.talk.parts import Ask, Began, BlockBegan, BlockEnded, Ended, Media, Result, Said, Text
from perdure.core.talk.turning import TurnRequest
from perdure.core.talk.wire import rest
from perdure.edge.session import AsyncSession
from perdure.services import pictures
from perdure.services.blobs import Blobs
from perdure.services.pictures import Pictures
from tests.services.talkers import Stage, says, stage, wants

PNG = b"\x89PNG and so on"


def media_in(ask: Ask) -> list[Media]:
    return [block for said in ask.messages for block in said.blocks if isinstance(block, Media)]


def texts_in(ask: Ask) -> list[str]:
    return [block.text for said in ask.messages for block in said.blocks if isinstance(block, Text)]


async def said(there: Stage, session: AsyncSession, *content: Any) -> Ask:
    await there.talking.run(session.id, TurnRequest(content=list(content)))
    return there.provider.asked[-1]


async def test_a_picture_in_a_blob_reaches_the_model_in_this_turn_and_the_next() -> None:
    async with stage() as there:
        session = await there.session()
        picture = await session.attach(PNG, media_type="image/png", name="cat.png")
        ask = await said(there, session, "Who is this?", {"type": "image", "source": picture})
        (found,) = media_in(ask)
        assert (found.media_type, found.data, found.url, found.name) == ("image/png", PNG, "", "cat.png")
        (again,) = media_in(await said(there, session, "And now?"))
        assert again.data == PNG
        started = next(event.data for event in await session.events() if isinstance(event.data, TurnStarted))
        assert started.content == [{"type": "text", "text": "Who is this?"}, {"type": "image", "source": picture}]
        assert (await there.db.blobs.stat(picture)).used


async def test_a_ref_in_json_is_the_same_and_content_tells_its_type_where_nobody_did() -> None:
    async with stage() as there:
        session = await there.session()
        picture = await there.db.blobs.put(PNG)
        source = {"uri": picture.uri, "sha256": picture.sha256.hex()}
        (found,) = media_in(await said(there, session, {"type": "image", "source": source}))
        assert (found.media_type, found.data) == ("image/png", PNG)
        assert (await there.db.blobs.stat(picture)).used


async def test_media_that_were_appended_and_those_of_a_tool_reach_the_model() -> None:
    async with stage() as there:
        session = await there.session()
        picture = await session.attach(PNG, media_type="image/png")
        await session.append([Message(role="user", content=[{"type": "image", "source": picture}])])
        there.provider.then(wants(("c", "look", {})))
        await there.talking.run(session.id, TurnRequest(content="Look", tools=()))
        result = Result(call="c", content=(Media(media_type="image/*", url=picture.uri),))
        await there.talking.run(session.id, TurnRequest(results=(result,)))
        (inside,) = [
            block for said in there.provider.asked[-1].messages for block in said.blocks if isinstance(block, Result)
        ]
        assert [item.data for item in (*media_in(there.provider.asked[-1]), *inside.content)] == [PNG, PNG]  # type: ignore[union-attr]


async def test_a_blob_that_is_gone_is_told_in_words_and_one_that_never_was_is_refused() -> None:
    async with stage() as there:
        session = await there.session()
        nowhere = blob_ref(bytes(32))
        with pytest.raises(BlobMissing):
            await said(there, session, {"type": "image", "source": nowhere})
        assert (await session.state()).turns.open is None
        shown = await Pictures(lambda: there.services.blobs).fetched(session.id, (pointing(nowhere.uri),))
        assert shown[0].blocks == (Text(text=f"(the image {nowhere.uri} is not kept any more)", cached=True),)


def pointing(uri: str) -> Said:
    return Said(role="user", blocks=(Media(media_type="image/*", url=uri, cached=True),))


async def test_of_more_than_a_request_takes_the_latest_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST", 30)
    async with stage() as there:
        session = await there.session()
        for number in range(3):
            data = await session.attach(PNG + bytes([number]), media_type="image/png", name=f"{number}.png")
            ask = await said(there, session, {"type": "image", "source": data, "title": f"{number}"})
        assert [media.name for media in media_in(ask)] == ["1", "2"]
        assert "(the image 0 is too large to be shown beside the others)" in texts_in(ask)


async def test_what_is_kept_at_hand_is_bounded_and_forgotten_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "KEPT", 30)
    async with stage() as there:
        looks: list[Blobs] = []
        session = await there.session()
        refs = [await session.attach(PNG + bytes([number]), media_type="image/png") for number in range(3)]

        def look() -> Blobs:
            looks.append(there.services.blobs)
            return there.services.blobs

        kept = Pictures(look)

        async def fetched(number: int) -> int:
            (said,) = await kept.fetched(session.id, (pointing(refs[number].uri),))
            assert said.blocks[0] == Media(media_type="image/png", data=PNG + bytes([number]), cached=True)
            return len(looks)

        assert [await fetched(number) for number in (0, 1, 2, 1, 2, 0)] == [1, 2, 3, 3, 3, 4]
        kept.forget(session.id)
        assert await fetched(0) == 5


async def test_the_same_key_with_a_picture_is_the_same_turn() -> None:
    async with stage() as there:
        session = await there.session()
        picture = await session.attach(PNG, media_type="image/png")
        request = TurnRequest(content=[{"type": "image", "source": picture}], key="k")
        first = await there.talking.run(session.id, request)
        assert (await there.talking.run(session.id, request)).turn == first.turn == 1
        assert len(there.provider.asked) == 1


@pytest.mark.parametrize("odd", [5, [5], {"type": "hologram"}, [{"type": "image", "source": "cat.png"}]])
async def test_what_is_no_content_is_refused_before_anything_is_asked(odd: Any) -> None:
    async with stage() as there:
        session = await there.session()
        with pytest.raises(Invalid, match="image, document"):
            await there.talking.run(session.id, TurnRequest(content=odd))
        assert there.provider.asked == []
        assert await there.kinds(session) == []


async def test_the_rests_of_an_answer_are_shown_to_nobody_and_return_to_the_provider() -> None:
    async with stage() as there:
        session = await there.session()
        (left,) = rest("openai-chat", {"annotations": []})
        pieces = [Began(id="m", model="small"), BlockBegan(index=0, block=Text(text="Hello")), BlockEnded(index=0)]
        there.provider.then([*pieces, BlockBegan(index=1, block=left), BlockEnded(index=1), Ended()], says("ok"))
        outcome = await there.talking.run(session.id, TurnRequest(content="Hi"))
        assert outcome.content == (Text(text="Hello"),)
        assert await there.talking.outcome(session.id, 1) == outcome
        (turn,) = await session.turns()
        assert [message.content for message in turn.messages] == ["Hi", "Hello"]
        ask = await said(there, session, "Again")
        assert [type(block) for block in ask.messages[1].blocks] == [Text, type(left)]
        assert ask.messages[1].blocks[1] == left


async def test_two_sessions_may_fetch_at_once() -> None:
    async with stage() as there:
        picture = await there.db.blobs.put(PNG, media_type="image/png")
        sessions = [await there.session() for _ in range(3)]
        content = {"type": "image", "source": picture}
        asks = await asyncio.gather(*(said(there, session, content) for session in sessions))
        assert all(media_in(ask)[0].data == PNG for ask in asks)
