"""Decision trees over named numbers: each asks one question after another, and the answers end at what it adds.

A tree is written from its root: `odds<1.5 rank<0 0.2 -0.1 0.4` adds 0.4 unless odds are at most 1.5, and else 0.2 or
-0.1. A number alone is a tree that asks nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import TypeAlias

Tree: TypeAlias = float | tuple[str, float, "Tree", "Tree"]
"""What it adds; or the number it asks for, and where it goes on if that is at most so much, and where if not."""


def tree_of(written: str) -> Tree:
    """A tree as it is written down."""
    return _read(iter(written.split()))


def _read(parts: Iterator[str]) -> Tree:
    name, asks, most = next(parts).partition("<")
    return (name, float(most), _read(parts), _read(parts)) if asks else float(name)


def written(tree: Tree) -> str:
    """How a tree is written down."""
    if isinstance(tree, float):
        return f"{tree:.4g}"
    name, most, low, high = tree
    return f"{name}<{most:.6g} {written(low)} {written(high)}"


def summed(trees: Iterable[Tree], numbers: Mapping[str, float]) -> float:
    """What trees add up to, for some numbers."""
    ends: list[float] = []
    for tree in trees:  # in one loop, since there are many pairs and hundreds of trees
        while type(tree) is tuple:
            tree = tree[2] if numbers[tree[0]] <= tree[1] else tree[3]
        ends.append(tree)  # type: ignore[arg-type]
    return round(fsum(ends), 6)
