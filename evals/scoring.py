"""What a ranking is worth, given which of its ids are evidence: shares and means, nothing else."""

from collections.abc import Collection, Mapping, Sequence

__all__ = ["fitting", "mean", "median", "recall", "reciprocal"]


def recall(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """The share of the evidence among the first `k`."""
    return len(set(found[:k]) & set(evidence)) / len(set(evidence))


def reciprocal(found: Sequence[str], evidence: Collection[str]) -> float:
    """One over the rank of the first evidence, and nothing if there is none."""
    return next((1 / rank for rank, id in enumerate(found, 1) if id in evidence), 0.0)


def fitting(found: Sequence[str], cost: Mapping[str, int], budget: int) -> int:
    """How many of the first fit into the budget together."""
    for at, id in enumerate(found):
        budget -= cost[id]
        if budget < 0:
            return at
    return len(found)


def mean(values: Sequence[float]) -> float:
    """The mean; of nothing it is 0."""
    return sum(values) / len(values) if values else 0.0


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle; of nothing it is 0."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return mean(ordered[half : half + 1] if len(ordered) % 2 else ordered[max(half - 1, 0) : half + 1])
