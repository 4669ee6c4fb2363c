"""The lines container.tasks.* and container.hostile.p99 of bench/container_bench.py.

container.tasks.light|middle|heavy|heavy_np.N  N tasks, each asked for again as soon as it answered, on the workers of the device and its
                     scheduler with what ships (K runs at once, as many as cores and at least 2; 256 KiB; a VM that each worker
                     keeps). Each task is another content, and looks at its input before all else, so that no image holds any of
                     its work: runs a second. Peer: the same text on N threads of CPython, the better of two ways: each thread goes on by
                     itself, or one hands the runs out, as our loop does. Bar: 1.9 times. heavy_np computes with arrays: walle.np, and NumPy there, OpenBLAS on one thread.
                     `detail` has both ways, and
                     `by_processor_time`: the ratio from processor time alone, two cores for us and the lock's one for them, which
                     other load on the machine does not move.
....N.processes      the same beside N processes of CPython, forked and warm, each going on by itself.
....N.memory         MiB in the end, all still there: the proportional share of our process (its Pss) beside the sum of those of
                     their processes. Bar: a fifth. `detail`: their threads', and the most that was resident of ours, which counts
                     whole what others share, as the C library.
....N.p99            ms from asked to answered, of every hundredth run the least; peer as the first line's. `detail`: processes.
container.hostile.p99  of two tasks (task_middle.py), each asked for every 20 ms, beside one that runs the scripts of
                     tests/hostile_scripts/ends one after the other; beside the same without it. Bar: 2.0 times.
What the runtime does besides, its record after each end and its hashes before each start, is in none of them.
Each measurement is a process of its own; all sides take turns; medians of the turns, `spread` of the ratio from turn to turn.
"""
import json
import os
import platform
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTILE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "hostile_scripts", "ends")
WEIGHTS = ("light", "middle", "heavy", "heavy_np")
COUNTS = (1, 2, 8, 64)
PEERS = ("threads", "handed", "processes")
CORES = 2  # that the bars are for
THROUGHPUT_BAR, MEMORY_BAR, P99_BAR = 1.9, 0.2, 2.0
PYTHON = "CPython " + platform.python_version()


def ask(*command):
    run = subprocess.run([str(one) for one in command], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"container: {' '.join(str(one) for one in command)} ended with status {run.returncode}")
    return json.loads(run.stdout)


def turn_of(build, weight, count, ms):
    """One measurement of each side, which must come to the same."""
    script = os.path.join(HERE, f"task_{weight}.py")
    turn = {"ours": ask(os.path.join(build, "bin", "container_tasks"), "tasks", script, count, ms)}
    for peer in PEERS:
        turn[peer] = ask("/usr/bin/python3", os.path.join(HERE, "container_peer.py"), peer, script, count, ms)
        if turn[peer]["result"] != turn["ours"]["result"]:
            sys.exit(f"container: {weight}: {turn['ours']['result']}, not {turn[peer]['result']}")
    for side in turn.values():
        side["rate"] = side["runs"] / side["seconds"]
        side["p99_ms"] = side["p99_us"] / 1000
        side["mib"] = side["pss_kib"] / 1024
    return turn


def median(turns, side, what):
    return statistics.median(turn[side][what] for turn in turns)


def line(bench, turns, peer, name, what, unit, better, detail, bar=None):
    ours, theirs = median(turns, "ours", what), median(turns, peer, what)
    ratios = [turn["ours"][what] / turn[peer][what] for turn in turns]
    ratio = ours / theirs
    made = {"bench": bench, "ours": round(ours, 3), "peer": f"{PYTHON} {name}", "theirs": round(theirs, 3), "unit": unit,
            "ratio": round(ratio, 4), "spread": [round(min(ratios), 4), round(max(ratios), 4)], "better": better, "detail": detail}
    if bar is not None:
        made["bar"] = bar
        made["verdict"] = "met" if (ratio >= bar if better == "higher" else ratio <= bar) else "missed"
    return made


def lines_of(weight, count, turns):
    best = max(("threads", "handed"), key=lambda peer: median(turns, peer, "rate"))
    name = {"threads": "threads, each by itself", "handed": "threads, runs handed out"}[best]
    rates = {peer: round(median(turns, peer, "rate"), 1) for peer in PEERS}
    spent = {side: median(turns, side, "cpu_us") for side in ("ours", "threads")}
    alone = 1 if count == 1 else CORES  # one task never runs beside itself
    rates["by_processor_time"] = round(alone * spent["threads"] / spent["ours"], 3)
    rates["cpu_us_a_run"] = [round(spent["ours"], 2), round(spent["threads"], 2)]
    rates["at_once"] = turns[0]["ours"]["at_once"]
    bench = f"container.tasks.{weight}.{count}"
    return [line(bench, turns, best, name, "rate", "runs/s", "higher", rates, THROUGHPUT_BAR),
            line(bench + ".processes", turns, "processes", "processes, forked and warm", "rate", "runs/s", "higher", {}),
            line(bench + ".memory", turns, "processes", "processes, forked and warm", "mib", "MiB", "lower",
                 {"threads": round(median(turns, "threads", "mib"), 1), "resident": round(median(turns, "ours", "peak_kib") / 1024, 1)},
                 MEMORY_BAR),
            line(bench + ".p99", turns, best, name, "p99_ms", "ms", "lower",
                 {peer: round(median(turns, peer, "p99_ms"), 3) for peer in PEERS})]


def tasks_lines(build, quick):
    turns, ms = (2, 300) if quick else (5, 1000)
    lines = []
    for weight in WEIGHTS:
        for count in COUNTS:
            long = ms * (8 if weight.startswith("heavy") and count == max(COUNTS) else 1)  # each runs more than once
            lines += lines_of(weight, count, [turn_of(build, weight, count, long) for _ in range(turns)])
    return lines


def hostile_lines(build, quick):
    """Each turn a part of the scripts, and as long without them."""
    program, script = os.path.join(build, "bin", "container_tasks"), os.path.join(HERE, "task_middle.py")
    parts = 12 if quick else 6
    turns = []
    for first in range(2 if quick else parts):
        beside = ask(program, "beside", script, 1000, HOSTILE, first, parts)
        alone = ask(program, "beside", script, round(beside["seconds"] * 1000))
        turns.append((beside, alone))
    ours, theirs = (statistics.median(turn[side]["p99_us"] for turn in turns) / 1000 for side in (0, 1))
    ratios = [beside["p99_us"] / alone["p99_us"] for beside, alone in turns]
    ran, right = (sum(beside[what] for beside, _ in turns) for what in ("hostile", "right"))
    return [{"bench": "container.hostile.p99", "ours": round(ours, 3), "peer": "the same without hostile ones", "theirs": round(theirs, 3),
             "unit": "ms", "ratio": round(ours / theirs, 4), "spread": [round(min(ratios), 4), round(max(ratios), 4)], "better": "lower",
             "bar": P99_BAR, "verdict": "met" if ours / theirs <= P99_BAR else "missed",
             "detail": {"scripts": ran, "ended_as_said": right, "runs_beside": sum(beside["runs"] for beside, _ in turns),
                        "runs_alone": sum(alone["runs"] for _, alone in turns),
                        "p50_ms": [round(statistics.median(turn[side]["p50_us"] for turn in turns) / 1000, 3) for side in (0, 1)],
                        "peak_mib": round(max(beside["peak_kib"] for beside, _ in turns) / 1024, 1)}}]
