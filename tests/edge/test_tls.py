"""Real handshakes on loopback: TLS 1.3 alone, certificates that are checked on both sides, and keys kept private."""

import os
import socket
import ssl
import stat
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509

from perdure.ambient import RealAmbient
from perdure.core.errors import AlreadyExists, Invalid, WorldError
from perdure.edge.certificates import FILES, make
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.http.settings import Settings
from perdure.edge.tls import client_context, server_context

HOSTS = ("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    make(str(folder), HOSTS, RealAmbient())
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    make(str(folder), HOSTS, RealAmbient())
    return folder


def serving(folder: Path, **changed: Any) -> Settings:
    return Settings(tls_cert=str(folder / "server.pem"), tls_key=str(folder / "server.key"), **changed)


def mutual(folder: Path) -> Settings:
    return serving(folder, tls_client_ca=str(folder / "ca.pem"), mutual_tls=True)


def dialled(settings: Settings, client: ssl.SSLContext, name: str = "localhost") -> str:
    """The version of TLS that the two agree on, once a byte came back; else the `ssl.SSLError` of the client."""
    context = server_context(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            plain, _ = listener.accept()
            plain.settimeout(10)
            try:
                with context.wrap_socket(plain, server_side=True) as secured:
                    secured.sendall(secured.recv(1))
            except (ssl.SSLError, OSError):
                plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=10) as plain,
                client.wrap_socket(plain, server_hostname=name) as secured,
            ):
                secured.sendall(b"?")
                assert secured.recv(1) == b"?"
                return str(secured.version())
        finally:
            thread.join()


def test_a_client_that_trusts_the_ca_is_served_over_tls_1_3(ours: Path) -> None:
    client = client_context(str(ours / "ca.pem"))
    assert dialled(serving(ours), client) == "TLSv1.3"
    assert dialled(serving(ours), client, "127.0.0.1") == "TLSv1.3"


def test_tls_1_2_is_refused(ours: Path) -> None:
    client = ssl.create_default_context(cafile=str(ours / "ca.pem"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError) as refused:
        dialled(serving(ours), client)
    assert "PROTOCOL_VERSION" in (refused.value.reason or "")


def test_a_server_of_another_ca_is_not_believed(ours: Path, theirs: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        dialled(serving(ours), client_context(str(theirs / "ca.pem")))
    with pytest.raises(ssl.SSLCertVerificationError):
        dialled(serving(ours), client_context())


def test_a_server_by_another_name_is_not_believed(ours: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"[Hh]ostname"):
        dialled(serving(ours), client_context(str(ours / "ca.pem")), "example.org")


def test_mutual_tls_lets_in_a_client_with_its_certificate(ours: Path) -> None:
    client = client_context(str(ours / "ca.pem"), str(ours / "client.pem"), str(ours / "client.key"))
    assert dialled(mutual(ours), client) == "TLSv1.3"


def test_mutual_tls_refuses_a_client_without_a_certificate(ours: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionResetError)):  # told why, or cut off before that arrives
        dialled(mutual(ours), client_context(str(ours / "ca.pem")))


def test_mutual_tls_refuses_a_client_with_a_certificate_of_another_ca(ours: Path, theirs: Path) -> None:
    client = client_context(str(ours / "ca.pem"), str(theirs / "client.pem"), str(theirs / "client.key"))
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        dialled(mutual(ours), client)


def test_mutual_tls_refuses_a_servers_certificate_shown_by_a_client(ours: Path) -> None:
    client = client_context(str(ours / "ca.pem"), str(ours / "server.pem"), str(ours / "server.key"))
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        dialled(mutual(ours), client)


def test_a_client_ca_alone_asks_for_certificates_and_does_without(ours: Path, theirs: Path) -> None:
    asking = serving(ours, tls_client_ca=str(ours / "ca.pem"))
    assert dialled(asking, client_context(str(ours / "ca.pem"))) == "TLSv1.3"
    wrong = client_context(str(ours / "ca.pem"), str(theirs / "client.pem"), str(theirs / "client.key"))
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        dialled(asking, wrong)


# ── files that do not fit ──


def test_files_that_do_not_fit_are_told_by_name(ours: Path, theirs: Path, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nothing of the kind")
    nonsense.chmod(0o600)
    for cert, key in (
        (ours / "server.pem", theirs / "server.key"),
        (nonsense, ours / "server.key"),
        (ours / "server.pem", nonsense),
        (ours / "server.pem", tmp_path / "missing.key"),
    ):
        with pytest.raises(Invalid) as caught:
            server_context(Settings(tls_cert=str(cert), tls_key=str(key)))
        assert str(tmp_path / "missing.key") in caught.value.message or str(cert) in caught.value.message
    with pytest.raises(Invalid, match=r"nonsense\.pem holds no certificate"):
        server_context(serving(ours, tls_client_ca=str(nonsense)))
    with pytest.raises(Invalid, match="give both"):
        client_context(cert="client.pem")


def test_without_a_certificate_or_a_client_ca_there_is_no_context(ours: Path) -> None:
    with pytest.raises(Invalid, match="--tls-cert"):
        server_context(Settings())
    wanted = SimpleNamespace(
        tls_cert=str(ours / "server.pem"), tls_key=str(ours / "server.key"), tls_client_ca=None, mutual_tls=True
    )
    with pytest.raises(Invalid, match="--tls-client-ca"):
        server_context(wanted)


def test_an_encrypted_key_is_refused_instead_of_asking_the_terminal(ours: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key((ours / "server.key").read_bytes(), None)
    path = tmp_path / "encrypted.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hush")))
    path.chmod(0o600)
    with pytest.raises(Invalid, match="without a password"):
        server_context(Settings(tls_cert=str(ours / "server.pem"), tls_key=str(path)))


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
def test_a_key_that_everybody_may_read_is_refused(ours: Path, tmp_path: Path) -> None:
    key = tmp_path / "open.key"
    key.write_bytes((ours / "server.key").read_bytes())
    key.chmod(0o644)
    with pytest.raises(WorldError, match="chmod 600"):
        server_context(Settings(tls_cert=str(ours / "server.pem"), tls_key=str(key)))
    key.chmod(0o640)
    server_context(Settings(tls_cert=str(ours / "server.pem"), tls_key=str(key)))


# ── the local CA ──


def test_the_command_makes_what_the_server_and_curl_need(tmp_path: Path) -> None:
    out = tmp_path / "tls"
    result = CliRunner().invoke(command_line, ["keys", "ca", "--out", str(out), "--host", "localhost"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    assert f"--tls-cert {out / 'server.pem'} --tls-key {out / 'server.key'}" in result.stdout
    client = client_context(str(out / "ca.pem"), str(out / "client.pem"), str(out / "client.key"))
    assert dialled(mutual(out), client) == "TLSv1.3"


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
def test_keys_are_their_owners_alone(ours: Path) -> None:
    assert {stat.S_IMODE((ours / file).stat().st_mode) for file in FILES if file.endswith(".key")} == {0o600}


def test_the_key_of_the_ca_is_nowhere(ours: Path) -> None:
    authority = x509.load_pem_x509_certificate((ours / "ca.pem").read_bytes())
    assert b"PRIVATE" not in (ours / "ca.pem").read_bytes()
    of_server = x509.load_pem_x509_certificate((ours / "server.pem").read_bytes())
    of_server.verify_directly_issued_by(authority)
    assert of_server.public_key() != authority.public_key()


def test_nothing_is_overwritten_unless_told_so(tmp_path: Path) -> None:
    (tmp_path / "client.key").write_text("precious")
    words = ["keys", "ca", "--out", str(tmp_path), "--host", "localhost"]
    result = CliRunner().invoke(command_line, words)
    assert (result.exit_code, "--force" in result.stderr) == (4, True)
    assert [path.name for path in tmp_path.iterdir()] == ["client.key"]
    assert (tmp_path / "client.key").read_text() == "precious"
    assert CliRunner().invoke(command_line, [*words, "--force"]).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    with pytest.raises(AlreadyExists):
        make(str(tmp_path), HOSTS, RealAmbient())


@pytest.mark.parametrize(
    ("hosts", "days"), [((), 1), (("",), 1), (("a b",), 1), (("x/y",), 1), (HOSTS, 0), (HOSTS, 826)]
)
def test_what_cannot_be_certified_is_refused(tmp_path: Path, hosts: tuple[str, ...], days: int) -> None:
    with pytest.raises(Invalid):
        make(str(tmp_path / "none"), hosts, RealAmbient(), days=days)
    assert not (tmp_path / "none").exists()
