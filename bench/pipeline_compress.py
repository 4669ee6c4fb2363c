"""Compression of behaviour events on the tunnel, by batch size (docs/PIPELINE.md, "Compression").

pipeline.compress1     raw JSON of one event over its batch's bytes on the wire, dictionary trained on other people's events;
                       peer: gzip -6 of the same event
pipeline.compress5, 20, 100   batches of that many events; peer: zstd level 3 without a dictionary
pipeline.compress_columns     100 events as a block in columns over the same as JSON records, both without a dictionary
pipeline.compress_feature     one item-page-view feature with its dictionary; peer: zstd level 3 without one
"""
import json
import os
import subprocess
import zlib

SEED = 2026
EVENT_GAIN = 2.5  # the least a dictionary must bring for one event


def gzip_gain(build):
    """gzip of single events, as an SDK that compresses each upload does."""
    log = subprocess.run([os.path.join(build, "bin", "ipv_worker"), "log", str(SEED), "1000000", "20", "3"],
                         check=True, stdout=subprocess.PIPE).stdout
    lines = [line for line in log.split(b"\n") if line]
    packed = 0
    for line in lines:
        gzip = zlib.compressobj(6, zlib.DEFLATED, 31)
        packed += len(gzip.compress(line) + gzip.flush())
    return sum(map(len, lines)) / packed


def measure(build, quick):
    out = subprocess.run([os.path.join(build, "bin", "ipv_compress"), str(SEED), "200" if quick else "3000"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    found = {(line["form"], line["events"]): line for line in map(json.loads, out.splitlines())}
    rows = []

    def add(bench, ours, peer, theirs, detail):
        rows.append({"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": round(theirs, 4),
                     "unit": "times smaller than raw", "ratio": round(ours / theirs, 5), "better": "higher",
                     "detail": detail})

    for count in (1, 5, 20, 100):
        line = found["json", count]
        with_dict, plain = (line["raw_bytes"] / line[name] for name in ("dict_bytes", "plain_bytes"))
        detail = {"json": line, "block": found["block", count]}
        if count == 1:
            one = with_dict
            add("pipeline.compress1", one, "gzip -6", gzip_gain(build), detail)
        else:
            add(f"pipeline.compress{count}", with_dict, "zstd -3 without a dictionary", plain, detail)
    rows_of, block = found["json", 100], found["block", 100]
    add("pipeline.compress_columns", block["raw_bytes"] / block["plain_bytes"], "JSON records, zstd -3",
        rows_of["raw_bytes"] / rows_of["plain_bytes"], {})
    feature = found["feature", 1]
    add("pipeline.compress_feature", feature["raw_bytes"] / feature["dict_bytes"], "zstd -3 without a dictionary",
        feature["raw_bytes"] / feature["plain_bytes"], {"feature": feature})
    return rows, [f"one event compresses {one:.2f}x, not {EVENT_GAIN}x"] if one < EVENT_GAIN else []
