"""The idempotency keys of the volatile store. The caller holds the store's lock."""

from msgspec.structs import replace

from perdure.core.session.ids import SessionId
from perdure.core.session.record import Record
from perdure.ports.store import KeyUse, Remembered
from perdure.stores.packing import Packing

Scope = tuple[str, SessionId | None, str]


class Keys:
    """What each key was used for."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._uses: dict[Scope, Remembered] = {}

    def _scope(self, use: KeyUse) -> Scope:
        return (use.principal, use.session, self._packing.key(use.principal, use.key))

    def remember(self, use: KeyUse, session: SessionId, record: Record) -> None:
        """Note what a key was used for."""
        fingerprint = self._packing.fingerprint(use.fingerprint)
        self._uses[self._scope(use)] = Remembered(
            fingerprint=fingerprint, session=session, first=record.first, last=record.last
        )

    def remembered(self, use: KeyUse) -> Remembered | None:
        """What a key was used for, if it was."""
        found = self._uses.get(self._scope(use))
        if found is not None and found.fingerprint == self._packing.fingerprint(use.fingerprint):
            return replace(found, fingerprint=use.fingerprint)
        return found

    def forget(self, session: SessionId) -> None:
        """Drop the keys of a session that is gone."""
        self._uses = {scope: use for scope, use in self._uses.items() if session not in (scope[1], use.session)}
