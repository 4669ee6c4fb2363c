"""The device "cuda" on the processor: the ONNX project's own cases and the seven models of the benchmarks (small) beside the
reference, with the threads of blocks in several orders. On a machine with a GPU, WALLE_ENGINE_CUDA names its library, and
the same is run on it."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
from onnx import save

from walle_stack import SOURCE, program

sys.path.insert(0, os.path.join(SOURCE, "bench", "models"))
import text_models  # noqa: E402
import vision_models  # noqa: E402

DATA = os.environ.get("WALLE_ONNX_CASES", "/usr/share/libonnx-testdata/data")
PASSED = {"node": 931, "simple": 21, "pytorch-operator": 35}
IMAGE = 64  # pixels of a side, of models that take images of any size
FAST = ["din", "squeezenet1_1", "mobilenetv2"]  # with every seed
SEEDS = [1, 2, 3]


def image_model(name):
    model = getattr(vision_models, name)(1, "folded").model()
    if name != "shufflenetv2_x1_0":  # that one names its sizes in Reshape
        for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
            dim.dim_value = IMAGE
    return model


def make(name):
    if name == "bert_squad":
        return text_models.bert_squad(1, "folded", layers=2, length=32, words=1000).model()
    if name == "din":
        return text_models.din(2, "folded", length=20).model()
    return image_model(name)


class EngineCuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="walle-cuda-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        built = glob.glob(os.path.join(os.path.dirname(program("walle-engine")), "..", "lib", "libwalle-engine-cuda-on-cpu.so"))
        cls.library = os.environ.get("WALLE_ENGINE_CUDA") or (built[0] if built else None)
        if cls.library is None:
            raise unittest.SkipTest("the build has no CUDA kernels for the processor")

    def engine(self, *arguments, seed=0):
        environment = dict(os.environ, WALLE_ENGINE_CUDA=self.library, WALLE_CUDA_SEED=str(seed))
        run = subprocess.run([program("walle-engine"), *arguments, "--device", "cuda"], capture_output=True, text=True,
                             timeout=300, stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr[-2000:])
        return run

    def model(self, name):
        path = os.path.join(self.folder, name + ".onnx")
        if not os.path.exists(path):
            save(make(name), path)
        return path

    def agrees(self, name, seed):
        checked = self.engine("check", self.model(name), "--random", "1", seed=seed)
        outputs = re.findall(r"^(\w+): agrees", checked.stdout, re.M)
        self.assertEqual(len(outputs), 2 if name == "bert_squad" else 1, checked.stdout)
        return checked.stdout

    def outputs(self, name, *arguments):
        path = os.path.join(self.folder, "outputs.npz")
        ran = self.engine("run", self.model(name), "--random", "1", "--output", path, *arguments)
        with numpy.load(path) as file:
            return {key: file[key] for key in file.files}, ran.stderr

    def all_on_device(self, name):
        """Nothing is left to the host, so that a second run replays the first one, with its results."""
        once, said = self.outputs(name)
        self.assertRegex(said, r"cuda: \d+ bytes, 0 commands left to the host, 0 of the runs replayed")
        again, said = self.outputs(name, "--repeat", "2")
        self.assertRegex(said, r"1 of the runs replayed")
        for key, values in once.items():
            numpy.testing.assert_array_equal(again[key], values)

    def test_models_in_several_orders(self):
        for name in FAST:
            outputs = {self.agrees(name, seed) for seed in SEEDS}
            self.assertEqual(len(outputs), 1, f"{name}: results hang on the order of threads: {outputs}")
            self.all_on_device(name)

    def test_shufflenet(self):
        self.agrees("shufflenetv2_x1_0", 4)
        self.all_on_device("shufflenetv2_x1_0")

    def test_bert(self):
        self.agrees("bert_squad", 5)
        self.all_on_device("bert_squad")

    def test_resnets(self):
        for name in ("resnet18", "resnet50"):
            self.agrees(name, 6)
            self.all_on_device(name)

    def test_low_precision(self):
        for name in ("squeezenet1_1", "bert_squad"):
            high, _ = self.outputs(name)
            low, _ = self.outputs(name, "--precision", "low")
            for key, values in high.items():
                error = numpy.abs(low[key] - values).max() / numpy.abs(values).max()
                self.assertGreater(error, 0, f"{name}: {key}: nothing was rounded")
                self.assertLess(error, 0.02, f"{name}: {key}")

    def test_an_installed_engine_finds_its_kernels(self):
        """Beside its programs, wherever they are moved to; no setting names them."""
        build = os.path.dirname(os.path.dirname(program("walle-engine")))
        prefix = os.path.join(self.folder, "prefix")
        run = subprocess.run(["cmake", "--install", build, "--component", "engine", "--prefix", prefix], capture_output=True,
                             text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
            folder = re.search(r"^CMAKE_INSTALL_LIBDIR:PATH=(.*)$", cache.read(), re.M).group(1)
        os.makedirs(os.path.join(prefix, folder), exist_ok=True)
        shutil.copy(self.library, os.path.join(prefix, folder, "libwalle-engine-cuda.so"))
        moved = os.path.join(self.folder, "moved")
        os.rename(prefix, moved)
        environment = {name: value for name, value in os.environ.items() if name != "WALLE_ENGINE_CUDA"}
        run = subprocess.run([os.path.join(moved, "bin", "walle-engine"), "run", self.model("din"), "--random", "1", "--device",
                              "cuda"], capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("0 commands left to the host", run.stderr)

    def test_cases_of_onnx(self):
        for seed, (folder, least) in enumerate(PASSED.items()):
            run = self.engine("check", "--onnx-cases", os.path.join(DATA, folder), seed=seed)
            totals = re.search(r"(\d+) passed .* (\d+) failed", run.stdout)
            self.assertIsNotNone(totals, run.stdout[-2000:])
            self.assertGreaterEqual(int(totals.group(1)), least)
            self.assertEqual(int(totals.group(2)), 0)


if __name__ == "__main__":
    unittest.main()
