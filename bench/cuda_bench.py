"""The seven models on a GPU beside PyTorch on the same one; says so where there is no GPU."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "models"))

PASSES = 3  # ours and the peer take turns
RUNS = 50  # of a pass, behind RUNS_BEFORE that are not counted: kernels are chosen and the runs recorded in those
RUNS_BEFORE = 10
WORST = 1e-3  # difference of the outputs, relative to the largest


def build_library(build):
    """The kernels for this machine's GPU; the reason where they cannot be built or run."""
    if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode != 0:
        return "no GPU is on this machine"
    if subprocess.run(["cmake", "-B", build, "-DWALLE_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=native"],
                      stdout=subprocess.DEVNULL).returncode != 0:
        return "there is no nvcc that builds for this GPU"
    if subprocess.run(["cmake", "--build", build, "--target", "walle-engine-cuda"], stdout=subprocess.DEVNULL).returncode != 0:
        return "there is no nvcc"
    return None


def has_torch(python):
    return subprocess.run([python, "-c", "import onnx, torch; assert torch.cuda.is_available()"],
                          capture_output=True).returncode == 0


class Bench:
    def __init__(self, options):
        import engine_bench  # needs numpy and onnx
        import make_models
        self.kit, self.models, self.options = engine_bench, make_models, options
        self.folder = os.path.join(HERE, "out", "models-cuda")
        os.makedirs(self.folder, exist_ok=True)
        self.peer = "pytorch" if has_torch(options.torch) else "cpu"
        if self.peer == "cpu":
            print(f"cuda: {options.torch} has no PyTorch that runs on a GPU: beside this machine's processor, one thread")

    def ours(self, device, *words):
        os.environ["WALLE_ENGINE_DEVICE"] = device
        return self.kit.Worker("walle", [os.path.join(self.options.build, "bin", "engine_worker"), *words], 1)

    def workers(self, path, inputs):
        ours = self.ours("cuda", path, inputs, "1")
        if self.peer == "cpu":
            return ours, self.ours("cpu", path, inputs, "1")
        return ours, self.kit.Worker("pytorch", [self.options.torch, os.path.join(HERE, "torch_worker.py"), path, inputs, "1",
                                                 "cuda"], 1)

    def measure(self, name, batch):
        path = os.path.join(self.folder, f"{name}-{batch}.onnx")
        if not os.path.exists(path):
            self.models.onnx.save(self.models.make(name, str(batch), "folded").model(), path)
        inputs = os.path.join(self.folder, f"{name}-{batch}-inputs")
        self.kit.write_arrays(inputs, self.models.inputs_of(path, batch, 1).items())
        workers, times = self.workers(path, inputs), ([], [])
        for worker in workers:
            worker.run(self.options.before)
        for _ in range(PASSES):
            for worker, taken in zip(workers, times):
                taken += worker.run(self.options.runs)
        outputs = [worker.outputs() for worker in workers]
        for worker in workers:
            worker.close()
        for found, wanted in zip(*outputs):
            difference = self.kit.largest_difference(found, wanted)
            if not difference <= WORST:
                sys.exit(f"cuda: {name}, batch {batch}: results differ from those of {self.peer} by {difference:.2g}")
        return [statistics.median(taken) for taken in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="an interpreter that has PyTorch for the GPU")
    parser.add_argument("--library", help="the kernels, built before: no GPU is looked for")
    parser.add_argument("--batches", default="1,32", help="numbers parted by commas")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each of the passes")
    parser.add_argument("--before", type=int, default=RUNS_BEFORE, help="runs that are not counted")
    options = parser.parse_args()
    reason = build_library(options.build) if options.library is None else None
    if reason is not None:
        print(f"cuda: nothing is measured: {reason}")
        return
    os.environ["WALLE_ENGINE_CUDA"] = os.path.abspath(
        options.library or os.path.join(options.build, "lib", "libwalle-engine-cuda.so"))
    bench = Bench(options)
    with open(os.path.join(HERE, "out", "cuda.jsonl"), "w", encoding="utf-8") as out:
        for name in (n for n in bench.models.MODELS if n.startswith(options.only)):
            for batch in map(int, options.batches.split(",")):
                ours, theirs = bench.measure(name, batch)
                print(f"cuda.{name}.b{batch:<3} {ours:9.3f} ms   {bench.peer} {theirs:9.3f} ms   ratio {theirs / ours:.2f}")
                json.dump({"bench": f"cuda.{name}.b{batch}", "ours": ours, "peer": bench.peer, "theirs": theirs, "unit": "ms",
                           "ratio": theirs / ours, "better": "lower"}, out)
                out.write("\n")


if __name__ == "__main__":
    main()
