#!/usr/bin/env python3
"""Random small ONNX models through the engine in all its configurations, and through ONNX Runtime where there is one.

    differential.py --worker build/asan/tests/diff_worker [--ort LIBRARY] [--seconds 60] [--models N] [--seed 1]
                    [--ops Conv,Pool] [--kind single|chain|both|large] [--out FOLDER]
    differential.py --worker W [--ort LIBRARY] --replay FOLDER/NAME.pickle

Every model has a seed of its own (printed with a finding), from which --seed SEED --models 1 makes it again. A finding is
made smaller by leaving out nodes, written to FOLDER as text and pickle, and printed. Exit code 1: there were findings.

Kinds of findings: crash, hang, unsteady (two runs of one session differ), config (a configuration differs from the
reference backend without fusion and merging), refused (we refuse what ONNX Runtime runs), type, shape, value.
"""
import argparse
import collections
import copy
import os
import pickle
import sys
import time

import numpy as np

import diff_ops_flow
import diff_ops_move
from diff_blocks import BLOCKS
from diff_cases import excepted, has_large
from diff_engines import DTYPES, NUMBERS, Ort, Ours
from diff_large import LARGE
from diff_model import F16, F32, F64, I32, I64, Maker, Model, Node, Skip
from diff_ops_math import OPERATORS
from diff_oracle import expected

REFERENCE = "isa=ref no_fuse no_merge fresh"
CONFIGS = ["", "twice", "isa=generic twice", "isa=avx2 threads=2", "isa=avx512 keep", "isa=ref twice", "no_fuse", "isa=avx2 no_merge place",
           "isa=generic no_fuse no_merge keep", "threads=2 twice keep place", "low", "search twice"]
SEQUENCES = {"SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceEmpty", "SplitToSequence", "SequenceMap"}
OPSETS = list(range(7, 18))
# What results may differ by, beside the largest.
RELATIVE = {F32: 2e-4, F64: 2e-7, F16: 2e-2}
VALUES_MAX = 20000

Finding = collections.namedtuple("Finding", "kind text config")


class Bench:
    """The engines, and what was seen."""

    def __init__(self, options):
        self.ours = Ours(options.worker)
        self.ort = Ort(options.ort) if options.ort else None
        self.configs = CONFIGS
        self.values_max = VALUES_MAX  # elements; what is larger is left out
        self.counts = collections.Counter()
        self.ort_refused = collections.Counter()
        self.both_refused = collections.Counter()
        self.seen = collections.Counter()

    def evaluate(self, maker, nodes):
        """Values of all outputs of these nodes, or None."""
        model = Model(maker.opset)
        model.nodes = nodes
        made = [name for node in nodes for name in node.outputs if name]
        free = set().union(*(node.free_names() for node in nodes)) - set(made)
        if any(name not in maker.values for name in free):
            return None
        model.inputs = {name: maker.values[name] for name in sorted(free)}
        kinds = {name: node.op for node in nodes for name in node.outputs}
        model.outputs = [name for name in made if kinds[name] != "Optional"]
        outcome = self.ours.run(model.bytes(), [model.inputs], [REFERENCE])[0][0]
        if outcome.status != "ok":
            return None
        values = {}
        for name, items in zip(model.outputs, outcome.outputs):
            values[name] = items if kinds[name] in SEQUENCES else items[0]
            if any(item.size > self.values_max for item in items):
                return None
        return values

    # ---- comparing

    def check(self, model, configs=None):
        """What is wrong with this model, worst first; an empty list when nothing is."""
        configs = self.configs if configs is None else configs
        data, runs = model.bytes(), model.runs()
        ours = self.ours.run(data, runs, [REFERENCE] + configs)
        findings = []
        for config, outcomes in zip([REFERENCE] + configs, ours):
            for outcome in outcomes:
                if outcome.status in ("crash", "hang", "unsteady"):
                    return [Finding(outcome.status, outcome.text[:4000], config)]
        for config, outcomes in zip(configs, ours[1:]):
            findings += self.compare_runs(model, "config", ours[0], outcomes, config)
        for run, outcome in zip(runs, ours[0]):
            wanted = expected(model, run) if outcome.status == "ok" else None
            if wanted is not None:
                self.counts["run compared with numpy"] += 1
                findings += self.differences(model, wanted, outcome.outputs, "numpy")
        if self.ort and not findings:
            findings += self.check_ort(model, data, runs, ours[0])
        return [f for f in findings if not excepted(model, f)]

    def check_ort(self, model, data, runs, ours):
        theirs = self.ort.run(data, runs)
        if theirs[0].status == "error" and "[9]" in theirs[0].text and ours[0].status == "ok" and len(model.nodes) == 1:
            return [] if has_large(model) else self.check_lifted(model, ours[0])
        findings = []
        for outcome, other in zip(ours, theirs):
            if other.status != "ok":
                kind = "both" if outcome.status != "ok" else "theirs"
                self.counts[f"run refused by {kind}"] += 1
                if outcome is ours[0]:
                    key = (" ".join(n.op for n in model.nodes[-1:]), (other.status + other.text)[:160])
                    (self.both_refused if kind == "both" else self.ort_refused)[key] += 1
            elif outcome.status != "ok":
                findings.append(Finding("refused", outcome.text, "ort"))
            else:
                self.counts["run compared"] += 1
                findings += self.differences(model, other.outputs, outcome.outputs, "ort")
        return findings

    def check_lifted(self, model, ours):
        """ONNX Runtime has no kernel for these types: the same in wider ones, where whole numbers are small."""
        for whole in (I32, I64, F32):
            lifted = lift(model, whole)
            other = self.ort.run(lifted.bytes(), [lifted.inputs])[0]
            if other.status != "ok":
                continue
            self.counts["run compared in wider types"] += 1
            got = [[a.astype(F32) if a.dtype == F64 else a for a in items] for items in ours.outputs]
            wanted = [[a.astype(b.dtype) for a, b in zip(one, two)] if len(one) == len(two) else one
                      for one, two in zip(other.outputs, got)]
            return self.differences(model, wanted, got, "ort")
        self.counts["run refused by theirs"] += 1
        self.ort_refused[(model.nodes[0].op, "in all types")] += 1
        return []

    def compare_runs(self, model, kind, wanted, got, config):
        for one, two in zip(wanted, got):
            if one is two:
                continue
            if one.status != two.status:
                return [Finding(kind, f"{config}: {two.status} {two.text}; reference: {one.status} {one.text}", config)]
            if one.status == "ok":
                findings = self.differences(model, one.outputs, two.outputs, config)
                if findings:
                    return [Finding(kind, f"{config}: {f.kind}: {f.text}", config) for f in findings]
        return []

    def differences(self, model, wanted, got, config):
        low = config == "low"
        findings = []
        random = any(node.op in diff_ops_move.RANDOM for node in model.nodes)
        for name, one, two in zip(model.outputs, wanted, got):
            if len(one) != len(two):
                findings.append(Finding("shape", f"{name}: {len(two)} items, wanted {len(one)}", config))
                continue
            for a, b in zip(one, two):
                finding = difference(a, b, random, low, len(model.nodes))
                if finding:
                    findings.append(Finding(finding[0], f"{name}: {finding[1]}", config))
        return findings

    # ---- made smaller

    def fails(self, model, finding):
        configs = [] if finding.config in ("ort", "numpy", REFERENCE) else [finding.config]
        try:
            found = self.check(model, configs)
        except Exception:  # a model that no longer can be written
            return False
        return any(f.kind == finding.kind for f in found)

    def minimise(self, model, finding):
        deadline = time.monotonic() + 20
        shrinking = True
        while shrinking and time.monotonic() < deadline:
            shrinking = False
            for smaller in reductions(model):
                if time.monotonic() > deadline:
                    break
                if self.fails(smaller, finding):
                    model, shrinking = smaller, True
                    break
        return model

    def sensitive(self, model):
        """Whether results change as much when the operands of the model, or of what follows one of its nodes, move by two
        parts in a million."""
        if self.differs_when_moved(model):
            return True
        values = getattr(model, "values", {})
        for count in range(1, len(model.nodes)):
            rest = copy_model(model)
            rest.nodes = model.nodes[count:]
            made = [name for node in model.nodes[:count] for name in node.outputs if name]
            if any(not isinstance(values.get(name), np.ndarray) for name in made):
                continue
            rest.inputs.update({name: values[name] for name in made})
            rest.outputs = [name for name in model.outputs if name not in made]
            rest.more_runs = []
            if rest.outputs and self.differs_when_moved(prune(rest)):
                return True
        return False

    def differs_when_moved(self, model):
        moved = copy_model(model)
        generator = np.random.default_rng(1)
        for values in [moved.inputs, moved.constants] + moved.more_runs:
            for name, value in values.items():
                if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                    with np.errstate(all="ignore"):
                        nudge = generator.choice([-2e-6, 2e-6], value.shape)
                        values[name] = np.asarray(value + nudge * (np.abs(value) + 1e-2)).astype(value.dtype)
        one = self.ours.run(model.bytes(), model.runs(), [REFERENCE])[0]
        two = self.ours.run(moved.bytes(), moved.runs(), [REFERENCE])[0]
        return bool(self.compare_runs(model, "config", one, two, "moved"))


def difference(a, b, random, low, length):
    """What differs between the array wanted and the array got, or None."""
    if a.dtype != b.dtype:
        return "type", f"{b.dtype}, wanted {a.dtype}"
    if random and length > 1:
        return None
    if a.shape != b.shape:
        return "shape", f"{b.shape}, wanted {a.shape}"
    if random or a.size == 0:
        return None
    if low:
        return difference_low(a, b, length)
    if a.dtype.kind not in "fc":
        same = a == b
        if np.all(same):
            return None
        return "value", describe(a, b, ~np.asarray(same))
    tolerance = RELATIVE.get(a.dtype, 1e-4) * (1 if length == 1 else 10)
    with np.errstate(all="ignore"):
        wide_a, wide_b = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64), b.astype(
            np.complex128 if a.dtype.kind == "c" else np.float64)
        finite = np.isfinite(wide_a)
        largest = np.abs(wide_a[finite]).max(initial=0)
        bad = np.abs(wide_a - wide_b) > tolerance * np.maximum(np.abs(wide_a), 0.05 * largest) + tolerance * 0.01
        bad |= np.isnan(wide_a) != np.isnan(wide_b)
        bad |= np.isinf(wide_a) & (wide_a != wide_b) & ~np.isnan(wide_a)
        bad |= np.isinf(wide_b) & (wide_a != wide_b) & ~np.isnan(wide_b)
    return ("value", describe(a, b, bad)) if bad.any() else None


def difference_low(a, b, length):
    """The same for low precision: bfloat16 has eight bits, and errors of single elements may be large in chains."""
    if a.dtype.kind != "f" or not np.isfinite(a.astype(np.float64)).all():
        return None
    bad = ~(np.abs(a.astype(np.float64) - b.astype(np.float64)) <= 0.03 * np.abs(a.astype(np.float64)).max() + 1e-6)
    if bad.any() and (length == 1 or np.mean(bad) > 0.5 and np.isnan(b.astype(np.float64)).any()):
        return "value", describe(a, b, bad)
    return None


def describe(a, b, bad):
    places = np.argwhere(np.asarray(bad))
    first = tuple(places[0])
    return f"{len(places)} of {a.size} of {a.dtype}{list(a.shape)}, first at {list(map(int, first))}: got {b[first]}, wanted {a[first]}"


# ---- models --------------------------------------------------------------------------------------------------------

def copy_model(model):
    """A copy that shares the arrays and the nodes."""
    copied = copy.copy(model)
    for name in ("nodes", "inputs", "constants", "outputs"):
        setattr(copied, name, copy.copy(getattr(model, name)))
    copied.more_runs = [dict(run) for run in model.more_runs]
    return copied


def lift(model, whole):
    """The same model with floats as float32 and other numbers as `whole`."""
    lifted = copy_model(model)
    lifted.more_runs = []

    def wide(value):
        if isinstance(value, list):
            return [wide(item) for item in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.dtype == I64:
            return value
        return value.astype(F32 if value.dtype.kind == "f" else whole)
    lifted.inputs = {name: wide(value) for name, value in model.inputs.items()}
    lifted.constants = {name: wide(value) for name, value in model.constants.items()}
    lifted.nodes = []
    for node in model.nodes:
        attributes = {key: wide(value) for key, value in node.attributes.items()}
        for key in ("to", "dtype"):
            if key in attributes:
                attributes[key] = NUMBERS[wide(np.zeros(0, DTYPES[attributes[key]])).dtype]
        lifted.nodes.append(Node(node.op, node.inputs, node.outputs, attributes, node.domain))
    return lifted


def reductions(model):
    """Models with less in them: without the last nodes, without a node (its outputs become inputs), with fewer outputs."""
    if model.more_runs:
        smaller = copy_model(model)
        smaller.more_runs = []
        yield smaller
    if len(model.outputs) > 1:
        for name in model.outputs:
            smaller = copy_model(model)
            smaller.outputs = [name]
            yield prune(smaller)
        for name in model.outputs:
            smaller = copy_model(model)
            smaller.outputs = [o for o in model.outputs if o != name]
            yield prune(smaller)
    for i in range(len(model.nodes)):
        for name in model.nodes[i].inputs:  # what it gives is an output instead
            if name and any(name in node.outputs for node in model.nodes) and name not in model.outputs:
                smaller = copy_model(model)
                smaller.outputs = [name]
                yield prune(smaller)
    values = getattr(model, "values", {})
    for i, node in enumerate(model.nodes):
        if len(model.nodes) > 1 and all(o in values and isinstance(values[o], np.ndarray) for o in node.outputs if o) \
                and not set(node.outputs) & set(model.outputs):
            smaller = copy_model(model)
            del smaller.nodes[i]
            for name in node.outputs:
                if name:
                    smaller.inputs[name] = values[name]
                    for run in smaller.more_runs:
                        run[name] = values[name]
            yield prune(smaller)
    if model.listed:
        smaller = copy_model(model)
        smaller.listed = False
        yield smaller
    if model.shapes != "static" and not model.more_runs:
        smaller = copy_model(model)
        smaller.shapes = "static"
        yield smaller


def prune(model):
    """Without the nodes, inputs and constants that nothing needs."""
    needed = set(model.outputs)
    nodes = []
    for node in reversed(model.nodes):
        if needed & set(node.outputs):
            nodes.append(node)
            needed |= node.free_names()
    model.nodes = nodes[::-1]
    made = {name for node in nodes for name in node.outputs}
    model.inputs = {k: v for k, v in model.inputs.items() if k in needed and k not in made}
    model.constants = {k: v for k, v in model.constants.items() if k in needed}
    model.more_runs = [{k: v for k, v in run.items() if k in model.inputs} for run in model.more_runs]
    return model


def resized(maker, model):
    """Other inputs: every dimension of one size becomes one of another size, everywhere."""
    sizes = sorted({d for v in model.inputs.values() if isinstance(v, np.ndarray) for d in v.shape if d > 1})
    if not sizes:
        return None
    size = maker.pick(sizes)
    other = maker.pick([max(1, size - 1), size + 1, size + 2, size * 2])
    run = {}
    for name, value in model.inputs.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "f" or name.startswith("c"):
            run[name] = value
        else:
            run[name] = maker.data(tuple(other if d == size else d for d in value.shape), value.dtype)
    return run


def finish(maker):
    """Settles what is left of a model: declared shapes, runs, listed initializers."""
    model = maker.model
    model.values = maker.values
    kind = maker.range(0, 9)
    model.shapes = "static" if kind < 6 else "symbolic" if kind < 9 else "none"
    model.listed = maker.chance(0.05) and model.opset < 9
    prune(model)
    if maker.chance(0.1):  # what nothing needs
        model.constants["unused_c"] = maker.data((2,), F32)
    if maker.chance(0.05):
        model.inputs["unused_x"] = maker.data((3,), F32)
    if model.constants and maker.chance(0.03):
        model.outputs.append(maker.pick(model.constants))
    floats = {k: maker.data(v.shape, v.dtype) if isinstance(v, np.ndarray) and v.dtype == F32 and not k.startswith("c")
              and maker.mode != "special" else v for k, v in model.inputs.items()}
    if maker.chance(0.3):
        model.more_runs.append(floats)
    if model.shapes != "static" and maker.chance(0.7):
        run = resized(maker, model)
        if run and sum(v.size for v in run.values() if isinstance(v, np.ndarray)) < 20000:
            model.more_runs += [run, model.inputs]
    return model


def single(seed, bench, ops):
    maker = Maker(seed, 0, bench.evaluate)
    op = maker.pick(ops)
    preview = op in ("Adagrad", "Adam", "Momentum")
    opsets = OPSETS if not preview else [13, 17]
    for _ in range(40):
        maker.opset = maker.model.opset = maker.pick(opsets)
        if preview or maker.has(op):
            break
    else:
        raise Skip
    maker.mode = maker.pick(["exact", "exact", "real", "real", "special"])
    maker.body_operators = diff_ops_flow.BODY_OPERATORS
    before = set(maker.values)
    OPERATORS[op](maker)
    maker.nodes.extend(maker.pending)
    del before
    made = [(name, node.op) for node in maker.nodes for name in node.outputs if name]
    maker.model.outputs = [name for name, kind in made if kind not in ("Constant", "Optional")] or [made[-1][0]]
    return finish(maker), op


def chain(seed, bench, ops):
    maker = Maker(seed, 0, bench.evaluate)
    maker.opset = maker.model.opset = maker.pick([7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17])
    maker.mode = maker.pick(["exact", "exact", "exact", "real", "real", "special" if maker.chance(0.3) else "exact"])
    maker.body_operators = diff_ops_flow.BODY_OPERATORS
    maker.narrow = maker.chance(0.7)
    ops = [op for op in ops if maker.has(op) and not (maker.narrow and op in RARE)]
    favourites = maker.random.sample(ops, min(len(ops), 12))
    moves = [op for op in MOVES if op in ops]
    length = maker.range(2, 12)
    blocks = list(BLOCKS) if maker.chance(0.6) else []
    for _ in range(length * 2):
        kind = maker.range(0, 9)
        if blocks and kind < 4:
            try:
                BLOCKS[maker.pick(blocks)](maker)
            except Skip:
                maker.pending = []
            continue
        op = maker.pick(moves) if kind < 4 and moves else maker.pick(favourites if kind < 7 else ops)
        try:
            OPERATORS[op](maker)
            if maker.settle() and len(maker.nodes) >= length:
                break
        except Skip:
            maker.pending = []
    model = maker.model
    made = [name for node in model.nodes if node.op != "Optional" for name in node.outputs if name]
    if not made:
        raise Skip
    used = {name for node in model.nodes for name in node.free_names()}
    outputs = [name for name in made if name not in used] or [made[-1]]
    outputs += [name for name in made if name in used and maker.chance(0.1)]
    outputs = [o for o in outputs if isinstance(maker.values.get(o), (np.ndarray, list))]
    inputs = [n for n, v in model.inputs.items() if isinstance(v, np.ndarray)]
    if inputs and maker.chance(0.05):
        outputs.append(maker.pick(inputs))
    model.outputs = outputs
    if not outputs:
        raise Skip
    return finish(maker), "chain"


RARE = diff_ops_move.RANDOM | {"Adagrad", "Adam", "Momentum", "Det", "StringNormalizer", "MeanVarianceNormalization"}
def large(seed, bench, ops):
    maker = Maker(seed, 0, bench.evaluate)
    maker.opset = maker.model.opset = maker.pick([9, 11, 12, 13, 17])
    maker.mode = maker.pick(["exact", "real"])
    bench.values_max = 1 << 20
    LARGE[maker.pick(list(LARGE))](maker)
    bench.values_max = VALUES_MAX
    model = maker.model
    used = {name for node in model.nodes for name in node.free_names()}
    model.outputs = [name for node in model.nodes for name in node.outputs if name and name not in used]
    return finish(maker), "large"


MAKERS = {"single": single, "chain": chain, "large": large}
MOVES = ["Add", "Mul", "Sub", "Relu", "Sigmoid", "Tanh", "Transpose", "Reshape", "Slice", "Concat", "Split", "Pad", "Squeeze", "Unsqueeze",
         "Expand", "Tile", "Flatten", "Gather", "MatMul", "Gemm", "Conv", "MaxPool", "AveragePool", "Softmax", "ReduceMean", "ReduceSum",
         "DepthToSpace", "SpaceToDepth", "LayerNormalization", "BatchNormalization", "Clip", "Where", "Identity", "Shape", "Cast",
         "GlobalAveragePool", "Dropout"]


def signature(model, finding):
    text = "".join("0" if c.isdigit() else c for c in finding.text)
    return f"{finding.kind} {'+'.join(n.op for n in model.nodes[:4])} {text[:40] if finding.kind in ('refused', 'crash') else ''}"


def report(bench, options, model, finding):
    small = bench.minimise(model, finding)
    if finding.kind in ("value", "config") and bench.sensitive(small):
        bench.counts["sensitive"] += 1
        return
    configs = [finding.config] if finding.config not in ("ort", "numpy", REFERENCE) else []
    again = [f for f in bench.check(small, configs) if f.kind == finding.kind]
    finding = again[0] if again else finding
    known = signature(small, finding)
    bench.seen[known] += 1
    if bench.seen[known] > options.each:
        return
    name = f"{finding.kind}-{'-'.join(n.op for n in small.nodes[:3])}-{model.seed}"
    text = f"{finding.kind} [{finding.config}] seed {model.seed}\n{finding.text}\n{small.text()}\n"
    print(text, flush=True)
    if options.out:
        with open(os.path.join(options.out, name + ".txt"), "w", encoding="utf-8") as file:
            file.write(text)
        with open(os.path.join(options.out, name + ".pickle"), "wb") as file:
            pickle.dump((small, finding), file)


def probe(bench):
    """Leaves out the instruction sets this processor does not have."""
    model = Model(13)
    model.inputs = {"x": np.ones(3, np.float32)}
    model.nodes = [Node("Relu", ["x"], ["y"], {})]
    model.outputs = ["y"]
    results = bench.ours.run(model.bytes(), model.runs(), bench.configs)
    bench.configs = [c for c, r in zip(bench.configs, results) if r[0].status == "ok"]


def replay(bench, path):
    with open(path, "rb") as file:
        model, finding = pickle.load(file)
    print(model.text())
    for found in bench.check(model):
        print("now:", found)
    for config, outcomes in zip([REFERENCE], bench.ours.run(model.bytes(), model.runs(), [REFERENCE])):
        print(config, outcomes)
    if bench.ort:
        print("ort", bench.ort.run(model.bytes(), model.runs()))
    return finding


def loop(bench, options):
    ops = list(OPERATORS)
    if options.ops:
        ops = [op for op in ops if op in options.ops.split(",")]
    deadline = time.monotonic() + options.seconds
    seed = options.seed
    count = 0
    while time.monotonic() < deadline and (options.models is None or count < options.models):
        kind = options.kind if options.kind != "both" else ("chain" if seed % 2 else "single")
        try:
            model, _ = MAKERS[kind](seed, bench, ops)
            count += 1
            bench.counts[f"models, {kind}"] += 1
            bench.counts["nodes"] += len(model.nodes)
            findings = bench.check(model)
            if findings:
                report(bench, options, model, findings[0])
        except Skip:
            pass
        seed += 1
    return seed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--ort")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--models", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops")
    parser.add_argument("--kind", default="both", choices=["single", "chain", "both", "large"])
    parser.add_argument("--out")
    parser.add_argument("--each", type=int, default=2, help="findings of one look to print")
    parser.add_argument("--replay")
    parser.add_argument("--refusals", action="store_true", help="list what each side refused")
    options = parser.parse_args()
    bench = Bench(options)
    probe(bench)
    if options.replay:
        replay(bench, options.replay)
        return 0
    if options.out:
        os.makedirs(options.out, exist_ok=True)
    print(f"seed {options.seed}, configurations: {bench.configs}", flush=True)
    seed = loop(bench, options)
    code, text = bench.ours.close()
    print(f"next seed {seed}; " + ", ".join(f"{k}: {v}" for k, v in sorted(bench.counts.items())))
    for known, count in bench.seen.most_common():
        print(f"{count:6} {known}")
    if options.refusals:
        for title, counter in (("refused by both", bench.both_refused), ("refused by ONNX Runtime", bench.ort_refused)):
            print(title)
            for (op, text_), count in counter.most_common(200):
                print(f"{count:6} {op}: {text_}")
    if code != 0:
        print(f"the worker ended with {code}: {text}")
    return 1 if bench.seen or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
