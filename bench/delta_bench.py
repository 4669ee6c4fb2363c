#!/usr/bin/env python3
"""Bytes on the wire for an update. Prints a table and appends JSON lines to bench/out/delta.jsonl.

    delta_bench.py --build DIR [--model-mib N]

delta.script   one line of a script changed
delta.model    1 % of a float32 model's values changed, at random places
delta.resume   the same model, and the connection is cut in the middle of the download

A real walle-device that runs version 1 updates to version 2 from a real gateway over TLS; a relay between them counts every
byte the device receives: handshake, headers, check-ins, manifest and content. Peers: the changed file as it is, and as
`zstd -19` makes it, both counted as payload alone, as if nothing else were sent, and resumed without loss.
"""
import argparse
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

from bench_stack import BenchStack

HERE = os.path.dirname(os.path.abspath(__file__))
TASK, DEVICE, SEED = "bench/delta", "00000000000000d1", 7
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT_LINES = 400
DEADLINE_S = 120


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
                         self.path("stages.json"), "--target", self.path("target.json"), "--trust-unproven")
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
    rng = random.Random(SEED)
    return b"".join(struct.pack("<f", rng.gauss(0.0, 0.05)) for _ in range(mib * 1024 * 1024 // 4))


def change_model(model):
    rng = random.Random(SEED + 1)
    changed = bytearray(model)
    count = len(model) // 4
    for i in rng.sample(range(count), count // 100):
        struct.pack_into("<f", changed, 4 * i, rng.gauss(0.0, 0.05))
    return bytes(changed)


def zstd_19(path):
    return len(subprocess.run(["zstd", "-19", "-q", "-c", path], capture_output=True, check=True).stdout)


def changed_file(build):
    """The blob that differs between the versions: the largest in the build folder, in every case here."""
    blobs = os.path.join(build, "blobs")
    return max((os.path.join(blobs, name) for name in os.listdir(blobs)), key=os.path.getsize)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--model-mib", type=int, default=8)
    args = parser.parse_args()
    bench = Bench(args.build)
    rows = []
    try:
        bench.begin()
        model = make_model(args.model_mib)
        next_model = change_model(model)
        for name, cut in (("script", False), ("model", False), ("resume", True)):
            data = name != "script"
            print(f"delta.{name} ...", end=" ", file=sys.stderr, flush=True)
            _, first = bench.release(name, make_script(False), model if data else None)
            bench.update(first, name)
            build, second = bench.release(name, make_script(name == "script"), next_model if data else None)
            if cut:
                bench.relay.cut_after = bench.relay.received + rows[-1][1] // 2
            ours = bench.update(second, name)
            if cut and bench.relay.cuts != 1:
                raise SystemExit("delta_bench: the connection was not cut")
            path = changed_file(build)
            rows.append((f"delta.{name}", ours, os.path.getsize(path), zstd_19(path)))
            print("done", file=sys.stderr)
    finally:
        bench.close()
    print(f"{'bench':<16}{'ours':>12}{'whole file':>14}{'ratio':>8}{'zstd -19':>14}{'ratio':>8}   bytes received")
    with open(os.path.join(HERE, "out", "delta.jsonl"), "a", encoding="utf-8") as out:
        for name, ours, whole, packed in rows:
            print(f"{name:<16}{ours:>12}{whole:>14}{ours / whole:>8.3f}{packed:>14}{ours / packed:>8.3f}")
            for peer, theirs in (("whole file", whole), ("zstd -19", packed)):
                out.write(json.dumps({"bench": name, "ours": ours, "peer": peer, "theirs": theirs, "unit": "bytes",
                                      "ratio": round(ours / theirs, 4), "better": "lower"}) + "\n")


if __name__ == "__main__":
    main()
