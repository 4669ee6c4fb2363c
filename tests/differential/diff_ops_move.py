"""Generators for the operators that move data, look things up, resample, transform signals and handle text."""
import numpy as np

from diff_engines import NUMBERS
from diff_model import BOOL, F16, F32, F64, I32, I64, TEXT, Skip
from diff_ops_math import axes_of, image, operator


def axis_of(m, rank, negative_since=11, low=0):
    return m.range(-rank if m.opset >= negative_since else 0, rank - 1) if rank else low


@operator("Transpose")
def transpose(m, op):
    x = m.any(m.types(op), high=6)
    perm = list(range(m.values[x].ndim))
    m.random.shuffle(perm)
    m.node(op, [x], perm=perm if m.chance(0.85) and perm else None)


@operator("Reshape")
def reshape(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    dims = factors(m, v.size) if v.size else list(v.shape)
    allow = {}
    if v.size == 0 and m.opset >= 14 and m.chance(0.5):
        allow = {"allowzero": 1}
    elif dims and m.chance(0.5) and v.size:
        dims[m.range(0, len(dims) - 1)] = -1
    if not allow:
        for i, d in enumerate(dims):
            if i < v.ndim and d == v.shape[i] and m.chance(0.5):
                dims[i] = 0
    if v.size == 0 and not allow and any(d == 0 and (i >= v.ndim or v.shape[i] != 0) for i, d in enumerate(dims)):
        raise Skip
    m.node(op, [x, m.arg(np.array(dims, I64))], **allow)


def factors(m, size):
    dims = []
    while size > 1 and len(dims) < 5:
        divisor = m.pick([d for d in range(1, size + 1) if size % d == 0])
        dims.append(divisor)
        size //= divisor
    if size > 1:
        dims.append(size)
    if not dims and m.chance(0.7):
        dims = [1]
    return dims


@operator("Flatten")
def flatten(m, op):
    x = m.any(m.types(op), low=0 if m.opset >= 11 else 1)
    rank = m.values[x].ndim
    m.node(op, [x], axis=m.pick([None, m.range(-rank if m.opset >= 11 else 0, rank)]) if rank else m.pick([0, 0, None]))


@operator("Squeeze")
def squeeze(m, op):
    x = m.any(m.types(op), accept=lambda v: 1 in v.shape)
    v = m.values[x]
    axes = [a for a, d in enumerate(v.shape) if d == 1 and m.chance(0.6)]
    axes = [a - v.ndim if m.opset >= 11 and m.chance(0.3) else a for a in axes]
    if m.opset >= 13:
        return m.node(op, [x, m.arg(np.array(axes, I64)) if axes else ""])
    return m.node(op, [x], axes=axes or None)


@operator("Unsqueeze")
def unsqueeze(m, op):
    x = m.any(m.types(op), high=4)
    rank = m.values[x].ndim
    count = m.range(1, 3)
    axes = m.random.sample(range(rank + count), count)
    if m.opset < 11:
        axes.sort()
    axes = [a - rank - count if m.opset >= 11 and m.chance(0.3) else a for a in axes]
    if m.opset >= 13:
        return m.node(op, [x, m.arg(np.array(axes, I64))])
    return m.node(op, [x], axes=axes)


@operator("Expand")
def expand(m, op):
    x = m.any(m.types(op))
    v = m.values[x]
    dims = [m.pick([1, d]) if d != 1 else m.pick([1, 2, 3]) for d in v.shape][m.range(0, v.ndim):]
    if m.chance(0.3):
        dims = [m.range(1, 3) for _ in range(v.ndim + 1 - len(dims))] + dims
        dims = dims[-(v.ndim + 1):]
    if np.prod(dims, dtype=int) * max(v.size, 1) > 20000:
        raise Skip
    try:
        np.broadcast_shapes(v.shape, tuple(dims))
    except ValueError:
        raise Skip from None
    m.node(op, [x, m.arg(np.array(dims, I64))])


@operator("Tile")
def tile(m, op):
    x = m.any(m.types(op), low=1)
    v = m.values[x]
    repeats = [m.pick([1, 1, 2, 3, 0] if m.chance(0.1) else [1, 1, 2, 3]) for _ in range(v.ndim)]
    if np.prod(repeats) * v.size > 20000:
        raise Skip
    m.node(op, [x, m.arg(np.array(repeats, I64))])


@operator("Concat")
def concat(m, op):
    x = m.any(m.types(op), low=1)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    names = [x]
    for _ in range(m.range(0, 4)):
        shape = list(v.shape)
        shape[axis] = m.pick([shape[axis], m.range(1, 4), 0 if m.chance(0.1) else 1])
        names.append(x if m.chance(0.15) else m.like(v.dtype, tuple(shape)))
    m.random.shuffle(names)
    m.node(op, names, axis=axis)


@operator("Split")
def split(m, op):
    x = m.any(m.types(op), low=1)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    size = v.shape[axis]
    if size == 0:
        raise Skip
    count = m.range(1, min(4, size))
    cuts = sorted(m.range(0, size) if m.chance(0.1) else m.range(1, size) for _ in range(count - 1))
    sizes = [int(b - a) for a, b in zip([0] + cuts, cuts + [size])]
    sizes = None if size % count == 0 and m.chance(0.4) else sizes
    attributes = {"axis": axis if axis != 0 or m.chance(0.5) else None}
    if m.opset >= 13:
        return m.node(op, [x, m.arg(np.array(sizes, I64)) if sizes else ""], count, **attributes)
    return m.node(op, [x], count, split=sizes, **attributes)


@operator("Slice")
def slice_(m, op):
    x = m.any(m.types(op), low=1, high=6)
    v = m.values[x]
    axes = [a for a in range(v.ndim) if m.chance(0.6)] or [m.range(0, v.ndim - 1)]
    starts, ends, steps = [], [], []
    for axis in axes:
        size = v.shape[axis]
        step = m.pick([1, 1, 1, 2, 3, -1, -2]) if m.opset >= 10 else 1
        start, end = m.range(-size - 1, size + 1), m.range(-size - 1, size + 1)
        if m.chance(0.25):
            start, end = (0, 2**63 - 1) if step > 0 else (2**63 - 1, -2**63)
        elif m.chance(0.6) and step > 0:
            start, end = sorted([m.range(0, size), m.range(0, size)])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if m.opset < 10:
        return m.node(op, [x], axes=axes if m.chance(0.8) or axes != list(range(len(axes))) else None, starts=starts, ends=ends)
    dtype = I64 if max(map(abs, starts + ends)) >= 2**31 else m.pick([I32, I64])
    signed = [a - v.ndim if m.opset >= 11 and m.chance(0.3) else a for a in axes]
    names = [m.arg(np.array(starts, dtype)), m.arg(np.array(ends, dtype))]
    plain = axes == list(range(len(axes)))
    has_steps = any(s != 1 for s in steps) or m.chance(0.3)
    if not plain or has_steps or m.chance(0.5):
        names.append("" if plain and m.chance(0.3) else m.arg(np.array(signed, dtype)))
    if has_steps:
        names.append(m.arg(np.array(steps, dtype)))
    return m.node(op, [x] + names)


@operator("Pad")
def pad(m, op):
    x = m.any([t for t in m.types(op) if t != TEXT], low=1)
    v = m.values[x]
    mode = m.pick([None, "constant", "reflect", "edge"])
    pads = []
    for _ in range(2):
        for d in v.shape:
            most = 3 if mode in (None, "constant") else (d - 1 if mode == "reflect" else (3 if d else 0))
            low = -min(d // 2, 1) if m.chance(0.15) and mode in (None, "constant") else 0
            pads.append(m.range(low, max(0, min(3, most))))
    value = m.pick([None, 1.5, -2.0])
    if m.opset < 11:
        return m.node(op, [x], pads=pads, mode=mode, value=value)
    constant = m.arg(np.array(value).astype(v.dtype) if value is not None and v.dtype.kind in "f" else m.data((), v.dtype)) \
        if m.chance(0.6) else ""
    return m.node(op, [x, m.arg(np.array(pads, I64)), constant], mode=mode)


@operator("DepthToSpace")
def depth_to_space(m, op):
    block = m.range(1, 3)
    x = m.any(m.types(op), low=4, high=4, accept=lambda v: v.shape[1] % (block * block) == 0 and v.shape[1] > 0,
              fixed={1: block * block * m.range(1, 3)})
    m.node(op, [x], blocksize=block, mode=m.pick([None, "DCR", "CRD"]) if m.opset >= 11 else None)


@operator("SpaceToDepth")
def space_to_depth(m, op):
    block = m.range(1, 3)
    x = m.any(m.types(op), low=4, high=4, accept=lambda v: v.shape[2] % block == 0 and v.shape[3] % block == 0,
              fixed={2: block * m.range(1, 3), 3: block * m.range(1, 3)})
    m.node(op, [x], blocksize=block)


@operator("Shape", "Size")
def shape(m, op):
    x = m.any(m.types(op))
    bounds = {n: m.range(-4, 4) for n in ("start", "end") if m.chance(0.5)} if op == "Shape" and m.opset >= 15 else {}
    m.node(op, [x], **bounds)


@operator("Constant")
def constant(m, op):
    kind = m.range(0, 5) if m.opset >= 12 else 0
    value = [{"value": m.data(m.shape(0, 3, 64), m.pick([F32, I64, F64, BOOL]))}, {"value_float": 1.5}, {"value_int": -3},
             {"value_floats": [1.0, 2.5]}, {"value_ints": [3, -1, 2]}, {"value_ints": [1]}][kind]
    m.node(op, [], **value)


@operator("ConstantOfShape")
def constant_of_shape(m, op):
    value = m.data((1,), m.pick([t for t in m.types(op, "T2")])) if m.chance(0.7) else None
    m.node(op, [m.arg(np.array(m.shape(0, 4, 256), I64))], value=value)


@operator("EyeLike")
def eye_like(m, op):
    x = m.any([t for t in m.types(op)], low=2, high=2)
    dtype = m.pick([F32, F64, I32, I64]) if m.chance(0.4) else None
    m.node(op, [x], dtype=NUMBERS[dtype] if dtype else None, k=m.pick([None, 0, 1, -1, -2, 5]))


@operator("Range")
def range_(m, op):
    dtype = m.pick(m.types(op))
    start, delta, count = m.range(-3, 3), m.pick([1, 2, -1, -2, 3]), m.range(0, 9)
    if dtype.kind == "f" and m.chance(0.5):
        delta = delta / 2
    limit = start + delta * count - (m.pick([0, 0.25 if dtype.kind == "f" else 0]) if delta > 0 else 0)
    m.node(op, [m.arg(np.array(v, dtype)) for v in (start, limit, delta)])


@operator("Trilu")
def trilu(m, op):
    x = m.any(m.types(op), low=2)
    k = m.arg(np.array(m.range(-3, 3), I64)) if m.chance(0.6) else ""
    m.node(op, [x, k], upper=m.pick([None, 0, 1]))


@operator("OneHot")
def one_hot(m, op):
    depth = m.range(1, 6)
    shape = m.shape(0, 3, 128)
    indices = m.numpy.integers(-depth - 1 if m.chance(0.3) else -depth, depth + 1, shape)
    indices = np.asarray(indices).astype(m.pick([I32, I64, F32] if m.chance(0.3) else [I64]))
    values = m.arg(m.data((2,), m.pick([F32, I64, I32])))
    rank = len(shape) + 1
    m.node(op, [m.new(indices, "c"), m.arg(np.array(depth, I64) if m.chance(0.7) else np.array([depth], I64)), values],
           axis=m.pick([None, m.range(-rank, rank - 1)]))


# ---- indexed

def indices(m, size, shape, since=11, dtype=None):
    low = -size if m.opset >= since else 0
    return np.asarray(m.numpy.integers(low, size, shape)).astype(dtype or m.pick([I32, I64]))


@operator("Gather")
def gather(m, op):
    x = m.any(m.types(op), low=1, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    m.node(op, [x, m.arg(indices(m, v.shape[axis], m.shape(0, 3, 48)))], axis=axis if axis or m.chance(0.5) else None)


@operator("GatherElements")
def gather_elements(m, op):
    x = m.any(m.types(op), low=1, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    shape = [m.range(1, d) for d in v.shape]
    shape[axis] = m.range(1, 6)
    m.node(op, [x, m.arg(indices(m, v.shape[axis], shape))], axis=axis if axis or m.chance(0.5) else None)


@operator("GatherND")
def gather_nd(m, op):
    x = m.any(m.types(op), low=1, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    batch = m.range(0, v.ndim - 1) if m.opset >= 12 and m.chance(0.4) else 0
    depth = m.range(1, v.ndim - batch)
    lead = v.shape[:batch] + m.shape(0 if batch else 1, 2, 12)
    columns = [indices(m, v.shape[batch + i], lead, 11, I64) for i in range(depth)]
    if len(lead) == 0:
        columns = [np.asarray(c) for c in columns]
    m.node(op, [x, m.arg(np.stack(columns, -1))], batch_dims=batch or None)


@operator("Scatter", "ScatterElements")
def scatter_elements(m, op):
    x = m.any(m.types(op), low=1, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    shape = [m.range(1, d) for d in v.shape]
    reduction = m.pick([None, "none", "add", "mul"]) if m.opset >= 16 and v.dtype.kind in "fiu" else None
    count = v.shape[axis]
    if reduction in (None, "none"):  # no index twice, or the result is open
        order = np.argsort(m.numpy.random(tuple(shape[:axis % v.ndim]) + (count,) + tuple(shape[axis % v.ndim + 1:])), axis)
        places = np.take(order, np.arange(shape[axis]), axis)
        negative = m.numpy.random(places.shape) < (0.3 if m.opset >= 11 else 0)
        places = np.where(negative, places - count, places).astype(m.pick([I32, I64]))
    else:
        places = indices(m, count, shape)
    m.node(op, [x, m.arg(places), m.like(v.dtype, places.shape)], axis=axis if axis or m.chance(0.5) else None,
           reduction=reduction)


@operator("ScatterND")
def scatter_nd(m, op):
    x = m.any(m.types(op), low=1, high=4, accept=lambda v: v.size > 0)
    v = m.values[x]
    depth = m.range(1, v.ndim)
    reduction = m.pick([None, "none", "add", "mul"]) if m.opset >= 16 and v.dtype.kind in "fiu" else None
    total = int(np.prod(v.shape[:depth]))
    count = m.range(1, min(6, total))
    flat = m.numpy.choice(total, count, replace=reduction not in (None, "none"))
    places = np.stack(np.unravel_index(flat, v.shape[:depth]), -1).astype(I64)
    if m.chance(0.3) and m.opset >= 11:
        places = places - np.array(v.shape[:depth], I64) * (m.numpy.random(places.shape) < 0.5)
    if count % 2 == 0 and m.chance(0.3):
        places = places.reshape(2, count // 2, depth)
    m.node(op, [x, m.arg(places.astype(I64)), m.like(v.dtype, places.shape[:-1] + v.shape[depth:])], reduction=reduction)


@operator("Compress")
def compress(m, op):
    x = m.any(m.types(op), low=1)
    v = m.values[x]
    axis = m.pick([None, axis_of(m, v.ndim)])
    size = v.size if axis is None else v.shape[axis]
    m.node(op, [x, m.arg(m.data((m.range(0, size),), BOOL))], axis=axis)


@operator("NonZero")
def non_zero(m, op):
    m.node(op, [m.any(m.types(op), low=0 if m.opset >= 13 else 1, kind=m.pick([None, "exact"]))])


@operator("Unique")
def unique(m, op):
    x = m.any(m.types(op), low=1, accept=lambda v: v.size > 0, kind="exact")
    v = m.values[x]
    outputs = [True] + [m.chance(0.6) for _ in range(3)]
    m.node(op, [x], outputs, axis=m.pick([None, m.range(-v.ndim, v.ndim - 1)]), sorted=m.pick([None, 0, 1]))


@operator("TopK")
def top_k(m, op):
    x = m.any(m.types(op), low=1, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = axis_of(m, v.ndim)
    k = m.range(0 if m.chance(0.1) else 1, v.shape[axis])
    attributes = {"axis": axis}
    if m.opset >= 11:
        attributes.update(largest=m.pick([None, 0, 1]))
    return m.node(op, [x, m.arg(np.array([k], I64))], 2, **attributes) if m.opset >= 10 else \
        m.node(op, [x], 2, k=max(1, k), **attributes)


@operator("ReverseSequence")
def reverse_sequence(m, op):
    x = m.any(m.types(op), low=2, accept=lambda v: min(v.shape[:2]) > 0)
    v = m.values[x]
    batch = m.range(0, 1)
    lengths = np.asarray(m.numpy.integers(0 if m.chance(0.1) else 1, v.shape[1 - batch] + 1, v.shape[batch])).astype(I64)
    m.node(op, [x, m.arg(lengths)], batch_axis=batch, time_axis=1 - batch)


@operator("NonMaxSuppression")
def nms(m, op):
    batches, boxes, classes = m.range(1, 2), m.range(1, 12), m.range(1, 3)
    low = m.numpy.uniform(0, 5, (batches, boxes, 2))
    corners = np.concatenate([low, low + m.numpy.uniform(0.5, 4, (batches, boxes, 2))], -1).astype(F32)
    scores = m.numpy.permutation(batches * classes * boxes).reshape(batches, classes, boxes).astype(F32) / 40
    centre = m.range(0, 1)
    if not centre and m.chance(0.3):
        corners = corners[..., [2, 1, 0, 3]]
    args = [m.arg(np.array([m.range(0, 5)], I64) if m.chance(0.8) else np.array(3, I64)) if m.chance(0.85) else "",
            m.arg(np.array([m.pick([0.0, 0.3, 0.5, 1.0])], F32)) if m.chance(0.7) else "",
            m.arg(np.array([m.pick([0.0, 0.2, 0.5])], F32)) if m.chance(0.6) else ""]
    m.node(op, [m.new(corners, "c"), m.new(scores, "c")] + args, center_point_box=centre if centre or m.chance(0.3) else None)


# ---- vision

@operator("Resize", "Upsample")
def resize(m, op):
    x = m.any([F32] if m.chance(0.8) else [t for t in m.types(op) if t.kind in "fiu"], low=2, high=5,
              accept=lambda v: v.size > 0 and v.size < 1500)
    v = m.values[x]
    mode = m.pick(["nearest", "linear", "cubic"]) if op == "Resize" and m.opset >= 11 else m.pick(["nearest", "linear"])
    spatial = {"linear": 2, "cubic": 2}.get(mode, v.ndim)
    factors_ = [1.0] * v.ndim
    for i in range(v.ndim - min(spatial, v.ndim) if mode != "nearest" else max(0, v.ndim - 2), v.ndim):
        factors_[i] = m.pick([1.0, 2.0, 3.0, 1.5, 0.5, 0.75, 2.5, 0.6])
    if op == "Upsample":
        factors_ = [max(1.0, f) for f in factors_]
        if m.opset < 9:
            return m.node(op, [x], mode=mode, scales=factors_)
        return m.node(op, [x, m.arg(np.array(factors_, F32))], mode=mode)
    if m.opset == 10:
        return m.node(op, [x, m.arg(np.array(factors_, F32))], mode=mode)
    transform = m.pick([None, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
                       + (["tf_half_pixel_for_nn"] if m.opset < 13 else []))
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest" and m.chance(0.7):
        attributes["nearest_mode"] = m.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes["cubic_coeff_a"] = m.pick([None, -0.5, -0.75])
        attributes["exclude_outside"] = m.pick([None, 0, 1])
    roi = ""
    if transform == "tf_crop_and_resize":
        roi = m.arg(np.array([0.0] * (v.ndim - 2) + [m.pick([0.0, 0.1, 0.25])] * 2 + [1.0] * (v.ndim - 2)
                             + [m.pick([0.8, 1.0, 1.3])] * 2, F32))
        attributes["extrapolation_value"] = m.pick([None, 10.0])
    elif m.opset < 13:
        roi = m.new(np.zeros(0, F32), fixed=True)
    if m.chance(0.5):
        return m.node(op, [x, roi, m.arg(np.array(factors_, F32))], **attributes)
    sizes = np.array([max(1, int(d * f)) for d, f in zip(v.shape, factors_)], I64)
    empty = "" if m.opset >= 13 else m.new(np.zeros(0, F32), fixed=True)
    return m.node(op, [x, roi, empty, m.arg(sizes)], **attributes)


@operator("GridSample")
def grid_sample(m, op):
    x = image(m, [F32], rank=2)
    v = m.values[x]
    grid = m.numpy.uniform(-1.3, 1.3, (v.shape[0], m.range(1, 5), m.range(1, 5), 2)).astype(F32)
    m.node(op, [x, m.new(grid)], mode=m.pick([None, "bilinear", "nearest", "bicubic"]),
           padding_mode=m.pick([None, "zeros", "border", "reflection"]), align_corners=m.pick([None, 0, 1]))


def rois(m, shape, count, scale):
    low = m.numpy.uniform(0, 3, (count, 2))
    boxes = np.concatenate([low, low + m.numpy.uniform(0.5, 5, (count, 2))], -1) / scale
    return boxes.astype(F32), m.numpy.integers(0, shape[0], count).astype(I64)


@operator("RoiAlign")
def roi_align(m, op):
    x = image(m, [F32], rank=2)
    scale = m.pick([1.0, 0.5])
    boxes, batch = rois(m, m.values[x].shape, m.range(1, 4), scale)
    shift = {"coordinate_transformation_mode": m.pick([None, "half_pixel", "output_half_pixel"])} if m.opset >= 16 else {}
    m.node(op, [x, m.new(boxes, "c"), m.new(batch, "c")], mode=m.pick([None, "avg", "max"]), output_height=m.pick([None, 1, 2, 3]),
           output_width=m.pick([None, 1, 2, 3]), sampling_ratio=m.pick([None, 0, 1, 2, 3]), spatial_scale=scale, **shift)


@operator("MaxRoiPool")
def max_roi_pool(m, op):
    x = image(m, [F32], rank=2)
    boxes, batch = rois(m, m.values[x].shape, m.range(1, 4), 1.0)
    m.node(op, [x, m.new(np.concatenate([batch[:, None], np.round(boxes)], -1).astype(F32), "c")],
           pooled_shape=[m.range(1, 3), m.range(1, 3)], spatial_scale=m.pick([None, 0.5]))


@operator("Det")
def det(m, op):
    n = m.range(1, 5)
    m.node(op, [m.like(m.pick([F32, F64]), m.shape(0, 2, 12) + (n, n), "real")])


# ---- signals, text, chance

@operator("DFT")
def dft(m, op):
    dtype = m.pick([F32, F64])
    shape = m.shape(1, 3, 64) + (m.pick([1, 2]),)
    if 0 in shape or len(shape) < 2:
        raise Skip
    if len(shape) == 2:
        shape = (1,) + shape
    x = m.like(dtype, shape)
    real = shape[-1] == 1
    length = m.arg(np.array(m.range(1, 9), I64)) if m.chance(0.4) else ""
    inverse = m.chance(0.3)
    m.node(op, [x, length], axis=m.range(1, len(shape) - 2), inverse=1 if inverse else None,
           onesided=1 if real and not inverse and m.chance(0.4) else None)


@operator("STFT")
def stft(m, op):
    dtype = m.pick([F32, F64])
    size, frame, step = m.range(8, 32), m.range(2, 8), m.range(1, 4)
    x = m.like(dtype, (m.range(1, 2), size, 1))
    kind = m.range(0, 2)
    weights = m.arg(m.data((frame,), dtype, "positive")) if kind else ""
    m.node(op, [x, m.arg(np.array(step, I64)), weights, m.arg(np.array(frame, I64)) if kind != 1 else ""],
           onesided=m.pick([None, 0, 1]))


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def signal_window(m, op):
    m.node(op, [m.arg(np.array(m.range(1, 17), m.pick([I32, I64])))], periodic=m.pick([None, 0, 1]),
           output_datatype=m.pick([None, 1, 11]))


@operator("MelWeightMatrix")
def mel(m, op):
    m.node(op, [m.arg(np.array(v, t)) for v, t in [(m.range(2, 8), I64), (m.pick([16, 32]), I64), (8192, I64),
                                                   (m.pick([0.0, 40.0]), F32), (4096.0, F32)]])


@operator("StringNormalizer")
def string_normalizer(m, op):
    shape = m.pick([(m.range(1, 6),), (1, m.range(1, 6))])
    m.node(op, [m.new(m.data(shape, TEXT))], case_change_action=m.pick([None, "NONE", "LOWER", "UPPER"]),
           is_case_sensitive=m.pick([None, 0, 1]), stopwords=m.pick([None, ["a"], ["ab", "ZEBRA"]]))


@operator("TfIdfVectorizer")
def tf_idf(m, op):
    pool = [m.range(0, 4) for _ in range(3)]
    for _ in range(2):
        pool += [m.range(0, 4), m.range(0, 4)]
    low = m.range(1, 2)
    shape = m.pick([(m.range(1, 9),), (m.range(1, 3), m.range(1, 9))])
    x = m.new(np.asarray(m.numpy.integers(0, 5, shape)).astype(m.pick([I32, I64])))
    grams = len(set(pool[:3])) == 3 and tuple(pool[3:5]) != tuple(pool[5:7])
    if not grams:
        raise Skip
    m.node(op, [x], mode=m.pick(["TF", "IDF", "TFIDF"]), min_gram_length=low, max_gram_length=m.range(low, 2),
           max_skip_count=m.range(0, 2), pool_int64s=pool, ngram_counts=[0, 3], ngram_indexes=[4, 0, 1, 3, 2],
           weights=m.pick([None, [0.5, 2.0, 1.0, 3.0, 1.5]]))


@operator("Dropout")
def dropout(m, op):
    x = m.any(m.types(op))
    outputs = m.pick([1, 2])
    if m.opset < 12:  # the mask of an inference is not specified
        return m.node(op, [x], 1, ratio=m.pick([None, 0.3]))
    ratio = m.arg(np.array(m.pick([0.0, 0.3]), m.pick([F32, F64]))) if m.chance(0.5) else ""
    return m.node(op, [x, ratio, m.arg(np.array(False))] if m.chance(0.3) else [x, ratio], outputs)


RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


@operator("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
def random(m, op):
    seed = {"seed": float(m.range(1, 9))} if m.chance(0.5) else {}
    if op == "Multinomial":
        x = m.like(F32, (m.range(1, 3), m.range(1, 5)))
        return m.node(op, [x], sample_size=m.range(1, 5), dtype=m.pick([None, 6, 7]), **seed)
    if op == "Bernoulli":
        return m.node(op, [m.like(F32, m.shape(0, 3, 64), "positive")], dtype=m.pick([None, 1, 9, 7]), **seed)
    if op.endswith("Like"):
        return m.node(op, [m.any([F32, F64])], dtype=m.pick([None, 1, 11]), **seed)
    return m.node(op, [], shape=list(m.shape(1, 3, 64)), dtype=m.pick([None, 1, 11]), **seed)
