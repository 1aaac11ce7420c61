"""From flags, environment and file to settings. The first that says something decides, in that order.

A setting has one name. `max_body` in the file is `--max-body` as a flag and `PERDURE_MAX_BODY` in the environment; only
`key` is `--key-file` and `PERDURE_KEY_FILE`, as everywhere else.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args

import msgspec

from perdure.core.errors import Invalid
from perdure.edge.http import toolservers
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.settings import Issuer, Settings
from perdure.edge.http.upstreams import Bounds, Provider, without_secrets
from perdure.edge.http.wire import explained
from perdure.edge.timing import timeouts_of

FILE: Final = "perdure.toml"
CONFIG: Final = "PERDURE_CONFIG"
PREFIX: Final = "PERDURE_"
MASTER_KEY: Final = "PERDURE_MASTER_KEY"
DEFAULT: Final = "default"
MAX_FILE: Final = 1 << 20
_SPELLED: Final = {"key": "key_file"}
_OTHERS: Final = frozenset({"CONFIG", "KEY", "MASTER_KEY", "URL", "WEBHOOK_SECRET"})
"""Variables that are something else's: the client's, the vault's, the sweeper's."""
_BY_FILE: Final = frozenset({"issuers", "timeouts", "upstreams", "aliases", "fallbacks", "turns", "tools", "memory"})
"""Settings with parts of their own."""
_EXAMPLES: Final = {"memory": '{"embedder": "minilm"}', "timeouts": '{"idle": 3600}'}
"""What those may look like in the environment."""
_SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "[[issuers]]": Issuer,
    "[upstreams.NAME]": Provider,
    "[turns]": Bounds,
    "[memory]": Remembering,
    "[tools.NAME]": toolservers.ToolServer,
}
"""Where the parts of settings stand in the file, and what they are."""
_ALIKE: Final = 0.8
_SECRET: Final = re.compile(r"(://[^@/:\s]*:)\S*@|((?:^|[?&;\s])(?:password|secret|token)=)[^&;\s]*", re.IGNORECASE)
_YES: Final = frozenset({"true", "1", "yes", "on"})
_NO: Final = frozenset({"false", "0", "no", "off"})


class Configured(msgspec.Struct, frozen=True):
    """Settings, and for every one of them where its value came from."""

    settings: Settings
    sources: dict[str, str]


class Setting(msgspec.Struct, frozen=True):
    """One setting as it is spelled and described."""

    name: str
    kind: Any
    default: Any
    description: str

    @property
    def flag(self) -> str:
        """Its flag."""
        return "--" + _SPELLED.get(self.name, self.name).replace("_", "-")

    @property
    def variable(self) -> str:
        """Its variable in the environment."""
        return PREFIX + _SPELLED.get(self.name, self.name).upper()

    @property
    def many(self) -> bool:
        """Whether it takes several texts."""
        return bool(self.kind == tuple[str, ...])

    @property
    def yes_or_no(self) -> bool:
        """Whether it is a switch."""
        return not self.by_file and (self.kind is bool or bool in get_args(self.kind))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may be, if it is one of a few."""
        return get_args(self.kind) if all(isinstance(word, str) for word in get_args(self.kind)) else ()

    @property
    def by_file(self) -> bool:
        """Whether it has parts of its own, which no flag can say."""
        return self.name in _BY_FILE


def settings() -> tuple[Setting, ...]:
    """Every setting there is, in order."""
    return _described(Settings)


def _described(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    hints = msgspec.structs.fields(struct)
    return tuple(Setting(item.name, _bare(item.type), _default(item), _description(item.type)) for item in hints)


def _default(item: Any) -> Any:
    return item.default if item.default_factory is msgspec.NODEFAULT else item.default_factory()


def _bare(kind: Any) -> Any:
    """A type without what is annotated to it."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    return kind


def _description(kind: Any) -> str:
    return next((meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description), "")


def configure(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Configured:
    """The settings that flags (by field name; None is not given), environment and file make together.

    The file is the one named, else the one $PERDURE_CONFIG names, else perdure.toml in the working directory if it is
    there. `Invalid` when a name is unknown or a value is not what it should be, naming where it was said.
    """
    environ = os.environ if environ is None else environ
    known = {setting.name: setting for setting in settings()}
    place, table = _file(config or environ.get(CONFIG) or None)
    _known_names(table, known, place)
    _known_variables(environ, known)
    values, sources = dict[str, Any](), dict[str, str]()
    for name, setting in known.items():
        given = (flags or {}).get(name)
        if given is not None and given != ():
            values[name], sources[name] = _text(setting, given, setting.flag), setting.flag
        elif name == "key" and environ.get(MASTER_KEY):
            values[name], sources[name] = None, MASTER_KEY
        elif environ.get(setting.variable):
            values[name], sources[name] = _text(setting, environ[setting.variable], setting.variable), setting.variable
        elif name in table:
            values[name], sources[name] = table[name], f"{place}: {name}"
        else:
            values[name], sources[name] = setting.default, DEFAULT
    unknown = set(flags or {}) - set(known)
    if unknown:
        raise Invalid(f"{sorted(unknown)[0]} is no setting", name=sorted(unknown)[0])
    return Configured(_made(values, sources), sources)


def _made(values: dict[str, Any], sources: dict[str, str]) -> Settings:
    """The struct, once every value by itself is what it should be."""
    hints = {item.name: item.type for item in msgspec.structs.fields(Settings)}
    made = dict[str, Any]()
    for name, value in values.items():
        if sources[name] == DEFAULT:
            made[name] = value
            continue
        try:
            made[name] = msgspec.convert(value, hints[name])
        except msgspec.ValidationError as wrong:
            reason = explained(wrong, hints[name]).replace("`$`", name).replace("`$", f"`{name}")
            raise Invalid(f"{sources[name]}: {reason}", name=name, source=sources[name]) from None
        if name == "timeouts":
            _must_be_timeouts(made[name], sources[name])
    try:
        return Settings(**made)
    except Invalid as wrong:
        words = set(re.findall(r"\w+", wrong.message))
        said = ", ".join(
            f"{name} is from {source}" for name, source in sources.items() if name in words and source != DEFAULT
        )
        raise Invalid(f"{wrong.message} ({said})" if said else wrong.message, **wrong.fields) from None


def _must_be_timeouts(value: Any, source: str) -> None:
    """Refuse a time-out there is not, or one that is no length of time, before a server is made with it."""
    try:
        timeouts_of(value)
    except Invalid as wrong:
        raise Invalid(f"{source}: {wrong.message}", **wrong.fields | {"name": "timeouts", "source": source}) from None


def _file(named: str | os.PathLike[str] | None) -> tuple[str, dict[str, Any]]:
    """The name of the configuration file, and what it says; nothing where none is there and none was named."""
    place = os.fspath(named) if named is not None else FILE
    try:
        with open(place, "rb") as file:
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        if named is None:
            return place, {}
        raise Invalid(f"there is no configuration file {place}; name another one with --config", path=place) from None
    except OSError as wrong:
        raise Invalid(
            f"{place} cannot be read ({wrong.strerror}); name another one with --config", path=place
        ) from wrong
    if len(content) > MAX_FILE:
        raise Invalid(f"{place} is larger than {MAX_FILE} bytes; that is no configuration file", path=place)
    try:
        return place, tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise Invalid(f"{place} is not TOML: {wrong}", path=place) from None


def _known_names(table: dict[str, Any], known: Mapping[str, Setting], place: str) -> None:
    for name in table:
        if name not in known:
            raise Invalid(f"{place}: {name!r} is no setting{_meant(name, known)}", name=name, source=place)


def _known_variables(environ: Mapping[str, str], known: Mapping[str, Setting]) -> None:
    """Refuse what was probably meant for a setting. Other programs have variables of that beginning, too."""
    spelled = {setting.variable.removeprefix(PREFIX) for setting in known.values()}
    for variable in environ:
        word = variable.removeprefix(PREFIX)
        if word == variable or word in spelled or word in _OTHERS:
            continue
        near = get_close_matches(word, spelled, n=1, cutoff=_ALIKE)
        if near:
            told = f"{variable} in the environment is no setting; did you mean {PREFIX}{near[0]}?"
            raise Invalid(told, name=variable, source="environment")


def _meant(name: str, known: Mapping[str, Setting]) -> str:
    """What else there is: a section that has such a part, a setting that is spelled alike, or all of them."""
    sections = [where for where, struct in _SECTIONS.items() if name in struct.__struct_fields__]
    if sections:
        return f" by itself; it belongs into {' or '.join(sections)}"
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}; docs/CONFIG.md tells of each"


def _text(setting: Setting, value: Any, source: str) -> Any:
    """A value that was given as text, as the file would have it."""
    if setting.many:
        parts = value.split(",") if isinstance(value, str) else list(value)
        return [part.strip() for part in parts if part.strip()]
    if not isinstance(value, str):
        return value
    try:
        if setting.by_file:
            return msgspec.json.decode(value)
        if setting.yes_or_no:
            return _switch(value)
        if setting.kind is int:
            return int(value)
        if setting.kind is float:
            return float(value)
    except (ValueError, msgspec.DecodeError):
        wanted = _json(setting) if setting.by_file else "yes or no" if setting.yes_or_no else "a number"
        raise Invalid(f"{source}: {setting.name} is {wanted}", name=setting.name, source=source) from None
    return value


def _json(setting: Setting) -> str:
    """What a setting that is a table in the file is in the environment."""
    example = _EXAMPLES.get(setting.name)
    return f"JSON, such as {setting.variable}='{example}'" if example else "JSON"


def _switch(value: str) -> bool:
    word = value.strip().lower()
    if word not in _YES | _NO:
        raise ValueError(word)
    return word in _YES


def shown(configured: Configured) -> list[tuple[str, str, str]]:
    """Name, value and source of every setting, for people; passwords in addresses are masked."""
    return [
        (name, masked(_spelled(_open(name, getattr(configured.settings, name)))), source)
        for name, source in configured.sources.items()
    ]


def _open(name: str, value: Any) -> Any:
    """What may be seen of a setting."""
    if name == "tools":
        return toolservers.without_secrets(value)
    return without_secrets(value) if name == "upstreams" else value


def masked(text: str) -> str:
    """A text without the passwords in its addresses."""
    return _SECRET.sub(lambda found: f"{found[1]}…@" if found[1] else f"{found[2]}…", text)


def _spelled(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()


def table() -> str:
    """The settings as docs/CONFIG.md lists them."""
    lines = ["| setting | flag | environment | default | |", "|---|---|---|---|---|"]
    for item in settings():
        flag = "" if item.by_file else f"`{item.flag}`"
        lines.append(f"| `{item.name}` | {flag} | `{item.variable}` | {_code(item.default)} | {_said(item)} |")
    return "\n".join(lines)


def issuers_table() -> str:
    """What is said about an issuer, as docs/CONFIG.md lists it."""
    return _listed("[[issuers]]", Issuer)


def upstreams_table() -> str:
    """What is said about an upstream, as docs/CONFIG.md lists it."""
    return _listed("[upstreams.NAME]", Provider)


def turns_table() -> str:
    """What is said about turns, as docs/CONFIG.md lists it."""
    return _listed("[turns]", Bounds)


def memory_table() -> str:
    """What is said about memory, as docs/CONFIG.md lists it."""
    return _listed("[memory]", Remembering)


def tools_table() -> str:
    """What is said about a tool server, as docs/CONFIG.md lists it."""
    return _listed("[tools.NAME]", toolservers.ToolServer)


def _listed(where: str, struct: type[msgspec.Struct]) -> str:
    lines = [f"| in `{where}` | default | |", "|---|---|---|"]
    lines += [f"| `{item.name}` | {_code(item.default)} | {_said(item)} |" for item in _described(struct)]
    return "\n".join(lines)


def _code(value: Any) -> str:
    untold = value in (None, (), {}, "", Bounds(), Remembering()) or value is msgspec.NODEFAULT
    return "" if untold else f"`{_spelled(value)}`"


def _said(item: Setting) -> str:
    words = ", ".join(f"`{word}`" for word in item.choices)
    return f"{item.description}: {words}" if words else item.description
