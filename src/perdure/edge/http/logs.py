"""The server's log: one line an event, without content, names or secrets. As JSON, or as text for people."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import msgspec

from perdure.core.errors import PerdureError

_KNOWN: Final = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Each record as one JSON object: time, level, logger, message, whatever else it carries, and where it broke."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        found: dict[str, Any] = {
            "at": round(record.created * 1_000_000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: value for name, value in record.__dict__.items() if name not in _KNOWN}
        if record.exc_info and record.exc_info[0] is not None:
            found["error"] = record.exc_info[0].__name__
            found["trace"] = _places(record.exc_info[2])
        return msgspec.json.encode(found, enc_hook=str).decode()


class Lines(logging.Formatter):
    """Each record as a line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; of an error its kind and its places, never its message, which may hold content."""
        more = {name: value for name, value in record.__dict__.items() if name not in _KNOWN and value is not None}
        told = " ".join([record.levelname, record.name, record.getMessage(), *(f"{k}={v}" for k, v in more.items())])
        if record.exc_info and record.exc_info[0] is not None:
            told += f" {record.exc_info[0].__name__} at {' < '.join(_places(record.exc_info[2]))}"
        return told


def _places(trace: Any) -> list[str]:
    """Where it broke, the innermost first: modules, functions and lines, no values."""
    found: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return found[::-1][:20]


def facts(error: PerdureError) -> dict[str, Any]:
    """What the log tells of an error that was expected: its code and, of a provider's failure, whose it was, which
    model was asked, and the status and type that came. No words: they may hold content.
    """
    told = {"upstream": "provider", "model": "model", "status": "status", "type": "type"}
    found = {name: error.fields.get(field) for name, field in told.items()}
    return {"code": error.code, **{name: value for name, value in found.items() if value not in (None, "")}}


def to_stderr(form: str, level: str) -> None:
    """Send what perdure and its server log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    for name in ("perdure", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "perdure" else "CRITICAL")  # what fails there, we say ourselves


def journalled(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether what is written to a stream ends up in systemd's journal. Children of a service inherit the variable that
    says so, terminals among them; it counts only if it means this very stream.
    """
    told = environ.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return told == f"{found.st_dev}:{found.st_ino}"
