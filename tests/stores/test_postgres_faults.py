"""PostgreSQL goes away, connections are cut, processes die: what was acknowledged is there, once and in order."""

import asyncio
import contextlib
import gc
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from perdure.ambient import RealAmbient
from perdure.core.errors import Damaged, DiskFull, NotAStore, ReadOnly, StoreBusy, StorePoisoned, VersionConflict
from perdure.core.session.budget import Account, AccountMove
from perdure.ports.store import Change
from perdure.stores.postgres import PostgresStore
from perdure.stores.postgres.connection import Address, Connections, is_lost, translate
from perdure.stores.postgres.patience import STARTING_SECONDS, Patience
from perdure.testing import Builder, FixedAmbient
from perdure.testing.building import Made, opens, said
from perdure.testing.contract.bringing import head_of, stored
from perdure.testing.contract.looking import BEYOND, grow, put, records_of, verify
from perdure.waiting import Ticket, drive
from tests.stores.postgres_server import Server, address, running, server, shared
from torture.process import ROOT, environment

__all__ = ["address", "server", "shared"]

PURSE = "purse"
COMMIT = b"COMMIT\0"


class Proxy:
    """Stands between clients and the server's socket, and cuts one connection where it is told to."""

    def __init__(self, target: str) -> None:
        self.cuts = 0
        self._target = target
        self._armed: tuple[bytes, bool, Callable[[], object]] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._serve, daemon=True).start()

    def cut(self, at: bytes, *, deliver: bool = True, then: Callable[[], object] = lambda: None) -> None:
        """Cut the next connection whose client says `at`: once the server has answered that, or, without `deliver`,
        before the server hears of it. `then` is called before the client notices.
        """
        self._armed = (at, deliver, then)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        upstream, ready = socket.socket(socket.AF_UNIX), selectors.DefaultSelector()
        with client, upstream, ready, contextlib.suppress(OSError):
            upstream.connect(self._target)
            ready.register(client, selectors.EVENT_READ)
            ready.register(upstream, selectors.EVENT_READ)
            self._relay(client, upstream, ready)

    def _relay(self, client: socket.socket, upstream: socket.socket, ready: selectors.BaseSelector) -> None:
        swallowing: Callable[[], object] | None = None
        while True:
            for key, _ in ready.select():
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                if not data:
                    return
                if key.fileobj is client and self._armed is not None and self._armed[0] in data:
                    (_, deliver, swallowing), self._armed = self._armed, None
                    if not deliver:
                        self._gone(swallowing)
                        return
                if key.fileobj is upstream and swallowing is not None:
                    self._gone(swallowing)
                    return
                (upstream if key.fileobj is client else client).sendall(data)

    def _gone(self, then: Callable[[], object]) -> None:
        self.cuts += 1
        then()

    def close(self) -> None:
        """Take no more clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def make() -> Builder:
    return Builder(RealAmbient())


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.socket)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy: Proxy, address: str) -> Iterator[PostgresStore]:
    """A store that is reached through the proxy."""
    database = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    store = PostgresStore(f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}?sslmode=disable", RealAmbient())
    yield store
    drive(store.close())


def added(store: PostgresStore, *made: Made) -> Made:
    return drive(put(store, *made))


def whole(store: PostgresStore, last: Made) -> None:
    """Check that a log ends with this commit, and has every version once."""
    verify(drive(records_of(store, last)), last)


# ── the answer to a commit is lost ────────────────────────────────────────────────────────────────

CUTS = pytest.mark.parametrize("deliver", [True, False])


@CUTS
def test_an_append_whose_answer_is_lost_is_made_once(
    store: PostgresStore, proxy: Proxy, make: Builder, deliver: bool
) -> None:
    made = added(store, make.create(accounts=opens(PURSE, 100)))
    made = added(store, make.append(made))
    paying = make.append(made, accounts=(AccountMove(account=PURSE, reserve=30),))
    for following in (paying, make.append(paying)):
        proxy.cut(following.digest, deliver=deliver)
        position = drive(store.append([following.commit]))
        assert [change.first for change in drive(store.changes(position - 1, BEYOND))] == [following.version]
        whole(store, following)
    assert proxy.cuts == 2
    assert drive(store.account(PURSE)) == Account(cap=100, reserved=30)


@CUTS
async def test_many_appends_whose_answer_is_lost_are_made_once(
    store: PostgresStore, proxy: Proxy, make: Builder, deliver: bool
) -> None:
    sessions = [make.create() for _ in range(12)]
    await put(store, *sessions)
    proxy.cut(COMMIT, deliver=deliver)
    grown = [make.append(made) for made in sessions]
    positions = await asyncio.gather(*(store.append([made.commit]) for made in grown))
    assert proxy.cuts == 1
    assert len(set(positions)) == 12
    for made in grown:
        verify(await records_of(store, made), made)


@CUTS
def test_a_refusal_is_a_refusal_although_its_answer_is_lost(
    store: PostgresStore, proxy: Proxy, make: Builder, deliver: bool
) -> None:
    made = added(store, make.create())
    last = added(store, *grow(make, made, 3))
    late = make.append(made, said("late"))
    proxy.cut(late.digest, deliver=deliver)
    with pytest.raises(VersionConflict) as refused:
        added(store, late)
    assert refused.value.found == 4
    assert proxy.cuts == 1
    whole(store, last)


@CUTS
def test_other_writes_whose_answer_is_lost_are_made_once(
    store: PostgresStore, proxy: Proxy, make: Builder, deliver: bool
) -> None:
    proxy.cut(COMMIT, deliver=deliver)
    made = added(store, make.create(accounts=opens(PURSE, 100)))
    proxy.cut(COMMIT, deliver=deliver)
    second = added(store, make.append(made, make.mark("here"), accounts=(AccountMove(account=PURSE, reserve=9),)))
    whole(store, second)
    proxy.cut(COMMIT, deliver=deliver)
    assert drive(store.erase(made.session, 1, [AccountMove(account=PURSE, release=4)])) is True
    assert proxy.cuts == 3
    assert drive(store.account(PURSE)) == Account(cap=100, reserved=5)
    assert [change.erased for change in drive(store.changes(0, BEYOND))] == [True]


@pytest.mark.slow
def test_a_commit_lost_in_a_crash_is_not_taken_for_that_of_another(make: Builder) -> None:
    with running() as server:
        proxy = Proxy(server.socket)
        lossy = PostgresStore(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable", RealAmbient())
        other = PostgresStore(server.address("postgres"), RealAmbient())
        made = make.create()

        def crash() -> None:  # PostgreSQL gives the transaction id of what was lost to whoever comes next
            server.crash()
            added(other, make.create())

        proxy.cut(COMMIT, deliver=False, then=crash)
        whole(lossy, added(lossy, made))
        assert proxy.cuts == 1
        assert len(drive(lossy.changes(0, BEYOND))) == 2
        drive(lossy.close())
        drive(other.close())
        proxy.close()


def test_a_session_that_was_brought_is_there_although_nobody_heard(
    store: PostgresStore, proxy: Proxy, make: Builder
) -> None:
    made = make.create()
    log = [made, *grow(make, made, 5)]
    proxy.cut(COMMIT)
    drive(store.bring(head_of(log[-1]), stored(log), None))
    whole(store, log[-1])
    assert proxy.cuts == 1


def test_a_session_that_was_lost_on_its_way_in_is_not_there_at_all(
    store: PostgresStore, proxy: Proxy, make: Builder
) -> None:
    made = make.create()
    log = [made, *grow(make, made, 5)]
    proxy.cut(COMMIT, deliver=False)
    with pytest.raises(StoreBusy):
        drive(store.bring(head_of(log[-1]), stored(log), None))
    assert drive(store.head(made.session)) is None
    drive(store.bring(head_of(log[-1]), stored(log), None))
    whole(store, log[-1])


def test_an_append_that_was_pruned_before_anyone_could_ask_is_reported_as_unknown(
    store: PostgresStore, proxy: Proxy, make: Builder, address: str
) -> None:
    made = added(store, make.create())
    second = make.append(made)
    other = PostgresStore(address, RealAmbient())

    def prune() -> None:
        added(other, make.append(second))
        drive(other.prune(made.session, second.version, second.digest, second.snapshot))

    proxy.cut(second.digest, then=prune)
    with pytest.raises(StoreBusy) as refused:
        added(store, second)
    assert refused.value.outcome == "unknown"
    drive(other.close())


@pytest.mark.slow
def test_a_write_whose_answer_is_lost_in_a_failover_is_made_once(make: Builder) -> None:
    settings = "-c max_connections=50 -c synchronous_standby_names=standby -c wal_retrieve_retry_interval=100ms"
    for work in ("append", "erase"):
        with running(settings) as primary, running(create=False) as standby:
            standby.follow(primary)
            standby.start()
            proxy = Proxy(primary.socket)
            hosts = f"host=127.0.0.1,{standby.folder}&port={proxy.port},5432&sslmode=disable"
            store = PostgresStore(f"postgresql://postgres@/postgres?{hosts}", RealAmbient())
            made = added(store, make.create())

            def fail_over(primary: Server = primary, standby: Server = standby) -> None:
                primary.stop("immediate")
                with psycopg.connect(standby.address("postgres"), autocommit=True) as connection:
                    connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
                    connection.execute("SELECT pg_reload_conf()")
                standby.promote()

            if work == "append":
                following = make.append(made)
                proxy.cut(following.digest, then=fail_over)
                whole(store, added(store, following))
            else:
                proxy.cut(COMMIT, then=fail_over)
                assert drive(store.erase(made.session, 1)) is True
                assert drive(store.head(made.session)) is None
            assert proxy.cuts == 1
            drive(store.close())
            proxy.close()


# ── the server crashes ────────────────────────────────────────────────────────────────────────────


class Writing:
    """Sessions that grow until they are told to stop. Whatever `append` returned for is in `acknowledged`."""

    def __init__(self, make: Builder, store: PostgresStore) -> None:
        self._make = make
        self._store = store
        self.stop = Event()
        self.acknowledged: list[Made] = []

    async def grow(self, made: Made) -> None:
        """Append until told to stop, and keep what was acknowledged last."""
        await self._store.append([made.commit])
        while not self.stop.is_set():
            following = self._make.append(made, said(f"{made.version}"))
            await self._store.append([following.commit])
            made = following
        self.acknowledged.append(made)


def started(server: Server) -> Any:
    """When the server was started last: it tells that a crash has happened."""
    with psycopg.connect(server.address("postgres")) as connection:
        return connection.execute("SELECT pg_postmaster_start_time()").fetchone()


@pytest.mark.slow
def test_a_server_that_crashes_under_writers_loses_and_doubles_nothing(make: Builder) -> None:
    with running() as server:
        here = server.address("postgres")
        stores = [PostgresStore(here, RealAmbient()) for _ in range(2)]
        writing = [Writing(make, store) for store in stores]

        async def many() -> None:
            await asyncio.gather(*(writing[0].grow(make.create()) for _ in range(8)))

        threads = [Thread(target=lambda: asyncio.run(many()))]
        threads += [Thread(target=lambda: drive(writing[1].grow(make.create()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        starts = {started(server)}
        for _ in range(3):
            before = drive(stores[0].position())
            while drive(stores[0].position()) < before + 30:
                continue
            server.crash()
            starts.add(started(server))
        for item in writing:
            item.stop.set()
        for thread in threads:
            thread.join(60)
        assert len(starts) == 4
        last = [made for item in writing for made in item.acknowledged]
        assert len(last) == 11
        for made in last:
            whole(stores[0], made)
        told = drive(stores[0].changes(0, BEYOND))
        assert len({(change.session, change.first) for change in told}) == len(told)
        assert len(told) == sum(made.version for made in last)
        for store in stores:
            drive(store.close())


@pytest.mark.slow
def test_a_watcher_survives_a_crash_and_hears_everything_once(make: Builder) -> None:
    with running() as server:
        here = server.address("postgres")
        writer, watcher = PostgresStore(here, RealAmbient()), PostgresStore(here, RealAmbient())
        heard: list[Change] = []

        async def listen() -> None:
            async for change in watcher.watch(0):
                heard.append(change)
                if change.first == 60:
                    return

        thread = Thread(target=lambda: drive(listen()))
        thread.start()
        made = added(writer, make.create())
        starts = {started(server)}
        for number, following in enumerate(grow(make, made, 59)):
            added(writer, following)
            if number in (20, 40):
                server.crash()
                starts.add(started(server))
        thread.join(60)
        assert len(starts) == 3
        assert [change.first for change in heard] == list(range(1, 61))
        assert tuple(heard) == drive(writer.changes(0, BEYOND))
        drive(writer.close())
        drive(watcher.close())


@pytest.mark.slow
def test_a_server_that_stays_away_is_given_up_and_found_again(make: Builder) -> None:
    with running() as server:
        store = PostgresStore(server.address("postgres"), RealAmbient(), patience=0.3)
        made = added(store, make.create())
        server.stop("immediate")
        following = make.append(made)
        for work in (lambda: added(store, following), lambda: drive(store.head(made.session))):
            with pytest.raises(StoreBusy):
                work()
        server.start()
        whole(store, added(store, following))
        drive(store.close())


# ── processes ─────────────────────────────────────────────────────────────────────────────────────

BEGIN = """
import gc, os, signal, sys, threading, time
from perdure.ambient import RealAmbient
from perdure.stores.postgres import PostgresStore
from perdure.testing import Builder
from perdure.testing.building import said
from perdure.testing.contract.looking import grow, put, records_of, verify
from perdure.waiting import drive
store, make = PostgresStore(sys.argv[1], RealAmbient()), Builder(RealAmbient())
"""

GROWING = """
made = make.create()
while True:
    drive(store.append([made.commit]))
    print(made.session, made.version, made.digest.hex(), flush=True)
    made = make.append(made, said(str(made.version)))
"""


def script(text: str, here: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", BEGIN + text, here]


@pytest.mark.slow
def test_a_killed_client_loses_nothing_it_was_told_of(address: str) -> None:
    store = PostgresStore(address, RealAmbient())
    for limit in (3, 10, 40):
        command = script(GROWING, address)
        with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            acknowledged = [child.stdout.readline().split() for _ in range(limit)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [line.split() for line in child.stdout if line.endswith("\n")]
        assert child.returncode == -signal.SIGKILL
        session = Builder(RealAmbient()).create(session=acknowledged[0][0])
        kept = drive(records_of(store, session))
        assert [item.record.first for item in kept] == list(range(1, len(kept) + 1))
        assert len(acknowledged) <= len(kept) <= len(acknowledged) + 1
        assert [item.digest.hex() for item in kept[: len(acknowledged)]] == [line[2] for line in acknowledged]
    drive(store.close())


def test_a_stale_version_names_what_another_process_wrote(address: str, make: Builder) -> None:
    store = PostgresStore(address, RealAmbient())
    work = "made = make.create()\ndrive(put(store, made, *grow(make, made, 4)))\nprint(made.session)"
    command = script(work, address)
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True, timeout=60)
    stale = make.append(make.create(session=done.stdout.strip()))
    with pytest.raises(VersionConflict) as refused:
        drive(store.append([stale.commit]))
    assert refused.value.found == 5
    drive(store.close())


FORKING = """
made = make.create()
drive(put(store, made))
stop = threading.Event()
busy = make.create()
def write():
    made = busy
    while not stop.is_set():
        drive(store.append([made.commit]))
        made = make.append(made)
    return
thread = threading.Thread(target=write)
thread.start()
def work(number):
    mine = Builder(RealAmbient())
    created = mine.create()
    last = drive(put(store, created, *grow(mine, created, 3)))
    verify(drive(records_of(store, created)), last)
    gc.collect()
    if number % 2: drive(store.close())
for number in range(6):
    child = os.fork()
    if not child:
        try: work(number)
        except BaseException as error:
            print("child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    made = make.append(made)
    drive(put(store, made))
    until = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            print("child: hung", flush=True)
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
stop.set()
thread.join()
verify(drive(records_of(store, made)), made)
assert len(drive(store.changes(0, 1 << 30))) > 6 * 4 + 7
drive(store.close())
"""


@pytest.mark.slow
def test_parent_and_children_write_on_after_forks(address: str) -> None:
    done = subprocess.run(
        script(FORKING, address), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


INTERRUPTED = """
from perdure.core.errors import VersionConflict
made = drive(put(store, make.create()))
struck = 0
def strike(*_):
    global struck
    struck += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, strike)
sys.unraisablehook = lambda _: None  # one that strikes a destructor is swallowed by the interpreter, with a word on it
other, stop = make.create(), threading.Event()
def write():
    global other
    drive(store.append([other.commit]))
    while not stop.is_set():
        following = make.append(other)
        drive(store.append([following.commit]))
        other = following
thread = threading.Thread(target=write, daemon=True)
thread.start()
begun = {}
def go_on():
    # What an interrupted call began may yet be made; then it is one of these, and nobody else's.
    global made
    following = make.append(made)
    begun[following.digest] = following
    try:
        drive(store.append([following.commit]))
    except VersionConflict:
        following = begun[drive(store.head(made.session)).row.digest]
    made = following
for number in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0001 * number)
        while struck == number: go_on()
    except KeyboardInterrupt:
        continue
go_on()
stop.set()
thread.join(30)
assert not thread.is_alive()
assert struck == 60
for last in (made, other): verify(drive(records_of(store, last)), last)
drive(store.close())
gc.collect()
assert not list(store._connections._open)
"""


def test_an_interrupted_call_leaves_the_others_and_the_store_whole(address: str) -> None:
    done = subprocess.run(
        script(INTERRUPTED, address),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")
def test_a_connection_that_an_interrupt_took_away_does_not_stay_open(shared: str) -> None:
    class Struck:
        """A lock; just as it is left, an interrupt strikes."""

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            raise KeyboardInterrupt

    connections = Connections(Address(shared, read_only=True), read_only=True)
    name = connections.connect().info.backend_pid  # nobody took it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "_lock", Struck())
        with pytest.raises(KeyboardInterrupt):
            connections.connect()
    gc.collect()
    assert list(connections._open) == []
    kept = connections.connect()
    assert kept.info.backend_pid != name
    assert list(connections._open) == [kept]
    connections.drop(kept)
    assert list(connections._open) == []
    assert kept.closed


def test_a_driver_that_an_interrupt_confused_is_done_without() -> None:
    alive: Any = SimpleNamespace(closed=False, broken=False)
    assert is_lost(psycopg.OperationalError("cannot exit pipeline mode while busy"), alive)
    assert not is_lost(psycopg.errors.DiskFull("no space left"), alive), "that is the server's word"


# ── what the engine's errors mean ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("53100", DiskFull),
        ("25006", ReadOnly),
        ("42501", ReadOnly),
        ("55P03", StoreBusy),
        ("57014", StoreBusy),
        ("53300", StoreBusy),
        ("42P01", NotAStore),
        ("XX001", Damaged),
        ("58030", StorePoisoned),
    ],
)
def test_an_error_of_the_engine_says_what_to_do(code: str, meaning: type[Exception]) -> None:
    found = translate(psycopg.errors.lookup(code)("reason"), "postgresql://here/there")
    assert type(found) is meaning
    assert "postgresql://here/there" in found.message


def waited(message: str, patience: float) -> float:
    """How long a caller waits in all for a server that keeps on saying this."""
    total = 0.0

    class Counting(Ticket[None]):
        def wait(self, timeout: float = -1) -> bool:
            nonlocal total
            total += timeout
            return False

    waiting = Patience(patience, FixedAmbient(), Counting())
    while waiting.lasts(psycopg.OperationalError(message)):
        pass
    return total


def test_a_server_that_recovers_is_waited_for_even_by_whoever_has_little_patience() -> None:
    recovering = "connection failed: FATAL:  the database system is not yet accepting connections"
    assert waited("connection refused", 5.0) == pytest.approx(5.0)
    assert waited(recovering, 5.0) == pytest.approx(STARTING_SECONDS)
    assert waited(recovering, 90.0) == pytest.approx(90.0)
