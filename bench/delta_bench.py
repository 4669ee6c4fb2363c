#!/usr/bin/env python3
"""Bytes on the wire for an update. Prints a table and appends JSON lines to bench/out/delta.jsonl.

    delta_bench.py --build DIR [--model-mib N] [--only ROW,ROW]

delta.script    one line of a script changed
delta.script.answer   the gateway's answer alone, of the same change
delta.model     1 % of a float32 model's values changed, at random places
delta.resume    the same model, and the connection is cut in the middle of the download
delta.large.N   the same of N MiB, 9 to 128
delta.few       100 places of 64 bytes of 12 MiB of noise changed
delta.floats.K  an ONNX model (400-256-256-64) in float32, Adam has gone on for K steps: every weight moved
delta.halves.K  the same weights in float16

The models of the last two are trained here, on noise behind a random teacher: nobody shapes how their weights move.

A real walle-device that runs version 1 updates to version 2 from a real gateway over TLS; a relay between them counts every
byte the device receives: handshake, headers, check-ins, manifest and content. Peers: the changed file as it is, as `zstd -19`
makes it, as the patch that `zstd --patch-from -19 --single-thread --long=27` makes, and that of bsdiff (up to 12 MiB: beyond, it takes
minutes and gigabytes). All are counted as payload alone, as if nothing else were sent, and resumed without loss; delta.few and
delta.script.answer, whose payload is smaller than a handshake, are of the gateway's answer alone.
"""
import argparse
import base64
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench_stack import BenchStack

HERE = os.path.dirname(os.path.abspath(__file__))
TASK, DEVICE, SEED = "bench/delta", "00000000000000d1", 7
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT_LINES = 400
DEADLINE_S = 600
BSDIFF_BYTES_MAX = 12 << 20
ROWS = ("script", "model", "resume", "large", "few", "floats", "halves")
LARGE_MIB = (9, 12, 32, 128)
TRAINED_STEPS, MORE_STEPS = 300, (1, 50, 500)
LAYERS, BATCH = (400, 256, 256, 64), 64


class Relay:
    """Passes connections on to the gateway and counts what comes back. Cuts once after `cut_after` bytes."""

    def __init__(self, port):
        self.target = port
        self.received = 0
        self.cut_after = None
        self.cuts = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                device, _ = self.listener.accept()
            except OSError:
                return
            gateway = socket.create_connection(("127.0.0.1", self.target))
            for source, sink, counted in ((device, gateway, False), (gateway, device, True)):
                threading.Thread(target=self._pump, args=(source, sink, counted), daemon=True).start()

    def _pump(self, source, sink, counted):
        try:
            while data := source.recv(4096):
                if counted and self._count(len(data)):
                    break
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _count(self, size):
        with self.lock:
            self.received += size
            if self.cut_after is None or self.received < self.cut_after:
                return False
            self.cut_after = None
            self.cuts += 1
            return True


class Bench(BenchStack):
    def __init__(self, build):
        super().__init__(build)
        self.versions = 0

    def begin(self):
        self.start_gateway()
        self.relay = Relay(self.ports["tls"])
        self.walle("key", "new", "--out", self.path("key"))
        with open(self.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)

    def release(self, case, script, model):
        """A new version of the case's task, for the case's device alone: another task could bring it the content."""
        self.versions += 1
        source, build = self.path(f"source{self.versions}"), self.path(f"build{self.versions}")
        os.mkdir(source)
        files = ["task.py"] + ([{"name": "weights.bin", "kind": "data"}] if model else [])
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": f"{TASK}-{case}", "version": f"1.0.{self.versions}", "entry": "task", "files": files}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(script)
        if model:
            with open(os.path.join(source, "weights.bin"), "wb") as file:
                file.write(model)
        self.walle("task", "build", source, "--out", build)
        self.walle("task", "push", build)
        with open(self.path("target.json"), "w", encoding="utf-8") as file:
            json.dump([{"attr": "case", "op": "==", "value": case}], file)
        run = self.walle("rollout", "start", f"{TASK}-{case}", "--build", build, "--key", self.path("key"), "--stages",
                         self.path("stages.json"), "--target", self.path("target.json"), "--trust-unproven", "--accept-empty")
        return build, re.match(r"[0-9a-f]{16}", run).group(0)

    def update(self, rollout, name):
        """A device's process until the rollout is complete; the bytes it received."""
        before = self.relay.received
        device = self.start("walle-device", "--gateway", f"https://127.0.0.1:{self.relay.port}", "--insecure", "--dir",
                            self.path(name), "--id", DEVICE, "--attr", f"case={name}", "--trust", self.path("key.pub"), "--checkin-interval", "86400",
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + DEADLINE_S
        while json.loads(self.walle("rollout", "status", rollout, "-o", "json"))["state"] != "completed":
            if time.monotonic() > deadline or device.poll() is not None:
                raise SystemExit("delta_bench: the device did not update")
            time.sleep(0.05)
        device.terminate()
        device.wait()
        return self.relay.received - before


def make_script(changed):
    lines = ["import walle"]
    lines += [f"def feature_{i}(x):\n    return x * {i + 1} + {i * 7 % 13}" for i in range(SCRIPT_LINES // 2)]
    lines += [f"print(feature_{3 if changed else 2}(1))"]
    return "\n".join(lines) + "\n"


def make_model(mib):
    return numpy.random.default_rng(SEED).normal(0.0, 0.05, mib * 1024 * 1024 // 4).astype("<f4")


def change_model(model):
    rng = numpy.random.default_rng(SEED + 1)
    changed = model.copy()
    places = rng.choice(len(model), len(model) // 100, replace=False)
    changed[places] = rng.normal(0.0, 0.05, len(places))
    return changed


def change_few(noise):
    rng = numpy.random.default_rng(SEED + 2)
    changed = bytearray(noise)
    for at in rng.integers(0, len(noise) - 64, 100):
        changed[at:at + 64] = rng.bytes(64)
    return bytes(changed)


class Training:
    """A perceptron that learns what a random teacher says of noise, by Adam."""

    def __init__(self):
        self.rng = numpy.random.default_rng(SEED)
        sizes = list(zip(LAYERS, LAYERS[1:]))
        self.weights = [self.rng.normal(0.0, (2.0 / m) ** 0.5, (m, n)).astype("f4") for m, n in sizes]
        self.weights += [numpy.zeros(n, "f4") for _, n in sizes]
        self.teacher = self.rng.normal(0.0, LAYERS[0] ** -0.5, (LAYERS[0], LAYERS[-1])).astype("f4")
        self.means = [numpy.zeros_like(w) for w in self.weights]
        self.squares = [numpy.zeros_like(w) for w in self.weights]
        self.steps = 0

    def gradients(self):
        count = len(LAYERS) - 1
        values = [self.rng.normal(0.0, 1.0, (BATCH, LAYERS[0])).astype("f4")]
        wanted = numpy.tanh(values[0] @ self.teacher)
        for i in range(count):
            value = values[-1] @ self.weights[i] + self.weights[count + i]
            values.append(numpy.maximum(value, 0.0) if i + 1 < count else value)
        slope = (values[-1] - wanted) / BATCH
        found = [None] * (2 * count)
        for i in reversed(range(count)):
            found[i], found[count + i] = values[i].T @ slope, slope.sum(0)
            slope = (slope @ self.weights[i].T) * (values[i] > 0.0)
        return found

    def step(self, rate=1e-3):
        self.steps += 1
        for i, gradient in enumerate(self.gradients()):
            self.means[i] += 0.1 * (gradient - self.means[i])
            self.squares[i] += 0.001 * (gradient ** 2 - self.squares[i])
            mean = self.means[i] / (1.0 - 0.9 ** self.steps)
            square = self.squares[i] / (1.0 - 0.999 ** self.steps)
            self.weights[i] -= rate * mean / (numpy.sqrt(square) + 1e-8)

    def onnx(self, kind):
        count = len(LAYERS) - 1
        names = [f"{name}{i}" for name in ("weight", "bias") for i in range(count)]
        nodes, at = [], "x"
        for i in range(count):
            nodes.append(helper.make_node("Gemm", [at, f"weight{i}", f"bias{i}"], [f"sum{i}"]))
            at = f"sum{i}"
            if i + 1 < count:
                nodes.append(helper.make_node("Relu", [at], [f"layer{i}"]))
                at = f"layer{i}"
        element = TensorProto.FLOAT if kind == "f4" else TensorProto.FLOAT16
        graph = helper.make_graph(nodes, "perceptron", [helper.make_tensor_value_info("x", element, ["n", LAYERS[0]])],
                                  [helper.make_tensor_value_info(at, element, ["n", LAYERS[-1]])],
                                  [numpy_helper.from_array(w.astype(kind), name) for w, name in zip(self.weights, names)])
        out = io.BytesIO()
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), out)
        return out.getvalue()


def trained_pairs():
    """(row, old, new) of each kind and number of further steps."""
    training = Training()
    for _ in range(TRAINED_STEPS):
        training.step()
    old = {kind: training.onnx(kind) for kind in ("f4", "f2")}
    for more in MORE_STEPS:
        while training.steps < TRAINED_STEPS + more:
            training.step()
        for name, kind in (("floats", "f4"), ("halves", "f2")):
            yield f"{name}.{more}", old[kind], training.onnx(kind)


def size_of(command, **options):
    return len(subprocess.run(command, capture_output=True, check=True, **options).stdout)


def patch_sizes(bench, old, new):
    """Bytes of each peer: {name: bytes}."""
    paths = {}
    for name, content in (("old", old), ("new", new)):
        paths[name] = bench.path(f"peer.{name}")
        with open(paths[name], "wb") as file:
            file.write(content)
    found = {"whole file": len(new), "zstd -19": size_of(["zstd", "-19", "-q", "-c", paths["new"]]),
             "zstd --patch-from -19": size_of(["zstd", "-19", "--long=27", "--single-thread", "-q", "-c",
                                               f"--patch-from={paths['old']}", paths["new"]])}
    if len(old) <= BSDIFF_BYTES_MAX:
        subprocess.run(["bsdiff", paths["old"], paths["new"], bench.path("peer.bsdiff")], check=True)
        found["bsdiff"] = os.path.getsize(bench.path("peer.bsdiff"))
    return found


def answer_bytes(bench, old, new):
    """Of the gateway's answer to a client that has the old file, headers left out."""
    dictionary = base64.b64encode(hashlib.sha256(old).digest()).decode()
    run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-o", os.devnull, "-w", "%{size_download}",
                          "-H", "accept-encoding: wdelta, dcz", "-H", f"available-dictionary: :{dictionary}:",
                          f"{bench.url}/v1/blob/{hashlib.sha256(new).hexdigest()}"], capture_output=True, text=True, check=True)
    return int(run.stdout)


def cases(args):
    """(row, old, new); None: no data file, the script changes. What takes long to make is made when it is wanted."""
    wanted = args.only

    def want(row):
        return not wanted or any(row == one or row.startswith(one + ".") for one in wanted)

    if want("script"):
        yield "script", None, None
    mibs = [(row, args.model_mib) for row in ("model", "resume")] + [(f"large.{mib}", mib) for mib in LARGE_MIB]
    for row, mib in mibs:
        if want(row):
            model = make_model(mib)
            yield row, model.tobytes(), change_model(model).tobytes()
    if want("few"):
        noise = numpy.random.default_rng(SEED).bytes(12 * 1024 * 1024)
        yield "few", noise, change_few(noise)
    if any(want(f"{name}.{more}") for name in ("floats", "halves") for more in MORE_STEPS):
        yield from (pair for pair in trained_pairs() if want(pair[0]))


def measure(bench, row, old, new, cut_after):
    """[(row, bytes the device received for the update, those of the peers)], and of a small payload what the answer alone has."""
    build_before, first = bench.release(row, make_script(False), old)
    bench.update(first, row)
    build, second = bench.release(row, make_script(old is None), new)
    if cut_after:
        bench.relay.cut_after = bench.relay.received + cut_after
    ours = bench.update(second, row)
    if cut_after and bench.relay.cuts != 1:
        raise SystemExit("delta_bench: the connection was not cut")
    if old is None:
        old, new = script_of(build_before), script_of(build)
    peers = patch_sizes(bench, old, new)
    if row == "few":
        return [(row, answer_bytes(bench, old, new), peers)]
    if row == "script":
        return [(row, ours, peers), (row + ".answer", answer_bytes(bench, old, new), peers)]
    return [(row, ours, peers)]


def script_of(build):
    """The blob that differs between the versions: the largest in the build folder of a script."""
    blobs = os.path.join(build, "blobs")
    with open(max((os.path.join(blobs, name) for name in os.listdir(blobs)), key=os.path.getsize), "rb") as file:
        return file.read()


def tell(name, ours, peers):
    texts = (f"{peer} {theirs} ({ours / theirs:.3f})" for peer, theirs in peers.items())
    print(f"{name:<18}{ours:>12}   {', '.join(texts)}", flush=True)
    with open(os.path.join(HERE, "out", "delta.jsonl"), "a", encoding="utf-8") as out:
        for peer, theirs in peers.items():
            out.write(json.dumps({"bench": name, "ours": ours, "peer": peer, "theirs": theirs, "unit": "bytes",
                                  "ratio": round(ours / theirs, 4), "better": "lower"}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--model-mib", type=int, default=8)
    parser.add_argument("--only", help="rows without their first word, as in script,large.9,floats")
    args = parser.parse_args()
    args.only = [row.removeprefix("delta.") for row in args.only.split(",")] if args.only else None
    unknown = [row for row in args.only or () if row.split(".")[0] not in ROWS]
    if unknown:
        parser.error(f"--only {unknown[0]}: the rows are {', '.join(ROWS)}")
    bench = Bench(args.build)
    received = {}
    print(f"{'bench':<18}{'ours':>12}   bytes; peers and the ratio to each")
    try:
        bench.begin()
        for row, old, new in cases(args):
            cut_after = received.get("model", 100000) // 2 if row == "resume" else 0
            for name, received[row], peers in measure(bench, row, old, new, cut_after):
                tell(f"delta.{name}", received[row], peers)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
