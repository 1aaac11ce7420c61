"""How the command line ends: one table from kinds of errors to exit codes, and one place that prints errors.

=====  ===========================================================================================
code   meaning
=====  ===========================================================================================
0      done
1      unexpected: a defect of perdure; the traceback is shown
2      the caller's: bad usage, bad input, or refused in the session's present state
3      no such session, version or checkpoint; no audit log of a tenant
4      a conflict: somebody else was first, or a merge waits for a decision
5      the world's: tampered or damaged data, not a store, a newer one, read-only, disk full, busy
130    interrupted with Ctrl-C
141    whoever read the output left early, as `head` does
143    ended by SIGTERM, as shells count it
=====  ===========================================================================================
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import click

from perdure.core import errors

OK: Final = 0
UNEXPECTED: Final = 1
CALLER: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
WORLD: Final = 5
INTERRUPTED: Final = 130
READER_LEFT: Final = 141

BY_KIND: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.NotFound, NOT_FOUND),
    (errors.CallerError, CALLER),
    (errors.ConflictError, CONFLICT),
    (errors.WorldError, WORLD),
    (OSError, WORLD),
)
"""The first row that fits decides."""


class ReaderLeft(Exception):
    """A broken pipe, in words that click does not catch and end on its own."""


def exit_code(error: Exception) -> int:
    """The code that an error ends the process with."""
    return next((code for kind, code in BY_KIND if isinstance(error, kind)), UNEXPECTED)


def guarded(run: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run a command; whatever happens becomes an exit code, and an error a line on stderr.

    With `--json` among the arguments the error is a document on stdout as well.
    """
    try:
        outcome = run()
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else OK
    except (ReaderLeft, BrokenPipeError):
        return _reader_left()
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        return CALLER
    except click.ClickException as wrong:
        return _report(_spelled(wrong), wrong.exit_code, "usage", {}, arguments)
    except errors.PerdureError as error:
        return _report(error.message, exit_code(error), error.code, error.fields, arguments)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _report(f"{error.strerror or error}{where}", exit_code(error), "os_error", {}, arguments)
    except Exception as error:
        return _defect(error, arguments)


def _spelled(wrong: click.ClickException) -> str:
    hint = wrong.ctx.command_path if isinstance(wrong, click.UsageError) and wrong.ctx else ""
    message = wrong.format_message()
    return f"{message} (see {hint} --help)" if hint else message


def _report(message: str, code: int, name: str, fields: dict[str, Any], arguments: Sequence[str]) -> int:
    from perdure.edge.cli import documents, text

    message = text.as_options(message)
    try:
        if wants_json(arguments):
            documents.emit_error(name, message, fields)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except OSError:  # stdout takes nothing, which may be the very error; stderr still may
        _away(sys.stdout)
    try:
        click.echo(f"error: {text.one_line(message)}", err=True)
    except OSError:  # nobody is told: the code has to do
        _away(sys.stderr)
    return code


def _defect(error: Exception, arguments: Sequence[str]) -> int:
    import traceback

    from perdure.edge.cli import text

    click.echo(text.clean("".join(traceback.format_exception(error))), err=True)
    message = f"perdure met a defect of its own ({type(error).__name__}); please report the lines above"
    return _report(message, UNEXPECTED, "unexpected", {}, arguments)


def _reader_left() -> int:
    """Nobody reads stdout any more."""
    _away(sys.stdout)
    return READER_LEFT


def _away(stream: Any) -> None:
    """Point a stream that takes nothing away, so that the interpreter's last flush cannot complain."""
    with suppress(OSError, ValueError):  # not a real file, as in tests: then there is no last flush either
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_what_is_closed() -> None:
    """Give a process that was started without stdin, stdout or stderr an empty one. Else the first file that is opened
    would take its number, and what is printed would go into a store.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end, as streams are
            setattr(sys, name, stream)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether these arguments ask for JSON; told from the words, since usage errors come before parsing."""
    words = list(arguments)
    return "--json" in (words[: words.index("--")] if "--" in words else words)
