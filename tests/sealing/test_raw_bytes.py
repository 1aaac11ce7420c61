"""R18: with sealing on, no file beside a store holds a word of its content or a byte of a key, at any time."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Config, events
from perdure.sealing.derivation import session_key
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keyring import Keyring
from perdure.sealing.wrapping import secret_of
from tests.sealing.conftest import AMBIENT, Beside

PREFIX = "quokkaquokka"
MARKERS = {
    what: f"{PREFIX}{what}{number:04d}zz"
    for number, what in enumerate(
        """said answered argument result vars patched scratchpad title retitled tag metadatakey metadatavalue
        checkpointlabel checkpointkey checkpointvalue createkey appendkey model system feedback branchtitle branched
        imported reason search""".split()
    )
}


def spellings(text: str) -> Iterator[bytes]:
    """A marker as it might look in a file; base64 in all three alignments, without ends that depend on neighbours."""
    plain = text.encode()
    yield from (plain, plain.upper(), text.encode("utf-16-le"), text.encode("utf-16-be"))
    yield plain.hex().encode()
    yield plain.hex().upper().encode()
    for shift in range(3):
        yield base64.b64encode(b"x" * shift + plain)[4:-4]


def found(files: dict[str, bytes], markers: dict[str, str] = MARKERS) -> list[tuple[str, str]]:
    suspects = {name: content for name, content in files.items() if any(form in content for form in spellings(PREFIX))}
    return [
        (name, what)
        for name, content in suspects.items()
        for what, text in {"a marker": PREFIX, **markers}.items()
        if any(form in content for form in spellings(text))
    ]


def work(db: perdure.Perdure, folder: Path) -> str:
    """Put every marker where content goes."""
    m = MARKERS
    session = db.create(
        m["title"],
        owner="ana",
        tags=[m["tag"]],
        metadata={m["metadatakey"]: m["metadatavalue"]},
        config=Config(system_prompt=m["system"], model=m["model"]),
        vars={"city": m["vars"]},
        key=m["createkey"],
    )
    with session.turn(m["said"] + " " + m["search"]) as turn:
        call = turn.ask("find", {"where": m["argument"]})
        turn.start(call, key=m["appendkey"])
        turn.finish(call, {"found": m["result"]})
        turn.answer(m["answered"])
    session.append(events.Message(role="user", content="once " + m["said"]), key=m["appendkey"])
    session.write_scratchpad(m["scratchpad"])
    session.patch_vars(city=m["patched"])
    session.checkpoint(m["checkpointlabel"], {m["checkpointkey"]: m["checkpointvalue"]})
    session.configure(title=m["retitled"])
    session.append(events.Feedback(comment=m["feedback"]))
    branch = session.branch(title=m["branchtitle"])
    branch.append(events.Message(role="user", content=m["branched"]))
    assert db.count(text=m["search"]) == db.count(text="once") == 2 - 1
    assert db.count(tags=[m["tag"]]) == 2
    assert db.find(title=m["retitled"][:12]).items
    for number in range(8):
        session.append(events.Message(role="user", content=m["said"] * 50 + str(number)))
    session.suspend(m["reason"])
    session.resume()
    export = folder.parent / "export.jsonl"
    db.create(m["imported"]).export(export)
    return session.id


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside").mkdir()
    return tmp_path / "beside"


def test_no_word_of_a_session_is_in_any_file(folder: Path, beside: Beside) -> None:
    path = folder / "agent.db"
    with perdure.open(path, snapshots=perdure.SnapshotPolicy(events=4)) as db:
        session = work(db, folder)
        during = beside(folder)
        assert {"agent.db", "agent.db-wal", "agent.db.keys", "agent.db.keys-wal"} < during.keys()
        assert found(during) == []
        db.session(session).redact([4])
        for row in db.session(session).branches():
            db.session(row.session).erase()
        db.session(session).prune(5)
        assert found(beside(folder)) == []
    assert found(beside(folder)) == []
    with perdure.open(path) as db:
        assert db.session(session).verify().ok
        assert db.count(text=MARKERS["search"]) >= 0
        db.session(session).erase()
        assert found(beside(folder)) == []
    assert found(beside(folder)) == []


@pytest.mark.slow
def test_no_word_of_a_session_is_in_any_file_or_dump_of_a_server(folder: Path, beside: Beside, server: Any) -> None:
    from perdure.testing.postgres import binaries

    address = server.database()
    with perdure.open(address, key=folder / "k", vault=folder / "v") as db:
        session = work(db, folder)
        dump = subprocess.run([binaries() / "pg_dump", address], capture_output=True, check=True).stdout
        assert session.replace("-", "")[:8].encode() in dump.replace(b"-", b""), "the dump has the session"
        assert found({"dump": dump}) == []
        assert found(beside(server.folder)) == []
        assert found(beside(folder)) == []
        db.session(session).verify()
    in_the_clear = server.database()
    with perdure.open(in_the_clear, seal=False) as db:
        work(db, folder)
    assert found(
        {"dump": subprocess.run([binaries() / "pg_dump", in_the_clear], capture_output=True, check=True).stdout}
    )


def test_the_same_store_in_the_clear_holds_them_so_the_search_can_find(folder: Path, beside: Beside) -> None:
    """A test that cannot fail proves nothing: short words stand in a clear store in plain letters."""
    with perdure.open(folder / "agent.db", seal=False) as db:
        work(db, folder)
    seen = {what for _, what in found(beside(folder))}
    assert {"retitled", "tag", "metadatavalue", "checkpointlabel", "createkey"} <= seen


def test_a_key_is_in_the_key_file_alone(folder: Path, beside: Beside) -> None:
    path = folder / "agent.db"
    with perdure.open(path) as db:
        session = work(db, folder)
        store = db._behind._services.store
        keyring: Keyring = getattr(store, "inner", store)._packing.seal
        places = list(keyring._keys)
        secrets = {
            "master": next(iter(KeyFile(f"{path}.master", AMBIENT)._held._keys.values())),
            "index": keyring._index,
            **{f"blind {use}": key for use, key in keyring._hashes.items()},
        }
        for number, place in enumerate(places):
            assert place.salt is not None
            entry = keyring._vault.get(place.salt)
            assert entry is not None
            secret = secret_of(keyring._masters, entry)
            secrets[f"secret {number}"] = secret
            secrets[f"session {number}"] = session_key(secret, place.tenant, place.owner)
        salts = {place.salt for place in places}
        during = beside(folder)
    assert places
    assert session
    for moment in (during, beside(folder)):
        held = {
            (name, what)
            for name, content in moment.items()
            for what, key in secrets.items()
            if key in content or key.hex().encode() in content or base64.b64encode(key) in content
        }
        assert held == {("agent.db.master", "master")}
        assert not any(key in moment["agent.db"] for key in secrets.values())
    assert all(salt in beside(folder)["agent.db"] for salt in salts if salt), "names, not salts, are in the store"


def test_salts_are_in_the_vault_alone(folder: Path, beside: Beside) -> None:
    path = folder / "agent.db"
    with perdure.open(path) as db:
        work(db, folder)
        store = db._behind._services.store
        entries = getattr(store, "inner", store)._packing.seal._vault.page(b"", 100)
        during = beside(folder)
    assert len(entries) > 3
    for moment in (during, beside(folder)):
        assert [
            name for name, content in moment.items() if ".keys" not in name and any(e.salt in content for e in entries)
        ] == []


def test_an_error_shows_no_key(folder: Path) -> None:
    path = folder / "agent.db"
    perdure.open(path).close()
    text = json.loads(Path(f"{path}.master").read_text())
    key = text["keys"][0]["key"]
    said: list[str] = []
    for change in (key[:-4], "!" + key[1:], base64.b64encode(os.urandom(32)).decode()):
        Path(f"{path}.master").write_text(json.dumps({**text, "keys": [{**text["keys"][0], "key": change}]}))
        with pytest.raises(perdure.PerdureError) as refusal:
            perdure.open(path)
        said.append(f"{refusal.value!r} {refusal.value.fields!r} {refusal.value.__cause__!r}")
    assert not any(key[:10] in line for line in said)
