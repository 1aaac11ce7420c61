"""From what a caller gives, the environment and the places beside a store to its keyring."""

import os
import warnings
from contextlib import suppress
from typing import Final

from perdure.core.errors import Invalid, KeyMissing
from perdure.ports.ambient import Ambient
from perdure.ports.vault import Masters, Vault
from perdure.sealing import files
from perdure.sealing import masters as held
from perdure.sealing.filevault import FileVault, no_vault
from perdure.sealing.given import Given, place_text
from perdure.sealing.keyfile import HOLDS as KEYS_HELD
from perdure.sealing.keyfile import KeyFile, no_key
from perdure.sealing.keyring import Keyring, must_be_its_own
from perdure.sealing.keys import Keys

KEY_FILE: Final = "PERDURE_KEY_FILE"
VAULT: Final = "PERDURE_VAULT"
KEY_SUFFIX: Final = ".master"
VAULT_SUFFIX: Final = ".keys"
_SERVER: Final = ("postgresql://", "postgres://")
_LEVELS: Final = 8
"""Frames between the warning and the call of `perdure.open` that it concerns."""


def keyring(store: str, given: Given, ambient: Ambient, *, mark: str | None, read_only: bool = False) -> Keyring:
    """The keyring of the store with this mark at a path or URL; for a new one (None), key and vault are made where
    they are not.
    """
    keys = keys_of(store, given, ambient, mark=mark, read_only=read_only)
    try:
        return Keyring(keys.masters, keys.vault, ambient, read_only=read_only)
    except BaseException:
        keys.close()
        raise


def volatile_keyring(given: Given, ambient: Ambient) -> Keyring:
    """The keyring of a store in RAM; its keys are gone with it unless they are given."""
    from perdure.sealing.volatilevault import VolatileVault

    masters = held.made_up(ambient) if given.key is None else _masters(":memory:", given, ambient, new=False)[0]
    vault = VolatileVault(ambient) if given.vault is None else _vault(":memory:", given, ambient, True, False)
    return Keyring(masters, vault, ambient)


def keys_of(store: str, given: Given, ambient: Ambient, *, mark: str | None, read_only: bool = False) -> Keys:
    """The master keys and the vault of a store, wherever they are; made for a new one, which has no mark."""
    new = mark is None
    place = _vault_place(store, given)
    lies_in = os.path.abspath(place) if isinstance(place, str) and not place.startswith(_SERVER) else None
    if not new and lies_in is not None and not os.path.exists(lies_in):
        raise no_vault(lies_in)  # before a missing key: whoever moved the store left both behind
    _refuse_odd(store, _key_path(store, given), lies_in)
    masters, made = _masters(store, given, ambient, new=new)
    vault = _vault(store, given, ambient, new, read_only)
    if mark is not None:
        try:
            must_be_its_own(vault, mark)  # before the keys are tried on it: they are not to blame
        except KeyMissing:
            vault.close()
            raise
    if made is not None:
        warnings.warn(
            f"a new master key was made for the sealed store {store}: {made}. Without this file and the vault "
            f"{vault.place} nothing in the store can ever be read again: back up both, apart from the store",
            stacklevel=_LEVELS,
        )
    return Keys(masters, vault, ambient)


def key_places(store: str, given: Given) -> tuple[str, ...]:
    """The files that the keys of a store are in, or would be; those that are in none are left out."""
    found = []
    with suppress(KeyMissing):  # a server's, and none was named
        found.append(_key_path(store, given))
    with suppress(KeyMissing):
        place = _vault_place(store, given)
        found.append(place if isinstance(place, str) and not place.startswith(_SERVER) else None)
    return tuple(path for path in found if path is not None)


def _refuse_odd(store: str, key: str | None, vault: str | None) -> None:
    """Before anything is made: a place that cannot serve, or one that is to serve for two things."""
    with files.spoken(vault or store):
        for path, holds in ((key, KEYS_HELD), (vault, "the salts of a sealed store")):
            if path is not None:
                files.must_be_private(path, holds)
    places = [os.path.realpath(path) for path in (None if is_no_file(store) else store, key, vault) if path is not None]
    if len(set(places)) < len(places):
        raise Invalid(f"store, key and vault are three files; give each its own path, not {places[-1]} twice")


def _masters(store: str, given: Given, ambient: Ambient, *, new: bool) -> tuple[Masters, str | None]:
    """The master keys, and the path of the file if it was made just now. What is given comes before the environment,
    the environment before what lies beside the store.
    """
    path = _key_path(store, given)
    if path is None:
        given_keys: Masters = given.key or held.from_environment(os.environ[held.VARIABLE])
        return given_keys, None
    if not new:
        if not os.path.exists(path):
            raise no_key(path)
        return KeyFile(path, ambient), None
    found, made = KeyFile.make(path, ambient)
    return found, path if made else None


def _key_path(store: str, given: Given) -> str | None:
    """The path of the key file; None where the keys are in none."""
    key = given.key
    if key is None:
        if os.environ.get(held.VARIABLE):
            return None
        key = os.environ.get(KEY_FILE) or _beside(store, KEY_SUFFIX, "key", KEY_FILE)
    return os.path.abspath(os.fspath(key)) if isinstance(key, str | os.PathLike) else None


def _vault_place(store: str, given: Given) -> str | Vault:
    if given.vault is None:
        if named := os.environ.get(VAULT):
            return place_text(named, f"{VAULT} is the path of a vault, or a URL of PostgreSQL")
        return _beside(store, VAULT_SUFFIX, "vault", VAULT)
    vault: str | Vault = os.fspath(given.vault) if isinstance(given.vault, os.PathLike) else given.vault
    return vault


def _vault(store: str, given: Given, ambient: Ambient, new: bool, read_only: bool) -> Vault:
    place = _vault_place(store, given)
    if not isinstance(place, str):
        return place
    if place.startswith(_SERVER):
        try:
            from perdure.sealing.postgresvault import PostgresVault
        except ImportError as missing:
            raise Invalid("a vault in PostgreSQL needs psycopg; install perdure[postgres]") from missing

        return PostgresVault(place, ambient, create=new, read_only=read_only)
    return FileVault(place, ambient, create=new, read_only=read_only)


def is_no_file(store: str) -> bool:
    """Whether a store is a server's, or in RAM."""
    return "://" in store or store == ":memory:"


def _beside(store: str, suffix: str, what: str, variable: str) -> str:
    if is_no_file(store):
        raise KeyMissing(
            f"a sealed store that is no file needs its {what} named: give {what}= or set {variable}; or make it with "
            "seal=False, if what it holds may lie in the clear"
        )
    return os.path.abspath(store) + suffix
