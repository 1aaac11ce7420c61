"""Fresh salts in stock: many are made durable at once before any is used, so that a new session waits for no extra
fsync. Each is given out once, by one process: a forked child begins with an empty stock.
"""

from threading import Lock
from typing import Final

from perdure.core.errors import AlreadyExists, WorldError
from perdure.ports.ambient import Ambient
from perdure.ports.vault import Displaceable, Entry, Masters, Vault
from perdure.sealing.wrapping import missing, salt_entry

MOST: Final = 64
_TRIES: Final = 1000


class Stock:
    """Salts that are in the vault and in nobody's use. It begins with one and doubles: short lives waste little."""

    def __init__(self, masters: Masters, vault: Vault, ambient: Ambient) -> None:
        self._masters = masters
        self._vault = vault
        self._displaceable = vault if isinstance(vault, Displaceable) else None
        self._ambient = ambient
        self._lock = Lock()
        self._ready: list[Entry] = []
        self._next = 1

    def take(self) -> Entry:
        """A salt for somebody; nobody else gets it."""
        with self._lock:
            if not self._ready:
                self._ready = self._made(self._next)
                self._next = min(2 * self._next, MOST)
            elif self._displaceable is not None:
                self._displaceable.must_be_in_place()
            return self._ready.pop()

    def give_back(self) -> None:
        """Destroy what was not used."""
        with self._lock:
            names, self._ready = [entry.name for entry in self._ready], []
        self._vault.destroy(names)

    def _made(self, count: int) -> list[Entry]:
        """Fresh salts under the master key that is current in the vault at the moment of the commit."""
        for _ in range(_TRIES):
            master = self._vault.current() or self._masters.current()
            if master not in self._masters.ids():
                self._masters.refresh()
                if master not in self._masters.ids():
                    raise missing(self._masters, master)
            made = [salt_entry(master, self._ambient) for _ in range(count)]
            try:
                if self._vault.add(made):
                    return made
            except AlreadyExists:  # chance that repeats itself, as in tests: draw again
                continue
        raise WorldError("the vault took no fresh salts; look at its place and try again", place=self._vault.place)
