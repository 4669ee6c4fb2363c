#!/usr/bin/env python3
"""Tensors inside of a graph, asked for by name from scripts: each of a net's, alone and all at once, from the model and from a session,
beside what PyTorch computes for that node. The net is one whose nodes the engine folds and fuses when nobody looks."""
import json
import os
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None
from walle_stack import Stack

ROWS, TOLERANCE = 2, 2e-5
SCRIPT = """import walle
from walle import nn

config = walle.config
model = nn.load("net.onnx")
x = nn.tensor(walle.file("x"), config["shape"])
names = config["names"]
session = nn.Session(model, {"x": config["shape"]}, names)
worst = {}
def compare(name, got):
    want = nn.tensor(walle.file(name.replace("/", "_")))
    assert list(got.shape) == config["shapes"][name], (name, got.shape)
    apart = max(abs(a - b) / (1 + abs(b)) for a, b in zip(got.reshape(-1), want))
    worst[name] = max(apart, worst.get(name, 0))
for name in names:
    compare(name, model.run({"x": x}, [name])[name])
for turn in range(3):
    for found in (model.run({"x": x}, names), session.run({"x": x})):
        for name, got in found.items():
            compare(name, got)
planned = [[p[0], list(p[2])] for p in session.outputs]
walle.result({"worst": worst, "planned": planned})
"""


def net():
    """The nodes (operator, inputs, output, attributes, what PyTorch has for it), and the weights."""
    random = np.random.default_rng(11)

    def weights(*shape):
        return (random.standard_normal(shape) / 3).astype(np.float32)
    kept = {"w1": weights(6, 3, 3, 3), "b1": weights(6), "scale": 1 + weights(6), "shift": weights(6), "mean": weights(6),
            "var": (0.5 + random.random(6)).astype(np.float32), "w2": weights(6, 6, 3, 3), "w3": weights(24, 10), "b3": weights(10),
            "scale4": 1 + weights(10), "shift4": weights(10), "mean4": weights(10), "var4": (0.5 + random.random(10)).astype(np.float32)}

    def normal(x, scale, shift, mean, var):
        return functional.batch_norm(x, mean, var, scale, shift, eps=1e-5)
    pads = {"pads": [1, 1, 1, 1]}
    return [
        ("Conv", "x w1 b1", "block/conv", pads, lambda x, w, b: functional.conv2d(x, w, b, padding=1)),
        ("BatchNormalization", "block/conv scale shift mean var", "block/norm", {}, normal),
        ("Relu", "block/norm", "block/relu", {}, torch.relu),
        ("Conv", "block/relu w2", "second", pads, lambda x, w: functional.conv2d(x, w, padding=1)),
        ("Add", "second block/relu", "sum", {}, torch.add),
        ("Sigmoid", "sum", "gate", {}, torch.sigmoid),
        ("Mul", "sum gate", "swish", {}, torch.mul),
        ("MaxPool", "swish", "pooled", {"kernel_shape": [4, 4], "strides": [4, 4]}, lambda x: functional.max_pool2d(x, 4)),
        ("Flatten", "pooled", "flat", {}, lambda x: x.flatten(1)),
        ("Gemm", "flat w3 b3", "dense", {}, lambda x, w, b: x @ w + b),
        ("BatchNormalization", "dense scale4 shift4 mean4 var4", "dense/norm", {}, normal),
        ("Softmax", "dense/norm", "y", {"axis": 1}, lambda x: torch.softmax(x, 1)),
    ], kept


@unittest.skipIf(torch is None, "PyTorch is not installed")
class InsideAsByTorch(unittest.TestCase):
    def test_every_tensor(self):
        torch.set_num_threads(1)
        nodes, kept = net()
        x = np.random.default_rng(12).standard_normal((ROWS, 3, 8, 8)).astype(np.float32)
        made = {"x": torch.from_numpy(x), **{name: torch.from_numpy(value) for name, value in kept.items()}}
        for _, inputs, output, _, function in nodes:
            made[output] = function(*(made[name] for name in inputs.split()))
        graph = helper.make_graph(
            [helper.make_node(op, inputs.split(), [output], **attributes) for op, inputs, output, attributes, _ in nodes], "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
            [numpy_helper.from_array(value, name) for name, value in kept.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        names = [node[2] for node in nodes]
        with Stack() as stack:
            folder = stack.path("task")
            os.makedirs(folder)
            onnx.save(model, os.path.join(folder, "net.onnx"))
            x.tofile(os.path.join(folder, "x"))
            for name in names:
                made[name].numpy().tofile(os.path.join(folder, name.replace("/", "_")))
            config = {"names": names, "shape": x.shape, "shapes": {name: list(made[name].shape) for name in names}}
            task = {"name": "shop/inside", "version": "1.0.0", "entry": "task", "config": config, "time_ms": 10000, "heap_kib": 1024,
                    "files": ["task.py", "net.onnx", *({"name": name.replace("/", "_"), "kind": "data"} for name in ["x", *names])]}
            for name, text in {"task.json": json.dumps(task), "task.py": SCRIPT}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            run = json.loads(stack.walle("task", "run", folder, "-o", "json").stdout)
        self.assertEqual(run["end"], "finished", run)
        result = run["result"]
        print("at most apart:", max(result["worst"].items(), key=lambda pair: pair[1]), flush=True)
        self.assertEqual(sorted(result["worst"]), sorted(names))
        self.assertLess(max(result["worst"].values()), TOLERANCE)
        self.assertEqual(result["planned"], [[name, list(made[name].shape)] for name in names])


if __name__ == "__main__":
    unittest.main()
