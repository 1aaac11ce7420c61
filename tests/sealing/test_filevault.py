"""A vault in a file: private, durable, shared by processes, and without a trace of what was destroyed."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.errors import AlreadyExists, Damaged, KeyMissing, NewerStore, NotAStore, ReadOnly, StoreClosed
from perdure.ports.vault import Entry
from perdure.sealing.filevault import FileVault
from perdure.sealing.masters import HeldKeys
from perdure.sealing.wrapping import index_entry, proof_entry, rewrapped, salt_entry
from tests.sealing.conftest import AMBIENT, Beside
from torture.process import environment


@pytest.fixture
def vault(file_vault: FileVault, masters: HeldKeys) -> FileVault:
    first = masters.current()
    file_vault.begin((proof_entry(masters, first, AMBIENT), index_entry(masters, first, AMBIENT)))
    return file_vault


def filled(vault: FileVault, masters: HeldKeys, count: int) -> list[Entry]:
    made = [salt_entry(masters.current(), AMBIENT) for _ in range(count)]
    assert vault.add(made)
    return made


def traces(files: dict[str, bytes], salts: list[bytes]) -> list[str]:
    """Files in which a salt, or eight bytes of one, can be found."""
    pieces = [salt[at : at + 8] for salt in salts for at in (0, 12, 24)]
    return [name for name, content in files.items() if any(piece in content for piece in pieces)]


def test_only_its_owner_may_read_it(vault: FileVault, masters: HeldKeys, tmp_path: Path) -> None:
    filled(vault, masters, 3)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_no_byte_of_a_destroyed_salt_stays(vault: FileVault, masters: HeldKeys, tmp_path: Path, beside: Beside) -> None:
    """R15. Entries come and go in every order, so that pages of the file split, fill and empty."""
    chance, kept, gone = random.Random(3), filled(vault, masters, 400), list[bytes]()
    assert traces(beside(tmp_path), [kept[0].salt]) != [], "nothing to look for"
    for _ in range(12):
        chance.shuffle(kept)
        doomed, kept = kept[:60], kept[60:] + filled(vault, masters, 40)
        vault.destroy([entry.name for entry in doomed])
        gone += [entry.salt for entry in doomed]
        assert traces(beside(tmp_path), gone) == []
    assert [vault.get(entry.name) for entry in kept] == kept


def test_no_byte_of_an_earlier_salt_survives_the_entry(
    vault: FileVault, masters: HeldKeys, tmp_path: Path, beside: Beside
) -> None:
    both = HeldKeys({**masters._keys, "new": b"n" * 32}, "test")
    made = filled(vault, masters, 50)
    again = [rewrapped(both, entry, "new", AMBIENT) for entry in made]
    assert vault.replace(list(zip(made, again, strict=True))) == 50
    vault.destroy([entry.name for entry in made])
    assert traces(beside(tmp_path), [entry.salt for entry in made + again]) == []


def test_a_freed_slot_is_used_again(vault: FileVault, masters: HeldKeys, tmp_path: Path) -> None:
    made = filled(vault, masters, 500)
    vault.destroy([entry.name for entry in made])
    before = (tmp_path / "vault.keys").stat().st_size
    for _ in range(5):
        vault.destroy([entry.name for entry in filled(vault, masters, 400)])
    assert (tmp_path / "vault.keys").stat().st_size == before


def test_it_is_there_after_reopening(vault: FileVault, masters: HeldKeys) -> None:
    made = filled(vault, masters, 5)
    vault.close()
    for read_only in (False, True):
        again = FileVault(vault.path, AMBIENT, read_only=read_only)
        assert (again.id, again.current()) == (vault.id, masters.current())
        assert [again.get(entry.name) for entry in made] == made
        again.close()


def test_a_closed_vault_says_so(vault: FileVault) -> None:
    vault.close()
    vault.close()
    with pytest.raises(StoreClosed, match="open it again"):
        vault.current()


def test_one_that_is_not_there_is_missed_unless_it_may_be_made(tmp_path: Path) -> None:
    path = str(tmp_path / "none.keys")
    with pytest.raises(KeyMissing, match="put it back"):
        FileVault(path, AMBIENT)
    with pytest.raises(KeyMissing):
        FileVault(path, AMBIENT, create=True, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "bookmarks.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
    connection.close()
    text = tmp_path / "notes.txt"
    text.write_text("buy milk " * 100)
    for path in (other, text):
        before = path.read_bytes()
        with pytest.raises((NotAStore, Damaged)):
            FileVault(str(path), AMBIENT, create=True)
        assert path.read_bytes() == before


def test_a_newer_one_is_refused_politely(vault: FileVault) -> None:
    vault.close()
    with sqlite3.connect(vault.path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(NewerStore, match="upgrade perdure") as refusal:
        FileVault(vault.path, AMBIENT)
    assert refusal.value.fields["found"] == 9


def test_one_opened_read_only_takes_nothing(vault: FileVault, masters: HeldKeys) -> None:
    reader = FileVault(vault.path, AMBIENT, read_only=True)
    with pytest.raises(ReadOnly):
        reader.add([salt_entry(masters.current(), AMBIENT)])
    with pytest.raises(ReadOnly):
        reader.destroy([b"x" * 16])
    reader.close()


def test_a_copy_is_whole_private_and_never_written_over(vault: FileVault, masters: HeldKeys, tmp_path: Path) -> None:
    made, path = filled(vault, masters, 30), str(tmp_path / "copy.keys")
    vault.copy(path)
    filled(vault, masters, 1)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    copy = FileVault(path, AMBIENT)
    assert (copy.id, [copy.get(entry.name) for entry in made]) == (vault.id, made)
    assert copy.census()[0].salts == 31
    copy.close()
    with pytest.raises(AlreadyExists):
        vault.copy(path)


ADD = """
import sys
from perdure.ambient import RealAmbient
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyring import Keyring
from perdure.sealing.masters import HeldKeys
ambient = RealAmbient()
vault = FileVault(sys.argv[1], ambient, create=True)
keyring = Keyring(HeldKeys({"m": b"k" * 32}, "test"), vault, ambient)
sys.stdin.readline()
for _ in range(200):
    print(keyring.fresh().hex(), flush=True)
"""


def test_processes_that_make_one_at_once_agree_and_never_get_the_same_salt(tmp_path: Path) -> None:
    path = str(tmp_path / "new.keys")
    command = [sys.executable, "-c", ADD, path]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True)
        for _ in range(3)
    ]
    said = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        said += out.split()
    assert len(said) == len(set(said)) == 600
    vault = FileVault(path, AMBIENT)
    assert all(vault.get(bytes.fromhex(name)) is not None for name in said)
    vault.close()
