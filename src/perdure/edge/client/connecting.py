"""Connecting to a server: what `perdure.open` and `perdure.aopen` are for a store of one's own."""

import os
from typing import Any, Final

from perdure.ambient import RealAmbient
from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.edge.blocking import Perdure
from perdure.edge.client.library import RemotePerdure
from perdure.edge.client.pool import Certificate, Pool, context_of, place_of
from perdure.edge.client.transport import Transport
from perdure.edge.library import AsyncPerdure
from perdure.edge.opening import Opening
from perdure.edge.timing import CENTURY, seconds_of
from perdure.ports.ambient import Ambient
from perdure.waiting import drive

TIMEOUT: Final = 60.0
RETRIES: Final = 6


async def _connected(
    url: str,
    key: str,
    ca: Any,
    certificate: Certificate | None,
    seconds: Any,
    retries: Any,
    ambient: Ambient | None,
) -> RemotePerdure:
    place, patience = place_of(url), seconds_of(seconds, "timeout", CENTURY)
    if type(key) is not str or not key or not (key.isascii() and key.isprintable()) or " " in key:
        raise Invalid("a key is the text that `perdure principals key` or the server printed; give it whole")
    if type(retries) is not int or retries < 0:
        raise Invalid(f"retries is a number from 0 on, not {shown(retries)}")
    chosen = ambient or RealAmbient()
    pool = Pool(place, context_of(place, ca, certificate), patience, chosen)
    transport = Transport(place, key, pool, chosen, timeout=patience, retries=retries)
    try:
        me = await transport.get("/v1/whoami")
        now = (await transport.get("/v1/position"))["now"]
    except BaseException:
        transport.close()
        raise
    transport.names.tenant, transport.names.own = me["tenant"], me.get("acting_for") or me["name"]
    return RemotePerdure(transport, now - chosen.now())


def aconnect(
    url: str,
    key: str,
    *,
    ca: str | os.PathLike[str] | None = None,
    certificate: Certificate | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    ambient: Ambient | None = None,
) -> Opening[AsyncPerdure]:
    """Connect to a server for async use: `async with aconnect(url, key) as db`, or `db = await aconnect(url, key)`.

    `connect` says what the arguments mean.
    """

    async def connected() -> AsyncPerdure:
        return await _connected(url, key, ca, certificate, timeout, retries, ambient)

    connected.__qualname__ = "aconnect"  # so a forgotten await is told by the name callers know
    return Opening(connected())


def connect(
    url: str,
    key: str,
    *,
    ca: str | os.PathLike[str] | None = None,
    certificate: Certificate | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    ambient: Ambient | None = None,
) -> Perdure:
    """Connect to a server with an API key. What it gives has the interface of an open store.

    Over https the server is known by the system's authorities, or by the one in the file `ca`; `certificate`, a file
    or a pair of files (certificate, key), is shown to servers that ask for one. A request that gets no answer within
    `timeout` seconds, or is asked to come back later, is sent again up to `retries` times if that can do nothing twice.
    """
    return Perdure(drive(_connected(url, key, ca, certificate, timeout, retries, ambient)))
