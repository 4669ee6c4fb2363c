#!/usr/bin/env python3
"""Numbers of walle.data beside Python's own: sums of reals are exact, quantiles are within the bound they say, of both signs, and
refuse what is no quantile; a row without a window is complete; `walle tunnel train` says when it cannot learn."""
import json
import math
import os
import random
import struct
import unittest
from fractions import Fraction

from walle_stack import Stack

SCRIPT = """
import math
import walle
from walle import data
s = data.events()
qs = walle.input["qs"]
r = s.aggregate(total=data.sum('v'), mean=data.mean('v'), q=data.quantiles('v', *qs))[0]
said = []
for wrong in (-0.01, 1.01, 50, float('nan'), float('inf')):
    try:
        data.quantiles('v', 0.5, wrong)
    except ValueError as e:
        said.append(str(e))
try:
    s.aggregate(q=data.quantiles('v', 0.5), q_error=data.count())
except ValueError as e:
    said.append(str(e))
windowed = data.TimeWindow(s, 10 ** 10).aggregate(n=data.count())[-1].complete
m, e = math.frexp(r.total)
walle.result({"total": [int(m * 2 ** 53), e], "mean": r.mean, "q": r.q, "error": r.q_error, "complete": [r.complete, windowed], "said": said})
"""

HARD = ([1e100, 1e50, 1.0, -1e50, -1e100], [1e16, 1.0, 1.0, -1e16], [0.1] * 1000, [1e308, -1e308, 1.5], [1.0, 2.0 ** -53, 2.0 ** -120],
        [9007199254740993, 2.0 ** -60], [1.0, 2.0 ** -53, -(2.0 ** -120)], [-1.0, -(2.0 ** -53), -(2.0 ** -110)], [-3, 0.5], [1e308, 1e308, -1e308],
        [1e308, 1e308, -1e308, -1e308, 5.0], [-1.7e308, -1.7e308, -1.7e308, 1.7e308, 1.7e308, 2.0 ** -60, 3.0], [9007199254740993, 0.5, 0.5],
        [3, -1e17, 1e17, 2 ** 62, 0.25, -(2 ** 62)], [1.0, 2.0 ** -70, -1.0, 2.0 ** -120], [0.1, 0.2, 0.3, -0.6])


class Numbers(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        folder = self.stack.path("numbers")
        os.makedirs(folder)
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "numbers", "version": "1.0.0", "entry": "main", "time_ms": 60000, "files": ["main.py"]}, file)
        with open(os.path.join(folder, "main.py"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))

    def play(self, values, qs=(0.5,)):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"kind": "click", "page": "p", "attrs": {"v": value}}) + "\n" for value in values)
        with open(self.stack.path("input.json"), "w", encoding="utf-8") as file:
            json.dump({"qs": list(qs)}, file)
        run = self.stack.walle("task", "run", self.stack.path("build"), "--events", path, "--input", self.stack.path("input.json"), "-o",
                               "json", check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return json.loads(run.stdout)["runs"][0]["result"]

    def test_sums(self):
        rng = random.Random(12)
        worlds = [*HARD]
        for _ in range(12):
            numbers = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-20, 20) for _ in range(300)]
            numbers += [-number for number in numbers[:295]]
            rng.shuffle(numbers)
            worlds.append(numbers)
        for values in worlds:
            got = self.play(values)
            want = sum(Fraction(value) for value in values)
            total = math.ldexp(got["total"][0], got["total"][1] - 53)  # texts of floats are rounded in a script
            self.assertEqual(total, float(want), (values[:8], got))
            self.assertAlmostEqual(got["mean"], float(want / len(values)), delta=1e-15 * abs(float(want / len(values))))

    def test_quantiles(self):
        """The bound is the bound, and no larger than the page says for what the numbers span."""
        rng = random.Random(21)
        qs = (0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
        for signs, span, said in (((1,), 1.9, 0.004), ((-1,), 1.9, 0.004), ((1, -1), 1.3, 0.004), ((1,), 240, 0.0304),
                                  ((-1,), 240, 0.0304), ((1, -1), 15, 0.0304), ((1, -1), 1e9, 0.2001), ((-1,), 1e19, 0.2001)):
            values = [rng.choice(signs) * 1.3 * math.exp(rng.uniform(0, math.log(span))) for _ in range(2000)]
            values += [0.0] * (50 if len(signs) > 1 else 0)
            got = self.play(values, qs)
            values.sort()
            self.assertLessEqual(got["error"], said, (signs, span))
            for q, answer in zip(qs, got["q"]):
                exact = values[math.floor(q * (len(values) - 1))]
                self.assertLessEqual(abs(answer - exact), got["error"] * abs(exact) * (1 + 1e-12), (signs, span, q, answer, exact))

    def test_what_is_no_quantile(self):
        got = self.play([1.0, 2.0])
        self.assertEqual(len(got["said"]), 6, got)
        for said in got["said"][:5]:
            self.assertIn("quantile 2 is not between 0 and 1", said)
        self.assertIn("a row has this field already", got["said"][5])

    def test_reals_come_back_as_they_were(self):
        """What a script hands over is read as the same number, bit by bit."""
        folder = self.stack.path("reals")
        os.makedirs(folder)
        for name, text in (("task.json", json.dumps({"name": "reals", "version": "1.0.0", "entry": "main", "time_ms": 60000, "files": ["main.py"]})),
                           ("main.py", "import struct, walle\nwalle.result([struct.unpack('<d', struct.pack('<Q', int(x, 16)))[0] for x in walle.input])\n")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        seed = int(os.environ.get("WALLE_SEED", "12"))
        print(f"WALLE_SEED={seed}")
        draw = random.Random(seed)
        known = [0.1 + 0.2, 0.1, 1.0, -0.0, 1e15, 1e16, 1e22, 1e-7, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0 ** 53 + 2, 1 / 3, 100.0, 2 / 3]
        for _ in range(20):
            values = known + [value for value in (struct.unpack("<d", draw.randbytes(8))[0] for _ in range(300)) if math.isfinite(value)]
            bits = [struct.pack("<d", value).hex() for value in values]
            with open(self.stack.path("in.json"), "w", encoding="ascii") as file:
                json.dump([f"{struct.unpack('<Q', bytes.fromhex(one))[0]:x}" for one in bits], file)
            said = json.loads(self.stack.walle("task", "run", folder, "--input", self.stack.path("in.json"), "-o", "json").stdout)["result"]
            self.assertTrue(all(isinstance(value, float) for value in said), "a real stays one")
            self.assertEqual([struct.pack("<d", value).hex() for value in said], bits)

    def test_complete(self):
        """Without a window all events of a key are there; a window that was open at the end is not whole."""
        self.assertEqual(self.play([1.0, 2.0])["complete"], [True, False])

    def train(self, lines, *more):
        path = self.stack.path("lines.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        return self.stack.walle("tunnel", "train", "--from", path, "--out", self.stack.path("out.dict"), *more, check=False)

    def test_train(self):
        rng = random.Random(3)
        noise = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOP") for _ in range(4000)) for _ in range(120)]
        run = self.train(noise)
        self.assertEqual(run.returncode, 5, run.stdout)
        self.assertRegex(run.stderr, r"cannot learn: \d+ records that were held out compress [0-9.]+x alone and [0-9.]+x with a dictionary")
        self.assertFalse(os.path.exists(self.stack.path("out.dict")))
        row = {"device": "00000000000004d2", "task": "a/b", "upload": "u", "schema": 1}
        lost = [json.dumps({"device": "00000000000004d2", "class": 2, "lost": n, "reason": "starts"}) for n in range(200)]
        rows = [json.dumps({**row, "record": {"item": f"i-{n}", "colour": rng.choice(("red", "green")), "price": rng.random()}})
                for n in range(300)]
        run = self.train([*lost, *rows[:20], *[json.dumps({**row, "task": "c/d", "record": 1})] * 7, json.dumps({**row, "record": "x" * 20000})],
                         "--task", "a/b")
        self.assertEqual(run.returncode, 5, run.stdout)
        self.assertIn("cannot learn: 18 samples; at least 64 are needed; of 228 lines 207 are of other tasks, 0 losses, 1 over 16384 bytes",
                      run.stderr)
        self.assertIn("0 samples; at least 64 are needed; of 200 lines 0 are of other tasks, 200 losses", self.train(lost).stderr)
        run = self.train([*lost, *rows])  # one device's: none of a tenth of one device, so a tenth of its records is held out
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("learnt from 270 records; 30 held out", run.stdout)


if __name__ == "__main__":
    unittest.main()
