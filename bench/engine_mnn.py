"""MNN, for engine_bench.py: a model converted by MNN's own MNNConvert and timed by its own ModuleBasic.out.

$WALLE_MNN names the folder of a build of MNN with both programs. ModuleBasic.out loads the model, runs it twice and writes
the outputs of the first run, then times as many runs as it is told and says their mean; so each call is a process of its own.
"""
import json
import os
import re
import subprocess

import numpy as np
import onnx

PRECISION_HIGH = 1
PROGRAMS = ("MNNConvert", "ModuleBasic.out")


class Refused(RuntimeError):
    """MNN does not convert the model, or does not run it."""


def folder():
    """Where MNN's programs are, or None."""
    named = os.environ.get("WALLE_MNN", "")
    return named if named and all(os.path.exists(os.path.join(named, program)) for program in PROGRAMS) else None


def call(program, *words, where=None):
    """What one of MNN's programs says. It tells of errors there alone: its status is 0 either way."""
    done = subprocess.run([os.path.join(folder(), program), *map(str, words)], cwd=where, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout[-300:]}")
    return done.stdout


def version():
    return call("MNNConvert", "--version").split()[-1]


def with_axes(model):
    """The model with the axis that a OneHot leaves to the specification, -1, written: the converter takes none for 0."""
    for node in model.graph.node:
        if node.op_type == "OneHot" and not any(attribute.name == "axis" for attribute in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("axis", -1))
    return model


class MnnWorker:
    """A model and inputs; run, outputs and close as those of a Worker, but for run, which gives the mean of its runs."""

    def __init__(self, path, inputs, work, threads):
        self.name = "mnn"
        self.work = os.path.abspath(work)
        self.threads = threads
        self.model = os.path.join(self.work, "model.mnn")
        os.makedirs(os.path.join(self.work, "output"), exist_ok=True)
        model = with_axes(onnx.load(path))
        self.names = [output.name for output in model.graph.output]
        self.write_inputs(inputs)
        source = os.path.join(self.work, "model.onnx")
        onnx.save(model, source)
        said = call("MNNConvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", self.model, "--bizCode", "bench")
        if "Converted Success" not in said:
            raise Refused("MNNConvert: " + " ".join(said[-300:].split()))

    def write_inputs(self, inputs):
        """As ModuleBasic.out reads them: a list, and each array as text."""
        listed = {"inputs": [{"name": name, "shape": array.shape} for name, array in inputs.items()], "outputs": self.names}
        with open(os.path.join(self.work, "input.json"), "w", encoding="utf-8") as file:
            json.dump(listed, file)
        for name, array in inputs.items():
            np.savetxt(os.path.join(self.work, name + ".txt"), array.ravel(), "%.9g")

    def run(self, count):
        said = call("ModuleBasic.out", self.model, self.work, 0, 0, count, self.threads, PRECISION_HIGH, where=self.work)
        mean = re.search(r"^Avg= ([\d.]+) ms", said, re.M)
        if not mean:
            raise Refused("ModuleBasic.out: " + " ".join(said[-300:].split()))
        return [float(mean.group(1))]

    def outputs(self):
        """Those of the last call of run, as text of six digits."""
        return [np.loadtxt(os.path.join(self.work, "output", f"0_{i}.txt"), np.float32, ndmin=1)
                for i in range(len(self.names))]

    def close(self):
        pass
