"""Generators for the operators that compute: elementwise, reductions, products, convolutions, pooling, norms, recurrences.

Each takes a Maker, draws operands, and appends its node. OPERATORS maps names to them.
"""
import numpy as np

from diff_engines import NUMBERS
from diff_model import BOOL, F16, F32, F64, FLOATS, I8, I32, I64, U8, Skip

OPERATORS = {}


def operator(*names):
    def add(function):
        for name in names:
            OPERATORS[name] = lambda m, name=name: function(m, name)
        return function
    return add


# ---- elementwise

UNIT_DOMAIN = {"Acos": "unit", "Asin": "unit", "Atanh": "unit", "Log": "positive", "Sqrt": "positive"}


@operator("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish",
          "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
          "Softsign", "Sqrt", "Tan", "Tanh", "Identity")
def unary(m, op):
    kind = UNIT_DOMAIN.get(op) if m.chance(0.7) else None
    if op == "Round" and m.chance(0.5):
        x = m.new((m.data(m.shape(), F32, "exact") / 2).astype(m.pick(m.types(op))))
    else:
        x = m.any(m.types(op), kind=kind)
    m.node(op, [x])


@operator("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "Shrink", "ThresholdedRelu")
def shaped_unary(m, op):
    names = {"HardSigmoid": ["alpha", "beta"], "Selu": ["alpha", "gamma"], "Shrink": ["lambd", "bias"]}.get(op, ["alpha"])
    attributes = {name: m.pick([0.0, 0.25, 1.0, 1.5, -0.5, 0.1]) for name in names if m.chance(0.7)}
    if attributes.get("alpha") == 0.0 and op == "Celu":
        del attributes["alpha"]
    m.node(op, [m.any(m.types(op))], **attributes)


@operator("IsInf")
def is_inf(m, op):
    m.node(op, [m.any(m.types(op), kind="special")], **{n: m.range(0, 1) for n in ["detect_negative", "detect_positive"]
                                                       if m.chance(0.5)})


@operator("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Or", "Sub", "Xor")
def binary(m, op):
    x = m.any(m.types(op), high=6)
    v = m.values[x]
    if m.chance(0.1):
        return m.node(op, [x, x])
    y = m.like(v.dtype, m.near(v.shape))
    if op == "Div" and v.dtype.kind in "iu":
        data = m.data(m.near(v.shape), v.dtype)
        y = m.new(np.where(data == 0, 1, data).astype(v.dtype), fixed=True)
        return m.node(op, [x, y])  # the divisor is never zero
    return m.node(op, [y, x] if m.chance(0.5) else [x, y])


@operator("Max", "Mean", "Min", "Sum")
def variadic(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    names = [x]
    shape = v.shape
    for _ in range(m.range(0, 3)):
        try:
            near = m.near(shape)
            np.broadcast_shapes(shape, near)
        except ValueError:
            continue
        shape = np.broadcast_shapes(shape, near)
        names.append(m.like(v.dtype, near))
    m.random.shuffle(names)
    m.node(op, names)


@operator("Mod")
def mod(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    data = m.data(m.near(v.shape), v.dtype)
    y = m.new(np.where(data == 0, 1, data).astype(v.dtype), fixed=True)
    m.node(op, [x, y], fmod=1 if v.dtype.kind == "f" or m.chance(0.3) else m.pick([None, 0]))


@operator("Pow")
def power(m, op):
    x = m.any(m.types(op), kind=m.pick([None, "positive"]))
    v = m.values[x]
    dtype = v.dtype
    if m.opset >= 12 and m.chance(0.4):
        dtype = m.pick([F32, F64, I32, I64])
    shape = m.near(v.shape)
    if dtype.kind == "f" and m.chance(0.4):
        data = m.numpy.choice([0.5, 2, 3, -1, 1, 0, -0.5, 2.5], shape).astype(dtype)
    else:
        low = 0 if v.dtype.kind in "iu" else -2
        data = m.numpy.integers(low, 4, shape).astype(dtype)
    m.node(op, [x, m.arg(np.asarray(data))])


@operator("PRelu")
def prelu(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    near = m.near(v.shape)
    if np.broadcast_shapes(v.shape, near) != v.shape:
        near = ()
    m.node(op, [x, m.like(v.dtype, near)])


@operator("BitShift")
def bit_shift(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    bits = v.dtype.itemsize * 8
    y = m.numpy.integers(0, bits + (1 if m.chance(0.1) else 0), m.near(v.shape)).astype(v.dtype)
    m.node(op, [x, m.new(np.asarray(y))], direction=m.pick(["LEFT", "RIGHT"]))


@operator("Where")
def where(m, op):
    x = m.any(m.types(op, 1))
    v = m.values[x]
    y = m.like(v.dtype, m.near(v.shape))
    shape = np.broadcast_shapes(v.shape, m.values[y].shape)
    m.node(op, [m.like(BOOL, m.near(shape)), x, y])


@operator("Clip")
def clip(m, op):
    x = m.any(m.types(op))
    dtype = m.values[x].dtype
    bounds = sorted([m.pick([-3, -1, 0, 1, 2]), m.pick([0, 1, 2.5, 6])])
    if m.opset < 11:
        m.node(op, [x], min=float(bounds[0]) if m.chance(0.7) else None, max=float(bounds[1]) if m.chance(0.7) else None)
        return
    low = max(bounds[0], 0) if dtype.kind == "u" else bounds[0]
    names = [m.arg(np.array(b).astype(dtype)) if m.chance(0.7) else "" for b in (low, bounds[1])]
    m.node(op, [x] + names)


@operator("Cast", "CastLike")
def cast(m, op):
    x = m.any(m.types("Cast"))
    target = m.pick(m.types("Cast", "T2"))
    v = m.values[x]
    if v.dtype.kind == "f" and (not np.isfinite(v.astype(F64)).all() or np.abs(v.astype(F64)).max(initial=0) > 100):
        target = m.pick(FLOATS + [BOOL])
    if v.dtype.kind == "f" and target.kind == "u" and (v < 0).any():
        target = I64  # what C leaves undefined
    if v.dtype == object:
        x = m.new(np.vectorize(str, otypes=[object])(m.data(m.shape(), I32)))
    if target == object and v.dtype.kind == "f":
        target = F32
    if op == "CastLike":
        return m.node(op, [x, m.like(target, m.shape(0, 2))])
    return m.node(op, [x], to=NUMBERS[target])


# ---- reductions

def axes_of(m, rank, least=0):
    axes = [a for a in range(rank) if m.chance(0.4)]
    while len(axes) < min(least, rank):
        axes = [m.range(0, rank - 1)]
    m.random.shuffle(axes)
    return [a - rank if m.opset >= 11 and m.chance(0.3) else a for a in axes]


@operator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
          "ReduceSum", "ReduceSumSquare")
def reduce(m, op):
    kind = "positive" if op == "ReduceLogSum" else None
    x = m.any(m.types(op), high=6, kind=kind, accept=lambda v: v.size > 0 or m.chance(0.1))
    axes = axes_of(m, m.values[x].ndim)
    keep = {"keepdims": m.range(0, 1)} if m.chance(0.7) else {}
    if op == "ReduceSum" and m.opset >= 13:
        noop = {"noop_with_empty_axes": m.range(0, 1)} if m.chance(0.5) else {}
        return m.node(op, [x, m.arg(np.array(axes, I64)) if axes or m.chance(0.3) else ""], **keep, **noop)
    return m.node(op, [x], axes=axes or None, **keep)


@operator("ArgMax", "ArgMin")
def arg_extreme(m, op):
    x = m.any(m.types(op), low=1, accept=lambda v: v.size > 0)
    rank = m.values[x].ndim
    axis = m.range(-rank if m.opset >= 11 else 0, rank - 1)
    last = {"select_last_index": m.range(0, 1)} if m.opset >= 12 and m.chance(0.5) else {}
    m.node(op, [x], axis=axis if axis != 0 or m.chance(0.5) else None,
           keepdims=m.range(0, 1) if m.chance(0.7) else None, **last)


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(m, op):
    x = m.any(m.types(op), low=1)
    rank = m.values[x].ndim
    axis = m.range(-rank if m.opset >= 11 else 0, rank - 1)
    m.node(op, [x], axis=axis if m.chance(0.8) and (m.opset >= 13 or rank >= 2) else None)


@operator("CumSum")
def cumsum(m, op):
    x = m.any(m.types(op), low=1)
    rank = m.values[x].ndim
    m.node(op, [x, m.arg(np.array(m.range(-rank, rank - 1), m.pick([I32, I64])))],
           exclusive=m.pick([None, 0, 1]), reverse=m.pick([None, 0, 1]))


# ---- products

@operator("MatMul")
def matmul(m, op):
    x = m.any(m.types(op), low=1, accept=lambda v: v.size <= 2048)
    v = m.values[x]
    n = m.pick([1, 2, 3, 4, 8, 15, 16, 17, 32, 33])
    k = v.shape[-1]
    kind = m.range(0, 5)
    if kind == 0:
        shape = (k,)
    elif kind < 3 or v.ndim < 3:
        shape = (k, n)
    else:
        shape = tuple(1 if m.chance(0.3) else d for d in v.shape[:-2]) + (k, n)
        shape = shape[m.range(0, len(shape) - 2):]
    y = m.like(v.dtype, shape)
    if m.chance(0.25) and v.ndim >= 2 and len(shape) >= 2:  # the same product from the other side
        left = m.like(v.dtype, v.shape[:-2] + (m.range(1, 9), v.shape[-2]))
        return m.node(op, [left, x])
    return m.node(op, [x, y])


@operator("Gemm")
def gemm(m, op):
    a = m.any(m.types(op), low=2, high=2)
    v = m.values[a]
    trans_a, trans_b = m.range(0, 1), m.range(0, 1)
    rows, inner = v.shape[::-1] if trans_a else v.shape
    n = m.pick([1, 2, 7, 16, 17, 33])
    b = m.like(v.dtype, (n, inner) if trans_b else (inner, n))
    c = ""
    if m.opset < 11 or m.chance(0.7):
        c = m.like(v.dtype, m.pick([(), (1,), (n,), (rows, 1), (1, n), (rows, n), (1, 1)]))
    scale = {name: m.pick([0.5, 1.0, 2.0, 0.0, -1.0]) for name in ("alpha", "beta") if v.dtype.kind == "f" and m.chance(0.4)}
    m.node(op, [a, b, c], transA=trans_a or None, transB=trans_b or None, **scale)


@operator("Einsum")
def einsum(m, op):
    letters = {c: m.pick([1, 2, 3, 4, 5]) for c in "abcdij"}
    equation = m.pick(["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ij->", "i,j->ij", "...ij,...jk->...ik", "abc,cd->abd",
                       "ij,ij->i", "ij,jk", "bij,bkj->bik", "abij,abjc->abic", "i,i->", "a b -> b a", "...i->...",
                       "iji->j", "ij,jk,kd->id", "abc->cab", "bi,bj->bij", "...,...->...", "ab,cd->acbd", "ijj->i",
                       "Ab,bA->A", "jk,ij", "ij..., j...->i..."])
    plain = equation.replace(" ", "")
    letters.update({"k": m.pick([1, 2, 4]), "A": 3})
    dtype = m.pick(m.types(op, 0, without=(F16,)))
    spread = m.shape(0, 2, 64) if "..." in plain else ()
    names = []
    for term in plain.split("->")[0].split(","):
        head, dots, tail = term.partition("...")
        dims = [letters[c] for c in head] + list(spread if dots else ()) + [letters[c] for c in tail]
        names.append(m.like(dtype, tuple(dims)))
    m.node(op, names, equation=equation)


@operator("MatMulInteger")
def matmul_integer(m, op):
    rows, inner, n = m.range(1, 9), m.pick([1, 3, 4, 16, 17]), m.pick([1, 2, 16, 17])
    ta, tb = m.pick([U8, I8]), m.pick([U8, I8])
    batch = m.shape(0, 2, 16) if m.chance(0.4) else ()
    a = m.like(ta, batch + (rows, inner), "special")
    b = m.like(tb, (batch if m.chance(0.5) else ()) + (inner, n))
    za, zb = "", ""
    if m.chance(0.6):
        za = m.arg(m.data((), ta))
        zb = m.arg(m.data(m.pick([(), (n,)]), tb)) if m.chance(0.6) and m.values[b].ndim == 2 else ""
    m.node(op, [a, b, za, zb])


# ---- convolutions and pooling

def window(m, spatial, ceil=False, dilated=True):
    """Attributes of a window over these dimensions: kernel, strides, pads or auto_pad, dilations."""
    rank = len(spatial)
    kernel = [m.pick([1, 1, 2, 3, 3, 5]) for _ in range(rank)]
    if m.chance(0.3):
        kernel = [kernel[0]] * rank
    out = {"kernel_shape": kernel}
    dilations = [1] * rank
    if dilated and m.chance(0.3):
        dilations = [m.range(1, 3) for _ in range(rank)]
        out["dilations"] = dilations
    if m.chance(0.6):
        out["strides"] = [m.pick([1, 1, 2, 3]) for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    kind = m.range(0, 9)
    if kind < 5:
        pads = [m.range(0, k - 1) for k in reach + reach]
        if m.chance(0.5):
            pads = pads[:rank] * 2
        out["pads"] = pads
    elif kind < 8:
        out["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    pads = out.get("pads", [0] * 2 * rank)
    if not out.get("auto_pad", "").startswith("SAME"):
        for i in range(rank):
            if spatial[i] + pads[i] + pads[rank + i] < reach[i]:
                raise Skip
    if ceil and m.chance(0.4):
        out["ceil_mode"] = m.range(0, 1)
    return out


def image(m, types, rank=None, channels=None, elements=4096):
    """A batch of images: any value of rank 3 to 5, or a new one."""
    rank = rank or m.pick([1, 2, 2, 2, 2, 3])

    def fits(v):
        return v.size > 0 and (channels is None or v.shape[1] == channels)
    names = m.find(types, rank + 2, rank + 2, fits)
    if names and m.chance(0.8):
        return m.pick(names)
    sizes = {1: [1, 3, 8, 17, 31], 2: [1, 3, 5, 7, 8, 12], 3: [1, 3, 4, 5]}[rank]
    shape = [m.pick([1, 1, 2, 3]), channels or m.pick([1, 2, 3, 4, 8, 16, 17, 32])] + [m.pick(sizes) for _ in range(rank)]
    while np.prod(shape) > elements:
        i = int(np.argmax(shape))
        if channels and i == 1:
            shape[2:] = [max(1, d // 2) for d in shape[2:]]
            continue
        shape[i] = max(1, shape[i] // 2)
    dtype = F32 if F32 in types and m.chance(0.7) else m.pick(types)
    return m.new(m.data(tuple(shape), dtype))


def groups_of(m, channels):
    return m.pick([g for g in range(1, channels + 1) if channels % g == 0] + [1, 1, channels])


@operator("Conv")
def conv(m, op):
    x = image(m, m.types(op))
    v = m.values[x]
    out = window(m, v.shape[2:])
    group = groups_of(m, v.shape[1]) if m.chance(0.5) else 1
    filters = group * m.pick([1, 1, 2, 3, 8] if group > 1 else [1, 2, 3, 8, 16, 17, 32])
    if filters > 64:
        filters = group
    w = m.like(v.dtype, (filters, v.shape[1] // group) + tuple(out["kernel_shape"]))
    b = m.like(v.dtype, (filters,)) if m.chance(0.6) else ""
    if m.chance(0.3):
        del out["kernel_shape"]
    m.node(op, [x, w, b], group=group if group > 1 or m.chance(0.2) else None, **out)


@operator("ConvTranspose")
def conv_transpose(m, op):
    x = image(m, m.types(op), elements=1024)
    v = m.values[x]
    rank = v.ndim - 2
    group = groups_of(m, v.shape[1]) if m.chance(0.4) else 1
    filters = m.pick([1, 2, 3, 8])
    kernel = [m.pick([1, 2, 3, 4]) for _ in range(rank)]
    strides = [m.pick([1, 2, 3]) for _ in range(rank)]
    dilations = [m.range(1, 2) for _ in range(rank)] if m.chance(0.3) else [1] * rank
    out = {"kernel_shape": kernel, "strides": strides}
    if dilations != [1] * rank:
        out["dilations"] = dilations
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    full = [(n - 1) * s + r for n, s, r in zip(v.shape[2:], strides, reach)]
    kind = m.range(0, 5)
    if kind < 2:
        pads = [m.range(0, (r - 1) // 2) for r in reach + reach]
        out["pads"] = pads
        if any(f - a - b < 1 for f, a, b in zip(full, pads[:rank], pads[rank:])):
            raise Skip
    elif kind == 2:
        out["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    elif kind == 3:
        out["output_shape"] = [n * s for n, s in zip(v.shape[2:], strides)]
        if any(o > f for o, f in zip(out["output_shape"], full)):
            raise Skip
        if m.chance(0.5):
            out["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "NOTSET"])
    if m.chance(0.3) and "output_shape" not in out:
        out["output_padding"] = [m.range(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    w = m.like(v.dtype, (v.shape[1], filters) + tuple(kernel))
    b = m.like(v.dtype, (filters * group,)) if m.chance(0.5) else ""
    m.node(op, [x, w, b], group=group if group > 1 else None, **out)


@operator("AveragePool", "MaxPool", "LpPool")
def pool(m, op):
    types = m.types(op)
    x = image(m, types)
    v = m.values[x]
    out = window(m, v.shape[2:], ceil=m.opset >= 10 and op != "LpPool", dilated=op == "MaxPool" and m.opset >= 10)
    if op == "AveragePool" and m.chance(0.5):
        out["count_include_pad"] = m.range(0, 1)
    if op == "LpPool" and m.chance(0.7):
        out["p"] = m.range(1, 3)
    indices = op == "MaxPool" and m.opset >= 8 and m.chance(0.3)
    if op == "MaxPool" and m.opset >= 8 and indices and m.chance(0.4):
        out["storage_order"] = m.range(0, 1)
    m.node(op, [x], 2 if indices else 1, **out)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m, op):
    x = image(m, m.types(op))
    m.node(op, [x], p=m.range(1, 3) if op == "GlobalLpPool" and m.chance(0.5) else None)


@operator("MaxUnpool")
def max_unpool(m, op):
    x = m.new(m.numpy.permutation(2 * 36).reshape(1, 2, 6, 6).astype(F32), fixed=m.chance(0.2))
    kernel = [2, m.range(1, 2)]
    pads = [0, 0, 0, 0]
    pooled, places = m.node("MaxPool", [x], 2, kernel_shape=kernel, strides=kernel, pads=pads)
    shape = m.arg(np.array([1, 2, 6 + m.range(0, 2), 6 + m.range(0, 2)], I64)) if m.chance(0.4) else ""
    m.node(op, [pooled, places, shape], kernel_shape=kernel, strides=kernel)


@operator("ConvInteger")
def conv_integer(m, op):
    x = image(m, [U8, I8], rank=2)
    v = m.values[x]
    out = window(m, v.shape[2:])
    group = groups_of(m, v.shape[1]) if m.chance(0.3) else 1
    w = m.like(m.pick([U8, I8]), (group * m.range(1, 3), v.shape[1] // group) + tuple(out["kernel_shape"]))
    zero = m.chance(0.6)
    zx = m.arg(m.data((), v.dtype)) if zero else ""
    zw = m.arg(m.data((), m.values[w].dtype)) if zero and m.chance(0.5) else ""
    m.node(op, [x, w, zx, zw], group=group if group > 1 else None, **out)


# ---- norms

@operator("BatchNormalization")
def batch_norm(m, op):
    x = m.any(m.types(op), low=2, accept=lambda v: v.size > 0)
    v = m.values[x]
    c = (v.shape[1],)
    stats = [m.new(m.data(c, v.dtype, "positive"), fixed=m.chance(0.6)) for _ in range(4)]
    training = m.opset >= 14 and m.chance(0.2)
    spatial = {"spatial": 1} if m.opset < 9 and m.chance(0.5) else {}
    m.node(op, [x] + stats, 3 if training else 1, epsilon=m.pick([None, 1e-3, 0.1]),
           momentum=m.pick([None, 0.5]), training_mode=1 if training else None, **spatial)


@operator("InstanceNormalization")
def instance_norm(m, op):
    x = image(m, m.types(op))
    v = m.values[x]
    m.node(op, [x, m.like(v.dtype, (v.shape[1],)), m.like(v.dtype, (v.shape[1],))], epsilon=m.pick([None, 1e-3, 0.1]))


@operator("LayerNormalization")
def layer_norm(m, op):
    x = m.any(m.types(op), low=1, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = m.range(-v.ndim, v.ndim - 1)
    tail = v.shape[axis:] if axis != -v.ndim else v.shape
    if m.chance(0.2):
        tail = tail[-1:]
    b = m.like(v.dtype, tail) if m.chance(0.6) else ""
    m.node(op, [x, m.like(v.dtype, tail), b], m.pick([1, 1, 3]), axis=axis if m.chance(0.8) or axis != -1 else None,
           epsilon=m.pick([None, 1e-3]))


@operator("LRN")
def lrn(m, op):
    x = image(m, m.types(op), rank=2)
    m.node(op, [x], size=m.pick([1, 2, 3, 4, 5, 7]), alpha=m.pick([None, 0.5]), beta=m.pick([None, 0.5]),
           bias=m.pick([None, 2.0]))


@operator("LpNormalization")
def lp_norm(m, op):
    x = m.any(m.types(op), low=1, kind="positive")
    rank = m.values[x].ndim
    m.node(op, [x], axis=m.pick([None, m.range(-rank, rank - 1)]), p=m.pick([None, 1, 2]))


@operator("MeanVarianceNormalization")
def mvn(m, op):
    x = m.any(m.types(op), low=4, high=4, accept=lambda v: v.size > 0)
    m.node(op, [x], axes=m.pick([None, [0, 2, 3], [0, 1, 2, 3], [-1], [1, 2]]))


# ---- recurrences

ACTIVATIONS = ["Tanh", "Sigmoid", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
               "Softsign", "Softplus"]


@operator("RNN", "LSTM", "GRU")
def recurrent(m, op):
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[op]
    functions = {"RNN": 1, "LSTM": 3, "GRU": 2}[op]
    dtype = m.pick([F32, F32, F32, F64])
    steps, batch, size, hidden = m.range(1, 5), m.range(1, 3), m.range(1, 5), m.pick([1, 2, 3, 4, 8])
    direction = m.pick([None, "forward", "reverse", "bidirectional"])
    dirs = 2 if direction == "bidirectional" else 1
    layout = m.range(0, 1) if m.opset >= 14 and m.chance(0.3) else None

    def swap(shape):
        return (shape[1], shape[0]) + shape[2:] if layout else shape
    x = m.like(dtype, swap((steps, batch, size)), "real")
    inputs = [x] + [m.new(m.data(s, dtype, "unit"), "w", m.chance(0.7)) for s in
                    [(dirs, gates * hidden, size), (dirs, gates * hidden, hidden)]]
    inputs.append(m.new(m.data((dirs, 2 * gates * hidden), dtype, "unit"), fixed=True) if m.chance(0.6) else "")
    lengths = np.sort(m.numpy.integers(1, steps + 1, batch).astype(I32))[::-1].copy()
    inputs.append(m.arg(lengths) if m.chance(0.4) else "")
    for _ in range(2 if op == "LSTM" else 1):
        inputs.append(m.new(m.data(swap((dirs, batch, hidden)), dtype, "unit")) if m.chance(0.4) else "")
    if op == "LSTM" and m.chance(0.4):
        inputs.append(m.new(m.data((dirs, 3 * hidden), dtype, "unit"), fixed=True))
    attributes = {"hidden_size": hidden, "direction": direction, "layout": layout}
    if m.chance(0.4):
        attributes["activations"] = [m.pick(ACTIVATIONS[:3] if m.chance(0.5) else ACTIVATIONS) for _ in range(functions * dirs)]
        if m.chance(0.3) or set(attributes["activations"]) - set(ACTIVATIONS[:3]):  # defaults differ
            attributes["activation_alpha"] = [0.5] * (functions * dirs)
            attributes["activation_beta"] = [0.25] * (functions * dirs)
    if m.chance(0.3):
        attributes["clip"] = m.pick([0.3, 1.0, 3.0])
    if op == "GRU" and m.chance(0.5):
        attributes["linear_before_reset"] = m.range(0, 1)
    if op == "LSTM" and m.chance(0.2):
        attributes["input_forget"] = m.range(0, 1)
    outputs = [m.chance(0.8) for _ in range(3 if op == "LSTM" else 2)]
    if not any(outputs):
        outputs[0] = True
    m.node(op, inputs, outputs, **attributes)


# ---- losses, optimizers and quantities

@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(m, op):
    x = m.any([t for t in m.types(op) if t != F16], low=2, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    shape = v.shape[:1] + v.shape[2:]
    target = m.numpy.integers(0, v.shape[1], shape).astype(m.pick([I32, I64]))
    ignore = m.range(-1, v.shape[1] - 1) if m.chance(0.4) else None
    weight = m.new(m.data((v.shape[1],), v.dtype, "positive")) if m.chance(0.5) else ""
    outputs = m.pick([1, 2]) if op == "SoftmaxCrossEntropyLoss" else 1
    m.node(op, [x, m.new(target), weight], outputs, reduction=m.pick([None, "none", "sum", "mean"]), ignore_index=ignore)


@operator("QuantizeLinear", "DequantizeLinear")
def quantize(m, op):
    types = [F32] if op == "QuantizeLinear" else m.types(op)
    x = m.any(types + ([I32] if op == "QuantizeLinear" and m.chance(0.2) else []), low=0,
              kind="real" if op == "QuantizeLinear" else None)
    v = m.values[x]
    per_axis = m.opset >= 13 and v.ndim >= 1 and m.chance(0.5)
    axis = m.range(-v.ndim, v.ndim - 1) if per_axis else None
    shape = (v.shape[axis],) if per_axis else ()
    scale = m.arg(m.numpy.choice([0.5, 0.25, 0.1, 2.0], shape).astype(F32))
    zero_type = v.dtype if op == "DequantizeLinear" else m.pick([U8, I8])
    zero = m.arg(m.data(shape, zero_type) if zero_type != I32 else np.zeros(shape, I32)) if m.chance(0.7) else ""
    m.node(op, [x, scale, zero], axis=axis)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(m, op):
    x = m.any([F32], low=0, accept=lambda v: v.size > 0, kind="real")
    m.node(op, [x], 3)


def scales(m, shape=()):
    return m.arg(m.numpy.choice([0.5, 0.25, 0.1], shape).astype(F32))


@operator("QLinearMatMul")
def qlinear_matmul(m, op):
    rows, inner, n = m.range(1, 9), m.pick([1, 3, 4, 16]), m.pick([1, 2, 16])
    batch = m.shape(0, 2, 16) if m.chance(0.3) else ()
    ta, tb = m.pick([U8, I8]), m.pick([U8, I8])
    ty = ta
    a, b = m.like(ta, batch + (rows, inner)), m.like(tb, batch + (inner, n))
    per_column = not batch and m.chance(0.3)
    shape = (n,) if per_column else ()
    m.node(op, [a, scales(m), m.arg(m.data((), ta)), b, scales(m, shape), m.arg(m.data(shape, tb)), scales(m),
                m.arg(m.data((), ty))])


@operator("QLinearConv")
def qlinear_conv(m, op):
    x = image(m, [U8, I8], rank=2)
    v = m.values[x]
    out = window(m, v.shape[2:])
    group = groups_of(m, v.shape[1]) if m.chance(0.3) else 1
    filters = group * m.range(1, 3)
    tw = m.pick([U8, I8]) if v.dtype == U8 else I8
    w = m.new(m.data((filters, v.shape[1] // group) + tuple(out["kernel_shape"]), tw), fixed=True)
    shape = (filters,) if m.chance(0.4) else ()
    b = m.new(m.data((filters,), I32), fixed=True) if m.chance(0.5) else ""
    zero_w = np.full(shape, m.pick([0, 1, 3]), tw)
    m.node(op, [x, scales(m), m.arg(m.data((), v.dtype)), w, scales(m, shape), m.arg(zero_w, fixed=True), scales(m),
                m.arg(m.data((), v.dtype)), b], group=group if group > 1 else None, **out)


TRAINING = "ai.onnx.preview.training"


@operator("Adagrad", "Adam", "Momentum")
def optimizer(m, op):
    pairs = m.range(1, 2)
    per = {"Adagrad": 3, "Adam": 4, "Momentum": 3}[op]
    shapes = [m.shape(0, 3, 64) for _ in range(pairs)]
    inputs = [m.arg(np.array(0.1, F32)), m.arg(np.array(m.range(0, 3), I64))]
    for _ in range(per):
        inputs += [m.new(m.data(shape, F32, "positive")) for shape in shapes]
    attributes = {"norm_coefficient": 0.01}
    if op == "Adagrad":
        attributes.update(decay_factor=0.1, epsilon=1e-5)
    elif op == "Adam":
        attributes.update(alpha=0.9, beta=0.99, epsilon=1e-5)
    else:
        attributes.update(alpha=0.9, beta=0.8, mode=m.pick(["standard", "nesterov"]))
    m.node(op, inputs, pairs * (per - 1), domain=TRAINING, **attributes)
