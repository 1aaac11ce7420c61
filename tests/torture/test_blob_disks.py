"""Blobs on a full disk: a typed refusal, what is there is served, and all is well again once there is room."""

import os
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure import events as ev
from perdure.testing import FixedAmbient


def test_a_put_on_a_full_disk_is_refused_and_leaves_nothing_for_long(small_disk: Any) -> None:
    ambient = FixedAmbient()
    with perdure.open(small_disk.folder / "store.db", seal=False, ambient=ambient) as db:
        session = db.create()
        small = session.attach(os.urandom(300_000))
        session.append(ev.Message(role="user", content=[small]))
        small_disk.fill(leaving=900_000)
        for _ in range(2):
            with pytest.raises(errors.DiskFull, match="free some"):
                db.blobs.put(os.urandom(3_000_000))
            assert len(db.blobs.get(small)) == 300_000
        small_disk.free()
        ambient.advance(2 * 86_400)
        collected = db.blobs.collect()
        assert collected.blobs == 0
        large = session.attach(os.urandom(1_000_000))
        session.append(ev.Message(role="user", content=[large]))
        assert {info.ref for info in db.blobs.list().items} == {small, large}
        assert db.blobs.collect(0) == type(collected)(blobs=0, bytes=0, uploads=0)
        assert db.verify().ok


def test_a_blob_that_does_not_fit_where_it_is_saved_leaves_no_file(small_disk: Any, tmp_path: Any) -> None:
    with perdure.open(tmp_path / "store.db", seal=False) as db:
        ref = db.blobs.put(os.urandom(2_000_000))
        small_disk.fill(leaving=500_000)
        with pytest.raises(errors.DiskFull):
            db.blobs.save(ref, small_disk.folder / "out.bin")
        assert sorted(os.listdir(small_disk.folder)) == ["filler"]
        small_disk.free()
        assert db.blobs.save(ref, small_disk.folder / "out.bin") == 2_000_000
