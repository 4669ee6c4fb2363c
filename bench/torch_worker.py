#!/usr/bin/env python3
"""Benchmark worker that runs one of the benchmark's ONNX models in PyTorch (torch_worker.py MODEL INPUTS THREADS
[cuda | train [classes=N] [probabilities]]).

The graph is rebuilt operator by operator, traced, frozen and passed through optimize_for_inference: what PyTorch calls
its best for inference on a CPU (its convolutions run in oneDNN). With `train`, a run is one step of SGD on cross-entropy,
as engine_worker.c does it. With `cuda` the module is on the GPU, in float32 without TF32; a run copies the inputs there
and the outputs back, as an engine's caller has to. Protocol: worker_io.h.
"""
import resource
import sys
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

DTYPES = {1: np.float32, 7: np.int64}


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def pads(values):
    half = len(values) // 2
    if list(values[:half]) != list(values[half:]):
        raise ValueError("asymmetric pads")
    return list(values[:half])


class Graph(torch.nn.Module):
    """The ONNX graph as a module: initializers are buffers, shapes are baked in by tracing."""

    def __init__(self, model):
        super().__init__()
        self.graph = model.graph
        self.opset = model.opset_import[0].version
        self.names = {}
        for tensor in model.graph.initializer:
            array = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            self.names[tensor.name] = f"w{len(self.names)}"
            self.register_buffer(self.names[tensor.name], array)
        self.inputs = [i.name for i in model.graph.input]
        self.outputs = [o.name for o in model.graph.output]

    def forward(self, *arguments):
        values = dict(zip(self.inputs, arguments))
        for name, buffer in self.names.items():
            values[name] = getattr(self, buffer)
        for node in self.graph.node:
            made = getattr(self, "op_" + node.op_type.lower())([values[i] for i in node.input], attributes(node), node)
            for name, value in zip(node.output, made if isinstance(made, (list, tuple)) else [made]):
                values[name] = value
        return tuple(values[o] for o in self.outputs)

    def op_conv(self, x, a, _):
        return F.conv2d(x[0], x[1], x[2] if len(x) > 2 else None, a["strides"], pads(a["pads"]),
                        a.get("dilations", [1, 1]), a.get("group", 1))

    def op_batchnormalization(self, x, a, _):
        return F.batch_norm(x[0], x[3], x[4], x[1], x[2], False, 0.0, a.get("epsilon", 1e-5))

    def op_maxpool(self, x, a, _):
        return F.max_pool2d(x[0], a["kernel_shape"], a["strides"], pads(a["pads"]), ceil_mode=bool(a.get("ceil_mode", 0)))

    def op_gemm(self, x, a, _):
        return F.linear(x[0], x[1] if a.get("transB") else x[1].t(), x[2])

    def op_clip(self, x, _a, _n):
        return F.relu6(x[0])

    def op_globalaveragepool(self, x, _a, _n):
        return F.adaptive_avg_pool2d(x[0], 1)

    def op_flatten(self, x, _a, _n):
        return torch.flatten(x[0], 1)

    def op_concat(self, x, a, _):
        return torch.cat(x, a["axis"])

    def op_split(self, x, a, node):
        sizes = x[1].tolist() if len(x) > 1 else x[0].shape[a["axis"]] // len(node.output)
        return torch.split(x[0], sizes, a["axis"])

    def op_reshape(self, x, _a, _n):
        return x[0].reshape(x[1].tolist())

    def op_transpose(self, x, a, _):
        return x[0].permute(a["perm"])

    def op_gather(self, x, a, _):
        return F.embedding(x[1], x[0])

    def op_onehot(self, x, _a, _n):
        return F.one_hot(x[0], int(x[1])).to(x[2].dtype)

    def op_cast(self, x, _a, _n):
        return x[0].float()

    def op_reducemean(self, x, a, _):
        return x[0].mean(a["axes"], keepdim=True)

    def op_softmax(self, x, a, _):
        return torch.softmax(x[0], a["axis"])

    def op_unsqueeze(self, x, a, _):
        for axis in sorted(x[1].tolist() if len(x) > 1 else a["axes"]):
            x[0] = x[0].unsqueeze(axis)
        return x[0]

    def op_squeeze(self, x, a, _):
        for axis in sorted(x[1].tolist() if len(x) > 1 else a["axes"], reverse=True):
            x[0] = x[0].squeeze(axis)
        return x[0]

    def op_expand(self, x, _a, _n):
        shape = torch.broadcast_shapes(x[0].shape, tuple(x[1].tolist()))
        return x[0].expand(shape)


SIMPLE = {"relu": torch.relu, "add": torch.add, "sub": torch.sub, "mul": torch.mul, "matmul": torch.matmul,
          "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
          "pow": torch.pow, "identity": lambda x: x}
for _name, _function in SIMPLE.items():
    setattr(Graph, "op_" + _name, lambda self, x, _a, _n, function=_function: function(*x))


def read_inputs(folder):
    arrays = []
    with open(f"{folder}/inputs.txt", encoding="utf-8") as file:
        for line in file:
            name, dtype, *dims = line.split()
            shape = [int(d) for d in dims[0].split(",")] if dims else []
            arrays.append(torch.from_numpy(np.fromfile(f"{folder}/{name}.bin", DTYPES[int(dtype)]).reshape(shape)))
    return arrays


def resident_kib():
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def serve(module, inputs, load_us):
    print("ready", load_us, flush=True)
    outputs = ()
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            times = []
            for _ in range(int(rest)):
                begin = time.perf_counter_ns()
                outputs = module(*inputs)
                times.append(f"{(time.perf_counter_ns() - begin) / 1000:.2f}")
            print("times", *times, flush=True)
        elif word == "out":
            for index, value in enumerate(outputs):
                value.contiguous().numpy().astype(np.float32).tofile(f"{rest}/{index}.bin")
            print("out", len(outputs), flush=True)
        elif word == "memory":
            print("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resident_kib(), torch.__version__,
                  flush=True)
        elif word == "quit":
            return


def trainer(model_path, inputs, words):
    """A function that does one step on a fixed batch and returns the loss."""
    module = Graph(onnx.load(model_path)).eval()
    statistics = {name for node in module.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
    buffers = [getattr(module, buffer) for name, buffer in module.names.items() if name not in statistics]
    weights = [b.requires_grad_() for b in buffers if b.is_floating_point() and b.dim() > 0]
    optimizer = torch.optim.SGD(weights, lr=0.00005, momentum=0.9)
    classes = next((int(word[8:]) for word in words if word.startswith("classes=")), 1000)
    labels = (torch.arange(inputs[0].shape[0]) * 7 + 3) % classes

    def step(*arguments):
        optimizer.zero_grad(set_to_none=True)
        output = module(*arguments)[0]
        loss = F.nll_loss(output.log(), labels) if "probabilities" in words else F.cross_entropy(output, labels)
        loss.backward()
        optimizer.step()
        return (loss.detach().reshape(1),)
    return step


def on_gpu(model_path, inputs):
    """A function from inputs of the host to outputs there."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    there = [x.cuda() for x in inputs]
    module = torch.jit.trace(Graph(onnx.load(model_path)).eval().cuda(), there, check_trace=False)
    module = torch.jit.freeze(module)
    return lambda *arguments: [y.cpu() for y in module(*[x.cuda() for x in arguments])]


def main():
    model_path, folder, threads = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    inputs = read_inputs(folder)
    if "train" in sys.argv[4:]:
        serve(trainer(model_path, inputs, sys.argv[4:]), inputs, 0)
        return
    begin = time.perf_counter_ns()
    with torch.inference_mode():
        if "cuda" in sys.argv[4:]:
            module = on_gpu(model_path, inputs)
            serve(module, inputs, (time.perf_counter_ns() - begin) // 1000)
            return
        module = torch.jit.trace(Graph(onnx.load(model_path)).eval(), inputs, check_trace=False)
        module = torch.jit.optimize_for_inference(torch.jit.freeze(module))
        serve(module, inputs, (time.perf_counter_ns() - begin) // 1000)


if __name__ == "__main__":
    main()
