"""Groups of nodes as exporters write them: what fusion, merging of rasters and channel layouts look for, with variations.

Each takes a Maker and settles its nodes one by one, so that every value is known. BLOCKS maps names to them.
"""
import numpy as np

from diff_model import F32, I64, Skip

BLOCKS = {}


def block(function):
    BLOCKS["block " + function.__name__] = function
    return function


def step(m, op, inputs, outputs=1, **attributes):
    """A node whose values are known afterwards; its first output."""
    names = m.node(op, inputs, outputs, **attributes)
    if not m.settle():
        raise Skip
    return names[0] if outputs == 1 else names


def constant(m, array, kind=None):
    return m.new(np.asarray(array, F32) if not isinstance(array, np.ndarray) else array, "c", fixed=not m.chance(0.05))


def weights(m, shape):
    return m.new(m.data(shape, F32), "w", fixed=not m.chance(0.05))


def scalar(m, value):
    return constant(m, np.array(value if m.chance(0.7) else [value], F32))


def pair(m, op, a, b):
    """A binary node, in either order where that is the same."""
    return step(m, op, [a, b] if op in ("Sub", "Div") or m.chance(0.5) else [b, a])


def rows(m, width=None):
    """Something with a last dimension of this width."""
    names = m.find([F32], 2, 4, lambda v: v.size > 0 and (width is None or v.shape[-1] == width) and v.size <= 4096)
    if names and m.chance(0.8):
        return m.pick(names)
    shape = m.pick([(3,), (7,), (2, 5), (1, 16), (4, 3, 2), (33,), (1, 1)]) + (width or m.pick([1, 4, 8, 16, 17, 32, 64]),)
    return m.new(m.data(shape, F32))


def pictures(m, channels=None):
    names = m.find([F32], 4, 4, lambda v: v.size > 0 and (channels is None or v.shape[1] == channels))
    if names and m.chance(0.8):
        return m.pick(names)
    side = m.pick([1, 4, 7, 8, 12, 14])
    shape = (m.pick([1, 1, 2]), channels or m.pick([1, 3, 4, 8, 16, 24, 32]), side, m.pick([side, side + 1]))
    return m.new(m.data(shape, F32))


def activate(m, x):
    kind = m.range(0, 9)
    if kind == 0:
        return x
    if kind == 1 and m.opset >= 11:
        return step(m, "Clip", [x, scalar0(m, 0), scalar0(m, 6)])
    if kind == 2:
        y = step(m, "Sigmoid", [x])
        return pair(m, "Mul", x, y)
    if kind == 3 and m.opset >= 14:
        return step(m, "HardSwish", [x])
    if kind == 4:
        y = step(m, "Add", [x, scalar(m, 3)])
        y = step(m, "Clip", [y], min=0.0, max=6.0) if m.opset < 11 else step(m, "Clip", [y, scalar0(m, 0), scalar0(m, 6)])
        y = pair(m, "Mul", x, y)
        return step(m, "Div", [y, scalar(m, 6)])
    if kind == 5:
        return step(m, "LeakyRelu", [x], alpha=0.2)
    if kind == 6:
        v = m.values[x]
        shape = (v.shape[1],) + (1,) * (v.ndim - 2) if v.ndim > 2 else v.shape[-1:]
        return step(m, "PRelu", [x, weights(m, shape)])
    return step(m, m.pick(["Relu", "Relu", "Tanh", "Sigmoid", "Elu", "HardSigmoid", "Softplus"]), [x])


def scalar0(m, value):
    return m.new(np.array(value, F32), "c", fixed=True)


@block
def layer_norm(m):
    x = rows(m)
    width = m.values[x].shape[-1]
    axes = [-1] if m.opset >= 11 else [m.values[x].ndim - 1]
    mean = step(m, "ReduceMean", [x], axes=axes)
    centred = step(m, "Sub", [x, mean])
    square = step(m, "Pow", [centred, scalar(m, 2)]) if m.chance(0.6) else step(m, "Mul", [centred, centred])
    spread = pair(m, "Add", step(m, "ReduceMean", [square], axes=axes), scalar(m, m.pick([1e-5, 0.1, 1e-12])))
    root = step(m, "Sqrt", [spread])
    if m.chance(0.6):
        y = step(m, "Div", [centred, root])
    else:
        y = pair(m, "Mul", centred, step(m, "Reciprocal", [root]))
    if m.chance(0.8):
        y = pair(m, "Mul", y, weights(m, m.pick([(width,), (1, width), ()])))
    if m.chance(0.8):
        y = pair(m, "Add", y, weights(m, (width,)))


@block
def gelu(m):
    x = rows(m)
    if m.chance(0.5) and m.opset >= 9:
        y = step(m, "Erf", [step(m, "Div", [x, scalar(m, 1.41421356)]) if m.chance(0.5) else
                            pair(m, "Mul", x, scalar(m, 0.70710678))])
    else:
        cube = step(m, "Pow", [x, scalar(m, 3)])
        inner = pair(m, "Add", x, pair(m, "Mul", cube, scalar(m, 0.044715)))
        y = step(m, "Tanh", [pair(m, "Mul", inner, scalar(m, 0.7978845608))])
    y = pair(m, "Add", y, scalar(m, 1))
    if m.chance(0.5):
        pair(m, "Mul", pair(m, "Mul", x, y), scalar(m, 0.5))
    else:
        pair(m, "Mul", pair(m, "Mul", x, scalar(m, 0.5)), y)


@block
def dense(m):
    x = rows(m)
    v = m.values[x]
    out = m.pick([1, 3, 8, 16, 17, 32, 48, 64])
    y = step(m, "MatMul", [x, weights(m, (v.shape[-1], out))])
    if m.chance(0.8):
        y = pair(m, "Add", y, weights(m, m.pick([(out,), (1, out)])))
    if m.chance(0.3) and out == v.shape[-1]:
        y = pair(m, "Add", y, x)
    activate(m, y)


@block
def attention(m):
    heads, size = m.pick([1, 2, 4]), m.pick([4, 8, 16, 5])
    width = heads * size
    batch, length = m.pick([1, 1, 2]), m.pick([1, 3, 8, 17])
    x = m.like(F32, (batch, length, width))
    parts = []
    for i in range(3):
        y = step(m, "MatMul", [x, weights(m, (width, width))])
        y = pair(m, "Add", y, weights(m, (width,))) if m.chance(0.7) else y
        y = step(m, "Mul", [y, scalar(m, 0.1)])
        y = step(m, "Reshape", [y, m.arg(np.array(m.pick([(0, 0, heads, size), (batch, length, heads, size), (batch, -1, heads, size)]), I64))])
        parts.append(step(m, "Transpose", [y], perm=[0, 2, 3, 1] if i == 1 and m.chance(0.5) else [0, 2, 1, 3]))
    q, k, v = parts
    if m.values[k].shape[-1] != length or length == size and m.chance(0.5):
        if m.values[k].shape != (batch, heads, size, length):
            k = step(m, "Transpose", [k], perm=[0, 1, 3, 2])
    scores = step(m, "MatMul", [q, k])
    if m.chance(0.8):
        scores = step(m, "Div", [scores, scalar(m, size ** 0.5)]) if m.chance(0.5) else pair(m, "Mul", scores, scalar(m, size ** -0.5))
    if m.chance(0.6):
        shape = m.pick([(batch, 1, 1, length), (1, 1, length, length), (length,), (batch, heads, length, length), ()])
        mask = np.where(m.data(shape, np.dtype(bool)), 0, m.pick([-10000.0, -1.0])).astype(F32)
        scores = pair(m, "Add", scores, m.new(mask, "c"))
    share = step(m, "Softmax", [scores], axis=3 if m.opset < 13 or m.chance(0.5) else -1)
    y = step(m, "MatMul", [share, v])
    y = step(m, "Transpose", [y], perm=[0, 2, 1, 3])
    step(m, "Reshape", [y, m.arg(np.array([batch, length, width] if m.chance(0.5) else [0, 0, width], I64))])


@block
def convolution(m):
    x = pictures(m)
    v = m.values[x]
    channels = v.shape[1]
    kind = m.range(0, 4)
    group = channels if kind == 0 else 1
    filters = channels * m.pick([1, 1, 2]) if kind == 0 else m.pick([1, 4, 8, 16, 24, 32, channels])
    kernel = m.pick([1, 1, 3, 3, 3, 5])
    pad = kernel // 2 if m.chance(0.8) else 0
    stride = m.pick([1, 1, 1, 2])
    if min(v.shape[2:]) + 2 * pad < kernel:
        raise Skip
    inputs = [x, weights(m, (filters, channels // group, kernel, kernel))]
    if m.chance(0.5):
        inputs.append(weights(m, (filters,)))
    y = step(m, "Conv", inputs, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2, group=group)
    if m.chance(0.4):
        stats = [m.new(m.data((filters,), F32, "positive"), fixed=True) for _ in range(4)]
        y = step(m, "BatchNormalization", [y] + stats)
    elif m.chance(0.3):
        y = pair(m, m.pick(["Mul", "Add"]), y, weights(m, (filters, 1, 1)))
    like = m.find([F32], 4, 4, lambda a: a.shape == m.values[y].shape)
    if len(like) > 1 and m.chance(0.6):
        y = pair(m, "Add", y, m.pick(like))
    activate(m, y)


@block
def squeeze_excite(m):
    x = pictures(m)
    channels = m.values[x].shape[1]
    y = step(m, "GlobalAveragePool", [x]) if m.chance(0.6) else step(m, "ReduceMean", [x], axes=[2, 3])
    small = max(1, channels // 2)
    y = step(m, "Relu", [step(m, "Conv", [y, weights(m, (small, channels, 1, 1))])])
    y = step(m, "Conv", [y, weights(m, (channels, small, 1, 1)), weights(m, (channels,))])
    y = step(m, m.pick(["Sigmoid", "HardSigmoid"]), [y])
    pair(m, "Mul", x, y)


@block
def shuffle(m):
    x = pictures(m)
    n, channels, height, width = m.values[x].shape
    groups = m.pick([g for g in (1, 2, 3, 4) if channels % g == 0])
    y = step(m, "Reshape", [x, m.arg(np.array([n, groups, channels // groups, height, width], I64))])
    y = step(m, "Transpose", [y], perm=[0, 2, 1, 3, 4])
    y = step(m, "Reshape", [y, m.arg(np.array(m.pick([(n, channels, height, width), (n, -1, height, width)]), I64))])
    if channels % 2 == 0 and m.chance(0.6):
        if m.opset >= 13:
            parts = step(m, "Split", [y], 2, axis=1)
        else:
            parts = step(m, "Split", [y], 2, axis=1, split=[channels // 2] * 2)
        z = activate(m, parts[1])
        step(m, "Concat", [parts[0], z] if m.chance(0.5) else [z, parts[0], z], axis=1)


@block
def branches(m):
    """Convolutions of one picture, joined by channels; as an inception or a dense block does it."""
    x = pictures(m)
    channels = m.values[x].shape[1]
    ends = [x] if m.chance(0.5) else []
    for _ in range(m.range(1, 3)):
        kernel = m.pick([1, 3])
        y = step(m, "Conv", [x, weights(m, (m.pick([1, 8, 16, 12]), channels, kernel, kernel))], pads=[kernel // 2] * 4)
        ends.append(activate(m, y))
    if m.chance(0.4):
        ends.append(step(m, "MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1]))
    y = step(m, "Concat", ends, axis=1)
    if m.chance(0.5):
        total = m.values[y].shape[1]
        activate(m, step(m, "Conv", [y, weights(m, (8, total, 1, 1))]))


@block
def up_and_join(m):
    x = pictures(m)
    if m.values[x].size > 1500 or m.opset < 11:
        raise Skip
    empty = m.new(np.zeros(0, F32), fixed=True)
    y = step(m, "Resize", [x, empty, m.arg(np.array([1, 1, 2, 2], F32))], mode=m.pick(["nearest", "linear"]),
             coordinate_transformation_mode="asymmetric" if m.chance(0.6) else "half_pixel", nearest_mode="floor")
    other = m.like(F32, (m.values[y].shape[0], m.pick([1, 8])) + m.values[y].shape[2:])
    step(m, "Concat", [y, other], axis=1)


@block
def sized_reshape(m):
    """A shape computed from a shape."""
    x = m.any([F32, I64], low=2, high=4, accept=lambda v: v.size > 0)
    size = step(m, "Shape", [x])
    first = step(m, "Gather", [size, m.new(np.array(0 if m.chance(0.5) else [0], I64), "c", fixed=True)], axis=0)
    if m.values[first].ndim == 0:
        first = step(m, "Unsqueeze", [first], axes=[0]) if m.opset < 13 else \
            step(m, "Unsqueeze", [first, m.new(np.array([0], I64), "c", fixed=True)])
    target = step(m, "Concat", [first, m.new(np.array([-1], I64), "c", fixed=True)], axis=0)
    step(m, "Reshape", [x, target])


@block
def soft(m):
    """A softmax in parts."""
    x = rows(m)
    axes = [-1] if m.opset >= 11 else [m.values[x].ndim - 1]
    y = step(m, "Exp", [step(m, "Sub", [x, step(m, "ReduceMax", [x], axes=axes)])])
    if m.opset < 13:
        total = step(m, "ReduceSum", [y], axes=axes)
    else:
        total = step(m, "ReduceSum", [y, m.new(np.array(axes, I64), "c", fixed=True)])
    step(m, "Div", [y, total])


@block
def embedding(m):
    table = weights(m, (m.range(2, 9), m.pick([4, 8, 16])))
    size = m.values[table].shape[0]
    ids = m.new(np.asarray(m.numpy.integers(0, size, m.pick([(3,), (1, 5), (2, 4)]))).astype(I64), "c")
    y = step(m, "Gather", [table, ids])
    y = pair(m, "Add", y, weights(m, m.values[y].shape[1:]))
    if m.chance(0.5):
        activate(m, y)


@block
def expression(m):
    """Elementwise nodes over several operands."""
    values = [m.any([F32], low=1, high=4, accept=lambda v: 0 < v.size <= 2048)]
    shape = m.values[values[0]].shape
    for _ in range(m.range(3, 10)):
        kind = m.range(0, 9)
        x = m.pick(values)
        if kind < 3:
            values.append(step(m, m.pick(["Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Exp", "Floor", "Sign", "Cos"]), [x]))
        elif kind < 7:
            y = m.pick(values) if m.chance(0.5) else m.like(F32, m.near(shape)[-len(shape):])
            values.append(step(m, m.pick(["Add", "Sub", "Mul", "Max", "Min"]), [x, y]))
        elif kind < 8:
            values.append(pair(m, m.pick(["Add", "Mul"]), x, scalar(m, m.pick([0.5, 2, -1]))))
        elif kind < 9 and m.opset >= 9:
            test = step(m, m.pick(["Greater", "Less"]), [x, m.pick(values)])
            values.append(step(m, "Where", [test, x, m.pick(values)]))
        else:
            values.append(activate(m, x))


@block
def moves(m):
    """A run of nodes that only move data."""
    x = m.any([F32, I64], low=1, high=4, accept=lambda v: 0 < v.size <= 1024)
    for _ in range(m.range(2, 7)):
        v = m.values[x]
        kind = m.range(0, 6)
        if kind == 0:
            perm = list(range(v.ndim))
            m.random.shuffle(perm)
            x = step(m, "Transpose", [x], perm=perm)
        elif kind == 1:
            sizes = list(v.shape)
            i = m.range(0, v.ndim - 1)
            sizes[i:i + 2] = [int(np.prod(sizes[i:i + 2]))]
            if len(sizes) < 5 and sizes[0] % 2 == 0:
                sizes[:1] = [sizes[0] // 2, 2]
            x = step(m, "Reshape", [x, m.new(np.array(sizes, I64), "c", fixed=True)])
        elif kind == 2 and m.opset >= 10:
            axis = m.range(0, v.ndim - 1)
            low = m.range(0, v.shape[axis] - 1)
            numbers = m.pick([[low, v.shape[axis], 1], [0, low + 1, 1], [-1, -2**31, -1], [low, 2**31 - 1, 2]])
            arguments = [m.new(np.array([n], I64), "c", fixed=True) for n in numbers[:2] + [axis] + numbers[2:]]
            x = step(m, "Slice", [x] + arguments)
        elif kind == 3:
            x = step(m, "Concat", [x, m.pick([x, m.like(v.dtype, v.shape)])], axis=m.range(0, v.ndim - 1))
        elif kind == 4 and m.opset >= 11:
            pads = [m.range(0, 2) for _ in range(2 * v.ndim)]
            mode = m.pick(["constant", "edge"])
            x = step(m, "Pad", [x, m.new(np.array(pads, I64), "c", fixed=True)], mode=mode)
        elif kind == 5 and v.ndim < 5:
            x = step(m, "Unsqueeze", [x], axes=[m.range(0, v.ndim)]) if m.opset < 13 else \
                step(m, "Unsqueeze", [x, m.new(np.array([m.range(0, v.ndim)], I64), "c", fixed=True)])
        else:
            x = step(m, "Identity", [x])
        if not 0 < m.values[x].size <= 4096:
            raise Skip
