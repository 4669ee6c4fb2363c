#!/usr/bin/env python3
"""Benchmarks of the libraries that scripts compute with, and of many tasks at once. Prints a table and appends JSON lines to bench/out/container.jsonl.

    container_bench.py --build DIR [--quick] [--only GROUP ...] [--out FILE]

container.np.GROUP.SIZE  processor time of one call of walle.np in the device's script VM, over 10, 1,000 and 100,000 elements;
                         peer: the same text in CPython with NumPy, OpenBLAS on one thread. Geometric mean over the calls of the
                         group (`detail` has each). The loop around the calls, which is interpreted, counts on both sides.
container.np.all.SIZE    geometric mean of the groups' ratios; bars: 1.0 at 10 elements, 1.2 at 1,000 and at 100,000.
container.cv.*           the same of walle.cv beside OpenCV: bench/container/container_cv.py.
container.start_us, container.start_cold_us, container.verify_us_per_kb  bench/container/container_start.py says what they are.
container.tasks.*, container.hostile.p99  many tasks at once beside CPython; neighbours beside hostile scripts:
                         bench/container/container_tasks.py.

Both sides take turns, one of each after the other; `ours` and `theirs` are medians of the turns, `ratio` is ours / theirs and
`spread` the range of the ratio from turn to turn. Of the libraries it is processor time of the thread: a neighbour on the machine is
seen in caches alone. Both must come to the same result, else the run fails. A first call of each is not counted.
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import time
import typing

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
import numpy  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "container"))
import container_cv  # noqa: E402
import container_start  # noqa: E402
import container_tasks  # noqa: E402

BARS = {10: 1.0, 1000: 1.2, 100000: 1.2}
LOOPS_MAX = 20000
# What operands a call has, by the number of elements N; `M` is the side of a square of about N.
OPERANDS = """    a = np.linspace(-3, 4, N)
    b = np.linspace(1, 4, N)[::-1].copy()
    f = a.astype('float32')
    g = b.astype('float32')
    i = (np.arange(N) * 7919 % 1000).astype('int32')
    k = np.arange(N) * 31 % 17
    m = a > 0
    s = np.linspace(-1, 2, M * M).reshape(M, M)
    t = s.astype('float32')
    r = np.zeros(N)
"""
# By group: expressions. A statement has the array that it changes behind `;`, which is looked at in the end.
GROUPS = {
    "arithmetic": ("a + b", "a * 2.5", "f - g", "f / g", "i + i", "k * 3", "k // 5", "-f"),
    "compare": ("a < b", "f >= 1.0", "k == 3", "np.logical_and(m, m)", "m & m", "np.isnan(f)"),
    "powers": ("np.sqrt(b)", "np.exp(a)", "np.log(g)", "np.square(f)", "np.power(g, 2.5)", "np.abs(a)"),
    "angles": ("np.sin(a)", "np.cos(f)", "np.tanh(f)", "np.arctan2(a, b)"),
    "rounding": ("np.floor(a)", "np.rint(f)", "np.around(a, 2)", "a.astype('int32')", "k.astype('float32')"),
    "reduce": ("a.sum()", "f.sum()", "k.max()", "f.min()", "a.mean()", "s.sum(axis=0)", "t.max(axis=1)", "m.any()", "np.count_nonzero(m)"),
    "spread": ("a.std()", "t.var(axis=0)", "np.cumsum(a)", "f.argmax()", "np.nanmean(a)", "np.ptp(k)"),
    "choose": ("np.where(m, a, b)", "np.clip(f, -1, 1)", "np.minimum(a, b)", "np.maximum(f, 0)", "np.nonzero(m)[0]"),
    "index": ("a[1:-1]", "a[::2] + 1", "a[m]", "a[k % 10]", "np.take(f, k % 10)", "r[2:] = 1; r", "r[m] = a[m]; r"),
    "shape": ("a.reshape(-1, 1)", "s.T.copy()", "np.transpose(t)", "np.expand_dims(a, 0)", "np.broadcast_to(a, (2, N))", "s.ravel()"),
    "join": ("np.concatenate([a, b])", "np.stack([f, g])", "np.hstack([k, k])", "np.split(a, [3, 7])[1]", "np.tile(f, 2)", "np.repeat(k, 2)"),
    "make": ("np.zeros(N)", "np.ones(N, dtype='float32')", "np.arange(N)", "np.linspace(0, 1, N)", "np.full(N, 7)", "a.copy()"),
    "sort": ("np.sort(i)", "np.sort(b)", "np.argsort(f)", "np.unique(k)", "np.searchsorted(a, b)"),
    "product": ("np.dot(a, b)", "np.dot(f, g)", "s @ s", "t @ t", "s @ s[0]", "np.inner(f, g)"),
}


def setup(size):
    """Lines that make what the uses of walle.np of `size` are of."""
    return f"    N = {size}\n    M = {max(2, math.isqrt(size))}\n{OPERANDS}"


def source_of(call, made):
    """The text that both sides run: `go` marks where measuring starts and stops, and gives what the last call came to, by forty of
    its numbers, too, so that places count."""
    statement, _, result = call.partition(";")
    line = statement if result else "x = " + statement
    checked = result.strip() or "x"
    return (f"def go(calls, mark):\n{made}    {line}\n    mark('start')\n"
            f"    for _ in range(calls):\n        {line}\n    mark('stop')\n"
            f"    y = np.asarray({checked}).ravel()\n    some = [float(y[k * 7919 % len(y)]) for k in range(40)]\n"
            f"    return [list(np.asarray({checked}).shape), float(np.max(y)), float(np.sum(np.abs(y)))] + some\n")


class Device:
    """The worker, which keeps one VM."""

    def __init__(self, build):
        program = os.path.join(build, "bin", "container_worker")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"container_worker ended with status {self.process.wait()}")
        return line

    def load(self, source):
        text = ("import walle\nfrom walle import cv, np, data\n" + source
                + "walle.result(go(walle.input, lambda name: data.query(name, 'k')))\n")
        self.ask(f"load {len(text.encode())}\n{text}")

    def run(self, calls):
        _, spent, result = self.ask(f"run {calls}\n").split(" ", 2)
        return int(spent), json.loads(result)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Peer:
    """NumPy and OpenCV in this process, whose allocator keeps what was freed: else each large array is paged in anew."""

    def __init__(self):
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
        libc = ctypes.CDLL(None)
        if not libc.mallopt(trim_threshold, 1 << 30) or not libc.mallopt(mmap_threshold, 1 << 25):
            sys.exit("container: the allocator takes no other thresholds")
        self.cv = container_cv.prepare()

    def load(self, source):
        names = {"np": numpy, "cv": self.cv}
        exec(compile(source, "bench.py", "exec"), names)  # noqa: S102
        self.go = names["go"]

    def run(self, calls):
        marks = {}

        def mark(name):
            marks[name] = time.thread_time_ns()
        result = self.go(calls, mark)
        return marks["stop"] - marks["start"], result


def differ(ours, theirs, kind):
    """None, or what the two sides do not agree on."""
    if ours[0] != list(theirs[0]):
        return f"shape {ours[0]}, not {list(theirs[0])}"
    for mine, other in zip(ours[1:], theirs[1:]):
        if abs(mine - other) > kind.tolerance * max(1.0, abs(other)) + kind.slack:
            return f"{mine}, not {other}"
    return None


def loops_for(side, turn_ns):
    calls = 1
    while True:
        spent, result = side.run(calls)
        if spent >= turn_ns / 4 or calls >= LOOPS_MAX:
            return max(1, min(LOOPS_MAX, int(calls * turn_ns / max(spent, 1)))), result
        calls = min(LOOPS_MAX, calls * 4)


def measure(sides, kind, call, size, turns, turn_ns):
    """Nanoseconds of a call by turn, ours and theirs."""
    source = source_of(call, kind.setup(size))
    counts, results, times = [], [], ([], [])
    for side in sides:
        side.load(source)
        loops, result = loops_for(side, turn_ns)
        counts.append(loops)
        results.append(result)
    wrong = differ(*results, kind)
    if wrong:
        sys.exit(f"container: {call} of {size}: {wrong}")
    for _ in range(turns):
        for which, side in enumerate(sides):
            times[which].append(side.run(counts[which])[0] / counts[which])
    return times


def geometric(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def line_of(kind, bench, calls):
    """One line of a group's measured calls, {expression: (ours, theirs)} by turn."""
    ours = {call: statistics.median(times[0]) for call, times in calls.items()}
    theirs = {call: statistics.median(times[1]) for call, times in calls.items()}
    by_turn = [geometric([mine / other for mine, other in turn])
               for turn in zip(*(list(zip(*times)) for times in calls.values()))]
    return {"bench": bench, "ours": round(geometric(ours.values()), 1), "peer": kind.peer,
            "theirs": round(geometric(theirs.values()), 1), "unit": "ns of processor time a call",
            "ratio": round(geometric([ours[call] / theirs[call] for call in calls]), 4),
            "spread": [round(min(by_turn), 4), round(max(by_turn), 4)], "better": "lower",
            "detail": {call: [round(ours[call], 1), round(theirs[call], 1), round(ours[call] / theirs[call], 3)] for call in calls}}


def overall(kind, size, lines):
    ratio = geometric([line["ratio"] for line in lines])
    bar = kind.bars[size]
    return {"bench": f"container.{kind.name}.all.{size}", "ours": round(ratio, 4), "peer": "bar", "theirs": bar, "unit": f"times {kind.of}",
            "ratio": round(ratio / bar, 4), "spread": [round(geometric([line["spread"][end] for line in lines]), 4) for end in (0, 1)],
            "better": "lower", "verdict": "met" if ratio <= bar else "missed",
            "detail": {line["bench"]: line["ratio"] for line in lines}}


class Kind(typing.NamedTuple):
    """A library of scripts, and what of it is measured."""
    name: str
    of: str  # whose names and results it has
    peer: str
    groups: dict
    bars: dict  # by size
    setup: typing.Callable
    tolerance: float  # of results, relative
    slack: float  # ... and beside that: pixels may be off by as much


KINDS = (Kind("np", "NumPy", f"NumPy {numpy.__version__}", GROUPS, BARS, setup, 1e-3, 0),
         Kind("cv", "OpenCV", container_cv.PEER, container_cv.GROUPS, {size: container_cv.BAR for size in container_cv.SIZES},
              container_cv.setup, 1e-2, 2))


def lines_of(kind, sides, args):
    """Of all its groups and sizes that are asked for."""
    turns, turn_ns = (3, 500_000) if args.quick else (9, 4_000_000)
    lines = []
    groups = [name for name in kind.groups if not args.only or f"{kind.name}.{name}" in args.only or kind.name in args.only]
    for size in kind.bars if groups else ():
        if args.sizes and str(size) not in args.sizes:
            continue
        made = [line_of(kind, f"container.{kind.name}.{name}.{size}",
                        {call: measure(sides, kind, call, size, turns, turn_ns) for call in kind.groups[name]}) for name in groups]
        lines += made + ([overall(kind, size, made)] if len(groups) == len(kind.groups) else [])
    return lines


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true", help="few, short turns")
    parser.add_argument("--only", nargs="*", metavar="GROUP", help="these alone: np, cv, start, tasks, hostile, or a group as np.sort, cv.filter")
    parser.add_argument("--sizes", nargs="*", metavar="SIZE", help="these alone: 10, 1000, 100000, 160x120, 640x480")
    parser.add_argument("--out", default=os.path.join(HERE, "out", "container.jsonl"))
    args = parser.parse_args(argv)
    known = {"start", "tasks", "hostile"}.union(*({kind.name, *(f"{kind.name}.{name}" for name in kind.groups)} for kind in KINDS))
    unknown = sorted(set(args.only or ()) - known)
    if unknown:
        parser.error(f"--only {unknown[0]}: one of {', '.join(sorted(known))}")
    sides = (Device(args.build), Peer())
    lines = [line for kind in KINDS for line in lines_of(kind, sides, args)]
    sides[0].close()
    for name, measured in (("start", container_start.start_lines), ("tasks", container_tasks.tasks_lines),
                           ("hostile", container_tasks.hostile_lines)):
        lines += measured(args.build, args.quick) if not args.only or name in args.only else []
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    with open(args.out, "a", encoding="utf-8") as file:
        for line in lines:
            text = json.dumps(line)
            print(text)
            file.write(text + "\n")
    print(f"{'':32} {'ours':>12} {'theirs':>12} {'ratio':>8}  spread")
    for line in lines:
        print(f"{line['bench']:32} {line['ours']:12.1f} {line['theirs']:12.1f} {line['ratio']:8.3f}  "
              f"{line['spread'][0]:.3f} to {line['spread'][1]:.3f}  {line.get('verdict', '')}")


if __name__ == "__main__":
    main()
