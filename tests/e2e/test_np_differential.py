"""walle.np beside NumPy: random uses of every function (tests/differential/np_cases.py), of indexing and of operators, in the
device's own script VM and in CPython: types, shapes, values and kinds of errors are the same.

What is known to differ is in docs/NUMPY.md and in STANDS_FOR here: types that walle.np has no elements of.
`WALLE_NP_CASES=500` makes as many uses of each function, from `WALLE_NP_SEED` on.
"""
import os
import random
import re
import struct
import sys
import unittest
import warnings

import numpy
import numpy.matlib

from walle_stack import SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests", "differential"))
import np_cases  # noqa: E402
from script_cases import ScriptTestCase  # noqa: E402

COUNT = int(os.environ.get("WALLE_NP_CASES", "6"))
SEED = int(os.environ.get("WALLE_NP_SEED", "1"))
STANDS_FOR = {"float16": "float32", "int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}
# Of a result of this type: how far it may be off, relative and absolute.
TOLERANCES = {"float64": (1e-12, 1e-12), "float32": (3e-6, 3e-6), "float16": (3e-3, 3e-3)}
# Sums of float32 are rounded in another order; a variance is a difference of those.
WIDER = {"float32": (1e-4, 1e-4)}
# NumPy computes in float32 here, walle.np in float64; what is compared is not far from singular.
LINEAR = {"float64": (1e-9, 1e-9), "float32": (2e-3, 2e-3)}
SUMS = ("nansum", "nanmean", "nanstd", "nanvar", "nanprod", "average", "sum", "mean", "std", "var", "dot", "matmul", "inner", "vdot", "prod", "cumsum", "cumprod", "power", "operators")

HEAD = """import struct
from binascii import hexlify
from walle import np
def show(x):
    if isinstance(x, np.ndarray):
        return ['a', x.dtype, list(x.shape), hexlify(x.tobytes()).decode()]
    if isinstance(x, (list, tuple)):
        return ['t', [show(y) for y in x]]
    if isinstance(x, bytes):
        return ['b', hexlify(x).decode()]
    if isinstance(x, float):
        return ['f', hexlify(struct.pack('<d', x)).decode()]
    return ['i' if type(x) is int else type(x).__name__, str(x)]
def spectrum(f, *args, **named):
    return f(*args, pairs=True, **named)
"""


class Names:
    """NumPy's names, and what the original has under names that NumPy keeps elsewhere or had once."""
    repmat = staticmethod(numpy.matlib.repmat)
    asscalar = staticmethod(lambda a: a.item())

    def __getattr__(self, name):
        return getattr(numpy, name)


def spectrum(function, pairs, *args, **named):
    return function(pairs[..., 0] + 1j * pairs[..., 1], *args, **named)


def of_numpy(line):
    """What the case comes to: a value, or the exception."""
    names = {"np": Names(), "spectrum": spectrum}
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", numpy.VisibleDeprecationWarning)
        try:
            exec(f"def case(): {line}", names)  # noqa: S102
            return names["case"]()
        except Exception as error:  # noqa: BLE001
            return error


def of_array(shown):
    if shown[0] == "a":
        return numpy.frombuffer(bytes.fromhex(shown[3]), dtype=shown[1]).reshape(shown[2])
    return numpy.array(struct.unpack("<d", bytes.fromhex(shown[1]))[0] if shown[0] == "f" else {"True": True, "False": False}.get(
        shown[1]) if shown[0] == "bool" else int(shown[1]))


def compare(shown, theirs, name):
    """None, or what is different."""
    if isinstance(theirs, Exception):
        kinds = [kind.__name__ for kind in type(theirs).__mro__]
        if isinstance(theirs, numpy.VisibleDeprecationWarning):
            kinds = ["ValueError"]
        return None if shown[0] == "e" and shown[1] in kinds else f"{shown[:3]}, not {type(theirs).__name__}: {theirs}"
    if shown[0] == "e":
        return f"raised {shown[1]}: {shown[2]}, not {theirs!r}"
    if isinstance(theirs, str):
        return None if shown == ["str", theirs] else f"{shown}, not {theirs!r}"
    if isinstance(theirs, (list, tuple)):
        if shown[0] != "t" or len(shown[1]) != len(theirs):
            return f"{shown}, not {theirs!r}"
        return next((text for text in map(lambda pair: compare(pair[0], pair[1], name), zip(shown[1], theirs)) if text), None)
    if isinstance(theirs, bytes):
        return None if shown == ["b", theirs.hex()] else f"{shown}, not {theirs!r}"
    if shown[0] not in ("a", "f", "i", "bool"):
        return f"{shown}, not {theirs!r}"
    ours, wanted = of_array(shown), numpy.asarray(theirs)
    if wanted.dtype.kind == "c":
        theirs = wanted = numpy.stack((wanted.real, wanted.imag), axis=-1)
    kind = STANDS_FOR.get(wanted.dtype.name, wanted.dtype.name)
    if shown[0] == "a" and shown[1] != kind:
        return f"of {shown[1]}, not {kind}"
    if shown[0] == "a" and not isinstance(theirs, numpy.ndarray):
        return f"an array, not the number {theirs!r}"
    if shown[0] != "a" and ours.dtype.kind.replace("u", "i") != numpy.zeros(0, kind).dtype.kind.replace("u", "i"):
        return f"a number {shown}, not {theirs!r}"
    if ours.shape != wanted.shape:
        return f"shape {ours.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "biu" or name.startswith("random."):
        return None if numpy.array_equal(ours, wanted) else f"{ours!r}, not {wanted!r}"
    chosen = LINEAR if name.startswith("linalg.") else WIDER if name in SUMS else TOLERANCES
    relative, absolute = chosen.get(wanted.dtype.name) or TOLERANCES[wanted.dtype.name]
    with numpy.errstate(all="ignore"):
        same = numpy.allclose(ours.astype("float64"), wanted.astype("float64"), relative, absolute, equal_nan=True)
    return None if same else f"{ours!r}, not {wanted!r}"


class Differential(ScriptTestCase):
    name, head = "np", HEAD

    def test_every_function_comes_to_what_numpy_says(self):
        print(f"seed {SEED}, {COUNT} uses of each")
        cases = []
        for name in [*np_cases.FUNCTIONS, *np_cases.OTHERS, *np_cases.parts()]:
            chance = random.Random(f"{name} {SEED}")
            times = COUNT * (10 if name in np_cases.OTHERS else 1)
            cases += [(name, np_cases.case(name, chance)) for _ in range(times)]
        differ, good = [], 0
        for name, line, shown in self.played(cases):
            theirs = of_numpy(line)
            text = compare(shown, theirs, name)
            if text:
                differ.append(f"{name}: {line}\n    {text}")
            good += not text and not isinstance(theirs, Exception)
        self.assertEqual(differ, [], f"{len(differ)} of {len(cases)}:\n" + "\n".join(differ[:60]))
        self.assertGreater(good, len(cases) * 3 // 4)  # most of them are no errors

    def test_a_difference_is_seen(self):
        one = ("add", "return np.add(np.array([1, 2]), 1)")
        shown = self.played([one])[0][2]
        self.assertIsNone(compare(shown, of_numpy(one[1]), "add"))
        for line in ("return np.add(np.array([1, 2]), 2)", "return np.add(np.array([1, 2]), 1.0)", "return np.add(np.array([[1, 2]]), 1)",
                     "return 3", "return nothing"):
            self.assertIsNotNone(compare(shown, of_numpy(line), "add"), line)

    def test_the_page_says_what_there_is(self):
        table = set(self.of_names())
        with open(os.path.join(SOURCE, "docs", "NUMPY.md"), encoding="utf-8") as page:
            text = page.read()
        rows = {name: there for names, there in re.findall(r"^\| (`[^|]*`) \| (there|not yet[^|]*|never[^|]*) \|", text, re.M)
                for name in re.findall(r"`([\w.]+)`", names)}
        there = {name for name, standing in rows.items() if standing == "there"}
        self.assertEqual(there, table)
        self.assertEqual(there, set(np_cases.FUNCTIONS) | set(np_cases.parts()) | self.NOT_CALLED)
        whole = [name for name in rows if name not in self.NOT_CALLED and name != "ndarray"]
        stated = re.search(r"(\d+) of the (\d+) names", text)
        self.assertEqual((int(stated.group(1)), int(stated.group(2))), (len([name for name in whole if name in there]), len(whole)))

    NOT_CALLED = {"bool_", "uint8", "int32", "int64", "uint64", "float32", "float64", "newaxis", "pi", "e", "inf", "nan"}

    def of_names(self):
        build = self.build({"names": "from walle import np\nimport walle\nCASES = [0]\n"
                                     "def all(m): return [n for n in dir(m) if n[:2] != '__']\n"
                                     "P = {'fft': np.fft, 'linalg': np.linalg, 'random': np.random}\n"
                                     "def run(f): return [n for n in all(np) if n not in P] + [p + '.' + n for p in P for n in all(P[p])]\n"})
        return self.of_device(build, {"module": "names", "from": 0, "to": 1})[0]


if __name__ == "__main__":
    unittest.main()
