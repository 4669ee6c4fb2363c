#!/usr/bin/env python3
"""Benchmarks of the trigger engine. Prints tables and appends JSON lines to bench/out/trigger.jsonl.

    trigger_bench.py --build DIR [--quick]

trigger.100, .1000, .10000, .100000   p99 of the nanoseconds one event takes with so many patterns (two reads of the clock
                                      included, `clock_ns` says how long they take); p50 in `detail`. Patterns of 2 to 4
                                      steps, half of them with gaps, over 5 kinds and 200 pages. Peer: a linear list of
                                      matchers (one bit-parallel automaton per pattern) on the same events.
trigger.stream.100, .1000, .10000     the same in sessions of 32 events, at whose start both forget all. Peer: Hyperscan in
                                      streaming mode (HS_MODE_STREAM, HS_FLAG_DOTALL), fed the three bytes of an event as it
                                      comes; expressions without `within`, which no session is long enough to need. `detail`
                                      has the time to compile and the bytes of set and state of both. Left out where
                                      Hyperscan is not installed. (RE2 cannot be fed: it would scan a session
                                      again for each event.)
trigger.allocations                   calls of the allocator while events are taken in, of 1,000,000 events; the bar is 0.
trigger.bytes.N                       bytes per pattern, set and state together; the bar is 160.

An event during which the thread was switched out is left out, of all alike (`interrupted`). Ours and the peers take turns,
round by round; `ours` and `theirs` are medians of the rounds, `spread` their range. All must find the same matches, else the
run fails. The growth of the cost is drawn in bench/out/trigger.svg.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = (100, 1000, 10000, 100000)
P99_BARS = {100: 300, 10000: 5000}
BYTES_BAR = 160
STREAM_MAX = 10000  # above, Hyperscan takes minutes to compile
STREAM_EVENTS = 200000


def worker(build, *arguments):
    command = [os.path.join(build, "bin", "trigger_worker"), *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout)


def events_for(how, size, quick):
    if how == "linear":
        return int(max(2000, min(200000, (2e7 if quick else 1e8) / size)))  # pattern steps of the list
    if how == "ours":
        return 100000 if quick else 1000000 if size <= 10000 else 300000
    return STREAM_EVENTS // 10 if quick else STREAM_EVENTS


def medians(runs, name):
    values = sorted(run[name] for run in runs)
    return statistics.median(values), [values[0], values[-1]]


def measure(build, size, rounds, quick, failed):
    runs = {"ours": [], "linear": [], "sessions": [], "hyperscan": []}
    for _ in range(rounds):
        for how in runs:
            if how in ("sessions", "hyperscan") and size > STREAM_MAX:
                continue
            got = worker(build, how, size, events_for(how, size, quick), "usual")
            if got["able"] and (got["hash"] != got["checked"] or got["lost"]):
                failed.append("%s finds other matches among %d patterns" % (how, size))
            if got["able"]:
                runs[how].append(got)
    if runs["hyperscan"] and {run["hash"] for run in runs["hyperscan"]} != {run["hash"] for run in runs["sessions"]}:
        failed.append("Hyperscan and ours differ among %d patterns" % size)
    return runs


def stream_row(size, runs):
    """Ours beside Hyperscan on the same sessions; None where that is not installed."""
    mine, theirs = runs["sessions"], runs["hyperscan"]
    if not theirs:
        return None
    detail = {"bar": None, "rounds": len(theirs)}
    for name, got in (("ours", mine), ("theirs", theirs)):
        detail[name] = {"p50": medians(got, "p50")[0], "p99_spread": medians(got, "p99")[1],
                        **{key: got[0][key] for key in ("compile_s", "set_bytes", "state_bytes", "matches")}}
    detail["ratio_p50"] = round(detail["ours"]["p50"] / detail["theirs"]["p50"], 4)
    return ["trigger.stream.%d" % size, medians(mine, "p99")[0], "Hyperscan, streaming", medians(theirs, "p99")[0],
            "ns per event, p99", detail]


def svg(points, path):
    """p50 and p99 of each engine over the number of patterns, both axes logarithmic."""
    width, height, left, bottom = 720, 420, 70, 50
    top = 7  # 10 ms
    def place(size, ns):
        x = left + (math.log10(size) - 2) / 3 * (width - left - 130)
        y = height - bottom - (math.log10(max(ns, 10)) - 1) / (top - 1) * (height - bottom - 20)
        return x, y
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">'
           % (width, height), '<rect width="100%" height="100%" fill="white"/>']
    for power in range(1, top + 1):
        x, y = place(100, 10 ** power)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>' % (x, y, width - 130, y))
        text = ("%d ns" % 10 ** power, "%d us" % 10 ** (power - 3), "%d ms" % 10 ** (power - 6))[(power >= 3) + (power >= 6)]
        out.append('<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (left - 6, y + 4, text))
    for size in SIZES:
        x, y = place(size, 10)
        out.append('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>' % (x, y + 18, format(size, ",")))
    out.append('<text x="%d" y="%d" text-anchor="middle">patterns</text>' % ((left + width - 130) / 2, height - 10))
    colors = {"ours": "#0a6", "linear": "#c50", "hyperscan": "#55c"}
    for (how, name), line in points.items():
        if not line:
            continue
        at = [place(size, ns) for size, ns in line]
        dash = "" if name == "p50" else ' stroke-dasharray="6 3"'
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>'
                   % (" ".join("%.1f,%.1f" % point for point in at), colors[how], dash))
        out.append('<text x="%.1f" y="%.1f" fill="%s">%s %s</text>' % (at[-1][0] + 6, at[-1][1] + 4, colors[how], how, name))
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true", help="fewer events, one round")
    args = parser.parse_args()
    rows, failed, points = [], [], {}

    def add(bench, mine, peer, theirs, unit, detail):
        rows.append({"bench": bench, "ours": round(mine, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
                     "ratio": round(mine / theirs, 5) if theirs else None, "better": "lower", "detail": detail})

    for size in SIZES:
        runs = measure(args.build, size, 1 if args.quick else 5, args.quick, failed)
        mine, theirs = runs["ours"], runs["linear"]
        p99, spread = medians(mine, "p99")
        detail = {"bar": P99_BARS.get(size), "p50": medians(mine, "p50")[0], "p99_spread": spread,
                  "linear_p50": medians(theirs, "p50")[0], "linear_p99_spread": medians(theirs, "p99")[1],
                  "clock_ns": medians(mine, "clock_ns")[0], "ours": mine[0]}
        add("trigger.%d" % size, p99, "linear list of matchers", medians(theirs, "p99")[0], "ns per event, p99", detail)
        stream = stream_row(size, runs)
        if stream is not None:
            add(*stream)
        for how, got in (("ours", mine), ("linear", theirs), ("hyperscan", runs["hyperscan"])):
            for name in ("p50", "p99"):
                line = points.setdefault((how, name), [])
                if got:
                    line.append((size, medians(got, name)[0]))
        add("trigger.bytes.%d" % size, (mine[0]["set_bytes"] + mine[0]["state_bytes"]) / size, "bar", BYTES_BAR,
            "bytes per pattern", {"set": mine[0]["set_bytes"], "state": mine[0]["state_bytes"], "nodes": mine[0]["nodes"],
                                  "bytes_per_node": round((mine[0]["set_bytes"] + mine[0]["state_bytes"]) / mine[0]["nodes"], 1)})
    allocations = worker(args.build, "ours", 1000, 100000 if args.quick else 1000000, "usual")["allocations"]
    add("trigger.allocations", allocations, "bar", 0, "allocations", {})
    if allocations:
        failed.append("%d allocations" % allocations)

    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "trigger.jsonl"), "a", encoding="utf-8") as file:
        for line in rows:
            file.write(json.dumps(line) + "\n")
    svg(points, os.path.join(HERE, "out", "trigger.svg"))
    print("%-22s %10s %10s   %-24s %12s %10s" % ("", "ours", "bar", "peer", "theirs", "ratio"))
    for line in rows:
        print("%-22s %10.1f %10s   %-24s %12.1f %10s  %s" % (line["bench"], line["ours"], line["detail"].get("bar") or "",
                                                            line["peer"], line["theirs"], line["ratio"], line["unit"]))
    print("\n%-10s %10s %10s %12s %12s %14s %14s" % ("patterns", "p50", "p99", "linear p50", "linear p99", "Hyperscan p50", "Hyperscan p99"))
    for i, size in enumerate(SIZES):
        cells = [dict(points[key]).get(size) for key in (("ours", "p50"), ("ours", "p99"), ("linear", "p50"),
                                                         ("linear", "p99"), ("hyperscan", "p50"), ("hyperscan", "p99"))]
        print("%-10s %10s %10s %12s %12s %14s %14s" % (format(size, ","), *("-" if c is None else "%.0f" % c for c in cells)))
    if not any(line["bench"].startswith("trigger.stream") for line in rows):
        print("trigger.stream was left out: Hyperscan (libhyperscan-dev) was not there when the bench was built")
    if failed:
        sys.exit("wrong: " + "; ".join(failed))


if __name__ == "__main__":
    main()
