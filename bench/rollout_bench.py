#!/usr/bin/env python3
"""Rollouts: how fast they go and how well their gate decides. Appends JSON lines to bench/out/rollout.jsonl.

    rollout_bench.py --build DIR [--only live,gate,null,sockets] [--quick] [options of the part]

rollout.t50_s, .t90_s, .t99_s, .abort_s, .undo_s, .kill_s   a release to 100,000 virtual devices that are online, and the ways
                     back, over real sockets (see rollout_live.py).

gate.SCENARIO.RULE   devices exposed by our rule `logrank` and by RULE (hawkbit, aws, argo: our implementations of their documented
                     rules, at equal false-stop rate; threshold: ours, of the same stages) in a simulated staged rollout (see
                     rollout_gate.py). gate.slices.false, .found: segments held in healthy rollouts, and the bad one where one is.

gate.null.CELL       share of rollouts of identical versions that the gateway's core stops, beside alpha (see rollout_null.py);
                     hours of work, which goes on where it was interrupted. gate.null.slice.CELL: a segment that always failed
                     more; gate.null.worst.CELL: 10,000 rollouts; gate.null.bad.CELL: the share of bad versions that pass, beside beta.

gate.null.sockets.CELL   share of rollouts of an identical version that were stopped, over real sockets (see rollout_sockets.py);
                     every rollout is in bench/out/rollout_sockets.jsonl; 60 rollouts of a minute or more each.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rollout_gate  # noqa: E402
import rollout_live  # noqa: E402
import rollout_null  # noqa: E402
import rollout_sockets  # noqa: E402

PARTS = {"live": rollout_live.run, "gate": rollout_gate.run, "null": rollout_null.run, "sockets": rollout_sockets.run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--only", default="live,gate", help=f"parts, of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; figures are not to be reported")
    parser.add_argument("--devices", type=int, default=0, help="of the live part, and of each rollout of the sockets part")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the gate simulation and of null; rollouts at once of sockets")
    parser.add_argument("--control", type=int, help="devices of control for each updated one, of the gate simulation")
    parser.add_argument("--null-out", help="file of the finished pieces of null")
    parser.add_argument("--rules", default="logrank", help=f"of the sockets part: {', '.join(rollout_sockets.RULES)}, as a list")
    parser.add_argument("--base", type=float, help="one failure rate before the update for all rollouts of the gate simulation")
    args = parser.parse_args()
    result = 0
    for part in args.only.split(","):
        if part not in PARTS:
            parser.error(f"--only {part}: the parts are {', '.join(PARTS)}")
        result = PARTS[part](args) or result
    return result


if __name__ == "__main__":
    sys.exit(main())
