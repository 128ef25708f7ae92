"""Writes the benchmark network as an ONNX file, without the onnx package: protocol buffers are simple enough.

Weights are random; scores do not matter here. int8 is dynamic quantisation as ONNX Runtime's own tool makes it: weights
per output in signed 8 bits, activations in unsigned 8 bits with a scale per batch.
"""

import numpy as np


def _varint(value):
    out = b""
    while True:
        low = value & 127
        value >>= 7
        out += bytes([low | (128 if value else 0)])
        if not value:
            return out


def _bytes(number, payload):
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _text(number, text):
    return _bytes(number, text.encode())


def _int(number, value):
    return _varint(number << 3) + _varint(value)


_TYPES = {np.dtype("float32"): 1, np.dtype("uint8"): 2, np.dtype("int8"): 3}


def _tensor(name, array):
    dims = b"".join(_int(1, d) for d in array.shape)
    return dims + _int(2, _TYPES[array.dtype]) + _text(8, name) + _bytes(9, array.tobytes())


def _attribute(name, value):
    return _text(1, name) + _int(3, value) + _int(20, 2)


def _node(op, inputs, outputs, attributes=()):
    names = b"".join(_text(1, i) for i in inputs) + b"".join(_text(2, o) for o in outputs)
    return names + _text(4, op) + b"".join(_bytes(5, a) for a in attributes)


def _value(name, dims):
    shape = b"".join(_bytes(1, _int(1, d) if isinstance(d, int) else _text(2, d)) for d in dims)
    return _text(1, name) + _bytes(2, _bytes(1, _int(1, 1) + _bytes(2, shape)))


def _affine(layer, x, weight, precision):
    """Nodes and constants of y = x·W + 0; W [inputs, outputs]."""
    out = f"z{layer}"
    bias = _tensor(f"b{layer}", np.zeros(weight.shape[1], "float32"))
    if precision == "fp32":
        return [_node("Gemm", [x, f"w{layer}", f"b{layer}"], [out])], [_tensor(f"w{layer}", weight), bias], out
    scale = (np.abs(weight).max(axis=0) / 127).astype("float32")
    constants = [
        _tensor(f"w{layer}", np.round(weight / scale).astype("int8")),
        _tensor(f"s{layer}", scale),
        _tensor(f"p{layer}", np.zeros(weight.shape[1], "int8")),
        bias,
    ]
    n = layer
    nodes = [
        _node("DynamicQuantizeLinear", [x], [f"q{n}", f"qs{n}", f"qz{n}"]),
        _node("MatMulInteger", [f"q{n}", f"w{n}", f"qz{n}", f"p{n}"], [f"a{n}"]),
        _node("Cast", [f"a{n}"], [f"f{n}"], [_attribute("to", 1)]),
        _node("Mul", [f"qs{n}", f"s{n}"], [f"ss{n}"]),
        _node("Mul", [f"f{n}", f"ss{n}"], [f"m{n}"]),
        _node("Add", [f"m{n}", f"b{n}"], [out]),
    ]
    return nodes, constants, out


def network(dims, precision, activation="Sigmoid", seed=0):
    """The bytes of the model file: affine layers, activation between them, log-softmax at the end."""
    rng = np.random.default_rng(seed)
    nodes, constants, x = [], [], "x"
    for layer, (inputs, outputs) in enumerate(zip(dims, dims[1:])):
        weight = (rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype("float32")
        new_nodes, new_constants, z = _affine(layer, x, weight, precision)
        nodes += new_nodes
        constants += new_constants
        last = layer == len(dims) - 2
        x = "y" if last else f"h{layer}"
        nodes.append(_node("LogSoftmax", [z], [x], [_attribute("axis", 1)]) if last else _node(activation, [z], [x]))
    graph = b"".join(_bytes(1, n) for n in nodes) + _text(2, "network") + b"".join(_bytes(5, c) for c in constants)
    graph += _bytes(11, _value("x", ["frames", dims[0]])) + _bytes(12, _value("y", ["frames", dims[-1]]))
    return _int(1, 8) + _bytes(8, _text(1, "") + _int(2, 17)) + _bytes(7, graph)
