"""An S3-compatible server on the loopback device for tests: moto, in a process of its own."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

BUCKET = "perdure-tests"
PATIENCE = 60


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """A server with an empty bucket; the environment in which it is found."""
    if find_spec("moto") is None or find_spec("obstore") is None:
        pytest.skip("moto or obstore is not installed: NO S3 IS TESTED HERE")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    try:
        _create_bucket(address, server)
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            # No test, whatever it takes away of the above, asks the metadata service of the machine it runs on.
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9",
        }
    finally:
        server.terminate()
        server.wait()


@contextmanager
def refusing(address: str) -> Iterator[None]:
    """Every request is answered with 403, since nobody has been given rights."""
    _check_rights(address, b"0")  # after so many requests
    try:
        yield
    finally:
        _check_rights(address, b"inf")


def _check_rights(address: str, after: bytes) -> None:
    request = urllib.request.Request(f"{address}/moto-api/reset-auth", after, {"Content-Type": "text/plain"})
    urllib.request.urlopen(request, timeout=5).close()


def _create_bucket(address: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)
