#!/usr/bin/env python3
"""Benchmarks of the data pipeline on the device. Prints a table and appends JSON lines to bench/out/pipeline.jsonl.

    pipeline_bench.py --build DIR [--quick] [--only PART]

Each part is a module pipeline_PART.py with measure(build, quick) -> (rows, failures): rows as below, failures as texts.
`ratio` is ours / theirs. A wrong answer fails the run.
"""
import argparse
import importlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = sorted(name[len("pipeline_"):-3] for name in os.listdir(HERE)
               if name.startswith("pipeline_") and name.endswith(".py") and name != "pipeline_bench.py")


def row(bench, ours, peer, theirs, unit, better="lower", detail=None):
    """One line of the results; `theirs` may be 0 when there is no peer."""
    return {"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": round(theirs, 4), "unit": unit,
            "ratio": round(ours / theirs, 5) if theirs else None, "better": better, "detail": detail or {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true", help="fewer events and rounds")
    parser.add_argument("--only", choices=PARTS, help="one part")
    args = parser.parse_args()
    sys.path.insert(0, HERE)
    rows, failed = [], []
    for part in [args.only] if args.only else PARTS:
        got, wrong = importlib.import_module("pipeline_" + part).measure(args.build, args.quick)
        rows += got
        failed += wrong
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "pipeline.jsonl"), "a", encoding="utf-8") as file:
        for line in rows:
            file.write(json.dumps(line) + "\n")
    print("%-36s %14s %-30s %14s %10s" % ("", "ours", "peer", "theirs", "ratio"))
    for line in rows:
        print("%-36s %14.3f %-30s %14.3f %10s  %s" % (line["bench"], line["ours"], line["peer"], line["theirs"],
                                                    line["ratio"], line["unit"]))
    if failed:
        sys.exit("wrong: " + "; ".join(failed))


if __name__ == "__main__":
    main()
