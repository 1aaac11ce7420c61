"""The PostgreSQL store keeps the whole contract, sealed and not; and what only this engine has to prove."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.core.errors import (
    BudgetExhausted,
    Invalid,
    KeyMissing,
    NewerStore,
    NotAStore,
    ReadOnly,
    StoreBusy,
    VersionConflict,
)
from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Change, Query, Store
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keyring import Keyring
from perdure.stores.postgres import PostgresStore
from perdure.stores.postgres.preparing import FORMAT
from perdure.stores.postgres.texts import kept, told
from perdure.testing import BlobContract, Builder, FixedAmbient, StoreContract
from perdure.testing.building import Made, said
from perdure.testing.contract.looking import BEYOND, TENANT, grow, hear, names, put, records_of
from perdure.waiting import drive
from tests.stores.postgres_server import Server, address, bare, running, server, shared

__all__ = ["address", "bare", "server", "shared"]

PLANTED = "planted-marker"


def keyring(folder: Path) -> Keyring:
    """The keyring of the store under test, opened anew."""
    ambient = FixedAmbient()
    masters, _ = KeyFile.make(str(folder / "master"), ambient)
    return Keyring(masters, FileVault(str(folder / "vault"), ambient, create=True), ambient)


class Clear:
    """A store in the clear."""

    @pytest.fixture
    async def store(self, address: str, tmp_path: Path) -> AsyncIterator[Store]:
        self.address, self.folder = address, tmp_path
        store = PostgresStore(address, FixedAmbient(), seal=self.seal())
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return PostgresStore(self.address, FixedAmbient(), seal=self.seal())

    def seal(self) -> Seal:
        return CLEAR


class Sealed(Clear):
    """The same, sealed."""

    @pytest.fixture
    def address(self, bare: str) -> str:
        return bare

    def seal(self) -> Seal:
        return keyring(self.folder)


class TestPostgres(Clear, StoreContract):
    pass


class TestSealedPostgres(Sealed, StoreContract):
    pass


class TestPostgresBlobs(Clear, BlobContract):
    pass


class TestSealedPostgresBlobs(Sealed, BlobContract):
    pass


# ── the store as a caller without an event loop sees it ───────────────────────────────────────────


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    store = PostgresStore(address, FixedAmbient())
    yield store
    drive(store.close())


@pytest.fixture
def other(store: PostgresStore, address: str) -> Iterator[PostgresStore]:
    """The same database, as another process would open it."""
    other = PostgresStore(address, FixedAmbient())
    yield other
    drive(other.close())


def added(store: PostgresStore, *made: Made) -> Made:
    return drive(put(store, *made))


def test_it_works_without_an_event_loop(store: PostgresStore, make: Builder) -> None:
    made = added(store, make.create(said("a word"), title="blocking"))
    assert drive(store.find(Query(tenant=TENANT, text="word"))) == (made.commit.row,)
    assert drive(store.head(made.session)) is not None


def test_threads_that_append_to_one_session_lose_nothing(store: PostgresStore, make: Builder) -> None:
    latest = [added(store, make.create())]

    def append_ten() -> None:
        done = 0
        while done < 10:
            following = make.append(latest[0])
            try:
                drive(store.append([following.commit]))
            except VersionConflict:
                continue
            latest[0] = following
            done += 1

    threads = [Thread(target=append_ten) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stored = drive(records_of(store, latest[0]))
    assert [item.record.first for item in stored] == list(range(1, 42))


def test_a_stale_append_names_the_version_another_process_reached(
    store: PostgresStore, other: PostgresStore, make: Builder
) -> None:
    made = added(store, make.create())
    added(other, *grow(make, made, 3))
    with pytest.raises(VersionConflict) as refused:
        added(store, make.append(made))
    assert (refused.value.expected, refused.value.found) == (1, 4)


async def test_a_refusal_undoes_nothing_of_what_is_committed_with_it(address: str) -> None:
    make, store = Builder(FixedAmbient()), PostgresStore(address, FixedAmbient())
    sessions = [make.create() for _ in range(20)]
    await put(store, *sessions)
    stale = make.append(sessions[0], said("stale"))
    await put(store, make.append(sessions[0]))
    work: list[Any] = [store.append([make.append(made).commit]) for made in sessions[1:]]
    work.insert(10, store.append([stale.commit]))
    work.insert(5, store.erase(make.create().session, 1))
    work.insert(0, store.append([make.create(session=sessions[1].session).commit]))
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    refused = [type(outcome).__name__ for outcome in outcomes if isinstance(outcome, Exception)]
    assert sorted(refused) == ["AlreadyExists", "VersionConflict"]
    assert [(await store.run(made.session, after=0, upto=9, limit=9)).records[-1].record.last for made in sessions] == [
        2
    ] * 20
    await store.close()


def test_a_watcher_hears_of_what_another_process_commits(
    store: PostgresStore, other: PostgresStore, make: Builder
) -> None:
    async def listen() -> list[Change]:
        heard: list[Change] = []
        async for change in store.watch(0):
            heard.append(change)
            if len(heard) == 12:
                break
        return heard

    heard: list[Change] = []
    thread = Thread(target=lambda: heard.extend(drive(listen())))
    thread.start()
    made = added(other, make.create())
    added(other, *grow(make, made, 11))
    thread.join(60)
    assert [change.first for change in heard] == list(range(1, 13))


async def test_a_watcher_misses_nothing_where_no_notification_comes(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.stores.postgres.listening.ask", lambda connection, statement: None)
    make = Builder(FixedAmbient())
    store, other = (PostgresStore(address, FixedAmbient()) for _ in range(2))
    watching = store.watch(0)
    waiting = asyncio.ensure_future(hear(watching, 6))
    made = await put(other, make.create())
    await put(other, *grow(make, made, 5))
    assert [change.first for change in await waiting] == [1, 2, 3, 4, 5, 6]
    await watching.aclose()
    await store.close()
    await other.close()


async def test_positions_are_seen_in_order_though_processes_commit_at_once(address: str) -> None:
    make, stores = Builder(FixedAmbient()), [PostgresStore(address, FixedAmbient()) for _ in range(4)]
    watched: list[int] = []

    async def look() -> None:
        after = 0
        while len(watched) < 80:
            for change in await stores[0].changes(after, BEYOND):
                after = change.position
                watched.append(after)

    async def write(store: PostgresStore) -> None:
        for _ in range(20):
            await put(store, make.create())

    await asyncio.wait_for(asyncio.gather(look(), *map(write, stores)), 60)
    told = await stores[0].changes(0, BEYOND)
    assert watched == [change.position for change in told] == sorted(watched)
    for store in stores:
        await store.close()


def test_a_long_log_that_comes_in_slowly_holds_nobody_up(
    store: PostgresStore, other: PostgresStore, make: Builder
) -> None:
    from perdure.testing.contract.bringing import head_of, stored

    made = make.create(said("brought"))
    log = [made, *grow(make, made, 5)]
    meanwhile = make.create()

    def slowly() -> Iterator[Any]:
        for index, item in enumerate(stored(log)):
            if index == 3:
                added(other, meanwhile)
                added(other, make.append(meanwhile))
            yield item

    drive(store.bring(head_of(log[-1]), slowly(), None))
    told = [(change.session, change.first) for change in drive(store.changes(0, BEYOND))]
    own = [(made.session, item.commit.record.first) for item in log]
    assert told == [(meanwhile.session, 1), (meanwhile.session, 2), *own]
    assert drive(names(store, text="brought")) == [made.session]


# ── money: the database and the core count the same ───────────────────────────────────────────────

amounts = st.integers(0, 120)
moves = st.lists(
    st.builds(
        AccountMove,
        account=st.sampled_from(["a", "b"]),
        reserve=amounts,
        release=amounts,
        spend=amounts,
        cap=st.none() | st.integers(0, 300),
        sets_cap=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(appends=st.lists(moves, min_size=1, max_size=6))
def test_the_database_moves_money_as_the_core_does(
    store: PostgresStore, make: Builder, appends: list[list[AccountMove]]
) -> None:
    made = make.create()
    added(store, made)
    suffix = made.session
    accounts: dict[str, Account] = {}
    for group in appends:
        named = tuple(replace(move, account=move.account + suffix) for move in group)
        following = make.append(made, accounts=named)
        changed, refusal = dict(accounts), None
        try:
            for move in named:
                changed[move.account] = budget.apply(changed.get(move.account, Account()), move)
        except BudgetExhausted as refused:
            refusal = refused
        if refusal is None:
            made, accounts = added(store, following), changed
        else:
            with pytest.raises(BudgetExhausted) as said_no:
                added(store, following)
            assert said_no.value.fields == refusal.fields
        for name, account in accounts.items():
            assert drive(store.account(name)) == account


# ── odd text ──────────────────────────────────────────────────────────────────────────────────────


@given(st.text(alphabet=st.sampled_from("\0\x1a01ab")) | st.text())
def test_any_text_is_told_as_it_was_kept(text: str) -> None:
    assert told(kept(text)) == text
    assert "\0" not in kept(text)


ODD = "\0\x1a0\x1a\U0001f600"


def test_odd_and_long_text_is_kept_wherever_a_caller_may_put_it(store: PostgresStore, make: Builder) -> None:
    long = "ß" * 20_000 + ODD
    made = make.create(
        said("y" * 50_000),
        owner=long,
        title=long,
        tags=(long,),
        metadata={ODD: long, "n": [ODD, {ODD: 1}]},
        accounts=(AccountMove(account=long, cap=5, sets_cap=True),),
        tenant=ODD,
    )
    marked = make.append(made, make.mark(label=ODD))
    added(store, made, marked)
    added(store, make.append(marked, accounts=(AccountMove(account=long, reserve=2),)))
    query: dict[str, Any] = {"tenant": ODD, "owner": long, "title": ODD + "", "tags": (long,)}
    (row,) = drive(store.find(Query(**query, metadata={ODD: long}, text="y" * 50_000)))
    assert (row.owner, row.title, row.tags, row.tenant) == (long, long, (long,), ODD)
    assert row.metadata == {ODD: long, "n": [ODD, {ODD: 1}]}
    assert drive(store.account(long)) == Account(cap=5, reserved=2)
    assert drive(store.checkpoints(made.session))[0].label == ODD
    assert drive(store.checkpoint(ODD)) is None


# ── titles ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sealed", [False, True])
async def test_a_title_is_found_over_many_pages_in_order(
    bare: str, tmp_path: Path, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.stores.postgres.finding.PAGE", 3)
    ambient = FixedAmbient()
    make = Builder(ambient)
    store = PostgresStore(bare, ambient, seal=keyring(tmp_path) if sealed else CLEAR)
    wanted = []
    for number in range(20):
        made = await put(store, make.create(title="Ärger" if number % 3 else "Ruhe"))
        ambient.advance(1)
        if number % 3:
            wanted.insert(0, made)
    assert await names(store, title="ärGER", limit=50) == [made.session for made in wanted]
    assert await store.count(Query(tenant=TENANT, title="ärger")) == len(wanted)
    third = wanted[2].commit.row
    rest = await names(store, title="ärger", limit=4, after=(third.created_at, third.session))
    assert rest == [made.session for made in wanted[3:7]]
    await store.close()


# ── sealing: nothing to read ──────────────────────────────────────────────────────────────────────


async def test_no_content_of_a_sealed_store_is_in_the_database_in_the_clear(bare: str, tmp_path: Path) -> None:
    make = Builder(FixedAmbient())
    store = PostgresStore(bare, FixedAmbient(), seal=keyring(tmp_path))
    made = make.create(said(PLANTED), title=PLANTED, tags=(PLANTED,), metadata={PLANTED: PLANTED})
    await put(store, made, make.append(made, make.mark(PLANTED, metadata={"m": PLANTED})))
    await store.save_snapshot(made.session, made.snapshot)
    assert await names(store, text=PLANTED, title=PLANTED, tags=(PLANTED,)) == [made.session]
    await store.close()
    with psycopg.connect(bare) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'perdure'").fetchall()
        everything = "".join(
            str(connection.execute(f"SELECT string_agg(t::text, '') FROM perdure.{name} AS t").fetchone())
            for (name,) in tables
        )
    assert made.session in everything
    assert PLANTED not in everything
    assert PLANTED.encode().hex() not in everything


async def test_a_sealed_store_is_not_opened_without_its_keys(bare: str, tmp_path: Path) -> None:
    await PostgresStore(bare, FixedAmbient(), seal=keyring(tmp_path)).close()
    with pytest.raises(KeyMissing):
        PostgresStore(bare, FixedAmbient())


# ── what is there when it is opened ───────────────────────────────────────────────────────────────


async def test_many_may_open_a_new_store_at_once(bare: str) -> None:
    opened = await asyncio.gather(*(asyncio.to_thread(PostgresStore, bare, FixedAmbient()) for _ in range(6)))
    make = Builder(FixedAmbient())
    for store in opened:
        await put(store, make.create())
    assert await opened[0].count(Query(tenant=TENANT)) == 6
    for store in opened:
        await store.close()


@pytest.mark.parametrize(
    "something",
    [
        "CREATE TABLE perdure.widget (n int)",
        "CREATE TABLE perdure.setting (n int)",
        "CREATE TABLE perdure.setting (name text, value text)",
    ],
)
def test_a_schema_that_is_something_else_is_left_alone(bare: str, something: str) -> None:
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA perdure")
        connection.execute(something)
    for read_only in (False, True):
        with pytest.raises(NotAStore):
            PostgresStore(bare, FixedAmbient(), read_only=read_only)


def test_a_newer_store_is_refused(store: PostgresStore, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE perdure.setting SET value = %s WHERE name = 'format'", (str(FORMAT + 1),))
    with pytest.raises(NewerStore) as refused:
        PostgresStore(address, FixedAmbient())
    assert (refused.value.found, refused.value.supported) == (FORMAT + 1, FORMAT)


def test_a_database_that_cannot_hold_every_text_is_refused(server: Server) -> None:
    with psycopg.connect(server.address("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(NotAStore, match="UTF8"):
        PostgresStore(server.address("latin"), FixedAmbient())


def test_a_database_without_a_store_is_not_made_one_by_reading(bare: str) -> None:
    with pytest.raises(NotAStore):
        PostgresStore(bare, FixedAmbient(), read_only=True)
    with psycopg.connect(bare) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'perdure'").fetchone() is None


def test_a_store_opened_read_only_reads_and_never_writes(store: PostgresStore, address: str, make: Builder) -> None:
    made = added(store, make.create(said("word")))
    reading = PostgresStore(address, FixedAmbient(), read_only=True)
    with pytest.raises(ReadOnly):
        drive(reading.find(Query(tenant=TENANT, text="word")))
    assert drive(names(store, text="word")) == drive(names(reading, text="word")) == [made.session]
    for work in (
        reading.append([make.append(made).commit]),
        reading.erase(made.session, 1),
        reading.save_snapshot(made.session, made.snapshot),
        reading.thaw(made.session, ()),
    ):
        with pytest.raises(ReadOnly):
            drive(work)
    drive(reading.close())


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreBusy) as refused:
        PostgresStore("postgresql://me:hush@127.0.0.1:1/there", FixedAmbient(), patience=0.1)
    assert "127.0.0.1:1/there" in refused.value.message
    assert "hush" not in str(refused.value) + str(refused.value.fields)


def test_a_database_that_is_not_there_is_reported_at_once(server: Server) -> None:
    with pytest.raises(NotAStore, match="createdb nowhere"):
        PostgresStore(server.address("nowhere"), FixedAmbient(), patience=3600)


def test_what_is_no_address_is_invalid() -> None:
    with pytest.raises(Invalid):
        PostgresStore("postgresql://[", FixedAmbient())


def test_of_several_hosts_the_one_that_can_be_written_is_used(server: Server, address: str, make: Builder) -> None:
    database = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    store = PostgresStore(
        f"postgresql://postgres@/{database}?host=127.0.0.1,{server.folder}&port=1,5432", FixedAmbient()
    )
    made = added(store, make.create())
    assert drive(store.head(made.session)) is not None
    drive(store.close())


def test_commits_are_durable_whatever_the_server_does_by_default(address: str, make: Builder) -> None:
    asking = address + "&options=-c%20synchronous_commit%3Doff%20-c%20default_transaction_isolation%3Dserializable"
    store = PostgresStore(asking, FixedAmbient())
    assert drive(store.inspect())["synchronous_commit"] == "on"
    added(store, make.create())
    drive(store.close())


def test_the_facts_tell_of_the_server(store: PostgresStore, make: Builder) -> None:
    added(store, make.create())
    facts = drive(store.inspect())
    wanted = {"engine": "postgres", "format": FORMAT, "sessions": 1, "records": 1, "orphans": 0, "fsync": "on"}
    assert {name: facts[name] for name in wanted} == wanted
    assert facts["bytes"] > 0
    assert (facts["standby"], facts["synchronous_standbys"]) == (False, 0)


def test_other_tools_find_the_columns_they_expect(store: PostgresStore, address: str, make: Builder) -> None:
    made = added(store, make.create(owner="ada", metadata={"team": "red", "n": 1}))
    drive(store.save_snapshot(made.session, made.snapshot))
    with psycopg.connect(address) as connection:
        found = connection.execute(
            "SELECT session_id::text, schema_version, state_version, snapshot_version, checksum, lifecycle_phase, "
            "owner_id, extract(epoch FROM created_at) * 1000000, metadata FROM perdure.sessions "
            'WHERE metadata @> \'{"team": "red"}\''
        ).fetchone()
    row = made.commit.row
    assert found == (
        *(row.session, row.schema_version, 1, 1, made.snapshot.sha, "init", "ada", row.created_at),
        {"team": "red", "n": 1},
    )


GRANTS = """
DROP ROLE IF EXISTS modest;
CREATE ROLE modest LOGIN;
GRANT USAGE ON SCHEMA perdure TO modest;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure TO modest;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA perdure TO modest;
"""


def test_a_role_needs_no_more_than_to_read_and_write_the_tables(bare: str, make: Builder) -> None:
    from perdure.testing.contract.bringing import head_of, stored

    drive(PostgresStore(bare, FixedAmbient()).close())
    modest = bare.replace("postgres@", "modest@")
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute(GRANTS)
    store = PostgresStore(modest, FixedAmbient())
    made, brought = make.create(said("word")), make.create()
    added(store, made, make.append(made, accounts=(AccountMove(account="a", spend=1),)))
    drive(store.bring(head_of(brought), stored([brought]), None))
    assert drive(names(store, text="word")) == [made.session]
    assert drive(store.erase(made.session, 1)) is True
    drive(store.close())
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute("DROP OWNED BY modest; DROP ROLE modest; CREATE ROLE modest LOGIN")
    with pytest.raises(ReadOnly, match="grant"):
        PostgresStore(modest, FixedAmbient())


# ── behind a pooler that mixes sessions up ────────────────────────────────────────────────────────


def test_statements_are_sent_unprepared_once_a_pooler_has_lost_them(store: PostgresStore, make: Builder) -> None:
    made = added(store, make.create())
    made = added(store, *grow(make, made, 8))
    connection = store._writer._connection
    assert connection is not None
    connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")  # so that psycopg does not notice
    made = added(store, *grow(make, made, 3))
    assert store._connections.prepares is False
    assert [item.record.first for item in drive(records_of(store, made))] == list(range(1, 13))


# ── standbys ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_standby_is_read_and_after_its_promotion_written(make: Builder) -> None:
    with running() as primary, running(create=False) as standby:
        store = PostgresStore(primary.address("postgres"), FixedAmbient())
        made = added(store, make.create(title="kept"))
        standby.follow(primary)
        standby.start()
        reading = PostgresStore(standby.address("postgres"), FixedAmbient(), read_only=True)
        assert drive(names(reading, title="kept")) == [made.session]
        assert drive(reading.inspect())["standby"] is True
        drive(reading.close())
        with pytest.raises(ReadOnly):
            PostgresStore(standby.address("postgres"), FixedAmbient(), patience=0.2)
        both = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
        following = PostgresStore(both, FixedAmbient())
        made = added(following, make.append(made))
        primary.stop("immediate")
        standby.promote()
        made = added(following, make.append(made))
        assert [item.record.first for item in drive(records_of(following, made))] == [1, 2, 3]
        drive(following.close())
        drive(store.close())
