"""`perdure principals key|keys|revoke`: the keys that principals come in with. A key is shown once, when it is made."""

from typing import TYPE_CHECKING, Any, Final

import click

from perdure.edge.cli import documents
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.sweep import duration
from perdure.edge.cli.tenancy import names_of, principal_of, served, tenant_option, write_down
from perdure.edge.cli.text import day_and_time, moment

if TYPE_CHECKING:
    from perdure.compose.tenants import Tenants
    from perdure.core.access.book import Key
    from perdure.services.directory import NewKey

ROLES: Final = ("owner", "agent", "viewer", "auditor", "admin")


def grant_options(command: Any) -> Any:
    """`--role` and `--scope`, as often as wanted."""
    command = click.option(
        "--scope", "scopes", multiple=True, metavar="SCOPE", help="Only for this, as read:turns or read:*; repeatable."
    )(command)
    return click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Repeatable.")(command)


def key_options(command: Any) -> Any:
    """`--label` and `--expires-in`."""
    command = click.option("--label", default="", metavar="TEXT", help="What the key is for.")(command)
    return click.option(
        "--expires-in", type=duration, metavar="TIME", help="How long it is good for: 12h, 30d; else until revoked."
    )(command)


@click.command()
@click.argument("principal")
@grant_options
@key_options
@tenant_option
@store_option
@json_option
def key(
    principal: str,
    store: str,
    tenant: str,
    as_json: bool,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    label: str,
    expires_in: float | None,
) -> None:
    """Make a key for a principal, with all of its roles and scopes or with some. It is shown now and never again."""
    from perdure.waiting import drive

    with served(store, read_only=False) as house:
        asked = house.directory.add_key(
            tenant,
            principal_of(house, tenant, principal).id,
            by=None,
            label=label,
            roles=roles or None,
            scopes=scopes or None,
            expires_at=until(house, expires_in),
        )
        made = drive(asked)
        write_down(house, tenant, "add_key", "create:keys", made.key.id)
    if as_json:
        documents.emit(new_key(made))
    else:
        hand_over(made)


@click.command()
@click.argument("principal", required=False)
@tenant_option
@store_option
@json_option
def keys(principal: str | None, store: str, tenant: str, as_json: bool) -> None:
    """List the keys of a principal, or of all of them, revoked ones too."""
    from perdure.waiting import drive

    with served(store, read_only=True) as house:
        whose = None if principal is None else principal_of(house, tenant, principal).id
        held, names = drive(house.directory.keys(tenant, whose)), names_of(house, tenant)
    if as_json:
        documents.emit({"keys": [key_document(each) | {"name": names.get(each.principal)} for each in held]})
        return
    from perdure.edge.cli import output

    output.screen().print(key_table(held, names) if held else "no keys")


@click.command()
@click.argument("key_id", metavar="KEY")
@tenant_option
@store_option
@json_option
def revoke(key_id: str, store: str, tenant: str, as_json: bool) -> None:
    """Take a key back. KEY is its id, as `keys` lists it, or the whole key."""
    from perdure.core.access.handles import parsed
    from perdure.waiting import drive

    whole = parsed(key_id)
    with served(store, read_only=False) as house:
        gone = drive(house.directory.revoke_key(tenant, key_id if whole is None else whole.id, by=None))
        write_down(house, tenant, "revoke_key", "delete:keys", gone.id)
    if as_json:
        documents.emit({"key": key_document(gone)})
    else:
        click.echo(f"revoked {gone.id}")


# ── saying it ──


def until(house: "Tenants", expires_in: float | None) -> int | None:
    """When a key expires that is good for so many seconds."""
    return None if expires_in is None else house.ambient.now() + round(expires_in * 1_000_000)


def hand_over(made: "NewKey") -> None:
    """Show a new key: the words on stderr, the key alone on stdout."""
    click.echo("keep this key; it is shown only now:", err=True)
    click.echo(made.spelled)


def new_key(made: "NewKey") -> dict[str, Any]:
    """A new key as JSON; the only document that ever holds one."""
    return {"key": key_document(made.key), "secret": made.spelled}


def key_document(held: "Key") -> dict[str, Any]:
    """A key as JSON, without what it opens with."""
    return {
        "id": held.id,
        "principal": held.principal,
        "label": held.label,
        "roles": None if held.roles is None else sorted(role.value for role in held.roles),
        "scopes": list(held.scopes),
        "created_at": moment(held.created_at),
        "expires_at": None if held.expires_at is None else moment(held.expires_at),
        "revoked_at": None if held.revoked_at is None else moment(held.revoked_at),
    }


def key_table(held: "tuple[Key, ...]", names: dict[str, str]) -> Any:
    """Keys as a table, with the names of those they are for."""
    from perdure.edge.cli import output

    columns = ("key", "name", "principal", "label", "scopes", "made", "expires", "")
    rows = [
        (
            each.id,
            names.get(each.principal, ""),
            each.principal,
            each.label,
            " ".join(each.scopes),
            day_and_time(each.created_at),
            "" if each.expires_at is None else day_and_time(each.expires_at),
            "" if each.revoked_at is None else "revoked",
        )
        for each in held
    ]
    return output.table(columns, rows, flexible=("name", "label", "scopes"))
