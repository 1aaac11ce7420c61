"""Conversations read in pages while others change them: nothing twice, nothing left out that stood all the while."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure import events as ev
from perdure.core.errors import ConflictError, Unreachable
from perdure.edge.client import logs
from perdure.edge.client.transport import Transport
from perdure.testing import FixedAmbient
from tests.edge.client.scripted import answer, scripted
from tests.edge.client.served import Served, served

SESSION = "0192f0c4-7d1e-7abc-8def-0123456789ab"
SMALL = 3
"""Items in a page."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("paged")) as found:
        yield found


@pytest.fixture
def session(server: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[perdure.Session]:
    monkeypatch.setattr(logs, "PAGE", SMALL)
    with perdure.connect(server.url, server.key) as db:
        yield db.create()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has things done after the first pages of a list were read, one after each."""

    def arrange(what: str, *acts: Callable[[], Any]) -> None:
        left, get = list(acts), Transport.get

        async def interrupted(self: Transport, path: str, query: Any = None) -> Any:
            page = await get(self, path, query)
            if path.endswith(what) and left:
                left.pop(0)()
            return page

        monkeypatch.setattr(Transport, "get", interrupted)

    return arrange


def exchanges(session: perdure.Session, *words: str) -> None:
    for word in words:
        with session.turn(word) as turn:
            turn.answer(word.upper())


def aside(session: perdure.Session, word: str) -> int:
    return session.append(ev.Message(role="user", content=word))


def spoken(session: perdure.Session, last: int | None = None) -> list[str]:
    return [str(message.content) for turn in session.turns(last) for message in turn.messages]


def test_what_is_said_between_two_pages_comes_with_the_later_one(
    session: perdure.Session, meanwhile: Callable[..., None]
) -> None:
    exchanges(session, *"abcd")
    meanwhile("turns", lambda: exchanges(session, "e"))
    assert spoken(session) == list("aAbBcCdDeE")
    meanwhile("conversation", lambda: exchanges(session, "f"))
    assert [item.payloads[0].content for item in session.conversation()] == list("aAbBcCdDeEfF")  # type: ignore[union-attr]


def test_what_is_said_between_two_pages_of_the_last_ones_comes_on_top(
    session: perdure.Session, meanwhile: Callable[..., None]
) -> None:
    exchanges(session, *"abcde")
    meanwhile("turns", lambda: exchanges(session, "f"))
    assert spoken(session, 4) == list("bBcCdDeEfF")
    meanwhile("conversation", lambda: exchanges(session, "g"))
    assert [item.payloads[0].content for item in session.conversation(4)] == list("eEfFgG")  # type: ignore[union-attr]


def test_a_turn_that_loses_its_beginning_between_two_pages_does_not_come_twice(
    session: perdure.Session, meanwhile: Callable[..., None]
) -> None:
    exchanges(session, *"abcd")
    first = session.turns()[2].first
    meanwhile("turns", lambda: session.retract(first, first + 1))
    numbers = [turn.number for turn in session.turns()]
    assert numbers == sorted(set(numbers))  # type: ignore[type-var]
    assert spoken(session) == list("aAbBCdD")


def test_words_that_move_to_an_earlier_page_are_not_left_out(
    session: perdure.Session, meanwhile: Callable[..., None]
) -> None:
    exchanges(session, "a")
    aside(session, "before")
    exchanges(session, "b")  # ends the first page; without it, both asides are one stretch
    aside(session, "after")
    taken = session.turns()[2]
    meanwhile("turns", lambda: session.retract(taken.first, taken.last))
    assert spoken(session) == ["a", "A", "before", "after"]


def test_a_stretch_that_grows_at_the_end_of_a_page_is_whole(
    session: perdure.Session, meanwhile: Callable[..., None]
) -> None:
    exchanges(session, *"ab")
    aside(session, "before")
    exchanges(session, "c")
    aside(session, "after")
    taken = session.turns()[3]
    meanwhile("turns", lambda: session.retract(taken.first, taken.last))
    assert spoken(session) == ["a", "A", "b", "B", "before", "after"]


def page(first: int, after: int | None) -> bytes:
    item = {"first": first, "last": first, "at": 0, "turn": None, "agent": None, "by": "", "native": None}
    return answer(200, {"items": [item | {"payloads": []}], "after": after})


def test_pages_that_lead_nowhere_are_not_followed_for_ever() -> None:
    with (
        scripted(*[page(5, 5)] * 4) as server,
        perdure.connect(server.url, "pdk_key", ambient=FixedAmbient()) as db,
    ):
        with pytest.raises(Unreachable, match="the same page"):
            db.named(SESSION).conversation()
        assert server.count("/conversation") == 2


def test_a_conversation_that_changes_faster_than_it_is_read_is_told() -> None:
    script = [page(first, first) for first in range(5, 25)]  # the one before is never where it was
    with (
        scripted(*script) as server,
        perdure.connect(server.url, "pdk_key", ambient=FixedAmbient()) as db,
        pytest.raises(ConflictError, match="ask again"),
    ):
        db.named(SESSION).conversation()
