"""Whose vault is whose, where several people share a store: the names of vaults hold their owners' names.

So nobody can begin a vault that somebody else would take for their own, and no name tells whether it is taken.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from unicodedata import normalize

from perdure.core.memory.parts import Space, people, person, space_of, vault

APART: Final = ":"
LONGEST: Final = 60
"""Characters of a name that stand in a vault's; a longer one is told by its digest."""
_PLAIN: Final = frozenset(" -_.!$&'()*+,;=@#")
"""Signs that stand for themselves, beside letters and digits."""


def vault_of(owner: str, agent: str = "") -> Space:
    """The vault of an owner's agent, or the owner's own."""
    if not agent or agent == owner:
        return vault(_told(owner))
    return vault(f"{_told(owner)}{APART}{_told(agent)}")


def is_vault_of(space: Space, owner: str) -> bool:
    """Whether a vault is an owner's own, or that of an agent of theirs."""
    return space.namespace == "vault" and space.name.partition(APART)[0] == _told(owner)


def is_vault_of_any(space: Space, names: Iterable[str]) -> bool:
    """Whether a vault is the own one of somebody who goes by one of these names, or that of an agent of theirs: in
    capitals or not, and however its letters are put together. Of a name that is told by its digest, this is so as far
    as it is spelled in one of the usual ways.
    """
    if space.namespace != "vault":
        return False
    known = [*names]
    spelled = {form for name in known for form in (name, person(name), normalize("NFC", name), normalize("NFD", name))}
    begins = person(space.name.partition(APART)[0])
    return person(space.name) in people(known) or begins in people(map(_told, spelled))


def is_log(title: str, tenant: str, session: str) -> bool:
    """Whether a session is the log of a space, by its title, which is the space's name."""
    return space_of(tenant, session, title) is not None


def _told(name: str) -> str:
    """A name without what separates names; different ones stay different."""
    spelled = "".join(sign if sign.isalnum() or sign in _PLAIN else _escaped(sign) for sign in name)
    return spelled if len(spelled) <= LONGEST else f"~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


def _escaped(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))
