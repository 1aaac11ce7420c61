"""The keyring: sealed bytes open in their place alone, and a wrong key is known before anything happens."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.core.errors import Damaged, KeyMissing, Refused, Shredded, WrongKey
from perdure.ports.seal import Place
from perdure.ports.vault import Masters
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyring import MAX_BLINDS, MAX_KEYS, Keyring
from perdure.sealing.masters import HeldKeys
from perdure.sealing.volatilevault import VolatileVault
from perdure.testing import FixedAmbient
from tests.sealing.conftest import AMBIENT

OWNER = bytes(range(16))


@pytest.fixture
def place(keyring: Keyring) -> Place:
    return Place("tenant", OWNER, keyring.fresh())


def test_what_was_sealed_opens_in_its_place(keyring: Keyring, place: Place) -> None:
    for size in (0, 1, 16, 5000):
        plain = os.urandom(size)
        sealed = keyring.seal(place, "record", 7, b"digest", plain)
        assert keyring.open(place, "record", 7, b"digest", sealed) == plain
        assert len(sealed) == 1 + 24 + size + 16
        assert size < 16 or plain not in sealed


def test_it_opens_nowhere_else(keyring: Keyring, place: Place) -> None:
    """R14: tenant, owner, salt, kind, number and binding each count."""
    sealed = keyring.seal(place, "record", 7, b"digest", b"plain")
    other = keyring.fresh()
    elsewhere: list[tuple[Place, str, int, bytes]] = [
        (replace(place, tenant="another"), "record", 7, b"digest"),
        (replace(place, owner=OWNER[::-1]), "record", 7, b"digest"),
        (replace(place, salt=other), "record", 7, b"digest"),
        (place, "snapshot", 7, b"digest"),
        (place, "record", 8, b"digest"),
        (place, "record", 7, b"Digest"),
        (place, "record", 7, b""),
    ]
    for where, kind, seq, bound in elsewhere:
        with pytest.raises(Damaged, match="belongs elsewhere"):
            keyring.open(where, kind, seq, bound, sealed)


def test_no_flipped_bit_and_no_cut_goes_unnoticed(keyring: Keyring, place: Place) -> None:
    sealed = keyring.seal(place, "record", 1, b"", b"a few words")
    for at in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(Damaged):
            keyring.open(place, "record", 1, b"", bytes(changed))
    for end in range(len(sealed)):
        with pytest.raises(Damaged):
            keyring.open(place, "record", 1, b"", sealed[:end])


def test_the_same_words_never_look_the_same_twice(keyring: Keyring, place: Place) -> None:
    sealed = {keyring.seal(place, "record", 1, b"", b"hello") for _ in range(500)}
    assert len({item[1:25] for item in sealed}) == 500, "a nonce was used twice"


def test_every_session_has_a_key_of_its_own(keyring: Keyring) -> None:
    """Also two that were given one salt, as a file put together by hand might have it."""
    salt = keyring.fresh()
    one, two = Place("tenant", OWNER, salt), Place("tenant", OWNER[::-1], salt)
    keyring.seal(one, "record", 1, b"", b"")
    keyring.seal(two, "record", 1, b"", b"")
    nonce = bytes(24)
    assert keyring._keys[one].seal(nonce, b"x", b"") != keyring._keys[two].seal(nonce, b"x", b"")


def test_keys_that_fell_out_of_memory_are_found_again(keyring: Keyring) -> None:
    places = [Place("tenant", number.to_bytes(16, "big"), keyring.fresh()) for number in range(MAX_KEYS + 50)]
    sealed = [keyring.seal(place, "record", 1, b"", place.owner) for place in places]
    assert len(keyring._keys) <= MAX_KEYS
    assert len(keyring._given) <= MAX_KEYS + 1
    assert all(
        keyring.open(place, "record", 1, b"", item) == place.owner for place, item in zip(places, sealed, strict=True)
    )


def test_the_keys_of_many_places_are_found_together(file_vault: FileVault, masters: HeldKeys) -> None:
    first = Keyring(masters, file_vault, AMBIENT)
    places = [Place("tenant", number.to_bytes(16, "big"), first.fresh()) for number in range(5)]
    sealed = [first.seal(place, "card", 0, b"", place.owner) for place in places]
    first.destroy([places[3].salt or b""])
    other = Keyring(masters, file_vault, AMBIENT)
    other.expect([*places, Place("tenant", OWNER, b"no such salt")])
    assert list(other._keys) == [*places[:3], places[4]]
    for place, item in zip(places, sealed, strict=True):
        if place is not places[3]:
            assert other.open(place, "card", 0, b"", item) == place.owner
    with pytest.raises(Shredded):
        other.open(places[3], "card", 0, b"", sealed[3])


# ── keyed hashes ──


@settings(max_examples=200)
@given(one=st.text(), other=st.text(), use=st.sampled_from(["label", "word", "key", "fingerprint"]))
def test_stand_ins_are_equal_exactly_if_the_texts_are(one: str, other: str, use: str) -> None:
    keyring = KEYRING
    assert (keyring.blind(use, one) == keyring.blind(use, other)) == (one == other)
    assert len(keyring.blind(use, one)) == 32


KEYRING = Keyring(HeldKeys({"m": b"k" * 32}, "test"), VolatileVault(AMBIENT), AMBIENT)


def test_stand_ins_differ_by_use_and_by_vault(keyring: Keyring) -> None:
    uses = ("label", "word", "key", "fingerprint", "blob")
    assert len({keyring.blind(use, "same") for use in uses}) == len(uses)
    assert keyring.blind("word", "same") != KEYRING.blind("word", "same")


def test_stand_ins_stay_the_same_over_time_and_memory_stays_bounded(masters: HeldKeys) -> None:
    vault = VolatileVault(AMBIENT)
    keyring = Keyring(masters, vault, AMBIENT)
    before = keyring.blind("word", "w0")
    for number in range(MAX_BLINDS + 100):
        keyring.blind("word", f"w{number}")
    assert len(keyring._blinds) <= MAX_BLINDS
    assert keyring.blind("word", "w0") == before == Keyring(masters, vault, AMBIENT).blind("word", "w0")


# ── whose key, whose store ──


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[FileVault]:
    made = FileVault(str(tmp_path / "v.keys"), AMBIENT, create=True)
    Keyring(HeldKeys({"m": b"k" * 32}, "the right place"), made, AMBIENT)
    yield made
    made.close()


def test_a_wrong_key_is_known_at_once_and_changes_nothing(vault: FileVault) -> None:
    before = vault.page(b"", 100), vault.proofs()
    with pytest.raises(WrongKey, match="nothing was changed"):
        Keyring(HeldKeys({"m": b"K" * 32}, "the wrong place"), vault, AMBIENT)
    assert (vault.page(b"", 100), vault.proofs()) == before


def test_a_missing_key_is_named(vault: FileVault) -> None:
    with pytest.raises(KeyMissing, match="under the master key m, but elsewhere has n") as refusal:
        Keyring(HeldKeys({"n": b"k" * 32}, "elsewhere"), vault, AMBIENT)
    assert refusal.value.fields["master"] == "m"


def test_an_empty_vault_is_not_begun_by_a_reader(tmp_path: Path, masters: HeldKeys) -> None:
    FileVault(str(tmp_path / "empty.keys"), AMBIENT, create=True).close()
    vault = FileVault(str(tmp_path / "empty.keys"), AMBIENT, read_only=True)
    with pytest.raises(KeyMissing, match="empty"):
        Keyring(masters, vault, AMBIENT, read_only=True)
    vault.close()


def test_a_store_is_joined_by_its_mark(masters: HeldKeys) -> None:
    vault = VolatileVault(AMBIENT)
    mark = Keyring(masters, vault, AMBIENT).join(None)
    assert Keyring(masters, vault, AMBIENT).join(mark) == mark
    assert Keyring(masters, vault, AMBIENT).join(None) != mark, "two stores of one vault are told apart"
    with pytest.raises(KeyMissing, match="another vault"):
        Keyring(masters, VolatileVault(AMBIENT), AMBIENT).join(mark)
    with pytest.raises(Refused, match="export"):
        Keyring(masters, vault, AMBIENT).join("")


def test_a_salt_of_nobody_is_shredded(keyring: Keyring) -> None:
    with pytest.raises(Shredded, match="erased"):
        keyring.open(Place("tenant", OWNER, b"n" * 16), "record", 1, b"", bytes([1]) * 60)


def test_a_destroyed_salt_leaves_nothing_to_open_with(keyring: Keyring, place: Place) -> None:
    sealed = keyring.seal(place, "record", 1, b"", b"plain")
    assert place.salt is not None
    keyring.condemn([place.salt])
    assert keyring.open(place, "record", 1, b"", sealed) == b"plain", "condemned is not destroyed"
    keyring.destroy([place.salt])
    with pytest.raises(Shredded):
        keyring.open(place, "record", 1, b"", sealed)


def test_what_a_dead_process_condemned_is_settled() -> None:
    ambient = FixedAmbient()
    keyring = Keyring(HeldKeys({"m": b"k" * 32}, "test"), VolatileVault(ambient), ambient)
    keyring.join(None)
    gone, there, recent = (keyring.fresh() or b"" for _ in range(3))
    keyring.condemn([gone, there])
    keyring.settle(lambda: {there, recent})
    assert set(keyring._vault.condemned(keyring._mark)) == {there}, "its eraser may be at work"
    ambient.advance(3600)
    keyring.condemn([recent])
    keyring.settle(lambda: {there, recent})
    assert set(keyring._vault.condemned(keyring._mark)) == {recent}
    assert keyring._vault.get(gone) is None
    assert keyring._vault.get(there) is not None


def test_another_store_settles_nothing_of_ours(masters: HeldKeys) -> None:
    vault = VolatileVault(AMBIENT)
    ours, theirs = Keyring(masters, vault, AMBIENT), Keyring(masters, vault, AMBIENT)
    ours.join(None)
    theirs.join(None)
    salt = ours.fresh() or b""
    ours.condemn([salt])
    theirs.settle(set)
    assert vault.get(salt) is not None


def test_a_store_in_which_nothing_is_condemned_is_not_searched(keyring: Keyring) -> None:
    def search() -> Any:
        raise AssertionError("every row of the store would be read")

    keyring.settle(search)


def test_what_is_left_in_stock_goes_when_the_store_is_closed(masters: HeldKeys) -> None:
    vault = VolatileVault(AMBIENT)
    keyring = Keyring(masters, vault, AMBIENT)
    used = [keyring.fresh() for _ in range(9)]
    assert vault.census()[0].salts > 10
    keyring.close()
    assert vault.census()[0].salts == 9 + 1
    assert all(salt is not None and vault.get(salt) is not None for salt in used)


def test_salts_are_made_durable_many_at_a_time(masters: HeldKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A create or a branch waits for no fsync of its own in the vault."""
    vault, batches = VolatileVault(AMBIENT), list[int]()
    add = vault.add

    def counted(entries: Any) -> bool:
        batches.append(len(entries))
        return add(entries)

    monkeypatch.setattr(vault, "add", counted)
    keyring = Keyring(masters, vault, AMBIENT)
    given = [keyring.fresh() for _ in range(1000)]
    assert len(set(given)) == 1000
    assert batches[:8] == [1, 2, 4, 8, 16, 32, 64, 64]
    assert len(batches) < 30


# ── masters of one's own ──


class KeyService:
    """As a KMS would be used: it answers with the HMAC of a key that never leaves it."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def place(self) -> str:
        return "kms.example/perdure"

    def current(self) -> str:
        return "alias/sessions"

    def ids(self) -> tuple[str, ...]:
        return ("alias/sessions",)

    def derive(self, key: str, salt: bytes, context: bytes) -> bytes:
        import hmac

        self.asked += 1
        assert key == "alias/sessions"
        return hmac.digest(b"in the service alone", salt + context, "sha256")

    def refresh(self) -> None:
        return


def test_a_key_service_serves_and_is_asked_once_a_session() -> None:
    service, vault = KeyService(), VolatileVault(AMBIENT)
    masters: Masters = service
    keyring = Keyring(masters, vault, AMBIENT)
    place = Place("tenant", OWNER, keyring.fresh())
    before = service.asked
    sealed = [keyring.seal(place, "record", number, b"", b"words") for number in range(50)]
    assert service.asked == before + 1
    again = Keyring(masters, vault, AMBIENT)
    assert [again.open(place, "record", number, b"", item) for number, item in enumerate(sealed)] == [b"words"] * 50


def test_nothing_shows_a_key(keyring: Keyring, place: Place, masters: HeldKeys) -> None:
    keyring.seal(place, "record", 1, b"", b"plain")
    secrets = [*masters._keys.values(), keyring._index, *keyring._hashes.values()]
    shown = f"{keyring!r} {keyring} {keyring._keys!r} {masters!r} {keyring._stock!r}"
    for secret in secrets:
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
