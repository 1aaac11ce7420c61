"""A store as a server sees it, for commands that look after its tenants."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click

from perdure.core.errors import NotAStore, NotFound
from perdure.edge.cli.opening import cold_given, is_address, keys_given, noting, opened
from perdure.edge.cli.text import few, one_line

if TYPE_CHECKING:
    from perdure.compose.tenants import Tenants
    from perdure.core.access.book import Principal

TENANT: Final = "local"
_NAMED: Final = 5
"""How many principals are named to whoever asks for one that is not there."""


def tenant_option(command: Any) -> Any:
    """`--tenant NAME`."""
    return click.option(
        "--tenant", default=TENANT, show_default=True, metavar="NAME", help="Whose principals, keys and logs."
    )(command)


@contextmanager
def served(store: str, *, read_only: bool, create: bool | None = None) -> "Iterator[Tenants]":
    """The store at a path as a server sees it, closed afterwards; `NotAStore` when there is none, unless it is to be
    made. `create` is what --create says, None where a command has no such option.
    """
    from perdure.compose.tenants import tenants
    from perdure.sealing.given import Given
    from perdure.waiting import drive

    if not create and not is_address(store) and not os.path.isfile(store):
        more = "" if create is None else ", or make one with --create"
        raise NotAStore(f"no store at {store}; name one with --store or PERDURE_STORE{more}", path=store)
    if is_address(store) and not read_only and not create:
        with opened(store, read_only=True):  # a database without a store stays so
            pass
    with noting():
        found = tenants(store, keys=Given(None, **keys_given()), cold=cold_given(), read_only=read_only)
    try:
        yield found
    finally:
        drive(found.close())


def write_down(house: "Tenants", tenant: str, what: str, action: str, thing: str) -> None:
    """Leave an entry in a tenant's audit log: the operator did this to the thing of this id."""
    from perdure.core.access.entries import AuditEntry
    from perdure.services.directory import OPERATOR
    from perdure.waiting import drive

    entry = AuditEntry(
        what=what, at=house.ambient.now(), tenant=tenant, actor=OPERATOR, action=action, thing=thing, reason=OPERATOR
    )
    drive(house.auditing.note(tenant, entry))


def names_of(house: "Tenants", tenant: str) -> dict[str, str]:
    """The names of a tenant's principals, by their ids; whoever was forgotten has none."""
    from perdure.waiting import drive

    return {each.id: each.name for each in drive(house.directory.principals(tenant)) if each.name}


def principal_of(house: "Tenants", tenant: str, word: str, *, more: str = "") -> "Principal":
    """The principal of this name or id; `NotFound` says who there is, and `more`."""
    from perdure.waiting import drive

    try:
        return drive(house.directory.principal(tenant, word))
    except NotFound:
        names = sorted(names_of(house, tenant).values())
        told = f"no principal {word[:80]!r} here{_who_else(names, word, tenant)}{more}"
        raise NotFound(told, principal=word[:80], tenant=tenant) from None


def _who_else(names: list[str], word: str, tenant: str) -> str:
    if not names:
        return f": tenant {tenant} has none; --tenant names another"
    near = get_close_matches(word, names, n=1)
    if near:
        return f"; did you mean {one_line(near[0])}?"
    return f"; there are {few(names, _NAMED)}; perdure principals list shows all"
