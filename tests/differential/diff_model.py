"""Random ONNX models for the differential test: a model as plain Python data, and the maker that operators draw from.

A Model has nodes, inputs (name -> array, or list of arrays for a sequence) with the values of the first run, and constants.
A Maker appends nodes to one: `any` gives an operator an operand (a value made before, or a new one), `arg` a parameter
(an initializer, a Constant node or an input), `node` appends. After each operator `settle` asks an engine for the values of
the new nodes, so that what follows knows shapes and contents. An operator that finds nothing it can use raises Skip.
"""
import random

import numpy as np
from onnx import TensorProto, defs, helper, shape_inference

from diff_engines import NUMBERS

F32, F64, F16 = np.dtype("float32"), np.dtype("float64"), np.dtype("float16")
I8, I16, I32, I64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
BOOL, TEXT = np.dtype("bool"), np.dtype("O")
FLOATS = [F32, F64, F16]
COMMON = [F32, I32, I64, BOOL]
TYPE_NAMES = {"float": F32, "double": F64, "float16": F16, "int8": I8, "int16": I16, "int32": I32, "int64": I64,
              "uint8": U8, "uint16": U16, "uint32": U32, "uint64": U64, "bool": BOOL, "string": TEXT,
              "complex64": np.dtype("complex64"), "complex128": np.dtype("complex128")}
ELEMENTS_MAX = 4096
DIMS = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33]
WORDS = ["", "a", "b", "Ab", "zebra", "é", "x y", "12", "-3"]


class Skip(Exception):
    """The operator cannot be placed here."""


class Body:
    """A subgraph: names and values of its inputs, nodes, constants, names of its outputs."""

    def __init__(self, inputs=None):
        self.inputs = inputs or {}
        self.nodes, self.constants, self.outputs, self.types = [], {}, [], {}


class Node:
    def __init__(self, op, inputs, outputs, attributes, domain=""):
        self.op, self.inputs, self.outputs, self.attributes, self.domain = op, inputs, outputs, attributes, domain

    def proto(self):
        attributes = {}
        for key, value in self.attributes.items():
            if isinstance(value, Body):
                value = body_proto(value)
            elif isinstance(value, np.ndarray):
                value = tensor_proto(key, value)
            attributes[key] = value
        return helper.make_node(self.op, self.inputs, self.outputs, domain=self.domain or None, **attributes)

    def free_names(self):
        """What it reads, bodies included."""
        names = {name for name in self.inputs if name}
        for value in self.attributes.values():
            if isinstance(value, Body):
                inner = set(value.inputs) | set(value.constants)
                for node in value.nodes:
                    names |= node.free_names() - inner
                    inner |= set(node.outputs)
                names |= {name for name in value.outputs if name not in inner}
        return names


def tensor_proto(name, array):
    array = np.asarray(array)
    if array.dtype == TEXT:
        return helper.make_tensor(name, TensorProto.STRING, array.shape, [str(t).encode() for t in array.ravel()])
    return helper.make_tensor(name, NUMBERS[array.dtype], array.shape, np.ascontiguousarray(array).tobytes(), raw=True)


def value_info(name, value, shape):
    if isinstance(value, list):
        return helper.make_tensor_sequence_value_info(name, NUMBERS[value[0].dtype] if value else 1, None)
    return helper.make_tensor_value_info(name, NUMBERS[value.dtype], shape)


def body_proto(body):
    inputs = [value_info(name, value, [] if value.ndim == 0 else None) for name, value in body.inputs.items()]
    outputs = []
    for name in body.outputs:
        outputs.append(value_info(name, body.types[name], None))
    constants = [tensor_proto(name, value) for name, value in body.constants.items()]
    return helper.make_graph([node.proto() for node in body.nodes], "body", inputs, outputs, constants)


class Model:
    def __init__(self, opset):
        self.opset = opset
        self.nodes, self.inputs, self.constants, self.outputs = [], {}, {}, []
        self.shapes = "static"  # of the inputs as declared: static, symbolic, none
        self.listed = False  # initializers are listed among the inputs too, as before IR version 4
        self.more_runs = []  # other inputs for the same session
        self.seed = None

    def domains(self):
        return {node.domain for node in self.nodes}

    def input_infos(self):
        infos = []
        for name, value in self.inputs.items():
            shape = None
            if not isinstance(value, list) and self.shapes != "none":
                shape = list(value.shape)
                if self.shapes == "symbolic":
                    shape = [f"{name}_{i}" for i in range(value.ndim)]
            infos.append(value_info(name, value, shape))
        if self.listed:
            infos += [value_info(name, value, value.shape) for name, value in self.constants.items()]
        return infos

    def bytes(self):
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in self.domains() if domain]
        constants = [tensor_proto(name, value) for name, value in self.constants.items()]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph([node.proto() for node in self.nodes], "g", self.input_infos(), outputs, constants)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=3 if self.listed else 8)
        try:
            model = shape_inference.infer_shapes(model)
        except Exception:  # what inference refuses, the engines are asked about all the same
            pass
        for info in list(model.graph.output):  # only the types: a shape inferred wrongly is no finding
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        return model.SerializeToString()

    def runs(self):
        return [self.inputs] + self.more_runs

    def text(self):
        lines = [f"opset {self.opset}, shapes {self.shapes}, listed {self.listed}"]
        lines += [f"input {n}: {show(v)}" for n, v in self.inputs.items()]
        lines += [f"constant {n}: {show(v)}" for n, v in self.constants.items()]
        lines += node_lines(self.nodes, "")
        for run in self.more_runs:
            lines.append("run: " + "; ".join(f"{n}: {show(v)}" for n, v in run.items()))
        return "\n".join(lines + ["outputs " + " ".join(self.outputs)])


def node_lines(nodes, indent):
    lines = []
    for node in nodes:
        plain = {k: v if not isinstance(v, np.ndarray) else show(v) for k, v in node.attributes.items()
                 if not isinstance(v, Body)}
        lines.append(f"{indent}{' '.join(node.outputs)} = {node.op}({', '.join(node.inputs)}) {plain}")
        for key, body in node.attributes.items():
            if isinstance(body, Body):
                lines.append(f"{indent}  {key}: in {[f'{n} {show(v)}' for n, v in body.inputs.items()]}")
                lines += [f"{indent}    constant {n}: {show(v)}" for n, v in body.constants.items()]
                lines += node_lines(body.nodes, indent + "    ")
                lines.append(f"{indent}  out {body.outputs}")
    return lines


def show(value):
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    text = np.array2string(value, threshold=24, max_line_width=10000).replace("\n", "")
    return f"{value.dtype}{list(value.shape)} {text[:300]}"


class Maker:
    """Draws operands and appends nodes. `mode`: what floats look like: exact (small whole numbers), real or special."""

    def __init__(self, seed, opset, evaluate=None):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(self.random.getrandbits(48))
        self.opset = opset
        self.model = Model(opset)
        self.model.seed = seed
        self.values = {}  # name -> value, of everything made so far
        self.evaluate = evaluate
        self.pending = []
        self.count = 0
        self.mode = "exact"
        self.prefix = ""
        self.depth = 0  # of bodies
        self.body_operators = []
        self.constants = self.model.constants
        self.nodes = self.model.nodes
        self.narrow = False  # the types that all engines have for nearly everything
        self.closed = False  # inside a body: new operands are constants

    # ---- chances

    def chance(self, p):
        return self.random.random() < p

    def pick(self, items):
        return self.random.choice(list(items))

    def range(self, low, high):
        return self.random.randint(low, high)

    def name(self, stem):
        self.count += 1
        return f"{self.prefix}{stem}{self.count}"

    # ---- shapes and contents

    def shape(self, low=0, high=5, elements=ELEMENTS_MAX, fixed=None):
        rank = self.range(low, high)
        if high >= 5 and self.chance(0.04):
            rank = self.range(max(low, 5), 8)
        dims = [self.pick(DIMS if rank < 5 else DIMS[:8]) for _ in range(rank)]
        for index, value in (fixed or {}).items():
            dims[index] = value
        while np.prod(dims, dtype=np.int64) > elements:
            i = int(np.argmax(dims))
            dims[i] = max(1, dims[i] // 2)
        if rank and self.chance(0.03) and not fixed:
            dims[self.range(0, rank - 1)] = 0
        return tuple(dims)

    def near(self, shape):
        """A shape that broadcasts with this one."""
        kind = self.range(0, 9)
        if kind < 4:
            return tuple(shape)
        if kind == 4:
            return ()
        dims = [1 if self.chance(0.4) else d for d in shape]
        dims = dims[self.range(0, len(dims)):] if kind < 8 else dims
        if kind == 9 and len(dims) < 6:
            dims = [self.range(1, 3) if i == 0 else 1 for i in range(self.range(1, 2))] + dims
        return tuple(dims)

    def data(self, shape, dtype, kind=None):
        dtype = np.dtype(dtype)
        if dtype == TEXT:
            array = np.empty(shape, object)
            for i in range(array.size):
                array.reshape(-1)[i] = self.pick(WORDS)
            return array
        if dtype == BOOL:
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if kind is None and self.mode == "special" and self.chance(0.5):
                return self.numpy.integers(info.min, info.max, shape, dtype, endpoint=True)
            return self.numpy.integers(max(info.min, -5), 7, shape).astype(dtype)
        if dtype.kind == "c":
            return (self.data(shape, F32) + 1j * self.data(shape, F32)).astype(dtype)
        kind = kind or self.mode
        if kind == "exact":
            return self.numpy.integers(-4, 5, shape).astype(dtype)
        if kind == "positive":
            return self.numpy.uniform(0.1, 3, shape).astype(dtype)
        if kind == "unit":
            return self.numpy.uniform(-0.99, 0.99, shape).astype(dtype)
        array = self.numpy.uniform(-3, 3, shape)
        if kind == "special":
            specials = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -1, 1, 1e-6, 100.25, -60, 88.9])
            array = np.where(self.numpy.random(shape) < 0.4, self.numpy.choice(specials, shape), array)
        return np.asarray(array).astype(dtype)

    # ---- operands

    def new(self, array, stem="x", fixed=False):
        """A new value: an input, or an initializer, or a Constant node."""
        array = np.asarray(array)
        name = self.name(stem)
        self.values[name] = array
        if self.closed or fixed or self.chance(0.25):
            if self.chance(0.15):
                self.append(Node("Constant", [], [name], {"value": array}))
            else:
                self.constants[name] = array
        else:
            self.model.inputs[name] = array
        return name

    def arg(self, array, fixed=False):
        """A parameter (shape, axes, bounds): mostly a constant."""
        array = np.asarray(array)
        if fixed or not self.chance(0.2):
            return self.new(array, "c", fixed=True)
        return self.new(array, "c")

    def find(self, types, low, high, accept=None):
        names = []
        for name, value in self.values.items():
            if isinstance(value, list) or name not in self.values or value.dtype not in types:
                continue
            if low <= value.ndim <= high and (accept is None or accept(value)) and value.size <= ELEMENTS_MAX:
                names.append(name)
        return names

    def any(self, types, low=0, high=5, accept=None, kind=None, fixed=None):
        """An operand of one of these types and ranks: a value made before where there is one, else a new one."""
        types = [np.dtype(t) for t in types]
        if not types:
            raise Skip
        if kind in (None, self.mode) and fixed is None:
            names = self.find(types, low, high, accept)
            if names and self.chance(0.85):
                return self.pick(names[-6:] if self.chance(0.7) else names)
        for _ in range(20):
            dtype = F32 if F32 in types and self.chance(0.5) else self.pick(types)
            array = self.data(self.shape(low, high, fixed=fixed), dtype, kind)
            if accept is None or accept(array):
                return self.new(array)
        raise Skip

    def like(self, dtype, shape, kind=None, p_old=0.5):
        """An operand of exactly this type and shape."""
        if kind is None and self.chance(p_old):
            names = self.find([np.dtype(dtype)], len(shape), len(shape), lambda v: v.shape == tuple(shape))
            if names:
                return self.pick(names)
        return self.new(self.data(shape, dtype, kind))

    def types(self, op, index=0, domain="", without=()):
        """What the specification allows input `index` (or a type name) to be, of what the test can make."""
        schema = defs.get_schema(op, self.opset if not domain else 1, domain)
        name = index if isinstance(index, str) else schema.inputs[index].typeStr
        for constraint in schema.type_constraints:
            if constraint.type_param_str == name:
                names = [t[7:-1] for t in constraint.allowed_type_strs if t.startswith("tensor(")]
                types = [TYPE_NAMES[n] for n in names if n in TYPE_NAMES and TYPE_NAMES[n] not in without
                         and TYPE_NAMES[n].kind != "c"]
                common = [t for t in types if t in COMMON]
                return common if self.narrow and common else types
        name = schema.inputs[index].typeStr if not isinstance(index, str) else index
        return [TYPE_NAMES[name[7:-1]]]

    def has(self, op, domain=""):
        try:
            return not defs.get_schema(op, self.opset if not domain else 1, domain).deprecated
        except defs.SchemaError:
            return False

    # ---- nodes

    def append(self, node):
        self.pending.append(node)

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        """Appends a node; the names of its outputs. `outputs`: a number, or a list where "" leaves one out."""
        flags = [True] * outputs if isinstance(outputs, int) else [bool(o) for o in outputs]
        names = [self.name("v") if flag else "" for flag in flags]
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        self.append(Node(op, inputs, names, {k: v for k, v in attributes.items() if v is not None}, domain))
        return names

    def settle(self):
        """The pending nodes become part of the model if the engine can run them."""
        nodes, self.pending = self.pending, []
        if not nodes:
            return False
        if self.evaluate:
            values = self.evaluate(self, nodes)
            if values is None:
                for node in nodes:
                    for name in node.outputs:
                        self.values.pop(name, None)
                return False
            self.values.update(values)
        self.nodes.extend(nodes)
        return True
