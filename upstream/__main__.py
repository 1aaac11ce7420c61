"""`python -m upstream --port 0`: prints the port it listens on, and serves until its standard input is closed."""

import argparse
import asyncio
import sys

from upstream.server import serving


async def serve(port: int, key: str) -> None:
    """Serve until there is nothing more to read from standard input."""
    async with serving(key=key, port=port) as server:
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; 0 is any that is free")
    parser.add_argument("--key", default="", help="answer only to who has this key")
    given = parser.parse_args()
    try:
        import uvloop

        runner = uvloop.run
    except ImportError:
        runner = asyncio.run
    runner(serve(given.port, given.key))


if __name__ == "__main__":
    main()
