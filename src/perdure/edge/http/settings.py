"""Everything a server can be told, in one frozen struct. `configuring` reads it from flags, environment and file.

Invariant: a `Settings` that exists is consistent; whether it is also safe to listen with is asked by `must_be_safe`.
"""

from functools import cached_property
from ipaddress import ip_address
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from perdure.core.errors import Invalid, Refused
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.toolservers import ToolServer
from perdure.edge.http.upstreams import Bounds, Provider

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
ANY: Final = "*"
LOCAL_NAME: Final = "localhost"

Seconds = Annotated[float, Meta(gt=0, le=1e9)]
Role = Literal["owner", "agent", "viewer", "auditor", "admin"]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose JWTs are taken besides our own, and what their claims mean here. One algorithm each, and no other."""

    issuer: Annotated[str, Meta(min_length=1, description="`iss`, to the letter")]
    audience: Annotated[str, Meta(min_length=1, description="`aud`, to the letter")]
    jwks: Annotated[str, Meta(min_length=1, description="their keys: a file, or an https address")]
    algorithm: Annotated[
        Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"],
        Meta(description="the algorithm their tokens are signed with"),
    ] = "RS256"
    tenant: Annotated[str, Meta(min_length=1, description="the tenant of everybody they vouch for")] = "local"
    tenant_claim: Annotated[str | None, Meta(description="the claim that names the tenant instead")] = None
    tenants: Annotated[tuple[str, ...], Meta(description="which tenants that claim may name; no other counts")] = ()
    name_claim: Annotated[str, Meta(min_length=1, description="the claim that names the person")] = "sub"
    prefix: Annotated[
        str | None,
        Meta(
            description="what stands before their names here; unset: the issuer and `#`, as in no name of the "
            'directory. `""` trusts them with every name of the tenant: whoever they call ana is ana',
        ),
    ] = None
    roles_claim: Annotated[str, Meta(min_length=1, description="the claim with their roles or groups")] = "roles"
    roles: Annotated[dict[str, Role], Meta(description="which of those is which role here; others are none")] = {}

    def __post_init__(self) -> None:
        if "://" in self.jwks and not self.jwks.startswith("https://") and not _local_address(self.jwks):
            raise ValueError("jwks is a file or an https:// address; keys that come in the clear prove nothing")
        if (self.tenant_claim is None) != (not self.tenants):
            raise ValueError("tenant_claim and tenants belong together; give the claim and every tenant it may name")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """How a server is set up. Each field is a name in the file, a flag and a variable of the environment."""

    store: Annotated[str, Meta(min_length=1, description="the store: a file, or `postgresql://…`")] = "perdure.db"
    seal: Annotated[bool | None, Meta(description="whether a new store is sealed; unset: as it is found, else yes")] = (
        None
    )
    key: Annotated[str | None, Meta(description="the file of master keys; unset: beside the store")] = None
    vault: Annotated[
        str | None, Meta(description="the vault: a file, or `postgresql://…`; unset: beside the store")
    ] = None
    cold: Annotated[str | None, Meta(description="where archived sessions lie: a folder, or `s3://bucket/prefix`")] = (
        None
    )

    host: Annotated[str, Meta(min_length=1, description="the address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="the port to listen on; 0 takes any that is free")] = 7464
    hosts: Annotated[
        tuple[str, ...],
        Meta(description="names the server is called by; `*.example.org` and `*` fit. Bare addresses always do"),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(description="origins besides its own whose pages may write, such as `https://example.org`"),
    ] = ()
    tls_cert: Annotated[str | None, Meta(description="the certificate chain of the server, PEM")] = None
    tls_key: Annotated[str | None, Meta(description="its private key, PEM; nobody else may read the file")] = None
    tls_client_ca: Annotated[str | None, Meta(description="whose client certificates count, PEM")] = None
    mutual_tls: Annotated[bool, Meta(description="take only clients with a certificate of `tls_client_ca`")] = False
    insecure: Annotated[bool, Meta(description="serve on another address than loopback even without TLS")] = False

    token_lifetime: Annotated[int, Meta(ge=1, le=900, description="seconds a session token counts")] = 300
    bind_ip: Annotated[bool, Meta(description="session tokens count only from the address they were given to")] = False
    sign_in_idle: Annotated[int, Meta(ge=1, description="seconds without a request that end a sign-in")] = 1800
    sign_in_absolute: Annotated[int, Meta(ge=1, description="seconds after which a sign-in ends anyhow")] = 43_200
    issuers: Annotated[tuple[Issuer, ...], Meta(description="OpenID Connect and other issuers of JWTs; see below")] = ()
    anomaly: Annotated[
        Literal["flag", "block", "off"], Meta(description="what happens to requests unlike those before them")
    ] = "flag"
    scrub: Annotated[
        Literal["off", "pii", "credentials", "all"], Meta(description="what is masked before it reaches the disk")
    ] = "off"

    webhook_private: Annotated[
        bool, Meta(description="let webhooks be at private addresses and on this machine, also without TLS")
    ] = False

    upstreams: Annotated[
        dict[str, Provider],
        Meta(description="providers of models, by name; see below. Without any, the built-in model answers"),
    ] = {}
    default_model: Annotated[str, Meta(description="the model where none is named, such as `anthropic/NAME`")] = ""
    cheap_model: Annotated[
        str,
        Meta(description="the model for summaries and the like; unset: the default, save that memory asks none"),
    ] = ""
    aliases: Annotated[dict[str, str], Meta(description="other names for models")] = {}
    fallbacks: Annotated[
        dict[str, tuple[str, ...]], Meta(description="who is asked when a model gives no answer, by its name or `*`")
    ] = {}
    prompt_prefix: Annotated[str, Meta(description="what the prompt of every session begins with")] = ""
    templates: Annotated[str | None, Meta(description="a folder of prompt templates, a JSON file each")] = None
    turns: Annotated[Bounds, Meta(description="bounds of every turn; see below")] = Bounds()
    tools: Annotated[
        dict[str, ToolServer], Meta(description="MCP servers whose tools models may call, by name; see below")
    ] = {}

    memory: Annotated[Remembering, Meta(description="how memories are kept and found; see below")] = Remembering()

    max_body: Annotated[int, Meta(ge=KIB, le=GIB, description="bytes of a request's body")] = 16 * MIB
    max_prompt: Annotated[
        int, Meta(ge=KIB, le=GIB, description="bytes of a body for the endpoints that stand in for a provider's")
    ] = 32 * MIB
    max_blob: Annotated[int, Meta(ge=KIB, description="bytes of a blob or an import, which are streamed")] = GIB
    rate: Annotated[float, Meta(gt=0, le=1e6, description="requests per second of one principal")] = 500.0
    burst: Annotated[int, Meta(ge=1, description="requests of one principal at once, after a rest")] = 1000
    session_rate: Annotated[
        float, Meta(gt=0, le=1e6, description="requests per second of one kind by one principal in one session")
    ] = 200.0
    session_burst: Annotated[
        int, Meta(ge=1, description="requests of one kind by one principal in one session at once")
    ] = 400
    stranger_rate: Annotated[
        float, Meta(gt=0, le=1e6, description="failed attempts per second from one address to say who one is")
    ] = 0.5
    stranger_burst: Annotated[int, Meta(ge=1, description="failed attempts from one address at once")] = 20
    max_concurrent: Annotated[int, Meta(ge=1, description="requests under way; more are told to come back")] = 512
    max_streams: Annotated[int, Meta(ge=1, description="exports and blobs on their way; more are told to wait")] = 64
    max_surfaces: Annotated[int, Meta(ge=0, description="live streams and surfaces attached to this node")] = 10_000
    max_session_surfaces: Annotated[int, Meta(ge=0, description="of those, how many to one session")] = 2000
    request_timeout: Annotated[Seconds, Meta(description="seconds a request's body may take to come in")] = 30.0
    shutdown_grace: Annotated[
        Seconds, Meta(description="seconds that requests under way have when the server leaves")
    ] = 10.0

    timeouts: Annotated[
        dict[str, int | bool] | None, Meta(description="time-outs of sessions that have none: idle, absolute, …")
    ] = None
    sweep_interval: Annotated[
        float, Meta(ge=0, le=1e9, description="seconds between looks for sessions whose time has come; 0: never")
    ] = 60.0
    log_format: Annotated[Literal["json", "text"], Meta(description="how the log is written")] = "json"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="from which level on the log is written")
    ] = "info"
    metrics: Annotated[bool, Meta(description="count for Prometheus at `/metrics`")] = True
    otel: Annotated[bool, Meta(description="trace with OpenTelemetry, as its own environment configures it")] = False

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise Invalid("tls_cert and tls_key belong together; give both or none")
        if self.mutual_tls and (self.tls_cert is None or self.tls_client_ca is None):
            raise Invalid("mutual_tls needs tls_cert, tls_key and tls_client_ca; `perdure keys ca` makes some to try")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise Invalid("tls_client_ca needs tls_cert and tls_key; without TLS nobody shows a certificate")
        if self.sign_in_idle > self.sign_in_absolute:
            raise Invalid("sign_in_idle is longer than sign_in_absolute; a sign-in would never be idle that long")
        for origin in self.origins:
            if urlsplit(origin).scheme not in ("http", "https") or origin != _origin(origin):
                raise Invalid(
                    f"origins: {origin!r} is no origin; write scheme and host alone, such as https://example.org"
                )
        for host in self.hosts:
            if not _is_pattern(host):
                raise Invalid(f"hosts: {host!r} is no name of a host; write example.org, *.example.org or *")

    @cached_property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return _is_loopback(self.host)

    def must_be_safe(self) -> None:
        """`Refused` when others could reach the server and anybody on the way could read along."""
        if not self.on_loopback and self.tls_cert is None and not self.insecure:
            told = (
                f"{self.host} can be reached by others, and there is no TLS: give --tls-cert and --tls-key, listen on "
                "127.0.0.1, or say --insecure if something in front of it takes care of TLS"
            )
            raise Refused(told, host=self.host)

    def takes_host(self, host: str) -> bool:
        """Whether a `Host` header names this server. A page elsewhere can make a browser send it only names it owns, so
        bare addresses are taken; on loopback only those of loopback are.
        """
        name = _name(host)
        if not name:
            return False
        if any(_fits(name, pattern) for pattern in self._names):
            return True
        try:
            found = ip_address(name)
        except ValueError:
            return self.on_loopback and name == LOCAL_NAME
        return found.is_loopback if self.on_loopback else True

    def takes_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may write: the server's own, by the host it was asked as, or one given."""
        if origin in self.origins:
            return True
        parts = urlsplit(origin) if origin == _origin(origin) else None
        if parts is None or parts.scheme not in (("https",) if self.tls_cert is not None else ("http", "https")):
            return False
        return parts.netloc.lower() == host.strip().lower() and self.takes_host(host)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name.lower().rstrip(".") for name in (*self.hosts, self.host))


def _is_pattern(host: str) -> bool:
    plain = "" if host == ANY else host.removeprefix("*.")
    return host == ANY or (bool(plain) and plain == _name(plain) and ANY not in plain and "/" not in plain)


def _fits(name: str, pattern: str) -> bool:
    return pattern in (ANY, name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def _name(host: str) -> str:
    """The name in a `Host` header, without its port; empty when it is none."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        port = port.removeprefix(":") if bracket and port[:1] in ("", ":") else "none"
    else:
        name, _, port = host.partition(":")
    return name.rstrip(".") if not port or (port.isascii() and port.isdigit()) else ""


def _origin(text: str) -> str | None:
    """The origin that an address has, spelled as browsers do; None when it has none."""
    try:
        parts = urlsplit(text)
        if not parts.hostname or parts.username is not None:
            return None
        return f"{parts.scheme}://{parts.netloc.lower()}" if parts.port != 0 else None
    except ValueError:
        return None


def _local_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and parts.hostname is not None and _is_loopback(parts.hostname)
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return host == LOCAL_NAME or ip_address(host).is_loopback
    except ValueError:
        return False
