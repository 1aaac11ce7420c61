"""Which prices count: those that ship with perdure, and over them the user's own, from one file.

The file is named by the environment variable `PERDURE_PRICES`; else it is `prices.json` in perdure's folder among the
user's configuration. It need not be there.
"""

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from perdure.core.errors import BadPrices
from perdure.core.talk import prices
from perdure.core.talk.prices import Prices

VARIABLE: Final = "PERDURE_PRICES"


def own_file() -> Path:
    """Where the user's own prices are, or would be."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else _folder() / "perdure" / prices.SHIPPED


def _folder() -> Path:
    """Where programs keep what their user configured."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def shipped() -> Prices:
    """The prices that come with perdure."""
    return prices.read(files("perdure.core.talk").joinpath(prices.SHIPPED).read_bytes())


def own() -> Prices | None:
    """The user's prices, if there are any. `BadPrices` names the file when it holds none."""
    place = own_file()
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return prices.read(content)
    except BadPrices as wrong:
        told = f"{place}: {wrong.message}; correct the file, or bring a good one with perdure prices update"
        raise BadPrices(told, **{**wrong.fields, "file": str(place)}) from wrong


def loaded() -> Prices:
    """The prices that count."""
    over = own()
    return shipped() if over is None else prices.merged(shipped(), over)


def keep(content: bytes) -> Path:
    """Make a document the user's own prices: whole, or not at all. `BadPrices` when it is none."""
    prices.read(content)
    place = own_file()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
    return place
