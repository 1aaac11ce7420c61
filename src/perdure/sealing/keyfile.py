"""Master keys in a file that only its owner may read.

Invariants: the file is replaced whole or not at all; a key that was handed out as current is on the disk; of two
processes that change the file at once, neither undoes what the other did.
"""

import base64
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

import msgspec

from perdure.core.errors import Damaged, Invalid, KeyMissing, NewerStore, Refused, WorldError
from perdure.ports.ambient import Ambient
from perdure.sealing import files
from perdure.sealing.derivation import KEY_BYTES, master_id
from perdure.sealing.masters import HeldKeys, key_from

FORMAT: Final = 1
MAX_BYTES: Final = 1 << 20
HOLDS: Final = "master keys"


class _Key(msgspec.Struct, frozen=True):
    id: str
    made_at: int
    key: str

    def __repr__(self) -> str:
        return f"_Key({self.id})"


class _Content(msgspec.Struct, frozen=True):
    """What the file says; `current` is the key for new salts."""

    type: str
    format: int
    current: str
    keys: tuple[_Key, ...]


class KeyFile:
    """Master keys in one file, read anew when another process has changed it. See `perdure.ports.vault.Masters`."""

    def __init__(self, path: str, ambient: Ambient) -> None:
        self.path = os.path.abspath(path)
        self._ambient = ambient
        self._lock = Lock()
        self._content, self._held = self._read()

    def __repr__(self) -> str:
        return f"KeyFile({self.path})"

    @classmethod
    def make(cls, path: str, ambient: Ambient) -> tuple["KeyFile", bool]:
        """The keys at a path, and whether the file was made just now with one fresh key."""
        path = os.path.abspath(path)
        made = False
        with files.spoken(path):
            if not os.path.exists(path):
                fresh = _fresh(ambient)
                first = _Content("perdure.keys", FORMAT, fresh.id, (fresh,))
                made = files.write_new(path, _spelled(first), ambient.random(8).hex())
        return cls(path, ambient), made

    @property
    def place(self) -> str:
        """The file's path."""
        return self.path

    def current(self) -> str:
        """The key for new salts."""
        return self._content.current

    def ids(self) -> tuple[str, ...]:
        """All keys of the file."""
        return self._held.ids()

    def made(self) -> Mapping[str, int]:
        """When each key was made, in microseconds since 1970."""
        return {key.id: key.made_at for key in self._content.keys}

    def derive(self, key: str, salt: bytes, context: bytes) -> bytes:
        """HKDF-SHA256 of the key."""
        return self._held.derive(key, salt, context)

    def refresh(self) -> None:
        """Read the file again."""
        with self._lock:
            self._content, self._held = self._read()

    def mint(self) -> str:
        """Add a fresh key and make it current."""
        fresh = _fresh(self._ambient)
        self._change(lambda now: msgspec.structs.replace(now, current=fresh.id, keys=(*now.keys, fresh)))
        return fresh.id

    def forget(self, key: str) -> None:
        """Take a key out of the file for good."""

        def without(now: _Content) -> _Content:
            if key == now.current:
                raise Refused(f"{key} is the current master key; rotate to another one first", master=key)
            return msgspec.structs.replace(now, keys=tuple(item for item in now.keys if item.id != key))

        self._change(without)

    def _change(self, changed: Any) -> None:
        with self._lock, files.spoken(self.path), files.alone(self.path):
            self._content, self._held = self._read()
            files.rewrite(self.path, _spelled(changed(self._content)), self._ambient.random(8).hex())
            self._content, self._held = self._read()

    def _read(self) -> tuple[_Content, HeldKeys]:
        path = self.path
        try:
            with files.spoken(path):
                text = files.read_private(path, HOLDS, MAX_BYTES)
        except WorldError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise no_key(path) from None
            raise
        return _parsed(text, path)


def no_key(path: str) -> KeyMissing:
    """The error for a key file that is not there."""
    return KeyMissing(
        f"the master key {path} is not there; put it back, or name another place with key= or PERDURE_KEY_FILE",
        path=path,
    )


def _fresh(ambient: Ambient) -> _Key:
    key = ambient.random(KEY_BYTES)
    return _Key(master_id(key), ambient.now(), base64.b64encode(key).decode())


def _spelled(content: _Content) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _parsed(text: bytes, path: str) -> tuple[_Content, HeldKeys]:
    try:
        content = msgspec.json.decode(text, type=_Content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _unlike(path) from None  # the decoder's words may quote what it read
    if content.type != "perdure.keys":
        raise _unlike(path)
    if content.format > FORMAT:
        raise NewerStore(
            f"{path} has format {content.format}, this perdure reads up to {FORMAT}; upgrade perdure to use it",
            path=path,
            found=content.format,
            supported=FORMAT,
        )
    try:
        keys = {item.id: key_from(item.key, f"key {item.id} of {path}") for item in content.keys}
    except Invalid:
        raise _unlike(path) from None
    if content.current not in keys or len(keys) != len(content.keys):
        raise _unlike(path)
    return content, HeldKeys(keys, path)


def _unlike(path: str) -> Damaged:
    return Damaged(f"{path} is not a file of master keys as perdure writes them; restore it from its backup", path=path)
