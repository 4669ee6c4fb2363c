#!/usr/bin/env python3
"""Benchmarks of decisions. Prints a table and appends JSON lines to bench/out/policy.jsonl.

    policy_bench.py --build DIR [--quick]

policy.checkin.10, .300, .10000   one check-in of a device that has what it should, from headers to the answer, with so
                                  many rollouts open to a share, 1,000,000 devices in 20,000 cohorts, random order. Nearly
                                  all rollouts have a target; peer: a linear scan, every rollout's target and bucket for
                                  every check-in.
policy.checkin.everybody.N        the same with every rollout for (nearly) everybody, in 100 cohorts.
policy.checkin.growth             .10000 over .10, both mixes; the bar is 1.5.
policy.match                      evaluations of a target a second on one core; the bar is 2,000,000.

`detail` has the first check-in of a device (unknown device, unknown cohort) and check-ins while a rollout changes every
10,000 of them. `ratio` is ours / theirs. A wrong answer fails the run: digests are compared with the linear scan's.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GROWTH_BAR = 1.5
MATCH_BAR = 2000000


def worker(build, *arguments):
    program = os.path.join(build, "bin", "policy_worker")
    out = subprocess.run(["taskset", "-c", "0", program, *map(str, arguments)], check=True, stdout=subprocess.PIPE).stdout
    for folder in glob.glob("/tmp/walle-policy-??????"):
        shutil.rmtree(folder, ignore_errors=True)
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true", help="100,000 devices, no second run")
    args = parser.parse_args()
    devices, runs = (100000, 1) if args.quick else (1000000, 2)
    out = []
    failed = []

    def add(bench, mine, peer, theirs, unit, better, detail):
        out.append({"bench": bench, "ours": round(mine, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
                    "ratio": round(mine / theirs, 5), "better": better, "detail": detail})

    growth = {}
    for mix, name in (("targeted", "policy.checkin"), ("everybody", "policy.checkin.everybody")):
        best = {}
        for _ in range(runs):  # sizes take turns, so that a busy spell does not fall on one of them
            for releases in (10, 300, 10000):
                got = worker(args.build, "checkin", releases, devices, mix)
                if got["wrong"] or got["other_answers"]:
                    failed.append("%s %d releases: %d wrong, %d other answers" % (mix, releases, got["wrong"], got["other_answers"]))
                if releases not in best or got["steady_ns"] < best[releases]["steady_ns"]:
                    best[releases] = got
        for releases, got in best.items():
            add("%s.%d" % (name, releases), got["steady_ns"], "linear scan", got["linear_ns"], "ns per check-in", "lower", got)
        growth[mix] = best[10000]["steady_ns"] / best[10]["steady_ns"]
    worst = max(growth.values())
    add("policy.checkin.growth", worst, "bar", GROWTH_BAR, "times, 10000 over 10 releases", "lower", growth)
    match = max((worker(args.build, "match", 300 if args.quick else 2000) for _ in range(3)), key=lambda one: one["per_s"])
    add("policy.match", match["per_s"], "bar", MATCH_BAR, "evaluations per second and core", "higher", match)

    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "policy.jsonl"), "a", encoding="utf-8") as file:
        for line in out:
            text = json.dumps(line)
            print(text)
            file.write(text + "\n")
    print("%-34s %14s %14s %10s" % ("", "ours", "theirs", "ratio"))
    for line in out:
        print("%-34s %14.1f %14.1f %10.5f  %s" % (line["bench"], line["ours"], line["theirs"], line["ratio"], line["unit"]))
    if failed:
        sys.exit("wrong answers: " + "; ".join(failed))


if __name__ == "__main__":
    main()
