"""The texts in device/vm/api against the VM: every name of one is in the other, functions take the parameters that are
written, each example prints what stands behind it; those of numbers are NumPy's, OpenCV's and SciPy's own, too. The stub
files that `walle task stubs` writes are what the texts say, and are Python. And VM.md's table of Python's modules."""
import ast
import fnmatch
import importlib.machinery
import importlib.util
import json
import os
import py_compile
import re
import subprocess
import tempfile
import unittest

import cv2
import numpy
import numpy.matlib
import onnx
from onnx import TensorProto, helper

SOURCE = os.environ.get("WALLE_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
WALLE = os.path.join(os.environ["WALLE_BIN"], "walle")
TOOL = os.path.join(SOURCE, ".ci", "script-api")
MODULES = "from walle import np, cv, audio, nn, data, store, cloud\nimport walle\n"
EVENTS = [("enter", None, 0, {}), ("click", "a", 1000, {"price": 2.0}), ("click", "a", 3000, {"price": 3.5}), ("exit", "b", 4000, {})]
CLASSES = {"ndarray": "np.zeros(1)", "Tensor": "nn.tensor([1])", "Model": 'nn.load("small.onnx")', "Stream": "data.events()",
           "Trainer": "trainer", "Session": "session"}
TRAINER = 'trainer = nn.Trainer(nn.load("small.onnx"), loss="mse")\n' \
    'session = nn.Session(nn.load("small.onnx"))\n'  # a run makes four trainers at most, and has eight sessions open
# Examples whose result is another with NumPy, and why: NUMPY.md has the differences.
OWN = {"walle.cv.haveImageReader": "opens the file there", "walle.np.asscalar": "gone from NumPy", "walle.np.empty_like": "not defined",
       "walle.np.split": "takes no list there", "walle.np.array_split": "likewise", "walle.np.repmat": "in numpy.matlib", "walle.np.linalg.LinAlgError": "an Exception in 1.24"}


def tool():
    spec = importlib.util.spec_from_loader("script_api", importlib.machinery.SourceFileLoader("script_api", TOOL))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def double_and_one():
    """2 x + 1."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["twice"]), helper.make_node("Add", ["twice", "one"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("x", "y")]
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [1], [value]) for name, value in (("two", 2), ("one", 1))]
    model = helper.make_model(helper.make_graph(nodes, "small", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


class ScriptApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tool = tool()
        cls.modules = cls.tool.load()
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = place.name
        task = {"name": "api", "version": "1.0.0", "entry": "task", "heap_kib": 8192, "time_ms": 60000, "config": {"rate": 2},
                "store": {"quota_kib": 16, "keep": "versions"},
                "leaves": {"infer": {"big": {"inputs": {"x": {"dtype": "FP32", "max_elements": 8}}, "per_day": 100}}, "uploads": {"summary": {"max_bytes": 100, "fields": {"n": "integer"}}}},
                "uploads": [{"name": "summary", "class": "realtime"}],
                "files": ["task.py", "small.onnx", {"name": "labels.txt", "kind": "data"}]}
        with open(os.path.join(cls.folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        with open(os.path.join(cls.folder, "events.jsonl"), "w", encoding="utf-8") as file:
            for kind, item, after, attrs in EVENTS:
                event = {"kind": kind, "page": "item", "t": 1767225600000 + after, "attrs": attrs, **({"item": item} if item else {})}
                print(json.dumps(event), file=file)
        onnx.save(double_and_one(), os.path.join(cls.folder, "small.onnx"))
        with open(os.path.join(cls.folder, "labels.txt"), "w", encoding="utf-8") as file:
            file.write("cat dog\n")
        cv2.imwrite(os.path.join(cls.folder, "frame.png"), numpy.zeros((4, 4, 3), "uint8"))

    def run_script(self, text):
        """What a script prints, its lines."""
        with open(os.path.join(self.folder, "task.py"), "w", encoding="utf-8") as file:
            file.write(MODULES + text)
        given = ["--events", os.path.join(self.folder, "events.jsonl"), "--give", "camera=" + os.path.join(self.folder, "frame.png")]
        done = subprocess.run([WALLE, "task", "run", self.folder, *given, "-o", "json"],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        run = json.loads(done.stdout)["runs"][0]
        self.assertEqual(run["output_cut"], 0)
        return run["output"].splitlines()

    def test_names(self):
        script = TRAINER + "".join(f"print({json.dumps(name)}, *dir({name}))\n" for name in self.modules)
        script += "".join(f"print({json.dumps(name)}, *dir({text}))\n" for name, text in CLASSES.items())
        there = {line.split()[0]: {word for word in line.split()[1:] if not word.startswith("__")} for line in self.run_script(script)}
        for name, module in self.modules.items():
            inner = {other.rpartition(".")[2] for other in self.modules if other.rpartition(".")[0] == name}
            written = {entry.name for entry in module.entries() if not entry.owner} | set(module.consts)
            written -= {"Model", "Stream", "Event"}  # classes that a script meets and cannot name
            self.assertEqual(sorted(there[name] - inner - written), [], f"of the VM's {name}, not in device/vm/api")
            self.assertEqual(sorted(written - there[name]), [], f"in device/vm/api, not in the VM's {name}")
            for kind in CLASSES:
                methods = {entry.name for entry in module.entries() if entry.owner == kind}
                if methods:
                    self.assertEqual(methods, there[kind], kind)

    def test_examples(self):
        for module in self.modules.values():
            with self.subTest(module.name):
                self.examples_of(module)

    def examples_of(self, module):
        entries, script = module.entries(), module.setup.replace("; ", "\n") + "\n"
        for entry in entries:
            *before, last = entry.example.split("; ")
            script += "\n".join(before) + f"\nprint({last})\n" if not entry.example.startswith("walle.log") else entry.example + "\n"
        printed = self.run_script(script)
        self.assertEqual(len(printed), len(entries))
        wrong = [f"{entry.path()}: {entry.example} => {line}" for entry, line in zip(entries, printed)
                 if line != entry.output and not ("." in line and same(line, entry.output))]  # the last digits of a real
        self.assertEqual(wrong[:8], [])

    def test_parameters(self):
        """Called with nothing but None: more by place than is written, and names that are not, are refused as such."""
        cases, script = [], TRAINER + "def probe(f, *args, **named):\n    try:\n        f(*args, **named)\n        print('none')\n" \
            "    except Exception as e:\n        print(str(e).split('\\n')[0] or 'none')\n"
        for module in self.modules.values():
            for entry in module.entries():
                if entry.kind not in ("function", "class") or not entry.text:  # scripts make a class that has parameters
                    continue
                if entry.name in ("clear", "agreed", "why", "seed") or entry.owner == "Event":
                    continue
                made = ast.parse(f"def f{entry.text}: ...").body[0].args
                name = f"({CLASSES[entry.owner]}).{entry.name}" if entry.owner else f"{module.name}.{entry.name}"
                placed = [arg.arg for arg in made.posonlyargs + made.args]
                needed = len(placed) - len(made.defaults)
                kinds = [ast.unparse(arg.annotation) for arg in made.posonlyargs + made.args]
                given = ["1" if kind in ("int", "float", "bool") else "None" for kind in kinds]  # what converts goes on
                nones = ", ".join(given[:needed])
                for arg in [*placed[max(needed, len(made.posonlyargs)):], *(arg.arg for arg in made.kwonlyargs)]:
                    cases.append((entry.path(), f"takes {arg} by name", "known"))
                    script += f"probe({name}, {nones + ', ' if nones else ''}{arg}=None)\n"
                if made.vararg is None and made.kwarg is None:
                    cases.append((entry.path(), f"takes {len(placed)} by place", "fits"))
                    script += f"probe({name}, {', '.join(given)})\n"
                    cases.append((entry.path(), f"takes no more than {len(placed)}", "over"))
                    script += f"probe({name}, {', '.join([*given, 'None'])})\n"
        wrong = []
        for (path, what, want), line in zip(cases, self.run_parts(script, len(cases))):
            over = any(words in line for words in ("extra positional", "expected at most", "positional arguments but"))
            strange = "extra keyword" in line or "keyword arguments" in line
            if want == "known" and strange or want == "fits" and over or want == "over" and not over:
                wrong.append(f"{path} {what}: {line}")
        self.assertEqual(wrong[:8], [])

    def run_parts(self, script, count):
        """The lines of a long script in several runs, as a run's output is bounded. The first lines are for all."""
        head, calls = script.split("\nprobe(", 1)
        calls = ("probe(" + calls).splitlines()
        self.assertEqual(len(calls), count)
        lines = []
        for at in range(0, count, 120):
            lines += self.run_script(head + "\n" + "\n".join(calls[at:at + 120]) + "\n")
        self.assertEqual(len(lines), count)
        return lines

    def test_examples_elsewhere(self):
        """Examples of arrays and images, with NumPy and OpenCV. Pairs of np.fft and texts of types are not theirs."""
        for name in ("walle.np", "walle.np.linalg", "walle.np.random", "walle.cv"):
            module, wrong = self.modules[name], []
            for entry in module.entries():
                if entry.path() in OWN or ".dtype" in entry.example or "crop_resize" in entry.example or entry.path() == "walle.cv.error":
                    continue
                names = {"np": numpy, "cv": cv2}
                text = "; ".join(part for part in (module.setup, entry.example) if part)
                *before, last = text.split("; ")
                with numpy.errstate(all="ignore"):
                    try:
                        exec("\n".join(before), names)
                        value = plain(eval(last, names))
                    except Exception as fault:  # told below, with the example
                        value = repr(fault)
                if not same(value, entry.output):
                    wrong.append(f"{entry.path()}: {entry.example} => {entry.output}, elsewhere {value}")
            self.assertEqual(wrong[:8], [])

    def test_stubs(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([WALLE, "task", "stubs", folder], check=True, capture_output=True, timeout=60)
            written = {}
            for at, _, names in os.walk(folder):
                for name in names:
                    path = os.path.join(at, name)
                    with open(path, encoding="utf-8") as file:
                        written[os.path.relpath(path, folder)] = file.read()
                    py_compile.compile(path, cfile=os.path.join(folder, "checked"), doraise=True)
                    os.unlink(os.path.join(folder, "checked"))
            self.assertEqual(written, self.tool.stubs(self.modules))
        for name, module in self.modules.items():
            tree = ast.parse(written[self.tool.stub_path(name, self.modules)])
            found = {node.name if hasattr(node, "name") else node.target.id for node in tree.body
                     if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AnnAssign))}
            self.assertEqual(found, {entry.name for entry in module.entries() if not entry.owner} | set(module.consts), name)

    def tailoring(self):
        """Rows of the section's tables in VM.md, each a list of cells."""
        with open(os.path.join(SOURCE, "docs", "VM.md"), encoding="utf-8") as file:
            section = file.read().split("\n## Tailoring\n")[1].split("\n## ")[0]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]

    def test_tailoring_modules(self):
        kept = [name for row in self.tailoring() if len(row) == 4 for name in re.findall(r"`([\w.]+)`", row[0])]
        left = [name for row in self.tailoring() if len(row) == 2 for name in re.findall(r"`(\w+)`", row[0])]
        own = {name.split(".")[1] for name in kept if name.startswith("walle.")}
        self.assertEqual(own, {name.split(".")[1] for name in self.modules if name.count(".") == 1})
        names = [name for name in kept if "." not in name]
        script = "".join(f"try:\n    import {name}\n    print('there')\nexcept ImportError:\n    print('not')\n" for name in names + left)
        said = dict(zip(names + left, self.run_script(script)))
        self.assertEqual({name: word for name, word in said.items() if word != ("there" if name in names else "not")}, {})
        refused = os.path.join(self.folder, "refused")
        os.makedirs(refused, exist_ok=True)
        with open(os.path.join(refused, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "api", "version": "1.0.0", "entry": "task", "files": ["task.py"]}, file)
        with open(os.path.join(refused, "task.py"), "w", encoding="utf-8") as file:
            file.write("import nosuchmodule\n")
        done = subprocess.run([WALLE, "task", "run", refused], capture_output=True, text=True, timeout=60, check=False)
        offered = done.stderr.split("walle: a device has ")[1].splitlines()[0].split()
        self.assertEqual(sorted(offered), sorted([*names, "walle"]))

    def test_tailoring_bytes(self):
        """Of MicroPython's own files in every build without sanitizers, of all in a release build."""
        library = os.path.join(os.path.dirname(WALLE), "..", "lib", "libwalle-device-vm.a")
        with open(os.path.join(os.path.dirname(WALLE), "..", "CMakeCache.txt"), encoding="utf-8") as file:
            cache = file.read()
        if re.search(r"^WALLE_SANITIZE:\w+=.+$", cache, re.M):
            self.skipTest("sanitizers make code larger")
        release = "CMAKE_BUILD_TYPE:STRING=Release" in cache
        sizes, wrong = {}, []
        for line in subprocess.run(["size", library], capture_output=True, text=True, check=True).stdout.splitlines()[1:]:
            words = line.split()
            sizes[words[5].removesuffix(".c.o")] = int(words[0]) + int(words[1])
        for name, files, written, *_ in (row for row in self.tailoring() if len(row) == 4):
            globs = re.findall(r"`([\w*]+)`", files)
            matched = [size for file, size in sizes.items() if any(fnmatch.fnmatchcase(file, glob) for glob in globs)]
            self.assertGreaterEqual(len(matched), len(globs), name)
            is_own = "." in name
            factor = 0.1 if release else 0.4
            if (release or not is_own) and abs(sum(matched) - int(written.replace(",", ""))) > factor * sum(matched):
                wrong.append(f"{name}: {sum(matched)} bytes, the page says {written}")
        self.assertEqual(wrong, [])

    def test_page(self):
        subprocess.run([TOOL, "--check"], check=True)


def plain(value):
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value)(plain(one) for one in value)
    return value


def same(value, output):
    """Texts that are equal, or numbers that are: 1 is 1.0."""
    if str(value) == output:
        return True
    try:
        value = ast.literal_eval(value) if isinstance(value, str) else value
        return numpy.allclose(numpy.asarray(value, float), numpy.asarray(ast.literal_eval(output), float), atol=1e-6)
    except (ValueError, TypeError, SyntaxError):
        return False


if __name__ == "__main__":
    unittest.main()
