"""Models of opsets 18 to 22 and IR up to 10: every form that came with them against numpy, and what is refused.

Each case is a folder as the ONNX project has them (model and tensors), so that one run of `walle-engine check
--onnx-cases` computes all of them; the expected results are numpy's. Refused cases must say why, and name the node."""
import itertools
import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from walle_stack import program

SEED = 20261123
F = np.float32
ERF = np.vectorize(math.erf)
rng = np.random.default_rng(SEED)


def real(*shape):
    return rng.standard_normal(shape).astype(F)


def ints(*values):
    return np.array(values, dtype=np.int64)


def text(*values):
    return np.array(values, dtype=object)


class Case:
    """One node: inputs by position (None: left out, a number of dtype int64 becomes an initializer by `const`)."""

    def __init__(self, name, op, opset, inputs, outputs, consts=(), ir=10, types=None, domain="", **attrs):
        self.name, self.outputs = name, outputs
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        self.inputs = [(n, v) for i, (n, v) in enumerate(zip(names, inputs)) if v is not None and i not in consts]
        results = [f"y{i}" for i in range(len(outputs))]
        node = helper.make_node(op, names, results, name="the_node", domain=domain, **attrs)
        kinds = types or [numpy_helper.from_array(v).data_type for v in outputs]
        graph = helper.make_graph(
            [node], name,
            [helper.make_tensor_value_info(n, numpy_helper.from_array(v).data_type, v.shape) for n, v in self.inputs],
            [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(results, kinds)],
            [numpy_helper.from_array(inputs[i], names[i]) for i in consts])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
        self.model.ir_version = ir

    def write(self, folder):
        data = os.path.join(folder, f"test_{self.name}", "test_data_set_0")
        os.makedirs(data)
        save(self.model, os.path.join(folder, f"test_{self.name}", "model.onnx"))
        for kind, arrays in (("input", [v for _, v in self.inputs]), ("output", self.outputs)):
            for i, array in enumerate(arrays):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(array).SerializeToString())


# --- oracles

def wrapped(x, axis, before, after):
    return x.take(np.arange(-before, x.shape[axis] + after) % x.shape[axis], axis)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def group_norm(x, groups, scale, bias, per_group):
    parts = x.reshape(x.shape[0], groups, -1).astype(np.float64)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
    if per_group:
        scale, bias = np.repeat(scale, x.shape[1] // groups), np.repeat(bias, x.shape[1] // groups)
    tail = (1, -1) + (1,) * (x.ndim - 2)
    return (normal.reshape(x.shape) * scale.reshape(tail) + bias.reshape(tail)).astype(F)


def triangle(x, out, scale):
    """One row made smaller: weights fall linearly over 1 / scale elements to either side; edges repeat."""
    rows = []
    for i in range(out):
        at = (i + 0.5) / scale - 0.5
        places = np.arange(math.floor(at - 1 / scale) - 1, math.ceil(at + 1 / scale) + 2)
        weights = np.maximum(0, 1 - np.abs(places - at) * scale)
        rows.append((x[np.clip(places, 0, len(x) - 1)] * weights).sum() / weights.sum())
    return np.array(rows)


def linear_at(x, at):
    """One row at real positions, edges repeated."""
    low = np.floor(at).astype(int)
    part = at - low
    return x[np.clip(low, 0, len(x) - 1)] * (1 - part) + x[np.clip(low + 1, 0, len(x) - 1)] * part


def pixels_linear(image, at):
    """image [C, s...] between its pixels, zeros outside; any number of dims."""
    total = np.zeros(image.shape[0])
    for corner in itertools.product((0, 1), repeat=len(at)):
        place = [math.floor(a) + c for a, c in zip(at, corner)]
        if all(0 <= p < d for p, d in zip(place, image.shape[1:])):
            total += math.prod(1 - abs(a - p) for a, p in zip(at, place)) * image[(slice(None),) + tuple(place)]
    return total


def grid_linear(x, grid):
    """x [N, C, s...], grid [N, t..., D] (x first), zeros outside, corners not aligned; any number of dims."""
    out = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for index in np.ndindex(*grid.shape[:-1]):
        at = [((c + 1) * d - 1) / 2 for c, d in zip(grid[index][::-1], x.shape[2:])]
        out[(index[0], slice(None)) + index[1:]] = pixels_linear(x[index[0]], at)
    return out.astype(F)


def deform_conv(x, w, offset, mask, group, offset_group, strides, dilations, pads):
    """x [N, C, s...], w [M, C / group, k...], offset [N, offset groups * k * dims, t...]; pads are those before."""
    dims, kernel, out_dims = len(strides), w.shape[2:], offset.shape[2:]
    shifts = offset.reshape(len(x), offset_group, *kernel, dims, *out_dims)
    shares = mask.reshape(len(x), offset_group, *kernel, *out_dims)
    read = np.zeros((len(x), offset_group, x.shape[1] // offset_group, *kernel, *out_dims))
    for index in np.ndindex(len(x), offset_group, *kernel, *out_dims):
        n, g, tap, place = index[0], index[1], index[2:2 + dims], index[2 + dims:]
        shift = shifts[(n, g) + tap + (slice(None),) + place].astype(np.float64)
        at = [p * s + t * d - b + o for p, s, t, d, b, o in zip(place, strides, tap, dilations, pads, shift)]
        channels = x[n].reshape(offset_group, -1, *x.shape[2:])[g]
        read[(n, g, slice(None)) + tap + place] = pixels_linear(channels, at) * shares[index]
    read = read.reshape(len(x), group, -1, math.prod(out_dims))
    parts = w.reshape(group, len(w) // group, -1)
    return np.einsum("gmk,ngkp->ngmp", parts, read).reshape(len(x), len(w), *out_dims)


def col2im(x, image, block, stride, dilation, pad):
    out = np.zeros((x.shape[0], x.shape[1] // math.prod(block)) + tuple(i + 2 * pad for i in image))
    places = [range(0, s - (b - 1) * dilation, stride) for s, b in zip(out.shape[2:], block)]
    columns = x.reshape(x.shape[0], out.shape[1], *block, -1)
    for column, (top, left) in enumerate(itertools.product(*places)):
        for i, j in np.ndindex(*block):
            out[:, :, top + i * dilation, left + j * dilation] += columns[:, :, i, j, column]
    return out[:, :, pad:out.shape[2] - pad, pad:out.shape[3] - pad].astype(F)


def pool(x, kernel, stride, dilation, out, reduce):
    """Windows of a row [N, C, W] that may reach past its end: `reduce` gets what is inside."""
    rows = [reduce(x[:, :, [p for p in range(i * stride, i * stride + kernel * dilation, dilation) if p < x.shape[2]]])
            for i in range(out)]
    return np.stack(rows, 2).astype(F)


# --- what came with opsets 18 to 22

def moves():
    x = real(2, 7, 5)
    yield Case("split_uneven", "Split", 18, [x], list(np.split(x, [3, 6], 1)), axis=1, num_outputs=3)
    yield Case("split_even", "Split", 22, [x], [x], axis=2, num_outputs=1)
    yield Case("split_sizes", "Split", 18, [x, ints(1, 4)], list(np.split(x, [1], 2)), consts=[1], axis=-1)
    for mode in ("constant", "reflect", "edge"):
        yield Case(f"pad_axes_{mode}", "Pad", 18, [x, ints(1, 2, 0, 3), None, ints(-1, 1)],
                   [np.pad(x, ((0, 0), (2, 3), (1, 0)), mode)], consts=[1, 3], mode=mode)
    yield Case("pad_wrap", "Pad", 19, [x, ints(0, 9, 1, 0, 8, 6)], [wrapped(wrapped(x, 1, 9, 8), 2, 1, 6)],
               consts=[1], mode="wrap")
    yield Case("pad_wrap_axes", "Pad", 21, [x, ints(3, 12), None, ints(-1)],
               [wrapped(x, 2, 3, 12)], consts=[1, 3], mode="wrap")
    yield Case("center_crop_pad", "CenterCropPad", 18, [x, ints(4, 8)],
               [np.pad(x[:, 1:5], ((0, 0), (0, 0), (1, 2)))], consts=[1], axes=[1, -1])
    yield Case("center_crop", "CenterCropPad", 18, [x, ints(1, 2, 5)], [x[:1, 2:4]], consts=[1])
    columns = real(2, 12, 9)
    yield Case("col2im", "Col2Im", 18, [columns, ints(4, 5), ints(2, 3)], [col2im(columns, (4, 5), (2, 3), 1, 1, 0)],
               consts=[1, 2])
    spaced = real(1, 12, 9)
    yield Case("col2im_all", "Col2Im", 18, [spaced, ints(5, 6), ints(2, 2)], [col2im(spaced, (5, 6), (2, 2), 2, 2, 1)],
               consts=[1, 2], strides=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])
    data, at, new = real(4, 3), ints(1, 1, 3).reshape(1, 3), real(1, 3) * 3
    for name, fn in (("max", np.maximum), ("min", np.minimum)):
        want = data.copy()
        for column, row in enumerate(at[0]):
            want[row, column] = fn(want[row, column], new[0, column])
        yield Case(f"scatter_{name}", "ScatterElements", 18, [data, at, new], [want], reduction=name)


def reductions():
    x = np.abs(real(3, 4, 5)) + F(0.5)
    axes = (0, 2)
    oracles = {
        "L1": lambda v: np.abs(v).sum(axes), "L2": lambda v: np.sqrt((v * v).sum(axes)),
        "LogSum": lambda v: np.log(v.sum(axes)), "LogSumExp": lambda v: np.log(np.exp(v).sum(axes)),
        "Max": lambda v: v.max(axes), "Mean": lambda v: v.mean(axes), "Min": lambda v: v.min(axes),
        "Prod": lambda v: v.prod(axes), "Sum": lambda v: v.sum(axes), "SumSquare": lambda v: (v * v).sum(axes)}
    for name, oracle in oracles.items():
        want = oracle(x.astype(np.float64)).astype(F)
        yield Case(f"reduce_{name}", f"Reduce{name}", 18, [x, ints(0, -1)], [want], consts=[1], keepdims=0)
        yield Case(f"reduce_{name}_late", f"Reduce{name}", 22, [x, ints(0, -1)], [want[None, :, None]])
    yield Case("reduce_nothing", "ReduceMean", 18, [x], [x], noop_with_empty_axes=1)
    flags = rng.random((4, 6)) < 0.3
    yield Case("reduce_any", "ReduceMax", 20, [flags, ints(1)], [flags.any(1)], consts=[1], keepdims=0)
    yield Case("reduce_all", "ReduceMin", 20, [flags, ints(0)], [flags.all(0)], consts=[1], keepdims=0)


def resizes():
    x = real(1, 2, 6, 8)
    yield Case("resize_axes", "Resize", 18, [x, None, np.array([2, 0.5], F)], [x[:, :, :, ::2].repeat(2, 1)],
               consts=[2], axes=[1, -1], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    at = (np.arange(3) + 0.5) * 2 - 0.5
    smaller = np.apply_along_axis(linear_at, 2, np.apply_along_axis(linear_at, 3, x, (np.arange(4) + .5) * 2 - .5), at)
    for policy, sizes in (("not_larger", (3, 7)), ("not_smaller", (2, 4))):
        yield Case(f"resize_{policy}", "Resize", 18, [x, None, None, ints(*sizes)], [smaller.astype(F)], consts=[3],
                   axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy)
    wide = np.apply_along_axis(triangle, 3, x, 3, 3 / 8)
    yield Case("resize_antialias", "Resize", 18, [x, None, None, ints(3)], [wide.astype(F)], consts=[3], axes=[3],
               mode="linear", antialias=1)
    yield Case("resize_antialias_larger", "Resize", 19, [x, None, None, ints(16)],
               [np.apply_along_axis(linear_at, 3, x, (np.arange(16) + 0.5) / 2 - 0.5).astype(F)], consts=[3],
               axes=[3], mode="linear", antialias=1)
    # 8 * 0.6 is 4.8: four places, about the middle of the row.
    scale = float(F(0.6))
    middle = (np.arange(4) + 0.5 - 2) / scale + 4 - 0.5
    yield Case("resize_symmetric", "Resize", 19, [x, None, np.array([0.6], F)],
               [np.apply_along_axis(linear_at, 3, x, middle).astype(F)], consts=[2], axes=[3], mode="linear",
               coordinate_transformation_mode="half_pixel_symmetric")


def activations():
    x = real(3, 17) * 3
    for opset in (20, 22):
        yield Case(f"gelu_{opset}", "Gelu", opset, [x], [(0.5 * x * (1 + ERF(x / math.sqrt(2)))).astype(F)])
        yield Case(f"gelu_tanh_{opset}", "Gelu", opset, [x], [gelu_tanh(x).astype(F)], approximate="tanh")
    yield Case("mish", "Mish", 18, [x], [(x * np.tanh(np.log1p(np.exp(x)))).astype(F)])
    for dtype in (np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64):
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, (4, 5), dtype=dtype, endpoint=True)
        b = rng.integers(info.min, info.max, (5,), dtype=dtype, endpoint=True)
        for name, fn in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
            yield Case(f"bitwise_{name}_{info.dtype}", f"Bitwise{name}", 18, [a, b], [fn(a, b)])
        yield Case(f"bitwise_Not_{info.dtype}", "BitwiseNot", 18, [a], [~a])


def normals():
    x = real(2, 6, 3, 4) * 2 + 1
    for opset, count in ((18, 3), (20, 3), (21, 6), (22, 6)):
        scale, bias = real(count), real(count)
        yield Case(f"group_norm_{opset}", "GroupNormalization", opset, [x, scale, bias],
                   [group_norm(x, 3, scale, bias, opset < 21)], num_groups=3)
    flat = real(2, 4)
    yield Case("group_norm_flat", "GroupNormalization", 21, [flat, np.ones(4, F), np.zeros(4, F)],
               [group_norm(flat, 2, np.ones(4), np.zeros(4), False)], num_groups=2)


def samples():
    x, grid = real(2, 3, 4, 5), (rng.random((2, 3, 2, 2)) * 2.4 - 1.2).astype(F)
    yield Case("grid_linear", "GridSample", 20, [x, grid], [grid_linear(x, grid)], mode="linear")
    yield Case("grid_default", "GridSample", 22, [x, grid], [grid_linear(x, grid)])
    volume, places = real(2, 2, 3, 4, 5), (rng.random((2, 2, 3, 2, 3)) * 2.4 - 1.2).astype(F)
    yield Case("grid_volume", "GridSample", 20, [volume, places], [grid_linear(volume, places)], mode="linear")
    corners = np.array(list(itertools.product((-1, 1), repeat=3)), F).reshape(1, 2, 2, 2, 3)
    picked = volume[:1, :, ::2, ::3, ::4].transpose(0, 1, 4, 3, 2)  # x runs slowest in `corners`
    yield Case("grid_volume_nearest", "GridSample", 20, [volume[:1], corners], [np.ascontiguousarray(picked)],
               mode="nearest", align_corners=1)
    theta = real(2, 2, 3)
    for align in (0, 1):
        steps = [np.linspace(-1, 1, n) if align else (np.arange(n) * 2 + 1) / n - 1 for n in (3, 4)]
        y, x1 = np.meshgrid(*steps, indexing="ij")
        base = np.stack([x1, y, np.ones_like(y)], -1)
        yield Case(f"affine_grid_{align}", "AffineGrid", 20, [theta, ints(2, 1, 3, 4)],
                   [np.einsum("hwk,njk->nhwj", base, theta).astype(F)], consts=[1], align_corners=align)
    deep = real(1, 3, 4)
    steps = [np.linspace(-1, 1, n) for n in (2, 3, 4)]
    z, y, x1 = np.meshgrid(*steps, indexing="ij")
    yield Case("affine_grid_3d", "AffineGrid", 20, [deep, ints(1, 1, 2, 3, 4)],
               [np.einsum("dhwk,njk->ndhwj", np.stack([x1, y, z, np.ones_like(z)], -1), deep).astype(F)],
               consts=[1], align_corners=1)


def deformed():
    """Random kernels, groups and windows; offsets of several pixels, so that some taps read outside."""
    for number in range(8):
        dims, dtype = 3 if number == 7 else 2, np.float64 if number == 6 else F
        group, offset_group = (int(v) for v in rng.choice([1, 2, 3], 2))
        kernel, strides, dilations, pads = (
            [int(v) for v in rng.integers(least, most, count)]
            for least, most, count in ((1, 6 - dims, dims), (1, 3, dims), (1, 3, dims), (0, 3, 2 * dims)))
        image, taps = [int(v) for v in rng.integers(5, 8, dims)], math.prod(kernel)
        places = [(i + b + e - (k - 1) * d - 1) // s + 1
                  for i, b, e, k, d, s in zip(image, pads, pads[dims:], kernel, dilations, strides)]
        x, w, offset, bias, mask = (values.astype(dtype) for values in (
            real(2, 6, *image), real(2 * group, 6 // group, *kernel), real(2, offset_group * taps * dims, *places) * 2,
            real(2 * group), real(2, offset_group * taps, *places)))
        has_mask, has_bias = number % 2 == 1, number % 4 > 1
        want = deform_conv(x, w, offset, mask if has_mask else np.ones_like(mask), group, offset_group, strides,
                           dilations, pads) + (bias.reshape(-1, *[1] * dims) if has_bias else 0)
        yield Case(f"deform_{number}", "DeformConv", 19 if number < 4 else 22,
                   [x, w, offset, bias if has_bias else None, mask if has_mask else None], [want.astype(dtype)],
                   group=group, offset_group=offset_group, strides=strides, dilations=dilations, pads=pads)
    # Whole offsets read whole pixels: exact in numbers that halves hold, of 7 pixels, which -1 to 1 does not divide evenly.
    x, shift = rng.integers(-9, 9, (1, 1, 7, 7)).astype(np.float16), np.zeros((1, 2, 7, 7), np.float16)
    shift[:, 0], shift[:, 1] = 1, -2
    want = np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 0)))[:, :, 1:, :7]
    yield Case("deform_half", "DeformConv", 22, [x, np.ones((1, 1, 1, 1), np.float16), shift], [want])


def spectra():
    x = real(2, 6, 5, 1)

    def parts(values):
        return np.stack([values.real, values.imag], -1).astype(F)

    yield Case("dft_axis", "DFT", 20, [x, None, ints(1).reshape(())], [parts(np.fft.fft(x[..., 0], axis=1))], consts=[2])
    yield Case("dft_default_axis", "DFT", 20, [x], [parts(np.fft.fft(x[..., 0], axis=2))])
    yield Case("dft_length", "DFT", 20, [x, ints(8).reshape(()), ints(-3).reshape(())],
               [parts(np.fft.rfft(x[..., 0], 8, axis=1))], consts=[1, 2], onesided=1)
    both = real(2, 4, 3, 2)
    yield Case("dft_inverse", "DFT", 20, [both, None, ints(1).reshape(())],
               [parts(np.fft.ifft(both[..., 0] + 1j * both[..., 1], axis=1))], consts=[2], inverse=1)


def strings():
    a, b = text("a", "", "ünï"), text("x", "yy")
    yield Case("string_concat", "StringConcat", 20, [a.reshape(3, 1), b],
               [text(*[i + j for i in a for j in b]).reshape(3, 2)])
    lines = text("a b  c", " d ", "", "e\tf g h")
    yield Case("string_split", "StringSplit", 20, [lines],
               [text("a", "b", "c", "", "d", "", "", "", "", "", "", "", "e", "f", "g", "h").reshape(4, 4),
                ints(3, 1, 0, 4)])
    yield Case("string_split_by", "StringSplit", 20, [text("a::b::c", "::", "d")],
               [text("a", "b::c", "", "", "d", "").reshape(3, 2), ints(2, 2, 1)], delimiter="::", maxsplit=1)
    yield Case("equal_strings", "Equal", 19, [a, text("a", "b", "ünï")], [np.array([True, False, True])])


def quantized():
    x = real(4, 6) * 9
    scale, zero = np.abs(real(4, 2)) + F(0.1), rng.integers(-99, 99, (4, 2), dtype=np.int16)
    q = np.clip(np.rint(x / scale.repeat(3, 1)) + zero.repeat(3, 1), -32768, 32767).astype(np.int16)
    yield Case("quantize_blocks", "QuantizeLinear", 21, [x, scale, zero], [q], axis=1, block_size=3)
    back = (q.astype(F) - zero.repeat(3, 1)) * scale.repeat(3, 1)
    yield Case("dequantize_blocks", "DequantizeLinear", 21, [q, scale, zero], [back.astype(F)], axis=-1, block_size=3)
    uneven = np.abs(real(4, 2)) + F(0.1)
    yield Case("dequantize_cut_block", "DequantizeLinear", 21, [q, uneven],
               [(q * np.concatenate([uneven[:, :1].repeat(4, 1), uneven[:, 1:].repeat(2, 1)], 1)).astype(F)], axis=1,
               block_size=4)
    one = np.array(0.25, F)
    yield Case("quantize_uint16", "QuantizeLinear", 21, [x, one], [np.clip(np.rint(x * 4), 0, 65535).astype(np.uint16)],
               output_dtype=TensorProto.UINT16)
    half = np.array(0.5, np.float16)
    yield Case("quantize_half", "QuantizeLinear", 19, [np.array([1, -3, 200, 0.5], np.float16), half, np.array(3, np.uint8)],
               [np.array([5, 0, 255, 4], np.uint8)])
    yield Case("dequantize_half", "DequantizeLinear", 19, [np.array([5, 0, 255], np.uint8), half, np.array(3, np.uint8)],
               [np.array([1, -1.5, 126], np.float16)])


def pools():
    x = real(1, 2, 9)
    yield Case("average_dilated", "AveragePool", 19, [x], [pool(x, 3, 2, 2, 3, lambda w: w.mean(2))], kernel_shape=[3],
               strides=[2], dilations=[2])
    yield Case("average_overhang", "AveragePool", 19, [x], [pool(x, 4, 4, 1, 3, lambda w: w.sum(2) / 4)],
               kernel_shape=[4], strides=[4], ceil_mode=1, count_include_pad=1)
    yield Case("average_ceil", "AveragePool", 22, [x], [pool(x, 4, 4, 1, 3, lambda w: w.mean(2))], kernel_shape=[4],
               strides=[4], ceil_mode=1)
    yield Case("lp_dilated", "LpPool", 18, [x], [pool(x, 3, 2, 2, 3, lambda w: np.sqrt((w * w).sum(2)))],
               kernel_shape=[3], strides=[2], dilations=[2], p=2)
    yield Case("max_late", "MaxPool", 22, [x], [pool(x, 3, 3, 1, 3, lambda w: w.max(2))], kernel_shape=[3], strides=[3])


def others():
    x = real(2, 3)
    yield Case("ir_9", "Relu", 19, [x], [np.maximum(x, 0)], ir=9)
    yield Case("cast_late", "Cast", 22, [x], [x.astype(np.float64)], to=TensorProto.DOUBLE)
    yield Case("has_element_of_nothing", "OptionalHasElement", 18, [], [np.array(False)])
    yield Case("get_element_of_tensor", "OptionalGetElement", 18, [x], [x])


# --- what is refused: (case, what the error says)

def surplus():
    x = real(2, 4)
    yield Case("attribute", "Relu", 13, [x], [x], alpha=1.0), "the operator at this opset has no attribute 'alpha'"
    yield Case("attribute_of_later", "Split", 13, [x], [x], num_outputs=1), "has no attribute 'num_outputs'"
    yield Case("attribute_of_before", "Squeeze", 13, [x[:1]], [x[0]], axes=[0]), "has no attribute 'axes'"
    yield Case("attribute_gone", "DFT", 20, [x], [x], axis=1), "has no attribute 'axis'"
    yield Case("constant_attribute", "Constant", 13, [], [ints(1)], other=[1]), "has no attribute 'other'"
    yield Case("inputs", "Relu", 13, [x, x], [x]), "it has 2 inputs, the operator at this opset has at most 1"
    yield Case("inputs_of_constant", "Constant", 19, [x], [ints(1)], value_ints=[1]), "it has 1 inputs, the operator at this opset has at most 0"
    yield Case("inputs_of_random", "RandomNormal", 22, [x], [x], shape=[2, 4]), "it has 1 inputs, the operator at this opset has at most 0"
    yield Case("inputs_of_later", "ReduceMean", 17, [x, ints(0)], [x], consts=[1]), "it has 2 inputs"
    yield Case("pad_axes_early", "Pad", 17, [x, ints(1, 1), None, ints(0)], [x], consts=[1, 3]), "it has 4 inputs"
    yield Case("optional_input", "Clip", 13, [x, None, None, x], [x]), "it has 4 inputs"


def wrong():
    x, image = real(2, 5), real(1, 1, 4, 4)
    yield Case("split_nothing_said", "Split", 18, [x], [x]), "num_outputs is 0"
    yield Case("split_both", "Split", 18, [x, ints(5)], [x], consts=[1], axis=1, num_outputs=1), "num_outputs is given too"
    yield Case("split_other_count", "Split", 18, [x], [x, x], axis=1, num_outputs=3), "num_outputs is 3, it has 2"
    yield Case("split_too_many", "Split", 18, [x], [x] * 4, axis=1, num_outputs=4), "does not split"
    yield Case("wrap_early", "Pad", 18, [x, ints(1, 1, 1, 1)], [x], consts=[1], mode="wrap"), "mode 'wrap'"
    yield Case("wrap_of_nothing", "Pad", 19, [x, ints(1, -5, 0, 1)], [x], consts=[1], mode="wrap"), "leave nothing"
    yield Case("pad_axis_twice", "Pad", 18, [x, ints(1, 1, 1, 1), None, ints(0, -2)], [x], consts=[1, 3]), "given twice"
    yield Case("resize_axis_twice", "Resize", 18, [x, None, np.ones(2, F)], [x], consts=[2], axes=[0, 0]), "given twice"
    yield Case("resize_policy", "Resize", 18, [x, None, None, ints(2, 5)], [x], consts=[3],
               keep_aspect_ratio_policy="other"), "keep_aspect_ratio_policy 'other'"
    yield Case("antialias_crop", "Resize", 18, [x, np.array([0, 0, 1, 1], F), None, ints(2, 2)], [x], consts=[1, 3],
               mode="linear", antialias=1, coordinate_transformation_mode="tf_crop_and_resize"), "antialias"
    yield Case("gelu_early", "Gelu", 19, [x], [x]), "not supported"
    yield Case("gelu_other", "Gelu", 20, [x], [x], approximate="other"), "approximate 'other'"
    yield Case("groups", "GroupNormalization", 21, [image, np.ones(1, F), np.ones(1, F)], [image], num_groups=2), "num_groups 2"
    yield Case("group_scale", "GroupNormalization", 21, [real(1, 4, 2), np.ones(2, F), np.ones(2, F)], [image],
               num_groups=2), "4 numbers wanted"
    yield Case("grid_old_mode", "GridSample", 20, [image, real(1, 1, 1, 2)], [image], mode="bilinear"), "mode 'bilinear'"
    yield Case("grid_cubic_volume", "GridSample", 20, [real(1, 1, 2, 2, 2), real(1, 1, 1, 1, 3)], [image],
               mode="cubic"), "'cubic' is for two spatial"
    yield Case("grid_shape", "GridSample", 20, [image, real(1, 1, 1, 3)], [image]), "grid float"
    tap, shifts = real(1, 1, 1, 1), real(1, 2, 4, 4)
    yield Case("deform_early", "DeformConv", 18, [image, tap, shifts], [image]), "not supported"
    yield Case("deform_row", "DeformConv", 19, [real(1, 1, 4), real(1, 1, 1), real(1, 1, 4)], [image]), "1 spatial dimensions"
    yield Case("deform_offset", "DeformConv", 19, [image, tap, real(1, 2, 4, 3)], [image]), "float[1,2,4,4] wanted"
    yield Case("deform_no_offset", "DeformConv", 19, [image, tap], [image]), "input 2"
    yield Case("deform_mask", "DeformConv", 19, [image, tap, shifts, None, shifts], [image]), "float[1,1,4,4] wanted"
    yield Case("deform_type", "DeformConv", 19, [image, tap, shifts.astype(np.float64)], [image]), "input 2"
    yield Case("deform_bias", "DeformConv", 19, [image, tap, shifts, real(2)], [image]), "bias is float[2]"
    yield Case("deform_groups", "DeformConv", 19, [image, tap, shifts], [image], offset_group=2), "offset_group 2"
    yield Case("deform_no_groups", "DeformConv", 19, [image, tap, shifts], [image], offset_group=0), "offset_group 0"
    yield Case("deform_places", "DeformConv", 19, [image, tap, shifts], [image], pads=[8192] * 4), "too many places"
    yield Case("deform_empty", "DeformConv", 19, [image[:0], tap, shifts[:0]], [image[:0]]), "do not fit"
    yield Case("deform_auto_pad", "DeformConv", 22, [image, tap, shifts], [image], auto_pad="VALID"), "no attribute 'auto_pad'"
    yield Case("bitwise_float", "BitwiseAnd", 18, [x, x], [x]), "input 0"
    yield Case("bool_early", "ReduceMax", 18, [x > 0], [x > 0]), "input 0"
    yield Case("col2im_places", "Col2Im", 18, [real(1, 4, 7), ints(3, 3), ints(2, 2)], [image], consts=[1, 2]), "at 4 places"
    yield Case("crop_axis_twice", "CenterCropPad", 18, [x, ints(1, 1)], [x], consts=[1], axes=[0, -2]), "given twice"
    yield Case("affine_one", "AffineGrid", 20, [real(1, 2, 3), ints(1, 1, 1, 4)], [image], consts=[1], align_corners=1), "grid"
    yield Case("blocks", "DequantizeLinear", 21, [np.ones((2, 5), np.int8), np.ones((2, 2), F)], [x], axis=1,
               block_size=2), "blocks of 2"
    yield Case("output_dtype", "QuantizeLinear", 21, [x, np.array(1, F)], [x], output_dtype=TensorProto.FLOAT), "output_dtype 1"
    yield Case("int16_early", "DequantizeLinear", 19, [np.ones(3, np.int16), np.array(1, F)], [x]), "input 0"
    yield Case("float8", "Cast", 19, [x], [x], to=17), "cast to type"
    yield Case("float8_value", "Cast", 19, [x], [x], types=[17], to=17), "element type 17"
    yield Case("decoder", "ImageDecoder", 20, [np.zeros(4, np.uint8)], [np.zeros(4, np.uint8)]), "not supported"
    yield Case("opset_23", "Relu", 23, [x], [x]), "opset 23"
    yield Case("ir_11", "Relu", 22, [x], [x], ir=11), "IR version 11"


class NewerModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}")
        cls.good = [case for family in (moves, reductions, resizes, activations, normals, samples, deformed, spectra, strings,
                                        quantized, pools, others) for case in family()]
        cls.bad = [pair for family in (surplus, wrong) for pair in family()]
        cls.folder = tempfile.mkdtemp(prefix="walle-onnx-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for case in cls.good + [case for case, _ in cls.bad]:
            case.write(cls.folder)

    def check(self, *options):
        run = subprocess.run([program("walle-engine"), "check", "--onnx-cases", "--verbose", *options, self.folder],
                             capture_output=True, text=True, timeout=500)
        lines = re.findall(r"^(passed|failed|unsupported|amended) test_(\S+?):?(?: (.*))?$", run.stdout, re.M)
        self.assertEqual(len(lines), len(self.good) + len(self.bad), run.stdout[-2000:] + run.stderr[-2000:])
        return {name: (outcome, said) for outcome, name, said in lines}

    def test_newer_forms_are_computed(self):
        for options in (("--isa", "ref"), (), ("--threads", "2", "--no-merge", "--no-fuse")):
            got = self.check(*options)
            for case in self.good:
                with self.subTest(case.name, options=options):
                    self.assertEqual(got[case.name][0], "passed", got[case.name][1])

    def test_what_is_no_form_is_refused_by_name(self):
        got = self.check()
        for case, why in self.bad:
            with self.subTest(case.name):
                outcome, said = got[case.name]
                self.assertNotEqual(outcome, "passed")
                self.assertIn(why, said)
                if not re.search(r"^(opset|IR version|value) ", said):
                    self.assertIn("node 'the_node'", said)
                    self.assertIn(f"({case.model.graph.node[0].op_type}, opset", said)


if __name__ == "__main__":
    unittest.main()
