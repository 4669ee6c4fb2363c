"""Compression of behaviour events on the tunnel, by batch size (docs/PIPELINE.md, "Compression").

pipeline.compress1, 5, 20, 100   batches of that many events: their raw JSON over the batch's bytes on the wire, zstd level 3
                       with a dictionary of 32 KB trained on other people's events; peer: zlib level 9 with the same
                       dictionary (deflateSetDictionary, the part zstd matches against), the same payloads.
                       `detail` has zlib level 6 too
pipeline.compress1_plain and so on   the same, neither with a dictionary; peer: zlib level 6, gzip's own level
pipeline.compress_columns     100 events as a block in columns over the same as JSON records, both without a dictionary
pipeline.compress_feature     one item-page-view feature with its dictionary; peer: zlib level 9 with the same
"""
import json
import os
import subprocess

SEED = 2026
EVENT_GAIN = 2.5  # the least a dictionary must bring for one event


def measure(build, quick):
    out = subprocess.run([os.path.join(build, "bin", "ipv_compress"), str(SEED), "200" if quick else "3000"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    found = {(line["form"], line["events"]): line for line in map(json.loads, out.splitlines())}
    rows = []

    def gain(line, name):
        return line["raw_bytes"] / line[name + "_bytes"]

    def add(bench, ours, peer, theirs, detail):
        rows.append({"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": round(theirs, 4),
                     "unit": "times smaller than raw", "ratio": round(ours / theirs, 5), "better": "higher",
                     "detail": detail})

    for count in (1, 5, 20, 100):
        line = found["json", count]
        detail = {"json": line, "block": found["block", count]}
        add(f"pipeline.compress{count}", gain(line, "dict"), "zlib -9, same dictionary", gain(line, "zlib9_dict"), detail)
        add(f"pipeline.compress{count}_plain", gain(line, "plain"), "zlib -6, no dictionary", gain(line, "zlib6"), {})
    rows_of, block = found["json", 100], found["block", 100]
    add("pipeline.compress_columns", gain(block, "plain"), "JSON records, zstd -3", gain(rows_of, "plain"), {})
    feature = found["feature", 1]
    add("pipeline.compress_feature", gain(feature, "dict"), "zlib -9, same dictionary", gain(feature, "zlib9_dict"),
        {"feature": feature})
    one = gain(found["json", 1], "dict")
    return rows, [f"one event compresses {one:.2f}x, not {EVENT_GAIN}x"] if one < EVENT_GAIN else []
