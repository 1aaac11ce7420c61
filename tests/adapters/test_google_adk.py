"""ADK's sessions in perdure: held against ADK's own services, run by its own Runner, written by two processes."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perdure
from perdure import errors, events
from perdure.adapters.google_adk import PerdureSessionService, app_state_name, session_name, user_state_name
from perdure.adapters.parts import google_adk_events as translating
from perdure.adapters.parts.google_adk_rows import session_of
from perdure.events import Message, ToolAsked, ToolFinished
from tests.stores.postgres_server import Server, server

__all__ = ["server"]

WHO = {"app_name": "shop", "user_id": "ada"}
ONE = {**WHO, "session_id": "s1"}
HELD = {"k": 1, "app:rate": 2, "user:lang": "pt", "temp:scratch": 3}


def said(text: str | None, author: str = "user", invocation: str = "i1", **more: Any) -> Event:
    parts = [types.Part(text=text)] if text is not None else None
    content = types.Content(role="user" if author == "user" else "model", parts=parts) if parts else None
    return Event(author=author, invocation_id=invocation, content=content, **more)


def changing(delta: dict[str, Any], text: str | None = None, **more: Any) -> Event:
    return said(text, "agent", actions=EventActions(state_delta=delta), **more)


def texts(session: Session | None) -> list[str]:
    assert session is not None
    return [event.content.parts[0].text for event in session.events if event.content]  # type: ignore[index, misc]


@pytest.fixture(params=["memory", "clear", "sealed", "sealed postgres"])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[perdure.AsyncPerdure]:
    place: Any = {"memory": ":memory:"}.get(request.param, tmp_path / "here.db")
    keys: dict[str, Any] = {}
    if request.param == "sealed postgres":
        running: Server = request.getfixturevalue("server")
        place, keys = running.database(), {"key": tmp_path / "master", "vault": tmp_path / "keys"}
    opened = await perdure.aopen(place, seal="sealed" in request.param, **keys)
    yield opened
    await opened.close()


@pytest.fixture
def service(db: perdure.AsyncPerdure) -> PerdureSessionService:
    return PerdureSessionService(db)


async def same(service: BaseSessionService, session: Session) -> bool:
    return (
        await service.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id) == session
    )


# ── what every session service owes ──


async def test_a_session_is_read_back_as_it_was_made(service: PerdureSessionService) -> None:
    made = await service.create_session(**WHO, state=HELD)
    assert made.state == {"k": 1, "app:rate": 2, "user:lang": "pt"}
    assert await same(service, made)
    assert await service.get_user_state(**WHO) == {"lang": "pt"}
    assert await service.get_user_state(app_name="shop", user_id="bob") == {}


async def test_after_appends_it_is_read_back_as_the_object_stands(service: PerdureSessionService) -> None:
    held = await service.create_session(**WHO)
    image = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\xff"))
    await service.append_event(held, Event(author="user", content=types.Content(role="user", parts=[image])))
    full = said(
        "hello",
        "agent",
        turn_complete=True,
        partial=False,
        timestamp=1_700_000_000.123,
        long_running_tool_ids={"b", "a"},
        error_code="E",
        interrupted=True,
        custom_metadata={"x": [1, None, {"y": 2.5}]},
        grounding_metadata=types.GroundingMetadata(search_entry_point=types.SearchEntryPoint(sdk_blob=b"\x00\x01")),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        output={"deep": [{"er": True}]},
        actions=EventActions(
            artifact_delta={"file": 0}, escalate=True, state_delta={"n": None, "user:m": [1, {"a": 2}]}
        ),
    )
    await service.append_event(held, full)
    await service.append_event(held, changing({"big": 2**70, "app:x": 0.1 + 0.2}))
    assert held.last_update_time == held.events[-1].timestamp
    assert await same(service, held)


async def test_sessions_of_other_users_and_apps_are_others(service: PerdureSessionService) -> None:
    for app, user in (("a", "b/c"), ("a/b", "c"), ("a", "b"), ("a%2Fb", "c")):
        await service.create_session(app_name=app, user_id=user, session_id="s", state={"of": [app, user]})
    found = await service.get_session(app_name="a/b", user_id="c", session_id="s")
    assert found is not None
    assert found.state == {"of": ["a/b", "c"]}
    assert await service.get_session(app_name="a", user_id="c", session_id="s") is None


async def test_an_id_is_taken_once_and_padding_is_no_difference(service: PerdureSessionService) -> None:
    made = await service.create_session(**WHO, session_id=" s1 ")
    assert made.id == "s1"
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**ONE, state={"app:rate": 9})
    assert (await service.create_session(**WHO, session_id="  ")).id
    assert await service.get_session(**WHO, session_id="s1 ") == made
    assert made.state == (await service.create_session(**WHO)).state  # the refused one changed nothing
    await service.delete_session(**WHO, session_id=" s1")
    assert await service.get_session(**ONE) is None


async def test_what_is_deleted_is_gone_and_what_is_shared_stays(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE, state=HELD)
    await service.delete_session(**ONE)
    await service.delete_session(**ONE)
    assert (await service.list_sessions(**WHO)).sessions == []
    with pytest.raises(SessionNotFoundError):
        await service.append_event(held, said("too late"))
    again = await service.create_session(**ONE)
    assert again.state == {"app:rate": 2, "user:lang": "pt"}
    assert again.events == []


async def test_temporary_state_is_in_the_object_and_nowhere_else(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    held = await service.create_session(**ONE)
    event = changing({"temp:t": "fleeting", "k": 1}, "words")
    assert await service.append_event(held, event) is event
    assert held.state == {"temp:t": "fleeting", "k": 1}
    assert event.actions.state_delta == {"k": 1}
    assert "fleeting" not in str([item.data for item in await db.named(session_name("shop", "ada", "s1")).events()])


async def test_partial_events_are_not_kept(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE)
    await service.append_event(held, changing({"k": 1}, "wor", partial=True))
    assert held.events == []
    assert await same(service, held)


async def test_state_is_shared_by_app_and_by_user(service: PerdureSessionService) -> None:
    one = await service.create_session(**ONE)
    await service.append_event(one, changing({"app:rate": 2, "user:lang": "pt", "own": True}))
    assert (await service.create_session(**WHO)).state == {"app:rate": 2, "user:lang": "pt"}
    assert (await service.create_session(app_name="shop", user_id="bob")).state == {"app:rate": 2}
    assert (await service.create_session(app_name="other", user_id="ada")).state == {}


async def test_listing_has_state_but_no_events_and_the_last_used_comes_last(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    for name in "abc":
        await service.create_session(**WHO, session_id=name, state={"name": name, "app:rate": 1})
    await service.create_session(app_name="shop", user_id="bob", session_id="d", state={"user:lang": "de"})
    await service.create_session(app_name="other", user_id="ada", session_id="e")
    held = await service.get_session(**WHO, session_id="a")
    assert held is not None
    await service.append_event(held, changing({"large": "x" * 10_000, "user:lang": "pt"}, "hi"))
    listed = (await service.list_sessions(**WHO)).sessions
    assert [item.id for item in listed] == ["b", "c", "a"]
    assert all(not item.events for item in listed)
    assert listed[0].state == {"name": "b", "app:rate": 1, "user:lang": "pt"}
    assert listed[2].state == held.state
    everyone = (await service.list_sessions(app_name="shop")).sessions
    assert [(item.user_id, item.id) for item in everyone] == [("ada", "b"), ("ada", "c"), ("bob", "d"), ("ada", "a")]
    assert everyone[2].state == {"app:rate": 1, "user:lang": "de"}
    listed[0].state["app:rate"] = 5
    assert listed[1].state["app:rate"] == 1
    await service.append_event(listed[0], said("an object from a list is no older than another"))
    await service.append_event(listed[2], said("nor is one without the events it has"))
    branch = await db.named(session_name("shop", "ada", "b")).branch()
    ids = [item.id for item in (await service.list_sessions(**WHO)).sessions]
    assert ids == ["c", "b", "a", branch.id]
    assert texts(await service.get_session(**WHO, session_id=branch.id)) == texts(
        await service.get_session(**WHO, session_id="b")
    )


async def test_more_sessions_than_a_page_are_listed(tmp_path: Path) -> None:
    async with await perdure.aopen(":memory:") as db:
        service = PerdureSessionService(db)
        for number in range(1100):
            await service.create_session(**WHO, session_id=f"{number:04}")
        assert [item.id for item in (await service.list_sessions(**WHO)).sessions] == [f"{n:04}" for n in range(1100)]


async def test_what_others_said_is_the_agents_own_word_if_the_service_is_told_so(
    db: perdure.AsyncPerdure, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await db.create(name="elsewhere")
    asked, answered = ToolAsked(call="c", name="look", arguments={}), ToolFinished(call="c", result={"n": 1})
    await begun.record([Message(role="user", content="hi"), asked, answered, Message(role="assistant", content="ho")])
    known = await PerdureSessionService(db).get_session(**WHO, session_id=begun.id)
    assert known is not None
    assert [event.author for event in known.events] == ["user", "model", "model", "model"]
    service = PerdureSessionService(db, agent="clerk")
    session = await service.get_session(**WHO, session_id=begun.id)
    assert session is not None
    assert [event.author for event in session.events] == ["user", "clerk", "clerk", "clerk"]
    assert [event.content and event.content.role for event in session.events] == ["user", "model", "user", "model"]
    heard: list[LlmRequest] = []

    class Hearing(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            heard.append(llm_request)
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="and now this")]))

    runner = Runner(app_name="shop", agent=LlmAgent(name="clerk", model=Hearing(model="here")), session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="and now?")])
    async for _ in runner.run_async(user_id="ada", session_id=begun.id, new_message=message):
        pass
    assert [content.role for content in heard[0].contents] == ["user", "model", "user", "model", "user"]
    assert "unknown agent" not in caplog.text
    for wrong in ("", "user", 3):
        with pytest.raises(errors.Invalid, match="name of an agent"):
            PerdureSessionService(db, agent=wrong)  # type: ignore[arg-type]


async def test_sessions_that_are_not_shared_are_adks_alone(db: perdure.AsyncPerdure) -> None:
    begun = await db.create(name="elsewhere")
    await begun.record([Message(role="user", content="hi")])
    service = PerdureSessionService(db, shared=False)
    assert await service.get_session(**WHO, session_id=begun.id) is None
    await service.create_session(**ONE)
    branch = await db.named(session_name("shop", "ada", "s1")).branch()
    assert await service.get_session(**WHO, session_id=branch.id) is not None
    assert await PerdureSessionService(db).get_session(**WHO, session_id=begun.id) is not None


async def test_sessions_are_listed_a_page_at_a_time(service: PerdureSessionService) -> None:
    for name in "abcde":
        await service.create_session(**WHO, session_id=name, state={"name": name, "odd": '\\ " $x \u0024 é'})
    await service.create_session(
        app_name="shop", user_id="bob", session_id="f", state={"app:rate": 1, "user:lang": "de"}
    )
    pages, cursor = [], None
    while True:
        page = await service.list_page(**WHO, limit=2, cursor=cursor)
        pages.append(page.sessions)
        if (cursor := page.cursor) is None:
            break
    assert [[item.id for item in sessions] for sessions in pages] == [["e", "d"], ["c", "b"], ["a"]]
    whole = (await service.list_sessions(**WHO)).sessions
    assert [item for sessions in pages for item in sessions] == whole[::-1]
    everyone = await service.list_page(app_name="shop", limit=1)
    assert everyone.sessions[0].state == {"app:rate": 1, "user:lang": "de"}
    with pytest.raises(errors.Invalid):
        await service.list_page(**WHO, limit=0)
    await service.append_event(pages[0][0], said("an object from a page is as good as any"))


def test_an_object_that_is_not_checked_is_like_one_that_is() -> None:
    fields: dict[str, Any] = {"app_name": "a", "user_id": "u", "state": {"k": [1]}, "events": [said("hi")]}
    made = session_of("a", "u", "s", fields["state"], fields["events"], 1.5, "mark")
    checked = Session(**fields, id="s", last_update_time=1.5)
    checked._storage_update_marker = "mark"
    assert made == checked
    assert made.model_dump() == checked.model_dump()
    assert made.model_copy(deep=True) == checked
    assert Session.model_validate(made)._storage_update_marker == "mark"
    made.state["k"].append(2)
    assert made.model_fields_set == checked.model_fields_set


@pytest.mark.parametrize("events_each", [1, 40])
async def test_only_as_much_is_read_as_is_asked_for(service: PerdureSessionService, events_each: int) -> None:
    held = await service.create_session(**ONE)
    total = 5 * events_each
    for number in range(1, total + 1):
        event = (
            said(str(number), timestamp=float(number))
            if number % 2
            else changing({"n": number}, timestamp=float(number))
        )
        await service.append_event(held, event)

    async def got(**config: Any) -> list[float]:
        found = await service.get_session(**ONE, config=GetSessionConfig(**config))
        assert found is not None
        assert found.state == held.state
        assert found.last_update_time == total
        return [event.timestamp for event in found.events]

    assert await got() == list(range(1, total + 1))
    assert await got(num_recent_events=0) == []
    assert await got(num_recent_events=3) == list(range(total - 2, total + 1))
    assert await got(num_recent_events=total + 5) == list(range(1, total + 1))
    assert await got(after_timestamp=4.0) == list(range(4, total + 1))
    assert await got(after_timestamp=total * 10.0) == []
    assert await got(after_timestamp=total - 1.0, num_recent_events=3) == [total - 1, total]


async def test_a_tail_reads_the_tail_only(tmp_path: Path) -> None:
    """The beginning of the log is destroyed on disk: who does not read it does not notice."""
    import apsw

    path = tmp_path / "here.db"
    async with await perdure.aopen(path, seal=False) as db:
        service = PerdureSessionService(db)
        held = await service.create_session(**ONE)
        for number in range(400):
            await service.append_event(held, said(str(number)))
    async with await perdure.aopen(path, seal=False) as db:
        service = PerdureSessionService(db)
        connection = apsw.Connection(str(path))
        connection.execute("DELETE FROM record WHERE position < (SELECT max(position) - 300 FROM record)")
        connection.close()
        late = held.events[-3].timestamp
        for config in (GetSessionConfig(num_recent_events=3), GetSessionConfig(after_timestamp=late)):
            found = await service.get_session(**ONE, config=config)
            assert texts(found) == ["397", "398", "399"]
        with pytest.raises(errors.Damaged):
            await service.get_session(**ONE)


# ── staleness ──


async def test_an_object_is_stale_once_somebody_else_wrote_and_only_then(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    first = await service.create_session(**ONE)
    second = await service.get_session(**ONE, config=GetSessionConfig(num_recent_events=0))
    assert second is not None
    await service.append_event(first, said("one"))
    refused = changing({"temp:t": 1, "k": 1, "app:rate": 9}, "two")
    with pytest.raises(StaleSessionError):
        await service.append_event(second, refused)
    assert refused.actions.state_delta == {"temp:t": 1, "k": 1, "app:rate": 9}
    assert second.state == {}
    second = await service.get_session(**ONE, config=GetSessionConfig(num_recent_events=0))
    assert second is not None
    assert second.state == {}
    await service.append_event(second, refused)
    with pytest.raises(StaleSessionError):
        await service.append_event(first, said("three"))
    assert texts(await service.get_session(**ONE)) == ["one", "two"]


async def test_equal_times_state_only_events_and_copies_are_no_false_alarm(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE)
    for number in range(3):
        await service.append_event(held, said(str(number), timestamp=5.0))
        await service.append_event(held, changing({"n": number}, timestamp=5.0))
        held = held.model_copy(deep=True)
        await service.append_event(held, said(None, timestamp=1.0))
        held = held.model_copy()
        held.last_update_time -= 100
    assert len(held.events) == 9
    found = await service.get_session(**ONE)
    assert found is not None
    assert found.events == held.events


async def test_an_equal_time_does_not_hide_another_writer(service: PerdureSessionService) -> None:
    first = await service.create_session(**ONE)
    second = first.model_copy(deep=True)
    await service.append_event(first, said("one", timestamp=5.0))
    with pytest.raises(StaleSessionError):
        await service.append_event(second, said("two", timestamp=5.0))


async def test_what_changes_nothing_of_adks_is_no_false_alarm(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    held = await service.create_session(**ONE)
    behind = db.named(session_name("shop", "ada", "s1"))
    await behind.configure(title="About flowers")
    await behind.checkpoint("here")
    await behind.record(events.Noted(by="somebody", about="else", data=1))
    await service.append_event(held, said("one"))
    await behind.record([Message(role="user", content="from elsewhere")])
    with pytest.raises(StaleSessionError):
        await service.append_event(held, said("two"))
    held = await service.get_session(**ONE)  # type: ignore[assignment]
    await behind.patch_vars(k=1)
    with pytest.raises(StaleSessionError):
        await service.append_event(held, said("two"))


async def test_tasks_that_share_an_object_all_get_their_events_in(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE)
    await asyncio.gather(*[service.append_event(held, changing({f"k{n}": n, "app:last": n}, str(n))) for n in range(8)])
    assert sorted(texts(held)) == list("01234567")
    assert await same(service, held)


async def test_many_sessions_change_one_apps_state_at_once(service: PerdureSessionService) -> None:
    held = [await service.create_session(**WHO, session_id=str(number)) for number in range(8)]
    await asyncio.gather(
        *[service.append_event(item, changing({f"app:k{n}": n, f"user:k{n}": n})) for n, item in enumerate(held)]
    )
    found = await service.get_session(**WHO, session_id="0")
    assert found is not None
    assert found.state == {f"{scope}:k{n}": n for scope in ("app", "user") for n in range(8)}


async def test_an_object_without_a_revision_is_judged_by_what_it_holds(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE)
    await service.append_event(held, said("one"))
    restored = Session.model_validate_json(held.model_dump_json())
    older = Session.model_validate_json(held.model_dump_json())
    await service.append_event(restored, said("two"))
    with pytest.raises(StaleSessionError):
        await service.append_event(older, said("three"))
    with pytest.raises(SessionNotFoundError):
        await service.append_event(Session(app_name="shop", user_id="ada", id="none"), said("four"))


async def test_handing_in_an_event_again_changes_nothing(service: PerdureSessionService) -> None:
    held = await service.create_session(**ONE)
    before = held.model_copy(deep=True)
    event = said("one")
    await service.append_event(held, event)
    await service.append_event(held, event)
    await service.append_event(before, event.model_copy(deep=True))  # the answer to the first call was lost
    assert texts(held) == texts(before) == texts(await service.get_session(**ONE)) == ["one"]
    await service.append_event(before, said("two"))
    counted = changing({"n": 1, "user:n": 1}, "three")
    await service.append_event(before, counted)
    await service.append_event(before, changing({"n": 2, "user:n": 2}))
    await service.append_event(before, counted)
    assert (await service.create_session(**WHO)).state == {"user:n": 2}
    assert await same(service, before)


async def test_an_event_and_all_its_state_are_one_append(db: perdure.AsyncPerdure) -> None:
    service = PerdureSessionService(db)
    held = await service.create_session(**ONE, state={"app:a": 0, "user:u": 0})
    start = await db.position()
    names = session_name("shop", "ada", "s1"), app_state_name("shop"), user_state_name("shop", "ada")
    versions = [await db.named(name).version() for name in names]
    with pytest.raises(errors.Invalid):  # a part that cannot be stored leaves nothing of the rest
        await service.append_event(held, changing({"own": 1, "app:a": 1, "user:u": "x" * 5_000_000}, "words"))
    assert [await db.named(name).version() for name in names] == versions
    assert await db.position() == start
    await service.append_event(held, changing({"own": 1, "app:a": 1, "user:u": 1}, "words"))
    assert [await db.named(name).vars() for name in names] == [{"own": 1}, {"a": 1}, {"u": 1}]


ANOTHER = """
import asyncio, sys
import perdure
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.genai import types
from perdure.adapters.google_adk import PerdureSessionService

async def main(path, name):
    async with await perdure.aopen(path) as db:
        service = PerdureSessionService(db)
        done = []
        while len(done) < 15:
            held = await service.get_session(app_name="shop", user_id="ada", session_id="s1")
            text = f"{name}{len(done)}"
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await asyncio.sleep(0.001)
            try:
                await service.append_event(held, Event(author="user", content=content))
                done.append(text)
            except StaleSessionError:
                continue

asyncio.run(main(*sys.argv[1:]))
"""


async def test_of_two_processes_one_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    async with await perdure.aopen(path) as db:
        service = PerdureSessionService(db)
        await service.create_session(**ONE)
        command = [sys.executable, "-W", "ignore", "-c", ANOTHER, str(path)]
        both = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "ab"]  # noqa: ASYNC220
        for one in both:
            one.communicate(timeout=120)
        found = await service.get_session(**ONE)
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(texts(found)) == sorted(f"{name}{number}" for name in "ab" for number in range(15))
    for name in "ab":
        assert [text for text in texts(found) if text[0] == name] == [f"{name}{number}" for number in range(15)]


WAITING = """
import asyncio, sys
import perdure
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from perdure.adapters.google_adk import PerdureSessionService

async def main(path):
    async with await perdure.aopen(path) as db:
        service = PerdureSessionService(db)
        held = await service.get_session(app_name="shop", user_id="ada", session_id="s1")
        print("read", flush=True)
        sys.stdin.readline()
        for _ in range(2):
            try:
                await service.append_event(held, Event(author="user"))
                print("written")
            except StaleSessionError:
                print("stale")
                held = await service.get_session(app_name="shop", user_id="ada", session_id="s1")

asyncio.run(main(sys.argv[1]))
"""


async def test_a_process_that_comes_second_is_told_and_writes_after_reading_again(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    async with await perdure.aopen(path) as db:
        service = PerdureSessionService(db)
        held = await service.create_session(**ONE)
        command = [sys.executable, "-W", "ignore", "-c", WAITING, str(path)]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
        assert other.stdout is not None
        assert other.stdout.readline() == "read\n"
        await service.append_event(held, said("first"))
        assert other.communicate("go\n", timeout=60)[0].split() == ["stale", "written"]
        found = await service.get_session(**ONE)
        assert found is not None
        assert len(found.events) == 2
        with pytest.raises(StaleSessionError):
            await service.append_event(held, said("third"))


async def test_of_two_services_one_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async with await perdure.aopen(tmp_path / "s.db") as one, await perdure.aopen(tmp_path / "s.db") as two:
        first, second = PerdureSessionService(one), PerdureSessionService(two)
        held = await first.create_session(**ONE)
        other = await second.get_session(**ONE)
        assert other is not None
        answers = await asyncio.gather(
            first.append_event(held, said("a")), second.append_event(other, said("b")), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["Event", "StaleSessionError"]
        assert len(texts(await first.get_session(**ONE))) == 1


# ── against ADK's own services ──

keys = st.sampled_from(["a", "b", "app:a", "app:b", "user:a", "temp:a"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
deltas = st.dictionaries(keys, values, max_size=3)
places = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["u", "v"]), st.sampled_from(["s", "t"]))
steps = st.one_of(
    st.tuples(st.just("create"), places, deltas),
    st.tuples(st.just("hold"), places, st.none() | st.integers(0, 3)),
    st.tuples(st.just("append"), places, st.none() | st.text(max_size=3), deltas, st.booleans()),
    st.tuples(st.just("list"), st.sampled_from(["x", "y"]), st.none() | st.sampled_from(["u", "v"])),
    st.tuples(st.just("delete"), places),
)


class Walk:
    """One service, and the objects somebody holds from it."""

    def __init__(self, service: BaseSessionService) -> None:
        self.service = service
        self.held: dict[tuple[str, str, str], Session] = {}

    async def take(self, number: int, step: tuple[Any, ...]) -> Any:
        """What a step comes to, in comparable words."""
        try:
            return await getattr(self, step[0])(number, *step[1:])
        except (AlreadyExistsError, SessionNotFoundError, StaleSessionError) as error:
            return type(error).__name__

    async def create(self, number: int, place: tuple[str, str, str], state: dict[str, Any]) -> Any:
        app, user, name = place
        made = await self.service.create_session(app_name=app, user_id=user, session_id=name, state=state)
        self.held[place] = made
        return made.state

    async def hold(self, number: int, place: tuple[str, str, str], count: int | None) -> Any:
        app, user, name = place
        config = GetSessionConfig(num_recent_events=count)
        found = await self.service.get_session(app_name=app, user_id=user, session_id=name, config=config)
        if found is None:
            return None
        self.held[place] = found
        updated = found.last_update_time if found.last_update_time > 1e10 else None
        return found.state, [event.model_dump_json() for event in found.events], updated

    async def append(
        self, number: int, place: tuple[str, str, str], text: str | None, delta: Any, partial: bool
    ) -> Any:
        if place not in self.held:
            return None
        event = said(text, id=f"e{number}", timestamp=2e10 + number, partial=partial or None)
        event.actions.state_delta = json.loads(json.dumps(delta))
        held = self.held[place]
        await self.service.append_event(held, event)
        return held.state, [item.model_dump_json() for item in held.events]

    async def list(self, number: int, app: str, user: str | None) -> Any:
        found = await self.service.list_sessions(app_name=app, user_id=user)
        users = [await self.service.get_user_state(app_name=app, user_id=name) for name in "uv"]
        return sorted((item.user_id, item.id, json.dumps(item.state, sort_keys=True)) for item in found.sessions), users

    async def delete(self, number: int, place: tuple[str, str, str]) -> Any:
        app, user, name = place
        self.held.pop(place, None)
        await self.service.delete_session(app_name=app, user_id=user, session_id=name)


async def walk_beside(
    reference: BaseSessionService, taken: list[tuple[Any, ...]], *, fresh: bool
) -> tuple[list[Any], list[Any]]:
    """What our service and the other one answer to the same steps, up to the first answer that differs."""
    told: tuple[list[Any], list[Any]] = [], []
    async with await perdure.aopen(":memory:") as db:
        walks = Walk(PerdureSessionService(db)), Walk(reference)
        for number, step in enumerate(taken):
            again = [("hold", step[1], None)] if step[0] == "append" and fresh else []
            for each in (*again, step):
                for walk, answers in zip(walks, told, strict=True):
                    answers.append((each, await walk.take(number, each)))
                if told[0][-1] != told[1][-1]:
                    return told
    return told


@given(st.lists(steps, max_size=25))
@settings(max_examples=150, deadline=None)
def test_it_answers_as_adks_service_in_memory_does(taken: list[tuple[Any, ...]]) -> None:
    """That one lets a stale writer in: every append starts from a fresh object."""
    ours, theirs = asyncio.run(walk_beside(InMemorySessionService(), taken, fresh=True))  # type: ignore[no-untyped-call]
    assert ours == theirs
    assert len(ours) >= len(taken)


@given(st.lists(steps, max_size=15))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_answers_as_adks_service_on_sqlite_does(
    tmp_path_factory: pytest.TempPathFactory, taken: list[tuple[Any, ...]]
) -> None:
    """That one knows a stale writer by its time, which is exact here, since every event has a later one."""
    file = tmp_path_factory.mktemp("adk") / "reference.db"
    ours, theirs = asyncio.run(walk_beside(SqliteSessionService(str(file)), taken, fresh=False))
    assert ours == theirs
    assert len(ours) == len(taken)


# ── ADK's Runner ──


class Scripted(BaseLlm):
    """A model that asks for the price of whatever it hears, and says what it learned."""

    seen: list[LlmRequest] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(llm_request)
        last = (llm_request.contents[-1].parts or [])[-1]
        if last.function_response is not None:
            part = types.Part(text=f"It costs {(last.function_response.response or {})['price']}")
        else:
            part = types.Part(function_call=types.FunctionCall(name="price", args={"item": last.text}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def price(item: str, tool_context: ToolContext) -> dict[str, Any]:
    """The price of an item."""
    tool_context.state["asked"] = tool_context.state.get("asked", 0) + 1
    tool_context.state["user:last"] = item
    tool_context.state["app:items"] = [*tool_context.state.get("app:items", []), item]
    tool_context.state["temp:scratch"] = item
    return {"price": len(item)}


def runner(service: BaseSessionService, model: Scripted | None = None) -> Runner:
    agent = LlmAgent(name="seller", model=model or Scripted(model="scripted", seen=[]), tools=[price])
    return Runner(app_name="shop", agent=agent, session_service=service)


async def run(running: Runner, text: str, session: str = "s1") -> list[Event]:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in running.run_async(user_id="ada", session_id=session, new_message=message)]


async def test_the_runner_works_on_it_with_tools_and_state(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    await service.create_session(**ONE)
    running = runner(service)
    first = await run(running, "tulips")
    assert [event.is_final_response() for event in first] == [False, False, True]
    await run(runner(PerdureSessionService(db)), "roses")  # as after a restart
    found = await service.get_session(**ONE)
    assert found is not None
    assert len(found.events) == 8
    assert found.state == {"asked": 2, "user:last": "roses", "app:items": ["tulips", "roses"]}
    behind = db.named(session_name("shop", "ada", "s1"))
    turns = await behind.turns()
    assert [turn.status for turn in turns] == ["finished", "finished"]
    assert [message.content for message in turns[1].messages] == ["roses", "It costs 5"]
    assert [(call.name, call.arguments, call.result) for call in turns[1].calls] == [
        ("price", {"item": "roses"}, {"price": 5})
    ]
    assert {event.agent for event in turns[0].events if event.kind == "tool_asked"} == {"seller"}
    assert (await behind.verify()).ok


async def test_a_rewind_goes_back_for_adk_and_for_everybody_else(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    reference = InMemorySessionService()  # type: ignore[no-untyped-call]
    ends: list[Any] = []
    for one in (service, reference):
        await one.create_session(**ONE)
        model = Scripted(model="scripted", seen=[])
        running = runner(one, model)
        await run(running, "tulips")
        rewound = (await run(running, "roses"))[0].invocation_id
        await run(running, "asters")
        await running.rewind_async(user_id="ada", session_id="s1", rewind_before_invocation_id=rewound)
        await run(running, "lilies")
        found = await one.get_session(**ONE)
        assert found is not None
        prompts = [[part.text for content in seen.contents for part in content.parts or []] for seen in model.seen]
        ends.append((found.state, len(found.events), prompts))
        partly = await one.get_session(**ONE, config=GetSessionConfig(num_recent_events=6))
        assert partly is not None
        assert partly.events == found.events[-6:]
    assert ends[0] == ends[1]
    conversation = await db.named(session_name("shop", "ada", "s1")).conversation()
    heard = [item.payloads[0].content for item in conversation if isinstance(item.payloads[0], Message)]
    assert heard == ["tulips", "It costs 6", "lilies", "It costs 6"]


# ── one conversation, several frameworks ──


async def test_a_session_of_another_framework_is_opened_by_its_id_and_gone_on_with(
    service: PerdureSessionService, db: perdure.AsyncPerdure
) -> None:
    begun = await db.create(name="thread-7", vars={"topic": "flowers"}, metadata={"project": "x"})
    await begun.record([Message(role="system", content="Be brief"), Message(role="user", content="tulips?")])
    await begun.record(events.native("other", {"any": 1}, [Message(role="assistant", content="Let me see"), ASKED]))
    await begun.record([ToolFinished(call="c1", result=3), Message(role="assistant", content="3 each")])
    held = await service.get_session(**WHO, session_id=begun.id)
    assert held is not None
    assert held.state == {"topic": "flowers"}
    assert [event.author for event in held.events] == ["system", "user", "model", "model", "model"]
    third = held.events[2].content
    assert third is not None
    assert third.parts is not None
    assert third.parts[1].function_call == types.FunctionCall(id="c1", name="price", args={"item": "tulips"})
    fourth = held.events[3].content
    assert fourth is not None
    assert fourth.parts is not None
    assert fourth.role == "user"
    assert fourth.parts[0].function_response == types.FunctionResponse(id="c1", name="price", response={"result": 3})
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**WHO, session_id=begun.id)
    await run(runner(service), "roses", begun.id)
    said_since = [item.payloads for item in await begun.conversation()][5:]
    assert [type(payloads[0]).__name__ for payloads in said_since] == [
        "Message",
        "ToolAsked",
        "ToolFinished",
        "Message",
    ]
    assert [item.id for item in (await service.list_sessions(**WHO)).sessions] == [begun.id]
    info = await begun.info()
    assert info.metadata["project"] == "x"
    again = await service.get_session(**WHO, session_id=begun.id)
    assert again is not None
    assert again.state["topic"] == "flowers"
    assert len(again.events) == 9


ASKED = ToolAsked(call="c1", name="price", arguments={"item": "tulips"})


async def test_nobody_opens_what_is_somebody_elses(service: PerdureSessionService, db: perdure.AsyncPerdure) -> None:
    await service.create_session(**ONE, state=HELD)
    owned = await db.create(owner="bob")
    for id in (
        db.named(session_name("shop", "ada", "s1")).id,
        db.named(app_state_name("shop")).id,
        db.named(user_state_name("shop", "ada")).id,
        owned.id,
    ):
        assert await service.get_session(app_name="shop", user_id="mallory", session_id=id) is None
        await service.delete_session(app_name="shop", user_id="mallory", session_id=id)
    assert await service.get_session(app_name="shop", user_id="bob", session_id=owned.id) is not None
    assert await service.get_session(**ONE) is not None


async def test_what_others_take_back_is_gone_for_adk(service: PerdureSessionService, db: perdure.AsyncPerdure) -> None:
    held = await service.create_session(**ONE)
    for text in ("one", "two"):
        await service.append_event(held, said(text))
        await service.append_event(held, changing({"k": text}))
    behind = db.named(session_name("shop", "ada", "s1"))
    second = (await behind.conversation())[1]
    await behind.retract(second.first)
    found = await service.get_session(**ONE)
    assert found is not None
    assert texts(found) == ["one"]
    assert len(found.events) == 2
    await behind.redact([(await behind.conversation())[0].first])
    found = await service.get_session(**ONE)
    assert found is not None
    assert len(found.events) == 1


def test_blocking_stores_serve_as_well(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "here.db") as db:
        service = PerdureSessionService(db)
        held = perdure.drive(service.create_session(**ONE))
        perdure.drive(service.append_event(held, said("hi")))
        assert texts(asyncio.run(service.get_session(**ONE))) == ["hi"]
        assert [item.native is not None for item in db.named(session_name("shop", "ada", "s1")).conversation()] == [
            True
        ]


async def test_what_cannot_be_a_name_is_refused_by_name(service: PerdureSessionService) -> None:
    with pytest.raises(errors.Invalid):
        await service.create_session(**WHO, session_id="x" * 2000)
    with pytest.raises(errors.Invalid):
        await service.create_session(**WHO, session_id="\ud800")


# ── translating ──

parts = st.one_of(
    st.text(max_size=5).map(lambda text: types.Part(text=text)),
    st.text(min_size=1, max_size=5).map(lambda text: types.Part(text=text, thought=True)),
    st.binary(max_size=5).map(lambda data: types.Part(inline_data=types.Blob(mime_type="image/png", data=data))),
    st.binary(max_size=5).map(lambda data: types.Part(inline_data=types.Blob(mime_type="audio/wav", data=data))),
    st.just(types.Part(file_data=types.FileData(file_uri="gs://x/y.pdf", mime_type="application/pdf"))),
    st.just(types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON))),
    st.dictionaries(st.text(max_size=3), values, max_size=2).map(
        lambda args: types.Part(function_call=types.FunctionCall(id="c", name="f", args=args))
    ),
    st.dictionaries(st.text(max_size=3), values, max_size=2).map(
        lambda found: types.Part(function_response=types.FunctionResponse(id="c", name="f", response=found))
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["user", "seller"]), st.lists(parts, max_size=4)), max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_content_is_read_back_exactly_and_makes_ordinary_turns(spoken: list[tuple[str, list[types.Part]]]) -> None:
    with perdure.open(":memory:") as db:
        service = PerdureSessionService(db)
        held = perdure.drive(service.create_session(**ONE))
        for author, held_parts in spoken:
            event = Event(author=author, content=types.Content(role="user", parts=held_parts))
            perdure.drive(service.append_event(held, event))
        found = perdure.drive(service.get_session(**ONE))
        assert found is not None
        assert [item.model_dump_json() for item in found.events] == [item.model_dump_json() for item in held.events]
        session = db.named(session_name("shop", "ada", "s1"))
        assert len(session.conversation()) == sum(bool(inside) for _, inside in spoken)
        assert session.verify().ok


@given(st.lists(parts, min_size=1, max_size=5), st.sampled_from(["user", "seller"]))
@settings(deadline=None)
def test_what_others_read_of_an_event_tells_adk_the_same_words(inside: list[types.Part], author: str) -> None:
    event = Event(author=author, content=types.Content(role="user", parts=inside))
    with perdure.open(":memory:") as db:
        session = db.create()
        session.record(translating.payloads(event))  # as another framework would write what it read
        told = [found for _, found in translating.history(session.events())]
    heard = [part for found in told for part in (found.content.parts if found.content else None) or ()]
    for kind in ("text", "thought", "function_call"):
        asked = [getattr(part, kind) for part in inside if getattr(part, kind)]
        if kind != "function_call":
            assert [getattr(part, kind) for part in heard if getattr(part, kind)] == asked
        else:
            assert [part.function_call.name for part in heard if part.function_call] == ["f"] * len(asked)
    pictures = [
        part.inline_data.data for part in inside if part.inline_data and part.inline_data.mime_type == "image/png"
    ]
    assert [part.inline_data.data for part in heard if part.inline_data] == pictures
