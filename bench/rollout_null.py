"""Rollouts of identical versions on the gateway's core as it ships (part `null` of rollout_bench.py).

A cell is a failure rate of both versions, how much later successes are heard of than failures, a share of reports that get lost,
and a number of updated devices; its control is as many (bench/verdict_play.h has all 216 cells). gate_null plays a rollout of a
cell: scripted devices in the bytes that devices send, a store, a virtual clock. What is counted is the share of rollouts that are
ever stopped, beside alpha, with its 95 % interval (Wilson), and the share in which a segment is ever held, beside its part of alpha.

Of each size 24 cells are played, a third of all: with every lost share each rate meets two delays, and the sizes share the six delays
of a rate among them, so that every value of every axis is seen with every size and every pair of rate, delay and loss with one.
Besides, two cells have a segment that always failed six times as often as the others: nothing is to be held there either.
The ten cells with the largest shares are then played 10,000 times on the stage's blocks and the policy alone (bench/trial_play.h),
and a hundredth of those on both, which must agree exactly.

Lines of finished pieces are kept in --null-out, from which an interrupted run goes on.
"""
import concurrent.futures
import json
import math
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = DELAYS = 6
SIZES = (100, 1000, 20000)
RUNS = {100: 1000, 1000: 300, 20000: 50}
SLICES = (216, 217)  # cells with a segment that always failed more
SLICES_RUNS = 60
ROUNDS = 5  # of each cell, so that all cells are known alike at any time
ALPHA = 0.05
SLICES_PART = 0.1
WORST, WORST_RUNS, WORST_PIECE, BOTH_EVERY = 10, 10000, 1000, 100


def index_of(rate, delay, size, loss):
    return rate + RATES * (delay + DELAYS * (size + len(SIZES) * loss))


def cells():
    """[(cell, devices)]"""
    found = []
    for size, devices in enumerate(SIZES):
        for loss in range(2):
            first = (size + loss) % 3
            for shift in (first, first + 3):
                found += [(index_of(rate, (rate + shift) % DELAYS, size, loss), devices) for rate in range(RATES)]
    return found


def interval(hits, runs):
    """95 %, by Wilson's formula."""
    z = 1.959964
    share, square = hits / runs, z * z / runs
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / runs + square / (4 * runs))
    return max(0.0, middle - half), min(1.0, middle + half)


class Pieces:
    """Finished pieces of work, in a file."""

    def __init__(self, path, binary, folder, jobs):
        self.path, self.binary, self.folder, self.jobs = path, binary, folder, jobs
        self.lines = []
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.lines = [json.loads(line) for line in file if line.endswith("\n")]

    def has(self, how, cell, first):
        return any((line["how"], line["cell"], line["first"]) == (how, cell, first) for line in self.lines)

    def play(self, how, cell, first, runs):
        command = [self.binary, how, self.folder, str(cell), str(first), str(runs)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def play_all(self, pieces):
        """[(how, cell, first, runs)], without those that are there."""
        left = [piece for piece in pieces if not self.has(*piece[:3])]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(self.play, *piece) for piece in left]):
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(done.result())
                self.lines.append(json.loads(done.result()))

    def sum(self, how, cell):
        parts = [line for line in self.lines if (line["how"], line["cell"]) == (how, cell)]
        return {key: sum(line[key] for line in parts) for key in ("runs", "stopped", "held", "passed", "differ")}


def grid_pieces(share):
    pieces = []
    for number in range(ROUNDS):
        for cell, devices in cells():
            runs = max(1, RUNS[devices] // share // ROUNDS)
            pieces.append(("core", cell, number * runs, runs))
    return pieces


def slices_pieces(share):
    return [("core", cell, number * SLICES_RUNS // ROUNDS, max(1, SLICES_RUNS // ROUNDS // share))
            for number in range(ROUNDS) for cell in SLICES]


def worst_of(pieces):
    """The cells whose share of stopped rollouts is largest; of equal ones those with more devices."""
    def rank(item):
        cell, devices = item
        found = pieces.sum("core", cell)
        return (found["stopped"] / max(1, found["runs"]), devices)
    return [cell for cell, _ in sorted(cells(), key=rank, reverse=True)[:WORST]]


def worst_pieces(worst, share):
    piece = WORST_PIECE // share
    found = []
    for first in range(0, WORST_RUNS // share, piece):
        for cell in worst:
            found.append(("blocks", cell, first, piece))
            found.append(("both", cell, first, piece // BOTH_EVERY))
    return found


def line_of(pieces, how, cell, name):
    found = pieces.sum(how, cell)
    low, high = interval(found["stopped"], found["runs"])
    held = interval(found["held"], found["runs"])
    share = found["stopped"] / found["runs"]
    return {"bench": name, "ours": round(share, 4), "peer": "alpha", "theirs": ALPHA, "unit": "share of rollouts stopped",
            "ratio": round(share / ALPHA, 4), "better": "lower",
            "detail": {"cell": next(line["name"] for line in pieces.lines if line["cell"] == cell), "runs": found["runs"],
                       "stopped": found["stopped"], "low": round(low, 4), "high": round(high, 4), "held": found["held"],
                       "held_low": round(held[0], 4), "held_high": round(held[1], 4), "passed": found["passed"]}}


def too_many(line):
    """More than alpha for certain."""
    return line["detail"]["low"] > ALPHA or line["detail"]["held_low"] > ALPHA * SLICES_PART


def print_line(line):
    detail = line["detail"]
    print(f"{line['bench']:20} {detail['stopped']:4} of {detail['runs']:5} stopped ({line['ours']:.2%}, {detail['low']:.2%} to "
          f"{detail['high']:.2%}), held in {detail['held']}, passed {detail['passed']}  {detail['cell']}", flush=True)


def run(args):
    share = 10 if args.quick else 1
    binary = os.path.join(os.path.abspath(args.build), "bin", "gate_null")
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    pieces = Pieces(args.null_out or os.path.join(HERE, "out", "rollout_null.jsonl"), binary, folder, args.jobs)
    pieces.play_all(grid_pieces(share))
    pieces.play_all(slices_pieces(share))
    lines = [line_of(pieces, "core", cell, f"gate.null.{cell}") for cell, _ in cells()]
    lines += [line_of(pieces, "core", cell, f"gate.null.slice.{cell}") for cell in SLICES]
    worst = worst_of(pieces)
    pieces.play_all(worst_pieces(worst, share))
    lines += [line_of(pieces, "blocks", cell, f"gate.null.worst.{cell}") for cell in worst]
    differ = sum(line["differ"] for line in pieces.lines)
    for line in lines:
        print_line(line)
    print(f"{sum(line['how'] == 'both' and line['runs'] for line in pieces.lines)} rollouts were played both ways, {differ} differ")
    with open(os.path.join(HERE, "out", "rollout.jsonl"), "a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return 1 if differ or any(too_many(line) for line in lines) else 0
