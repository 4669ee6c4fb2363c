"""Generates the headers MicroPython needs (interned strings, module table, root pointers).

Runs MicroPython's own generators in their order. Called by device/vm/CMakeLists.txt.

    generate_headers.py --micropython DIR --out DIR --cc CC [--flag=FLAG ...] SOURCE...
"""
import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
KNOWN_PLACES = 4096  # about 1,000 fixed strings: most others are known to be none at the first look


def write_if_changed(path, data):
    """Keeps the time of an unchanged file, so that nothing is compiled again for it."""
    try:
        with open(path, "rb") as old:
            if old.read() == data:
                return
    except FileNotFoundError:
        pass
    with open(path, "wb") as new:
        new.write(data)


def preprocess(cc, flags, sources):
    def one(source):
        return subprocess.run([cc, "-E", "-DNO_QSTR", *flags, source], check=True, stdout=subprocess.PIPE).stdout

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return b"".join(pool.map(one, sources))


def known_places(defined):
    """A table from hashes to the fixed strings that have them: where a hash says, or behind it before the next zero."""
    places = [0] * KNOWN_PLACES
    hashes = [int(found.group(1)) for kind in (b"0", b"1")
              for found in re.finditer(rb"(?m)^QDEF" + kind + rb"\(\w+, (\d+),", defined)]
    for name, hashed in enumerate(hashes):
        at = hashed % KNOWN_PLACES
        while name > 1 and places[at] != 0:  # the first two are no string and the empty one
            at = (at + 1) % KNOWN_PLACES
        if name > 1:
            places[at] = name
    if len(hashes) > KNOWN_PLACES // 2:
        sys.exit("generate_headers: more fixed strings than KNOWN_PLACES is for")
    rows = (", ".join(map(str, places[at:at + 16])) for at in range(0, KNOWN_PLACES, 16))
    text = (f"#define DEV_VM_KNOWN_PLACES {KNOWN_PLACES}u\n"
            "static const unsigned short dev_vm_known_places[] = {\n    " + ",\n    ".join(rows) + "};\n")
    return text.encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micropython", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("sources", nargs="+")
    args = parser.parse_args()
    genhdr = os.path.join(args.out, "genhdr")
    os.makedirs(genhdr, exist_ok=True)

    def tool(name, *arguments):
        script = os.path.join(args.micropython, "py", name)
        return subprocess.run([sys.executable, script, *arguments], check=True, stdout=subprocess.PIPE).stdout

    preprocessed = os.path.join(genhdr, "all.i")
    with open(preprocessed, "wb") as out:
        out.write(preprocess(args.cc, args.flag, args.sources))
    collected = {}
    for kind in ("qstr", "module", "root_pointer"):
        folder = os.path.join(genhdr, kind)
        collected[kind] = os.path.join(genhdr, kind + ".collected")
        tool("makeqstrdefs.py", "split", kind, preprocessed, folder, "_")
        tool("makeqstrdefs.py", "cat", kind, "_", folder, collected[kind])

    write_if_changed(os.path.join(genhdr, "moduledefs.h"), tool("makemoduledefs.py", collected["module"]))
    write_if_changed(os.path.join(genhdr, "root_pointers.h"), tool("make_root_pointers.py", collected["root_pointer"]))

    # The fixed strings are chosen by the preprocessor; quotes keep Q(...) itself from being changed by it.
    text = b""
    for path in (os.path.join(args.micropython, "py", "qstrdefs.h"), os.path.join(HERE, "names.txt"), collected["qstr"]):
        with open(path, "rb") as part:
            text += re.sub(rb"(?m)^Q\(.*\)", lambda match: b'"' + match.group(0) + b'"', part.read())
    expanded = subprocess.run(
        [args.cc, "-E", *args.flag, "-"], input=text, check=True, stdout=subprocess.PIPE
    ).stdout
    final = os.path.join(genhdr, "qstrdefs.preprocessed.h")
    with open(final, "wb") as out:
        out.write(re.sub(rb'(?m)^"(Q\(.*\))"', rb"\1", expanded))
    defined = tool("makeqstrdata.py", final)
    write_if_changed(os.path.join(genhdr, "qstrdefs.generated.h"), defined)
    write_if_changed(os.path.join(genhdr, "qstrknown.h"), known_places(defined))


if __name__ == "__main__":
    main()
