#!/usr/bin/env python3
"""The item-page-view features computed again, as a batch job in the cloud would: from raw logs.

    oracle.py --worker PROGRAM --seed N [--first N] --devices N [--sessions N] [--jobs N] [--task PROGRAM FOLDER]

Reads the log `PROGRAM log` writes (JSON lines in disorder, some of them twice), restores each device's order, finds the
page visits by itself, computes their features, and compares each with what `PROGRAM features` computed on the device
core. Shares no code with it: written from the description in ipv_feature.h. Prints one line of JSON; exit status 1 when
anything differs.
"""
import argparse
import collections
import json
import multiprocessing
import subprocess
import sys
import time

IDLE_MS = 10000
ITEMS_TOLD_APART = 64
ITEMS_OUT = 16
CLICKS_OUT = 6
SEQUENCE_OUT = 48
TEXT_BYTES = 24
ACTIONS = ("favourite", "cart", "share", "review", "buy")
LETTERS = {"enter": "e", "scroll": "s", "exposure": "x", "click": "c", "exit": "q", "custom": "u"}


def cut(text):
    return text.encode()[:TEXT_BYTES].decode(errors="ignore")


def gaps_of(events):
    return [max(0, later["mono_us"] - earlier["mono_us"]) // 1000 for earlier, later in zip(events, events[1:])]


def gap_histogram(gaps):
    bins = [0] * 10
    for gap in gaps:
        bins[min(9, max(0, (gap >> 7).bit_length()))] += 1
    return bins


def scroll_part(events):
    scrolls = [event for event in events if event["kind"] == "scroll"]
    signs = [-1 if event.get("dy", 0) < 0 else 1 for event in scrolls]
    return {
        "n": len(scrolls),
        "max_pct": max([0] + [event.get("depth", 0) for event in scrolls]),
        "end_pct": scrolls[-1].get("depth", 0) if scrolls else 0,
        "down_px": sum(event.get("dy", 0) for event in scrolls if event.get("dy", 0) >= 0),
        "up_px": -sum(event.get("dy", 0) for event in scrolls if event.get("dy", 0) < 0),
        "turns": sum(a != b for a, b in zip(signs, signs[1:])),
        "fastest": max([0] + [abs(event["dy"]) * 1000 // event["took_ms"] for event in scrolls
                              if event.get("took_ms", 0) > 0]),
    }


def stay_part(events, gaps):
    stay = [0] * 10
    depth = 0
    for event, gap in zip(events, gaps):
        if event["kind"] == "scroll":
            depth = event.get("depth", 0)
        stay[min(9, max(0, depth // 10))] += gap
    return stay


def exposure_part(events):
    shows = [event for event in events if event["kind"] == "exposure"]
    items = collections.OrderedDict()
    for event in events:
        item = event.get("target_item", "")
        if event["kind"] == "exposure":
            if item not in items:
                if len(items) == ITEMS_TOLD_APART:
                    continue
                items[item] = {"id": cut(item), "position": event.get("position", 0),
                               "at_ms": max(0, event["mono_us"] - events[0]["mono_us"]) // 1000, "visible_ms": 0,
                               "shows": 0, "clicks": 0}
            items[item]["visible_ms"] += max(0, event.get("visible_ms", 0))
            items[item]["shows"] += 1
        elif event["kind"] == "click" and item in items:
            items[item]["clicks"] += 1
    return {
        "n": len(shows),
        "distinct": len(items),
        "seen_ms": sum(max(0, event.get("visible_ms", 0)) for event in shows),
        "max_position": max([0] + [event.get("position", 0) for event in shows]),
        "items": list(items.values())[:ITEMS_OUT],
    }


def zones_of(events):
    zones = [0] * 9
    for event in events:
        if event["kind"] == "click":
            column = min(2, max(0, event.get("x", 0) * 3 // 1080))
            zones[3 * min(2, max(0, event.get("y", 0) * 3 // 2400)) + column] += 1
    return zones


def actions_part(clicks):
    found = {name: [0, 0] for name in ACTIONS}
    for target, after in clicks:
        if target in found:
            count, first = found[target]
            found[target] = [count + 1, first if count else after]
    return found


def feature_of(events):
    """The row of one complete visit: its events from ENTER to EXIT in order."""
    enter = events[0]
    gaps = gaps_of(events)
    clicks = [(event.get("target", ""), max(0, event["mono_us"] - enter["mono_us"]) // 1000)
              for event in events if event["kind"] == "click"]
    customs = [event for event in events if event["kind"] == "custom"]
    return {
        "v": 1,
        "item": cut(enter["item"]),
        **{name: cut(enter.get(name, "")) for name in ("category", "shop")},
        "price_cents": enter.get("price_cents", 0),
        **{name: cut(enter.get(name, "")) for name in ("source", "query", "app", "net")},
        "from": cut(enter.get("from_spm", "")),
        "enter_seq": enter["seq"],
        "enter_ms": enter["wall_ms"],
        "hour": enter["wall_ms"] // 3600000 % 24,
        "events": len(events),
        "dwell_ms": (events[-1]["mono_us"] - enter["mono_us"]) // 1000,
        "active_ms": sum(min(gap, IDLE_MS) for gap in gaps),
        "gaps": gap_histogram(gaps),
        "scroll": scroll_part(events),
        "stay_ms": stay_part(events, gaps),
        "exposure": exposure_part(events),
        "actions": actions_part(clicks),
        "clicks": [[cut(target), after] for target, after in clicks[-CLICKS_OUT:]],
        "zones": zones_of(events),
        "perf_ms": [len(customs), sum(event.get("took_ms", 0) for event in customs)],
        "sequence": "".join(LETTERS[event["kind"]] for event in events[:SEQUENCE_OUT]),
    }


class Batch:
    """The job over one partition."""

    def __init__(self):
        self.visits = self.events = self.raw_bytes = self.lines = 0

    def run(self, lines):
        """{(device, enter_seq): feature} of a partition's lines."""
        logs = collections.defaultdict(dict)
        for line in lines:
            event = json.loads(line)
            logs[event["device"]][event["seq"]] = (event, len(line))
        self.lines += len(lines)
        rows = {}
        for device, log in logs.items():
            for visit in self.visits_of(log):
                rows[device, visit[0]["seq"]] = feature_of(visit)
        return rows

    def visits_of(self, log):
        """Complete visits of item pages in one device's log."""
        open_visits = {}
        for seq in sorted(log):
            event, size = log[seq]
            if event["page"] != "item_detail":
                continue
            key = event["page"], event["instance"]
            if event["kind"] == "enter":
                open_visits[key] = ([event], size)
            elif key in open_visits:
                events, bytes_so_far = open_visits[key]
                events.append(event)
                open_visits[key] = (events, bytes_so_far + size)
                if event["kind"] == "exit":
                    events, size = open_visits.pop(key)
                    self.visits += 1
                    self.events += len(events)
                    self.raw_bytes += size
                    yield events


def partitions(stream):
    lines = []
    for line in stream:
        if line == b"\n":
            yield lines
            lines = []
        else:
            lines.append(line)
    if lines:
        raise SystemExit("oracle: the log ends within a partition")


def difference(feature, expected):
    if expected is None:
        return "a visit the batch did not find"
    return {key: (feature.get(key), expected.get(key)) for key in {**feature, **expected}
            if feature.get(key) != expected.get(key)}


def compare(worker, span, device=None, report=5):
    """Runs both sides; `device`: words before and behind the span. (batch, features, differing, bytes of features)"""
    before, behind = device or ([worker, "features"], [])
    log = subprocess.Popen([worker, "log", *span], stdout=subprocess.PIPE, bufsize=1 << 20)
    device_side = subprocess.Popen([*before, *span, *behind], stdout=subprocess.PIPE, bufsize=1 << 20)
    batch = Batch()
    theirs = differing = feature_bytes = 0
    for lines, features in zip(partitions(log.stdout), partitions(device_side.stdout), strict=True):
        rows = batch.run(lines)
        for text in features:
            device, _, row = text.decode().partition(" ")
            feature_bytes += len(row) - 1
            theirs += 1
            feature = json.loads(row)
            expected = rows.pop((device, feature["enter_seq"]), None)
            if feature != expected:
                differing += 1
                if differing <= report:
                    print(f"oracle: {device} seq {feature['enter_seq']}: {difference(feature, expected)}", file=sys.stderr)
        differing += len(rows)
        if rows and differing <= report + len(rows):
            print(f"oracle: the device did not give {list(rows)[:3]}", file=sys.stderr)
    log.stdout.close()
    device_side.stdout.close()
    if log.wait() != 0 or device_side.wait() != 0:
        raise SystemExit("oracle: the worker failed")
    return batch, theirs, differing, feature_bytes


def share(arguments):
    """One job's devices; plain numbers, for another process."""
    worker, device, seed, first, devices, sessions = arguments
    span = [str(value) for value in (seed, first, devices, sessions)]
    batch, theirs, differing, feature_bytes = compare(worker, span, device)
    return {"visits": batch.visits, "features": theirs, "differing": differing, "log_lines": batch.lines,
            "events_of_visits": batch.events, "raw_bytes": batch.raw_bytes, "feature_bytes": feature_bytes}


def run(worker, device, seed, first, devices, sessions, jobs=1):
    """Both sides over `devices` devices, in `jobs` processes; the sums."""
    start = time.monotonic()
    step = -(-devices // jobs)
    shares = [(worker, device, seed, first + at, min(step, devices - at), sessions) for at in range(0, devices, step)]
    if len(shares) == 1:
        parts = [share(shares[0])]
    else:
        with multiprocessing.Pool(len(shares)) as pool:
            parts = pool.map(share, shares)
    total = {name: sum(part[name] for part in parts) for name in parts[0]}
    return {"seed": seed, "first": first, "devices": devices, "sessions": sessions, **total,
            "seconds": round(time.monotonic() - start, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--task", nargs=2, metavar=("PROGRAM", "FOLDER"),
                        help="features of the task in FOLDER, run by ipv_vm, instead of the device core's")
    for name, default in (("seed", None), ("first", 0), ("devices", None), ("sessions", 40), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, required=default is None)
    args = parser.parse_args()
    device = ([args.task[0], "features"], [args.task[1]]) if args.task else None
    total = run(args.worker, device, args.seed, args.first, args.devices, args.sessions, args.jobs)
    print(json.dumps(total))
    sys.exit(1 if total["differing"] or total["features"] == 0 else 0)


if __name__ == "__main__":
    main()
