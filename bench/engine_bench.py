#!/usr/bin/env python3
"""Benchmarks of the tensor engine beside ONNX Runtime, PyTorch, oneDNN and MNN. Writes JSON lines to bench/out/engine.jsonl.

    engine_bench.py --build DIR [--only PREFIX] [--models A,B] [--rounds N] [--quick]

Each model runs in one process per engine; rounds alternate between them, and a figure is the median over all runs.
engine.f32.MODEL.tN    one inference, float32, N threads; peer: the faster of ONNX Runtime and PyTorch
engine.avx2.MODEL.t1   the same with our AVX2 kernels only; peer: ONNX Runtime limited to AVX2 (isa_limit.py)
engine.low.MODEL.t1    precision = low; peer: ONNX Runtime float32
engine.mnn.MODEL.t1    the same beside MNN, where $WALLE_MNN says where its programs are (engine_mnn.py): means of bursts
engine.rss.MODEL       peak resident memory of the process; peer: ONNX Runtime
engine.load.MODEL      from the file to ready for the first run, warm search cache; peer: ONNX Runtime
engine.accuracy.MODEL  largest difference relative to the largest output, fresh inputs, batches 1, 2 and 7 (f32 and low)
engine.merge.MODEL     raster merging on; peer: the same engine with merging off
engine.train.MODEL.tN  one step of SGD, N threads (resnet18 and mobilenetv2 batch 8, din 64); peer: PyTorch
engine.train.MODEL.loss  largest relative difference between the losses of both over 20 steps
engine.layer.NAME.tN   one layer of ResNet-50 or BERT alone, float32, weights known before: a convolution with bias and ReLU
                       or a product with bias, as a model of one layer in a session of ours; peer: the oneDNN primitive,
                       in the fastest of its algorithms and memory formats (onednn_worker.c). Input and output lie as each
                       likes: channels last for ours. Outputs must agree. And engine.layer.mean.tN: the geometric mean
engine.size            stripped size of the engine's code in a program that uses all of it
`ratio` is ours / theirs; lower is better.
"""
import argparse
import functools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "models"))
sys.path.insert(0, HERE)
import engine_mnn  # noqa: E402
import graph_builder  # noqa: E402
import isa_limit  # noqa: E402
import make_models  # noqa: E402

MODELS = ["resnet18", "resnet50", "mobilenetv2", "squeezenet1_1", "shufflenetv2_x1_0", "bert_squad", "din"]
DTYPES = {"float32": 1, "int64": 7}
# Models that are trained: the batch, how near the losses must stay (an activation that falls on the other side of one
# of MobileNetV2's bounds changes its gradient by 3e-3), and what the workers are told besides.
TRAINED = {"resnet18": (8, 1e-4, []), "mobilenetv2": (8, 1e-3, []), "din": (64, 1e-4, ["classes=2", "probabilities"])}
TRAIN_STEPS = 20
# Convolutions: channels in and out, pixels a side, kernel, stride. Products: width in and out, rows.
CONVS = {"r50_stem": (3, 64, 224, 7, 2), "r50_3x3_56": (64, 64, 56, 3, 1), "r50_3x3_28": (128, 128, 28, 3, 1),
         "r50_3x3_14": (256, 256, 14, 3, 1), "r50_3x3_7": (512, 512, 7, 3, 1), "r50_1x1_56": (64, 256, 56, 1, 1),
         "r50_1x1_28": (512, 128, 28, 1, 1), "r50_1x1_14": (256, 1024, 14, 1, 1), "r50_1x1_7": (2048, 512, 7, 1, 1),
         "r50_1x1_14_half": (512, 1024, 28, 1, 2)}
PRODUCTS = {"bert_768_768": (768, 768, 256), "bert_768_3072": (768, 3072, 256), "bert_3072_768": (3072, 768, 256)}
LAYER_ERROR_MAX = 1e-4  # of the largest output
MNN_ERROR_MAX = 1e-3  # the same; MNN's are read as text
MNN_BURST_MAX = 5000  # runs; each burst of MNN is a process of its own, with two runs before it
ORT_FOLDER = os.path.join(HERE, "..", "build", "onnxruntime")


def write_arrays(folder, arrays):
    """As worker_read_inputs of worker_io.h reads them."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "inputs.txt"), "w", encoding="utf-8") as file:
        for key, array in arrays:
            file.write(f"{key} {DTYPES[str(array.dtype)]} {','.join(map(str, array.shape))}\n")
            array.tofile(os.path.join(folder, key + ".bin"))


def largest_difference(found, wanted):
    """Relative to the largest of wanted."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max()) if found.shape == wanted.shape else math.inf


class Worker:
    """One engine with one model in a process of its own (protocol: worker_io.h)."""

    def __init__(self, name, command, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        word, rest = self.read()
        if word != "ready":
            raise RuntimeError(f"{name}: {word} {rest}")
        self.load_ms = float(rest) / 1000

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended without an answer")
        word, _, rest = line.strip().partition(" ")
        return word, rest

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        word, rest = self.read()
        if word == "error":
            raise RuntimeError(f"{self.name}: {rest}")
        return rest

    def run(self, count):
        return [float(t) / 1000 for t in self.ask(f"run {count}").split()]

    def outputs(self):
        with tempfile.TemporaryDirectory() as folder:
            count = int(self.ask(f"out {folder}"))
            return [np.fromfile(f"{folder}/{i}.bin", np.float32) for i in range(count)]

    def memory_mib(self):
        return float(self.ask("memory").split()[0]) / 1024

    def close(self):
        try:
            self.process.communicate("quit\n", timeout=20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()


class Bench:
    def __init__(self, options):
        self.options = options
        self.work = os.path.join(options.build, "engine-bench")
        os.makedirs(self.work, exist_ok=True)
        self.cache = os.path.join(self.work, "search.cache")
        self.layer_ratios = {1: [], 2: []}
        self.out = open(os.path.join(HERE, "out", "engine.jsonl"), "a", encoding="utf-8")

    @functools.cached_property
    def ort(self):
        subprocess.run([os.path.join(HERE, "..", ".ci", "fetch-onnxruntime"), ORT_FOLDER], check=True)
        return os.path.join(ORT_FOLDER, "libonnxruntime.so.1")

    def limited_ort(self):
        """A copy of the library that our worker can keep from seeing more than AVX2."""
        copy = os.path.join(self.work, "libonnxruntime-marked.so.1")
        if not os.path.exists(copy) or os.path.getmtime(copy) < os.path.getmtime(self.ort):
            isa_limit.mark(self.ort, copy)
        return copy

    def model(self, name, batch="1", norm="folded"):
        folder = os.path.join(self.work, f"models-{batch}-{norm}")
        subprocess.run([sys.executable, os.path.join(HERE, "models", "make_models.py"), folder, name, "--batch", batch,
                        "--norm", norm], check=True, stdout=subprocess.DEVNULL)
        return os.path.join(folder, name + ".onnx")

    def inputs(self, name, path, batch, seed):
        folder = os.path.join(self.work, "inputs", f"{name}-{batch}-{seed}")
        write_arrays(folder, make_models.inputs_of(path, batch, seed).items())
        return folder

    def ours(self, path, folder, threads, *words):
        command = [os.path.join(self.options.build, "bin", "engine_worker"), path, folder, str(threads),
                   f"cache={self.cache}", *words]
        return Worker("walle", command, threads)

    def ort_worker(self, path, folder, threads, limited=False):
        command = [os.path.join(self.options.build, "bin", "ort_worker"), self.limited_ort() if limited else self.ort,
                   path, folder, str(threads)] + (["--isa", "avx2"] if limited else [])
        return Worker("onnxruntime avx2" if limited else "onnxruntime", command, threads)

    def torch_worker(self, path, folder, threads, *words):
        command = [sys.executable, os.path.join(HERE, "torch_worker.py"), path, folder, str(threads), *words]
        return Worker("pytorch", command, threads)

    def alternate(self, workers, of_burst=statistics.median, longest=200):
        """Medians (or of_burst) in ms per worker: every round asks each in turn for a burst of runs, no more than longest."""
        times = {w.name: [] for w in workers}
        bursts = {}
        for worker in workers:
            worker.run(3)
            once = max(statistics.median(worker.run(3)), 0.01)
            bursts[worker.name] = max(2, min(longest, int(self.options.burst_ms / once)))
        for _ in range(self.options.rounds):
            for worker in workers:
                times[worker.name].append(of_burst(worker.run(bursts[worker.name])))
        return times

    def report(self, bench, ours, peer, theirs, unit, better="lower", detail=None):
        ratio = ours / theirs if theirs else 0
        row = {"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": round(theirs, 4), "unit": unit,
               "ratio": round(ratio, 4), "better": better}
        if detail:
            row["detail"] = detail
        self.out.write(json.dumps(row) + "\n")
        self.out.flush()
        print(f"{bench:36} {ours:12.4g} {theirs:12.4g} {unit:8} {ratio:7.3f}  {peer}", flush=True)

    def wanted(self, name):
        return name.startswith(self.options.only) or self.options.only.startswith(name)

    def compare(self, bench, workers, more=None, **bursts):
        """Runs workers[0] against the others; the best peer is what counts."""
        try:
            times = self.alternate(workers, **bursts)
            medians = {name: statistics.median(t) for name, t in times.items()}
            mine = workers[0].name
            best = min((n for n in medians if n != mine), key=medians.get)
            detail = {name: {"median": round(medians[name], 4), "min": round(min(t), 4), "max": round(max(t), 4)}
                      for name, t in times.items()} | (more or {})
            self.report(bench, medians[mine], best, medians[best], "ms", detail=detail)
            return medians[mine] / medians[best]
        finally:
            for worker in workers:
                worker.close()

    def layer(self, name):
        """The ONNX model of one layer, its weights as files, its input, and what the peer's worker is told."""
        folder = os.path.join(self.work, "layers", name)
        weights, inputs = os.path.join(folder, "weights"), os.path.join(folder, "inputs")
        graph = graph_builder.GraphBuilder(name, 3)
        if name in CONVS:
            c, m, size, kernel, stride = CONVS[name]
            x = graph.input("x", [1, size, size, c])
            y = graph.op("Relu", graph.conv(graph.op("Transpose", x, perm=[0, 3, 1, 2]), c, m, kernel, stride))
            graph.output(graph.op("Transpose", y, perm=[0, 2, 3, 1]), None, "y")
            shape = (1, size, size, c)
        else:
            c, m, rows = PRODUCTS[name]
            stride, shape = 1, (rows, c)
            x = graph.input("x", list(shape))
            w = graph.normal((c, m), 1 / math.sqrt(c))
            graph.output(graph.op("Add", graph.op("MatMul", x, w), graph.normal((m,), 0.05)), None, "y")
        write_arrays(weights, zip("wb", (onnx.numpy_helper.to_array(tensor) for tensor in graph.initializers)))
        write_arrays(inputs, {"x": np.random.default_rng(4).standard_normal(shape, dtype=np.float32)}.items())
        path = os.path.join(folder, "layer.onnx")
        onnx.save(graph.model(), path)
        return path, inputs, [weights, inputs, str(stride)]

    def layers(self):
        names = [name for name in (*CONVS, *PRODUCTS)
                 if any(self.wanted(f"engine.layer.{name}.t{threads}") for threads in (1, 2))]
        program = os.path.join(self.options.build, "bin", "onednn_worker")
        if names and not os.path.exists(program):
            print("engine.layer: left out, oneDNN (libdnnl-dev) was not there when the bench was built")
            return
        for name in names:
            path, inputs, words = self.layer(name)
            for threads in (1, 2):
                if self.wanted(f"engine.layer.{name}.t{threads}"):
                    workers = [self.ours(path, inputs, threads), Worker("onednn", [program, *words], threads)]
                    self.compare_layer(f"engine.layer.{name}.t{threads}", workers, threads)
        for threads, ratios in self.layer_ratios.items():
            if len(ratios) == len(CONVS) + len(PRODUCTS):
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                self.report(f"engine.layer.mean.t{threads}", mean, "onednn", 1, "ratio")

    def compare_layer(self, bench, workers, threads):
        for worker in workers:
            worker.run(1)
        mine, theirs = (worker.outputs()[0] for worker in workers)
        error = largest_difference(mine, theirs)
        if error > LAYER_ERROR_MAX:
            raise RuntimeError(f"{bench}: the outputs differ by {error} of the largest")
        self.layer_ratios[threads].append(self.compare(bench, workers))

    def speed(self, name):
        if not any(self.wanted(f"engine.{kind}.{name}") for kind in ("f32", "low", "avx2")):
            return
        path = self.model(name)
        folder = self.inputs(name, path, 1, 1)
        for threads in (1, 2):
            if self.wanted(f"engine.f32.{name}.t{threads}"):
                workers = [self.ours(path, folder, threads), self.ort_worker(path, folder, threads)]
                if not self.options.no_torch:
                    workers.append(self.torch_worker(path, folder, threads))
                self.compare(f"engine.f32.{name}.t{threads}", workers)
        if self.wanted(f"engine.low.{name}.t1"):
            self.compare(f"engine.low.{name}.t1", [self.ours(path, folder, 1, "low"), self.ort_worker(path, folder, 1)])
        if self.wanted(f"engine.avx2.{name}.t1"):
            self.compare(f"engine.avx2.{name}.t1",
                         [self.ours(path, folder, 1, "isa=avx2"), self.ort_worker(path, folder, 1, limited=True)])

    def beside_mnn(self, name):
        bench = f"engine.mnn.{name}.t1"
        if not self.wanted(bench):
            return
        if not engine_mnn.folder():
            print(f"{bench}: left out, $WALLE_MNN does not name a folder with {' and '.join(engine_mnn.PROGRAMS)}")
            return
        path = self.model(name)
        try:
            theirs = engine_mnn.MnnWorker(path, make_models.inputs_of(path, 1, 1), os.path.join(self.work, "mnn", name), 1)
            theirs.run(1)
        except engine_mnn.Refused as error:
            print(f"{bench}: left out, {error}")
            return
        workers = [self.ours(path, self.inputs(name, path, 1, 1), 1), theirs]
        workers[0].run(1)
        error = max(largest_difference(a, b) for a, b in zip(*(worker.outputs() for worker in workers), strict=True))
        if error > MNN_ERROR_MAX:
            raise RuntimeError(f"{bench}: the outputs differ by {error} of the largest")
        self.compare(bench, workers, {"version": engine_mnn.version(), "error": error}, of_burst=statistics.mean,
                     longest=MNN_BURST_MAX)

    def memory_and_load(self, name):
        if not (self.wanted(f"engine.rss.{name}") or self.wanted(f"engine.load.{name}")):
            return
        path = self.model(name)
        folder = self.inputs(name, path, 1, 1)
        loads, peaks = {"walle": [], "onnxruntime": []}, {"walle": [], "onnxruntime": []}
        self.ours(path, folder, 1).close()  # the search cache is warm from here on
        for _ in range(self.options.loads):
            for make in (self.ours, self.ort_worker):
                worker = make(path, folder, 1)
                worker.run(2)
                loads[worker.name].append(worker.load_ms)
                peaks[worker.name].append(worker.memory_mib())
                worker.close()
        for bench, values, unit in (("rss", peaks, "MiB"), ("load", loads, "ms")):
            mine, theirs = (statistics.median(values[k]) for k in ("walle", "onnxruntime"))
            self.report(f"engine.{bench}.{name}", mine, "onnxruntime", theirs, unit)

    def accuracy(self, name):
        if not self.wanted(f"engine.accuracy.{name}"):
            return
        for norm in ("folded", "batch"):
            path = self.model(name, "N", norm)
            for batch in (1, 2, 7):
                folder = self.inputs(name, path, batch, 100 + batch)
                peer = self.ort_worker(path, folder, 2)
                peer.run(1)
                wanted = peer.outputs()
                peer.close()
                for kind, words, bound in (("f32", (), 1e-4), ("low", ("low",), 2e-2)):
                    worker = self.ours(path, folder, 2, *words)
                    worker.run(1)
                    found = worker.outputs()
                    worker.close()
                    error = max(largest_difference(a, b) for a, b in zip(found, wanted))
                    self.report(f"engine.accuracy.{name}.{norm}.b{batch}.{kind}", error, "bound", bound, "relative")
            if name in ("squeezenet1_1", "bert_squad", "din"):
                break  # no BatchNormalization to fold

    def merging(self, name):
        if name in ("shufflenetv2_x1_0", "bert_squad") and self.wanted(f"engine.merge.{name}"):
            path = self.model(name)
            folder = self.inputs(name, path, 1, 1)
            with_merge, without = self.ours(path, folder, 1), self.ours(path, folder, 1, "no_merge")
            without.name = "walle, merging off"
            self.compare(f"engine.merge.{name}", [with_merge, without])

    @staticmethod
    def loss_of_step(worker):
        worker.run(1)
        return float(worker.outputs()[0][0])

    def training(self, name, batch, bound, *words):
        bench = f"engine.train.{name}"
        if not self.wanted(bench):
            return
        path = self.model(name, "N")
        folder = self.inputs(name, path, batch, 5)

        def workers(threads):
            return [make(path, folder, threads, "train", *words) for make in (self.ours, self.torch_worker)]
        if self.wanted(bench + ".loss"):
            losses = []
            for worker in workers(1):
                try:
                    losses.append([self.loss_of_step(worker) for _ in range(TRAIN_STEPS)])
                finally:
                    worker.close()
            error = max(abs(a - b) / abs(b) for a, b in zip(*losses))
            self.report(bench + ".loss", error, "bound", bound, "relative",
                        detail={"first": losses[0][0], "last": losses[0][-1], "pytorch": losses[1][-1]})
        for threads in (1, 2):
            if self.wanted(f"{bench}.t{threads}"):
                self.compare(f"{bench}.t{threads}", workers(threads))

    def size(self):
        if not self.wanted("engine.size"):
            return
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "program")
            shutil.copy(os.path.join(self.options.build, "bin", "engine_worker"), stripped)
            subprocess.run(["strip", stripped], check=True)
            self.report("engine.size", os.path.getsize(stripped) / 1e6, "limit", 1.5, "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="engine.", help="only benches whose name starts so")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--burst-ms", type=float, default=400)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out (it is slow to start)")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.burst_ms, options.loads = 3, 100, 3
    bench = Bench(options)
    print(f"{'bench':36} {'ours':>12} {'theirs':>12} {'unit':8} {'ratio':>7}  peer")
    for name in options.models.split(","):
        bench.speed(name)
        bench.beside_mnn(name)
        bench.memory_and_load(name)
        bench.merging(name)
        bench.accuracy(name)
    for name, (batch, bound, words) in TRAINED.items():
        if name in options.models.split(","):
            bench.training(name, batch, bound, *words)
    bench.layers()
    bench.size()


if __name__ == "__main__":
    main()
