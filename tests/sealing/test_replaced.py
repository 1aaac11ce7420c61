"""A vault file that is replaced or removed under a running process: nothing is sealed that could not be read again."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure.compose import keys_of
from perdure.core.errors import KeyMissing
from perdure.sealing.filevault import FileVault
from tests.sealing.conftest import AMBIENT

pytestmark = pytest.mark.filterwarnings("ignore:a new master key")


def _replaced(store: Path, copy: Path) -> None:
    os.replace(copy, f"{store}.keys")


def _removed(store: Path, copy: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        os.remove(f"{store}.keys{suffix}")


def _moved(store: Path, copy: Path) -> None:
    os.rename(f"{store}.keys", copy.with_suffix(".away"))


def _copied(store: Path) -> Path:
    held, copy = keys_of(store), store.with_name("copy.keys")
    held.backup(str(copy))
    held.close()
    return copy


Taking = Callable[[Path, Path], None]


@pytest.mark.parametrize("take", [_replaced, _removed, _moved])
@pytest.mark.parametrize("stocked", [0, 1, 5])
def test_no_session_is_made_that_could_not_be_read_after_reopening(tmp_path: Path, take: Taking, stocked: int) -> None:
    store = tmp_path / "s.db"
    with perdure.open(store) as db:
        made = [db.create(title="before").id for _ in range(stocked + 1)]  # a stock of salts is left from the vault
        copy = _copied(store)
        keep = tmp_path / "kept.keys"
        keep.write_bytes(copy.read_bytes())
        keep.chmod(0o600)
        take(store, copy)
        for _ in range(100):
            with pytest.raises(KeyMissing, match="stop every process that uses it") as refusal:
                db.create(title="after")
            assert refusal.value.fields["path"] == f"{store}.keys"
        assert db.session(made[0]).state().origin.title == "before", "what is there can be read on"
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"s.db.keys{suffix}").unlink(missing_ok=True)
    os.rename(keep, f"{store}.keys")
    with perdure.open(store) as db:
        assert {row.session for row in db.find().items} == set(made)
        assert all(db.session(id).verify().ok for id in made)
        made.append(db.create(title="again").id)
    with perdure.open(store) as db:
        assert db.session(made[-1]).state().origin.title == "again"


@pytest.mark.parametrize("take", [_replaced, _removed])
def test_nothing_is_erased_in_a_vault_that_nobody_will_open_again(tmp_path: Path, take: Taking) -> None:
    store = tmp_path / "s.db"
    with perdure.open(store) as db:
        session = db.create(title="secret")
        take(store, _copied(store))
        with pytest.raises(KeyMissing, match="stop every process"):
            session.erase()
        assert db.session(session.id).state().origin.title == "secret"


@pytest.mark.parametrize("take", [_replaced, _removed])
def test_a_vault_that_was_taken_away_takes_no_change(tmp_path: Path, take: Taking) -> None:
    """Rotation, signed heads, notes: all go through one door."""
    store = tmp_path / "s.db"
    perdure.open(store).close()
    held = keys_of(store)
    vault = held.vault
    assert isinstance(vault, FileVault)
    take_from = _copied(store)
    for suffix in ("-wal", "-shm"):
        Path(f"{store}.keys{suffix}").touch()
    take(store, take_from)
    for change in (
        held.rotate,
        lambda: vault.note("x", 1),
        lambda: vault.drop_heads([b"x"]),
        lambda: vault.spare([b"x"]),
    ):
        with pytest.raises(KeyMissing, match="stop every process"):
            change()
    held.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_take_the_new_file_for_the_old_one(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with perdure.open(store) as db:
        for _ in range(5):
            db.create()
        _replaced(store, _copied(store))
        child = os.fork()
        if child == 0:
            try:
                db.create()
            except KeyMissing:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(KeyMissing):
            db.create()


def test_a_file_that_comes_back_is_the_vault_again(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with perdure.open(store) as db:
        db.create()
        away = tmp_path / "away.keys"
        os.rename(f"{store}.keys", away)
        with pytest.raises(KeyMissing):
            db.create()
        os.rename(away, f"{store}.keys")
        made = db.create(title="after").id
    with perdure.open(store) as db:
        assert db.session(made).state().origin.title == "after"


def test_a_salt_that_only_the_new_file_may_have_is_not_taken_for_erased(tmp_path: Path) -> None:
    vault = FileVault(str(tmp_path / "v.keys"), AMBIENT, create=True)
    vault.copy(str(tmp_path / "copy.keys"))
    assert vault.get(b"n" * 16) is None
    os.replace(tmp_path / "copy.keys", vault.path)
    with pytest.raises(KeyMissing, match="stop every process"):
        vault.get(b"n" * 16)
    vault.close()
