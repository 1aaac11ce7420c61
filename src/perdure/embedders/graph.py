"""A BERT encoder as an ONNX graph with int8 weights, written as protobuf by hand: no package is needed to make it.

The graph takes embedded tokens and how many of each row count, and gives the last hidden states. It is made from the
weights in memory, at every start: that takes a fraction of a second and leaves no file behind that could be old.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

_FLOAT, _UINT8, _INT8, _INT32 = 1, 2, 3, 6
_CONTRIB: Final = "com.microsoft"
_IR, _OPSET = 8, 17
_ALL: Final = (1 << 64) - 1
"""Numbers below zero are written in two's complement."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & _ALL)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, kind: int, array: Any) -> bytes:
    dims = b"".join(_field(1, size) for size in array.shape)
    return dims + _field(2, kind) + _field(8, name) + _field(9, array.tobytes())


def _attribute(name: str, value: float | list[int]) -> bytes:
    if isinstance(value, list):
        return _field(1, name) + b"".join(_field(8, each) for each in value) + _field(20, 7)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _field(20, 1)


def _node(
    op: str, inputs: Iterable[str], outputs: Iterable[str], domain: str = "", **attributes: float | list[int]
) -> bytes:
    body = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs)
    body += _field(4, op) + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
    return body + _field(7, domain)


def _value(name: str, kind: int, dims: Iterable[int | str]) -> bytes:
    shape = b"".join(_field(1, _field(1, dim) if isinstance(dim, int) else _field(2, dim)) for dim in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


class _Graph:
    """Nodes and the constants they use, gathered in order."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        import numpy as np

        self.floats("one", np.array(1))
        self.floats("step", np.array(1 / 127))
        self.floats("shift", np.array(128))
        self.constants.append(_tensor("middle", _UINT8, np.array(128, dtype=np.uint8)))

    def floats(self, name: str, array: Any) -> str:
        import numpy as np

        self.constants.append(_tensor(name, _FLOAT, np.ascontiguousarray(array, dtype=np.float32)))
        return name

    def dense(self, name: str, given: str, weight: Any) -> str:
        """`given` times a weight of outputs × inputs, both in int8: a scale for each output, and one for each token.

        So no text feels which others it is run with; a single scale for all that is run would make it so.
        """
        import numpy as np

        scale = np.maximum(np.abs(weight).max(axis=1), 1e-12) / 127
        quantised = np.rint(weight / scale[:, None]).astype(np.int8).T
        self.constants.append(_tensor(f"{name}.w", _INT8, np.ascontiguousarray(quantised)))
        told = self.tokens(given)
        inputs = [told[0], f"{name}.w", "one", self.floats(f"{name}.s", scale), "middle"]
        self.nodes.append(_node("MatMulIntegerToFloat", inputs, [f"{name}.raw"], _CONTRIB))
        self.nodes.append(_node("Mul", [f"{name}.raw", told[1]], [name]))
        return name

    def tokens(self, given: str) -> tuple[str, str]:
        """What is given in int8 around 128, and the scale of each token."""
        named = {part: f"{given}.{part}" for part in ("size", "most", "scale", "over", "whole", "moved", "q")}
        self.nodes += [
            _node("Abs", [given], [named["size"]]),
            _node("ReduceMax", [named["size"]], [named["most"]], axes=[-1], keepdims=1),
            _node("Mul", [named["most"], "step"], [named["scale"]]),
            _node("Div", [given, named["scale"]], [named["over"]]),
            _node("Round", [named["over"]], [named["whole"]]),
            _node("Add", [named["whole"], "shift"], [named["moved"]]),
            _node("Cast", [named["moved"]], [named["q"]], to=_UINT8),
        ]
        return named["q"], named["scale"]

    def model(self, width: int, result: str) -> bytes:
        graph = b"".join(_field(1, node) for node in self.nodes) + _field(2, "encoder")
        graph += b"".join(_field(5, constant) for constant in self.constants)
        graph += _field(11, _value("tokens", _FLOAT, ["rows", "length", width]))
        graph += _field(11, _value("counts", _INT32, ["rows"]))
        graph += _field(12, _value(result, _FLOAT, ["rows", "length", width]))
        opsets = _field(8, _field(1, "") + _field(2, _OPSET)) + _field(8, _field(1, _CONTRIB) + _field(2, 1))
        return _field(1, _IR) + _field(7, graph) + opsets


def encoder(weights: Mapping[str, Any], *, layers: int, heads: int) -> bytes:
    """The serialised model. Inputs: `tokens` (rows × length × width, before the first norm) and `counts` (rows)."""
    import numpy as np

    graph = _Graph()
    width = int(weights["embeddings.LayerNorm.weight"].shape[0])
    norm = [graph.floats(f"norm.{part}", weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias")]
    graph.nodes.append(_node("LayerNormalization", ["tokens", *norm], ["x0"], axis=-1, epsilon=1e-12))
    hidden = "x0"
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        its = {name.removeprefix(at): weights[name] for name in weights if name.startswith(at)}
        hidden = _layer(graph, f"l{layer}", hidden, its, heads, np)
    return graph.model(width, hidden)


def _layer(graph: _Graph, at: str, hidden: str, its: Mapping[str, Any], heads: int, np: Any) -> str:
    parts = ("query", "key", "value")
    weight = np.concatenate([its[f"attention.self.{part}.weight"] for part in parts])
    bias = np.concatenate([its[f"attention.self.{part}.bias"] for part in parts])
    packed = graph.dense(f"{at}.qkv", hidden, weight)
    biased = graph.floats(f"{at}.qkv.b", bias)
    three = [f"{at}.{part}" for part in parts]
    graph.nodes.append(_node("Split", [packed], three, axis=2))
    graph.nodes.append(
        _node("MultiHeadAttention", [*three, biased, "counts"], [f"{at}.attended"], _CONTRIB, num_heads=heads)
    )
    mixed = graph.dense(f"{at}.mix", f"{at}.attended", its["attention.output.dense.weight"])
    first = _add_norm(graph, f"{at}.first", mixed, hidden, its, "attention.output")
    wide = graph.dense(f"{at}.wide", first, its["intermediate.dense.weight"])
    inner = graph.floats(f"{at}.wide.bias", its["intermediate.dense.bias"])
    graph.nodes.append(_node("BiasGelu", [wide, inner], [f"{at}.gelu"], _CONTRIB))
    narrow = graph.dense(f"{at}.narrow", f"{at}.gelu", its["output.dense.weight"])
    return _add_norm(graph, f"{at}.second", narrow, first, its, "output")


def _add_norm(graph: _Graph, name: str, given: str, skip: str, its: Mapping[str, Any], part: str) -> str:
    parts = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
    inputs = [given, skip, *(graph.floats(f"{name}.{which}", its[f"{part}.{which}"]) for which in parts)]
    graph.nodes.append(_node("SkipLayerNormalization", inputs, [name], _CONTRIB, epsilon=1e-12))
    return name
