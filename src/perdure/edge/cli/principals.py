"""`perdure principals …`: who may come in, and with which keys. Whoever runs it has the store, and may do anything."""

from typing import TYPE_CHECKING, Any, Final

import click

from perdure.edge.cli import documents
from perdure.edge.cli.apikeys import grant_options, hand_over, key_document, key_options, key_table, new_key, until
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.tenancy import principal_of, served, tenant_option, write_down
from perdure.edge.cli.text import counted, day_and_time, moment, one_line, size

if TYPE_CHECKING:
    from perdure.core.access.book import Principal

COMMANDS: Final = {
    "add": ("principals:add", "Let somebody in, with a key if you ask for one."),
    "list": ("principals:list_principals", "List who may come in."),
    "show": ("principals:show", "Show a principal and its keys."),
    "change": ("principals:change", "Give a principal other roles or scopes."),
    "disable": ("principals:disable", "Keep a principal out."),
    "enable": ("principals:enable", "Let a principal in again."),
    "forget": ("principals:forget", "Erase a person: their sessions, memories, keys and name."),
    "key": ("apikeys:key", "Make a key; it is shown once."),
    "keys": ("apikeys:keys", "List keys."),
    "revoke": ("apikeys:revoke", "Take a key back."),
}
KINDS: Final = ("person", "agent", "service")

principals = LazyGroup(
    "principals",
    places=COMMANDS,
    help="""Say who may come in to a server over this store, and with which keys.

    A PRINCIPAL is named by its name or its id. What is changed here holds at the next request, on every node.
    """,
)


@click.command()
@click.argument("name")
@grant_options
@click.option("--kind", type=click.Choice(KINDS), default="person", show_default=True, help="What it is.")
@click.option("--acting-for", metavar="NAME", help="The person an agent acts for.")
@click.option("--task", metavar="TASK", help="What an agent works on.")
@click.option("--key", "with_key", is_flag=True, help="Make a key, too, and show it.")
@click.option("--create", is_flag=True, help="Make the store, too, if there is none.")
@key_options
@tenant_option
@store_option
@json_option
def add(
    name: str,
    store: str,
    tenant: str,
    as_json: bool,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    kind: str,
    acting_for: str | None,
    task: str | None,
    with_key: bool,
    create: bool,
    label: str,
    expires_in: float | None,
) -> None:
    """Let somebody in. Without a role, a principal may do nothing until it is given one."""
    from perdure.waiting import drive

    with served(store, read_only=False, create=create) as house:
        directory = house.directory
        made = drive(
            directory.add_principal(
                tenant,
                name,
                by=None,
                kind=kind,
                roles=roles,
                scopes=scopes or ("*",),
                task=task,
                acting_for=acting_for,
            )
        )
        write_down(house, tenant, "add_principal", "create:principals", made.id)
        given = None
        if with_key:
            good_until = until(house, expires_in)
            given = drive(directory.add_key(tenant, made.id, by=None, label=label, expires_at=good_until))
            write_down(house, tenant, "add_key", "create:keys", given.key.id)
    if as_json:
        documents.emit({"principal": _document(made), **({} if given is None else new_key(given))})
        return
    click.echo(f"added {one_line(made.name)} as {made.id}")
    if given is not None:
        hand_over(given)


@click.command("list")
@tenant_option
@store_option
@json_option
def list_principals(store: str, tenant: str, as_json: bool) -> None:
    """List who may come in, and who may not any more."""
    from perdure.waiting import drive

    with served(store, read_only=True) as house:
        found = drive(house.directory.principals(tenant))
    if as_json:
        documents.emit({"principals": [_document(each) for each in found]})
        return
    from perdure.edge.cli import output

    columns = ("principal", "name", "kind", "roles", "scopes", "status", "since")
    rows = [
        (
            each.id,
            each.name or "(forgotten)",
            each.kind,
            _roles(each.roles),
            " ".join(each.scopes),
            each.status.value,
            day_and_time(each.created_at) if each.created_at else "",
        )
        for each in found
    ]
    output.screen().print(output.table(columns, rows, flexible=("name", "scopes")) if rows else "no principals")


@click.command()
@click.argument("principal")
@tenant_option
@store_option
@json_option
def show(principal: str, store: str, tenant: str, as_json: bool) -> None:
    """Show a principal, what it may do, and its keys."""
    from perdure.waiting import drive

    with served(store, read_only=True) as house:
        known = principal_of(house, tenant, principal)
        held = drive(house.directory.keys(tenant, known.id))
    if as_json:
        documents.emit({"principal": _document(known), "keys": [key_document(each) for each in held]})
        return
    from perdure.edge.cli import output

    pairs = [(name.replace("_", " "), _said(value)) for name, value in _document(known).items() if value]
    console = output.screen()
    console.print(output.facts(pairs))
    console.print(key_table(held, {known.id: known.name}))


@click.command()
@click.argument("principal")
@grant_options
@click.option("--force", is_flag=True, help="Even if no admin is left.")
@tenant_option
@store_option
@json_option
def change(
    principal: str,
    store: str,
    tenant: str,
    as_json: bool,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    force: bool,
) -> None:
    """Give a principal these roles, or these scopes, in place of those it has."""
    from perdure.waiting import drive

    if not roles and not scopes:
        raise click.UsageError("say what to change: --role, --scope or both")
    with served(store, read_only=False) as house:
        asked = house.directory.change_principal(
            tenant,
            principal_of(house, tenant, principal).id,
            by=None,
            roles=roles or None,
            scopes=scopes or None,
            force=force,
        )
        known = drive(asked)
        write_down(house, tenant, "change_principal", "write:principals", known.id)
    _tell(known, as_json, "changed")


@click.command()
@click.argument("principal")
@click.option("--force", is_flag=True, help="Even if no admin is left.")
@tenant_option
@store_option
@json_option
def disable(principal: str, store: str, tenant: str, as_json: bool, force: bool) -> None:
    """Keep a principal out, until it is enabled again. Its keys and tokens open nothing meanwhile."""
    from perdure.waiting import drive

    with served(store, read_only=False) as house:
        named = principal_of(house, tenant, principal).id
        known = drive(house.directory.disable_principal(tenant, named, by=None, force=force))
        write_down(house, tenant, "disable_principal", "write:principals", known.id)
    _tell(known, as_json, "disabled")


@click.command()
@click.argument("principal")
@tenant_option
@store_option
@json_option
def enable(principal: str, store: str, tenant: str, as_json: bool) -> None:
    """Let a principal in again."""
    from perdure.waiting import drive

    with served(store, read_only=False) as house:
        named = principal_of(house, tenant, principal).id
        known = drive(house.directory.enable_principal(tenant, named, by=None))
        write_down(house, tenant, "enable_principal", "write:principals", known.id)
    _tell(known, as_json, "enabled")


@click.command()
@click.argument("principal")
@click.option("--yes", is_flag=True, help="Do not ask.")
@tenant_option
@store_option
@json_option
def forget(principal: str, store: str, tenant: str, as_json: bool, yes: bool) -> None:
    """Erase a person for good: every session they own, the blobs of those, what is remembered of them and by them in
    every space, their keys, their name, and the agents that act for them. The audit log goes on naming their id. Run it
    again if it was interrupted.
    """
    import msgspec

    from perdure.edge.cli import output
    from perdure.waiting import drive

    more = f"; somebody without a key is added first: perdure principals add {one_line(principal, 80)}"
    with served(store, read_only=False) as house:
        known = principal_of(house, tenant, principal, more=more)
        if not yes:
            _ask(known, drive(house.people.clades(tenant, known.id)))
        with output.progress("erasing") as progress:
            done = drive(house.people.erase(tenant, known.id, by=None, progress=progress))
        write_down(house, tenant, "erase_person", "delete:people", known.id)
    if as_json:
        documents.emit({"erased": msgspec.to_builtins(done)})
        return
    agents = f", {counted(len(done.agents), 'agent')} that acted for them" if done.agents else ""
    click.echo(
        f"erased {done.principal}: {counted(done.sessions, 'session')}, {counted(done.blobs, 'blob')} "
        f"({size(done.bytes)}), {counted(done.memories, 'memory')}{agents}"
    )


# ── saying it ──


def _ask(known: "Principal", clades: tuple[str, ...]) -> None:
    whole = f"{counted(len(clades), 'clade')} of theirs ({one_line(', '.join(clades), 80)})"
    more = f", and {whole} with what others keep there" if clades else ""
    try:
        sure = click.confirm(
            f"Erase {one_line(known.name) or known.id}, every session they own, and what is remembered of them in "
            f"every space{more}, for good?",
            err=True,
        )
    except click.Abort:
        sure = False
    if not sure:
        raise click.UsageError("nothing was erased; confirm with y, or pass --yes")


def _tell(known: "Principal", as_json: bool, done: str) -> None:
    if as_json:
        documents.emit({"principal": _document(known)})
    else:
        click.echo(f"{done} {one_line(known.name)} ({_roles(known.roles) or 'no role'}, {known.status.value})")


def _roles(roles: Any) -> str:
    return " ".join(sorted(role.value for role in roles))


def _said(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _document(known: "Principal") -> dict[str, Any]:
    return {
        "id": known.id,
        "tenant": known.tenant,
        "name": known.name,
        "kind": known.kind,
        "roles": sorted(role.value for role in known.roles),
        "scopes": list(known.scopes),
        "task": known.task,
        "acting_for": known.acting_for,
        "status": known.status.value,
        "created_at": moment(known.created_at) if known.created_at else None,
    }
