"""Who answers for a model: upstreams by name, aliases, and who is asked instead when the first choice fails.

A model is named `upstream/model`, or by an alias, or by its bare name: then it is the upstream's that lists it, or that
is where the form comes from and has a price for it, else the default model's. What the built-in model answers for goes
by a name that says so. `auto` is no model: whoever routes by difficulty decides it before coming here.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import Invalid, UnknownModel
from perdure.core.talk.prices import Prices

Form: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses", ""]
"""A wire form; "" is the common one."""
Kind: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses", "offline"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]

AUTO: Final = "auto"
BUILT_IN: Final = "offline"
"""What names of the built-in model begin with."""
ANY: Final = "*"
"""In fallbacks: who is asked when no others are named."""
BASES: Final[dict[Kind, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "offline": "",
}
"""Where an upstream is when it does not say."""
FAMILIES: Final[dict[Form, str]] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "": "offline",
}
"""Whose models an upstream has, by its wire form, when the price list does not know its name."""
_FORMS: Final[dict[Kind, Form]] = {
    "anthropic": "anthropic",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "offline": "",
}


class Upstream(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A provider: what it speaks, where it is, our key for it, and our patience, in seconds.

    The first byte may take `first_byte_timeout`; a whole answer, whose first byte comes when all is said, five times
    that. Without a name it has the one under which it stands.
    """

    kind: Kind
    name: str = ""
    base_url: str = ""
    models: tuple[str, ...] = ()
    free: bool = False
    key: str = ""
    headers: dict[str, str] = {}
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 120.0
    idle_timeout: Seconds = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2
    max_connections: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200

    def __repr__(self) -> str:
        """Without what is secret: the key and the headers."""
        return f"Upstream(name={self.name!r}, kind={self.kind!r}, base_url={self.base_url!r})"

    @property
    def form(self) -> Form:
        """The wire form it speaks."""
        return _FORMS[self.kind]

    @property
    def address(self) -> str:
        """Where it is, without a slash at the end."""
        return (self.base_url or BASES[self.kind]).rstrip("/")

    @property
    def public(self) -> bool:
        """Whether it is where the form comes from, so that its models and prices are those that everybody knows."""
        return self.address == BASES[self.kind]


class Models(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What may be asked for. `default` is asked when nothing is named, `cheap` for small tasks of our own.

    `fallbacks` names, for a model as it is asked for or for `*`, those that are asked when it gives no answer.
    """

    upstreams: dict[str, Upstream]
    aliases: dict[str, str] = {}
    fallbacks: dict[str, tuple[str, ...]] = {}
    default: str = ""
    cheap: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model of an upstream, by the names that these have for each other, and the form in which it is asked."""

    provider: str
    model: str
    form: Form = ""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked: the first choice, then the others in order."""

    asked: str
    candidates: tuple[Candidate, ...]


OFFLINE: Final = Models(
    upstreams={"offline": Upstream(name="offline", kind="offline")}, default="offline/offline", cheap="offline/offline"
)
"""What there is without configuration: the built-in model, which answers to every name."""


def route(models: Models, model: str | None, prices: Prices | None = None) -> Route:
    """Who is asked for a model, None for the default. Raises `UnknownModel`, which says what there is."""
    asked = model or models.default
    if not asked:
        raise UnknownModel(
            f"no model is named, and there is no default; name one, such as {_example(models)}",
            near=list(_told(models)),
        )
    names, first = _found(models, asked, prices)
    others = next((models.fallbacks[name] for name in (*names, ANY) if name in models.fallbacks), ())
    candidates = [first, *(_found(models, other, prices)[1] for other in others)]
    return Route(asked=asked, candidates=tuple(dict.fromkeys(candidates)))


def checked(models: Models, prices: Prices | None = None) -> Models:
    """The same with every upstream named, if all in it leads somewhere. Raises `Invalid` or `UnknownModel`, which say
    what does not.
    """
    if not models.upstreams:
        raise Invalid("there is no upstream; name at least one")
    models = _named(models)
    for name, upstream in models.upstreams.items():
        _sound(name, upstream)
    for model in (models.default, models.cheap, *models.aliases, *models.fallbacks):
        if model and model not in (AUTO, ANY):
            route(models, model, prices)
    for other in models.fallbacks.get(ANY, ()):
        route(models, other, prices)
    return models


def _named(models: Models) -> Models:
    if all(upstream.name for upstream in models.upstreams.values()):
        return models
    named = {
        name: upstream if upstream.name else msgspec.structs.replace(upstream, name=name)
        for name, upstream in models.upstreams.items()
    }
    return msgspec.structs.replace(models, upstreams=named)


def _sound(name: str, upstream: Upstream) -> None:
    problem = ""
    if not name or "/" in name or name != upstream.name:
        problem = "its name must be that under which it stands, and have no slash in it"
    elif upstream.kind not in _FORMS:
        problem = f"its kind must be one of {', '.join(_FORMS)}"
    elif upstream.kind != "offline" and not upstream.address.startswith(("http://", "https://")):
        problem = "its base_url must begin with http:// or https://"
    elif any(mark in upstream.address for mark in "@?# "):
        problem = "its base_url must have neither a user nor a query; the key has its own field"
    elif not (upstream.key + "".join(upstream.headers.values())).isprintable():
        problem = "its key and headers must be one printable line each"
    if problem:
        raise Invalid(f"the upstream {name!r} is wrong: {problem}; correct it", upstream=name)


def _found(models: Models, asked: str, prices: Prices | None) -> tuple[list[str], Candidate]:
    """The candidate for a name, and every name that it goes by, the nearest to the caller first."""
    names = [asked]
    while names[-1] in models.aliases:
        meant = models.aliases[names[-1]]
        if meant in names:
            raise Invalid(f"the alias {asked!r} leads in a circle ({', '.join(names)}); correct it", alias=asked)
        names.append(meant)
    upstream, model = _placed(models, names[-1], prices)
    candidate = Candidate(provider=upstream.name, model=model, form=upstream.form)
    return [*names, f"{upstream.name}/{model}", model], candidate


def _placed(models: Models, name: str, prices: Prices | None) -> tuple[Upstream, str]:
    owner, slash, rest = name.partition("/")
    if slash and owner in models.upstreams and rest:
        return models.upstreams[owner], rest
    if name == AUTO:
        raise _unknown(models, name)
    home = _home(models, prices)
    seller = _seller(models, name, prices, home)
    if seller is not None:
        return seller, name
    if home is None or (slash and not _has_slashes(home)):
        raise _unknown(models, name)
    if home.kind == "offline" and not name.startswith(BUILT_IN):
        return home, f"{BUILT_IN}/{name}"  # what it says of itself is true, whatever it was asked as
    return home, name


def _seller(models: Models, model: str, prices: Prices | None, home: Upstream | None = None) -> Upstream | None:
    """The first upstream that has a model, the default one before the others."""
    asked = (*((home,) if home is not None else ()), *models.upstreams.values())
    return next((found for found in asked if found.kind != "offline" and _sells(found, model, prices)), None)


def _sells(upstream: Upstream, model: str, prices: Prices | None) -> bool:
    """Whether an upstream lists a model, or the price list knows it of whoever made up the form, if it is there."""
    if model in upstream.models:
        return True
    if prices is None or not upstream.public:
        return False
    for seller in (upstream.name, FAMILIES[upstream.form]):
        try:
            prices.of(seller, model)
        except UnknownModel:
            continue
        return True
    return False


def _home(models: Models, prices: Prices | None) -> Upstream | None:
    """The default model's upstream, which is asked for what nobody has a price for; else the only one there is."""
    default, seen = models.default, set[str]()
    while default in models.aliases and default not in seen:
        seen.add(default)
        default = models.aliases[default]
    owner, slash, _ = default.partition("/")
    if slash and owner in models.upstreams:
        return models.upstreams[owner]
    if len(models.upstreams) == 1:
        return next(iter(models.upstreams.values()))
    return _seller(models, default, prices) if default else None


def _has_slashes(upstream: Upstream) -> bool:
    """Whether names of its models may have slashes in them: those of whoever sells others' models do."""
    return bool(upstream.base_url) and upstream.kind != "anthropic"


def _told(models: Models) -> Iterator[str]:
    """Names that can be asked for: models that are named, aliases, and what else an upstream has."""
    yield from sorted({*models.aliases, *filter(None, (models.default, models.cheap))})
    yield from (f"{name}/{model}" for name, found in models.upstreams.items() for model in found.models)
    yield from (f"{name}/…" for name in models.upstreams)


def _example(models: Models) -> str:
    return next(_told(models), "upstream/model")


def _unknown(models: Models, name: str) -> UnknownModel:
    there = [found for found in _told(models) if name not in (found, models.aliases.get(found))]
    near = get_close_matches(name, there, 3, 0.5) or there
    return UnknownModel(
        f"there is no model {name!r}; there are {', '.join(there) or 'none'}; correct the name or add its upstream",
        model=name,
        near=near,
    )
