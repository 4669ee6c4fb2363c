#!/usr/bin/env python3
"""Benchmarks of the inference service beside ONNX Runtime behind Node's HTTP server. Writes JSON lines to bench/out/inference.jsonl.

    inference_bench.py --build DIR [--only PREFIX] [--models A,B] [--rounds N] [--overload-s N] [--long] [--quick]

All of it takes about fifteen minutes; --long takes an hour, and its figures vary less. `calls` is how many the least of a row's
loads counted: a p99 of fewer than 100 is the slowest call. What is missing (npm, its registry, h2load, root) is said, and
its rows are left out.

Both servers get the same calls (Open Inference Protocol, binary tensors, batch 1, HTTP/1.1 kept alive) from walle-infer-load,
which has the last core to itself; the server has the others. The peer is npm's onnxruntime-node in Node's plain http module
(bench/inference/peer_server.js), a process for each core with one thread, or one process with a thread for each core: the
faster. Ours calls models alone ("") or puts up to 8 calls together that wait, as far as that pays (".batched"). Rounds
alternate between the servers; a figure is the median, the spread (max - min) / median. Outputs are compared before.

inference.MODEL[.batched].saturation  answers a second, closed loop, 16 callers
inference.MODEL.h2.saturation         the same by h2load, in HTTP/2: one connection, 16 streams; beside: the peer in HTTP/1.1
inference.MODEL[.batched].throughput  answers a second, calls at random times: the peer at 0.8 of its saturation, ours at the
                                      highest of several shares of its own, found by halving, at which p99 is no worse than
                                      the peer's then
inference.MODEL[.batched].p99_at_half p99 of calls at random times, at half of the peer's saturation on both sides
inference.overhead                    DIN: median of a call, one caller, less the median of a run of the bare engine; bar: 60 us
inference.overload.goodput            ResNet-50 at ten times its capacity, a queue of 16: answers a second; beside: its capacity
inference.overload.priority0          p99 then of calls of priority 0, a tenth of the capacity; beside: at 0.6 of the capacity
inference.overload.memory             most resident memory by then; beside: after the run at capacity
inference.overload.recovery           p99 at half of the capacity from one second after the overload; beside: before it
inference.cloud_call, .cloud_offline  calls of devices: inference_cloud.py
Latency is from the time the call was meant to begin. `ratio` is ours / theirs.
"""
import argparse
import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "models"))
sys.path.insert(0, HERE)
import inference_cloud  # noqa: E402
import make_models  # noqa: E402
from engine_bench import Worker, largest_difference, write_arrays  # noqa: E402

MODELS = ["resnet50", "bert_squad", "din", "mobilenetv2"]
PEER = "onnxruntime-node@1.30.0"
PEER_FOLDER = os.path.join(HERE, "..", "build", "onnxruntime-node")
DATATYPES = {"float32": "FP32", "int64": "INT64"}
BATCHED = "max_batch = 8\nwarm_rows = 1, 2, 4, 8\n"
CALLERS, CONNECTIONS = 16, 512
PEER_SHARE = 0.8
OUR_SHARES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.87, 0.94)
CALLS_OPEN = 30  # at random times, of a model however slow it is
SECONDS_CLOSED_MAX = 64
FAST = 500  # calls a second: from there on two rounds are made, below one
ERROR_MAX = 1e-4  # of the largest output
OVERLOADED, OVERLOAD_CONF, OVERLOAD_TIMES = "resnet50", "queue = 16\n", 10


def spread(values):
    return round((max(values) - min(values)) / statistics.median(values), 3) if statistics.median(values) else None


def body_of(arrays, priority=None):
    """(length of the JSON, body): the JSON is filled up so that the tensors lie aligned."""
    inputs = [{"name": name, "datatype": DATATYPES[str(a.dtype)], "shape": list(a.shape),
               "parameters": {"binary_data_size": a.nbytes}} for name, a in arrays.items()]
    parameters = {"binary_data_output": True} | ({} if priority is None else {"priority": priority})
    head = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    head += b" " * (-len(head) % 8)
    return len(head), head + b"".join(a.tobytes() for a in arrays.values())


def outputs_of(head_bytes, body):
    tensors, at = [], head_bytes
    for output in json.loads(body[:head_bytes])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        tensors.append((output["name"], np.frombuffer(body[at:at + size], "<f4")))
        at += size
    return dict(tensors)


class Server:
    def __init__(self, name, child, port, token=None):
        self.name, self.child, self.port = name, child, port
        self.headers = [f"authorization: Bearer {token}"] if token else []

    def peak_mib(self):
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="walle-inference-")
        self.work = options.work or os.path.join(options.build, "inference-bench")
        self.children = []
        cpus = sorted(os.sched_getaffinity(0))
        self.load_core, self.cores = str(cpus[-1]), ",".join(map(str, cpus[:-1] or cpus))
        self.core_count = max(len(cpus) - 1, 1)
        self.out = open(options.out, "a", encoding="utf-8")

    def close(self):
        for child in self.children:
            self.stop(child)
        self.out.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def stop(child):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()

    def program(self, name):
        return os.path.join(self.options.build, "bin", name)

    # ---- Servers

    def start(self, command, **more):
        child = subprocess.Popen(["taskset", "-c", self.cores, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True, start_new_session=True, **more)
        self.children.append(child)
        return child

    def model(self, name):
        folder = os.path.join(self.work, "models")
        subprocess.run([sys.executable, os.path.join(HERE, "models", "make_models.py"), folder, name, "--batch", "N"], check=True,
                       stdout=subprocess.DEVNULL)
        return os.path.join(folder, name + ".onnx")

    def ours(self, name, conf=""):
        root = tempfile.mkdtemp(dir=self.folder)
        version = os.path.join(root, "models", name, "1")
        os.makedirs(version)
        shutil.copy(self.model(name), os.path.join(version, "model.onnx"))
        with open(os.path.join(root, "models", name, "model.conf"), "w", encoding="ascii") as file:
            file.write(conf)
        child = self.start([self.program("walle-infer"), "--models", os.path.join(root, "models"), "--dir",
                            os.path.join(root, "data"), "--listen", "127.0.0.1:0", "--threads", str(self.core_count), "--workers",
                            "1", "--log", "error"])
        for line in child.stdout:
            words = line.split()
            if words[:1] == ["listening"]:
                with open(os.path.join(root, "data", "admin.token"), encoding="ascii") as file:
                    return Server("walle", child, int(words[2].rpartition(":")[2]), file.readline().strip())
        raise SystemExit("bench: walle-infer did not start")

    @staticmethod
    def fetch_peer():
        """None, or why there is no peer."""
        missing = [program for program in ("npm", "node") if shutil.which(program) is None]
        if missing:
            return f"{missing[0]} is not installed"
        if not os.path.isdir(os.path.join(PEER_FOLDER, "node_modules", "onnxruntime-node")):
            got = subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--silent", "--prefix",
                                  PEER_FOLDER, PEER], check=False)
            if got.returncode != 0:
                return f"npm's registry does not give {PEER} to this machine"
        return None

    def peer(self, name, processes, threads):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        child = self.start(["node", os.path.join(HERE, "inference", "peer_server.js"), self.model(name), str(port), str(processes),
                            str(threads)], env=dict(os.environ, NODE_PATH=os.path.join(PEER_FOLDER, "node_modules")))
        if child.stdout.readline().strip() != "ready":
            raise SystemExit("bench: the peer did not start")
        return Server(f"node, {PEER}, {processes} process(es) of {threads} thread(s)", child, port)

    def best_peer(self, name, call):
        """The faster of its settings."""
        settings = {(self.core_count, 1), (1, self.core_count)}
        peers = [self.peer(name, *setting) for setting in settings]
        if len(peers) == 1:
            return peers[0]
        rates = [self.load(peer, name, call, 2)["rate"] for peer in peers]
        best = peers[rates.index(max(rates))]
        for peer in peers:
            if peer is not best:
                self.stop(peer.child)
        return best

    # ---- Calls

    def write_call(self, name, rows=1, priority=None):
        """A file with the body, and how much of it is JSON."""
        head, body = body_of(make_models.inputs_of(self.model(name), rows, 1), priority)
        path = os.path.join(self.folder, f"{name}-{rows}-{priority}")
        with open(path, "wb") as file:
            file.write(body)
        return path, head

    def command(self, server, name, call, seconds, rate=0, warm=1, seed=1):
        path, head = call
        lines = [*server.headers, f"inference-header-content-length: {head}"]
        return ["taskset", "-c", self.load_core, self.program("walle-infer-load"), "-b", path,
                *(word for line in lines for word in ("-H", line)), "-t", str(math.ceil(seconds)), "-w", str(warm), "-s", str(seed),
                *(("-r", str(max(int(rate), 1)), "-c", str(CONNECTIONS)) if rate else ("-c", str(CALLERS))),
                f"http://127.0.0.1:{server.port}/v2/models/{name}/infer"]

    def load(self, server, name, call, seconds, **more):
        out = subprocess.run(self.command(server, name, call, seconds, **more), check=True, stdout=subprocess.PIPE, text=True).stdout
        result = json.loads(out)
        if result["other"] or result["lost"]:
            raise SystemExit(f"bench: {server.name}, {name}: {out}")
        return result

    def load_h2(self, server, name, call, seconds):
        """Answers a second in HTTP/2, by a client that is not ours."""
        path, head = call
        lines = [*server.headers, f"inference-header-content-length: {head}", "content-type: application/octet-stream"]
        out = subprocess.run(["taskset", "-c", self.load_core, "h2load", "-c", "1", "-m", str(CALLERS), "-D", str(seconds), "--warm-up-time", "1",
                              "-d", path, *(word for line in lines for word in ("-H", line)),
                              f"http://127.0.0.1:{server.port}/v2/models/{name}/infer"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", out)
        if codes is None or any(int(code) for code in codes.groups()[1:]):
            raise SystemExit(f"bench: {server.name}, {name}: h2load: {out}")
        return int(codes.group(1)) / seconds

    def one_answer(self, server, name, call):
        path, head = call
        with open(path, "rb") as file:
            body = file.read()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = dict(line.split(": ") for line in server.headers) | {"inference-header-content-length": str(head)}
        connection.request("POST", f"/v2/models/{name}/infer", body, headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"bench: {server.name}, {name}: {answer.status} {body[:200]}")
        return outputs_of(int(answer.headers["inference-header-content-length"]), body)

    def compare_answers(self, servers, name, call):
        wanted = self.one_answer(servers[-1], name, call)
        for server in servers[:-1]:
            found = self.one_answer(server, name, call)
            error = max(largest_difference(found[key], wanted[key]) for key in wanted)
            if error > ERROR_MAX:
                raise SystemExit(f"bench: {name}: the outputs differ by {error} of the largest")

    # ---- Rows

    def report(self, bench, ours, peer, theirs, unit, better, **detail):
        ratio = ours / theirs if theirs else 0
        row = {"bench": bench, "ours": round(ours, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
               "ratio": round(ratio, 4), "better": better, "detail": detail}
        self.out.write(json.dumps(row) + "\n")
        self.out.flush()
        print(f"{bench:42} {ours:11.4g} {theirs:11.4g} {unit:10} {ratio:7.3f} {detail.get('calls', ''):>7}  {peer}", flush=True)

    def report_all(self, bench, ours, peer, theirs, unit, better, **detail):
        self.report(bench, statistics.median(ours), peer, statistics.median(theirs), unit, better, spread=spread(ours),
                    peer_spread=spread(theirs), **detail)

    def wanted(self, name):
        return name.startswith(self.options.only) or self.options.only.startswith(name)

    def seconds(self, rate):
        """Of an open load: long enough for the calls that a p99 needs."""
        return max(min(self.options.calls / rate, self.options.seconds_max), self.options.seconds, CALLS_OPEN / rate)

    def within(self, server, name, call, capacity, bound):
        """(rate, calls) at the highest share of `capacity`, as halving finds it, at which p99 is no worse than that of `bound`, the
        peer's load, with calls at the same times but for the rate; (0, 0): at none."""
        low, high, best = 0, len(OUR_SHARES), (0, 0)
        while low < high:
            middle = (low + high) // 2
            rate = capacity * OUR_SHARES[middle]
            result = self.load(server, name, call, self.seconds(rate), rate=rate, seed=bound["seed"], warm=0)
            if result["shed"] or result["unanswered"] or result["p99_us"] > bound["p99_us"]:
                high = middle
            else:
                low, best = middle + 1, (result["rate"], result["ok"])
        return best

    def of_model(self, name):
        prefix = f"inference.{name}"
        call = self.write_call(name)
        ours = {"": self.ours(name), ".batched": self.ours(name, BATCHED)}
        peer = self.best_peer(name, call)
        servers = [*ours.values(), peer]
        self.compare_answers(servers, name, call)
        fast = self.load(peer, name, call, 2)["rate"] >= FAST
        rounds = self.options.rounds or (2 if fast else 1)
        capacity = self.saturation(prefix, name, call, ours, peer, rounds)
        self.throughput(prefix, name, call, ours, peer, capacity, rounds)
        self.at_half(prefix, name, call, ours, peer, capacity[peer], rounds)
        for server in servers:
            self.stop(server.child)

    def saturation(self, prefix, name, call, ours, peer, rounds):
        rates = {server: [] for server in (*ours.values(), peer)}
        calls, seconds, needed = [], self.options.seconds, self.options.calls_closed
        for _ in range(rounds):
            for server, values in rates.items():
                rate = self.load(server, name, call, seconds)["rate"]
                while rate * seconds < needed and seconds < SECONDS_CLOSED_MAX:
                    seconds = min(max(2 * seconds, math.ceil(needed / max(rate, 1))), SECONDS_CLOSED_MAX)
                    rate = self.load(server, name, call, seconds)["rate"]
                if rate == 0:
                    raise SystemExit(f"bench: {server.name}, {name}: no answer in {seconds} s")
                values.append(rate)
                calls.append(round(rate * seconds))
        for kind, server in ours.items():
            self.report_all(f"{prefix}{kind}.saturation", rates[server], peer.name, rates[peer], "calls/s", "higher", calls=min(calls))
        if shutil.which("h2load") is None:
            print(f"inference_bench: h2load is not installed; {prefix}.h2.saturation is left out", file=sys.stderr)
        else:
            h2 = [self.load_h2(ours[""], name, call, math.ceil(seconds)) for _ in range(rounds)]
            self.report_all(f"{prefix}.h2.saturation", h2, peer.name + ", HTTP/1.1", rates[peer], "calls/s", "higher")
        return {server: statistics.median(values) for server, values in rates.items()}

    def throughput(self, prefix, name, call, ours, peer, capacity, rounds):
        rates, bounds, calls = {server: [] for server in (*ours.values(), peer)}, [], []
        for seed in range(1, rounds + 1):
            rate = capacity[peer] * PEER_SHARE
            bound = self.load(peer, name, call, self.seconds(rate), rate=rate, seed=seed, warm=0) | {"seed": seed}
            rates[peer].append(bound["rate"])
            bounds.append(bound)
            calls.append(bound["ok"])
            for server in ours.values():
                rate, ok = self.within(server, name, call, capacity[server], bound)
                rates[server].append(rate)
                calls += [ok] if ok else []
        for kind, server in ours.items():
            self.report_all(f"{prefix}{kind}.throughput", rates[server], peer.name, rates[peer], "calls/s", "higher", calls=min(calls),
                            p99_us=[bound["p99_us"] for bound in bounds])

    def at_half(self, prefix, name, call, ours, peer, capacity, rounds):
        times, rate, calls = {server: [] for server in (*ours.values(), peer)}, capacity / 2, []
        for seed in range(1, rounds + 1):
            for server, values in times.items():
                result = self.load(server, name, call, self.seconds(rate), rate=rate, seed=seed, warm=0)
                values.append(result["p99_us"] / 1000)
                calls.append(result["ok"])
        for kind, server in ours.items():
            self.report_all(f"{prefix}{kind}.p99_at_half", times[server], peer.name, times[peer], "ms", "lower", calls=min(calls), rate=rate)

    def overhead(self):
        if not self.wanted("inference.overhead"):
            return
        call = self.write_call("din")
        server, peer = self.ours("din"), None if self.fetch_peer() else self.peer("din", 1, 1)
        inputs = os.path.join(self.folder, "din-inputs")
        write_arrays(inputs, make_models.inputs_of(self.model("din"), 1, 1).items())
        engine = Worker("engine", ["taskset", "-c", self.cores, self.program("engine_worker"), self.model("din"), inputs, "1"], 1)
        through, bare, theirs = [], [], []
        for _ in range(self.options.rounds or 3):
            through.append(self.one_caller(server, call))
            bare.append(statistics.median(engine.run(5000)) * 1000)
            if peer is not None:
                theirs.append(self.one_caller(peer, call))
        engine.close()
        self.report("inference.overhead", statistics.median(through) - statistics.median(bare), "bar", 60, "us", "lower",
                    call_us=through, engine_us=bare, node_call_us=theirs)
        for each in (server, peer):
            if each is not None:
                self.stop(each.child)

    def one_caller(self, server, call):
        command = self.command(server, "din", call, self.options.seconds) + ["-c", "1"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["p50_us"]

    def together(self, server, calls, rates, seconds):
        """Results of loads that run at the same time; both share the load's core."""
        running = [subprocess.Popen(self.command(server, OVERLOADED, call, seconds, rate=rate), stdout=subprocess.PIPE, text=True)
                   for call, rate in zip(calls, rates)]
        return [json.loads(child.communicate()[0]) for child in running]

    def overload(self):
        if not self.wanted("inference.overload"):
            return
        first, usual = (self.write_call(OVERLOADED, 1, priority) for priority in (0, 1))
        server, short = self.ours(OVERLOADED, OVERLOAD_CONF), self.options.seconds
        capacity = statistics.median(self.load(server, OVERLOADED, usual, short)["rate"] for _ in range(self.options.rounds or 3))
        seconds = self.seconds(capacity / 10)
        before = self.load(server, OVERLOADED, usual, seconds, rate=capacity / 2)
        calm = self.together(server, (first, usual), (capacity / 10, capacity / 2), seconds)
        memory = server.peak_mib()
        crowded = self.together(server, (first, usual), (capacity / 10, capacity * OVERLOAD_TIMES), self.options.overload_s)
        after = self.load(server, OVERLOADED, usual, seconds, rate=capacity / 2, warm=1)
        self.report("inference.overload.goodput", sum(result["rate"] for result in crowded), "capacity", capacity, "calls/s",
                    "higher", seconds=self.options.overload_s, results=crowded)
        self.report("inference.overload.priority0", crowded[0]["p99_us"] / 1000, "0.6 of the capacity", calm[0]["p99_us"] / 1000,
                    "ms", "lower", shed=crowded[0]["shed"])
        self.report("inference.overload.memory", server.peak_mib(), "before", memory, "MiB", "lower")
        self.report("inference.overload.recovery", after["p99_us"] / 1000, "before", before["p99_us"] / 1000, "ms", "lower")
        self.stop(server.child)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="inference.", help="only benches whose name starts so")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, help=f"default 2, of models below {FAST} calls a second 1")
    parser.add_argument("--seconds", type=int, default=2, help="of a load, at least")
    parser.add_argument("--calls", type=int, default=1000, help="of an open load, at least, within --seconds-max")
    parser.add_argument("--seconds-max", type=int, default=6, help=f"of an open load that has {CALLS_OPEN} calls then, at most")
    parser.add_argument("--overload-s", type=int, help="default 60, quick 5")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--work", help="folder of the models; default: in the build")
    parser.add_argument("--out", default=os.path.join(HERE, "out", "inference.jsonl"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.calls_closed = 8 if options.quick else 24
    if options.quick:
        options.rounds, options.seconds, options.calls, options.seconds_max = 1, 2, 50, 5
    if options.long:
        options.rounds, options.seconds, options.calls, options.seconds_max = 5, 5, 1000, 60
    if options.overload_s is None:
        options.overload_s = 5 if options.quick else 60
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers end with it
    bench = Bench(options)
    print(f"{'bench':42} {'ours':>11} {'theirs':>11} {'unit':10} {'ratio':>7} {'calls':>7}  peer")
    try:
        names = [name for name in options.models.split(",") if bench.wanted(f"inference.{name}")]
        missing = bench.fetch_peer() if names else None
        if missing:
            print(f"inference_bench: {missing}: rows beside ONNX Runtime are left out", file=sys.stderr)
        for name in names if missing is None else []:
            bench.of_model(name)
        bench.overhead()
        bench.overload()
        inference_cloud.rows(bench)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
