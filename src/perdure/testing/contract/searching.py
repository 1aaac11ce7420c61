"""Claims about full text: what is searched, what a word is, and that no text is syntax."""

from typing import Any

import pytest

from perdure.core.session.agents import RoomMessage
from perdure.core.session.event import Payload
from perdure.core.session.origin import Configured
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.steering import FollowedUp, Steered
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, TurnStarted
from perdure.ports.store import Query, Store
from perdure.projections.text import words
from perdure.testing.building import Builder, said
from perdure.testing.contract.finding import HOSTILE
from perdure.testing.contract.looking import TENANT, names, put

SPOKEN: dict[str, Payload] = {
    "a message": Message(role="user", content="the needle here"),
    "a block of a message": Message(role="user", content=[{"type": "text", "text": "the needle here"}]),
    "the arguments of a tool": ToolAsked(call="c", name="t", arguments={"q": ["the", {"x": "needle here"}]}),
    "the result of a tool": ToolFinished(call="c", result={"rows": [["the needle here"]]}),
    "the error of a tool": ToolFinished(call="c", error="the needle here"),
    "a message in a room": RoomMessage(sender="a", text="the needle here"),
    "a steer": Steered(text="the needle here"),
    "a follow-up": FollowedUp(text="the needle here"),
    "a later title": Configured(title="the needle here"),
}


class Searching:
    """What a search promises."""

    @pytest.mark.parametrize("place", SPOKEN)
    async def test_a_search_looks_into_all_that_was_said(self, store: Store, make: Builder, place: str) -> None:
        made = make.create(TurnStarted(), SPOKEN[place])
        await put(store, made, make.create(said("the haystack here")))
        assert await names(store, text="needle") == await names(store, text="here needle") == [made.session]
        assert await store.count(Query(tenant=TENANT, text="needle")) == 1

    async def test_a_search_looks_at_titles(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(title="the needle here"))
        assert await names(store, text="needle") == [made.session]

    async def test_a_search_does_not_look_at_scratchpads(self, store: Store, make: Builder) -> None:
        await put(store, make.create(ScratchpadWritten(content="needle")))
        assert await names(store, text="needle") == []

    async def test_a_search_sees_what_was_just_appended(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(said("first")))
        assert await names(store, text="first") == [made.session]
        await put(store, make.append(made, said("second")))
        assert await names(store, text="second") == await names(store, text="first") == [made.session]

    async def test_all_words_must_be_in_one_record(self, store: Store, make: Builder) -> None:
        together = make.create(said("red"), said("round"))
        apart = make.create(said("red"))
        await put(store, together, apart, make.append(apart, said("round")))
        assert await names(store, text="red round") == await names(store, text="round red") == [together.session]
        assert len(await names(store, text="red")) == 2

    async def test_words_are_found_whole(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(said("wholesome meals")))
        assert await names(store, text="whole") == await names(store, text="meal") == []
        assert await names(store, text="wholesome, meals!") == [made.session]

    @pytest.mark.parametrize(
        ("text", "asked"),
        [
            ("Hello WORLD", "world hello"),
            ("Ärger im Büro", "ÄRGER büro"),
            ("die Straße", "STRASSE"),
            ("cafe\u0301", "café"),
            ("Привет, мир", "привет"),
            ("ΟΔΥΣΣΕΎΣ", "οδυσσεύς"),
            ("東京 2026", "東京"),
            ("שלום עולם", "עולם"),
            ("𞤀𞤣𞤤𞤢𞤥", "𞤢𞤣𞤤𞤢𞤥"),
            ("x_y-z", "z y x"),
        ],
    )
    async def test_words_are_found_in_any_case_and_script(
        self, store: Store, make: Builder, text: str, asked: str
    ) -> None:
        made = make.create(said(text))
        await put(store, made, make.create(said("something else")))
        assert await names(store, text=asked) == [made.session]

    async def test_different_letters_are_different_words(self, store: Store, make: Builder) -> None:
        made = make.create(said("schön"))
        await put(store, made, make.create(said("schon")))
        assert await names(store, text="SCHÖN") == [made.session]

    @pytest.mark.parametrize("text", ["", " ", "\x00", '"', "*", "…", "🙂", "()", "_"])
    async def test_a_search_without_words_finds_nothing(self, store: Store, make: Builder, text: str) -> None:
        await put(store, make.create(said(f"some {text} thing")))
        assert await names(store, text=text) == []
        assert await store.count(Query(tenant=TENANT, text=text)) == 0

    @pytest.mark.parametrize("text", HOSTILE)
    async def test_hostile_text_in_a_search_means_its_words(self, store: Store, make: Builder, text: str) -> None:
        made = make.create(said(f"before {text} after"))
        await put(store, made, make.create(said("plain")))
        expected = [made.session] if words(text) else []
        assert await names(store, text=text) == expected
        assert await names(store, text=f"plain {text}") == ([] if words(text) else await names(store, text="plain"))

    async def test_a_search_goes_together_with_pages(self, store: Store, make: Builder) -> None:
        await put(store, *(make.create(said("word")) for _ in range(5)), make.create(said("other")))
        whole = await store.find(Query(tenant=TENANT, text="word"))
        assert len(whole) == 5
        query: dict[str, Any] = {"tenant": TENANT, "text": "word", "limit": 2}
        rest = await store.find(Query(**query, after=(whole[1].created_at, whole[1].session)))
        assert rest == whole[2:4]
