"""The directory as it stands: who may come in and with what, folded from the entries of its log.

Invariant: folding never refuses. An entry about somebody the book does not know changes nothing, so a log in which a
person's entries were redacted still folds, without them.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from perdure.core.access.changes import (
    AnyEntry,
    KeyAdded,
    KeyRevoked,
    PolicySet,
    PrincipalAdded,
    PrincipalChanged,
    PrincipalCleared,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalErasing,
    PrincipalForgotten,
    SecretAdded,
    WebhookAdded,
    WebhookRemoved,
)
from perdure.core.access.roles import Role
from perdure.core.access.rules import Policy

KEPT_SECRETS: Final = 2
"""Of each named secret, the current one and the one before it are in the book."""


class Status(Enum):
    """Where a principal stands."""

    ACTIVE = "active"
    DISABLED = "disabled"
    ERASING = "erasing"
    FORGOTTEN = "forgotten"
    CLEARED = "cleared"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who may come in, and as what."""

    id: str
    tenant: str
    name: str
    kind: str = "person"
    roles: frozenset[Role] = frozenset()
    scopes: tuple[str, ...] = ("*",)
    task: str | None = None
    agent: str | None = None
    acting_for: str | None = None
    status: Status = Status.ACTIVE
    created_at: int = 0
    erasing_at: int | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a principal's. `roles` None means all that its principal has."""

    id: str
    tenant: str
    principal: str
    hash: bytes
    label: str = ""
    roles: frozenset[Role] | None = None
    scopes: tuple[str, ...] = ("*",)
    expires_at: int | None = None
    created_at: int = 0
    revoked_at: int | None = None

    def __repr__(self) -> str:
        return f"Key({self.id})"


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tenant wants to be told of which events, and the secret that signs them."""

    id: str
    tenant: str
    url: str
    secret: bytes
    events: tuple[str, ...] = ()
    created_at: int = 0

    def __repr__(self) -> str:
        return f"Hook({self.id})"


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A random secret of the server's own; its id tells which one signed."""

    id: str
    value: bytes
    created_at: int = 0

    def __repr__(self) -> str:
        return f"Secret({self.id})"


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody and everything the directory knows. Treat the mappings as read-only: `fold` makes new ones."""

    principals: Mapping[str, Principal] = {}
    names: Mapping[tuple[str, str], str] = {}
    """Tenant and name to id."""
    keys: Mapping[str, Key] = {}
    policies: Mapping[str, Policy] = {}
    hooks: Mapping[str, Hook] = {}
    secrets: Mapping[str, tuple[Secret, ...]] = {}
    """By name, the current one first."""

    def __repr__(self) -> str:
        return f"Book({len(self.principals)} principals, {len(self.keys)} keys)"


EMPTY: Final = Book()


def fold(book: Book, *entries: AnyEntry) -> Book:
    """The book with these entries in it. Many at once cost one copy."""
    return fold_all(book, entries)


def fold_all(book: Book, entries: Iterable[AnyEntry]) -> Book:
    """As `fold`, from an iterable."""
    folding = _Folding(book)
    for entry in entries:
        folding.take(entry)
    return Book(
        principals=folding.principals,
        names=folding.names,
        keys=folding.keys,
        policies=folding.policies,
        hooks=folding.hooks,
        secrets=folding.secrets,
    )


class _Folding:
    """A book while entries are put into it."""

    def __init__(self, book: Book) -> None:
        self.principals = dict(book.principals)
        self.names = dict(book.names)
        self.keys = dict(book.keys)
        self.policies = dict(book.policies)
        self.hooks = dict(book.hooks)
        self.secrets = dict(book.secrets)

    def take(self, entry: AnyEntry) -> None:
        match entry:
            case PolicySet():
                self.policies[entry.tenant] = entry.policy
            case WebhookAdded(id=id, tenant=tenant, url=url, secret=secret, events=events):
                self.hooks[id] = Hook(id=id, tenant=tenant, url=url, secret=secret, events=events, created_at=entry.at)
            case WebhookRemoved():
                self.hooks.pop(entry.id, None)
            case SecretAdded():
                fresh = Secret(id=entry.id, value=entry.secret, created_at=entry.at)
                self.secrets[entry.name] = (fresh, *self.secrets.get(entry.name, ()))[:KEPT_SECRETS]
            case KeyAdded() | KeyRevoked():
                self.take_key(entry)
            case _:
                self.take_principal(entry)

    def take_key(self, entry: KeyAdded | KeyRevoked) -> None:
        if isinstance(entry, KeyRevoked):
            known = self.keys.get(entry.id)
            if known is not None and known.revoked_at is None:
                self.keys[entry.id] = replace(known, revoked_at=entry.at)
        elif entry.principal in self.principals:
            self.keys[entry.id] = Key(
                id=entry.id,
                tenant=entry.tenant,
                principal=entry.principal,
                hash=entry.hash,
                label=entry.label,
                roles=None if entry.roles is None else frozenset(entry.roles),
                scopes=entry.scopes,
                expires_at=entry.expires_at,
                created_at=entry.at,
            )

    def take_principal(
        self,
        entry: PrincipalAdded
        | PrincipalChanged
        | PrincipalDisabled
        | PrincipalEnabled
        | PrincipalErasing
        | PrincipalForgotten
        | PrincipalCleared,
    ) -> None:
        match entry:
            case PrincipalAdded():
                self.principals[entry.id] = _principal(entry)
                self.names[entry.tenant, entry.name] = entry.id
            case PrincipalChanged(roles=roles, scopes=scopes):
                known = self.principals.get(entry.id)
                if known is not None:
                    roles_now = known.roles if roles is None else frozenset(roles)
                    scopes_now = known.scopes if scopes is None else scopes
                    self.principals[entry.id] = replace(known, roles=roles_now, scopes=scopes_now)
            case PrincipalDisabled():
                self.stand(entry.id, Status.DISABLED)
            case PrincipalEnabled():
                self.stand(entry.id, Status.ACTIVE)
            case PrincipalErasing():
                self.stand(entry.id, Status.ERASING, entry.at)
            case PrincipalForgotten():
                self.forget(entry)
            case PrincipalCleared():
                self.stand(entry.id, Status.CLEARED)
            case _:
                assert_never(entry)

    def stand(self, id: str, status: Status, erasing_at: int | None = None) -> None:
        known = self.principals.get(id)
        if known is not None:
            self.principals[id] = replace(known, status=status, erasing_at=erasing_at)

    def forget(self, entry: PrincipalForgotten) -> None:
        """Nothing stays but the id and whose it was."""
        known = self.principals.get(entry.id)
        if known is not None:
            self.names.pop((known.tenant, known.name), None)
        self.keys = {id: key for id, key in self.keys.items() if key.principal != entry.id}
        self.principals[entry.id] = Principal(
            id=entry.id, tenant=entry.tenant, name="", kind="", scopes=(), status=Status.FORGOTTEN
        )


def _principal(entry: PrincipalAdded) -> Principal:
    return Principal(
        id=entry.id,
        tenant=entry.tenant,
        name=entry.name,
        kind=entry.kind,
        roles=frozenset(entry.roles),
        scopes=entry.scopes,
        task=entry.task,
        agent=entry.agent,
        acting_for=entry.acting_for,
        created_at=entry.at,
    )
