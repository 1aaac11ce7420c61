"""Where an upstream is, and a request to it as it is sent."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

PORTS: Final = {"http": 80, "https": 443}
DEFAULTS: Final = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "perdure"}
OURS: Final = frozenset({"content-length", "transfer-encoding", "connection", "host"})
"""What is said of a request by whoever sends it, and by nobody else."""
_TARGET: Final = re.compile(r"[!-~]*")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\r\n\0]*")


class Unsayable(ValueError):
    """An address or a header that cannot be put into a request."""


class Address:
    """An address such as https://host/path, taken apart; `Unsayable` when it is none."""

    def __init__(self, spelled: str) -> None:
        try:
            parts = urlsplit(spelled)
            self.host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
        except ValueError as error:
            raise Unsayable(str(error)) from error
        odd = parts.username is not None or parts.query or parts.fragment
        if parts.scheme not in PORTS or not self.host or port == 0 or odd:
            raise Unsayable("it is not like https://host/path")
        usual = PORTS[parts.scheme]
        self.tls = parts.scheme == "https"
        self.port = port or usual
        self._prefix = parts.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._named = host if self.port == usual else f"{host}:{self.port}"

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """A request to a path below it."""
        target = self._prefix + path or "/"
        if _TARGET.fullmatch(target) is None:
            raise Unsayable("its path has signs that no address has")
        lines = [f"POST {target} HTTP/1.1", f"host: {self._named}", f"content-length: {len(body)}"]
        said = {name.lower(): value for name, value in headers.items()}
        for name, value in (DEFAULTS | said).items():
            if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
                raise Unsayable("a header has signs that no header has")
            if name not in OURS:
                lines.append(f"{name}: {value}")
        return "\r\n".join([*lines, "", ""]).encode("utf-8") + body
