#!/usr/bin/env python3
"""A copy of a shared library whose CPUID instructions are marked, for isa_limit.c to answer in their place.

    isa_limit.py LIBRARY COPY

Only what the disassembler takes for an instruction is marked, not the same bytes inside another one: the first byte
(0f) becomes 06, which is no instruction in 64-bit mode.
"""
import os
import re
import subprocess
import sys

CPUID = b"\x0f\xa2"
MARK = b"\x06"


def sections(path):
    """(address, size, offset in the file) of each section with code."""
    text = subprocess.run(["objdump", "-h", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = re.findall(r"^\s*\d+ \S+\s+([0-9a-f]+)\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)\s.*\n(.*CODE.*)$", text, re.M)
    return [(int(address, 16), int(size, 16), int(offset, 16)) for size, address, offset, _ in rows]


def addresses(path):
    """Where the CPUID instructions are."""
    process = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True)
    found = [int(line.split(":")[0], 16) for line in process.stdout if line.rstrip().endswith("\tcpuid")]
    if process.wait() != 0:
        raise RuntimeError(f"objdump cannot read {path}")
    return found


def mark(path, copy):
    """Writes the copy; how many instructions were marked."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    places = sections(path)
    marked = addresses(path)
    for address in marked:
        offset = next(o + address - a for a, size, o in places if a <= address < a + size)
        if data[offset:offset + 2] != CPUID:
            raise RuntimeError(f"{path}: no CPUID at {address:#x}")
        data[offset:offset + 1] = MARK
    if not marked:
        raise RuntimeError(f"{path} never asks what the processor can do")
    with open(copy + ".part", "wb") as file:
        file.write(data)
    os.replace(copy + ".part", copy)
    return len(marked)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"{mark(sys.argv[1], sys.argv[2])} instructions marked")
