"""What every cold storage promises, and what a folder does when its disk or its processes fail."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

import perdure
from perdure import events
from perdure.cold.folder import DRAFT, FORGOTTEN, FolderCold
from perdure.cold.s3 import S3Cold
from perdure.core.errors import BundleMissing, ColdUnreachable, Invalid, ReadOnly
from perdure.ports.cold import Cold, Kept
from perdure.waiting import drive
from tests.cold.s3_server import refusing

BIG = 20 << 20


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def whole(cold: Cold, name: str) -> bytes:
    return b"".join([piece async for piece in cold.get(name)])


async def names(cold: Cold, folder: str = "") -> list[str]:
    return [kept.name async for kept in cold.list(folder)]


async def test_what_is_put_is_got(cold: Cold) -> None:
    assert await cold.put("one/two.bundle", pieces(b"first", b"", b"second")) == 11
    assert await whole(cold, "one/two.bundle") == b"firstsecond"
    assert await cold.stat("one/two.bundle") == Kept("one/two.bundle", 11)


async def test_an_empty_object_is_an_object(cold: Cold) -> None:
    assert await cold.put("empty", pieces()) == 0
    assert await whole(cold, "empty") == b""


async def test_an_object_of_many_parts_streams(cold: Cold) -> None:
    part = os.urandom(1 << 20)
    assert await cold.put("big", pieces(*[part] * 20)) == BIG
    largest = received = 0
    async for piece in cold.get("big"):
        assert piece == (part * 3)[received % len(part) :][: len(piece)]
        largest, received = max(largest, len(piece)), received + len(piece)
    assert received == BIG
    assert largest < BIG / 2


async def test_putting_again_replaces(cold: Cold) -> None:
    await cold.put("one", pieces(b"first"))
    await cold.put("one", pieces(b"second, and longer"))
    assert await whole(cold, "one") == b"second, and longer"


async def test_what_is_not_there_is_missing_by_name(cold: Cold) -> None:
    with pytest.raises(BundleMissing, match=r"one/two\.bundle is not in cold storage at") as refusal:
        await whole(cold, "one/two.bundle")
    assert refusal.value.fields["place"] == cold.place
    assert await cold.stat("one/two.bundle") is None


async def test_what_is_deleted_is_gone(cold: Cold) -> None:
    await cold.put("one/two", pieces(b"x"))
    assert await cold.delete("one/two") is True
    assert await cold.stat("one/two") is None
    assert await cold.delete("one/two") is False


async def test_a_put_that_fails_leaves_no_object(cold: Cold) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield bytes(12 << 20)
        raise KeyError("halfway")

    with pytest.raises(KeyError):
        await cold.put("one", failing())
    assert await cold.stat("one") is None
    assert await names(cold) == []


async def test_a_put_that_fails_leaves_the_old_object(cold: Cold) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"new"
        raise KeyError("halfway")

    await cold.put("one", pieces(b"old"))
    with pytest.raises(KeyError):
        await cold.put("one", failing())
    assert await whole(cold, "one") == b"old"


async def test_objects_are_listed_by_folder(cold: Cold) -> None:
    for name in ("b/2", "b/1", "a", "bc/3"):
        await cold.put(name, pieces(b"x"))
    assert await names(cold) == ["a", "b/1", "b/2", "bc/3"]
    assert await names(cold, "b") == ["b/1", "b/2"]
    assert await names(cold, "nothing") == []


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a/.b", "a b", "é", "a\0", "x" * 600]
)
async def test_a_name_that_could_lead_elsewhere_is_refused(cold: Cold, name: str) -> None:
    with pytest.raises(Invalid):
        await cold.put(name, pieces(b"x"))
    with pytest.raises(Invalid):
        await whole(cold, name)


def test_it_works_without_an_event_loop(cold: Cold) -> None:
    assert drive(cold.put("one", pieces(b"content"))) == 7
    assert drive(whole(cold, "one")) == b"content"
    assert drive(names(cold)) == ["one"]


# ── a folder ──────────────────────────────────────────────────────────────────────────────────────


async def test_drafts_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    cold = FolderCold(str(tmp_path))
    (tmp_path / f".one.dead{DRAFT}").write_bytes(b"half")
    (tmp_path / f".one.alive{DRAFT}").write_bytes(b"half")
    long_ago = time.time() - FORGOTTEN - 60
    os.utime(tmp_path / f".one.dead{DRAFT}", (long_ago, long_ago))
    await cold.put("one", pieces(b"x"))
    assert sorted(os.listdir(tmp_path)) == [f".one.alive{DRAFT}", "one"]
    assert await names(cold) == ["one"]


async def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((ReadOnly, ColdUnreachable)):
        await FolderCold(str(tmp_path / "file")).put("one", pieces(b"x"))


# ── S3 ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///prefix", "s3://user:secret@bucket/p", "s3://bucket/p?x=1", "s3://bucket/../p"]
)
def test_a_place_that_is_none_is_refused(s3: str, url: str) -> None:
    with pytest.raises(Invalid):
        S3Cold(url)


async def test_a_bucket_that_is_not_there_is_unreachable(s3: str) -> None:
    cold = S3Cold("s3://no-such-bucket-here/prefix")
    with pytest.raises(ColdUnreachable, match="check the network, the credentials and the bucket") as refusal:
        await cold.put("one", pieces(b"x"))
    assert "testing" not in refusal.value.message


@pytest.mark.parametrize("missing", ["nobody", "credentials"])
async def test_a_store_that_does_not_serve_is_unreachable(
    s3: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "nobody":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/nowhere")
    with pytest.raises(ColdUnreachable, match="check the network, the credentials and the bucket"):
        await S3Cold(s3).put("one", pieces(b"x"))


REQUESTS: dict[str, Callable[[Cold], Awaitable[object]]] = {
    "put": lambda cold: cold.put("two", pieces(b"x")),
    "put in parts": lambda cold: cold.put("two", pieces(bytes(BIG))),
    "get": lambda cold: whole(cold, "one"),
    "stat": lambda cold: cold.stat("one"),
    "stat of nothing": lambda cold: cold.stat("nothing"),
    "delete": lambda cold: cold.delete("one"),
    "list": names,
    "reach": lambda cold: cold.reach(),
}


@pytest.mark.parametrize("asked", REQUESTS)
async def test_a_refusal_names_the_rights_it_takes(s3: str, asked: str) -> None:
    cold = S3Cold(s3)
    await cold.put("one", pieces(b"x"))
    advice = r"refuses these credentials \(403.*; check that they are right .* get, put, delete and list"
    with refusing(os.environ["AWS_ENDPOINT_URL"]), pytest.raises(ColdUnreachable, match=advice) as refusal:
        await REQUESTS[asked](cold)
    assert refusal.value.fields == {"place": s3, "status": 403}
    assert "testing" not in refusal.value.message
    assert await names(cold) == ["one"]


def test_a_refused_bucket_is_neither_an_empty_one_nor_the_end_of_a_session(s3: str, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=s3) as db:
        kept, goes = db.create("kept"), db.create("goes")
        for session in (kept, goes):
            session.append(events.Message(role="user", content="hello"))
            session.complete()
        kept.archive()
        with refusing(os.environ["AWS_ENDPOINT_URL"]):
            with pytest.raises(ColdUnreachable, match="403"):
                kept.turns()
            with pytest.raises(ColdUnreachable, match="403"):
                goes.archive()
            with pytest.raises(ColdUnreachable, match="403"):
                kept.erase()
        assert kept.verify().ok
        assert goes.info().cold is None
        goes.archive()
        assert [turn.messages[0].content for each in (kept, goes) for turn in each.turns()] == ["hello", "hello"]


CREDENTIALS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]


def test_without_credentials_the_metadata_service_is_left_alone_if_that_is_wanted(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    with pytest.raises(ColdUnreachable, match=r"no credentials for s3://.*; set AWS_ACCESS_KEY_ID"):
        S3Cold(s3)


@pytest.mark.parametrize("half", CREDENTIALS)
def test_half_of_the_credentials_are_none(s3: str, half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(half)
    with pytest.raises(ColdUnreachable):
        S3Cold(s3)


async def test_a_place_where_no_folder_can_be_made_is_unreachable() -> None:
    with pytest.raises(ColdUnreachable, match="/proc/x"):
        await FolderCold("/proc/x").put("one", pieces(b"x"))


FORKED = """
import os, sys
from perdure.cold.s3 import S3Cold
from perdure.core.errors import ColdUnreachable
from perdure.waiting import drive
cold = S3Cold(sys.argv[1])
assert drive(cold.stat("one")) is None
child = os.fork()
if child == 0:
    try:
        drive(cold.stat("one"))
    except ColdUnreachable:
        os._exit(7)
    os._exit(1)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 and drive(cold.stat("one")) is None:
    print("told")
"""


def test_a_forked_child_is_told_instead_of_waiting_for_ever(s3: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, s3], check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "told\n", "")


def test_sessions_go_to_a_bucket_and_come_back(s3: str, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=s3) as db:
        session = db.create("old")
        for number in range(20):
            session.append(events.Message(role="user", content=os.urandom(100_000) + bytes([number])))
        session.complete()
        done = db.archive(session.id)
        assert done.bytes > 2_000_000
        before = [event.digest for event in session.events()]
    with perdure.open(tmp_path / "store.db", cold=s3) as db:
        session = db.session(session.id)
        assert [event.digest for event in session.events()] == before
        assert session.verify().ok
        assert session.thaw()
        assert session.verify().ok
        session.archive()
        session.erase()
    assert drive(names(S3Cold(s3))) == []


async def test_tasks_use_a_bucket_as_threads_do(s3: str, tmp_path: Path) -> None:
    async with await perdure.aopen(tmp_path / "store.db", seal=False, cold=s3) as db:
        session = await db.create("old")
        await session.complete()
        await session.archive()
        assert (await session.verify()).ok
        assert [kept.name async for kept in S3Cold(s3).list()] == [(await session.info()).cold]
        assert await session.thaw()
