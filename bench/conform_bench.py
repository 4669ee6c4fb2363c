#!/usr/bin/env python3
"""Is virtual time true? The same fleet over real sockets and in virtual time, and how far the two are apart.

    conform_bench.py --build DIR [--devices N] [--arrival-rate R] [--interval SECONDS] [--seed S] [--within POINTS] [--keep DIR]

fleet.conform.points    the greatest distance of the coverage curves at any second, in points of the devices that each reached, once
                        a lag of at most 10 s is removed (offered, downloaded, activated, ran); peer: the bar of 2.
fleet.conform.unequal   facts that differ: counts of every version, outcome, rollouts, invariants; peer: the bar of 0.

A gateway makes a rollout of two stages and is stopped. Its folder is copied; the gateway goes on from the one over sockets, the
simulator from the other in virtual time, with the same options: full trust, the same arrivals, the same check-in interval, no
device enrolled. The gray stage opens the next one by how many devices completed, and devices that it does not let in come back
after an interval: so the curve has the arrivals, the gate and the check-ins in it. The table has the distance of each latency too
(Kolmogorov and Smirnov): in virtual time a message takes as long as the simulator says, so that is told and is no bar.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess

from bench_stack import BenchStack

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WITHIN = 2.0
GRAY_PERCENT = 10


def stages(devices):
    gray = {"name": "gray", "kind": "gray", "percent": GRAY_PERCENT, "min_sample": devices * GRAY_PERCENT // 200, "min_dwell_s": 1,
            "max_failure": 0.05}
    return [gray, {"name": "full", "kind": "full", "percent": 100, "min_sample": min(500, devices // 4), "min_dwell_s": 1, "max_failure": 0.05}]


def found(stack):
    """A root of trust of two keys, at the gateway, that trusts two releasers, and a built task, pushed."""
    for name in ("a", "b", "ci", "lead"):
        stack.walle("key", "new", "--out", stack.path(name + ".key"))
    stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("a.key"), "--key", stack.path("b.key"), "--release",
                stack.path("ci.key.pub"), "--release", stack.path("lead.key.pub"))
    stack.walle("root", "push", stack.path("root.1"))
    stack.walle("task", "build", os.path.join(ROOT, "conf/tasks/ipv"), "--out", stack.path("build"))
    stack.walle("task", "push", stack.path("build"))


def release(stack, devices):
    with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
        json.dump(stages(devices), file)
    stack.walle("rollout", "start", "ipv", "--build", stack.path("build"), "--stages", stack.path("stages.json"), "--key",
                stack.path("ci.key"), "--key", stack.path("lead.key"), "--trust-unproven", "--accept-empty")


def stop(stack):
    gateway = stack.children[-1]
    gateway.send_signal(signal.SIGTERM)
    if gateway.wait(60) != 0:
        raise SystemExit("conform_bench: the gateway did not end in order")


def play(stack, args, out, *where):
    run = subprocess.run([os.path.join(stack.bin, "walle-fleet-sim"), "run", *where, "--root", stack.path("root.1"), "--devices",
                          str(args.devices), "--seed", str(args.seed), "--arrival-rate", str(args.arrival_rate), "--checkin-interval",
                          str(args.interval), "--awake", str(args.awake), "--request-timeout", "60000", "--until-coverage", "100%", "--duration",
                          "7200", "--no-live", "--out", stack.path(out)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"conform_bench: {out} run: {run.stdout[-3000:]}{run.stderr}")
    with open(stack.path(out, "run.json"), encoding="utf-8") as file:
        return json.load(file)


def measure(stack, args):
    stack.start_gateway()
    found(stack)
    release(stack, args.devices)
    stop(stack)
    shutil.copytree(stack.path("gateway"), stack.path("copy"))
    stack.start_gateway()
    real = play(stack, args, "real", "--gateway", stack.url)
    stop(stack)
    virtual = play(stack, args, "virtual", "--virtual", stack.path("copy"), "--strangers")
    run = subprocess.run([os.path.join(stack.bin, "walle-fleet-sim"), "conform", stack.path("real"), stack.path("virtual"), "--within",
                          str(args.within), "--json", stack.path("conform.json")], capture_output=True, text=True, check=False)
    print(f"{args.devices} devices, {args.arrival_rate:g} a second, a check-in every {args.interval} s: real {real['duration_s']:.0f} s, "
          f"virtual {virtual['virtual']['took_s']:.0f} s; generator lag p99 {real['latency_us']['generator_lag']['p99'] / 1000:.1f} ms")
    print(run.stdout + run.stderr, end="")
    if run.returncode not in (0, 1):
        raise SystemExit(run.returncode)
    with open(stack.path("conform.json"), encoding="utf-8") as file:
        found = json.load(file)
    return found["points"], sum(not fact["equal"] for fact in found["facts"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--devices", type=int, default=100000)
    parser.add_argument("--arrival-rate", type=float, default=500)
    parser.add_argument("--interval", type=int, default=240)
    parser.add_argument("--awake", type=int, default=16384)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=WITHIN)
    parser.add_argument("--keep", help="folder that gets the reports of both runs")
    args = parser.parse_args()
    stack = BenchStack(args.build)
    try:
        points, unequal = measure(stack, args)
        if args.keep:
            for name in ("real", "virtual"):
                shutil.copytree(stack.path(name), os.path.join(args.keep, name), dirs_exist_ok=True)
    finally:
        stack.close()
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "conform.jsonl"), "a", encoding="ascii") as file:
        for name, value, bar, unit in (("points", points, args.within, "points"), ("unequal", unequal, 0, "facts")):
            file.write(json.dumps({"bench": "fleet.conform." + name, "ours": value, "peer": "bar", "theirs": bar, "unit": unit,
                                   "ratio": value / bar if bar else value, "better": "lower"}) + "\n")
    raise SystemExit(0 if points <= args.within and unequal == 0 else 1)


if __name__ == "__main__":
    main()
