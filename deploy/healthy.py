"""The check of the container's image: ends with 0 when the server here is ready, in the clear or over TLS, else with 1.

It asks its own machine, so it does not matter for whom the server's certificate is. A server that lets nobody in
without a certificate does not answer; having greeted with TLS is enough then.
"""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

HOST = "127.0.0.1"
PATIENCE = 1.0
READY = 200


def in_the_clear(port: int) -> bool | None:
    """Whether a server that speaks HTTP is ready; None when what listens does not speak it."""
    connection = HTTPConnection(HOST, port, timeout=PATIENCE)
    connection.connect()
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == READY
    except (HTTPException, ConnectionError):
        return None
    finally:
        connection.close()


def over_tls(port: int) -> bool:
    """Whether a server that speaks TLS is ready."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = HTTPSConnection(HOST, port, timeout=PATIENCE, context=context)
    connection.connect()
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == READY
    except (ssl.SSLError, ConnectionError):  # it wants a certificate
        return True
    finally:
        connection.close()


def main() -> int:
    """Ask, and say it as commands do."""
    port = int(os.environ.get("PERDURE_PORT", "7464"))
    try:
        ready = in_the_clear(port)
        return 0 if (over_tls(port) if ready is None else ready) else 1
    except (OSError, HTTPException) as trouble:
        sys.stderr.write(f"the server on port {port} does not answer: {trouble}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
