"""Random valid programs (tests/differential/script_maker.py) through the shipped compiler, verifier and VM, beside CPython: the
verifier accepts every one, and both come to the same.

`WALLE_DIFFERENTIAL_SCRIPTS=10000` runs that many, from `WALLE_DIFFERENTIAL_SEED` on. A program is its number:
`python3 tests/differential/script_maker.py NUMBER` prints it.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

from walle_stack import SOURCE, program

sys.path.insert(0, os.path.join(SOURCE, "tests", "differential"))
import script_maker  # noqa: E402

COUNT = int(os.environ.get("WALLE_DIFFERENTIAL_SCRIPTS", "120"))
SEED = int(os.environ.get("WALLE_DIFFERENTIAL_SEED", "0"))
BATCH = 200  # of one build: a version holds 272 files
TOGETHER = 25  # of one run
# What a program noted, as one number; or all of it, for one program.
DIGEST = """
def text(x):
    return '[' + ','.join([text(y) for y in x]) + ']' if isinstance(x, (list, tuple)) else str(x)
def digest(x):
    h = 0
    for c in text(x):
        h = (h * 131 + ord(c)) % 2147483647
    return h
"""
ENTRY = DIGEST + """
import walle
out = {}
for name in walle.input['names']:
    try:
        log = __import__(name).LOG
    except Exception as e:
        log = [type(e).__name__]
    out[name] = [text(y) for y in log] if walle.input['all'] else digest(log)
walle.result(out)
"""


def of_cpython(number):
    """(digest, texts) of what the program noted here."""
    names, tools = {}, {}
    exec(DIGEST, tools)
    code = compile(script_maker.script_of(number), f"p{number}.py", "exec")
    exec(code, names)
    return tools["digest"](names["LOG"]), [tools["text"](line) for line in names["LOG"]]


class Differential(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")  # a number that is subscripted is meant
        scratch = tempfile.TemporaryDirectory(prefix="walle-differential-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def build(self, name, scripts):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for file, text in {"entry": ENTRY, **scripts}.items():
            with open(os.path.join(folder, file + ".py"), "w", encoding="utf-8") as out:
                out.write(text)
        task = {"name": "differential", "version": "1.0.0", "entry": "entry", "files": ["entry.py"] + [one + ".py" for one in scripts],
                "time_ms": 60000, "heap_kib": 8192}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as out:
            json.dump(task, out)
        run = subprocess.run([program("walle"), "task", "build", folder, "--out", folder + ".build"], capture_output=True, text=True,
                             timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)  # a refusal names the program, the function and the reason
        return folder + ".build"

    def of_device(self, build, names, everything=False):
        given = os.path.join(self.folder, "input.json")
        with open(given, "w", encoding="utf-8") as out:
            json.dump({"names": names, "all": everything}, out)
        run = subprocess.run([program("walle"), "task", "run", build, "--input", given, "-o", "json"], capture_output=True, text=True,
                             timeout=300)
        answer = json.loads(run.stdout)
        self.assertEqual((run.returncode, answer["end"]), (0, "finished"), f"{names}: {run.stdout} {run.stderr}")
        return answer["result"]

    def difference(self, build, number):
        ours, theirs = self.of_device(build, [f"p{number}"], True)[f"p{number}"], of_cpython(number)[1]
        at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        return f"{number}: note {at} is {ours[at:at + 1]}, CPython's {theirs[at:at + 1]}; before {theirs[max(0, at - 3):at]}"

    def test_programs_come_to_the_same(self):
        differ, noted = [], 0
        for first in range(SEED, SEED + COUNT, BATCH):
            numbers = range(first, min(first + BATCH, SEED + COUNT))
            build = self.build(f"batch{first}", {f"p{number}": script_maker.script_of(number) for number in numbers})
            results = {}
            for at in range(0, len(numbers), TOGETHER):
                results.update(self.of_device(build, [f"p{number}" for number in numbers[at:at + TOGETHER]]))
            for number in numbers:
                digest, texts = of_cpython(number)
                noted += len(texts)
                if results[f"p{number}"] != digest:
                    differ.append(self.difference(build, number))
        self.assertEqual(differ, [], "\n".join(differ))
        self.assertGreater(noted, 10 * COUNT)  # they did something

    def test_a_difference_is_seen(self):
        build = self.build("wrong", {"p0": script_maker.script_of(0).replace("x % 1000003", "x % 3")})
        self.assertNotEqual(self.of_device(build, ["p0"])["p0"], of_cpython(0)[0])


if __name__ == "__main__":
    unittest.main()
