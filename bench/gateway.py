"""The gateway beside LiteLLM's proxy: what each adds to asking a model, at the same local upstream, in one run.

`make bench-gateway`, or `python -m bench.gateway --litellm ENVIRONMENT [--repetitions 3] [--calls 200]`. One client
process asks, one call after the other for latencies and eight at a time for CPU; contenders take turns. perdure records
every call in a sealed session; LiteLLM keeps nothing. Loopback only; every process it starts it also ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.http import cpu_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import aiohttp

STREAMED = "tokens-50"
AT_ONCE = 8
TURNS = 10_000
TARGETS = {
    "added latency p50, ms": ("≤", 3.0),
    "added latency, of LiteLLM's": ("≤", 0.2),
    "added time to first token p50, ms": ("≤", 3.0),
    "CPU per call, of LiteLLM's": ("≤", 0.25),
    "exact cache hit p50, ms": ("≤", 5.0),
    "semantic cache hit p50, ms": ("≤", 10.0),
    "context of 10,000 turns, ms": ("≤", 5.0),
}


class Place(NamedTuple):
    """Where somebody answers, the headers it wants, and its process."""

    url: str
    headers: dict[str, str]
    pid: int
    keeps: bool = False


@contextmanager
def _process(command: list[str], ready: str, seconds: float = 60.0, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended in the end; ready when something listens where it should."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        host, port = ready.rpartition(":")[::2]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    break
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended before it began")
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def upstream() -> Iterator[Place]:
    """The local provider."""
    port = _free()
    command = [sys.executable, "-m", "upstream", "--port", str(port)]
    with _process(command, f"127.0.0.1:{port}", stdin=subprocess.PIPE) as process:
        yield Place(f"http://127.0.0.1:{port}/v1/chat/completions", {"authorization": "Bearer k"}, process.pid)


@contextmanager
def perdured(folder: Path, up: Place) -> Iterator[Place]:
    """perdure's server in front of it, sealed, with room for any rate."""
    announced, config = folder / "announced.json", folder / "perdure.toml"
    base = up.url.removesuffix("/chat/completions")
    config.write_text(
        f'default_model = "up/echo"\n[upstreams.up]\nkind = "openai-chat"\nbase_url = "{base}"\nkey = "k"\n'
    )
    config.chmod(0o600)
    port = _free()
    rates = ["--rate", "1000000", "--burst", "100000000", "--session-rate", "1000000", "--session-burst", "100000000"]
    command = [sys.executable, "-W", "ignore", "-m", "perdure", "serve", "--store", str(folder / "served.db")]
    command += ["--port", str(port), "--config", str(config), *rates, "--announce", str(announced)]
    with _process(command, f"127.0.0.1:{port}") as process:
        while not announced.exists():
            time.sleep(0.05)
        found = json.loads(announced.read_text())
        headers = {"authorization": f"Bearer {found['key']}"}
        yield Place(f"{found['url']}/v1/chat/completions", headers, process.pid, keeps=True)


@contextmanager
def litellm(environment: Path, folder: Path, up: Place) -> Iterator[Place]:
    """LiteLLM's proxy in front of it."""
    base = up.url.removesuffix("/chat/completions")
    models = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_base": base, "api_key": "k"}}
        for name in ("echo", STREAMED)
    ]
    config = folder / "litellm.yaml"
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": "sk-bench"}}))
    port = _free()
    command = [str(environment / "bin" / "litellm"), "--config", str(config), "--port", str(port), "--num_workers", "1"]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
    with _process(command, f"127.0.0.1:{port}", 180.0, env=os.environ | quiet) as process:
        yield Place(f"http://127.0.0.1:{port}/v1/chat/completions", {"authorization": "Bearer sk-bench"}, process.pid)


# ── asking ──


def _body(model: str, said: str, *, stream: bool = False) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": said}], "stream": stream, "max_tokens": 200}


async def _whole(client: aiohttp.ClientSession, place: Place, said: str, headers: dict[str, str]) -> float:
    """Milliseconds until the whole answer is there."""
    began = time.perf_counter()
    async with client.post(place.url, json=_body("echo", said), headers=place.headers | headers) as answer:
        found = await answer.read()
        if answer.status != 200:
            raise SystemExit(f"{place.url}: {answer.status} {found[:500]!r}")
    return (time.perf_counter() - began) * 1000


async def _first(client: aiohttp.ClientSession, place: Place, said: str, headers: dict[str, str]) -> float:
    """Milliseconds until the first word of a stream is there."""
    began, took = time.perf_counter(), 0.0
    async with client.post(
        place.url, json=_body(STREAMED, said, stream=True), headers=place.headers | headers
    ) as answer:
        async for line in answer.content:
            if not took and b'"content":"' in line.replace(b'"content": "', b'"content":"') and b'""' not in line:
                took = (time.perf_counter() - began) * 1000
    return took


async def _session(client: aiohttp.ClientSession, place: Place) -> dict[str, str]:
    """For perdure, a session in which the next call is recorded; the others keep nothing."""
    if not place.keeps:
        return {}
    base = place.url.removesuffix("/v1/chat/completions")
    async with client.post(f"{base}/v1/sessions", json={}, headers=place.headers) as answer:
        return {"perdure-session": (await answer.json())["session_id"]}


async def latencies(places: dict[str, Place], calls: int) -> dict[str, dict[str, float]]:
    """Medians of each, call by call in turn."""
    import aiohttp

    found: dict[str, dict[str, list[float]]] = {name: {"whole": [], "first": []} for name in places}
    async with aiohttp.ClientSession() as client:
        for number in range(calls):
            for name, place in places.items():
                whole = await _whole(client, place, f"question {number}", await _session(client, place))
                first = await _first(client, place, f"story {number}", await _session(client, place))
                if number >= calls // 10:
                    found[name]["whole"].append(whole)
                    found[name]["first"].append(first)
    return {name: {kind: statistics.median(values) for kind, values in kinds.items()} for name, kinds in found.items()}


async def cpu(place: Place, calls: int) -> float:
    """Milliseconds of CPU for a call, several at a time."""
    import aiohttp

    async with aiohttp.ClientSession() as client:
        share = calls // AT_ONCE
        made = [[await _session(client, place) for _ in range(share + 5)] for _ in range(AT_ONCE)]

        async def some(sessions: list[dict[str, str]]) -> None:
            for session in sessions:
                await _whole(client, place, "work", session)

        await asyncio.gather(*(some(sessions[:5]) for sessions in made))
        before = cpu_of(place.pid)
        await asyncio.gather(*(some(sessions[5:]) for sessions in made))
        return (cpu_of(place.pid) - before) / (share * AT_ONCE) * 1000


async def cached(place: Place, calls: int) -> tuple[float, float]:
    """Milliseconds of a hit in the exact and in the semantic cache, over HTTP."""
    import aiohttp

    base = place.url.removesuffix("/v1/chat/completions")
    async with aiohttp.ClientSession(headers=place.headers) as client:

        async def session() -> str:
            async with client.post(f"{base}/v1/sessions", json={}) as answer:
                return str((await answer.json())["session_id"])

        async def said(id: str, text: str, cache: str) -> tuple[float, str]:
            began = time.perf_counter()
            body = {"content": text, "cache": cache}
            async with client.post(f"{base}/v1/sessions/{id}/messages", json=body) as answer:
                found = await answer.json()
            return (time.perf_counter() - began) * 1000, found["cached"]

        figures = []
        for cache, first, again in (
            ("exact", "What is the capital of Austria?", "What is the capital of Austria?"),
            ("semantic", "How do I reset my password, please?", "How do I reset my password please?"),
        ):
            await said(await session(), first, cache)
            hits = [await said(await session(), again, cache) for _ in range(calls)]
            if any(kind != cache for _, kind in hits):
                raise SystemExit(f"no hit in the {cache} cache: {hits[:3]}")
            figures.append(statistics.median(took for took, _ in hits))
        return figures[0], figures[1]


async def assembling() -> float:
    """Milliseconds to put together the context of a long session, once it is known."""
    import perdure
    from perdure import events
    from perdure.compose import embedded
    from perdure.core.talk.turning import TurnRequest
    from perdure.edge.library import AsyncPerdure

    with tempfile.TemporaryDirectory() as folder:
        services = embedded(Path(folder) / "long.db")
        db = AsyncPerdure(services)
        session = await db.create("long")
        for start in range(0, TURNS, 500):
            batch: list[Any] = []
            for number in range(start, start + 500):
                batch += [
                    events.TurnStarted(role="user", content=f"question {number} about the trip to Vienna"),
                    events.TurnFinished(content=f"answer {number}: take the night train"),
                ]
            await session.append(batch)
        took = []
        for number in range(20):
            await session.append(
                [events.TurnStarted(role="user", content=f"more {number}"), events.TurnFinished(content="yes")]
            )
            began = time.perf_counter()
            await services.talking.context(session.id, TurnRequest(content="And now?"))
            took.append((time.perf_counter() - began) * 1000)
        await db.close()
    del perdure
    return statistics.median(took[1:])


# ── the run ──


def measured(environment: Path | None, repetitions: int, calls: int) -> dict[str, list[float]]:
    """Every figure, once per repetition."""
    found: dict[str, list[float]] = {}
    for number in range(1, repetitions + 1):
        print(f"repetition {number} of {repetitions}", flush=True)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            up = stack.enter_context(upstream())
            places = {"upstream": up, "perdure": stack.enter_context(perdured(folder, up))}
            if environment is not None:
                places["litellm"] = stack.enter_context(litellm(environment, folder, up))
            times = asyncio.run(latencies(places, calls))
            direct, ours = times["upstream"], times["perdure"]
            sample = {
                "upstream alone p50, ms": direct["whole"],
                "added latency p50, ms": ours["whole"] - direct["whole"],
                "added time to first token p50, ms": ours["first"] - direct["first"],
                "CPU per call, ms": asyncio.run(cpu(places["perdure"], calls)),
            }
            if "litellm" in places:
                theirs = times["litellm"]
                sample["LiteLLM's added latency p50, ms"] = theirs["whole"] - direct["whole"]
                sample["LiteLLM's added time to first token p50, ms"] = theirs["first"] - direct["first"]
                sample["LiteLLM's CPU per call, ms"] = asyncio.run(cpu(places["litellm"], calls))
                sample["added latency, of LiteLLM's"] = (
                    sample["added latency p50, ms"] / sample["LiteLLM's added latency p50, ms"]
                )
                sample["CPU per call, of LiteLLM's"] = sample["CPU per call, ms"] / sample["LiteLLM's CPU per call, ms"]
            exact, semantic = asyncio.run(cached(places["perdure"], max(20, calls // 4)))
            sample |= {"exact cache hit p50, ms": exact, "semantic cache hit p50, ms": semantic}
        sample["context of 10,000 turns, ms"] = asyncio.run(assembling())
        for name, value in sample.items():
            found.setdefault(name, []).append(value)
    return found


PROSE = """# Benchmarks of the gateway

Made by `{how}` in one run, {repetitions} repetitions in which the contenders take turns; medians, with the least and
the most. One process each, loopback, the same local upstream. perdure records every call in a sealed session of its
own; LiteLLM keeps nothing. *Added* is what a call takes more than one that goes to the upstream itself. CPU is that of
the server's process, threads included, with eight calls at a time. {machine}

"""


def main() -> None:
    """The way in from a shell."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--litellm", type=Path, help="the environment that has LiteLLM; without it, ours alone")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument(
        "--write-docs", nargs="?", const="docs/BENCHMARKS-GATEWAY.md", metavar="PATH", help="write %(const)s or PATH"
    )
    given = parser.parse_args()
    found = measured(given.litellm, given.repetitions, given.calls)
    table = shown(found, TARGETS)
    print(f"\n{table}")
    if given.write_docs:
        machine = f"{os.cpu_count()} cores."
        words = PROSE.format(how="make bench-gateway", repetitions=given.repetitions, machine=machine)
        Path(given.write_docs).write_text(words + table)


if __name__ == "__main__":
    main()
