"""What it takes to say which models sessions talk to, and what comes of talking: for `perdure.open(…, talk=Talk(…))`.

>>> import perdure
>>> with perdure.open(":memory:") as db:
...     outcome = db.create("Trip").send("Hello")
>>> outcome.status, outcome.text.startswith("You said: “Hello”")
('finished', True)
"""

from perdure.compose.talking import Talk
from perdure.core.talk.children import Child
from perdure.core.talk.parts import Call, Delta, Media, Result, Text, Thought, Tool, Usage
from perdure.core.talk.routes import OFFLINE, Models, Upstream
from perdure.core.talk.templates import Template
from perdure.core.talk.turning import (
    PieceCame,
    ToolRan,
    TurnBegan,
    TurnBroke,
    TurnEnded,
    TurnEvent,
    TurnOutcome,
    Waiting,
)
from perdure.services.desk import TurnSettings
from perdure.tools.mcp_link import HttpServer, StdioServer

__all__ = [
    "OFFLINE",
    "Call",
    "Child",
    "Delta",
    "HttpServer",
    "Media",
    "Models",
    "PieceCame",
    "Result",
    "StdioServer",
    "Talk",
    "Template",
    "Text",
    "Thought",
    "Tool",
    "ToolRan",
    "TurnBegan",
    "TurnBroke",
    "TurnEnded",
    "TurnEvent",
    "TurnOutcome",
    "TurnSettings",
    "Upstream",
    "Usage",
    "Waiting",
]
