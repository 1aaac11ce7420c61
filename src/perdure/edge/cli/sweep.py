"""`perdure sweep`: seeing to the sessions whose time has come, once or over and over."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.core.session.timeouts import LIMITS, LONGEST
from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import opened
from perdure.edge.cli.options import cold_option, json_option, store_option
from perdure.edge.cli.spaces import settings_given
from perdure.edge.cli.text import ago, counted, moment, one_line

if TYPE_CHECKING:
    from perdure import Perdure
    from perdure.services.timeouts import SweepReport, Swept

DEEDS: Final = ("suspended", "ended", "erased", "compensated", "waiting")
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|min|h|d|w)?")
_SECONDS: Final = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def duration(value: str) -> float:
    """Seconds from 90, 90s, 15m, 2h, 7d or 4w."""
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a length of time; write 90, 90s, 15m, 2h, 7d or 4w")
    return float(found[1]) * _SECONDS[found[2]]


def limit(value: str) -> tuple[str, int]:
    """`idle=30m`: a default time-out, or `Invalid` naming those there are."""
    name, _, length = value.partition("=")
    seconds = duration(length) if name in LIMITS and length else LONGEST + 1
    if seconds > LONGEST:
        raise Invalid(
            f"--default {shown(value)} is not a limit and a length of time, up to {LONGEST} seconds; the limits are "
            f"{', '.join(LIMITS)}: write idle=30m",
            default=value,
            allowed=LIMITS,
        )
    return name, round(seconds)


def target(value: str) -> tuple[str, str]:
    """`notify=https://…`: a step of the clean-up and where to post."""
    step, sign, url = value.partition("=")
    if not sign or not url:
        raise click.BadParameter(f"{value!r} is not a step and an address; write notify=https://…")
    return step, url


@click.command()
@store_option
@json_option
@click.option("--once", is_flag=True, help="Sweep once; the default.")
@click.option("--every", type=duration, metavar="TIME", help="Sweep again after so long, until stopped: 60, 5m, 1h.")
@click.option("--limit", "most", type=click.IntRange(1), default=1000, show_default=True, help="Sessions in a sweep.")
@click.option(
    "--lease",
    type=duration,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long no other sweeper is handed a session of this one.",
)
@click.option(
    "--give-up",
    type=duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="How long a failing hook is tried before it is left behind.",
)
@click.option(
    "--default",
    "defaults",
    multiple=True,
    type=limit,
    metavar="LIMIT=TIME",
    help="A time-out of sessions without one of their own: idle=30m.",
)
@click.option(
    "--webhook",
    "webhooks",
    multiple=True,
    type=target,
    metavar="STEP=URL",
    help="Post a signed message in a step of the clean-up: notify=https://…",
)
@click.option(
    "--hook-timeout",
    type=duration,
    default="2m",
    show_default=True,
    metavar="TIME",
    help="For how long a webhook is tried in one sweep.",
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Holds the webhooks' secret, of at least 16 bytes; else $PERDURE_WEBHOOK_SECRET does.",
)
@cold_option
@click.option("--rearm", is_flag=True, help="First set every timer anew, as after a change of the defaults.")
def sweep(store: str, cold: str | None, as_json: bool, **words: Any) -> None:
    """Suspend, clean up and end, or erase the sessions whose time has come, and consolidate memories where their plan
    says that it is time. Exit code 5 when a session is left waiting, or a space could not be consolidated.

    Any number of these may run on one store. A sweep costs what the sessions cost that are due, however many there are.
    """
    from perdure.edge.cli.talk import talk_given

    if words["once"] and words["every"] is not None:
        raise click.UsageError("sweep --once or --every TIME, not both")
    remembering: dict[str, Any] = {"talk": talk_given({}), "memory": settings_given()}
    with opened(store, read_only=False, cold=cold, timeouts=dict(words["defaults"]) or None, **remembering) as db:
        for step, url in words["webhooks"]:
            db.webhook(step, url, _secret(words["secret_file"]), timeout=words["hook_timeout"])
        if words["rearm"]:
            _rearm(db)
        if words["every"] is None:
            _once(db, words, as_json)
            return
        click.echo(f"sweeping every {words['every']:g} seconds; stop it with Ctrl-C", err=True)
        for report in db.sweeper(words["every"], lease=words["lease"], give_up=words["give_up"]):
            if as_json:
                documents.emit_line(_document(report))
            elif report.done or report.consolidated or report.unconsolidated:
                _show(report)


def _secret(path: str | None) -> str:
    """The webhooks' secret; never an argument, which every user of the machine could read."""
    import os

    found = os.environ.get("PERDURE_WEBHOOK_SECRET", "") if path is None else Path(path).read_text("utf-8").strip()
    if not found:
        raise click.UsageError("webhooks need a secret; name --secret-file, or set PERDURE_WEBHOOK_SECRET")
    return found


def _rearm(db: "Perdure") -> None:
    from perdure.edge.cli import output

    with output.progress("arming") as progress:
        changed = db.rearm(progress)
    click.echo(f"armed {counted(changed, 'session')} anew", err=True)


def _once(db: "Perdure", words: dict[str, Any], as_json: bool) -> None:
    from perdure.edge.cli import output

    with output.progress("sweeping") as progress:
        report = db.sweep(words["most"], lease=words["lease"], give_up=words["give_up"], progress=progress)
    if as_json:
        documents.emit(_document(report))
    else:
        _show(report)
    if report.count("waiting") or report.unconsolidated:
        click.get_current_context().exit(exits.WORLD)


def _document(report: "SweepReport") -> dict[str, Any]:
    return {
        "looked": report.looked,
        "rearmed": report.rearmed,
        "more": report.more,
        **{did: report.count(did) for did in DEEDS},
        "done": [_swept(item) for item in report.done],
        "consolidated": [
            {"space": space, "run": run.id, "found": run.found, "cost": run.cost, "lacking": run.place or None}
            for space, run in report.consolidated.items()
        ],
        "unconsolidated": [{"space": space, "error": why} for space, why in report.unconsolidated.items()],
    }


def _swept(item: "Swept") -> dict[str, Any]:
    return {
        "session": str(item.session),
        "did": item.did,
        "reason": item.reason,
        "due_at": None if item.due_at is None else moment(item.due_at),
        "error": item.error,
    }


def _show(report: "SweepReport") -> None:
    from perdure.ambient import RealAmbient
    from perdure.edge.cli import output

    console, now = output.screen(), RealAmbient().now()
    if report.done:
        columns = ("session", "did", "reason", "was due", "error")
        styles = {"waiting": "red", "erased": "dim"}
        rows = [
            (
                str(item.session),
                output.styled(item.did, styles.get(item.did, "green")),
                item.reason,
                "" if item.due_at is None else ago(item.due_at, now),
                item.error or "",
            )
            for item in report.done
        ]
        console.print(output.table(columns, rows, flexible=("error",)))
    for space, run in report.consolidated.items():
        found = ", ".join(f"{count:,} {name}" for name, count in run.found.items()) or "nothing to do"
        console.print(f"consolidated {one_line(space)}: {found}", soft_wrap=True)
        if run.place:
            console.print(f"  {one_line(run.place)}; the next one looks at all that again", soft_wrap=True)
    for space, why in report.unconsolidated.items():
        console.print(f"could not consolidate {one_line(space)}: {one_line(why)}", soft_wrap=True)
    did = [f"{report.count(name)} {name}" for name in DEEDS if report.count(name)]
    more = "; there may be more to do: sweep again" if report.more else ""
    console.print(f"looked at {counted(report.looked, 'session')}: {', '.join(did) or 'nothing to do'}{more}")
