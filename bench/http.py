"""The server against the library: appends over HTTP beside embedded ones, beside a server that keeps nothing; surfaces.

`python -m bench.http [--repetitions 3] [--seconds 5]`. Contenders take turns, so that a busy machine slows all of them;
figures are ratios and CPU times. Loopback only; every process it starts it also ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.load import CONTENT

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTIONS = 64
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_of(pid: int) -> int:
    """Bytes a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server over a sealed store with room for any rate: its address, a key, its process."""
    announced = folder / "announced.json"
    store = folder / "served.db"
    rates = ["--rate", "1000000", "--burst", "100000000", "--session-rate", "1000000", "--session-burst", "100000000"]
    command = [sys.executable, "-W", "ignore", "-m", "perdure", "serve", "--store", str(store), "--port", "0"]
    process = subprocess.Popen(
        [*command, *rates, "--announce", str(announced)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        for _ in range(600):
            if announced.exists():
                break
            if process.poll() is not None:
                raise SystemExit((process.stderr.read() if process.stderr else b"").decode())
            time.sleep(0.05)
        found = json.loads(announced.read_text())
        yield found["url"], found["key"], process.pid
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def bare() -> Iterator[tuple[str, str, int]]:
    """The least server."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.bare", str(port)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", "-", process.pid
    finally:
        process.terminate()
        process.wait(30)


def loaded(url: str, key: str, pid: int, seconds: float) -> tuple[float, float]:
    """Requests per second, and microseconds of the server's CPU for each."""
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.load", url, key, str(CONNECTIONS), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    if load.stdout is None:
        raise SystemExit("no output from the load")
    used = 0.0
    for line in load.stdout:
        if line.startswith("begin"):
            used = cpu_of(pid)
        elif line.startswith("end"):
            used = cpu_of(pid) - used
        else:
            found = json.loads(line)
    load.wait()
    if found["odd"]:
        raise SystemExit(f"{found['odd']} requests were not answered as wanted")
    return found["rate"], used / (found["rate"] * seconds) * 1e6


async def embedded(folder: Path, seconds: float) -> tuple[float, float]:
    """Appends per second of 64 tasks, each with its session, and microseconds of CPU for each."""
    import perdure
    from perdure import events

    said = [events.Message(role=role, content=CONTENT) for role in ("user", "assistant")]
    async with perdure.aopen(folder / "embedded.db") as db:
        sessions = [await db.create() for _ in range(CONNECTIONS)]
        done, count = False, 0

        async def work(session: Any) -> None:
            nonlocal count
            while not done:
                await session.append(said)
                count += 1

        tasks = [asyncio.create_task(work(session)) for session in sessions]
        await asyncio.sleep(seconds / 4)
        before, used, began = count, time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        made, used, took = count - before, time.process_time() - used, time.perf_counter() - began
        done = True
        await asyncio.gather(*tasks)
    return made / took, used / made * 1e6


def imported() -> float:
    """Seconds of CPU to import what a server needs."""
    code = "import perdure.edge.http.building, perdure.edge.http.serving, uvicorn, uvloop, httptools"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def appends(repetitions: int, seconds: float) -> dict[str, list[float]]:
    """Every figure of appending, once per repetition."""
    found: dict[str, list[float]] = {}
    for number in range(1, repetitions + 1):
        print(f"repetition {number} of {repetitions}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            import uvloop

            rate, cpu = uvloop.run(embedded(Path(folder), seconds))
            with server(Path(folder)) as place:
                http_rate, http_cpu = loaded(*place, seconds)
            with bare() as place:
                bare_rate, bare_cpu = loaded(*place, seconds)
        sample = {
            "embedded appends/s": rate,
            "embedded CPU µs": cpu,
            "HTTP appends/s": http_rate,
            "HTTP CPU µs": http_cpu,
            "bare requests/s": bare_rate,
            "bare CPU µs": bare_cpu,
            "HTTP of embedded, rate": http_rate / rate,
            "CPU above bare and embedded, µs": http_cpu - bare_cpu - cpu,
            "server import, CPU s": imported(),
        }
        for name, value in sample.items():
            found.setdefault(name, []).append(value)
    return found


TARGETS = {
    "HTTP of embedded, rate": ("≥", 0.35),
    "CPU above bare and embedded, µs": ("≤", 150),
    "server import, CPU s": ("≤", 0.6),
    "deliveries/s": ("≥", 20_000),
    "kB of memory per surface": ("≤", 150),
}


PROSE = """# Benchmarks of the server

Made by `python -m bench.http{how}` in one run, {repetitions} repetitions in which the contenders
take turns; medians, with the least and the most. One server process, a sealed store, loopback; the load is a process
of its own.

- *embedded*: 64 tasks of one process append two messages each time, each to a session of its own.
- *HTTP*: the same appends by 64 connections, each to a session of its own, with a key, decided and counted like any
  request.
- *bare*: Starlette and msgspec take the same body, check it and keep nothing.
- *surfaces*: {surfaces} server-sent streams on one session that is appended to {appends} times; each is checked to have
  been told all.

CPU is that of the server's process, threads included. {machine}

"""


def shown(found: dict[str, list[float]], targets: dict[str, tuple[str, float]] = TARGETS) -> str:
    """The figures, their scatter, and whether they are met."""
    lines = ["| figure | median | scatter | wanted | |", "|---|---|---|---|---|"]
    for name, values in found.items():
        middle = statistics.median(values)
        sign, bound = targets.get(name, ("", 0.0))
        met = "" if not sign else "PASS" if (middle >= bound if sign == "≥" else middle <= bound) else "FAIL"
        wanted = f"{sign} {bound:,g}" if sign else ""
        lines.append(
            f"| {name} | {_spelled(middle)} | {_spelled(min(values))}–{_spelled(max(values))} | {wanted} | {met} |"
        )
    return "\n".join(lines) + "\n"


def _spelled(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", choices=("appends", "surfaces"))
    parser.add_argument(
        "--write-docs", nargs="?", const="docs/BENCHMARKS-SERVER.md", metavar="PATH", help="write %(const)s or PATH"
    )
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    if given.only != "surfaces":
        found |= appends(given.repetitions, given.seconds)
    if given.only != "appends":
        from bench.surfaces import surfaces

        found |= surfaces(given.repetitions)
    table = shown(found)
    print(f"\n{table}")
    if given.write_docs:
        how = f" --repetitions {given.repetitions} --seconds {given.seconds:g}"
        words = PROSE.format(
            how=how, repetitions=given.repetitions, surfaces=1000, appends=200, machine=f"{os.cpu_count()} cores."
        )
        Path(given.write_docs).write_text(words + table)


if __name__ == "__main__":
    main()
