"""How much is measured: the numbers of a full run and of a quick one."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    """Lengths in turns unless said otherwise."""

    quick: bool
    repetitions: int
    short: int
    """The shorter session: where appends are first measured, and whose size on disk counts."""
    stop: int
    """Appends are measured from `short` to here."""
    late: int
    """… and again from here to `long`."""
    long: int
    slices: int
    """A measured range is cut into so many pieces, between which the contenders take turns."""
    graph_step: int
    """Around this step the graph saver is measured, whose cost grows with each."""
    graph_steps: int
    graph_early: int
    graph_late: int
    """Our own saver is measured around both: its cost must not grow."""
    graph_kept: int
    """Turns whose messages, one at each step, are weighed on disk."""
    graph_each: int
    """Steps of each of the concurrent threads between two looks at the clock."""
    graph_life: int
    """Steps of each of them from its beginning to its end."""
    slow_peer: int
    """Turns for the peer that needs milliseconds for each."""
    sessions: int
    each: int
    """Turns of each of the concurrent sessions."""
    pair: int
    """Turns of each of two processes on one file."""
    tail: int
    listed: int
    """Sessions to list the first page of."""
    items: int
    """Items of the session whose last ones are read."""
    forks: int
    reads: int
    """Samples of each short read per round."""

    def with_repetitions(self, count: int) -> Plan:
        return replace(self, repetitions=count)


FULL = Plan(
    quick=False,
    repetitions=5,
    short=1_000,
    stop=2_000,
    late=9_000,
    long=10_000,
    slices=5,
    graph_step=200,
    graph_steps=20,
    graph_early=100,
    graph_late=1_000,
    graph_kept=250,
    graph_each=5,
    graph_life=200,
    slow_peer=60,
    sessions=64,
    each=40,
    pair=1_000,
    tail=50,
    listed=10_000,
    items=10_000,
    forks=1_000,
    reads=7,
)

QUICK = Plan(
    quick=True,
    repetitions=2,
    short=300,
    stop=700,
    late=1_600,
    long=2_000,
    slices=2,
    graph_step=200,
    graph_steps=8,
    graph_early=100,
    graph_late=400,
    graph_kept=50,
    graph_each=3,
    graph_life=60,
    slow_peer=20,
    sessions=64,
    each=8,
    pair=300,
    tail=50,
    listed=1_000,
    items=4_000,
    forks=200,
    reads=5,
)
