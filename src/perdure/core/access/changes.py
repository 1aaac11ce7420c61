"""What the directory's log says: entries, each one thing that was decided. The log keeps them as plain documents."""

from typing import Any, TypeAlias

import msgspec

from perdure.core.access.roles import Role
from perdure.core.access.rules import Policy
from perdure.core.errors import UnknownKind


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="entry"):
    """Root of the closed union. `by` is the opaque id of whoever decided it; empty for the operator."""

    at: int = 0
    by: str = ""


class PrincipalAdded(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_added"):
    """Somebody, or something, may come in."""

    id: str
    tenant: str
    name: str
    kind: str = "person"
    roles: tuple[Role, ...] = ()
    scopes: tuple[str, ...] = ("*",)
    task: str | None = None
    agent: str | None = None
    acting_for: str | None = None


class PrincipalChanged(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_changed"):
    """Roles or scopes are others from now on; what is None stays."""

    id: str
    roles: tuple[Role, ...] | None = None
    scopes: tuple[str, ...] | None = None


class PrincipalDisabled(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_disabled"):
    """They may not come in, until they are enabled again."""

    id: str


class PrincipalEnabled(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_enabled"):
    """They may come in again."""

    id: str


class PrincipalErasing(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_erasing"):
    """Everything of theirs is being erased; they never come in again."""

    id: str


class PrincipalForgotten(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_forgotten"):
    """Name and keys are gone; the opaque id stays, for what the audit log says of it."""

    id: str
    tenant: str


class PrincipalCleared(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="principal_cleared"):
    """Whatever the log said of them was redacted."""

    id: str


class KeyAdded(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="key_added"):
    """A key for a principal. Only the SHA-256 of its secret is known."""

    id: str
    tenant: str
    principal: str
    hash: bytes
    label: str = ""
    roles: tuple[Role, ...] | None = None
    scopes: tuple[str, ...] = ("*",)
    expires_at: int | None = None


class KeyRevoked(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="key_revoked"):
    """A key opens nothing any more."""

    id: str


class PolicySet(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="policy_set"):
    """A tenant's rules are these from now on."""

    tenant: str
    policy: Policy


class WebhookAdded(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="webhook_added"):
    """Somewhere wants to be told of some events."""

    id: str
    tenant: str
    url: str
    secret: bytes
    events: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"WebhookAdded({self.id})"


class WebhookRemoved(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="webhook_removed"):
    """It is told no longer."""

    id: str


class SecretAdded(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="secret_added"):
    """The current secret of a name; the one before it is still known."""

    id: str
    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"SecretAdded({self.name}, {self.id})"


AnyEntry: TypeAlias = (
    PrincipalAdded
    | PrincipalChanged
    | PrincipalDisabled
    | PrincipalEnabled
    | PrincipalErasing
    | PrincipalForgotten
    | PrincipalCleared
    | KeyAdded
    | KeyRevoked
    | PolicySet
    | WebhookAdded
    | WebhookRemoved
    | SecretAdded
)


def tag_of(entry: AnyEntry) -> str:
    """What the log calls an entry."""
    tag = type(entry).__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def to_document(entry: AnyEntry) -> dict[str, Any]:
    """An entry as plain data."""
    found: dict[str, Any] = msgspec.to_builtins(entry, builtin_types=(bytes,))
    return found


def from_document(document: object) -> AnyEntry:
    """The entry behind plain data; `UnknownKind` for one that this perdure does not know: who may come in is not
    guessed.
    """
    try:
        found: AnyEntry = msgspec.convert(document, AnyEntry)
    except msgspec.ValidationError as wrong:
        raise UnknownKind(
            f"the directory holds an entry that this perdure cannot read ({wrong}); run the newest version everywhere"
        ) from wrong
    return found


def about(entry: AnyEntry) -> str | None:
    """The principal whom an entry tells something of, if any."""
    match entry:
        case KeyAdded():
            return entry.principal
        case (
            PrincipalAdded()
            | PrincipalChanged()
            | PrincipalDisabled()
            | PrincipalEnabled()
            | PrincipalErasing()
            | PrincipalForgotten()
            | PrincipalCleared()
        ):
            return entry.id
        case _:
            return None
