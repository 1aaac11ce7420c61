"""Changing the master key: every secret of a vault is wrapped under the new key, page by page, while others work on.

A kill leaves some entries under the old key and some under the new one, and both keys in their place: running it again
goes on. Nothing that was sealed is touched.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from perdure.core.errors import Damaged, Invalid, KeyMissing, NotFound, Refused
from perdure.ports.ambient import Ambient
from perdure.ports.vault import Entry, Masters, Minting, Vault
from perdure.sealing.wrapping import missing, proof_entry, rewrapped

PAGE: Final = 256
SHORTEST: Final = 4
"""Letters of an id that name a key at the least."""
Progress = Callable[[int, int], None]


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """What a rotation did: `left` entries could not be opened and stay under the key they name."""

    master: str
    wrapped: int
    left: int


def rotate(
    masters: Masters,
    vault: Vault,
    ambient: Ambient,
    *,
    resume: bool = False,
    page: int = PAGE,
    progress: Progress | None = None,
) -> Rotated:
    """Bring every entry under the current master key, a new one unless a rotation is unfinished.

    With `resume` no key is made: only what is unfinished is done.
    """
    masters.refresh()
    _turn(masters, vault, ambient, resume=resume)
    wrapped, total = 0, sum(count.salts for count in vault.census() if count.master != vault.current())

    def tell(new: int) -> None:
        nonlocal wrapped
        wrapped += new
        if progress is not None:
            progress(wrapped, max(wrapped, total))

    while True:
        done, left = _pass(masters, vault, ambient, page, tell)
        if not done:
            return Rotated(master=vault.current() or "", wrapped=wrapped, left=left)


def _turn(masters: Masters, vault: Vault, ambient: Ambient, *, resume: bool) -> None:
    """Settle which key is to be current in the vault from now on."""
    standing = vault.current()
    if masters.current() == standing and not resume and not vault.page(b"", 1, besides=standing):
        if not isinstance(masters, Minting):
            raise Refused(
                f"{standing} is the first key of {masters.place} already; put a new one before it, in every process, "
                "and rotate then"
            )
        masters.mint()
    target = masters.current()
    if target != standing:
        masters.refresh()  # whatever is wrapped from now on needs this key: be sure that it is kept
        if target not in masters.ids():
            raise missing(masters, target)
        vault.turn(proof_entry(masters, target, ambient))


def _pass(masters: Masters, vault: Vault, ambient: Ambient, page: int, tell: Callable[[int], None]) -> tuple[int, int]:
    """Go through the vault once; how many entries were wrapped anew, and how many were left."""
    done = left = 0
    after = b""
    while True:
        current = vault.current()
        assert current is not None, "a vault that was turned has a current key"
        found = vault.page(after, page, besides=current)
        if not found:
            return done, left
        changes = [(entry, made) for entry in found if (made := _made(masters, entry, current, ambient)) is not None]
        new = vault.replace(changes)
        done, left = done + new, left + len(found) - len(changes)
        after = found[-1].name
        tell(new)


def _made(masters: Masters, entry: Entry, master: str, ambient: Ambient) -> Entry | None:
    try:
        return rewrapped(masters, entry, master, ambient)
    except (KeyMissing, Damaged):
        if master not in masters.ids():
            raise
        return None


def forget(masters: Masters, vault: Vault, name: str) -> str:
    """Destroy a master key that nothing is under any more, and give its id; `Refused` before.

    It is named by its id, or by a beginning of some letters that no other one has.
    """
    masters.refresh()
    key = _named(masters, name)
    if key == masters.current():
        raise Refused(f"{key} is the current master key; rotate to another one first", master=key)
    if not vault.retire(key):
        raise Refused(f"salts still lie under the master key {key}; finish with perdure keys rotate first", master=key)
    if not isinstance(masters, Minting):
        raise Refused(f"nothing needs {key} any more; take it out of {masters.place} yourself", master=key)
    masters.forget(key)
    return key


def _named(masters: Masters, name: str) -> str:
    ids = masters.ids()
    found = [name] if name in ids else [key for key in ids if key.startswith(name)] if len(name) >= SHORTEST else []
    if not found:
        raise NotFound(f"{masters.place} has no master key {name}; it has {', '.join(ids)}", master=name)
    if len(found) > 1:
        raise Invalid(f"{name} fits {', '.join(found)}; give more of the id", candidates=found)
    return found[0]
