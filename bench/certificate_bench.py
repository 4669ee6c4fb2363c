#!/usr/bin/env python3
"""How long a certificate of the default policy over the product's pack of bad releases takes.

    certificate_bench.py --build DIR [--seeds N] [--out DIR]

fleet.certificate.wall_s   of `walle-fleet-sim certify` with its defaults; peer: the bar of 20 minutes.
fleet.certificate.harmed   the most devices that any release of the pack harmed, of those of a run; peer: all of them.

A gateway releases conf/tasks/ipv by `walle rollout start` without stages of its own, that is by the default ladder, which plays
its simulate stage first; then it is stopped, and its folder certified. The page and its figures stay in --out.
"""
import argparse
import json
import os
import re
import subprocess
import time

from bench_stack import BenchStack
from conform_bench import found, stop

HERE = os.path.dirname(os.path.abspath(__file__))
WALL_S_BAR = 1200


def certify(stack, args):
    stack.start_gateway()
    found(stack)
    started = stack.walle("rollout", "start", "ipv", "--build", stack.path("build"), "--key", stack.path("ci.key"), "--key",
                          stack.path("lead.key"), "--accept-empty", "--accept-power")
    stop(stack)
    rollout, version = re.match(r"[0-9a-f]{16}", started).group(0), task_version(stack)
    words = ["--virtual", stack.path("gateway"), "--root", stack.path("root.1"), "--rollout", rollout, "--version", version, "--out", args.out]
    begun = time.monotonic()
    run = subprocess.run([os.path.join(stack.bin, "walle-fleet-sim"), "certify", *words, *(["--seeds", str(args.seeds)] if args.seeds else [])],
                         check=False)
    if run.returncode != 0:
        raise SystemExit(f"certificate_bench: certify ended with {run.returncode}")
    return time.monotonic() - begun


def task_version(stack):
    with open(stack.path("build", "build.json"), encoding="utf-8") as file:
        return json.load(file)["version"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", type=int, default=0, help="runs of each case (those of the command)")
    parser.add_argument("--out", default=os.path.join(HERE, "out", "certificate"))
    args = parser.parse_args()
    stack = BenchStack(args.build)
    try:
        wall_s = certify(stack, args)
    finally:
        stack.close()
    with open(os.path.join(args.out, "certificate.json"), encoding="utf-8") as file:
        page = json.load(file)
    harmed, devices = max(case["harmed_max"] for case in page["cases"]), page["limits"]["devices"]
    with open(os.path.join(HERE, "out", "certificate.jsonl"), "a", encoding="ascii") as file:
        for name, value, peer, bar, unit in (("wall_s", wall_s, "bar", WALL_S_BAR, "s"), ("harmed", harmed, "no gate", devices, "devices")):
            file.write(json.dumps({"bench": "fleet.certificate." + name, "ours": value, "peer": peer, "theirs": bar, "unit": unit,
                                   "ratio": value / bar, "better": "lower"}) + "\n")
    print(f"{page['limits']['seeds']} runs a case in {wall_s:.0f} s (bar {WALL_S_BAR}); at most {harmed} of {devices} devices harmed")
    raise SystemExit(0 if wall_s <= WALL_S_BAR else 1)


if __name__ == "__main__":
    main()
