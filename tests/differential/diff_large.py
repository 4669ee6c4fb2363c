"""Generators of models as large as kernels cut their loops: every block, strip and thread gets a part, and a rest.

Run by differential.py --kind large, which is slow: the reference backend computes everything once.
"""
import numpy as np

from diff_blocks import activate, pair, step, weights
from diff_model import F32, I32, I64, U8, Skip

LARGE = {}
SIZES = [1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 96, 100, 127, 128, 129, 192, 255, 256, 257, 300, 384, 513]


def large(function):
    LARGE["large " + function.__name__] = function
    return function


def sizes(m, count, most):
    """Random sizes whose product stays below `most`."""
    for _ in range(50):
        drawn = [m.pick(SIZES) for _ in range(count)]
        if np.prod(drawn) <= most:
            return drawn
    raise Skip


def operand(m, shape, dtype=F32):
    return m.new(m.data(tuple(shape), dtype), "x")


@large
def product(m):
    rows, inner, columns = sizes(m, 3, 6000000)
    batch = m.pick([(), (), (), (2,), (1,), (2, 3)]) if rows * inner * columns < 500000 else ()
    x = operand(m, batch + (rows, inner))
    w = weights(m, (inner, columns)) if m.chance(0.7) else operand(m, (batch if m.chance(0.5) else ()) + (inner, columns))
    y = step(m, "MatMul", [x, w])
    if m.chance(0.5):
        y = pair(m, "Add", y, weights(m, (columns,)))
    y = activate(m, y) if m.chance(0.5) else y
    if m.chance(0.3):
        pair(m, "Add", y, operand(m, m.values[y].shape))


@large
def gemm(m):
    rows, inner, columns = sizes(m, 3, 6000000)
    ta, tb = m.range(0, 1), m.range(0, 1)
    a = operand(m, (inner, rows) if ta else (rows, inner))
    b = weights(m, (columns, inner) if tb else (inner, columns))
    c = weights(m, m.pick([(columns,), (rows, columns), (1, columns), (rows, 1)]))
    y = step(m, "Gemm", [a, b, c], transA=ta, transB=tb, alpha=m.pick([1.0, 0.5]), beta=m.pick([1.0, 2.0]))
    activate(m, y)


@large
def convolution(m):
    channels, filters = m.pick([1, 3, 8, 16, 17, 24, 32, 48, 64, 96, 130]), m.pick([1, 8, 16, 20, 32, 48, 64, 65, 96, 128])
    group = m.pick([1, 1, 1, 2, 4, channels])
    if group > 1:
        if channels % group:
            raise Skip
        filters = group * max(1, filters // group)
    kernel = m.pick([1, 1, 3, 3, 3, 5, 7])
    height, width = m.pick([1, 7, 9, 14, 15, 28, 30]), m.pick([7, 13, 14, 28, 31, 57])
    stride, dilation = m.pick([1, 1, 1, 2, 3]), m.pick([1, 1, 1, 2])
    pad = m.pick([0, (kernel - 1) * dilation // 2, (kernel - 1) * dilation // 2])
    reach = (kernel - 1) * dilation + 1
    cost = height * width * channels // group * filters * kernel * kernel
    if cost > 30000000 or min(height, width) + 2 * pad < reach:
        raise Skip
    batch = m.pick([1, 1, 2, 3]) if cost < 5000000 else 1
    x = operand(m, (batch, channels, height, width))
    if m.chance(0.3):
        x = activate(m, x)
    attributes = {"pads": [pad] * 4, "strides": [stride] * 2, "dilations": [dilation] * 2, "group": group}
    inputs = [x, weights(m, (filters, channels // group, kernel, kernel))]
    if m.chance(0.6):
        inputs.append(weights(m, (filters,)))
    y = step(m, "Conv", inputs, **attributes)
    if m.chance(0.3):
        y = pair(m, "Add", y, operand(m, m.values[y].shape))
    y = activate(m, y)
    kind = m.range(0, 5)
    if kind == 0:
        step(m, "GlobalAveragePool", [y])
    elif kind == 1 and min(m.values[y].shape[2:]) >= 3:
        step(m, m.pick(["MaxPool", "AveragePool"]), [y], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    elif kind == 2:
        step(m, "Conv", [y, weights(m, (m.pick([8, 16, 17]), filters, 1, 1))])
    elif kind == 3:
        step(m, "Concat", [y, y], axis=1)
    elif kind == 4:
        step(m, "Transpose", [y], perm=[0, 2, 3, 1])


@large
def transposed_convolution(m):
    channels, filters = m.pick([1, 8, 16, 24, 32]), m.pick([1, 8, 16, 20])
    side, kernel, stride = m.pick([4, 7, 14]), m.pick([2, 3, 4]), m.pick([1, 2])
    step(m, "ConvTranspose", [operand(m, (1, channels, side, side)), weights(m, (channels, filters, kernel, kernel))],
         strides=[stride] * 2, pads=[m.range(0, 1)] * 4)


@large
def whole_products(m):
    rows, inner, columns = sizes(m, 3, 2000000)
    m.mode = "special"
    a, b = operand(m, (rows, inner), U8), m.new(m.data((inner, columns), U8), "w", fixed=True)
    step(m, "MatMulInteger", [a, b, m.arg(np.array(m.range(0, 255), U8)), m.arg(np.array(m.range(0, 255), U8))])


@large
def whole_convolution(m):
    channels, filters, side = m.pick([3, 8, 16, 32, 64]), m.pick([8, 16, 20]), m.pick([7, 12, 14])
    m.mode = "special"
    x, w = operand(m, (1, channels, side, side), U8), m.new(m.data((filters, channels, 3, 3), U8), "w", fixed=True)
    step(m, "ConvInteger", [x, w, m.arg(np.array(m.range(0, 255), U8))], pads=[1] * 4, strides=[m.pick([1, 1, 2])] * 2)


@large
def reduction(m):
    shape = sizes(m, m.range(1, 4), 200000)
    x = operand(m, shape)
    rank = len(shape)
    axes = [a for a in range(rank) if m.chance(0.5)] or [rank - 1]
    op = m.pick(["ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"])
    step(m, op, [x], axes=axes, keepdims=m.range(0, 1))
    step(m, m.pick(["ArgMax", "ArgMin"]), [x], axis=m.range(0, rank - 1), keepdims=m.range(0, 1))
    step(m, m.pick(["Softmax", "LogSoftmax"]), [x], axis=m.range(0, rank - 1))
    if m.opset >= 11:
        step(m, "CumSum", [x, m.arg(np.array(m.range(0, rank - 1), I32))])
        k = m.range(1, min(shape[-1], 40))
        step(m, "TopK", [x, m.arg(np.array([k], I64))], 2, axis=-1)


@large
def norms(m):
    rows, width = sizes(m, 2, 100000)
    x = operand(m, (rows, width))
    if m.opset >= 17:
        step(m, "LayerNormalization", [x, weights(m, (width,)), weights(m, (width,))])
    shape = (m.range(1, 2), m.pick([3, 16, 17, 32]), m.pick([7, 14, 28]), m.pick([7, 14, 29]))
    y = operand(m, shape)
    step(m, "InstanceNormalization", [y, weights(m, shape[1:2]), weights(m, shape[1:2])])
    step(m, "LRN", [y], size=m.pick([3, 5]))


@large
def elementwise(m):
    shape = sizes(m, m.range(1, 4), 100000)
    x = operand(m, shape)
    for _ in range(m.range(2, 8)):
        other = operand(m, m.near(tuple(shape))[-len(shape):])
        x = step(m, m.pick(["Add", "Sub", "Mul", "Max", "Min"]), [x, other])
        x = step(m, m.pick(["Tanh", "Sigmoid", "Relu", "Neg", "Sin"]), [x])


@large
def moves(m):
    shape = sizes(m, m.range(2, 5), 100000)
    x = operand(m, shape, m.pick([F32, F32, I64, U8]))
    perm = list(range(len(shape)))
    m.random.shuffle(perm)
    x = step(m, "Transpose", [x], perm=perm)
    axis = m.range(0, len(shape) - 1)
    x = step(m, "Concat", [x, x] if m.chance(0.5) else [x], axis=axis)
    ids = np.asarray(m.numpy.integers(0, m.values[x].shape[axis], m.range(1, 70))).astype(I64)
    y = step(m, "Gather", [x, m.arg(ids)], axis=axis)
    if m.values[y].size < 200000:
        m.random.shuffle(perm)
        step(m, "Transpose", [y], perm=perm)


@large
def pooling(m):
    shape = (m.range(1, 2), m.pick([3, 16, 17, 32, 48]), m.pick([9, 28, 33]), m.pick([9, 28, 33]))
    x = operand(m, shape)
    kernel = m.pick([2, 3, 5])
    attributes = {"kernel_shape": [kernel] * 2, "strides": [m.pick([1, 2, 3])] * 2, "pads": [m.range(0, kernel // 2)] * 4}
    step(m, "MaxPool", [x], **attributes)
    step(m, "AveragePool", [x], count_include_pad=m.range(0, 1), **attributes)
    step(m, "GlobalMaxPool", [x])
    step(m, "GlobalAveragePool", [x])


@large
def attention(m):
    heads, size, length = m.pick([1, 3, 4]), m.pick([8, 16, 24, 64]), m.pick([5, 16, 33, 64, 130])
    q, k, v = [operand(m, (1, heads, length, size)) for _ in range(3)]
    k = step(m, "Transpose", [k], perm=[0, 1, 3, 2])
    scores = step(m, "MatMul", [q, k])
    scores = step(m, "Mul", [scores, m.new(np.array(size ** -0.5, F32), "c", fixed=True)])
    if m.chance(0.5):
        scores = step(m, "Add", [scores, operand(m, m.pick([(1, 1, 1, length), (length, length)]))])
    share = step(m, "Softmax", [scores], axis=3 if m.opset < 13 else -1)
    y = step(m, "Transpose", [step(m, "MatMul", [share, v])], perm=[0, 2, 1, 3])
    step(m, "Reshape", [y, m.arg(np.array([1, length, heads * size], I64))])
