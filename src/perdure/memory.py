"""What it takes to keep and find memories: for `db.memory(…)` and `perdure.open(…, memory=…)`.

>>> import perdure
>>> with perdure.open(":memory:") as db:
...     ana = db.memory("ana")
...     kept = ana.add("Prefers a window seat on night trains", memory_type="preference", importance=0.8)
...     [found.memory.content for found in ana.search("Which seat does she want?", top_k=1)]
['Prefers a window seat on night trains']
"""

from perdure.compose.memory import MemorySettings
from perdure.core.memory.parts import Memory, MemoryType, Source, Space, Status
from perdure.core.memory.plans import PLANS, Plan
from perdure.core.memory.requests import Keeping
from perdure.core.memory.shelf import Proposal, Run
from perdure.edge.memory import AsyncMemorySpace, MemorySpace
from perdure.edge.recollecting import Imported
from perdure.edge.sourcing import AsyncMemorySource, MemorySource
from perdure.services.grounding import Ground, Grounds
from perdure.services.memories import Scored, Stats
from perdure.services.reembedding import Reembedded
from perdure.services.sharing import KnownSpace, Shared
from perdure.services.sourcing import Touched

__all__ = [
    "PLANS",
    "AsyncMemorySource",
    "AsyncMemorySpace",
    "Ground",
    "Grounds",
    "Imported",
    "Keeping",
    "KnownSpace",
    "Memory",
    "MemorySettings",
    "MemorySource",
    "MemorySpace",
    "MemoryType",
    "Plan",
    "Proposal",
    "Reembedded",
    "Run",
    "Scored",
    "Shared",
    "Source",
    "Space",
    "Stats",
    "Status",
    "Touched",
]
