"""What the world does: errors that are not the caller's fault; `errors` has the tree."""

from perdure.core.roots import WorldError


class Tampered(WorldError):
    """Stored bytes do not match their digest."""


class Damaged(Tampered):
    """Stored bytes cannot be read at all."""


class CheckpointIntegrity(Tampered):
    """A checkpoint is not what was written, and no other may be used."""


class SessionIntegrity(WorldError):
    """What is kept of a session does not add up; names the checks that failed."""


class BundleMissing(Damaged):
    """An archived session's bundle is not where it was put."""


class ColdUnreachable(WorldError):
    """Cold storage does not serve: the network, the credentials, the disk."""


class Unreachable(WorldError):
    """The server does not answer, or what answers is not perdure."""


class KeyMissing(WorldError):
    """Sealed, and the master key, the vault or a salt is not there."""


class WrongKey(KeyMissing):
    """A master key is there, but it is another one."""


class Shredded(KeyMissing):
    """The salt was destroyed, or never was in this vault: what it sealed cannot be read."""


class NotAStore(WorldError):
    """The file is something else."""


class NewerStore(WorldError):
    """Written by a newer perdure."""


class OldSqlite(WorldError):
    """The linked SQLite has a known corruption bug."""


class ReadOnly(WorldError):
    """The file or folder cannot be written."""


class DiskFull(WorldError):
    """No space left; reads still work."""


class StoreBusy(WorldError):
    """Another process has held the file for too long."""


class StorePoisoned(WorldError):
    """An fsync failed; the store must be reopened."""


class DeliveryFailed(WorldError):
    """The receiver of a webhook did not take it."""


class ProviderFailed(WorldError):
    """A model's provider did not give an answer."""


class ProviderDenied(ProviderFailed):
    """The provider does not know our key, or the key may not do this."""


class ProviderBusy(ProviderFailed):
    """The provider has too much to do; `retry_after` says when to ask again."""


class ProviderDown(ProviderFailed):
    """The provider cannot be reached, or fails on its side."""


class ProviderSlow(ProviderDown):
    """The provider did not answer in time."""


class ProviderGarbled(ProviderFailed):
    """What the provider said is not its own wire form."""


class ProviderCut(ProviderFailed):
    """The provider's answer broke off in the middle."""


class StoreClosed(WorldError):
    """Used after close."""
