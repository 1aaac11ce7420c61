"""From settings to how sessions talk: which models there are, by which keys, with which templates and bounds.

Keys are read when the store is opened, so a server that would be refused by everybody does not start.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from perdure.compose.pricing import loaded
from perdure.compose.talking import Talk
from perdure.core.errors import BadTemplate, Invalid, PerdureError
from perdure.core.talk.routes import OFFLINE, Models, Upstream, checked
from perdure.core.talk.templates import Template, read
from perdure.edge.http.settings import Settings
from perdure.edge.http.upstreams import KEYS, Provider
from perdure.services.desk import TurnSettings

MAX_KEY: Final = 64 * 1024
MAX_TEMPLATE: Final = 1 << 20
SUFFIX: Final = ".json"


def talk_of(
    settings: Settings, environ: Mapping[str, str] | None = None, missing: dict[str, Invalid] | None = None
) -> Talk:
    """How sessions talk to models here. `Invalid` when a key is not where it is said to be, or a name leads nowhere.

    What is wrong with keys is put into `missing` instead, by upstream, if that is given.
    """
    bounds = TurnSettings(**msgspec.structs.asdict(settings.turns))
    models = _models(settings, os.environ if environ is None else environ, missing)
    return Talk(models=models, prefix=settings.prompt_prefix, templates=_templates(settings.templates), settings=bounds)


def _models(settings: Settings, environ: Mapping[str, str], missing: dict[str, Invalid] | None) -> Models:
    upstreams = {name: _upstream(name, given, environ, missing) for name, given in settings.upstreams.items()}
    plain = OFFLINE if not upstreams else Models(upstreams=upstreams)
    models = msgspec.structs.replace(
        plain,
        aliases=settings.aliases,
        fallbacks=settings.fallbacks,
        default=settings.default_model or plain.default,
        cheap=settings.cheap_model or settings.default_model or plain.cheap,
    )
    if models == OFFLINE:
        return models
    prices = loaded()
    try:
        return checked(models, prices)
    except PerdureError as wrong:
        raise Invalid(f"upstreams, models or aliases: {wrong.message}", **wrong.fields) from wrong


def _upstream(name: str, given: Provider, environ: Mapping[str, str], missing: dict[str, Invalid] | None) -> Upstream:
    facts = {field: value for field, value in msgspec.structs.asdict(given).items() if field not in KEYS}
    try:
        key = _key(name, given, environ)
    except Invalid as wrong:
        if missing is None:
            raise
        missing[name], key = wrong, ""
    return Upstream(name=name, key=key, **facts)


def _key(name: str, given: Provider, environ: Mapping[str, str]) -> str:
    if given.key_env is not None:
        found = environ.get(given.key_env, "").strip()
        if not found:
            told = f"upstreams.{name}: the environment has no {given.key_env}; set it, or leave key_env out"
            raise Invalid(told, upstream=name, variable=given.key_env)
        return found
    if given.key_file is None:
        return given.key or ""
    try:
        with open(given.key_file, "rb") as file:
            content = file.read(MAX_KEY)
        found = content.decode().strip()
    except (OSError, UnicodeDecodeError) as wrong:
        told = f"upstreams.{name}: the key_file {given.key_file} cannot be read ({wrong}); correct it"
        raise Invalid(told, upstream=name, path=given.key_file) from None
    if not found:
        raise Invalid(f"upstreams.{name}: the key_file {given.key_file} is empty; put the key there", upstream=name)
    return found


def _templates(folder: str | None) -> tuple[Template, ...]:
    """The templates in a folder, one to a file."""
    if folder is None:
        return ()
    try:
        places = sorted(place for place in Path(folder).iterdir() if place.suffix == SUFFIX)
        contents = [(place, place.read_bytes()[: MAX_TEMPLATE + 1]) for place in places]
    except OSError as wrong:
        raise Invalid(f"templates: {folder} cannot be read ({wrong.strerror}); name a folder", path=folder) from wrong
    found: list[Template] = []
    for place, content in contents:
        try:
            found.append(read(content))
        except (BadTemplate, Invalid) as wrong:
            raise Invalid(f"templates: {place}: {wrong.message}", **{**wrong.fields, "path": str(place)}) from wrong
    return tuple(found)
