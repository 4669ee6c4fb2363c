"""Collective storage: behaviour events to disk, and what that costs (docs/PIPELINE.md, "Storage").

pipeline.store         flushes of the disk an event, time passing as in the log; peer: SQLite, an insert an event, WAL,
                       synchronous=FULL: each event durable before the next. Ours loses at most the last 2 s (stated).
pipeline.store_lmdb    the same beside LMDB with a put and a commit an event
pipeline.store_bytes   bytes written to the disk an event (/proc/self/io), beside SQLite FULL
pipeline.store_time    microseconds an event, beside SQLite FULL
pipeline.store_normal  microseconds an event, beside SQLite with synchronous=NORMAL, which may lose inserts with the power
pipeline.store_burst   flushes an event when events come as fast as they can, groups closed by size and page exit
pipeline.store_busy    microseconds an event then
pipeline.record        nanoseconds dev_record takes of its caller for an event that no task needs, beside one that is kept

All on the same events of the worked example's world, with the attributes its task wants, in turns; medians.
"""
import json
import os
import shutil
import statistics
import subprocess
import tempfile

SEED = 2026


def run(build, mode, pace, first, events, folder):
    inside = tempfile.mkdtemp(prefix="store-", dir=folder)
    try:
        out = subprocess.run([os.path.join(build, "bin", "store_worker"), mode, pace, str(SEED), str(first), str(events),
                              inside], check=True, stdout=subprocess.PIPE).stdout
    finally:
        shutil.rmtree(inside)
    return json.loads(out)


def measure(build, quick):
    if not os.path.exists(os.path.join(build, "bin", "store_worker")):
        return [], ["store_worker was not built: SQLite's development files are missing"]
    rounds, events = (2, 500) if quick else (5, 2000)
    plan = [("ours", "log"), ("sqlite-full", "log"), ("lmdb", "log"), ("sqlite-normal", "log"), ("ours", "busy")]
    runs = {key: [] for key in plan}
    recorded = []
    folder = tempfile.mkdtemp(prefix="walle-store-", dir=os.environ.get("BENCH_FOLDER"))
    try:
        for turn in range(rounds):
            recorded.append(run(build, "record", "busy", turn, events, folder))
            for mode, pace in plan if turn % 2 == 0 else reversed(plan):
                runs[mode, pace].append(run(build, mode, pace, turn, events, folder))
    finally:
        shutil.rmtree(folder)

    def median(key, figure):
        return statistics.median(one[figure] for one in runs[key])

    def row(bench, figure, peer, key, unit, ours=("ours", "log")):
        mine, theirs = median(ours, figure), median(key, figure)
        spread = {"%s %s" % who: [round(min(one[figure] for one in runs[who]), 4), round(max(one[figure] for one in runs[who]), 4)]
                  for who in (ours, key)}
        return {"bench": bench, "ours": round(mine, 5), "peer": peer, "theirs": round(theirs, 5), "unit": unit,
                "ratio": round(mine / theirs, 5) if theirs else None, "better": "lower",
                "detail": {"spread": spread, "events": events, "rounds": rounds,
                           "seconds_of_log_per_event": median(("ours", "log"), "log_s_per_event")}}

    full = ("sqlite-full", "log")
    rows = [
        row("pipeline.store", "flushes_per_event", "SQLite FULL, an insert an event", full, "flushes an event"),
        row("pipeline.store_lmdb", "flushes_per_event", "LMDB, a put an event", ("lmdb", "log"), "flushes an event"),
        row("pipeline.store_bytes", "disk_bytes_per_event", "SQLite FULL, an insert an event", full, "bytes an event"),
        row("pipeline.store_time", "us_per_event", "SQLite FULL, an insert an event", full, "us an event"),
        row("pipeline.store_normal", "us_per_event", "SQLite NORMAL, an insert an event", ("sqlite-normal", "log"), "us an event"),
        row("pipeline.store_burst", "flushes_per_event", "SQLite FULL, an insert an event", full, "flushes an event", ("ours", "busy")),
        row("pipeline.store_busy", "us_per_event", "SQLite FULL, an insert an event", full, "us an event", ("ours", "busy")),
    ]
    mine, kept = (statistics.median(one[figure] for one in recorded) for figure in ("unneeded_ns", "kept_ns"))
    rows.append({"bench": "pipeline.record", "ours": mine, "peer": "an event that is kept", "theirs": kept, "unit": "ns a call",
                 "ratio": round(mine / kept, 5), "better": "lower", "detail": {"runs": recorded}})
    return rows, []
