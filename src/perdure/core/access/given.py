"""What callers give the directory, checked: texts, names, tenants, roles, scopes."""

from collections.abc import Iterable
from typing import Any, Final

from perdure.core.access.roles import Role, is_scope
from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.core.session.values import check

MAX_NAME: Final = 256
MOST_SCOPES: Final = 256
APART: Final = "#"
"""What stands in the names of those whom an issuer vouches for, and in no name of the directory."""
OURS: Final = "_"
"""Tenants whose names begin so are perdure's own; nobody is let into them."""


def must_be_tenant(tenant: object) -> str:
    """The name of a tenant that people may be let into, or `Invalid`."""
    found = must_be_text("tenant", tenant)
    if found.startswith(OURS):
        raise Invalid(f"tenants that begin with {OURS} are perdure's own; choose another name", tenant=found)
    return found


def must_be_name(name: object) -> str:
    """What a principal may be called, or `Invalid`: short, in print, on one line."""
    return must_be_text("name", name)


def must_be_roles(roles: Iterable[Any]) -> tuple[Role, ...]:
    """Roles, or their names, each once; `Invalid` when one is none."""
    found = tuple(roles) if isinstance(roles, list | tuple | set | frozenset) else (roles,)
    known = {role.value: role for role in Role}
    for role in found:
        if type(role) is not Role and not (type(role) is str and role in known):
            raise Invalid(f"a role is one of {', '.join(known)}, not {shown(role)}")
    named = {role if type(role) is Role else known[role] for role in found}
    return tuple(sorted(named, key=lambda role: role.value))


def must_be_scopes(scopes: Iterable[Any]) -> tuple[str, ...]:
    """Scopes as a caller gave them, each once; `Invalid` says which one is none."""
    found = tuple(scopes) if isinstance(scopes, list | tuple | set | frozenset) else None
    if found is None or len(found) > MOST_SCOPES:
        raise Invalid(f"scopes are a list of at most {MOST_SCOPES} texts like read:turns, not {shown(scopes)}")
    for scope in found:
        if type(scope) is not str or not is_scope(scope):
            raise Invalid(f"{shown(scope)} is no scope; write verb:thing, as read:turns, with * for any of either")
    return tuple(sorted(set(found)))


def must_be_text(field: str, value: object, *, least: int = 1, most: int = MAX_NAME) -> str:
    """A text that is short, in print and on one line, or `Invalid` in the words of the field it is for."""
    if type(value) is not str or not least <= len(value) <= most or not value.isprintable() or value != value.strip():
        raise Invalid(
            f"{field} is a printable text of {least} to {most} characters without spaces around it, not {shown(value)}"
        )
    check(value)
    return value
