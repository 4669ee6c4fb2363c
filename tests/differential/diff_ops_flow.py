"""Generators for control flow, sequences and optionals. Bodies are chains of the other operators."""
import numpy as np

from diff_model import F32, I32, I64, Body, Node, Skip
from diff_ops_math import OPERATORS, operator
from diff_ops_move import RANDOM

DEPTH_MAX = 2


def chain(m, inputs, length):
    """A body of up to `length` operators over `inputs` (name -> value) and everything outside; its names in order made."""
    if not m.evaluate or m.depth >= DEPTH_MAX:
        raise Skip
    body = Body(inputs)
    kept = (m.constants, m.nodes, m.closed, m.prefix, m.pending, dict(m.values))
    m.constants, m.nodes, m.closed, m.pending = body.constants, body.nodes, True, []
    m.prefix = f"{m.prefix}b{m.count}_"
    m.count += 1
    m.depth = m.depth + 1
    m.values.update(inputs)
    try:
        for _ in range(length):
            op = m.pick([o for o in m.body_operators if m.has(o)])
            try:
                OPERATORS[op](m)
                m.settle()
            except Skip:
                m.pending = []
        made = {name: m.values[name] for name in m.values if name not in kept[5] or name in inputs}
    finally:
        m.depth -= 1
        m.constants, m.nodes, m.closed, m.prefix, m.pending = kept[:5]
        m.values = kept[5]
    return body, made


def finish(body, names, made):
    """Outputs of the body: inputs and outer values go through Identity."""
    produced = {name for node in body.nodes for name in node.outputs}
    for i, name in enumerate(names):
        if name not in produced or name in body.outputs:
            inner = f"{name}_o{len(body.outputs)}_{id(body) % 997}"
            body.nodes.append(Node("Identity", [name], [inner], {}))
            made[inner] = made[name]
            name = inner
        body.outputs.append(name)
        body.types[name] = made[name]


def tensors(made):
    return [name for name, value in made.items() if not isinstance(value, list) and value.size <= 4096]


@operator("If")
def if_(m, op):
    branches = []
    count = m.range(1, 2)
    for _ in range(2):
        body, made = chain(m, {}, m.range(1, 4))
        if not tensors(made):
            raise Skip
        branches.append((body, made))
    chosen = [[], []]
    for _ in range(count):
        first = m.pick(tensors(branches[0][1]))
        same = [n for n in tensors(branches[1][1]) if branches[1][1][n].dtype == branches[0][1][first].dtype]
        if not same:
            raise Skip
        chosen[0].append(first)
        chosen[1].append(m.pick(same))
    for (body, made), names in zip(branches, chosen):
        finish(body, names, made)
    condition = m.new(np.array(m.chance(0.5)) if m.chance(0.7) else np.array([m.chance(0.5)]), fixed=m.chance(0.3))
    m.node(op, [condition], count, then_branch=branches[0][0], else_branch=branches[1][0])


@operator("Loop")
def loop(m, op):
    if m.chance(0.25):
        return while_loop(m)
    state = m.any([F32, I64, I32], accept=lambda v: v.size <= 256)
    tag = f"l{m.count}"
    m.count += 1
    inputs = {f"{tag}_i": np.array(0, I64), f"{tag}_c": np.array(True), f"{tag}_s": m.values[state]}
    body, made = chain(m, inputs, m.range(1, 4))
    kept = m.values[state]
    same = [n for n in tensors(made) if made[n].dtype == kept.dtype and made[n].shape == kept.shape and n != f"{tag}_s"]
    carried = m.pick(same) if same and m.chance(0.8) else f"{tag}_s"
    scans = [m.pick(tensors(made)) for _ in range(m.range(0, 2))]
    produced = {name for node in body.nodes for name in node.outputs}
    scans = [s for s in scans if s in produced]
    finish(body, [f"{tag}_c", carried] + scans, made)
    trips = m.arg(np.array(m.range(0, 4) if m.chance(0.3) else m.range(1, 3), I64))
    condition = m.arg(np.array(not m.chance(0.1))) if m.chance(0.5) else ""
    m.node(op, [trips, condition, state], 1 + len(scans), body=body)


@operator("Scan")
def scan(m, op):
    if m.opset < 9:
        raise Skip
    rows = m.any([F32, I64], low=1, high=3, accept=lambda v: 0 < v.size <= 512)
    v = m.values[rows]
    axis = m.range(-v.ndim if m.opset >= 11 else 0, v.ndim - 1)
    row = np.take(v, 0, axis)
    state = m.any([F32, I64], accept=lambda s: s.size <= 256)
    tag = f"k{m.count}"
    m.count += 1
    inputs = {f"{tag}_s": m.values[state], f"{tag}_x": row}
    body, made = chain(m, inputs, m.range(1, 4))
    kept = m.values[state]
    same = [n for n in tensors(made) if made[n].dtype == kept.dtype and made[n].shape == kept.shape and n != f"{tag}_s"]
    carried = m.pick(same) if same else f"{tag}_s"
    produced = {name for node in body.nodes for name in node.outputs}
    scans = [s for s in [m.pick(tensors(made)) for _ in range(m.range(1, 2))] if s in produced] or [f"{tag}_x"]
    ranks = [made[s].ndim + 1 for s in scans]
    finish(body, [carried] + scans, made)
    attributes = {"num_scan_inputs": 1, "body": body, "scan_input_axes": [axis] if axis or m.chance(0.3) else None}
    if m.chance(0.3):
        attributes["scan_input_directions"] = [m.range(0, 1)]
    if m.chance(0.3):
        attributes["scan_output_directions"] = [m.range(0, 1) for _ in scans]
    if m.chance(0.3):
        attributes["scan_output_axes"] = [m.range(-r if m.opset >= 11 else 0, r - 1) for r in ranks]
    m.node(op, [state, rows], 1 + len(scans), **attributes)


def while_body(m, op, state):
    """A body that ends the loop by itself after a while, and whose state may grow: random bodies seldom do it."""
    tag = f"w{m.count}"
    m.count += 1
    value = m.values[state]
    body = Body({f"{tag}_i": np.array(0, I64), f"{tag}_c": np.array(True), f"{tag}_s": value})
    grown, more, row = f"{tag}_g", f"{tag}_m", f"{tag}_r"
    body.constants[f"{tag}_one"] = np.ones((1,) + value.shape[1:] if op == "Concat" else value.shape, value.dtype)
    body.constants[f"{tag}_limit"] = np.array(m.range(0, 3), I64)
    body.nodes.append(Node(op, [f"{tag}_s", f"{tag}_one"], [grown], {"axis": 0} if op == "Concat" else {}))
    body.nodes.append(Node("Less", [f"{tag}_i", f"{tag}_limit"], [more], {}))
    body.nodes.append(Node("Identity", [f"{tag}_i"], [row], {}))
    body.outputs = [more, grown, row]
    body.types = {more: np.array(True), grown: value, row: np.array(0, I64)}
    return body


def while_loop(m):
    state = m.any([F32, I64], low=1, high=3, accept=lambda v: 0 < v.size <= 64)
    if m.opset < 9:
        raise Skip
    trips = m.arg(np.array(m.range(0, 6), I64)) if m.chance(0.6) else ""
    condition = m.arg(np.array(True)) if not trips or m.chance(0.5) else ""
    m.node("Loop", [trips, condition, state], 2, body=while_body(m, m.pick(["Concat", "Add"]), state))


# ---- sequences

def sequence(m, dtype=None):
    x = m.any([F32, I64, I32])
    v = m.values[x]
    names = [x]
    for _ in range(m.range(0, 3)):
        names.append(m.like(v.dtype, v.shape if m.chance(0.6) else m.shape(v.ndim, v.ndim, 64)))
    return m.node("SequenceConstruct", names)[0], names


@operator("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceConstruct")
def sequence_op(m, op):
    s, names = sequence(m)
    count = len(names)
    place = m.arg(np.array(m.range(-count, count - 1), m.pick([I32, I64])))
    if op == "SequenceAt":
        m.node(op, [s, place])
    elif op == "SequenceErase":
        m.node(op, [s, place if m.chance(0.6) else ""])
    elif op == "SequenceInsert":
        m.node(op, [s, m.pick(names), m.arg(np.array(m.range(-count, count), I64)) if m.chance(0.6) else ""])
    elif op == "SequenceLength":
        m.node(op, [s])


@operator("ConcatFromSequence")
def concat_from_sequence(m, op):
    x = m.any([F32, I64, I32], low=1)
    v = m.values[x]
    s = m.node("SequenceConstruct", [x] + [m.like(v.dtype, v.shape) for _ in range(m.range(0, 3))])[0]
    stack = m.range(0, 1)
    m.node(op, [s], axis=m.range(-v.ndim - stack, v.ndim - 1 + stack), new_axis=stack if stack or m.chance(0.3) else None)


@operator("SplitToSequence")
def split_to_sequence(m, op):
    x = m.any([F32, I64, I32], low=1, accept=lambda v: v.size > 0)
    v = m.values[x]
    axis = m.range(-v.ndim, v.ndim - 1)
    size = v.shape[axis]
    kind = m.range(0, 2)
    split = ""
    if kind == 1:
        split = m.arg(np.array(m.range(1, size), I64))
    elif kind == 2:
        cut = m.range(0, size)
        split = m.arg(np.array([cut, size - cut], m.pick([I32, I64])))
    m.node(op, [x, split], axis=axis, keepdims=m.pick([None, 0, 1]))


@operator("SequenceEmpty")
def sequence_empty(m, op):
    s = m.node(op, [], dtype=m.pick([None, 1]))[0]
    x = m.any([F32])
    s = m.node("SequenceInsert", [s, x])[0]
    m.node("SequenceLength", [s])


@operator("SequenceMap")
def sequence_map(m, op):
    s, names = sequence(m)
    tag = f"m{m.count}"
    m.count += 1
    values = [m.values[n] for n in names]
    body, made = chain(m, {f"{tag}_x": values[0]}, m.range(1, 2))
    out = m.pick(tensors(made))
    finish(body, [out], made)
    m.node(op, [s], body=body)


@operator("Optional", "OptionalGetElement", "OptionalHasElement")
def optional(m, op):
    x = m.any([F32, I64])
    o = m.node("Optional", [x])[0]
    if op == "Optional" or op == "OptionalGetElement":
        m.node("OptionalGetElement", [o])
    else:
        m.node("OptionalHasElement", [o])


BODY_OPERATORS = [name for name in OPERATORS if name not in RANDOM and name not in (
    "Adagrad", "Adam", "Momentum", "NonZero", "Unique", "Compress", "NonMaxSuppression", "Optional", "OptionalGetElement",
    "OptionalHasElement", "SequenceMap", "Scan", "SplitToSequence")]
