"""The command `walle-engine` on models made here: every command, the first wrong node, error texts, exit codes."""
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from walle_stack import SOURCE, program

SEED = 20261121


class EngineCli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}")
        cls.folder = tempfile.mkdtemp(prefix="walle-engine-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.random = np.random.default_rng(SEED)
        cls.w = cls.random.standard_normal((4, 3, 3, 3)).astype(np.float32)
        cls.b = cls.random.standard_normal(4).astype(np.float32)
        cls.x = cls.random.standard_normal((2, 3, 6, 5)).astype(np.float32)
        cls.model = cls.save_model("net.onnx", [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first_conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="rectify"),
            helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
            helper.make_node("Flatten", ["p"], ["f"], name="flat"),
            helper.make_node("Softmax", ["f"], ["y"], name="probabilities", axis=1),
        ])

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def save_model(cls, name, nodes, opset=13, outputs=(("y", TensorProto.FLOAT, None),)):
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 6, 5])],
            [helper.make_tensor_value_info(*output) for output in outputs],
            [numpy_helper.from_array(cls.w, "w"), numpy_helper.from_array(cls.b, "b")])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), cls.path(name))
        return cls.path(name)

    def oracle(self):
        """Every value of the model, by numpy."""
        padded = np.pad(self.x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        c = np.einsum("nchwij,ocij->nohw", windows, self.w) + self.b[None, :, None, None]
        r = np.maximum(c, 0)
        p = r.mean(axis=(2, 3), keepdims=True)
        f = p.reshape(2, 4)
        e = np.exp(f - f.max(axis=1, keepdims=True))
        values = {"c": c, "r": r, "p": p, "f": f, "y": e / e.sum(axis=1, keepdims=True)}
        return {name: value.astype(np.float32) for name, value in values.items()}

    def engine(self, *arguments, code=0):
        run = subprocess.run([program("walle-engine"), *arguments], capture_output=True, text=True, timeout=120,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def refused(self, code, text, *arguments):
        self.assertIn(text, self.engine(*arguments, code=code).stderr)

    # ---- words

    def test_help_has_examples_for_every_command(self):
        commands = re.findall(r"^  (\w+) +[A-Z]", self.engine("--help").stdout, re.M)
        self.assertEqual(sorted(commands), ["bench", "check", "dump", "info", "run", "search", "train"])
        for name in commands:
            self.assertIn("Examples:\n  walle-engine " + name, self.engine(name, "--help").stdout)

    def test_usage_errors(self):
        self.assertIn("usage: walle-engine", self.engine(code=2).stderr)
        self.refused(2, "no command 'nonsense'", "nonsense")
        self.refused(2, "walle-engine run: no option '--bogus'", "run", "--bogus")
        self.refused(2, "MODEL is missing", "run")
        self.refused(2, "one argument too many", "info", "a", "b")
        self.refused(2, "not a number", "run", "--threads", "many", self.model)
        self.refused(2, "a session needs some memory", "run", "--memory", "0", self.model)
        self.refused(2, "not a number", "run", "--memory", "much", self.model)
        self.refused(2, "precision is high or low", "run", "--precision", "wrong", self.model)
        self.refused(2, "not a tolerance", "check", "--rtol", "-1", self.model)

    # ---- info, dump

    def test_info(self):
        text = self.engine("info", self.model).stdout
        self.assertIn("input  x: float[batch,3,6,5]", text)
        self.assertRegex(text, r"opset +13")
        self.assertRegex(text, r"parameters +112\b")
        self.assertRegex(text, r"nodes +5 ")
        self.assertRegex(text, r"1  Conv +atomic")
        self.assertIn("weight w: float[4,3,3,3]", self.engine("info", "--verbose", self.model).stdout)

    def test_dump(self):
        text = self.engine("dump", self.model).stdout
        self.assertIn("0 Conv(x, w, b) -> c pads=[1,1,1,1]  # first_conv", text)
        program_text = self.engine("dump", "--program", "--dim", "batch=2", self.model).stdout
        self.assertIn("conv", program_text)
        self.assertIn("segment 0: nodes 0 to 5", program_text)

    # ---- run

    def test_run_writes_what_numpy_computes(self):
        np.save(self.path("x.npy"), self.x)
        for isa in ("ref", "generic", None):
            out = self.path("y.npz")
            trace = self.path("trace.json")
            options = [] if isa is None else ["--isa", isa]
            run = self.engine("run", self.model, "--input", "x=" + self.path("x.npy"), "--output", out, "--trace",
                              trace, "--repeat", "2", *options)
            self.assertIn("y: float[2,4]", run.stdout)
            np.testing.assert_allclose(np.load(out)["y"], self.oracle()["y"], rtol=1e-4, atol=1e-6)
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            self.assertTrue(any(event["args"]["op"] == "Conv" for event in events), events)
            self.assertTrue(all(event["ph"] == "X" and event["dur"] >= 0 for event in events))

    def test_run_says_what_a_run_takes_and_what_planning_took(self):
        """The search measures for far longer than one run takes; without a repeat there is no median."""
        text = self.engine("run", self.model, "--random", "1", "--dim", "batch=64", "--repeat", "9").stderr
        said = re.search(r"^9 runs: first (\d+\.\d+) ms, median (\d+\.\d+) ms \(\w+, planning took another (\d+\.\d+) ms, ", text)
        self.assertTrue(said, text)
        first, median, planned = map(float, said.groups())
        self.assertTrue(0 < median < planned and first > 0, text)
        text = self.engine("run", self.model, "--random", "1").stderr
        self.assertRegex(text, r"^1 run: \d+\.\d+ ms \(\w+, planning took another \d+\.\d+ ms, \d+ commands in 1 segment\)$")

    def test_planning_between_two_parts_is_not_the_first_runs(self):
        """The shape of one part is known when another has run: planned in the middle of the first run, and counted as planning."""
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["n"]), helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
                 helper.make_node("Mul", ["f", "f"], ["y"])]
        model = self.save_model("parts.onnx", nodes)
        text = self.engine("run", model, "--random", "1", "--repeat", "3").stderr
        self.assertRegex(text, r"^3 runs: first \d+\.\d+ ms, median \d+\.\d+ ms .* in [2-9] segments\)$")

    def test_run_stays_within_its_memory(self):
        """Said, or three quarters of what the machine has: an error in time, not the kernel's end of it."""
        self.engine("run", self.model, "--random", "1", "--memory", "64")
        self.refused(1, "input 'x' with 343 MiB is over --memory 1 MiB", "run", self.model, "--random", "1", "--dim", "batch=1000000", "--memory", "1")
        self.refused(1, "bytes of activations", "run", self.model, "--random", "1", "--dim", "batch=20000", "--memory", "7")
        self.refused(1, "is over --memory", "run", self.model, "--random", "1", "--dim", "batch=10000000000")

    def test_run_takes_npz_and_random_inputs(self):
        np.savez(self.path("in.npz"), x=self.x, unrelated=np.zeros(3))
        self.engine("run", self.model, "--input", self.path("in.npz"), "--output", self.path("a.npz"))
        np.testing.assert_allclose(np.load(self.path("a.npz"))["y"], self.oracle()["y"], rtol=1e-4, atol=1e-6)
        for name, seed in (("b", "5"), ("c", "5"), ("d", "6")):
            # What the search chooses may differ in rounding from run to run.
            self.engine("run", self.model, "--random", seed, "--dim", "batch=3", "--no-search", "--output",
                        self.path(name + ".npy"))
        b, c, d = (np.load(self.path(name + ".npy")) for name in "bcd")
        self.assertEqual(b.shape, (3, 4))
        np.testing.assert_array_equal(b, c)
        self.assertFalse(np.array_equal(b, d))

    def test_a_dimension_that_the_model_does_not_have(self):
        for command in ("run", "bench", "check", "search", "dump --program"):
            self.refused(1, "inputs: --dim m=4: the model has no dimension 'm', it has 'batch'", *command.split(), self.model,
                         *(["--random", "1"] if command in ("run", "check") else []), "--dim", "m=4")
        for wrong in ("batch", "batch=", "batch=many", "batch=-1", "=4", "batch=1099511627777", ""):
            self.refused(2, f"--dim: '{wrong}' is not NAME=N with N from 0 to 1099511627776", "run", self.model, "--random", "1", "--dim", wrong)
        self.refused(2, "--dim: 'batch' is there twice", "run", self.model, "--random", "1", "--dim", "batch=1", "--dim", "batch=2")
        self.refused(2, "--dim: 'batch' is there twice", "run", self.model, "--random", "1", "--dim", "batch=1", "--dim", "batch=1")
        fixed = self.path("fixed.onnx")
        graph = helper.make_graph([helper.make_node("Mul", ["x", "z"], ["y"])], "net",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])] +
                                  [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), fixed)
        self.refused(1, "--dim n=4: the model has no dimension 'n': every dimension of its inputs is fixed", "run", fixed, "--random", "1", "--dim", "n=4")
        graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width=8"
        graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
        graph.input[1].type.tensor_type.shape.dim[1].ClearField("dim_value")
        graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), fixed)
        self.refused(1, "it has 'n', 'width=8', '?'", "run", fixed, "--random", "1", "--dim", "m=4")
        run = self.engine("run", fixed, "--random", "1", "--dim", "n=4", "--dim", "width=8=3", "--dim", "?=3")
        self.assertIn("y: float[4,3]", run.stdout)

    def test_run_errors(self):
        self.refused(1, "input 'x' has no value", "run", self.model)
        self.refused(1, "no input 'z'", "run", self.model, "--input", "z=" + self.path("x.npy"))
        self.refused(1, "missing.onnx", "run", self.path("missing.onnx"), "--random", "1")
        np.save(self.path("short.npy"), np.zeros((2, 3, 6), np.float32))
        self.refused(1, "input 'x' is float[", "run", self.model, "--input", "x=" + self.path("short.npy"))
        np.save(self.path("double.npy"), self.x.astype(np.float64))
        self.refused(1, "not double[2,3,6,5]", "run", self.model, "--input", "x=" + self.path("double.npy"))
        self.refused(1, "z80", "run", self.model, "--random", "1", "--isa", "z80")
        with open(self.path("broken.onnx"), "wb") as file:
            file.write(b"\x08\x07\xff\xff")
        self.engine("run", self.path("broken.onnx"), "--random", "1", code=1)
        odd = self.save_model("odd.onnx", [helper.make_node("Wiggle", ["x"], ["y"], name="odd_one")])
        self.refused(1, "'odd_one' (Wiggle", "run", odd, "--random", "1")
        text = self.engine("info", odd).stdout  # lists what cannot be run
        self.assertRegex(text, r"1  Wiggle +unsupported")
        self.assertIn("1 of the operators are not supported", text)

    # ---- bench, search

    def test_bench_prints_a_table(self):
        text = self.engine("bench", self.model, "--repeat", "5", "--warmup", "1", "--dim", "batch=2").stdout
        self.assertRegex(text, r"median \d+\.\d+ ms  p90 \d+\.\d+ ms")
        self.assertRegex(text, r"\d+\.\d% +\d+  Conv ")
        self.assertIn("1 segment", text)

    def test_the_table_is_of_the_runs_that_were_measured(self):
        """And says so: its sum is about what those runs took, whatever a single one did."""
        for repeat, few, many in ((1, 1, 1), (2, 1, 1), (9, 5, 5), (2100, 200, 500)):  # of 2100, every third is in it
            text = self.engine("bench", self.model, "--repeat", str(repeat), "--dim", "batch=64", "--no-search").stdout
            said = re.search(r"\nby operator, the mean of (\d+) of these runs, those nearest to the median:\n", text)
            self.assertTrue(said and few <= int(said[1]) <= many, text)
            rows = [float(us) for us in re.findall(r"^ +(\d+\.\d+) +\d+\.\d% +\d+  [A-Z]", text, re.M)]
            total = float(re.search(r"^ +(\d+\.\d+) +100\.0% +\d+  all$", text, re.M)[1])
            self.assertAlmostEqual(sum(rows), total, delta=0.1 * len(rows), msg=text)
            least, median, most = (1000 * float(re.search(name + r" (\d+\.\d+) ms", text)[1]) for name in ("min", "median", "max"))
            self.assertTrue(0 < total < most + 5, text)
            if repeat > 2:  # one run alone may have waited for the processor between two operators
                self.assertTrue(0.5 * least < total, text)
            if repeat > 1000:  # so many are not all disturbed by what else the machine does
                self.assertTrue(0.5 * median < total < 1.5 * median, text)
        trace = self.path("bench.json")
        self.assertNotIn("operator", self.engine("bench", self.model, "--top", "0", "--trace", trace).stdout)
        self.assertTrue(os.path.exists(trace))
        text = self.engine("bench", self.model, "--top", "1", "--repeat", "2", "--dim", "batch=64").stdout
        self.assertEqual(len(re.findall(r"\d% +\d+  [A-Z]", text)), 1, text)
        self.assertRegex(text, r"100\.0% +\d+  all\n")

    def test_a_model_of_less_than_a_microsecond(self):
        """Its times have as many digits as it takes, and more runs than others where nobody says how many."""
        graph = helper.make_graph([helper.make_node("Sin", ["x"], ["y"])], "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.path("tiny.onnx"))
        for _ in range(10):  # 0.1 s of a busy machine may be few runs
            text = self.engine("bench", self.path("tiny.onnx")).stdout
            runs = int(re.search(r", (\d+) runs\n", text)[1])
            if runs > 500:
                break
        self.assertTrue(100 < runs <= 1000, text)
        times = re.search(r"^min (\S+) ms  median (\S+) ms  p90 (\S+) ms  max (\S+) ms$", text, re.M).groups()
        self.assertTrue(all(re.fullmatch(r"\d+\.\d{4,6}", time) and float(time) > 0 for time in times), times)
        self.assertTrue(0 < float(re.search(r"^ +(\d+\.\d{3}) 100\.0% +1  Sin ", text, re.M)[1]), text)
        text = self.engine("bench", self.path("tiny.onnx"), "--repeat", "1").stdout
        self.assertIn(", 1 run\n", text)
        self.assertRegex(text, r"\n +(<1\.000      -|[1-9]\d*\.\d+ 100\.0%) +1  Sin .*\n +\1 +1  all\n$")
        text = self.engine("run", self.path("tiny.onnx"), "--random", "1", "--repeat", "100").stderr
        first, median = re.search(r"first (\S+) ms, median (\d+\.\d{4,6}) ms", text).groups()
        self.assertTrue(float(first) > 0 and float(median) > 0, text)

    def test_search_explains(self):
        text = self.engine("search", self.model, "--explain").stdout
        self.assertIn("measuring", text)
        self.assertRegex(text, r"machine \(one core\): .*GFLOP/s")
        self.assertRegex(text, r"graph, estimated us\n +backend +compute +copies +other +reference +total\n")
        rows = re.findall(r"^([* ]) (\w+) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$", text, re.M)
        self.assertEqual([mark for mark, _ in rows].count("*"), 1, rows)
        self.assertIn("ref", [name for _, name in rows])
        self.assertRegex(text, r"us chosen, [\d.]+ us fixed choice \([\d.-]+ saved\), [\d.]+ us worst measured")

    def test_counts_agree_with_the_tables(self):
        text = self.engine("info", "--counts").stdout
        total, *kinds = [int(n) for n in re.findall(r"\d+", text.splitlines()[0])]
        self.assertEqual(total, sum(kinds))
        self.assertGreaterEqual(total, 110)
        commands = int(re.search(r"^commands +(\d+) atomic and raster", text, re.M)[1])
        self.assertLessEqual(commands, 61)
        kernels = {name: int(count) for name, count in re.findall(r"^  (\w+) +(\d+)", text, re.M)}
        self.assertEqual(kernels["ref"], commands + 1)  # the reference has every command, and raster
        self.assertTrue(0 < kernels["generic"] <= kernels["ref"])
        self.refused(2, "needs a model, or --counts", "info")

    # ---- check

    def test_check_agrees_with_numpy_and_with_the_reference(self):
        np.savez(self.path("in.npz"), x=self.x)
        np.savez(self.path("good.npz"), y=self.oracle()["y"])
        run = self.engine("check", self.model, "--input", self.path("in.npz"), "--expected", self.path("good.npz"))
        self.assertIn("y: agrees", run.stdout)
        run = self.engine("check", self.model, "--random", "3", "--dim", "batch=4")
        self.assertIn("y: agrees", run.stdout)

    def test_check_names_the_first_wrong_node(self):
        np.savez(self.path("in.npz"), x=self.x)
        values = self.oracle()
        values["r"][1, 2, 3, 4] += 0.5  # the reference is wrong from here on
        values["y"] = values["y"] + 0.25
        np.savez(self.path("bad.npz"), **values)
        text = self.engine("check", self.model, "--input", self.path("in.npz"), "--expected", self.path("bad.npz"),
                           code=1).stdout
        self.assertIn("first wrong node: 'rectify' (Relu, opset 13), node 1 of 5", text)
        self.assertIn("input 0 c: float[2,4,6,5]", text)
        self.assertRegex(text, r"output r: 1 of 240 elements differ, .*largest error 0\.5")
        # Only the output is wrong: the node that makes it is named.
        np.savez(self.path("bad.npz"), y=self.oracle()["y"] + 0.25)
        text = self.engine("check", self.model, "--input", self.path("in.npz"), "--expected", self.path("bad.npz"),
                           code=1).stdout
        self.assertIn("first wrong node: 'probabilities' (Softmax", text)

    def check_against(self, code, **values):
        np.savez(self.path("in.npz"), x=self.x)
        np.savez(self.path("some.npz"), **values)
        return self.engine("check", self.model, "--input", self.path("in.npz"), "--expected", self.path("some.npz"), code=code)

    def test_check_refuses_a_reference_that_it_cannot_compare(self):
        run = self.check_against(1, probability=self.oracle()["y"], x=self.x, w=self.w)
        self.assertEqual(run.stdout, "")
        self.assertEqual(run.stderr, f"walle-engine: {self.path('some.npz')}: nothing to compare: it has 'probability', 'x', 'w', and the model computes "
                                     "'y', 'c', 'r', 'p', 'f'\n")
        run = self.check_against(1)
        self.assertIn("nothing to compare: it has no values, and the model computes 'y', 'c'", run.stderr)
        run = self.check_against(1, **{f"value_{i:030}": self.x for i in range(100)})
        self.assertRegex(run.stderr, r"it has 'value_0+', .* and others, and the model computes 'y', 'c'")

    def test_check_against_intermediate_values_alone(self):
        run = self.check_against(0, r=self.oracle()["r"], p=self.oracle()["p"], other=self.x)
        self.assertEqual(run.stdout, "the reference names no output: its values are compared node by node\n2 values agree\n"
                                     "not compared, no value that the model computes: 'other'\n")
        run = self.check_against(1, p=self.oracle()["p"] + 1)
        self.assertIn("first wrong node: 'pool' (GlobalAveragePool", run.stdout)

    def test_check_says_what_of_the_reference_was_not_compared(self):
        run = self.check_against(0, y=self.oracle()["y"], Y=self.oracle()["y"] + 1)
        self.assertRegex(run.stdout, r"^y: agrees .*\nnot compared, no value that the model computes: 'Y'\n$")

    def test_check_against_outputs_without_names(self):
        np.savez(self.path("in.npz"), x=self.x)
        for difference, code in ((0, 0), (1, 1)):
            np.savez(self.path("plain.npz"), self.oracle()["y"] + np.float32(difference))
            run = self.engine("check", self.model, "--input", self.path("in.npz"), "--expected", self.path("plain.npz"), code=code)
            self.assertEqual("first wrong node: 'probabilities'" in run.stdout, code == 1, run.stdout)
            self.assertNotIn("not compared", run.stdout)

    def test_check_reads_case_folders(self):
        case = self.path("test_mine")
        os.makedirs(os.path.join(case, "test_data_set_0"))
        shutil.copy(self.model, os.path.join(case, "model.onnx"))
        for name, array in (("input_0", self.x), ("output_0", self.oracle()["y"])):
            with open(os.path.join(case, "test_data_set_0", name + ".pb"), "wb") as file:
                file.write(numpy_helper.from_array(array).SerializeToString())
        self.assertIn("1 cases: 1 passed", self.engine("check", case).stdout)
        with open(os.path.join(case, "test_data_set_0", "output_0.pb"), "wb") as file:
            file.write(numpy_helper.from_array(self.oracle()["y"] + 1).SerializeToString())
        text = self.engine("check", "--onnx-cases", self.folder, code=1).stdout
        self.assertRegex(text, r"failed test_mine: output 'y' 8 of 8 elements differ")
        self.refused(1, "no cases", "check", "--onnx-cases", os.path.join(case, "test_data_set_0"))

    def test_an_output_of_no_known_ending(self):
        for name in ("y.csv", "y", "y.npy.gz"):
            said = self.engine("run", self.model, "--random", "1", "--dim", "batch=3", "--output", self.path(name), code=2).stderr
            self.assertIn(f"--output: {self.path(name)} ends in none of .npz, .npy and .pb", said)
            self.assertFalse(os.path.exists(self.path(name)))

    # ---- examples of the public interface

    def example(self, name, *arguments, code=0, binary=None):
        binary = binary or os.path.join(os.path.dirname(os.environ["WALLE_BIN"]), "examples", name)
        run = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def test_example_classify(self):
        image = self.path("image.f32")
        self.x[:1].tofile(image)
        rows = [line.split() for line in self.example("classify", self.model, image, "3").stdout.splitlines()]
        scores = self.oracle()["y"][0]
        best = np.argsort(-scores)[:3]
        self.assertEqual([int(row[0]) for row in rows], best.tolist())
        np.testing.assert_allclose([float(row[1]) for row in rows], scores[best], atol=2e-6)
        self.x[:1, :2].tofile(image)
        self.assertIn("needs 360", self.example("classify", self.model, image, code=1).stderr)
        self.example("classify", code=2)

    def test_an_example_built_as_the_page_says(self):
        with open(os.path.join(SOURCE, "docs/ENGINE.md"), encoding="utf-8") as file:
            (command,) = re.findall(r"```sh\n(cc -I.*?)```", file.read(), re.DOTALL)
        self.assertIn("build/release/", command)
        command = command.replace("build/release", shlex.quote(os.path.dirname(os.environ["WALLE_BIN"]))).replace("-o classify", "-o " + self.path("mine"))
        sanitize = os.environ.get("WALLE_SANITIZE")
        built = subprocess.run(command.strip() + (f" -fsanitize={sanitize}" if sanitize else ""), shell=True, cwd=SOURCE, capture_output=True,
                               text=True, timeout=300)
        self.assertEqual(built.returncode, 0, built.stderr)
        image = self.path("image.f32")
        self.x[:1].tofile(image)
        rows = self.example("classify", self.model, image, "1", binary=self.path("mine")).stdout.split()
        self.assertEqual(int(rows[0]), int(np.argmax(self.oracle()["y"][0])))

    def test_example_score_pairs(self):
        graph = helper.make_graph(
            [helper.make_node("Mul", ["user", "item"], ["p"]),
             helper.make_node("ReduceSum", ["p", "one"], ["score"], keepdims=0)], "pairs",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["pairs", 8]) for name in ("user", "item")],
            [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["pairs"])],
            [numpy_helper.from_array(np.array([1], np.int64), "one")])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.path("pairs.onnx"))
        users, items = self.random.standard_normal((2, 37, 8)).astype(np.float32)
        users.tofile(self.path("users.f32"))
        items.tofile(self.path("items.f32"))
        run = self.example("score_pairs", self.path("pairs.onnx"), self.path("users.f32"), self.path("items.f32"))
        rows = [line.split() for line in run.stdout.splitlines()]
        self.assertEqual([int(row[0]) for row in rows], list(range(37)))
        np.testing.assert_allclose([float(row[1]) for row in rows], (users * items).sum(axis=1), atol=1e-5)
        users[:5].tofile(self.path("users.f32"))
        run = self.example("score_pairs", self.path("pairs.onnx"), self.path("users.f32"), self.path("items.f32"),
                           code=1)
        self.assertIn("do not fit", run.stderr)


if __name__ == "__main__":
    unittest.main()
