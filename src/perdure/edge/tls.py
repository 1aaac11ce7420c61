"""TLS, from files to contexts: 1.3 and nothing older, with certificates on both sides where that is wanted."""

import os
import ssl
import stat
from typing import Final, Protocol

from perdure.core.errors import Invalid, WorldError

PROTOCOLS: Final = ["http/1.1"]
_EVERYBODY: Final = 0o007


class Wanted(Protocol):
    """What a server says about TLS; `Settings` does."""

    @property
    def tls_cert(self) -> str | None: ...
    @property
    def tls_key(self) -> str | None: ...
    @property
    def tls_client_ca(self) -> str | None: ...
    @property
    def mutual_tls(self) -> bool: ...


def server_context(wanted: Wanted) -> ssl.SSLContext:
    """A server's side. With `mutual_tls`, who shows no certificate of the client CA gets no further than the handshake.

    `Invalid` names the file that is missing or does not fit, `WorldError` a private key that everybody may read.
    """
    if wanted.tls_cert is None or wanted.tls_key is None:
        raise Invalid("TLS needs a certificate and its key; give --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(PROTOCOLS)
    _identify(context, wanted.tls_cert, wanted.tls_key)
    if wanted.tls_client_ca is not None:
        _trust(context, wanted.tls_client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    if wanted.mutual_tls:
        if wanted.tls_client_ca is None:
            raise Invalid("mutual TLS needs to know whose certificates count; give --tls-client-ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca: str | None = None, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """A client's or another node's side. Trusts the given CA alone, else the machine's; shows a certificate if any."""
    if (cert is None) != (key is None):
        raise Invalid("a certificate and its key belong together; give both or none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(PROTOCOLS)
    if ca is None:
        context.load_default_certs()
    else:
        _trust(context, ca)
    if cert is not None and key is not None:
        _identify(context, cert, key)
    return context


def _identify(context: ssl.SSLContext, cert: str, key: str) -> None:
    for path in (cert, key):
        _there(path)
    if os.name == "posix" and stat.S_IMODE(os.stat(key).st_mode) & _EVERYBODY:
        raise WorldError(f"{key} is a private key and everybody may read it; run: chmod 600 {key}", path=key)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, ValueError) as wrong:
        told = f"{cert} and {key} are no certificate and its key, both PEM and without a password ({_reason(wrong)})"
        raise Invalid(told, path=cert) from None


def _no_password() -> str:
    """Asked for when a key is encrypted: nobody sits at the terminal of a server."""
    raise ValueError("the key is encrypted")


def _trust(context: ssl.SSLContext, ca: str) -> None:
    _there(ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as wrong:
        raise Invalid(f"{ca} holds no certificate of a CA as PEM ({_reason(wrong)})", path=ca) from None


def _there(path: str) -> None:
    if not os.path.isfile(path):
        raise Invalid(f"there is no file {path}; `perdure keys ca` makes certificates to try TLS with", path=path)


def _reason(wrong: Exception) -> str:
    return getattr(wrong, "reason", None) or str(wrong)
