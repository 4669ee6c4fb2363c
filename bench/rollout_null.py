"""Rollouts of identical versions on the gateway's core as it ships (part `null` of rollout_bench.py).

A cell is a failure rate of both versions, how much later successes are heard of than failures, a share of reports that get lost,
and a number of updated devices; its control is as many (bench/trial_cell.h has all 216 cells). gate_null plays a rollout of a
cell: scripted devices in the bytes that devices send, a store, a virtual clock. What is counted is the share of rollouts that are
ever stopped, beside alpha, with its 95 % interval (Wilson), and the share in which a segment is ever held, beside its part of alpha.

Of each size 24 cells are played, a third of all: with every lost share each rate meets two delays, and the sizes share the six delays
of a rate among them, so that every value of every axis is seen with every size and every pair of rate, delay and loss with one.
Besides, two cells have a segment that always failed six times as often as the others: nothing is to be held there either.
The ten cells with the largest shares, and those whose interval reaches above alpha, are then played 10,000 times on the stage's blocks
and the policy alone (bench/trial_play.h), and a hundredth of those on both, which must agree exactly.

Sixteen cells more have a version that is worse by max_rise or fails at max_failure: what is counted there is how often it passes,
beside beta, on the blocks alone.

What holds. A cell passes when its share is at most its level, and so is the upper end of its 95 % interval: that of its own rollouts,
or of its 10,000 on the blocks. The two cells with a segment are judged together. A cell of base rate 0 can hardly be stopped: the sums
show such cells apart.

The share of rollouts in which a segment was held is at most its part of alpha for each size, and no cell has more than chance brings.

A quick run has too few rollouts for the upper ends of intervals. It fails where a level is exceeded by more than chance brings (in one
of ten thousand cells that are at their level); else it says of a cell that does not pass that the runs are too few to say.

Lines of finished pieces are kept in --null-out, from which an interrupted run goes on (a quick one in a file of its own). Each has the hash of the binary that made it:
those of another build are neither gone on with nor counted.
"""
import concurrent.futures
import hashlib
import json
import math
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = DELAYS = 6
SIZES = (100, 1000, 20000)
RUNS = {100: 1000, 1000: 300, 20000: 80}
SLICES = (216, 217)  # cells with a segment that always failed more
SLICES_RUNS = 60
BAD = range(218, 234)  # a version that may not pass
BAD_RUNS, BAD_PIECE = 1000, 200
ROUNDS = 5  # of each cell, so that all cells are known alike at any time
ALPHA, BETA = 0.05, 0.1
SLICES_PART = 0.1
CHANCE = 0.0001  # of a cell at its level to be called worse
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


def build_of(binary):
    """A name for what the binary does: a hash of it."""
    with open(binary, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


class Pieces:
    """Finished pieces of work of one build, in a file that may have those of others."""

    def __init__(self, path, binary, folder, jobs):
        self.path, self.binary, self.folder, self.jobs = path, binary, folder, jobs
        self.build = build_of(binary)
        self.lines = []
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
            self.lines = [line for line in lines if line.get("build") == self.build]

    def has(self, how, cell, first, runs):
        return any((line["how"], line["cell"], line["first"], line["runs"]) == (how, cell, first, runs) for line in self.lines)

    def play(self, how, cell, first, runs):
        command = [self.binary, how, self.folder, str(cell), str(first), str(runs)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"build": self.build, **json.loads(run.stdout)}

    def play_all(self, pieces):
        """[(how, cell, first, runs)], without those that are there."""
        left = [piece for piece in pieces if not self.has(*piece)]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(self.play, *piece) for piece in left]):
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(done.result()) + "\n")
                self.lines.append(done.result())

    def sum(self, how, *cells_of_it):
        parts = [line for line in self.lines if line["how"] == how and line["cell"] in cells_of_it]
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
    """The cells whose share of stopped rollouts is largest, of equal ones those with more devices, and all that need more evidence."""
    def rank(item):
        cell, devices = item
        found = pieces.sum("core", cell)
        return (found["stopped"] / max(1, found["runs"]), devices)

    def unsure(cell):
        found = pieces.sum("core", cell)
        return interval(found["stopped"], found["runs"])[1] > ALPHA
    ranked = [cell for cell, _ in sorted(cells(), key=rank, reverse=True)]
    return ranked[:WORST] + [cell for cell in ranked[WORST:] if unsure(cell)]


def worst_pieces(worst, share):
    piece = WORST_PIECE // share
    found = []
    for first in range(0, WORST_RUNS // share, piece):
        for cell in worst:
            found.append(("blocks", cell, first, piece))
            found.append(("both", cell, first, piece // BOTH_EVERY))
    return found


def bad_pieces(share):
    return [("blocks", cell, first, max(1, BAD_PIECE // share)) for first in range(0, BAD_RUNS // share, max(1, BAD_PIECE // share))
            for cell in BAD]


def has_failures(cell):
    return cell >= RATES * DELAYS * len(SIZES) * 2 or cell % RATES > 0


def evidence_for(pieces, cell):
    """What a cell is judged with: its rollouts on the blocks where there are some."""
    blocks = pieces.sum("blocks", cell)
    return blocks if blocks["runs"] > 0 else pieces.sum("core", cell)


def verdict(found, evidence, what, level):
    """What the docstring says under `What holds`."""
    return found[what] / found["runs"] <= level and interval(evidence[what], evidence["runs"])[1] <= level


def exceeds(hits, runs, level):
    """More than chance brings: so many, or more, of trials at the level."""
    def chance(k):
        ways = math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        return math.exp(ways + k * math.log(level) + (runs - k) * math.log1p(-level))
    return hits > level * runs and sum(chance(k) for k in range(hits, runs + 1)) < CHANCE


def line_of(pieces, how, cell, name, evidence=None):
    """`evidence`: what it is judged with; None: its own rollouts."""
    found = pieces.sum(how, cell)
    evidence = evidence or found
    what, level, peer, unit = ("passed", BETA, "beta", "passed") if cell in BAD else ("stopped", ALPHA, "alpha", "stopped")
    low, high = interval(found[what], found["runs"])
    held = interval(found["held"], found["runs"])
    share = found[what] / found["runs"]
    often_held = exceeds(found["held"], found["runs"], ALPHA * SLICES_PART)
    holds = verdict(found, evidence, what, level) and not often_held
    worse = exceeds(found[what], found["runs"], level) or often_held
    return {"bench": name, "ours": round(share, 4), "peer": peer, "theirs": level, "unit": f"share of rollouts {unit}",
            "ratio": round(share / level, 4), "better": "lower",
            "detail": {"cell": next(line["name"] for line in pieces.lines if line["cell"] == cell), "build": pieces.build,
                       "runs": found["runs"], "stopped": found["stopped"], "low": round(low, 4), "high": round(high, 4),
                       "judged_runs": evidence["runs"], "judged_high": round(interval(evidence[what], evidence["runs"])[1], 4),
                       "holds": holds, "worse": worse,
                       "held": found["held"], "held_low": round(held[0], 4), "held_high": round(held[1], 4), "passed": found["passed"]}}


def print_line(line, quick):
    detail = line["detail"]
    doubt = "WORSE" if detail["worse"] else "too few runs to say" if quick else "NOT SHOWN"
    print(f"{line['bench']:20} {detail['stopped']:4} of {detail['runs']:5} stopped, {detail['passed']} passed ({line['ours']:.2%}, "
          f"{detail['low']:.2%} to {detail['high']:.2%}; by {detail['judged_runs']} at most {detail['judged_high']:.2%}), held in {detail['held']}"
          f"{'' if detail['holds'] else '  ' + doubt}  {detail['cell']}", flush=True)


def print_pools(pieces):
    """Prints them; False: segments were held too often in rollouts of a size."""
    fine = True
    for devices in SIZES:
        for failing in (True, False):
            pool = [cell for cell, size in cells() if size == devices and has_failures(cell) == failing]
            found = pieces.sum("core", *pool)
            low, high = interval(found["stopped"], found["runs"])
            print(f"{devices} devices, base {'above 0' if failing else '0'}: {found['stopped']} of {found['runs']} stopped ({low:.2%} to "
                  f"{high:.2%}) in {len(pool)} cells, a segment held in {found['held']}", flush=True)
            fine = fine and found["held"] / found["runs"] <= ALPHA * SLICES_PART
    return fine


def run(args):
    share = 10 if args.quick else 1
    binary = os.path.join(os.path.abspath(args.build), "bin", "gate_null")
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    pieces = Pieces(args.null_out or os.path.join(HERE, "out", "rollout_null.quick.jsonl" if args.quick else "rollout_null.jsonl"), binary, folder, args.jobs)
    pieces.play_all(bad_pieces(share))
    pieces.play_all(grid_pieces(share))
    pieces.play_all(slices_pieces(share))
    worst = worst_of(pieces)
    pieces.play_all(worst_pieces(worst, share))
    lines = [line_of(pieces, "blocks", cell, f"gate.null.bad.{cell}") for cell in BAD]
    lines += [line_of(pieces, "core", cell, f"gate.null.{cell}", evidence_for(pieces, cell)) for cell, _ in cells()]
    lines += [line_of(pieces, "core", cell, f"gate.null.slice.{cell}", pieces.sum("core", *SLICES)) for cell in SLICES]
    lines += [line_of(pieces, "blocks", cell, f"gate.null.worst.{cell}") for cell in worst]
    differ = sum(line["differ"] for line in pieces.lines)
    for line in lines:
        print_line(line, args.quick)
    fine = print_pools(pieces)
    print(f"{sum(line['runs'] for line in pieces.lines if line['how'] == 'both')} rollouts were played both ways, {differ} differ")
    with open(os.path.join(HERE, "out", "rollout.jsonl"), "a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    passes = all(line["detail"]["holds"] or (args.quick and not line["detail"]["worse"]) for line in lines)
    return 0 if differ == 0 and passes and (fine or args.quick) else 1
