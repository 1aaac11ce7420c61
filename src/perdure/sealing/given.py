"""What a caller says about sealing when it opens a store. Light: nothing here needs cryptography."""

import os
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.ports.vault import Masters, Vault

KeyGiven = str | os.PathLike[str] | Masters | None
"""The path of a key file, or master keys of the caller's own."""
VaultGiven = str | os.PathLike[str] | Vault | None
"""The path of a vault file, the DSN of a vault in PostgreSQL, or a vault of the caller's own."""


class Given(msgspec.Struct, frozen=True):
    """How a store is to be opened: whether sealed, with which master keys, with which vault. None: as it is found."""

    seal: bool | None = None
    key: Any = None
    vault: Any = None

    def __post_init__(self) -> None:
        if type(self.seal) not in (bool, type(None)):
            raise Invalid(f"seal is True, False or None, not {type(self.seal).__name__}")
        for name, value, asked in (("key", self.key, "derive"), ("vault", self.vault, "condemn")):
            if isinstance(value, str | os.PathLike):
                (place_text if name == "vault" else path_text)(value, f"{name} is the path of a file")
            elif value is not None and not hasattr(value, asked):
                raise Invalid(f"{name} is a path or an object of perdure.ports.vault, not {type(value).__name__}")
        if self.seal is False and (self.key is not None or self.vault is not None):
            raise Invalid("seal=False leaves nothing for a key or a vault to do; leave out one or the other")

    @property
    def sealed(self) -> bool | None:
        """What the caller says about sealing: True also when a key or a vault is named."""
        return True if self.key is not None or self.vault is not None else self.seal


def path_text(value: Any, promise: str) -> str:
    """A path as a text that a file can be called by; else `Invalid`, which says what was promised."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise Invalid(f"{promise}, not {shown(value if path is None else path)}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise Invalid(f"{promise}, not {shown(path)}, which cannot be encoded") from None
    return path


def place_text(value: Any, promise: str) -> str:
    """The path or address of something that an engine opens: UTF-8 throughout, the folders above it as well."""
    place = path_text(value, promise)
    whole = place if "://" in place or place == ":memory:" else os.path.abspath(place)
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{promise}, not {shown(whole)}, which is not UTF-8; choose another name") from None
    return place


AS_FOUND: Final = Given()
"""A new store is sealed, with key and vault beside it; an old one is opened as it was made."""
