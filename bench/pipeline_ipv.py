"""Item page views, the worked example: behaviour events to features (docs/PIPELINE.md, "The worked example").

pipeline.ipv         time of all events of a visit and its feature, durable when its page closed, p50; peer: SQLite with an
                     events table, WAL and synchronous=FULL, one transaction a visit, in turns with ours
pipeline.ipv_p99     the same, p99
pipeline.ipv_memory  the same without storage on either side
pipeline.ipv_exit    from the EXIT event to the feature, without storage, p50
pipeline.ipv_task    the feature made by a script in the VM, p50. No peer: what the original published for phones, which `detail`
                     has, is of another machine
pipeline.ipv_wrong   features that differ from a batch job's over raw logs; beside the error rate the original published
                     for its cloud pipeline
pipeline.ipv_reduction, pipeline.ipv_encoding   raw bytes saved by feature and by encoding, percent. No peer: the generator
                     was made to give the events and bytes a visit that the original published, so its 93.9 and 99.4 must come
                     out (fleet-sim/world/ipv_world.h)
pipeline.ipv_dwell10, 30, 70   raw bytes saved by the feature where the time shoppers stay is not the generator's: Weibull,
                     scale 10, 30, 70 s, shape 0.75 (bench/ipv/ipv_dwell.c says whose finding that is). And _lean: against
                     lines with nothing but what the feature is made of. `detail` has shapes 0.6 and 0.9, and the encoding
The encoding is of an untrained model or a fixed projection: size and time are measured, not what it is good for.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "ipv"))
import oracle  # noqa: E402

SEED = 2026
PUBLISHED = {"phone_ms": 44.16, "cloud_wrong_percent": 0.7}
ENCODING_BYTES = 128
DWELL_S = (10, 30, 70)
DWELL_SHAPES = (75, 60, 90)  # percent; the first makes the row


def call(build, program, *arguments, folder=None):
    environment = dict(os.environ, IPV_FOLDER=folder) if folder else None
    out = subprocess.run([os.path.join(build, "bin", program), *map(str, arguments)], check=True,
                         stdout=subprocess.PIPE, env=environment).stdout
    return json.loads(out)


def medians(runs, kind):
    return {name: statistics.median(run[kind][name] for run in runs) for name in runs[0][kind]}


def spread(values):
    return [round(min(values), 3), round(max(values), 3)]


def turns(build, folder, rounds, devices):
    """Ours and SQLite in turns over the same devices; all runs by (program, mode)."""
    runs = {}
    for turn in range(rounds):
        for program, mode in (("ipv_store", "memory"), ("ipv_sqlite", "memory"), ("ipv_store", "exit"),
                              ("ipv_sqlite", "exit"), ("ipv_sqlite", "normal"), ("ipv_sqlite", "event")):
            few = max(1, devices // 10) if mode == "event" else devices
            run = call(build, program, mode, SEED, turn * devices, few, 20, folder=folder)
            runs.setdefault((program, mode), []).append(run)
    return runs


def row(bench, ours, peer, theirs, unit, better="lower", detail=None):
    return {"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": round(theirs, 4), "unit": unit,
            "ratio": round(ours / theirs, 5) if theirs else None, "better": better, "detail": detail or {}}


def pair(bench, runs, mode, kind, point, peer):
    mine, theirs = runs["ipv_store", mode], runs["ipv_sqlite", mode]
    ratios = [a[kind][point] / b[kind][point] for a, b in zip(mine, theirs)]
    line = row(bench, medians(mine, kind)[point], peer, medians(theirs, kind)[point], "us", detail={
        "ours": medians(mine, kind), "theirs": medians(theirs, kind), "rounds": len(mine),
        "visits_a_round": mine[0]["visits"], "ratio_spread": spread(ratios)})
    line["ratio"] = round(statistics.median(ratios), 5)
    return line


def times(build, quick):
    rounds, devices = (2, 4) if quick else (5, 20)
    # Beside the results: the file system that is measured is that of the working copy, not a memory disk.
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.join(HERE, "out")) as folder:
        runs = turns(build, folder, rounds, devices)
    full = "SQLite, WAL, synchronous=FULL, a transaction a visit"
    rows = [
        pair("pipeline.ipv", runs, "exit", "visit_us", "p50", full),
        pair("pipeline.ipv_p99", runs, "exit", "visit_us", "p99", full),
        pair("pipeline.ipv_memory", runs, "memory", "visit_us", "p50", "SQLite in memory"),
        pair("pipeline.ipv_exit", runs, "memory", "exit_us", "p50", "SQLite in memory"),
    ]
    streams = call(build, "ipv_streams", SEED, 0, devices, 20)
    if streams["differing"]:
        raise SystemExit(f"pipeline_ipv: stream functions: {streams['differing']} answers differ")
    rows[2]["detail"]["by_stream_functions"] = streams["times"]["visit_us"]
    rows[0]["detail"]["sqlite_other"] = {
        mode: medians(runs["ipv_sqlite", mode], "visit_us") for mode in ("normal", "event")}
    return rows


def encodings(build, folder, devices):
    model = os.path.join(folder, "ipv_gru.onnx")
    subprocess.run(["/usr/bin/python3", os.path.join(HERE, "models", "ipv_gru.py"), model], check=True)
    return {name: call(build, "ipv_encoder", "time", which, SEED, 0, devices, 20)["visit_us"]
            for name, which in (("gru", model), ("projection", "projection"))}


def task(build, devices):
    script = call(build, "ipv_vm", "time", SEED, 0, devices, 20, os.path.join(HERE, "..", "conf", "tasks", "ipv_events"))
    return row("pipeline.ipv_task", script["visit_us"]["p50"], "", 0, "us", detail={
        "ours": script["visit_us"], "visits": script["visits"], "published_phone_ms": PUBLISHED["phone_ms"]})


def saved(part, whole):
    return round(100 * (1 - part / whole), 2)


def dwells(build, devices):
    """What the feature saves when stays are drawn from a published distribution."""
    rows = []
    for scale in DWELL_S:
        detail = {}
        for shape in DWELL_SHAPES:
            sums = call(build, "ipv_dwell", SEED, 0, devices, 40, scale * 1000, shape)
            visits = sums["visits"]
            detail[f"shape_{shape / 100}"] = {
                **{name: round(sums[name] / visits, 1) for name in ("events", "raw_bytes", "lean_bytes", "feature_bytes", "dwell_ms")},
                "visits": visits, "saved": saved(sums["feature_bytes"], sums["raw_bytes"]),
                "saved_lean": saved(sums["feature_bytes"], sums["lean_bytes"]),
                "encoding_saved": saved(ENCODING_BYTES * visits, sums["raw_bytes"]),
                "encoding_saved_lean": saved(ENCODING_BYTES * visits, sums["lean_bytes"]),
                "larger_than_lean_percent": round(100 * sums["lean_larger"] / visits, 2)}
        first = detail[f"shape_{DWELL_SHAPES[0] / 100}"]
        rows.append(row(f"pipeline.ipv_dwell{scale}", first["saved"], "", 0, "% of raw bytes saved", "higher", detail))
        rows.append(row(f"pipeline.ipv_dwell{scale}_lean", first["saved_lean"], "", 0, "% of lean bytes saved", "higher"))
    return rows


def correct(build, quick):
    """Rows about answers and sizes, and what is wrong."""
    visits = int(os.environ.get("WALLE_IPV_VISITS", "2000" if quick else "1000000"))
    jobs = 1 if quick else os.cpu_count() or 1
    found = oracle.run(os.path.join(build, "bin", "ipv_worker"), None, SEED, 0, -(-visits * 101 // 100 // 125), 40, jobs)
    given = found["features"]
    raw, feature = found["raw_bytes"] / given, found["feature_bytes"] / given
    wrong = [f"{found['differing']} features differ from the batch job"] if found["differing"] else []
    if given < visits:
        wrong.append(f"only {given} visits of {visits}")
    sizes = {"raw_bytes": round(raw, 1), "feature_bytes": round(feature, 1), "encoding_bytes": ENCODING_BYTES,
             "events": round(found["events_of_visits"] / given, 2)}
    with tempfile.TemporaryDirectory() as folder:
        encoding = encodings(build, folder, 4 if quick else 40)
    return [
        row("pipeline.ipv_wrong", found["differing"], "the original's cloud pipeline, share (published)",
            PUBLISHED["cloud_wrong_percent"] / 100 * given, "features", detail=found),
        row("pipeline.ipv_reduction", saved(feature, raw), "", 0, "% of raw bytes saved", "higher", sizes),
        row("pipeline.ipv_encoding", saved(ENCODING_BYTES, raw), "", 0, "% of raw bytes saved", "higher",
            {**sizes, "encode_us": encoding}),
        *dwells(build, 2 if quick else 40),
    ], wrong


def measure(build, quick):
    rows, wrong = correct(build, quick)
    return times(build, quick) + [task(build, 4 if quick else 20)] + rows, wrong
