"""Blobs through the public door: whatever happens in whichever order, what a session points to is there."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO, UnsupportedOperation
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import perdure
from perdure import errors
from perdure import events as ev
from perdure.core.session.refs import in_bytes
from perdure.testing import FixedAmbient
from perdure.waiting import drive
from torture.process import environment

BIG = b"".join(number.to_bytes(4, "big") for number in range(190_000))


def opened(path: str, seal: bool, **settings: Any) -> perdure.Perdure:
    """A store; that a new key has to be backed up is known here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return perdure.open(path, seal=None if Path(path).exists() else seal, **settings)


# ── any order of things ──


class Blobs(RuleBasedStateMachine):
    """Sessions that come, branch, say, set, redact, prune and go, with a collector that never gives any grace.

    The model is what reading every log shows: a blob that a log points to must be there, and one that was collected
    for nobody must be gone.
    """

    sessions = Bundle("sessions")
    contents = st.sampled_from([bytes([number]) * 3 for number in range(6)])
    where, seal = ":memory:", False

    @initialize()
    def open(self) -> None:
        self.ambient = FixedAmbient()
        self.folder = tempfile.mkdtemp()
        self.db = opened(self.where.format(self.folder), self.seal, ambient=self.ambient)
        self.put: dict[bytes, perdure.Ref] = {}

    def teardown(self) -> None:
        self.db.close()
        shutil.rmtree(self.folder)

    def _ref(self, content: bytes) -> perdure.Ref:
        self.put[content] = self.db.blobs.put(content)
        return self.put[content]

    @rule(target=sessions)
    def create(self) -> Any:
        return self.db.create()

    @rule(session=sessions, content=contents)
    def say(self, session: Any, content: bytes) -> None:
        session.append([ev.Message(role="user", content=[self._ref(content)])])

    @rule(session=sessions, content=contents)
    def say_again(self, session: Any, content: bytes) -> None:
        """Point to what was put some time ago: either it is there, or the append is refused."""
        if content in self.put:
            try:
                session.append(ev.Message(role="user", content=self.put[content]))
            except errors.BlobMissing:
                assert not self._is_there(content)
            else:
                assert self._is_there(content)

    @rule(session=sessions, content=contents)
    def set_vars(self, session: Any, content: bytes) -> None:
        session.patch_vars(latest=self._ref(content))

    @rule(target=sessions, session=sessions, data=st.data())
    def branch(self, session: Any, data: st.DataObject) -> Any:
        first = session.state().version
        pruned = session.verify().pruned_to
        return session.branch(data.draw(st.integers(pruned + 1, first)))

    @rule(session=sessions, data=st.data())
    def redact(self, session: Any, data: st.DataObject) -> None:
        told = [event.version for event in session.events() if event.kind == "message" and not event.redacted]
        own = [version for version in told if _is_own(session, version)]
        if own:
            session.redact(data.draw(st.sampled_from(own)))

    @rule(session=sessions, data=st.data())
    def prune(self, session: Any, data: st.DataObject) -> None:
        try:
            session.prune(data.draw(st.integers(1, session.version())))
        except (errors.Invalid, errors.PruneRefused):
            return

    @rule(session=consumes(sessions))
    def erase(self, session: Any) -> None:
        session.erase()

    @rule()
    def put_only(self) -> None:
        self._ref(b"never used")

    @rule()
    def collect(self) -> None:
        self.ambient.advance(1)
        self.db.blobs.collect(0)
        wanted = self._wanted()
        for content, ref in self.put.items():
            assert self._is_there(content) == (ref.sha256 in wanted), content

    @rule(target=sessions, session=consumes(sessions))
    def move(self, session: Any) -> Any:
        """Out as lines, erased, and in again."""
        lines = session.export()
        session.erase()
        return self.db.import_jsonl(lines)

    def _is_there(self, content: bytes) -> bool:
        try:
            return bool(self.db.blobs.get(self.put[content]) == content)
        except errors.BlobMissing:
            return False

    def _wanted(self) -> set[bytes]:
        """What all logs and states point to, read from the beginning."""
        found: set[bytes] = set()
        for row in self.db.find(limit=1000).items:
            session = self.db.session(row.session)
            for event in session.events():
                found |= in_bytes(event.entry.data) if not event.redacted else set()
            if session.verify().pruned_to:
                found |= {ref.sha256 for ref in session.vars().values()}
        return found

    @invariant()
    def everything_a_session_points_to_is_there(self) -> None:
        if hasattr(self, "db"):
            wanted = self._wanted()
            for content, ref in self.put.items():
                assert ref.sha256 not in wanted or self._is_there(content)


def _is_own(session: Any, version: int) -> bool:
    """Whether an event lies in the session's own rows: what it shares is redacted where it belongs."""
    head = drive(session._behind._services.sessions.log.head(session.id))
    return not any(item.source != session.id and version <= item.upto for item in head.segments)


class FileBlobs(Blobs):
    """The same in a file."""

    where = "{}/store.db"


class SealedBlobs(Blobs):
    """The same in a sealed file."""

    where, seal = "{}/store.db", True


class TestInAnyOrderInMemory(Blobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TestInAnyOrderInAFile(FileBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


class TestInAnyOrderSealed(SealedBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=12, stateful_step_count=30, deadline=None)


# ── several processes ──


WRITER = """
    import sys, perdure
    from perdure import errors, events as ev
    path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    refused = 0
    with perdure.open(path) as db:
        session = db.create(name)
        for number in range(rounds):
            content = f"{number % 7}".encode() * 300_000   # others put the same, at the same time
            ref = db.blobs.put(content)
            while True:
                try:
                    session.append(ev.Message(role="user", content=[ref]))
                    break
                except errors.BlobMissing:
                    refused += 1
                    ref = db.blobs.put(content)
            if number % 3 == 2:   # let go of the past, so that there is something to collect
                session.erase()
                session = db.create(name)
            assert number % 3 == 2 or db.blobs.get(ref) == content
    print("refused", refused)
"""

COLLECTOR = """
    import sys, perdure
    collected = 0
    with perdure.open(sys.argv[1]) as db:
        print("ready", flush=True)
        while not sys.stdin.closed and db.find(title="stop", limit=1).items == ():
            collected += db.blobs.collect(0).blobs
    print("collected", collected)
"""


def run(program: str, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seal", [False, True])
def test_writers_and_a_collector_in_processes_of_their_own_never_lose_a_blob_in_use(tmp_path: Path, seal: bool) -> None:
    path = str(tmp_path / "store.db")
    opened(path, seal).close()
    collector = run(COLLECTOR, path)
    assert collector.stdout is not None
    assert collector.stdout.readline() == "ready\n"
    writers = [run(WRITER, path, name, "40") for name in ("one", "two")]
    told = [writer.communicate(timeout=120)[0] for writer in writers]
    with opened(path, seal) as db:
        db.create("stop")
        gone = collector.communicate(timeout=60)[0]
        assert [writer.returncode for writer in writers] == [0, 0], told
        assert (collector.returncode, int(gone.split()[1]) > 0) == (0, True), gone
        report = db.verify()
        assert report.ok, report.problems
        for row in db.find(limit=10).items:
            for event in db.session(row.session).events():
                for sha in in_bytes(event.entry.data):
                    assert db.blobs.get(f"perdure:blob/{sha.hex()}")


UPLOADER = """
    import os, sys, perdure
    from perdure import events as ev

    def content():
        for number in range(12):
            if number == 6:
                print("half", flush=True)
            yield os.urandom(200_000)

    with perdure.open(sys.argv[1]) as db:
        session = db.session(sys.argv[2])
        print("ready", flush=True)
        for number in range(1_000_000):
            ref = db.blobs.put(content())
            session.append(ev.Message(role="user", content=[ref]))
            print(ref.uri, flush=True)
            if number % 3 == 0:
                db.blobs.collect(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seal", [False, True])
def test_a_process_killed_at_any_moment_leaves_whole_blobs_and_garbage_that_goes(tmp_path: Path, seal: bool) -> None:
    path, moments = str(tmp_path / "store.db"), random.Random(5)
    with opened(path, seal) as db:
        session = db.create("uploads")
    told: list[str] = []
    for attempt in range(12):
        process = run(UPLOADER, path, session.id)
        assert process.stdout is not None
        awaited = "half\n" if attempt % 3 == 0 else "ready\n"
        while process.stdout.readline() != awaited:
            pass
        if attempt % 3:
            threading.Event().wait(moments.uniform(0.0, 0.3))
        process.kill()
        told += process.communicate(timeout=60)[0].split()
    acknowledged = {uri for uri in told if uri.startswith("perdure:")}
    with opened(path, seal, ambient=FixedAmbient(now=4_000_000_000_000_000)) as db:
        collected = db.blobs.collect(0)
        report = db.verify()
        assert report.ok, report.problems
        assert acknowledged, "nothing was acknowledged, so nothing was tested"
        assert collected.uploads >= 1, "no upload was ever interrupted"
        events = db.session(session.id).events()
        pointed = {f"perdure:blob/{sha.hex()}" for event in events for sha in in_bytes(event.entry.data)}
        assert acknowledged <= pointed
        assert {info.ref.uri for info in db.blobs.list(limit=1000).items} == pointed
        assert db.blobs.collect(0).uploads == 0


# ── constant memory ──


LARGE = """
    import hashlib, resource, sys
    import perdure
    from perdure import events as ev

    def content(size, seed):
        block = hashlib.shake_256(seed).digest(1 << 20)
        for start in range(0, size, 1 << 20):
            yield block[: size - start]

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def there_and_back(db, size, seed):
        sent, got = hashlib.sha256(), hashlib.sha256()
        def pieces():
            for piece in content(size, seed):
                sent.update(piece)
                yield piece
        ref = db.blobs.put(pieces())
        with db.blobs.open(ref) as file:
            while piece := file.read(1 << 16):
                got.update(piece)
        assert sent.digest() == got.digest() == ref.sha256
        return ref

    with perdure.open(sys.argv[1]) as db:
        there_and_back(db, 1000, b"warm")
        before = peak()
        ref = there_and_back(db, 100 << 20, b"large")
        assert db.blobs.stat(ref).size == 100 << 20
        assert db.blobs.collect(0).bytes > 100 << 20
        print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seal", [False, True])
def test_a_hundred_megabytes_go_in_and_out_in_constant_memory(tmp_path: Path, seal: bool) -> None:
    path = str(tmp_path / "store.db")
    opened(path, seal).close()
    process = run(LARGE, path)
    told = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    assert int(told) <= 12, f"the peak grew by {told.strip()} MB"


# ── what callers hold ──


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as db:
        yield db


FORMS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda path: path.read_bytes(),
    "a bytearray": lambda path: bytearray(path.read_bytes()),
    "a view": lambda path: memoryview(path.read_bytes()),
    "a view of parts": lambda path: memoryview(BIG[::-1])[::-1],
    "a view of letters": lambda path: memoryview(BIG).cast("c"),
    "parts of views": lambda path: [memoryview(BIG[::-1])[::-1]],
    "a path": lambda path: path,
    "a path as text": str,
    "a file": lambda path: path.open("rb"),
    "a file in memory": lambda path: BytesIO(path.read_bytes()),
    "an iterator": lambda path: iter([BIG[:5], BIG[5:5], memoryview(BIG)[5:]]),
    "a list": lambda path: [BIG[:300_000], BIG[300_000:]],
}


@pytest.mark.parametrize("form", FORMS)
async def test_content_comes_in_any_form(db: perdure.Perdure, tmp_path: Path, form: str) -> None:
    path = tmp_path / "content.bin"
    path.write_bytes(BIG)
    with closing(FORMS[form](path)) as source:
        ref = db.blobs.put(source)
    assert db.blobs.get(ref) == BIG
    async with await perdure.aopen(":memory:") as other:
        with closing(FORMS[form](path)) as source:
            assert await other.blobs.put(source) == ref
        assert await other.blobs.get(ref) == BIG


def test_bytes_that_were_let_go_are_refused(db: perdure.Perdure) -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(errors.Invalid, match="cannot be read"):
        db.blobs.put(view)


def test_a_pipe_by_its_name_is_refused_instead_of_waited_for(db: perdure.Perdure, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(errors.Invalid, match="a pipe or a device"):
            db.blobs.put(endless)


@contextmanager
def closing(source: Any) -> Iterator[Any]:
    yield source
    if hasattr(source, "close"):
        source.close()


async def test_content_may_come_from_an_async_iterator() -> None:
    async def pieces() -> Any:
        yield BIG[:100]
        yield BIG[100:]

    async with await perdure.aopen(":memory:") as db:
        ref = await db.blobs.put(pieces())
        reader = await db.blobs.open(ref)
        assert b"".join([piece async for piece in reader]) == BIG
        async with await db.blobs.open(ref) as reader:
            assert (reader.size, await reader.read(3), reader.tell()) == (len(BIG), BIG[:3], 3)


@pytest.mark.parametrize("source", [None, 5, 5.0, {}, {b"x"}, object(), True, Path("nowhere") / "at all", "\0", ""])
def test_what_is_no_content_is_refused(db: perdure.Perdure, source: Any) -> None:
    with pytest.raises((errors.Invalid, errors.NotFound)):
        db.blobs.put(source)
    assert db.blobs.list().items == ()


def test_a_folder_and_a_text_file_are_no_content(db: perdure.Perdure, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("words")
    with pytest.raises(errors.WorldError):
        db.blobs.put(tmp_path)
    with (tmp_path / "text.txt").open() as file, pytest.raises(errors.Invalid, match="binary mode"):
        db.blobs.put(file)


def test_a_name_tells_the_media_type(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(b"not really")
    info = db.blobs.stat(db.blobs.put(path))
    assert (info.name, info.media_type) == ("photo.png", "image/png")
    info = db.blobs.stat(
        db.blobs.put(b"other", name="table.csv", media_type="text/tab-separated-values; charset=utf-8")
    )
    assert (info.name, info.media_type) == ("table.csv", "text/tab-separated-values; charset=utf-8")
    info = db.blobs.stat(db.blobs.put(b"third"))
    assert (info.name, info.media_type) == ("", "application/octet-stream")


@pytest.mark.parametrize(
    "words",
    [
        {"name": "x" * 256},
        {"name": 5},
        {"name": "\ud800"},
        {"media_type": "png"},
        {"media_type": "image/png\r\nx: y"},
        {"media_type": "a/" + "b" * 300},
        {"media_type": 5},
        {"replace": 1},
        {"progress": "often"},
    ],
)
def test_words_that_cannot_be_kept_are_refused(db: perdure.Perdure, words: dict[str, Any]) -> None:
    with pytest.raises(errors.Invalid):
        db.blobs.put(b"content", **words)
    assert db.blobs.list().items == ()


def test_a_blob_is_a_file_like_any(db: perdure.Perdure) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", "hello")
        archive.writestr("b.bin", BIG)
    ref = db.blobs.put(packed.getvalue())
    with db.blobs.open(ref) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a.txt") == b"hello"
        assert archive.read("b.bin") == BIG
    file = db.blobs.open(db.blobs.put(b"one\ntwo\nthree"))
    assert (file.readline(), file.read(2), file.tell(), file.readlines()) == (b"one\n", b"tw", 6, [b"o\n", b"three"])
    assert (file.seek(-5, os.SEEK_END), file.read(), file.read()) == (8, b"three", b"")
    with pytest.raises(UnsupportedOperation):
        file.write(b"no")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_a_session_attaches_and_points(db: perdure.Perdure) -> None:
    session = db.create("with a picture")
    with session.turn("what is this?") as turn:
        ref = session.attach(BIG, media_type="image/png", name="cat.png")
        turn.say("user", ["look", {"type": "image", "source": ref}])
        turn.answer("a cat")
    shown = session.turns()[0].messages[1].content
    assert db.blobs.get(shown[1]["source"]) == BIG
    assert db.blobs.stat(ref).used
    session.erase()
    with pytest.raises(errors.NotFound):
        session.attach(b"too late")
    assert db.blobs.collect(timedelta(0)).blobs == 1


@pytest.mark.parametrize("grace", [timedelta(days=-1), -1, "1h", float("nan"), float("inf"), True, [1]])
def test_a_grace_that_is_none_is_refused(db: perdure.Perdure, grace: Any) -> None:
    with pytest.raises(errors.Invalid, match="grace"):
        db.blobs.collect(grace)


def test_without_a_word_the_grace_is_a_day(db: perdure.Perdure) -> None:
    db.blobs.put(b"young")
    assert db.blobs.collect().blobs == db.blobs.collect(60).blobs == 0
    assert db.blobs.collect(0.0).blobs == 1


@pytest.mark.parametrize("limit", [-1, "5", None, 1.5])
def test_a_limit_that_is_none_is_refused(db: perdure.Perdure, limit: Any) -> None:
    ref = db.blobs.put(b"x")
    with pytest.raises(errors.Invalid):
        db.blobs.get(ref, limit=limit)


# ── from store to store ──


def test_a_sessions_blobs_travel_in_a_folder(db: perdure.Perdure, tmp_path: Path) -> None:
    session = db.create("travelling")
    first, second = session.attach(BIG, name="big.bin"), session.attach(b"", media_type="text/plain")
    session.append(ev.Message(role="user", content=[first, second]))
    db.blobs.put(b"of nobody")
    report = db.blobs.export(session.id, tmp_path / "blobs")
    assert (set(report.written), report.missing) == ({first, second}, ())
    assert sorted(path.name for path in (tmp_path / "blobs").iterdir()) == sorted(
        [first.sha256.hex(), second.sha256.hex(), "blobs.jsonl"]
    )
    with perdure.open(":memory:") as other:
        moved = other.import_jsonl(session.export())
        assert set(other.blobs.import_folder(tmp_path / "blobs")) == {first, second}
        assert other.blobs.get(first) == BIG
        assert (other.blobs.stat(first).name, other.blobs.stat(second).media_type) == ("big.bin", "text/plain")
        assert other.blobs.collect(0).blobs == 0
        assert other.verify().ok
        assert other.blobs.export(moved.id, tmp_path / "again").missing == ()


def test_a_folder_with_a_damaged_file_is_refused(db: perdure.Perdure, tmp_path: Path) -> None:
    session = db.create()
    ref = session.attach(BIG)
    session.append(ev.Message(role="user", content=ref))
    db.blobs.export(session.id, tmp_path)
    (tmp_path / ref.sha256.hex()).write_bytes(BIG[:-1])
    with perdure.open(":memory:") as other:
        with pytest.raises(errors.BadExport, match="damaged"):
            other.blobs.import_folder(tmp_path)
        assert other.blobs.list().items == ()
        (tmp_path / "blobs.jsonl").write_text("{}")
        with pytest.raises(errors.BadExport, match="does not parse"):
            other.blobs.import_folder(tmp_path)
        with pytest.raises(errors.NotFound):
            other.blobs.import_folder(tmp_path / "nowhere")


def test_an_export_tells_what_is_missing(db: perdure.Perdure, tmp_path: Path) -> None:
    session = db.create()
    ref = session.attach(BIG)
    session.append(ev.Message(role="user", content=ref))
    with perdure.open(":memory:") as other:
        moved = other.import_jsonl(session.export())
        report = other.blobs.export(moved.id, tmp_path)
        assert (report.written, report.missing) == ((), (ref,))
