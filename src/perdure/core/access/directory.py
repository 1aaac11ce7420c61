"""Who may be let in, as what, and who may say so: every change of the directory is decided here, on the book as it
stands, and gives entries or a refusal.

Rules: only an admin makes principals, of their own tenant and no other; a grant never exceeds whoever grants it; the
last admin of a tenant stays unless that is forced. `by` None is the operator, who has the store itself in hand.
"""

import hmac
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from perdure.core.access import handles
from perdure.core.access.book import Book, Hook, Key, Principal, Status
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
from perdure.core.access.decide import decide
from perdure.core.access.given import (
    APART,
    must_be_name,
    must_be_roles,
    must_be_scopes,
    must_be_tenant,
    must_be_text,
)
from perdure.core.access.roles import Action, Actor, Context, Resource, Role, Thing, Verb, narrowed, scoped
from perdure.core.access.rules import Policy, must_name_fields
from perdure.core.errors import AlreadyExists, Denied, Invalid, LastAdmin, NotFound, Refused, Unauthenticated
from perdure.core.session.shown import LONGEST, shown

EVERYTHING: Final = ("*",)
KINDS: Final = ("person", "agent", "service")
MAX_URL: Final = 2048
MOST_EVENTS: Final = 64
MOST_KEYS: Final = 1000
"""So many keys that count may one principal have."""
SET_POLICY: Final = Action(Verb.WRITE, Thing.POLICIES)
_NO_HASH: Final = bytes(32)
_GONE: Final = (Status.ERASING, Status.FORGOTTEN, Status.CLEARED)


# ── who comes in ──


def identify(book: Book, spelled: object, at: int) -> Actor:
    """Who holds this key. Whatever is wrong with it, the refusal is the same and takes the same work."""
    handle = handles.parsed(spelled) or handles.NOBODY
    found = handles.hashed(handle.secret)
    key = book.keys.get(handle.id)
    same = hmac.compare_digest(found, _NO_HASH if key is None else key.hash)
    principal = None if key is None else book.principals.get(key.principal)
    if key is None or principal is None or not same or not _counts(key, principal, at):
        raise Unauthenticated("this key opens nothing here; ask an admin of your tenant for one that does")
    return actor_of(principal, key)


def holder_of(book: Book, id: str, at: int) -> Actor | None:
    """Who holds the key of this id, as they stand now; None when it counts no more."""
    key = book.keys.get(id)
    principal = None if key is None else book.principals.get(key.principal)
    return actor_of(principal, key) if key and principal and _counts(key, principal, at) else None


def fault_of(book: Book, spelled: object, at: int) -> tuple[Key, str] | None:
    """Which key of ours a refused one claims to be, and what was wrong, in one word for the audit log; None when it is
    no key of anybody's.
    """
    handle = handles.parsed(spelled) or handles.NOBODY
    found, key = handles.hashed(handle.secret), book.keys.get(handle.id)
    same = hmac.compare_digest(found, _NO_HASH if key is None else key.hash)
    if key is None:
        return None
    if not same:
        return key, "wrong_secret"
    if key.revoked_at is not None:
        return key, "revoked_key"
    expired = key.expires_at is not None and key.expires_at <= at
    return key, "expired_key" if expired else "disabled_principal"


def _counts(key: Key, principal: Principal, at: int) -> bool:
    expired = key.expires_at is not None and key.expires_at <= at
    return key.revoked_at is None and not expired and principal.status is Status.ACTIVE


def actor_of(principal: Principal, key: Key | None = None) -> Actor:
    """A principal as one who acts: with no more than it has now, and no more than its key was given."""
    roles, scopes = principal.roles, principal.scopes
    if key is not None:
        roles = roles if key.roles is None else roles & key.roles
        scopes = key.scopes if scopes in (EVERYTHING, key.scopes) else narrowed(scopes, key.scopes)
    return Actor(
        tenant=principal.tenant,
        principal=principal.id,
        name=principal.name,
        kind=principal.kind,
        roles=roles,
        scopes=scopes,
        task=principal.task,
        agent=principal.agent,
        acting_for=principal.acting_for,
        credential="" if key is None else key.id,
    )


# ── finding ──


def find_principal(book: Book, tenant: str, id: str) -> Principal:
    """A principal of a tenant by id or by name; `NotFound`, also for another tenant's."""
    known = book.principals.get(id) or book.principals.get(book.names.get((tenant, id), ""))
    if known is None or known.tenant != tenant:
        raise NotFound(f"no principal {shown(id)} here; list those there are", principal=id[:LONGEST])
    return known


def find_key(book: Book, tenant: str, id: str) -> Key:
    """A key of a tenant by its id; `NotFound`, also for another tenant's."""
    known = book.keys.get(id)
    if known is None or known.tenant != tenant:
        raise NotFound(f"no key {shown(id)} here; list those there are", key=id[:LONGEST])
    return known


def find_webhook(book: Book, tenant: str, id: str) -> Hook:
    """A webhook of a tenant by its id; `NotFound`, also for another tenant's."""
    known = book.hooks.get(id)
    if known is None or known.tenant != tenant:
        raise NotFound(f"no webhook {shown(id)} here; list those there are", webhook=id[:LONGEST])
    return known


# ── principals ──


def decide_add_principal(book: Book, asked: PrincipalAdded, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Let somebody in. `AlreadyExists` when the tenant has one of that name, `Denied` unless an admin of it asks."""
    tenant, name = must_be_tenant(asked.tenant), must_be_name(asked.name)
    _must_administer(book, by, tenant)
    if APART in name:
        raise Invalid(f"a name with {APART} in it is one that an issuer gives; choose another name", name=name)
    if asked.kind not in KINDS:
        raise Invalid(f"a principal is a {', '.join(KINDS)}, not {shown(asked.kind)}")
    for field in ("task", "agent", "acting_for"):
        if getattr(asked, field) is not None:
            must_be_text(field, getattr(asked, field))
    must_be_roles(asked.roles)
    _must_not_exceed(book, by, asked.roles, must_be_scopes(asked.scopes))
    if (tenant, name) in book.names or name in book.principals:
        raise AlreadyExists(f"there is a principal named {shown(name)} already; choose another name", name=name)
    return (asked,)


def decide_change_principal(
    book: Book,
    tenant: str,
    asked: PrincipalChanged,
    by: Actor | None,
    *,
    force: bool = False,
) -> tuple[AnyEntry, ...]:
    """Give other roles or scopes; nothing when they are so already."""
    known = _kept(book, tenant, asked.id, by)
    roles = known.roles if asked.roles is None else frozenset(must_be_roles(asked.roles))
    scopes = known.scopes if asked.scopes is None else must_be_scopes(asked.scopes)
    if (roles, scopes) == (known.roles, known.scopes):
        return ()
    _must_not_exceed(book, by, roles, scopes)
    if Role.ADMIN in known.roles and Role.ADMIN not in roles:
        _must_leave_an_admin(book, known, force)
    return (asked,)


def decide_disable(
    book: Book, tenant: str, asked: PrincipalDisabled, by: Actor | None, *, force: bool = False
) -> tuple[AnyEntry, ...]:
    """Keep a principal out; nothing when it is out already. `LastAdmin` unless another one is left, or it is forced."""
    known = _kept(book, tenant, asked.id, by)
    if known.status is Status.DISABLED:
        return ()
    _must_leave_an_admin(book, known, force)
    return (asked,)


def decide_enable(book: Book, tenant: str, asked: PrincipalEnabled, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Let a principal in again; nothing when it is in."""
    known = _kept(book, tenant, asked.id, by)
    if known.status is Status.ACTIVE:
        return ()
    _must_not_exceed(book, by, known.roles, known.scopes)
    return (asked,)


def decide_erasing(book: Book, tenant: str, asked: PrincipalErasing, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Begin to erase a person: from now on they are out for good. Nothing when that was begun; never the last admin."""
    _must_administer(book, by, tenant)
    known = find_principal(book, tenant, asked.id)
    if known.status in _GONE:
        return ()
    _must_leave_an_admin(book, known, force=False)
    return (asked,)


def decide_forgotten(book: Book, tenant: str, asked: PrincipalForgotten) -> tuple[AnyEntry, ...]:
    """Forget name and keys of a principal that is being erased; nothing when that was done."""
    known = find_principal(book, tenant, asked.id)
    if known.status in (Status.FORGOTTEN, Status.CLEARED):
        return ()
    if known.status is not Status.ERASING:
        raise Refused("a principal is forgotten once everything of theirs is erased; begin with that", id=asked.id)
    return (asked,)


def decide_cleared(book: Book, tenant: str, asked: PrincipalCleared) -> tuple[AnyEntry, ...]:
    """Note that nothing of a forgotten principal is left in the log; nothing when that was noted."""
    return (asked,) if find_principal(book, tenant, asked.id).status is Status.FORGOTTEN else ()


def _kept(book: Book, tenant: str, id: str, by: Actor | None) -> Principal:
    """A principal that an admin may change; one that is being erased is gone."""
    _must_administer(book, by, tenant)
    known = find_principal(book, tenant, id)
    if known.status in _GONE:
        raise NotFound(f"no principal {shown(id)} here; list those there are", principal=id[:LONGEST])
    return known


# ── keys ──


def decide_add_key(book: Book, asked: KeyAdded, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Give a principal a key, which opens no more than its principal may, nor than whoever gives it may, nor for longer
    than the key they give it with. Principals may make keys for themselves, admins for anybody of their tenant.
    """
    if by is None or by.principal != asked.principal or by.tenant != asked.tenant or by.session is not None:
        _must_administer(book, by, asked.tenant)
    known = find_principal(book, asked.tenant, asked.principal)
    if known.status is not Status.ACTIVE:
        raise Refused("this principal is disabled; enable it before giving it a key", principal=known.id)
    must_be_text("label", asked.label, least=0)
    scopes = must_be_scopes(asked.scopes)
    roles = known.roles if asked.roles is None else frozenset(must_be_roles(asked.roles))
    if not roles <= known.roles or not scoped(scopes) <= scoped(known.scopes):
        raise Denied("a key opens no more than its principal may; ask for roles and scopes that it has")
    _must_not_exceed(book, by, roles, scopes)
    if asked.expires_at is not None and (type(asked.expires_at) is not int or asked.expires_at <= asked.at):
        raise Invalid("a key expires in the future; give a later time, or none for a key that lasts until revoked")
    if sum(_counts(key, known, asked.at) for key in book.keys.values() if key.principal == known.id) >= MOST_KEYS:
        raise Refused(f"this principal has {MOST_KEYS} keys; revoke some first", limit=MOST_KEYS)
    return (replace(asked, expires_at=_no_later(book, by, asked.expires_at)),)


def _no_later(book: Book, by: Actor | None, asked: int | None) -> int | None:
    """When a key expires that is asked for until then: no later than the one it is given with."""
    held = None if by is None else book.keys.get(by.credential)
    if held is None or held.expires_at is None:
        return asked
    return held.expires_at if asked is None else min(asked, held.expires_at)


def decide_revoke_key(book: Book, tenant: str, asked: KeyRevoked, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Take a key back: an admin any of the tenant's, others their own. Nothing when it was taken back before."""
    known = book.keys.get(asked.id)
    own = by is not None and by.session is None and known is not None and known.principal == by.principal
    if not own or (by is not None and by.tenant != tenant):
        _must_administer(book, by, tenant)
    return () if find_key(book, tenant, asked.id).revoked_at is not None else (asked,)


# ── what else a tenant has ──


def decide_set_policy(
    book: Book, asked: PolicySet, by: Actor | None, address: str | None = None
) -> tuple[AnyEntry, ...]:
    """Set a tenant's rules; nothing when they are so already. `Refused` when whoever sets them, from this address,
    could not set others then.
    """
    _must_administer(book, by, must_be_tenant(asked.tenant))
    if type(asked.policy) is not Policy:
        raise Invalid(f"a policy has rules and fields; it is not {shown(asked.policy)}")
    must_name_fields(asked.policy)
    if by is not None:
        context, own = Context(at=asked.at, address=address), Resource(tenant=by.tenant, session="", owner=by.name)
        decision = decide(by, SET_POLICY, own, context, asked.policy)
        if not decision.allowed:
            told = f"this policy would keep you from setting another one; have no rule deny {SET_POLICY} to you"
            raise Refused(told, action=str(SET_POLICY), rule=decision.by)
    return () if book.policies.get(asked.tenant) == asked.policy else (asked,)


def decide_add_webhook(book: Book, asked: WebhookAdded, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Tell an address of events; which address can be told is for whoever tells it to say."""
    _must_administer(book, by, must_be_tenant(asked.tenant))
    must_be_text("url", asked.url, most=MAX_URL)
    if not asked.events or len(asked.events) > MOST_EVENTS:
        raise Invalid(f"a webhook names 1 to {MOST_EVENTS} events it wants to be told of, or * for all")
    for event in asked.events:
        must_be_text("event", event, most=64)
    for hook in book.hooks.values():
        if (hook.tenant, hook.url) == (asked.tenant, asked.url):
            raise AlreadyExists("this address is told already; remove that webhook first", webhook=hook.id)
    return (asked,)


def decide_remove_webhook(book: Book, tenant: str, asked: WebhookRemoved, by: Actor | None) -> tuple[AnyEntry, ...]:
    """Tell an address no longer."""
    _must_administer(book, by, tenant)
    find_webhook(book, tenant, asked.id)
    return (asked,)


def decide_secret(book: Book, asked: SecretAdded, *, rotate: bool) -> tuple[AnyEntry, ...]:
    """A named secret of the server's own: made if there is none, or anew. The one before stays known."""
    must_be_text("name", asked.name)
    if len(asked.secret) < handles.SECRET_BYTES:
        raise Invalid(f"a secret has at least {handles.SECRET_BYTES} random bytes")
    return (asked,) if rotate or asked.name not in book.secrets else ()


# ── what all of them ask ──


def _must_administer(book: Book, by: Actor | None, tenant: str) -> None:
    """`Denied` unless the operator asks, or an admin of the tenant who still is one."""
    if by is None:
        return
    if by.tenant != tenant or by.session is not None or Role.ADMIN not in _roles_now(book, by):
        raise Denied("only an admin of the tenant may do this; ask one")


def _roles_now(book: Book, by: Actor) -> frozenset[Role]:
    """The roles somebody acts in, as far as the directory still gives them; who came from outside is not in it."""
    known = book.principals.get(by.principal)
    if known is None:
        return by.roles
    return by.roles & known.roles if known.status is Status.ACTIVE else frozenset()


def _must_not_exceed(book: Book, by: Actor | None, roles: Iterable[Role], scopes: tuple[str, ...]) -> None:
    """`Denied` when more would be given than whoever gives it has. An admin may give any role."""
    if by is None:
        return
    held = _roles_now(book, by)
    if not scoped(scopes) <= scoped(by.scopes) or not (Role.ADMIN in held or frozenset(roles) <= held):
        raise Denied("nobody gives more than they have; ask for roles and scopes that you have yourself")


def _must_leave_an_admin(book: Book, leaving: Principal, force: bool) -> None:
    if force or leaving.status is not Status.ACTIVE or Role.ADMIN not in leaving.roles:
        return
    others = (each for each in book.principals.values() if each.tenant == leaving.tenant and each.id != leaving.id)
    if not any(Role.ADMIN in each.roles and each.status is Status.ACTIVE for each in others):
        raise LastAdmin(
            "this is the last admin of the tenant; make another one first, or force it", principal=leaving.id
        )
