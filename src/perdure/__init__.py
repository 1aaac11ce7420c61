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

from perdure import events
from perdure.core import errors
from perdure.core.errors import CallerError, ConflictError, PerdureError, WorldError
from perdure.core.session.checkpoints import Adaptive, CheckpointPolicy
from perdure.core.session.declared import Declared, declare
from perdure.core.session.origin import Config
from perdure.core.session.schema import Migrations
from perdure.edge.blocking import Perdure, Session, open
from perdure.edge.library import AsyncPerdure, aopen
from perdure.edge.session import AsyncSession
from perdure.services.loading import SnapshotPolicy

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
    "Session",
    "SnapshotPolicy",
    "WorldError",
    "__version__",
    "aopen",
    "declare",
    "errors",
    "events",
    "open",
]
