"""`perdure keys ca`: certificates for trying TLS on one's own machine."""

import click

from perdure.edge.cli import documents
from perdure.edge.cli.options import json_option


@click.command("ca")
@click.option(
    "--out", metavar="DIR", default="tls", show_default=True, help="The folder to write to; made if it is missing."
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    default=("localhost", "127.0.0.1", "::1"),
    show_default=True,
    help="What the server is called by: a name or an address. Give it again for more.",
)
@click.option("--days", type=int, default=365, show_default=True, help="For how many days they are valid.")
@click.option("--force", is_flag=True, help="Make all of them anew if there are some.")
@json_option
def ca(out: str, hosts: tuple[str, ...], days: int, force: bool, as_json: bool) -> None:
    """Make a local CA and certificates for a server and a client, to try TLS and mutual TLS with.

    The CA's own key is thrown away, so that nobody can ever make another certificate that these clients trust.
    """
    from perdure.ambient import RealAmbient
    from perdure.edge.certificates import make
    from perdure.edge.cli.text import one_line

    paths = make(out, hosts, RealAmbient(), days=days, force=force)
    if as_json:
        documents.emit({"files": paths, "hosts": list(hosts), "days": days})
        return
    authority, cert, key, mine, mine_key = (one_line(path) for path in paths)
    click.echo(f"made for {', '.join(map(one_line, hosts))}; valid for {days} days")
    click.echo(f"  the server:  perdure serve --tls-cert {cert} --tls-key {key}")
    click.echo(f"  mutual TLS:  the same with --tls-client-ca {authority} --mutual-tls")
    click.echo(
        f"  a client:    curl --cacert {authority} --cert {mine} --key {mine_key} https://{one_line(hosts[0])}:7464/healthz"
    )
