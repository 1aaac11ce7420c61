"""The least a server can do with the same request: Starlette, msgspec, nothing kept. `python -m bench.bare PORT`."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.edge.http.api.logs import AppendBody, Appended

DECODER = msgspec.json.Decoder(AppendBody)
ENCODER = msgspec.json.Encoder()


async def append(request: Request) -> Response:
    body = DECODER.decode(await request.body())
    answer = Appended(session_id="0192f0c4-7d1e-7abc-8def-0123456789ab", version=len(body.events))
    return Response(ENCODER.encode(answer), 201, media_type="application/json")


if __name__ == "__main__":
    application = Starlette(routes=[Route("/append", append, methods=["POST"])])
    uvicorn.run(
        application, port=int(sys.argv[1]), http="httptools", loop="uvloop", access_log=False, log_level="error"
    )
