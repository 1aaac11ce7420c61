"""The directory: principals, keys, policies, webhooks and the server's own secrets, kept in one session's log.

Invariant: what is read is what the store held after the caller asked, on every node. A look costs the head of one
session when nothing has changed, and the new entries otherwise; callers who come at once share it, and one who comes
alone to a store that tells at once does not wait for others. Every change is decided on the book as it stands, appended
only if it still stands so, and decided anew otherwise.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from perdure.core.access import directory as decisions
from perdure.core.access import handles
from perdure.core.access.book import EMPTY, Book, Hook, Key, Principal, Secret, fold, fold_all
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
    about,
    from_document,
    tag_of,
    to_document,
)
from perdure.core.access.given import must_be_roles, must_be_scopes
from perdure.core.access.roles import Actor, Role
from perdure.core.access.rules import Policy
from perdure.core.errors import NotFound, VersionConflict
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId, named
from perdure.core.session.recording import Noted
from perdure.ports.store import Head
from perdure.services.heads import HeadKeeper
from perdure.services.looking import Shared
from perdure.services.noting import BY, note, noted
from perdure.services.sessions import RETRIES, Sessions
from perdure.services.webhooks import PREFIX, webhook

NAME: Final = "directory"
CROWD: Final = 1_000
"""Microseconds: who asks sooner after another one shares a look with those who come in the same turn of the loop."""
OPERATOR: Final = "operator"
"""Who acts when nobody came in by the door: whoever has the store in hand."""
_NAMING: Final = (PrincipalAdded, KeyAdded)
"""Entries that say more of a principal than its id."""


class NewKey(msgspec.Struct, frozen=True):
    """A key that was just made. `spelled` is shown now and never again."""

    key: Key
    spelled: str

    def __repr__(self) -> str:
        return f"NewKey({self.key.id})"


class NewWebhook(msgspec.Struct, frozen=True):
    """A webhook that was just added, and the secret that its receiver checks signatures with."""

    hook: Hook
    secret: str

    def __repr__(self) -> str:
        return f"NewWebhook({self.hook.id})"


class _Known(msgspec.Struct, frozen=True):
    """The book, and where the log stood when it was folded."""

    book: Book = EMPTY
    version: int = 0
    digest: bytes = b""


class Directory:
    """Who may come in, over the sessions of the system's own tenant."""

    def __init__(self, sessions: Sessions, heads: HeadKeeper | None = None) -> None:
        self._sessions = sessions
        self._ambient = sessions.ambient
        self._heads = heads
        self.session: SessionId = named(sessions.identity.tenant, NAME)
        self._known = _Known()
        self._look = Shared(self._looked)
        self._asked = 0

    # ── reading ──

    async def book(self) -> Book:
        """Everything the directory knows, as of now."""
        now = self._ambient.now()
        alone, self._asked = now - self._asked > CROWD, now
        return (await (self._looked() if alone and self._sessions.store.near else self._look())).book

    async def identify(self, key: str) -> Actor:
        """Who holds a key; `Unauthenticated`, in the same words whatever is wrong with it."""
        return decisions.identify(await self.book(), key, self._ambient.now())

    async def principal(self, tenant: str, id: str) -> Principal:
        """A principal of the tenant, by id or name; `NotFound`, also for another tenant's."""
        return decisions.find_principal(await self.book(), tenant, id)

    async def principals(self, tenant: str) -> tuple[Principal, ...]:
        """Those of a tenant, the oldest first; whoever was forgotten has no name."""
        found = [each for each in (await self.book()).principals.values() if each.tenant == tenant]
        return tuple(sorted(found, key=lambda each: (each.created_at, each.id)))

    async def keys(self, tenant: str, principal: str | None = None) -> tuple[Key, ...]:
        """The keys of a tenant, or of one principal (by id or name), the oldest first, revoked ones too."""
        book = await self.book()
        whose = None if principal is None else decisions.find_principal(book, tenant, principal).id
        found = [key for key in book.keys.values() if key.tenant == tenant and whose in (None, key.principal)]
        return tuple(sorted(found, key=lambda key: (key.created_at, key.id)))

    async def policy(self, tenant: str) -> Policy:
        """A tenant's rules; the blank policy where none was set."""
        return (await self.book()).policies.get(tenant, Policy())

    async def webhooks(self, tenant: str) -> tuple[Hook, ...]:
        """The webhooks of a tenant, the oldest first."""
        found = [hook for hook in (await self.book()).hooks.values() if hook.tenant == tenant]
        return tuple(sorted(found, key=lambda hook: (hook.created_at, hook.id)))

    async def _looked(self) -> _Known:
        known = self._known
        try:
            self._known = await self._sessions.log.steadily(self.session, lambda head: self._caught_up(head, known))
        except NotFound:
            self._known = _Known()
        return self._known

    async def _caught_up(self, head: Head, known: _Known) -> _Known:
        row = head.row
        if (row.version, row.digest) == (known.version, known.digest):
            return known
        if head.anchor_version < known.version < row.version:
            # One event too many: its digest tells whether this still is the log that was read before.
            events = await self._sessions.log.events(head, known.version - 1)
            if events[0].digest == known.digest:
                return _Known(fold_all(known.book, _entries(events[1:])), row.version, row.digest)
        events = await self._sessions.log.events(head, head.anchor_version)
        return _Known(fold_all(EMPTY, _entries(events)), row.version, row.digest)

    # ── principals ──

    async def add_principal(
        self,
        tenant: str,
        name: str,
        *,
        by: Actor | None,
        kind: str = "person",
        roles: Iterable[Role | str] = (),
        scopes: Iterable[str] = ("*",),
        task: str | None = None,
        agent: str | None = None,
        acting_for: str | None = None,
    ) -> Principal:
        """Let somebody in; `AlreadyExists` when the tenant has one of that name, `Denied` unless an admin asks."""
        entry = PrincipalAdded(
            id=handles.opaque("prn", self._ambient.random(handles.ID_BYTES)),
            tenant=tenant,
            name=name,
            kind=kind,
            roles=must_be_roles(roles),
            scopes=must_be_scopes(scopes),
            task=task,
            agent=agent,
            acting_for=acting_for,
            **self._stamp(by),
        )
        book = await self._change(lambda book: decisions.decide_add_principal(book, entry, by), by)
        return book.principals[entry.id]

    async def change_principal(
        self,
        tenant: str,
        id: str,
        *,
        by: Actor | None,
        roles: Iterable[Role | str] | None = None,
        scopes: Iterable[str] | None = None,
        enabled: bool | None = None,
        force: bool = False,
    ) -> Principal:
        """Give other roles or scopes, keep out or let in again, all at once or nothing of it; what is None stays. It
        holds at the next request, on every node.
        """
        whose, stamp = (await self.principal(tenant, id)).id, self._stamp(by)
        entry = PrincipalChanged(
            id=whose,
            roles=None if roles is None else must_be_roles(roles),
            scopes=None if scopes is None else must_be_scopes(scopes),
            **stamp,
        )

        def decide(book: Book) -> tuple[AnyEntry, ...]:
            changed = decisions.decide_change_principal(book, tenant, entry, by, force=force)
            if enabled is None:
                return changed
            then = fold(book, *changed)
            if enabled:
                return *changed, *decisions.decide_enable(then, tenant, PrincipalEnabled(id=whose, **stamp), by)
            out = PrincipalDisabled(id=whose, **stamp)
            return *changed, *decisions.decide_disable(then, tenant, out, by, force=force)

        return (await self._change(decide, by)).principals[whose]

    async def disable_principal(self, tenant: str, id: str, *, by: Actor | None, force: bool = False) -> Principal:
        """Keep a principal out from the next request on; `LastAdmin` unless another one is left, or it is forced."""
        entry = PrincipalDisabled(id=(await self.principal(tenant, id)).id, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_disable(book, tenant, entry, by, force=force), by)
        return book.principals[entry.id]

    async def enable_principal(self, tenant: str, id: str, *, by: Actor | None) -> Principal:
        """Let a principal in again."""
        entry = PrincipalEnabled(id=(await self.principal(tenant, id)).id, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_enable(book, tenant, entry, by), by)
        return book.principals[entry.id]

    # ── forgetting one, step by step: `services.people` has the whole of it ──

    async def begin_erasing(self, tenant: str, id: str, *, by: Actor | None) -> Principal:
        """Keep a principal out for good, because everything of theirs is about to be erased; `LastAdmin`."""
        entry = PrincipalErasing(id=(await self.principal(tenant, id)).id, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_erasing(book, tenant, entry, by), by)
        return book.principals[entry.id]

    async def forget(self, tenant: str, id: str, *, by: Actor | None) -> Principal:
        """Drop the name and the keys of one that is being erased; the id stays."""
        entry = PrincipalForgotten(id=id, tenant=tenant, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_forgotten(book, tenant, entry), by)
        return book.principals[id]

    async def telling(self, id: str) -> tuple[int, ...]:
        """The versions of the log that still say more of a principal than its id."""
        log = self._sessions.log
        events = await log.steadily(self.session, lambda head: log.events(head, head.anchor_version))
        return tuple(event.version for event in events if any(_names(entry, id) for entry in _entries((event,))))

    async def cleared(self, tenant: str, id: str, *, by: Actor | None) -> Principal:
        """Note that nothing in the log tells of a forgotten principal any more."""
        entry = PrincipalCleared(id=id, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_cleared(book, tenant, entry), by)
        return book.principals[id]

    # ── keys ──

    async def add_key(
        self,
        tenant: str,
        principal: str,
        *,
        by: Actor | None,
        label: str = "",
        roles: Iterable[Role | str] | None = None,
        scopes: Iterable[str] | None = None,
        expires_at: int | None = None,
    ) -> NewKey:
        """Make a key for a principal (by id or name): with its roles and scopes, or with fewer. It is shown once."""
        handle = handles.made(self._ambient.random(handles.ID_BYTES + handles.SECRET_BYTES))
        fewer = None if roles is None else must_be_roles(roles)
        narrower = None if scopes is None else must_be_scopes(scopes)

        def decide(book: Book) -> tuple[AnyEntry, ...]:
            whose = decisions.find_principal(book, tenant, principal)
            entry = KeyAdded(
                id=handle.id,
                tenant=tenant,
                principal=whose.id,
                hash=handles.hashed(handle.secret),
                label=label,
                roles=fewer,
                scopes=whose.scopes if narrower is None else narrower,
                expires_at=expires_at,
                **self._stamp(by),
            )
            return decisions.decide_add_key(book, entry, by)

        book = await self._change(decide, by)
        return NewKey(book.keys[handle.id], handle.spelled)

    async def revoke_key(self, tenant: str, id: str, *, by: Actor | None) -> Key:
        """Take a key back: at the next request, on every node, it opens nothing."""
        entry = KeyRevoked(id=id, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_revoke_key(book, tenant, entry, by), by)
        return book.keys[id]

    # ── what else a tenant has ──

    async def set_policy(self, tenant: str, policy: Policy, *, by: Actor | None, address: str | None = None) -> Policy:
        """Set a tenant's rules; `Refused` when whoever sets them, from this address, could not set others then."""
        entry = PolicySet(tenant=tenant, policy=policy, **self._stamp(by))
        book = await self._change(lambda book: decisions.decide_set_policy(book, entry, by, address), by)
        return book.policies[tenant]

    async def add_webhook(
        self, tenant: str, url: str, events: Iterable[str], *, by: Actor | None, secret: str | None = None
    ) -> NewWebhook:
        """Tell an address of events, signed with the secret given, or with one that is made."""
        spelled = secret or PREFIX + base64.b64encode(self._ambient.random(handles.SECRET_BYTES)).decode()
        id = handles.opaque("whk", self._ambient.random(handles.ID_BYTES))
        found = webhook(url, spelled)
        entry = WebhookAdded(
            id=id, tenant=tenant, url=found.url, secret=found.secret, events=tuple(events), **self._stamp(by)
        )
        book = await self._change(lambda book: decisions.decide_add_webhook(book, entry, by), by)
        return NewWebhook(book.hooks[id], spelled)

    async def remove_webhook(self, tenant: str, id: str, *, by: Actor | None) -> None:
        """Tell an address no longer."""
        entry = WebhookRemoved(id=id, **self._stamp(by))
        await self._change(lambda book: decisions.decide_remove_webhook(book, tenant, entry, by), by)

    # ── the server's own ──

    async def secret(self, name: str) -> tuple[Secret, ...]:
        """The current secret of a name, and the one before it if there is one; made when first asked for."""
        known = (await self.book()).secrets.get(name)
        return known or await self._add_secret(name, rotate=False)

    async def rotate_secret(self, name: str) -> tuple[Secret, ...]:
        """Make a new secret of a name; the one that was current is still known."""
        return await self._add_secret(name, rotate=True)

    async def _add_secret(self, name: str, *, rotate: bool) -> tuple[Secret, ...]:
        entry = SecretAdded(
            id=handles.opaque("sec", self._ambient.random(handles.ID_BYTES)),
            name=name,
            secret=self._ambient.random(handles.SECRET_BYTES),
            **self._stamp(None),
        )
        book = await self._change(lambda book: decisions.decide_secret(book, entry, rotate=rotate), None)
        return book.secrets[name]

    # ── writing ──

    def _stamp(self, by: Actor | None) -> dict[str, Any]:
        return {"at": self._ambient.now(), "by": "" if by is None else by.principal}

    async def _change(self, decide: Callable[[Book], tuple[AnyEntry, ...]], by: Actor | None) -> Book:
        """Decide and append, anew whenever somebody else was first; the book with the change in it."""
        who = OPERATOR if by is None else by.principal  # never a name: the log outlives it
        for _ in range(RETRIES):
            known = await self._look()
            entries = decide(known.book)
            if not entries:
                return known.book
            things = [Noted(by=BY, about=tag_of(entry), data=to_document(entry)) for entry in entries]
            try:
                await note(self._sessions, self.session, NAME, things, who=who, expected=known.digest or 0)
            except VersionConflict:
                continue
            if self._heads is not None:
                await self._heads.reached(self.session)
            return fold(known.book, *entries)
        raise VersionConflict("the directory keeps changing; try again", session=self.session)


def _entries(events: Iterable[Event]) -> Iterable[AnyEntry]:
    return (from_document(data) for _, data in noted(events))


def _names(entry: AnyEntry, id: str) -> bool:
    return isinstance(entry, _NAMING) and about(entry) == id
