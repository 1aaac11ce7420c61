"""R17: heads are signed and kept apart, so a cut tail shows, and so does an older copy in the place of the store."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

import perdure
from perdure import errors, events
from perdure.core.session.ids import raw
from perdure.ports.vault import SignedHead
from perdure.sealing.filevault import FileVault
from perdure.sealing.heads import fault_of, signature, signed_bytes
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keys import Keys
from perdure.services.verifying import Report, StoreReport, Verifying
from perdure.waiting import drive
from tests.sealing.conftest import AMBIENT
from torture.process import ROOT, environment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.filterwarnings("ignore:a new master key")
WORDS = some.text(some.characters(codec="utf-8"), max_size=20)
HEADS = some.builds(
    SignedHead,
    salt=some.binary(min_size=16, max_size=16),
    store=WORDS,
    tenant=WORDS,
    session=some.binary(min_size=16, max_size=16),
    version=some.integers(1, 1 << 40),
    digest=some.binary(min_size=32, max_size=32),
    at=some.integers(0, 1 << 60),
    remark=WORDS,
    mac=some.just(b""),
)
KEYS = some.binary(min_size=32, max_size=32)


# ── the signature ──


def sealed(key: bytes, head: SignedHead) -> SignedHead:
    return msgspec.structs.replace(head, mac=signature(key, head))


@given(KEYS, HEADS)
def test_a_head_is_believed_by_the_key_and_the_store_that_signed_it_alone(key: bytes, head: SignedHead) -> None:
    made = sealed(key, head)
    assert fault_of(key, head.store, made) == ""
    assert "forged" in fault_of(bytes(byte ^ 1 for byte in key), head.store, made)
    assert "another store" in fault_of(key, head.store + "x", made)


@given(KEYS, HEADS, HEADS, some.sampled_from(SignedHead.__struct_fields__[:-1]))
def test_no_field_of_a_head_can_be_changed(key: bytes, head: SignedHead, other: SignedHead, name: str) -> None:
    changed = msgspec.structs.replace(sealed(key, head), **{name: getattr(other, name)})
    assert (fault_of(key, changed.store, changed) == "") == (changed == sealed(key, head))


@given(HEADS, HEADS)
def test_no_two_heads_have_the_same_signed_bytes(one: SignedHead, two: SignedHead) -> None:
    assert (signed_bytes(one) == signed_bytes(two)) == (one == two)


def test_the_signed_bytes_are_those_of_the_format() -> None:
    head = SignedHead(
        salt=bytes(range(16)),
        store="v.m",
        tenant="local",
        session=bytes.fromhex("0192f0c47d1e7abc8def0123456789ab"),
        version=17,
        digest=bytes(range(32)),
        at=1_700_000_000_000_000,
        remark="",
        mac=b"",
    )
    golden = (
        "99ae706572647572652f312f68656164c410000102030405060708090a0b0c0d0e0fa3762e6da56c6f63616cc4100192f0c47d1e7abc8def"
        "0123456789ab11c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fcf00060a24181e4000a0"
    )
    assert signed_bytes(head).hex() == golden
    assert golden in (ROOT / "docs" / "FORMAT.md").read_text("utf-8")
    mac = signature(b"k" * 32, head).hex()
    assert mac in (ROOT / "docs" / "FORMAT.md").read_text("utf-8"), mac


# ── a store somebody was at ──


class Place:
    """A sealed store that can be opened, and reached behind perdure's back."""

    def __init__(self, where: str, sql: Callable[..., list[Any]], schema: str, mark: str, **keys: Any) -> None:
        self.where, self.sql, self.schema, self.mark, self.keys = where, sql, schema, mark, keys

    def open(self, **how: Any) -> perdure.Perdure:
        return perdure.open(self.where, **self.keys, **how)

    def id(self, session: str) -> Any:
        return raw(session) if self.mark == "?" else session

    def row(self, session: str) -> dict[str, Any]:
        """The row of a session, as a thief with the file or the database sees it."""
        columns = "state_version, digest, last_active_at, activity, lifecycle_phase, turns, due_at"
        found = self.sql(f"SELECT {columns} FROM {self.schema}session WHERE session_id = {self.mark}", self.id(session))
        return dict(zip(columns.split(", "), found[0], strict=True))

    def cut(self, session: str, row: dict[str, Any]) -> None:
        """Take away what came after a moment, and put the row back as it was then."""
        whose = f"(SELECT no FROM {self.schema}session WHERE session_id = {self.mark})"
        self.sql(
            f"DELETE FROM {self.schema}record WHERE session = {whose} AND first > {self.mark}",
            self.id(session),
            row["state_version"],
        )
        for table in ("checkpoint", "snapshot"):
            column = "version"
            self.sql(
                f"DELETE FROM {self.schema}{table} WHERE session = {whose} AND {column} > {self.mark}",
                self.id(session),
                row["state_version"],
            )
        sets = ", ".join(f"{name} = {self.mark}" for name in row)
        self.sql(
            f"UPDATE {self.schema}session SET {sets} WHERE session_id = {self.mark}", *row.values(), self.id(session)
        )


@pytest.fixture
def file(tmp_path: Path) -> Place:
    path = tmp_path / "agent.db"

    def sql(statement: str, *bound: Any) -> list[Any]:
        with closing(apsw.Connection(str(path))) as connection:
            return connection.execute(statement, bound).fetchall()

    return Place(str(path), sql, "", "?")


@pytest.fixture
def database_of_its_own(server: Any, tmp_path: Path) -> Place:
    import psycopg

    address = server.database()

    def sql(statement: str, *bound: Any) -> list[Any]:
        with psycopg.connect(address, autocommit=True) as connection:
            found = connection.execute(statement, bound)
            return found.fetchall() if found.description else []

    keys = {"key": tmp_path / "agent.master", "vault": server.database()}
    return Place(address, sql, "perdure.", "%s", **keys)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue("file" if request.param == "sqlite" else "database_of_its_own")
    return found


def services(db: perdure.Perdure) -> Any:
    return db._behind._services


def said(text: str) -> events.Message:
    return events.Message(role="user", content=text)


def told(place: Place, session: str) -> Report:
    with place.open(read_only=True) as db:
        return db.session(session).verify()


def by_the_chain_alone(place: Place, session: str) -> Report:
    with place.open(read_only=True) as db:
        return drive(Verifying(services(db).sessions).verify(db.session(session).id))


def whats(report: Report | StoreReport) -> list[str]:
    problems = [*report.problems, *(item for each in getattr(report, "damaged", ()) for item in each.problems)]
    return [f"{item.place}: {item.what}" for item in problems]


def test_a_tail_cut_with_its_row_rewritten_is_found(place: Place) -> None:
    with place.open() as db:
        session = db.create("cut")
        for number in range(3):
            session.append(said(f"{number}"))
        before = place.row(session.id)
        session.append(said("what somebody wants gone"))
        session.checkpoint("signed here")
        signed = session.info().version
        other = db.create("left alone")
        other.checkpoint("signed, too")
    assert told(place, session.id).ok
    place.cut(session.id, before)
    assert by_the_chain_alone(place, session.id).ok, "the chain alone does not show it; else this test proves nothing"
    report = told(place, session.id)
    version = before["state_version"]
    (problem,) = report.problems
    assert (problem.place, problem.versions, report.signed) == ("head", (version + 1, signed), signed)
    assert f"the log ends at {version}, but its head was signed at {signed} on " in problem.what
    assert told(place, other.id).ok
    with place.open() as db:
        assert [item.session for item in db.check_heads().amiss] == [session.id]
        (refused,) = db.sign_heads().refused
        assert refused.session == session.id
        for _ in range(9):  # writing on does not get the rest of it vouched for
            db.session(session.id).append(said("more"))
        db.session(session.id).checkpoint("again")
        db.session(session.id).suspend()
        db.sweep()
    (problem,) = told(place, session.id).problems
    assert "the log is another one than was signed" in problem.what


def test_a_session_taken_out_is_found(place: Place) -> None:
    with place.open() as db:
        session = db.create("gone")
        kept = db.create("kept")
        db.sign_heads()
    for table, column in (("record", "session"), ("snapshot", "session"), ("session", "no")):
        place.sql(
            f"DELETE FROM {place.schema}{table} WHERE {column} = "
            f"(SELECT no FROM {place.schema}session WHERE session_id = {place.mark})",
            place.id(session.id),
        )
    with place.open() as db:
        report = db.verify()
        assert [f"session {session.id} is not here" in what for what in whats(report)] == [True]
        assert [item.session for item in db.check_heads().amiss] == [session.id]
        assert db.session(kept.id).verify().ok


def test_an_older_copy_of_the_whole_file_is_found(file: Place, tmp_path: Path) -> None:
    with file.open() as db:
        session = db.create("old")
        session.append(said("one"))
    shutil.copyfile(file.where, tmp_path / "yesterday.db")
    with file.open() as db:
        db.session(session.id).append(said("two"))
        newer = db.create("newer")
        db.sweep()
    shutil.copyfile(tmp_path / "yesterday.db", file.where)
    with file.open() as db:
        found = whats(db.verify())
        assert len(found) == 2
        assert f"head: session {newer.id} is not here" in found[0]
        assert "head: the log ends at 3, but its head was signed at 4" in found[1]
        done = db.sign_heads(accept="I put yesterday's copy back")
        assert (done.signed, done.refused) == (1, ())
        assert db.verify().ok


def forged(path: str, statement: str, *bound: Any) -> None:
    with closing(apsw.Connection(f"{path}.keys")) as connection:
        connection.execute(statement, bound)
        assert connection.changes() == 1


@pytest.mark.parametrize(
    ("statement", "bound"),
    [
        ("UPDATE head SET version = version - 1", ()),
        ("UPDATE head SET digest = ?", (bytes(32),)),
        ("UPDATE head SET mac = ?", (bytes(32),)),
        ("UPDATE head SET remark = 'all is well'", ()),
        ("UPDATE head SET version = 999999, mac = ?", (bytes(32),)),
    ],
)
def test_a_forged_head_is_found(file: Place, statement: str, bound: tuple[Any, ...]) -> None:
    with file.open() as db:
        session = db.create("signed")
        session.checkpoint("here")
    forged(file.where, statement, *bound)
    (what,) = whats(told(file, session.id))
    assert what.startswith("head: its signed head was changed or forged")
    with file.open() as db:
        db.session(session.id).append(said("on"))
        assert db.sign_heads().refused[0].what.startswith("its signed head was changed")
        db.sign_heads(accept="the vault was meddled with")
        assert db.verify().ok


def test_a_changed_mark_does_not_hide_the_heads(file: Place) -> None:
    with file.open() as db:
        session = db.create("signed")
        session.checkpoint("here")
    file.sql("UPDATE setting SET value = substr(value, 1, 33) || '0000000000000000' WHERE name = 'seal'")
    (what,) = whats(told(file, session.id))
    assert "signed for another store" in what


# ── what must not be found ──


def test_what_is_written_after_signing_is_no_fault_and_moves_sign_by_themselves(place: Place) -> None:
    with place.open() as db:
        session = db.create("busy")
        assert session.verify().signed == 0
        session.append(said("one"))
        assert session.verify().signed == 0, "an append signs nothing"
        for move in (lambda: session.checkpoint("c"), session.suspend):
            move()
            assert session.verify().signed == session.info().version
        session.wake()
        session.append(said("two"))
        report = session.verify()
        assert report.ok
        assert 0 < (report.signed or 0) < session.info().version
        session.complete()
        assert session.verify().signed == session.info().version
        ended = db.create("ended")
        ended.terminate()
        assert ended.verify().signed == ended.info().version


def test_a_sweep_signs_what_has_changed_and_looks_at_nothing_else(file: Place, monkeypatch: Any) -> None:
    with file.open() as db:
        sessions = [db.create(str(number)) for number in range(5)]
        db.sweep()
        assert [item.verify().signed for item in sessions] == [item.info().version for item in sessions]
        keeper, looked = services(db).heads, list[str]()
        sign = keeper._sign
        monkeypatch.setattr("perdure.services.heads.SLACK", 0)

        async def noted(rows: Any, accept: str | None = None) -> Any:
            looked.extend(row.session for row in rows)
            return await sign(rows, accept)

        monkeypatch.setattr(keeper, "_sign", noted)
        sessions[2].append(said("more"))
        db.sweep()
        assert looked == [sessions[2].id]
        assert sessions[2].verify().signed == sessions[2].info().version


def test_a_log_pruned_before_at_and_beyond_its_signed_head_verifies(file: Place) -> None:
    with file.open() as db:
        session = db.create("pruned")
        for number in range(4):
            session.append(said(f"{number}"))
        db.sign_heads()
        session.prune(session.info().version - 1)
        assert whats(db.verify()) == []
        session.append(said("after pruning"))
        assert db.sign_heads().signed == 1
        session.append(said("after signing"))
        session.prune(session.info().version - 1)
        assert session.verify().pruned_to == session.verify().signed
        assert whats(db.verify()) == []
        for text in ("beyond", "what was signed"):
            session.append(said(text))
        session.prune(session.info().version - 1)
        report = session.verify()
        assert (report.ok, report.pruned_to > (report.signed or 0) > 0) == (True, True)
        assert db.sign_heads().signed == 1
        assert session.verify().signed == session.info().version


def test_archived_branched_redacted_and_imported_sessions_verify(file: Place, tmp_path: Path) -> None:
    with file.open(cold=tmp_path / "cold") as db:
        session = db.create("shared")
        for number in range(4):
            session.append(said(f"{number}"))
        session.checkpoint("signed")
        branch = session.branch(at=4)
        branch.append(said("elsewhere"))
        session.redact([3], "asked for")
        assert db.sign_heads().refused == ()
        branch.complete()
        branch.archive()
        assert branch.info().cold is not None
        assert whats(db.verify()) == []
        assert db.sign_heads().refused == ()
        branch.thaw()
        branch.export(tmp_path / "branch.jsonl")
        branch.erase()
        again = db.import_jsonl(tmp_path / "branch.jsonl")
        assert (again.id, again.verify().signed) == (branch.id, 0)
        session.erase()
        db.sign_heads()
        report = db.verify()
        assert (whats(report), report.sessions, report.signed) == ([], 1, 1)


def test_erasing_takes_the_head_along_also_when_it_is_killed_half_way(place: Place) -> None:
    with place.open() as db:
        session, other = db.create("gone"), db.create("stays")
        db.sign_heads()
        (seal,) = services(db).store.seals
        assert len(seal.heads.known(b"", 10)) == 2
        session.erase()
        assert [head.session for head in seal.heads.known(b"", 10)] == [other.id]
        assert db.verify().ok
        (salt,) = [head.salt for head in seal.heads.known(b"", 10)]
        seal.condemn([salt])  # as erasing begins
        assert seal.heads.known(b"", 10) == ()
        place.sql(f"DELETE FROM {place.schema}record WHERE session > 0")
        place.sql(f"DELETE FROM {place.schema}session")
    with place.open(read_only=True) as db:
        assert db.verify().ok
    with place.open() as db:  # and ends, with the next opening
        (seal,) = services(db).store.seals
        assert seal._vault.heads([salt]) == {}
        assert db.verify().ok


def test_a_head_never_goes_back_by_itself(place: Place) -> None:
    with place.open() as db:
        session = db.create("forward")
        old = session.info()
        session.append(said("on"))
        session.checkpoint("signed")
        assert drive(services(db).heads._sign([old])).signed == 0
        assert session.verify().signed == session.info().version


def test_a_store_in_the_clear_says_that_it_has_no_heads(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "clear.db", seal=False) as db:
        session = db.create("clear")
        session.checkpoint("nothing is signed")
        assert (db.verify().ok, db.verify().signed, session.verify().signed) == (True, None, None)
        assert not db.sign_heads().sealed
        assert not db.check_heads().sealed


def test_a_vault_from_before_there_were_heads_is_one_still(tmp_path: Path) -> None:
    fixtures = ROOT / "tests" / "fixtures"
    packed = (fixtures / "format-3-sealed.db.zst").read_bytes()
    (tmp_path / "old.db").write_bytes(zstd.decompress(packed))
    for suffix in ("keys", "master"):
        shutil.copy(fixtures / f"format-3-sealed.db.{suffix}", tmp_path / f"old.db.{suffix}")
    for suffix in ("keys", "master"):
        (tmp_path / f"old.db.{suffix}").chmod(0o600)
    with perdure.open(tmp_path / "old.db", read_only=True) as db:
        assert (db.verify().ok, db.verify().signed) == (True, 0)
    with perdure.open(tmp_path / "old.db") as db:
        assert db.sign_heads().signed == db.count()
        assert db.verify().signed == db.count()


def test_a_vault_that_cannot_be_written_stops_no_move(file: Place, monkeypatch: Any) -> None:
    with file.open() as db:
        session = db.create("goes on")

        def full(*_: Any, **__: Any) -> int:
            raise errors.DiskFull("no space left for the vault; free some and try again")

        monkeypatch.setattr(FileVault, "keep_heads", full)
        session.checkpoint("taken")
        session.suspend()
        db.sweep()
        assert session.info().phase == "suspended"
        with pytest.raises(errors.DiskFull):
            db.sign_heads()
        monkeypatch.undo()
        db.sweep()
        assert session.verify().signed == session.info().version


# ── rotation ──


@pytest.fixture
def signed(file: Place) -> Place:
    with file.open() as db:
        for number in range(12):
            db.create(str(number)).checkpoint("signed")
    return file


def rotated_whole(place: Place) -> None:
    with place.open() as db:
        report = db.verify()
        assert (whats(report), report.signed) == ([], 12)
        db.session(db.find().items[0].session).append(said("on"))
        assert db.sign_heads().refused == ()
        assert db.verify().ok


def test_heads_outlive_the_master_key_they_were_signed_under(signed: Place) -> None:
    keys = Keys(KeyFile(f"{signed.where}.master", AMBIENT), FileVault(f"{signed.where}.keys", AMBIENT), AMBIENT)
    old = keys.masters.current()
    keys.rotate()
    keys.forget(old)
    keys.close()
    rotated_whole(signed)


def test_heads_are_valid_wherever_a_rotation_is_killed(signed: Place) -> None:
    command = [sys.executable, "-m", "tests.sealing.rotating", signed.where]
    for lines in (1, 1, 2):  # killed as it begins, killed again, and then to its end
        running = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), cwd=ROOT, text=True)
        assert running.stdout is not None
        for _ in range(lines):
            running.stdout.readline()
        if lines == 1:
            running.send_signal(signal.SIGKILL)
        running.communicate(timeout=60)
        rotated_whole(signed)


# ── backups ──


def restored(place: Place, backup: str, target: str, **keys: Any) -> Any:
    from perdure.compose import copying
    from perdure.sealing.given import Given
    from perdure.services.restore import Restores

    wiring = copying("test", Given(None, **(keys or place.keys)))
    return drive(Restores(wiring).restore(backup, target, overwrite=True))


def test_a_backup_signs_and_a_restored_one_verifies_with_the_newest_vault(file: Place, tmp_path: Path) -> None:
    with file.open() as db:
        session = db.create("backed up")
        session.append(said("one"))
        db.backup(tmp_path / "backup.db")
        assert session.verify().signed == session.info().version
        session.append(said("two"))
        session.checkpoint("signed after the backup")
        db.create("made after the backup")
        db.sign_heads()
    done = restored(file, str(tmp_path / "backup.db"), file.where)
    assert any("signed heads of 1 sessions were set" in remark for remark in done.remarks)
    with file.open() as db:
        assert whats(db.verify()) == []
        (seal,) = services(db).store.seals
        (head,) = seal.heads.known(b"", 10)
        assert head.remark.startswith("restored from a backup made on ")
        db.session(session.id).append(said("another two"))
        assert db.sign_heads().refused == ()
        assert whats(db.verify()) == []


def test_a_backup_restored_into_a_database_verifies(database_of_its_own: Place, server: Any, tmp_path: Path) -> None:
    place = database_of_its_own
    with place.open() as db:
        session = db.create("backed up")
        db.backup(tmp_path / "backup.perdure")
        session.append(said("later"))
        session.checkpoint("signed")
    elsewhere = server.database()
    restored(place, str(tmp_path / "backup.perdure"), elsewhere)
    with perdure.open(elsewhere, **place.keys) as db:
        assert whats(db.verify()) == []


def test_a_backup_of_a_cut_store_says_so(file: Place, tmp_path: Path) -> None:
    with file.open() as db:
        session = db.create("cut")
        before = file.row(session.id)
        session.append(said("gone"))
        session.checkpoint("signed")
    file.cut(session.id, before)
    with file.open() as db:
        remarks = db.backup(tmp_path / "backup.db").remarks
    assert any("1 sessions do not go on from their signed heads" in remark for remark in remarks)
