"""Master keys in the environment and in a file: read strictly, written whole, and never shown."""

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.ambient import RealAmbient
from perdure.core.errors import Damaged, Invalid, KeyMissing, NewerStore, PerdureError, Refused, WorldError
from perdure.sealing.derivation import master_id
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.masters import from_environment
from tests.sealing.conftest import AMBIENT
from torture.process import environment

KEY, OTHER = b"k" * 32, b"o" * 32


def spelled(key: bytes) -> str:
    return base64.b64encode(key).decode()


# ── the environment ──


def test_a_bare_key_is_called_by_what_it_is() -> None:
    masters = from_environment(spelled(KEY))
    assert masters.ids() == (master_id(KEY),)
    assert masters.current() == master_id(KEY) == from_environment(f" {spelled(KEY)} ").current()
    assert spelled(KEY)[:8] not in master_id(KEY)


def test_several_keys_may_have_names_and_the_first_is_current() -> None:
    masters = from_environment(f"new:{spelled(OTHER)}, old:{spelled(KEY)}")
    assert (masters.current(), masters.ids()) == ("new", ("new", "old"))
    assert masters.derive("old", b"salt", b"x") == from_environment(f"any:{spelled(KEY)}").derive("any", b"salt", b"x")
    assert masters.derive("old", b"salt", b"x") != masters.derive("new", b"salt", b"x")
    assert masters.derive("old", b"salt", b"x") != masters.derive("old", b"salt", b"y")
    assert masters.derive("old", b"salt", b"x") != masters.derive("old", b"Salt", b"x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        spelled(b"short"),
        spelled(KEY)[:-2],
        f"{spelled(KEY)},",
        f"a b:{spelled(KEY)}",
        f"{'x' * 65}:" + spelled(KEY),
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        from_environment(text)
    assert spelled(KEY)[:10] not in str(refusal.value)
    assert spelled(b"short") not in str(refusal.value)


def test_one_name_for_two_keys_is_refused() -> None:
    with pytest.raises(Invalid, match="two keys"):
        from_environment(f"a:{spelled(KEY)},a:{spelled(OTHER)}")


def test_a_key_that_is_not_there_is_missed() -> None:
    with pytest.raises(KeyMissing):
        from_environment(spelled(KEY)).derive("another", b"", b"")


# ── the file ──


@pytest.fixture
def path(tmp_path: Path) -> Path:
    KeyFile.make(str(tmp_path / "k.master"), AMBIENT)
    return tmp_path / "k.master"


def test_a_key_file_is_made_once(tmp_path: Path) -> None:
    first, made = KeyFile.make(str(tmp_path / "k.master"), AMBIENT)
    assert made
    second, made = KeyFile.make(str(tmp_path / "k.master"), AMBIENT)
    assert not made
    assert first.ids() == second.ids()
    assert [file.name for file in tmp_path.iterdir()] == ["k.master"]
    assert stat.S_IMODE((tmp_path / "k.master").stat().st_mode) == 0o600


def test_its_key_serves_from_the_environment_as_well(path: Path) -> None:
    file = KeyFile(str(path), AMBIENT)
    text = json.loads(path.read_text())["keys"][0]["key"]
    held = from_environment(text)
    assert held.current() == file.current()
    assert held.derive(held.current(), b"salt", b"x") == file.derive(file.current(), b"salt", b"x")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o644])
def test_one_that_others_may_read_is_refused_with_the_remedy(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(WorldError, match=f"chmod 600 {path}"):
        KeyFile(str(path), AMBIENT)
    path.chmod(0o400)
    assert KeyFile(str(path), AMBIENT).ids()


def test_one_that_is_not_there_is_missed(tmp_path: Path) -> None:
    with pytest.raises(KeyMissing, match="put it back"):
        KeyFile(str(tmp_path / "none"), AMBIENT)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"{}",
        lambda text: text[:-20],
        lambda text: text.replace(b"perdure.keys", b"perdure.jeys"),
        lambda text: json.dumps({**json.loads(text), "current": "another"}).encode(),
        lambda text: json.dumps({**json.loads(text), "keys": json.loads(text)["keys"] * 2}).encode(),
        lambda text: text.replace(b'"key": "', b'"key": "!'),
        lambda text: os.urandom(500),
    ],
)
def test_one_that_is_not_as_written_is_refused_without_being_shown(path: Path, change: object) -> None:
    text = path.read_bytes()
    key = json.loads(text)["keys"][0]["key"]
    path.write_bytes(change(text))  # type: ignore[operator]
    with pytest.raises(Damaged, match="restore it") as refusal:
        KeyFile(str(path), AMBIENT)
    assert key[:12] not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_newer_one_is_refused_politely(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7}))
    with pytest.raises(NewerStore, match="upgrade perdure"):
        KeyFile(str(path), AMBIENT)


def test_a_minted_key_is_current_and_kept_and_the_old_one_stays(path: Path) -> None:
    file = KeyFile(str(path), AMBIENT)
    (old,) = file.ids()
    new = file.mint()
    assert (file.current(), file.ids()) == (new, (old, new))
    assert (KeyFile(str(path), AMBIENT).current(), stat.S_IMODE(path.stat().st_mode)) == (new, 0o600)
    with pytest.raises(Refused, match="current"):
        file.forget(new)
    file.forget(old)
    assert KeyFile(str(path), AMBIENT).ids() == (new,)
    assert [item.name for item in path.parent.iterdir()] == ["k.master"]


def test_what_another_process_changed_is_seen_after_a_refresh(path: Path) -> None:
    one, two = KeyFile(str(path), AMBIENT), KeyFile(str(path), AMBIENT)
    new = one.mint()
    assert new not in two.ids()
    two.refresh()
    assert two.current() == new
    assert list(two.made()) == list(two.ids())


MINT = """
import sys
from perdure.ambient import RealAmbient
from perdure.sealing.keyfile import KeyFile
file, _ = KeyFile.make(sys.argv[1], RealAmbient())
sys.stdin.readline()
for _ in range(20):
    print(file.mint(), flush=True)
"""


def test_processes_that_change_it_at_once_lose_no_key(tmp_path: Path) -> None:
    path = tmp_path / "k.master"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MINT, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for _ in range(3)
    ]
    said: list[str] = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        said += process.communicate(timeout=60)[0].split()
        assert process.returncode == 0
    assert len(said) == 60
    assert set(said) < set(KeyFile(str(path), RealAmbient()).ids())


def test_a_full_disk_or_a_forbidden_folder_is_told_in_our_words(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    file = KeyFile(str(path), AMBIENT)
    before = path.read_bytes()
    for number, words in ((28, "no space"), (13, "permissions"), (5, "look at the disk")):

        def fails(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", fails)
            with pytest.raises(PerdureError, match=words):
                file.mint()
        assert path.read_bytes() == before
        assert [item.name for item in path.parent.iterdir()] == ["k.master"]


def test_a_draft_that_could_not_be_written_goes_again(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    file = KeyFile(str(path), AMBIENT)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(PerdureError, match="no space"):
            file.mint()
    assert [item.name for item in path.parent.iterdir()] == ["k.master"]


def test_a_draft_that_a_killed_process_left_goes_with_the_next_change(path: Path) -> None:
    """It may hold keys that are to be forgotten."""
    draft, other = path.with_name(f"{path.name}.{'0a' * 8}.tmp"), path.with_name(f"{path.name}.mine.tmp")
    for left in (draft, other):
        left.write_bytes(path.read_bytes())
    KeyFile(str(path), AMBIENT).mint()
    assert sorted(item.name for item in path.parent.iterdir()) == ["k.master", other.name]


@pytest.mark.skipif(os.name != "posix", reason="a pipe has a name only there")
def test_a_pipe_is_no_key_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Invalid, match="is not a file"):
        KeyFile(str(tmp_path / "pipe"), AMBIENT)
