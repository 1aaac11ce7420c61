"""`perdure prices …`: what models cost here, and how that is brought up to date."""

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from perdure.edge.cli import documents
from perdure.edge.cli.options import json_option
from perdure.edge.cli.text import counted, one_line

if TYPE_CHECKING:
    from perdure.core.errors import UnknownModel
    from perdure.core.talk.prices import Price, Prices

PER: Final = 1_000_000
Named = tuple[str, str]
Table = dict[Named, "Price"]
Changes = list[tuple[str, Named, "Price | None", "Price | None"]]


@click.group("prices")
def prices() -> None:
    """Look at what models cost, and bring prices up to date. A document of your own is laid over those that ship."""


@prices.command()
@click.argument("model", required=False)
@json_option
def show(model: str | None, as_json: bool) -> None:
    """The prices that count: all of them, or that of a MODEL, as `provider/model` or by its name alone."""
    from perdure.compose import pricing

    over, counting = pricing.own(), pricing.loaded()
    found = list(counting.table) if model is None else fitting(counting, model)
    yours = {} if over is None else over.table
    shown = [(named, counting.of(*named), (named[0], counting.under(*named)) in yours) for named in sorted(found)]
    if as_json:
        listed = [document(named, price, own=own) for named, price, own in shown]
        documents.emit({"file": None if over is None else str(pricing.own_file()), "prices": listed})
        return
    from perdure.edge.cli import output

    rows = [_row(named, price, own=own) for named, price, own in shown]
    columns = ("provider", "model", "input", "output", "cache read", "cache write", "window", "as of", "")
    console = output.screen()
    console.print(output.table(columns, rows, flexible=("model",)))
    console.print("dollars per million tokens")


@prices.command()
@click.argument("source")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@json_option
def update(source: str, dry_run: bool, as_json: bool) -> None:
    """Make a document your own prices. SOURCE is a file, or an address: https://…, or http:// on this machine.

    It replaces the one you had. One that is not of the right form is refused, and nothing changes.
    """
    from perdure.compose import pricing
    from perdure.core.talk.prices import merged, read

    content = fetched(source)
    new = merged(pricing.shipped(), read(content))
    changes = differences(_before(), new.table)
    place = pricing.own_file() if dry_run else pricing.keep(content)
    if as_json:
        told = [_changed(change) for change in changes]
        documents.emit({"file": str(place), "written": not dry_run, "changes": told})
        return
    for change in changes:
        click.echo(_line(change))
    did = "would be written to" if dry_run else "written to"
    click.echo(f"{counted(len(changes), 'change')}; {did} {one_line(str(place))}")


def _before() -> Table:
    """The prices as they counted so far; a bad file of one's own did not count, and is about to be replaced."""
    from perdure.compose import pricing
    from perdure.core.errors import BadPrices

    try:
        return pricing.loaded().table
    except BadPrices:
        return pricing.shipped().table


def fetched(source: str) -> bytes:
    """The bytes of a file, or of what is at an address."""
    if "://" not in source:
        with open(source, "rb") as file:
            return file.read()
    from perdure.edge.cli.fetching import fetch

    return fetch(source)


def fitting(found: "Prices", model: str) -> list[Named]:
    """A model at the provider it is named with, or at all that have it. `UnknownModel` if there are none. What costs
    the same whatever its name is, is found with its provider only.
    """
    provider, sign, name = model.partition("/")
    providers = sorted({owner for owner, _ in found.table})
    if sign and provider in providers:
        found.of(provider, name)
        return [(provider, name)]
    fits = [(owner, model) for owner in providers if found.under(owner, model) not in (None, "*")]
    if not fits:
        raise _unknown(found, providers, model)
    return fits


def _unknown(found: "Prices", providers: list[str], model: str) -> "UnknownModel":
    """Nobody has it: the nearest names there are."""
    from perdure.core.errors import UnknownModel
    from perdure.edge.cli.lazy import nearest

    near = [f"{owner}/{name}" for owner in providers if (name := nearest(model, _names(found, owner))) is not None]
    known = f"near it are {', '.join(near)}" if near else "perdure prices show lists all"
    return UnknownModel(f"no price is known for {model!r}; {known}", model=model, near=near)


def _names(found: "Prices", provider: str) -> list[str]:
    return [name for owner, name in found.table if owner == provider]


def differences(before: Table, after: Table) -> Changes:
    """What is new, what is gone and what costs something else, by name."""
    found: Changes = []
    for named in sorted(before.keys() | after.keys()):
        old, new = before.get(named), after.get(named)
        if old is None or new is None:
            found.append(("new" if old is None else "gone", named, old, new))
        elif _terms(old) != _terms(new):
            found.append(("changed", named, old, new))
    return found


def document(named: Named, price: "Price", *, own: bool = False) -> dict[str, Any]:
    """A price as JSON, in micro-dollars per million tokens."""
    return {"provider": named[0], "model": named[1], **_terms(price), "as_of": str(price.as_of), "own": own}


def _terms(price: "Price") -> dict[str, Any]:
    """What a price says, whenever it is from and whatever else costs the same."""
    whole: dict[str, Any] = msgspec.to_builtins(price)
    return {name: whole[name] for name in ("rates", "window", "max_output", "long")}


def _row(named: Named, price: "Price", *, own: bool) -> tuple[str, ...]:
    rates = price.rates
    money = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    return (*named, *map(_dollars, money), f"{price.window:,}", str(price.as_of), "yours" if own else "")


def _dollars(rate: int) -> str:
    whole, rest = divmod(rate, PER)
    return f"{whole}.{f'{rest:06}'.rstrip('0').ljust(2, '0')}"


def _changed(change: tuple[str, Named, "Price | None", "Price | None"]) -> dict[str, Any]:
    what, (provider, model), old, new = change
    terms = {"before": None if old is None else _terms(old), "after": None if new is None else _terms(new)}
    return {"change": what, "provider": provider, "model": model, **terms}


def _line(change: tuple[str, Named, "Price | None", "Price | None"]) -> str:
    what, (provider, model), old, new = change
    costs = [_spoken(price) for price in (old, new) if price is not None]
    return f"{what:<8}{one_line(f'{provider}/{model}')}: {' → '.join(costs)}"


def _spoken(price: "Price") -> str:
    rates = price.rates
    return f"{_dollars(rates.input)} in, {_dollars(rates.output)} out, window {price.window:,}"
