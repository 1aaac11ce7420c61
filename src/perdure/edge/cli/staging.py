"""What `backup`, `restore` and `upgrade` share: a bar for every stage of the work, and the world they work in."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.edge.cli.opening import keys_given
from perdure.edge.cli.text import as_options, counted, moment, one_line, size

if TYPE_CHECKING:
    from perdure.ports.backup import Progress
    from perdure.services.copies import Stages, Wiring
    from perdure.services.manifests import Manifest


def wiring(cold: str | None) -> "Wiring":
    """What copies of stores need of the world."""
    from perdure import __version__
    from perdure.compose import copying
    from perdure.sealing.given import Given

    return copying(__version__, Given(None, **keys_given()), cold)


@contextmanager
def staged() -> "Iterator[Stages]":
    """Bars on stderr, one stage after the other; none when nobody is watching."""
    from perdure.edge.cli import output

    with ExitStack() as shown:

        def stage(label: str) -> "Progress | None":
            shown.close()
            return shown.enter_context(output.progress(label))

        yield stage


def manifest(item: "Manifest") -> dict[str, Any]:
    """A manifest as `--json` shows it."""
    return {**msgspec.to_builtins(item), "made_at": moment(item.made_at)}


def held(item: "Manifest") -> str:
    """What is in a backup, in a few words."""
    sealed = ", sealed" if item.sealed else ""
    return (
        f"{counted(item.sessions, 'session')}, {counted(item.records, 'record')}, {size(item.bytes)}, "
        f"format {item.store_format}{sealed}"
    )


def tell(remarks: tuple[str, ...]) -> None:
    """What else has to be known."""
    for remark in spelled(remarks):
        click.echo(f"  note: {one_line(remark)}", err=True)


def spelled(remarks: tuple[str, ...]) -> list[str]:
    """Remarks in the words of the command line."""
    return [as_options(remark) for remark in remarks]
