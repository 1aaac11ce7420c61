"""Who may do what: principals, their keys, policies, and erasing a person."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.access.rules import Policy
from perdure.core.session.shown import shown
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table

table = Table()
Text = Annotated[str, Meta(max_length=256)]
Words = Annotated[tuple[Text, ...], Meta(max_length=100)]


class PrincipalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Somebody to let in: a person, an agent or a service."""

    name: Text
    kind: Text = "person"
    roles: Words = ()
    scopes: Words = ("*",)
    task: Text | None = None
    agent: Text | None = None
    acting_for: Text | None = None


class PrincipalChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to change; what is not given stays."""

    roles: Words | None = None
    scopes: Words | None = None
    enabled: bool | None = None


class PrincipalView(msgspec.Struct, kw_only=True):
    """Who may come in, and as what."""

    principal_id: str
    name: str
    kind: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    task: str | None
    agent: str | None
    acting_for: str | None
    status: str
    created_at: int


class Principals(msgspec.Struct, kw_only=True):
    """Those of a tenant, the oldest first."""

    items: tuple[PrincipalView, ...]


class KeyBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to make: whose (the asker's own when left out), for what, until when. Made with a key that expires, it
    expires with that one at the latest, also when nothing is said.
    """

    principal: Text | None = None
    label: Text = ""
    roles: Words | None = None
    scopes: Words | None = None
    expires_at: int | None = None


class KeyView(msgspec.Struct, kw_only=True):
    """A key, but for its secret."""

    key_id: str
    principal_id: str
    label: str
    roles: tuple[str, ...] | None
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class NewKeyView(KeyView, kw_only=True):
    """A key that was just made. `key` is shown now and never again."""

    key: str


class Keys(msgspec.Struct, kw_only=True):
    """Keys, the oldest first."""

    items: tuple[KeyView, ...]


class KeysQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose."""

    principal: Text | None = None


class ErasedPerson(msgspec.Struct, kw_only=True):
    """What was erased of a person."""

    principal_id: str
    report: Any


def _principal(found: Any) -> PrincipalView:
    return PrincipalView(
        principal_id=found.id,
        name=found.name,
        kind=found.kind,
        roles=tuple(sorted(role.value for role in found.roles)),
        scopes=found.scopes,
        task=found.task,
        agent=found.agent,
        acting_for=found.acting_for,
        status=found.status.value,
        created_at=found.created_at,
    )


def _key(found: Any) -> dict[str, Any]:
    return {
        "key_id": found.id,
        "principal_id": found.principal,
        "label": found.label,
        "roles": None if found.roles is None else tuple(sorted(role.value for role in found.roles)),
        "scopes": found.scopes,
        "created_at": found.created_at,
        "expires_at": found.expires_at,
        "revoked_at": found.revoked_at,
    }


# ── principals ──


@table.add(
    "POST",
    "/v1/principals",
    (Verb.CREATE, Thing.PRINCIPALS),
    body=PrincipalBody,
    answer=PrincipalView,
    status=HTTPStatus.CREATED,
    sensitive=True,
    errors=(errors.AlreadyExists,),
    example={"name": "ana", "roles": ["owner"]},
)
async def add_principal(ask: Ask) -> Answer:
    """Let somebody in; nobody gets more than whoever lets them in has."""
    body: PrincipalBody = await ask.body()
    facts = msgspec.structs.asdict(body)
    made = await ask.node.tenants.directory.add_principal(ask.actor.tenant, facts.pop("name"), by=ask.actor, **facts)
    return ask.answer(_principal(made))


@table.add("GET", "/v1/principals", (Verb.LIST, Thing.PRINCIPALS), answer=Principals)
async def list_principals(ask: Ask) -> Answer:
    """Those of the tenant, the oldest first."""
    found = await ask.node.tenants.directory.principals(ask.actor.tenant)
    return ask.answer(Principals(items=tuple(_principal(item) for item in found)))


@table.add("GET", "/v1/principals/{principal_id}", (Verb.READ, Thing.PRINCIPALS), answer=PrincipalView)
async def get_principal(ask: Ask) -> Answer:
    """One of them, by id or name."""
    found = await ask.node.tenants.directory.principal(ask.actor.tenant, ask.params["principal_id"])
    return ask.answer(_principal(found))


@table.add(
    "PATCH",
    "/v1/principals/{principal_id}",
    (Verb.WRITE, Thing.PRINCIPALS),
    body=PrincipalChange,
    answer=PrincipalView,
    sensitive=True,
    errors=(errors.Refused,),
    example={"enabled": False},
)
async def change_principal(ask: Ask) -> Answer:
    """Give other roles or scopes, shut out or let in again: all of it or none, from the next request on every node."""
    body: PrincipalChange = await ask.body()
    found = await ask.node.tenants.directory.change_principal(
        ask.actor.tenant,
        ask.params["principal_id"],
        by=ask.actor,
        roles=body.roles,
        scopes=body.scopes,
        enabled=body.enabled,
    )
    return ask.answer(_principal(found))


@table.add(
    "POST",
    "/v1/people/{name}/erase",
    (Verb.DELETE, Thing.PEOPLE),
    answer=ErasedPerson,
    sensitive=True,
    errors=(errors.Refused,),
)
async def erase_person(ask: Ask) -> Answer:
    """Erase a person: their sessions, blobs, keys and name. The audit log keeps an id that leads to nobody."""
    name = ask.params["name"]
    try:
        report = await ask.node.tenants.people.erase(ask.actor.tenant, name, by=ask.actor)
    except errors.NotFound as missing:
        told = f"no principal {shown(name)} here; GET /v1/principals lists those there are. Somebody without a key is "
        told += "added first: POST /v1/principals with their name, and then this finds what was kept of them"
        raise errors.NotFound(told, **missing.fields) from None
    return ask.answer(ErasedPerson(principal_id=report.principal, report=msgspec.to_builtins(report)))


# ── keys ──


@table.add(
    "POST",
    "/v1/keys",
    (Verb.ISSUE, Thing.KEYS),
    body=KeyBody,
    answer=NewKeyView,
    status=HTTPStatus.CREATED,
    optional=True,
    sensitive=True,
    errors=(errors.NotFound, errors.Refused),
    example={"principal": "ana", "label": "laptop", "scopes": ["read:*"]},
)
async def add_key(ask: Ask) -> Answer:
    """Make a key, for no more than its principal and its maker may, and for no longer than the key it is made with."""
    body: KeyBody = await ask.body()
    made = await ask.node.tenants.directory.add_key(
        ask.actor.tenant,
        body.principal or ask.actor.principal,
        by=ask.actor,
        label=body.label,
        roles=body.roles,
        scopes=body.scopes,
        expires_at=body.expires_at,
    )
    return ask.answer(NewKeyView(key=made.spelled, **_key(made.key)))


@table.add("GET", "/v1/keys", (Verb.LIST, Thing.KEYS), query=KeysQuery, answer=Keys, errors=(errors.NotFound,))
async def list_keys(ask: Ask) -> Answer:
    """Keys of the tenant or of one principal, without their secrets."""
    query: KeysQuery = ask.query()
    found = await ask.node.tenants.directory.keys(ask.actor.tenant, query.principal)
    return ask.answer(Keys(items=tuple(KeyView(**_key(item)) for item in found)))


@table.add(
    "DELETE", "/v1/keys/{key_id}", (Verb.DELETE, Thing.KEYS), answer=KeyView, sensitive=True, errors=(errors.NotFound,)
)
async def revoke_key(ask: Ask) -> Answer:
    """Take a key back; it is refused at the next request, on every node."""
    found = await ask.node.tenants.directory.revoke_key(ask.actor.tenant, ask.params["key_id"], by=ask.actor)
    return ask.answer(KeyView(**_key(found)))


# ── policies ──


@table.add("GET", "/v1/policies", (Verb.READ, Thing.POLICIES), answer=Policy)
async def get_policy(ask: Ask) -> Answer:
    """The tenant's rules, and who may read and write which fields."""
    return ask.answer(await ask.node.tenants.directory.policy(ask.actor.tenant))


@table.add(
    "PUT",
    "/v1/policies",
    (Verb.WRITE, Thing.POLICIES),
    body=Policy,
    answer=Policy,
    sensitive=True,
    errors=(errors.Refused,),
    example={"fields": [{"path": "vars.salary", "read": ["owner"]}]},
)
async def set_policy(ask: Ask) -> Answer:
    """Lay down the tenant's policy anew."""
    policy: Policy = await ask.body()
    address = ask.request.address
    return ask.answer(
        await ask.node.tenants.directory.set_policy(ask.actor.tenant, policy, by=ask.actor, address=address)
    )
