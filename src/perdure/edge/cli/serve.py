"""`perdure serve`: the server, on this machine or for others."""

import logging
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from perdure.core.errors import Refused
from perdure.edge.cli.opening import noting
from perdure.edge.cli.options import json_option
from perdure.edge.cli.text import as_options

if TYPE_CHECKING:
    from perdure.compose.tenants import Tenants
    from perdure.edge.http.welcome import Welcome

log: Final = logging.getLogger("perdure.server")


def flags(command: Any) -> Any:
    """One flag for every setting, as the settings describe themselves."""
    from perdure.edge.http.configuring import settings

    for item in reversed([item for item in settings() if not item.by_file]):
        how: dict[str, Any] = {"help": item.description}
        if item.yes_or_no:
            how |= {"default": None}
            names = [f"{item.flag}/--no-{item.flag[2:]}"]
        else:
            names = [item.flag]
            how |= {"metavar": "WORD" if item.choices else "TEXT", "multiple": item.many}
            if item.choices:
                how |= {"help": f"{item.description} ({', '.join(item.choices)})"}
        command = click.option(*names, item.name, **how)(command)
    return command


@click.command()
@json_option
@click.option("--config", metavar="FILE", help="The configuration file; perdure.toml in this folder if it is there.")
@click.option("--announce", metavar="FILE", help="Write where the server is to a file, for programs that start it.")
@click.option("--show-config", is_flag=True, help="Show every setting and where it comes from, and stop.")
@flags
def serve(as_json: bool, config: str | None, announce: str | None, show_config: bool, **given: Any) -> None:
    """Serve a store over HTTP, with live streams, keys and an audit log.

    Without any configuration it serves perdure.db in this folder on 127.0.0.1 and prints a link to sign in by.
    """
    from perdure.edge.http.configuring import configure, shown

    configured = configure(given, config=config)
    if show_config:
        _show(shown(configured), as_json)
        return
    found = configured.settings
    try:
        import httptools  # noqa: F401 - asked for before anything is opened; other extras bring only the second
        import uvicorn  # noqa: F401
    except ImportError:
        raise Refused("the server needs its extra; install perdure[server]") from None
    from perdure.edge.http.building import opened
    from perdure.edge.http.logs import journalled, to_stderr
    from perdure.edge.http.serving import announce as write
    from perdure.edge.http.serving import first_key
    from perdure.edge.http.serving import serve as run

    to_stderr(found.log_format, found.log_level)
    kept = journalled(sys.stdout)  # a journal is read by more people than a terminal, and for longer; by programs, too

    def store() -> "Tenants":
        with noting(_log_note if kept else None):
            return opened(found)

    def told(welcome: "Welcome") -> None:
        if announce is not None:
            write(announce, welcome)
        if as_json:
            _print(msgspec.json.encode(welcome.bare if kept else welcome).decode())
        elif not kept:
            _print(greeting(welcome, found.tls_client_ca if found.mutual_tls else None))
        elif found.on_loopback:
            log.info("nobody was given a key; make one with this command", extra={"command": first_key(found)})

    def stopped() -> None:
        if not as_json and not kept:  # the log says so, too
            _print("stopped")

    run(found, store, told, stopped, keys=announce is not None or not kept)


def _show(rows: list[tuple[str, str, str]], as_json: bool) -> None:
    if as_json:
        named = [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]
        click.echo(msgspec.json.encode(named).decode())
        return
    width = max(len(name) for name, _, _ in rows)
    for name, value, source in rows:
        click.echo(f"{name:<{width}}  {value}  ({source})")


def _log_note(note: str) -> None:
    log.warning(as_options(note))


def greeting(welcome: "Welcome", client_ca: str | None) -> str:
    """What people read who started a server; with the CA of the certificates that clients must show, if they must."""
    lines = [f"perdure serves at {welcome.url}"]
    if welcome.link is not None:
        folder = os.path.dirname(client_ca or "")
        mine, key = (os.path.join(folder, name) for name in ("client.pem", "client.key"))
        shown = "" if client_ca is None else f"--cert {shlex.quote(mine)} --key {shlex.quote(key)} "
        lines += [
            f"\n  sign in:  {welcome.link}\n",
            "  or from a shell, with a key that lasts for twelve hours:\n",
            f"  export PERDURE_URL={welcome.url}",
            f"  export PERDURE_KEY={welcome.key}",
            f'  curl {shown}$PERDURE_URL/v1/sessions -H "Authorization: Bearer $PERDURE_KEY" \\',
            """    -H 'Content-Type: application/json' -d '{"title": "Lisbon trip"}'""",
        ]
        if client_ca is not None:
            lines.append(f'\n  (clients show a certificate here: perdure.connect with certificate=("{mine}", "{key}"))')
        if welcome.url.startswith("https:"):
            lines.append(
                '\n  (with a CA of your own, curl also wants --cacert ca.pem, and perdure.connect ca="ca.pem")'
            )
    return "\n".join([*lines, "\nstop it with Ctrl-C"])


def _print(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()
