#!/usr/bin/env python3
"""The recurrent model that encodes one item page view: 32 events of 16 numbers in, 32 numbers (128 bytes) out.

    ipv_gru.py FILE.onnx                     writes the model, seeded weights
    ipv_gru.py --check < PAIRS               PAIRS: float32 steps[32][16], encoding[32], again and again; compares each
                                             encoding with the same cell computed here

One GRU layer (reset before the multiplication, as ONNX defines linear_before_reset = 0). Untrained: what is measured is
size and time, not taste.
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

STEPS, WIDTH, HIDDEN, SEED = 32, 16, 32, 26


def weights():
    random = np.random.default_rng(SEED)
    draw = lambda *shape, fan: (random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)  # noqa: E731
    return (draw(3 * HIDDEN, WIDTH, fan=WIDTH), draw(3 * HIDDEN, HIDDEN, fan=HIDDEN), draw(6 * HIDDEN, fan=64))


def write(path):
    import onnx
    from onnx import helper

    from graph_builder import GraphBuilder

    builder = GraphBuilder("ipv_gru", SEED)
    steps = builder.input("steps", [STEPS, 1, WIDTH])
    w, r, b = (builder.weight(array[np.newaxis], name) for array, name in zip(weights(), ("w", "r", "b")))
    builder.nodes.append(helper.make_node("GRU", [steps, w, r, b], ["", "last"], name="gru", hidden_size=HIDDEN))
    builder.output("last", [1, 1, HIDDEN], "encoding")
    onnx.save(builder.model(), path)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def encode(steps):
    """The cell of the ONNX specification in float64; gates in the order update, reset, hidden."""
    w, r, b = (array.astype(np.float64) for array in weights())
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    wbz, wbr, wbh, rbz, rbr, rbh = np.split(b, 6)
    h = np.zeros(HIDDEN)
    for x in steps.astype(np.float64):
        z = sigmoid(wz @ x + wbz + rz @ h + rbz)
        reset = sigmoid(wr @ x + wbr + rr @ h + rbr)
        h = (1 - z) * np.tanh(wh @ x + wbh + rh @ (reset * h) + rbh) + z * h
    return h


def check():
    pairs = np.frombuffer(sys.stdin.buffer.read(), dtype="<f4").reshape(-1, STEPS * WIDTH + HIDDEN)
    worst = max((np.abs(encode(pair[:STEPS * WIDTH].reshape(STEPS, WIDTH)) - pair[STEPS * WIDTH:]).max()
                 for pair in pairs), default=np.inf)
    spread = float(pairs[:, STEPS * WIDTH:].std(axis=0).mean()) if len(pairs) else 0.0
    print(json.dumps({"encodings": len(pairs), "worst": float(worst), "spread": spread}))
    sys.exit(0 if worst < 1e-5 and spread > 0.01 else 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    elif len(sys.argv) == 2:
        write(sys.argv[1])
    else:
        sys.exit(__doc__)
