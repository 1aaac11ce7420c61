"""The check of the container's image: it sees whether a server is ready, in the clear and over TLS."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from perdure.ambient import RealAmbient
from perdure.edge.certificates import make
from tests.edge.client.scripted import answer
from tests.edge.client.served import served

CHECK = Path(__file__).resolve().parents[3] / "deploy" / "healthy.py"


def checked(port: int | str) -> int:
    proxied = {"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}  # not for one's own address
    environment = {**os.environ, **proxied, "PERDURE_PORT": str(port)}
    return subprocess.run([sys.executable, str(CHECK)], env=environment, timeout=30, check=False).returncode


def test_a_server_in_the_clear_is_healthy(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert checked(server.url.rpartition(":")[2]) == 0


def test_a_server_that_speaks_tls_is_healthy(tmp_path: Path) -> None:
    make(str(tmp_path), ["sessions.example.org"], RealAmbient())
    settings = {"tls_cert": str(tmp_path / "server.pem"), "tls_key": str(tmp_path / "server.key")}
    with served(tmp_path, **settings) as server:
        assert checked(server.url.rpartition(":")[2]) == 0


def test_a_server_that_wants_certificates_is_healthy(tmp_path: Path) -> None:
    make(str(tmp_path), ["sessions.example.org"], RealAmbient())
    settings = {"tls_cert": str(tmp_path / "server.pem"), "tls_key": str(tmp_path / "server.key")}
    with served(tmp_path, **settings, tls_client_ca=str(tmp_path / "ca.pem"), mutual_tls=True) as server:
        assert checked(server.url.rpartition(":")[2]) == 0


def test_nobody_is_not_healthy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert checked(taken.getsockname()[1]) == 1


def test_a_server_that_leaves_is_not_healthy() -> None:
    from threading import Thread

    def leaving(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(1 << 16)
            sock.sendall(answer(503, {}))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=leaving, args=(listener,))
        thread.start()
        assert checked(listener.getsockname()[1]) == 1
        thread.join(20)
