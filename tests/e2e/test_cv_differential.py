"""walle.cv beside OpenCV: random uses of every function that both have (tests/differential/cv_cases.py), in the device's own
script VM and in CPython: types, shapes and values are the same, and what one refuses the other does, too.

How far a value may be off stands in docs/CV.md, function by function, and is read from there. `WALLE_CV_CASES=200` makes as
many uses of each function, from `WALLE_CV_SEED` on.
"""
import os
import random
import re
import struct
import sys
import unittest
import warnings

import cv2
import numpy

from walle_stack import SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests", "differential"))
import cv_cases  # noqa: E402
import cv_cases_places  # noqa: E402
from script_cases import ScriptTestCase  # noqa: E402

COUNT = int(os.environ.get("WALLE_CV_CASES", "4"))
SEED = int(os.environ.get("WALLE_CV_SEED", "1"))
STANDS_FOR = {"int16": "int32", "uint16": "int32", "int8": "int32"}
PART = 5e-5  # of the largest number of a result of reals, that each may be off
NO_PIXELS = "no pixels"  # what walle.cv refuses without exception

HEAD = """import struct
from binascii import b2a_base64
from walle import np, cv
""" + cv_cases.MAKER + """
def show(x):
    if isinstance(x, np.ndarray):
        return ['a', x.dtype, list(x.shape), b2a_base64(x.tobytes()).decode()]
    if isinstance(x, (list, tuple)):
        return ['t', [show(y) for y in x]]
    if isinstance(x, float):
        return ['f', x]
    return ['i' if type(x) is int else type(x).__name__, str(x)]
"""


class Dense:
    """cv2, given arrays that lie densely: it takes no rows from the last to the first."""

    def __getattr__(self, name):
        found = getattr(cv2, name)
        if not callable(found):
            return found
        return lambda *given, **named: found(*map(dense, given), **{key: dense(value) for key, value in named.items()})


def dense(value):
    if isinstance(value, list):
        return [dense(one) for one in value]
    return numpy.ascontiguousarray(value) if isinstance(value, numpy.ndarray) else value


def of_opencv(line):
    """What the case comes to: a value, or the exception."""
    names = {"np": numpy, "cv": Dense()}
    exec(cv_cases.MAKER, names)  # noqa: S102
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(f"def case(): {line}", names)  # noqa: S102
            return names["case"]()
        except Exception as error:  # noqa: BLE001
            return error


def of_array(shown):
    return numpy.frombuffer(__import__("base64").b64decode(shown[3]), dtype=shown[1]).reshape(shown[2])


def compare(shown, theirs, off):
    """None, or what is different. `off`: how far whole numbers may be off."""
    if isinstance(theirs, Exception):
        return None if shown[0] == "e" and shown[1] in ("ValueError", "TypeError") else f"{str(shown)[:99]}, not {type(theirs).__name__}: {theirs}"
    if shown[0] == "e":
        return None if shown[1] == "ValueError" and NO_PIXELS in shown[2] else f"raised {shown[1]}: {shown[2]}, not {theirs!r}"
    if isinstance(theirs, (list, tuple)):
        if shown[0] != "t" or len(shown[1]) != len(theirs):
            return f"{shown}, not {theirs!r}"
        return next((text for text in map(lambda pair: compare(pair[0], pair[1], off), zip(shown[1], theirs)) if text), None)
    if theirs is None:
        return None if shown[0] == "NoneType" else f"{shown}, not None"
    if isinstance(theirs, bool):
        return None if shown == ["bool", str(theirs)] else f"{shown}, not {theirs!r}"
    if isinstance(theirs, (int, float)):
        return None if shown[0] in "fi" and abs(float(shown[1]) - theirs) <= 1e-9 * max(1, abs(theirs)) else f"{shown}, not {theirs!r}"
    if shown[0] != "a":
        return f"{shown}, not {theirs!r}"
    ours, kind = of_array(shown), STANDS_FOR.get(theirs.dtype.name, theirs.dtype.name)
    if shown[1] != kind or ours.shape != theirs.shape:
        return f"{shown[1]} of {ours.shape}, not {kind} of {theirs.shape}"
    if theirs.size == 0:
        return None
    apart = numpy.abs(ours.astype("float64") - theirs.astype("float64"))
    apart[numpy.isnan(ours) & numpy.isnan(theirs)] = 0
    most = off if theirs.dtype.kind in "iu" else PART * max(1, numpy.nanmax(numpy.abs(theirs.astype("float64")), initial=1))
    return None if apart.max() <= most else f"off by {apart.max()} in {(apart > most).sum()} of {apart.size}: {ours.ravel()[:9]}, not {theirs.ravel()[:9]}"


def page_rows():
    """name -> (standing, how far whole numbers may be off) as docs/CV.md has it."""
    with open(os.path.join(SOURCE, "docs", "CV.md"), encoding="utf-8") as page:
        text = page.read()
    rows = {}
    for names, standing, off in re.findall(r"^\| (`[^|]*`) \| (there|not yet[^|]*|never[^|]*) \| ([^|]*) \|", text, re.M):
        for name in re.findall(r"`([\w.]+)`", names):
            rows[name] = (standing, int(off) if off.strip().isdigit() else 0)
    return rows, text


class Differential(ScriptTestCase):
    name, head = "cv", HEAD
    together = 1  # a result has 16 KiB

    def test_every_function_comes_to_what_opencv_says(self):
        print(f"seed {SEED}, {COUNT} uses of each")
        rows, _ = page_rows()
        cases = []
        for name in os.environ.get("WALLE_CV_ONLY", " ".join(cv_cases.FUNCTIONS)).split():
            chance = random.Random(f"{name} {SEED}")
            cases += [(name, cv_cases.case(name, chance)) for _ in range(COUNT)]
        differ, good = [], 0
        for name, line, shown in self.played(cases):
            theirs = of_opencv(line)
            text = compare(shown, theirs, rows[name][1])
            if text:
                differ.append(f"{name}: {line}\n    {text}")
            good += not text and not isinstance(theirs, Exception)
        self.assertEqual(differ, [], f"{len(differ)} of {len(cases)}:\n" + "\n".join(differ[:60]))
        self.assertGreater(good, len(cases) * 3 // 4)  # most of them are no errors

    def test_pixels_from_other_places(self):
        """Odd widths, every number of channels, rows apart and every border: what loops over whole vectors may get wrong."""
        rows, _ = page_rows()
        cases = cv_cases_places.cases()
        self.together = 2  # results are small
        shown = self.played(cases)
        differ = [f"{name}: {line}\n    {text}" for name, line, one in shown if (text := compare(one, of_opencv(line), rows[name][1]))]
        self.assertEqual(differ, [], f"{len(differ)} of {len(cases)}:\n" + "\n".join(differ[:60]))
        refused = sum(isinstance(of_opencv(line), Exception) for _, line, _ in shown)
        self.assertLess(refused, len(cases) // 50)

    def test_a_difference_is_seen(self):
        one = ("flip", "return cv.flip(im((2, 3), 'uint8', 1), 0)")
        shown = self.played([one])[0][2]
        self.assertIsNone(compare(shown, of_opencv(one[1]), 0))
        for line in ("return cv.flip(im((2, 3), 'uint8', 1), 1)", "return cv.flip(im((3, 2), 'uint8', 1), 0)", "return 3", "return nothing",
                     "return cv.flip(im((2, 3), 'int32', 1), 0)"):
            self.assertIsNotNone(compare(shown, of_opencv(line), 0), line)

    def test_files_of_opencv_are_read_alike(self):
        """JPEG and PNG as OpenCV writes them, of every kind of pixel; what is cut is refused or read alike."""
        chance = numpy.random.default_rng(SEED)
        cases = []
        for shape, kind, params in (((9, 13, 3), ".jpg", []), ((17, 33, 3), ".jpg", [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]), ((8, 8), ".jpg", []),
                                    ((9, 13, 3), ".png", []), ((5, 7), ".png", []), ((6, 4, 4), ".png", []),
                                    ((7, 9), ".png", [cv2.IMWRITE_PNG_BILEVEL, 1])):
            _, written = cv2.imencode(kind, chance.integers(0, 256, shape, dtype=numpy.uint8), params)
            for flags in ("COLOR", "GRAYSCALE", "UNCHANGED"):
                cases.append(("imdecode", f"return cv.imdecode(np.array({written.tolist()}, dtype='uint8'), cv.IMREAD_{flags})"))
        differ = [f"{line[:60]}...{line[-30:]}: {text}" for _, line, shown in self.played(cases)
                  if (text := compare(shown, of_opencv(line), 0))]
        self.assertEqual(differ, [])

    def test_a_picture_as_a_model_takes_it(self):
        """crop_resize_normalize is resize, less the means, times the scales, channels first."""
        line = ("return cv.crop_resize_normalize(im((20, 30, 3), 'uint8', 5), (8, 6), rect=(2, 3, 21, 14), mean=(10, 20, 30), "
                "scale=(0.5, 0.25, 0.125), swapRB=True)")
        shown = self.played([("crop_resize_normalize", line)])[0][2]
        names = {"np": numpy}
        exec(cv_cases.MAKER, names)  # noqa: S102
        cut = names["im"]((20, 30, 3), "uint8", 5)[3:17, 2:23].astype("float32")
        wanted = (cv2.resize(cut, (8, 6))[..., ::-1] - [10, 20, 30]) * [0.5, 0.25, 0.125]
        self.assertEqual((shown[0], shown[1], shown[2]), ("a", "float32", [1, 3, 6, 8]), shown)
        apart = numpy.abs(of_array(shown)[0] - wanted.transpose(2, 0, 1)).max()
        self.assertLess(apart, 1e-3)

    def test_the_page_says_what_there_is(self):
        rows, text = page_rows()
        table = set(self.of_device(self.build({"names": "from walle import cv\nimport walle\nCASES = [0]\n"
                                                        "def run(f): return [n for n in dir(cv) if n[:2] != '__']\n"}, "names"),
                                   {"module": "names", "from": 0, "to": 1})[0])
        functions = {name for name in table if not re.fullmatch(r"[A-Z]+(_\w+)?|error", name)}
        there = {name for name, (standing, _) in rows.items() if standing == "there"}
        self.assertEqual(there, functions)
        self.assertEqual(there - set(cv_cases.FUNCTIONS), self.NOT_COMPARED & there)
        values = self.of_device(self.build({"values": "from walle import cv\nimport walle\nCASES = [0]\n"
                                                      "def run(f): return {n: getattr(cv, n) for n in dir(cv)\n"
                                                      "                    if n[:1] < 'a' and (n == n.upper() or '_' in n[1:])\n"
                                                      "                    and n[:2] != '__'}\n"}, "values"),
                                {"module": "values", "from": 0, "to": 1})[0]
        self.assertEqual(set(values), table - functions - {"error"})
        self.assertEqual(values, {name: getattr(cv2, name) for name in values})

    # The first is not OpenCV's; the others look at files there.
    NOT_COMPARED = {"crop_resize_normalize", "haveImageReader", "haveImageWriter"}


if __name__ == "__main__":
    unittest.main()
