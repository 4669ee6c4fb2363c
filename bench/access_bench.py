#!/usr/bin/env python3
"""What it costs to know who checks in. Prints a table and appends JSON lines to bench/out/access.jsonl.

    access_bench.py --build DIR [--rounds N]

access.checkin.stranger     processor time of a check-in without news when others have enrolled: one look-up
access.checkin.credential   the same with a credential: a SHA-256 and the look-up

200,000 devices in the gateway's core, without sockets; the kinds take turns. Peer: the same core with no device enrolled.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="walle-access-") as folder:
        run = subprocess.run([os.path.join(options.build, "bin", "checkin_cost"), folder, str(options.rounds)], check=True,
                             stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    rounds = [row for row in rows if "nobody" in row]
    median = {kind: statistics.median(row[kind] for row in rounds) for kind in ("nobody", "stranger", "credential")}
    spread = {kind: f"{min(row[kind] for row in rounds):.0f}..{max(row[kind] for row in rounds):.0f}" for kind in median}
    os.makedirs(os.path.join(os.path.dirname(os.path.abspath(__file__)), "out"), exist_ok=True)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "out", "access.jsonl"), "a", encoding="utf-8") as out:
        for kind in ("stranger", "credential"):
            line = {"bench": "access.checkin." + kind, "ours": median[kind], "peer": "nobody enrolled", "theirs": median["nobody"],
                    "unit": "ns", "ratio": round(median[kind] / median["nobody"], 3), "better": "lower"}
            out.write(json.dumps(line) + "\n")
            print(f"{line['bench']:26} {median[kind]:8.0f} ns ({spread[kind]})   nobody enrolled {median['nobody']:8.0f} ns "
                  f"({spread['nobody']})   ratio {line['ratio']:.2f} (lower is better)")
    print(f"memory: {rows[-1]['bytes_a_device']:.1f} bytes a device")


if __name__ == "__main__":
    main()
