"""A certificate authority for trying TLS: one server, one client, and nobody else, for its own key is thrown away."""

import datetime
import os
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from perdure.core.errors import AlreadyExists, Invalid

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from perdure.ports.ambient import Ambient

FILES: Final = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
LONGEST: Final = 825
"""Days; some clients take no certificate that is valid for longer."""
_SECOND: Final = 1_000_000
_EARLY: Final = datetime.timedelta(minutes=5)
_SERIAL_BYTES: Final = 19


def make(folder: str, hosts: Sequence[str], ambient: "Ambient", *, days: int = 365, force: bool = False) -> list[str]:
    """Write CA, server and client certificates and the keys of the latter two into a folder; says which files.

    Keys are their owner's alone. `AlreadyExists`, with nothing written, when one of the files is there and not forced.
    """
    if not 1 <= days <= LONGEST:
        raise Invalid(f"a certificate is valid for 1 to {LONGEST} days", days=days)
    if not hosts:
        raise Invalid("a server's certificate is for at least one host; give --host")
    names = [_name(host) for host in hosts]
    paths = {file: os.path.join(folder, file) for file in FILES}
    there = [path for path in paths.values() if os.path.lexists(path)]
    if there and not force:
        told = f"{there[0]} is there already; choose another folder, or say --force to make all of them anew"
        raise AlreadyExists(told, paths=there)
    made = _made(names, _Times(ambient, days), ambient)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for file, content in made.items():
        _write(paths[file], content, 0o600 if file.endswith(".key") else 0o644)
    return list(paths.values())


def _write(path: str, content: bytes, mode: int) -> None:
    """A whole file under its name, or none: readable by whom it may from the first byte on."""
    draft = f"{path}.part"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _name(host: str) -> str | IPv4Address | IPv6Address:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        pass
    if not host or not host.isascii() or any(not (c.isalnum() or c in "-.*") for c in host):
        raise Invalid(f"{host!r} is no name of a host; write localhost, example.org or an address", host=host)
    return host


class _Times:
    """From when to when certificates are valid; a little early, for clocks that are behind."""

    def __init__(self, ambient: "Ambient", days: int) -> None:
        now = datetime.datetime.fromtimestamp(ambient.now() // _SECOND, datetime.UTC)
        self.begin = now - _EARLY
        self.end = now + datetime.timedelta(days=days)


def _made(names: list[str | IPv4Address | IPv6Address], times: _Times, ambient: "Ambient") -> dict[str, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, server, client = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root = _certificate("perdure local CA", authority, None, authority, times, ambient)
    also = x509.SubjectAlternativeName(
        [x509.DNSName(name) if isinstance(name, str) else x509.IPAddress(name) for name in names]
    )
    of_server = [also, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])]
    of_client = [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])]
    shown = _certificate("perdure server", server, of_server, authority, times, ambient)
    known = _certificate("perdure client", client, of_client, authority, times, ambient)

    def key(of: "EllipticCurvePrivateKey") -> bytes:
        return of.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    certificates = (certificate.public_bytes(Encoding.PEM) for certificate in (root, shown, known))
    ca, of_the_server, of_the_client = certificates
    return dict(zip(FILES, (ca, of_the_server, key(server), of_the_client, key(client)), strict=True))


def _certificate(
    name: str,
    key: "EllipticCurvePrivateKey",
    extensions: "Sequence[x509.ExtensionType] | None",
    authority: "EllipticCurvePrivateKey",
    times: _Times,
    ambient: "Ambient",
) -> "x509.Certificate":
    """A certificate signed by the authority; without extensions it is the authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    root = extensions is None
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "perdure local CA")])
    usage = x509.KeyUsage(not root, False, False, False, False, root, root, False, False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(b"\x01" + ambient.random(_SERIAL_BYTES - 1)))
        .not_valid_before(times.begin)
        .not_valid_after(times.end)
        .add_extension(x509.BasicConstraints(root, 0 if root else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )
    for extension in extensions or ():
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(authority, hashes.SHA256())
