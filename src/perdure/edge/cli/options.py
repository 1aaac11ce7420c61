"""What many commands take: the store, `--json`, times in two spellings, `key=value` pairs."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_STORE: Final = "perdure.db"
_RELATIVE: Final = re.compile(r"(\d{1,6})\s*(s|m|min|h|d|w)")
_INFINITE: Final = (float("inf"), float("-inf"))
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def keys_option(command: F) -> F:
    """`--key-file PATH` and `--vault PATH`: where the keys of a sealed store are."""
    for name, where in (
        ("--vault", "The vault of a sealed store: a file, or postgresql://…"),
        ("--key-file", "The master key of a sealed store."),
    ):
        command = click.option(
            name, metavar="PATH", expose_value=False, callback=_remember, help=f"{where}  [default: beside the store]"
        )(command)
    return command


def store_option(command: F) -> F:
    """`--store PATH`, and with it whatever it takes to read a session: the keys, and where archived ones lie."""
    if not any(param.name == "cold" for param in getattr(command, "__click_params__", ())):
        command = cold_option(command, expose_value=False, callback=_remember)
    return bare_store_option(command)


def bare_store_option(command: F) -> F:
    """`--store PATH`, else $PERDURE_STORE, else ./perdure.db; and where the keys of a sealed one are."""
    command = keys_option(command)
    return click.option(
        "--store",
        envvar="PERDURE_STORE",
        default=DEFAULT_STORE,
        show_default=True,
        show_envvar=True,
        metavar="PATH",
        help="The store: a file, or postgresql://…",
    )(command)


def _remember(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    """Most commands only hand it on: `perdure.edge.cli.opening` looks for it in the context."""
    if value is not None:
        ctx.meta[f"perdure.{option.name}"] = value


def cold_option(command: F, **how: Any) -> F:
    """`--cold PLACE`, else $PERDURE_COLD, else none."""
    return click.option(
        "--cold",
        envvar="PERDURE_COLD",
        show_envvar=True,
        metavar="PLACE",
        help="Where archived sessions lie: a folder, or s3://bucket/prefix.",
        **how,
    )(command)


def verify_option(command: F) -> F:
    """`--verify full|quick|none`."""
    return click.option(
        "--verify",
        type=click.Choice(["full", "quick", "none"]),
        default="full",
        show_default=True,
        help="How far to prove it: every chain, the file's structure, or not at all.",
    )(command)


def json_option(command: F) -> F:
    """`--json`: machines read it."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def when(value: str) -> int:
    """Microseconds since 1970 from ISO 8601 (without a zone: UTC) or from how long ago: 90s, 15m, 2h, 7d, 4w."""
    return _micros(value, -1, "2h for two hours ago")


def since(value: str) -> datetime:
    """Since when something is true: as `when` reads it."""
    return _moment(value, when(value))


def until(value: str) -> datetime:
    """Until when something is true: ISO 8601, or in how long from now: 2h, 7d."""
    return _moment(value, _micros(value, 1, "2h for in two hours"))


def _moment(value: str, micros: int) -> datetime:
    """A time that nobody takes for seconds."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        raise click.BadParameter(f"{value!r} is not within the years 1 to 9999; name a time that is") from None


def _micros(value: str, way: int, example: str) -> int:
    relative = _RELATIVE.fullmatch(value.strip())
    if relative is not None:
        from perdure.ambient import RealAmbient

        return RealAmbient().now() + way * int(relative[1]) * _SECONDS[relative[2]] * 1_000_000
    try:
        found = datetime.fromisoformat(value)
        whole = (found if found.tzinfo else found.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        wrong = f"{value!r} is not a time; write 2026-01-31, 2026-01-31T12:00:00Z, or {example}"
        raise click.BadParameter(wrong) from None
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds


def pair(value: str) -> tuple[str, Any]:
    """`key=value`; the value is what it says in JSON if that is a number, text, true, false or null, else its text."""
    key, sign, text = value.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"{value!r} is not key=value")
    return key, scalar(text)


def scalar(text: str) -> Any:
    """A JSON number, string, true, false or null; anything else is taken as the text it is."""
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, dict | list) or found != found or found in _INFINITE else found


def choice(value: str) -> tuple[str, str]:
    """`path=side`, the path as a conflict names it; the last `=` parts them."""
    path, _, side = value.rpartition("=")
    if not path or side not in ("ours", "theirs", "base"):
        raise click.BadParameter(f"{value!r} is not path=ours, path=theirs or path=base")
    return path, side
