"""What the device's interpreter does by a shorter way (device/vm/port/vm_fast*.h), beside CPython, where the ways part: at the
ends of small numbers, with numbers of several kinds, at the ends of sequences, with tables that grow and lose their names.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from walle_stack import program

CASES = '''import struct
import binascii
def show(x):
    return "f" + str(binascii.hexlify(struct.pack("<d", 0.0 if x != x else x))) + str(x != x) if isinstance(x, float) else repr(x)
def add(a, b):
    a += b
    return a
def sub(a, b):
    a -= b
    return a
def mul(a, b):
    a *= b
    return a
def div(a, b):
    a //= b
    return a
def mod(a, b):
    a %= b
    return a
def right(a, b):
    a >>= b
    return a
ANY = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a < b, lambda a, b: a > b, lambda a, b: a <= b,
       lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b, add, sub, mul]
FLOAT = [lambda a, b: a / b]
WHOLE = [lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, div, mod]
SHIFT = [lambda a, b: a >> b, lambda a, b: a << b, right]
SMALL = [0, 1, -1, 2, -7, 7, 255, 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 32), True, False]
BIG = [(1 << 61) - 1, 1 << 61, -(1 << 61), (1 << 62) - 1, 1 << 62, -(1 << 62), -(1 << 62) - 1, 1 << 63, (1 << 31) + 3, 3037000500]
REAL = [0.0, -0.0, 0.5, -2.5, 1e308, -1e-308, float("inf"), float("nan")]
SHIFTS = [0, 1, 31, 32, 61, 62, 63, 64, 70, -1]
class Pair(list): pass
def tried(f, *args):
    try:
        return show(f(*args))
    except Exception as e:
        return "IndexError" if isinstance(e, OverflowError) else type(e).__name__
def operators(from_, to):
    out = []
    for ops, left, right in ((ANY, SMALL + BIG, SMALL + BIG), (ANY + FLOAT, SMALL[:7] + REAL, SMALL[:7] + REAL),
                             (WHOLE, SMALL[:-2] + BIG, SMALL[:-2] + BIG), (SHIFT, SMALL + BIG, SHIFTS), (ANY[3:9], ["a", "b", 1], ["a", "ab", "b"])):
        for f in ops:
            for a in left:
                for b in right:
                    out.append((f, a, b))
    return [tried(*case) for case in out[from_:to]] if to else len(out)
def item(x, i): return x[i]
def put(x, i, y):
    x[i] = y
    return x
def drop(x, i):
    del x[i]
    return x
def two(x):
    a, b = x
    return [a, b]
def three(x):
    a, b, c = x
    return [a, b, c]
def sequences():
    out = []
    places = [0, 1, 2, 3, -1, -2, -3, -4, 1 << 61, -(1 << 61), 1 << 62, 1 << 64, True, "1", 1.0]
    for make in (lambda: [1, 2, 3], lambda: (1, 2, 3), lambda: bytearray(b"abc"), lambda: Pair([4, 5, 6]), lambda: "xyz", lambda: {1: 2, -1: 3, "1": 4}):
        for i in places:
            out.append(tried(item, make(), i))
            if isinstance(make(), (tuple, str)) and i not in places[:8]: continue # which fault is named first
            for y in (7, 0, 255, "s"):
                if y != "s" or not isinstance(make(), bytearray):
                    out.append(tried(lambda: sorted([str(z) for z in put(make(), i, y)])))
            if not isinstance(make(), bytearray):
                out.append(tried(lambda: sorted([str(z) for z in drop(make(), i)])))
    for x in ((1,), (1, 2), (1, 2, 3), [1, 2], [1, 2, 3], Pair([1, 2]), "ab", "abc", {1: 2, 3: 4}, 5, (), (1, 2, 3, 4)):
        out += [tried(lambda: sorted([str(z) for z in two(x)])), tried(lambda: sorted([str(z) for z in three(x)]))]
    return out
class Box:
    def __init__(self): self.n = 1
    def get(self): return self.n
    @property
    def pop(self): return lambda: "property"
class Names(dict):
    def get(self, key): return "own"
def names():
    out = []
    box, many = Box(), {}
    for i in range(300):
        many["k%d" % (i % 97)] = many.get("k%d" % (i % 97), 0) + i
        if i % 5 == 4: del many["k%d" % (i % 97)]
        setattr(box, "a%d" % (i % 31), i)
    out.append(sorted(many.items()))
    out += [getattr(box, "a%d" % i) for i in range(31)] + [box.get(), box.pop(), Names().get(1), {"get": 1}.get("get"), len([].__class__())]
    for name in ("get", "pop", "none"):
        out.append(tried(lambda: getattr(box, name)()))
    box.get = lambda: "instance's"
    out.append(box.get())
    del box.get
    out.append(box.get())
    g = globals()
    for i in range(40):
        g["made%d" % i] = i
    out.append(made3 + made39)
    del g["made3"]
    out.append(tried(lambda: made3))
    g["len"] = lambda x: "mine"
    out.append(len([1]))
    del g["len"]
    out.append(len([1]))
    out += [sum([1, 2, 1 << 62, 3]), sum([0.5, 1]), sum([True, 2]), tried(lambda: sum(["a"]))]
    rows = []
    for a, b in zip([1, 2, 3], (4, 5)): rows.append(a * b)
    for i, c in enumerate("xy"): rows.append((i, c))
    for k in iter([]): rows.append(k)
    for x in map(lambda y: y + 1, {1: 2}): rows.append(x)
    out.append(rows)
    return [repr(x) for x in out]
'''
ENTRY = """import walle, cases
what = walle.input['what']
walle.result(cases.operators(*what) if isinstance(what, list) else getattr(cases, what)())
"""
TOGETHER = 400  # of one run: a result has 16 KiB


class ShortWays(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="walle-short-ways-")
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "ways")
        os.mkdir(self.folder)
        task = {"name": "ways", "version": "1.0.0", "entry": "entry", "files": ["entry.py", "cases.py"], "time_ms": 60000, "heap_kib": 8192}
        for name, text in (("entry.py", ENTRY), ("cases.py", CASES), ("task.json", json.dumps(task))):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        run = subprocess.run([program("walle"), "task", "build", self.folder, "--out", self.folder + ".build"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.cases = {"__name__": "cases"}
        exec(compile(CASES, "cases.py", "exec"), self.cases)

    def of_device(self, what):
        path = self.folder + ".json"
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"what": what}, out)
        run = subprocess.run([program("walle"), "task", "run", self.folder + ".build", "--input", path, "-o", "json"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 0, f"{what}: {run.stdout} {run.stderr}")
        return json.loads(run.stdout)["result"]

    def test_operators(self):
        count = self.cases["operators"](0, 0)
        self.assertGreater(count, 9000)
        for at in range(0, count, TOGETHER):
            wanted = self.cases["operators"](at, at + TOGETHER)
            self.assertEqual(self.of_device([at, at + TOGETHER]), wanted, f"cases {at} to {at + TOGETHER}")

    def test_sequences(self):
        self.assertEqual(self.of_device("sequences"), self.cases["sequences"]())

    def test_names(self):
        self.assertEqual(self.of_device("names"), self.cases["names"]())


if __name__ == "__main__":
    sys.exit(unittest.main())
