"""The first words of a server on loopback: a link to sign in by, and a key to try things with.

Nothing is configured then, so whoever can read this terminal is the operator. On any other address nobody is welcomed:
keys are made on the command line.
"""

from typing import Final

import msgspec

from perdure.core.access.roles import Role
from perdure.core.errors import AlreadyExists
from perdure.edge.http.node import Node

TENANT: Final = "local"
NAME: Final = "local"
LABEL: Final = "made when the server started"
HOURS: Final = 12
_HOUR: Final = 3_600_000_000


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is, and how to come in, if it says."""

    url: str
    link: str | None = None
    key: str | None = None

    @property
    def bare(self) -> "Welcome":
        """The same without what lets anybody in."""
        return Welcome(url=self.url)

    def __repr__(self) -> str:
        return f"Welcome({self.url})"


async def welcome(node: Node, port: int, *, keys: bool = True) -> Welcome:
    """Where the server is; on loopback, and unless there are to be no `keys`, with a link and a key for half a day."""
    settings = node.settings
    scheme = "https" if settings.tls_cert is not None else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{host}:{port}"
    if not (settings.on_loopback and keys):
        return Welcome(url=url)
    directory = node.tenants.directory
    try:
        roles = (Role.OWNER, Role.ADMIN, Role.AUDITOR)
        principal = await directory.add_principal(TENANT, NAME, by=None, roles=roles)
    except AlreadyExists:
        principal = await directory.principal(TENANT, NAME)
    until = node.tenants.ambient.now() + HOURS * _HOUR
    made = await directory.add_key(TENANT, principal.id, by=None, label=LABEL, expires_at=until)
    code = await node.entry.signin.code(principal.id)
    return Welcome(url=url, link=f"{url}/signin?code={code}", key=made.spelled)
