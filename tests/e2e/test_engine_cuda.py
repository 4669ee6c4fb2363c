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

    def all_on_device(self, name):
        ran = self.engine("run", self.model(name), "--random", "1")
        self.assertRegex(ran.stderr, r"cuda: \d+ bytes, 0 commands left to the host")

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

    def test_cases_of_onnx(self):
        for seed, (folder, least) in enumerate(PASSED.items()):
            run = self.engine("check", "--onnx-cases", os.path.join(DATA, folder), seed=seed)
            totals = re.search(r"(\d+) passed .* (\d+) failed", run.stdout)
            self.assertIsNotNone(totals, run.stdout[-2000:])
            self.assertGreaterEqual(int(totals.group(1)), least)
            self.assertEqual(int(totals.group(2)), 0)


if __name__ == "__main__":
    unittest.main()
