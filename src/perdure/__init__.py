"""perdure: durable sessions for AI agents, in one file.

>>> import perdure
>>> from perdure import events
>>> with perdure.open(":memory:") as db:
...     session = db.create("Lisbon trip", owner="ana")
...     with session.turn("Find me a flight") as turn:
...         version = turn.answer("Which day?")
...     [message.content for turn in session.turns() for message in turn.messages]
['Find me a flight', 'Which day?']
"""

from typing import TYPE_CHECKING, Any

from perdure.core import errors
from perdure.core.errors import CallerError, ConflictError, PerdureError, WorldError

if TYPE_CHECKING:
    from perdure import events
    from perdure.core.session.checkpoints import Adaptive, CheckpointPolicy
    from perdure.core.session.declared import Declared, declare
    from perdure.core.session.origin import Config
    from perdure.core.session.schema import Migrations
    from perdure.core.session.values import Ref
    from perdure.core.session.waking import WakePolicy
    from perdure.edge.blocking import Perdure, Session, open
    from perdure.edge.client.connecting import aconnect, connect
    from perdure.edge.keeping import arestore, restore
    from perdure.edge.library import AsyncPerdure, aopen
    from perdure.edge.session import AsyncSession
    from perdure.services.loading import SnapshotPolicy
    from perdure.steady import unbroken
    from perdure.waiting import drive

__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "AsyncPerdure",
    "AsyncSession",
    "CallerError",
    "CheckpointPolicy",
    "Config",
    "ConflictError",
    "Declared",
    "Migrations",
    "Perdure",
    "PerdureError",
    "Ref",
    "Session",
    "SnapshotPolicy",
    "WakePolicy",
    "WorldError",
    "__version__",
    "aconnect",
    "aopen",
    "arestore",
    "connect",
    "declare",
    "drive",
    "errors",
    "events",
    "open",
    "restore",
    "unbroken",
]

_HOMES = {
    "Adaptive": "core.session.checkpoints",
    "AsyncPerdure": "edge.library",
    "AsyncSession": "edge.session",
    "CheckpointPolicy": "core.session.checkpoints",
    "Config": "core.session.origin",
    "Declared": "core.session.declared",
    "Migrations": "core.session.schema",
    "Perdure": "edge.blocking",
    "Ref": "core.session.values",
    "Session": "edge.blocking",
    "SnapshotPolicy": "services.loading",
    "WakePolicy": "core.session.waking",
    "aconnect": "edge.client.connecting",
    "aopen": "edge.library",
    "arestore": "edge.keeping",
    "connect": "edge.client.connecting",
    "declare": "core.session.declared",
    "drive": "waiting",
    "events": "events",
    "open": "edge.blocking",
    "restore": "edge.keeping",
    "unbroken": "steady",
}


def __getattr__(name: str) -> Any:
    """Names are loaded when they are first asked for: whoever needs one pays for no other."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"perdure.{home}")
    found = module if home == name else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
