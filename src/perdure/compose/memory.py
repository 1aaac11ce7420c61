"""Memory put together: spaces of a tenant with an embedder and an index."""

import os
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.parts import TAG
from perdure.core.memory.plans import ASKING, DEFAULT
from perdure.ports.store import Query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.compose.talking import Common
    from perdure.core.memory.settling import Reader
    from perdure.ports.memory import Embedder, MemoryIndex
    from perdure.services.allowance import Allowance
    from perdure.services.consolidating import Consolidating
    from perdure.services.erasure import Erasure
    from perdure.services.extracting import Extracting
    from perdure.services.homes import Home
    from perdure.services.memories import Memories
    from perdure.services.sessions import Sessions
    from perdure.services.timeouts import Remembered


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a store remembers. `embedder` is a name that `perdure.embedders.making` knows: `auto` takes what is
    installed, `none` goes by words alone. `reader`: whether consolidation reads memories beside each other, if it is
    installed (`auto`) or never (`none`). `key_env` is the variable of the environment that has our key for an embedder
    that is an address. `room` is bytes of RAM for spaces in use, of all tenants together: a quarter of the machine's
    memory, from 256 MiB to 4 GiB, if nobody says. `plan` is the plan of spaces that were put on none. `asking` is how
    many micro-dollars one consolidation may spend on asking the cheap model, if there is one. Unless `consolidate`,
    sweeps leave alone what is due to be consolidated.
    """

    embedder: str = "auto"
    key_env: str | None = None
    reader: Literal["auto", "none"] = "auto"
    room: int | None = None
    plan: str = DEFAULT
    asking: Annotated[int, msgspec.Meta(ge=0)] = ASKING
    consolidate: bool = True


def allowance_of(settings: MemorySettings | None) -> "Allowance":
    """The RAM for spaces in use."""
    from perdure.compose.machine import memory
    from perdure.services.allowance import Allowance, usual

    asked = None if settings is None else settings.room
    if asked is not None and asked < 1:
        raise Invalid(f"room is how many bytes of RAM memories may take, at least one, not {asked}")
    return Allowance(usual(memory()) if asked is None else asked)


def checked(settings: MemorySettings) -> MemorySettings:
    """The same settings; `Invalid` where there is no embedder of that name, or the environment has no key for it that
    could be sent.
    """
    from perdure.embedders.making import must_be_known

    must_be_known(settings.embedder)
    _key(settings)
    return settings


def _key(settings: MemorySettings) -> str:
    """Our key for an embedder elsewhere; empty if it takes none."""
    if settings.key_env is None:
        return ""
    from perdure.embedders.endpoint import can_be_sent

    found = os.environ.get(settings.key_env, "").strip()
    if not found:
        told = f"memory: the environment has no {settings.key_env}; set it, or leave key_env out"
        raise Invalid(told, variable=settings.key_env)
    if not can_be_sent(found):
        told = f"memory: key_env: {settings.key_env} holds signs that no request can carry; put the key alone there"
        raise Invalid(told, variable=settings.key_env)
    return found


def memories(
    sessions: "Sessions",
    erasure: "Erasure",
    settings: MemorySettings,
    allowance: "Allowance",
    embedder: "Callable[[], Embedder | None]",
) -> "Memories":
    """The service that edges call."""
    from perdure.core.memory.suspecting import flags
    from perdure.services.memories import Memories
    from perdure.services.shelves import Shelves

    shelves = Shelves(sessions, cache(embedder), _index, allowance, plan=settings.plan)
    return Memories(shelves, erasure, flags)


def consolidating(memories: "Memories", common: "Common", settings: MemorySettings) -> "Consolidating":
    """Consolidation; doubtful pairs are shown to the cheap model, unless that is the built-in one, which can't tell."""
    from perdure.compose.weights import weights
    from perdure.indexes.nearness import Nearness
    from perdure.services.consolidating import Consolidating
    from perdure.services.judging import Judging
    from perdure.services.weighing import Weighing

    able = settings.asking > 0 and _can_tell(common)
    judging = Judging(common.calling, common.prices, budget=settings.asking) if able else None
    weighing = Weighing(weights, Nearness, lambda: _reader(settings.reader))
    return Consolidating(memories, judging, weighing=weighing, scheduled=settings.consolidate)


def remembering(
    sessions: "Sessions", consolidating: "Callable[[], Consolidating]", home: "Callable[[], Home]"
) -> "Callable[[int], Awaitable[Remembered]]":
    """What consolidates the spaces that are due; where nobody remembers anything, nothing is made for that."""

    async def see_to(now: int) -> "Remembered":
        failed = dict[str, str]()
        if not await sessions.store.find(Query(tenant=sessions.identity.tenant, tags=(TAG,), limit=1)):
            return {}, failed
        if not await consolidating().due(now, failed):
            return {}, failed
        swept = await home().do(lambda: consolidating().sweep(now))
        return swept.ran, swept.failed

    return see_to


def extracting(memories: "Memories", common: "Callable[[], Common]") -> "Extracting":
    """Extraction, by the cheap model unless that is the built-in one, else by rules."""
    from perdure.services.extracting import Asker, Extracting

    def asker() -> Asker | None:
        shared = common()
        return Asker(calling=shared.calling, prices=shared.prices) if _can_tell(shared) else None

    return Extracting(memories, asker)


def _can_tell(common: "Common") -> bool:
    models = common.calling.models
    upstream = models.upstreams.get(models.cheap.partition("/")[0])
    return bool(models.cheap) and (upstream is None or upstream.kind != "offline")


def embedder_for(settings: MemorySettings, now: "Callable[[], int]") -> "Embedder | None":
    """What makes vectors: patient, where it is asked elsewhere."""
    from perdure.embedders.making import is_elsewhere
    from perdure.services.patience import Patient

    found = embedder_of(settings.embedder, _key(settings))
    return Patient(found, now) if found is not None and is_elsewhere(settings.embedder) else found


@cache
def embedder_of(name: str, key: str = "") -> "Embedder | None":
    """One for all who name it: its weights are large."""
    from perdure.embedders.making import made

    return made(name, key=key)


@cache
def _reader(name: str) -> "Reader | None":
    """One for all, whatever embedder they use; None where what it reads with is not installed, or nobody wants it."""
    from perdure.embedders.encoding import is_installed

    if name == "none" or not is_installed():
        return None
    from perdure.embedders.reader import PairReader

    return PairReader().read


def _index(embedder: "Embedder | None") -> "MemoryIndex":
    from perdure.indexes.ram import RamIndex

    return RamIndex(embedder)
