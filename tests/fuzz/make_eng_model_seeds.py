#!/usr/bin/python3
"""Writes the seeds of fuzz_eng_model, fuzz_eng_lower and fuzz_eng_tensor: tiny models that between them use every
part of the format, and one tensor file of each kind.

    make_eng_model_seeds.py [FOLDER]      default: the folder seeds beside this file
"""
import io
import os
import sys

import numpy
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = numpy.random.RandomState(1)


def value(name, dims, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, dims)


def weights(name, *dims):
    return numpy_helper.from_array(RNG.rand(*dims).astype(numpy.float32), name)


def ints(name, *numbers):
    return numpy_helper.from_array(numpy.array(numbers, dtype=numpy.int64), name)


def typed(name, dtype, dims, numbers):
    return helper.make_tensor(name, dtype, dims, numbers)


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "g", inputs, outputs, initializers)


def conv():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["a", "s", "s", "s", "s"], ["b"], epsilon=0.01),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "m", "s"], ["y"], transB=1),
    ]
    return graph(nodes, [value("x", ["n", 2, 6, 6])], [value("y", ["n", 4])],
                 [weights("w", 4, 2, 3, 3), weights("s", 4), weights("m", 4, 4)]), 13


def shapes():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("Transpose", ["r"], ["u"], perm=[2, 0, 1]),
        helper.make_node("Slice", ["u", "zero", "rest", "zero"], ["v"]),
        helper.make_node("Split", ["u"], ["y", "z"], axis=0),
    ]
    return graph(nodes, [value("x", ["n", 4, 3])], [value("y", None), value("z", None)],
                 [ints("zero", 0), ints("rest", 3, 4)]), 13


def attention():
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["a"]),
        helper.make_node("Div", ["a", "scale"], ["b"]),
        helper.make_node("Softmax", ["b"], ["c"], axis=-1),
        helper.make_node("MatMul", ["c", "v"], ["d"]),
        helper.make_node("ReduceMean", ["d"], ["m"], axes=[-1]),
        helper.make_node("Sub", ["d", "m"], ["e"]),
        helper.make_node("Pow", ["e", "two"], ["f"]),
        helper.make_node("Erf", ["f"], ["y"]),
    ]
    return graph(nodes, [value("q", [1, 2, 3, 4]), value("k", [1, 2, 4, 3]), value("v", [1, 2, 3, 4])],
                 [value("y", None)], [typed("scale", F32, [], [2.0]), typed("two", F32, [], [2.0])]), 12


def branch():
    then = graph([helper.make_node("Add", ["x", "x"], ["t"])], [], [value("t", [2])])
    other = graph([helper.make_node("Constant", [], ["o"], value=weights("", 2))], [], [value("o", [2])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    return graph([node], [value("c", [], BOOL), value("x", [2])], [value("y", [2])]), 11


def loop():
    body = graph([helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Identity", ["p"], ["q"])],
                 [value("i", [], I64), value("p", [], BOOL), value("v", [2])],
                 [value("q", [], BOOL), value("w", [2])])
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    return graph([node], [value("x", [2])], [value("y", [2])], [typed("count", I64, [], [3])]), 11


def types():
    nodes = [
        helper.make_node("Cast", ["h"], ["a"], to=F32),
        helper.make_node("Cast", ["b"], ["c"], to=F32),
        helper.make_node("Add", ["a", "c"], ["d"]),
        helper.make_node("Constant", [], ["e"], value_floats=[1.0, 2.0]),
        helper.make_node("SequenceConstruct", ["d", "e"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    return graph(nodes, [], [value("y", None)],
                 [typed("h", TensorProto.FLOAT16, [2], [1.0, 2.0]), typed("b", BOOL, [2], [1, 0]),
                  typed("unused", TensorProto.STRING, [1], [b"text"]),
                  typed("double", TensorProto.DOUBLE, [1], [1.5])]), 15


def moves():
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["a"]),
        helper.make_node("Tile", ["a", "t"], ["b"]),
        helper.make_node("Expand", ["b", "e"], ["c"]),
        helper.make_node("Unsqueeze", ["c", "u"], ["d"]),
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=-1),
        helper.make_node("OneHot", ["places", "k", "v"], ["h"]),
        helper.make_node("Resize", ["d", "", "scales"], ["y"], mode="nearest"),
    ]
    return graph(nodes, [value("x", [2, 3])], [value("y", None), value("h", None)],
                 [ints("p", 0, 1, 0, 1), ints("t", 1, 2), ints("e", 3, 1, 1), ints("u", 0), ints("k", 2),
                  typed("v", F32, [2], [0.0, 1.0]), typed("scales", F32, [4], [1.0, 1.0, 2.0, 2.0])]), 13


def recurrent():
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=2)
    return graph([node], [value("x", [3, 1, 2])], [value("y", None)],
                 [weights("w", 1, 8, 2), weights("r", 1, 8, 2)]), 14


def newer():
    nodes = [
        helper.make_node("GroupNormalization", ["x", "four", "four"], ["a"], num_groups=2),
        helper.make_node("Pad", ["a", "pads", "", "last"], ["b"], mode="wrap"),
        helper.make_node("Resize", ["b", "", "", "sizes"], ["c"], mode="linear", antialias=1, axes=[-1],
                         keep_aspect_ratio_policy="not_larger"),
        helper.make_node("Gelu", ["c"], ["d"], approximate="tanh"),
        helper.make_node("Split", ["d"], ["y", "e"], axis=1, num_outputs=2),
        helper.make_node("ReduceMax", ["e", "last"], ["f"]),
        helper.make_node("Mish", ["f"], ["z"]),
        helper.make_node("Col2Im", ["x", "image", "block"], ["image_of_x"], pads=[0, 1, 0, 1]),
        helper.make_node("DequantizeLinear", ["q", "scales"], ["r"], axis=1, block_size=2),
        helper.make_node("StringSplit", ["text"], ["words", "counts"], maxsplit=2),
        helper.make_node("CenterCropPad", ["r", "block"], ["s"], axes=[0, 1]),
    ]
    outputs = [value(name, None) for name in ("y", "z", "image_of_x", "s")]
    return graph(nodes, [value("x", [1, 4, 6])], outputs + [value("words", None, TensorProto.STRING)],
                 [typed("four", F32, [4], [1.0, 2.0, 3.0, 4.0]), ints("pads", 2, 9), ints("last", -1), ints("sizes", 5), ints("image", 3, 2),
                  ints("block", 2, 2), typed("q", TensorProto.INT16, [2, 3], [1, 2, 3, 4, 5, 6]),
                  typed("scales", F32, [2, 2], [0.5, 1.0, 1.5, 2.0]), typed("text", TensorProto.STRING, [2], [b"a b c d", b""])]), 21


def models():
    for make in (conv, shapes, attention, branch, loop, types, moves, recurrent, newer):
        made, opset = make()
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = {conv: 3, newer: 10}.get(make, 8)
        yield make.__name__ + ".onnx", model.SerializeToString()


def tensors():
    """The first byte says how the fuzz target reads the rest."""
    array = RNG.rand(2, 3).astype(numpy.float32)
    tensor = numpy_helper.from_array(array, "t")
    npy, npz = io.BytesIO(), io.BytesIO()
    numpy.save(npy, array)
    numpy.savez(npz, a=array, b=numpy.array([True, False]))
    yield "npy", b"\0" + npy.getvalue()
    yield "npz", b"\1" + npz.getvalue()
    yield "tensor", b"\2" + tensor.SerializeToString()
    yield "typed", b"\2" + typed("i", I64, [3], [1, -2, 3]).SerializeToString()
    yield "text", b"\2" + typed("s", TensorProto.STRING, [2], [b"one", b""]).SerializeToString()
    yield "sequence", b"\3" + numpy_helper.from_list([array, array]).SerializeToString()
    yield "optional", b"\4" + numpy_helper.from_optional(array).SerializeToString()


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")
    folder = sys.argv[1] if len(sys.argv) > 1 else here
    for target, seeds in (("fuzz_eng_model", models()), ("fuzz_eng_lower", models()), ("fuzz_eng_tensor", tensors())):
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        for name, content in seeds:
            with open(os.path.join(folder, target, name), "wb") as file:
                file.write(content)


main()
