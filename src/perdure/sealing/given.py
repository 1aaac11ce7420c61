"""What a caller says about sealing when it opens a store. Light: nothing here needs cryptography."""

import os
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
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
            if not isinstance(value, str | os.PathLike | None) and not hasattr(value, asked):
                raise Invalid(f"{name} is a path or an object of perdure.ports.vault, not {type(value).__name__}")
        if self.seal is False and (self.key is not None or self.vault is not None):
            raise Invalid("seal=False leaves nothing for a key or a vault to do; leave out one or the other")

    @property
    def sealed(self) -> bool | None:
        """What the caller says about sealing: True also when a key or a vault is named."""
        return True if self.key is not None or self.vault is not None else self.seal


AS_FOUND: Final = Given()
"""A new store is sealed, with key and vault beside it; an old one is opened as it was made."""
