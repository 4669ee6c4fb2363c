"""Rows of inference_bench.py about calls of devices (walle.cloud.infer).

inference.cloud_call     median of a call of 30 KB that does not compress, 0.3 s after the one before, over a link of 50 ms and
                         1 % loss each way (link_emulator, two network namespaces; needs root), 200 calls of 4 devices that had a
                         few before; bar: the link's round trip, the model's run and 5 ms. `detail` has p90 and p99
inference.cloud_call.at_once, .after_1s, .after_10s   with other pauses (after 10 s: 20 devices)
inference.cloud_call.lossless     without loss
inference.cloud_call.phone        the device's kernel has no least retransmission time (TCP_RTO_MIN_US, Linux 6.16)
inference.cloud_call.cubic, .cubic_lossless   nor BBR: CUBIC in its place
inference.cloud_offline  a call of a task's script without a gateway, in a task process: a run of 200 calls by the agent's own
                         clock, by calls; bar: 1 ms
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BAR_OVER_MS, BAR_OFFLINE_MS, CALL_BYTES, OFFLINE_CALLS = 5, 1, 30000, 200
LINK_SEED, CALLS, CALLS_QUICK = 7, 200, 40
LOSS_PPM = 10000
# Of a row: its name's end, the loss, the pause, the devices and their kernel.
OVER_LINK = (("", LOSS_PPM, 300000, 4, "own"), (".at_once", LOSS_PPM, 0, 4, "own"), (".after_1s", LOSS_PPM, 1000000, 4, "own"),
             (".after_10s", LOSS_PPM, 10000000, 20, "own"), (".phone", LOSS_PPM, 300000, 4, "phone"),
             (".cubic", LOSS_PPM, 300000, 4, "cubic"), (".lossless", 0, 300000, 4, "own"), (".cubic_lossless", 0, 300000, 4, "cubic"))
SCRIPT = """import walle
from walle import cloud
told = [0, 0]
for i in range(%d):
    cloud.infer("wide", {"x": [1.0]}, 200, None)
    told[cloud.why() == "offline"] += 1
walle.result(told)
""" % OFFLINE_CALLS


def wide_model(path):
    """y = mean(x), x [1, n]: a model that takes no time."""
    from onnx import TensorProto, helper, save
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=1)], "wide",
                              [info("x", TensorProto.FLOAT, [1, "n"])], [info("y", TensorProto.FLOAT, [1, 1])])
    os.makedirs(os.path.dirname(path))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def metric(text, name):
    found = re.search(rf'^{name}{{model="wide",[^}}]*}} ([0-9.e-]+)$', text, re.M)
    return float(found.group(1))


def share(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class OverLink:
    """A gateway at one end of a link, devices at the other."""

    def __init__(self, bench, loss_ppm):
        import tunnel_bench as tunnel
        self.program, self.host, self.port = bench.program, tunnel.ADDRESSES[1], 8443
        self.inside = [["ip", "netns", "exec", name] for name in tunnel.NAMES]
        self.folder = tempfile.mkdtemp(dir=bench.folder)
        self.gateway, self.devices = None, 0
        tunnel.urgent(True)
        try:
            self.link = tunnel.Link(bench.program("link_emulator"), LINK_SEED, loss_ppm)
        except (OSError, subprocess.CalledProcessError):
            tunnel.urgent(False)
            tunnel.Link.remove()
            raise
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self):
        wide_model(self.path("models", "wide", "1", "model.onnx"))
        key, certificate = self.path("key.pem"), self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:" + self.host, "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        self.gateway = subprocess.Popen(
            [*self.inside[1], self.program("walle-gateway"), "--dir", self.path("data"), "--tls", f"{self.host}:{self.port}", "--h2c",
             "127.0.0.1:8080", "--log", "error", "--set", "infer.models=" + self.path("models"), "--set", "infer.access=open",
             "--set", "infer.device_calls_per_min=0", "--set", "tls.certificate=" + certificate, "--set", "tls.key=" + key],
            stdout=subprocess.PIPE, text=True)
        while not self.gateway.stdout.readline().startswith("listening tls"):
            pass
        self.rtt_ms = self.link.rtt_ms(self.port)

    def calls(self, count, pause_us, devices, kernel):
        """What `devices` devices say of `count` calls that each of them makes."""
        processes = []
        for _ in range(devices):
            self.devices += 1
            processes.append(subprocess.Popen(
                [*self.inside[0], self.program("cloud_calls"), self.host, str(self.port), self.path("cert.pem"),
                 self.path(f"device-{self.devices}"), "wide", "x", str(CALL_BYTES), str(count), str(pause_us), kernel],
                stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode != 0 for process in processes):
            raise SystemExit("inference_bench: cloud_calls failed")
        return [json.loads(output) for output in outputs]

    def model_ms(self):
        text = subprocess.run([*self.inside[1], "curl", "-s", "--http2-prior-knowledge", "http://127.0.0.1:8080/metrics"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return 1000 * metric(text, "walle_infer_run_seconds_total") / metric(text, "walle_infer_batches_total")

    def close(self):
        import tunnel_bench as tunnel
        if self.gateway is not None:
            self.gateway.terminate()
            self.gateway.wait()
        tunnel.urgent(False)
        return self.link.close()


def over_link(bench, loss_ppm, runs):
    """Rows of one link. Those that are compared run on it one after the other."""
    try:
        at = OverLink(bench, loss_ppm)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"inference_bench: no network namespaces here (root is needed): {error}; inference.cloud_call is left out",
              file=sys.stderr)
        return
    rows = []
    try:
        for name, _, pause_us, devices, kernel in runs:
            count = (CALLS_QUICK if bench.options.quick else CALLS) // devices
            rows.append((name, at.calls(count, pause_us, devices, kernel), at.model_ms()))
    finally:
        told = at.close()
    for name, said, model_ms in rows:
        took_ms = [us / 1000 for one in said for us in one["took_us"]]
        bench.report("inference.cloud_call" + name, statistics.median(took_ms), f"bar: round trip, model, {BAR_OVER_MS} ms",
                     at.rtt_ms + model_ms + BAR_OVER_MS, "ms", "lower", rtt_ms=at.rtt_ms, model_ms=model_ms, link=told,
                     calls=len(took_ms), p90_ms=share(took_ms, 0.9), p99_ms=share(took_ms, 0.99),
                     other=sum(one["other"] for one in said), again=sum(one["again"] for one in said))


def offline(bench):
    os.environ["WALLE_BIN"] = os.path.join(os.path.abspath(bench.options.build), "bin")
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
    from walle_stack import Stack, wait_until
    with Stack() as stack:
        wide_model(stack.path("models", "wide", "1", "model.onnx"))
        stack.start_gateway("--set", "rollout.tick_ms=50", "--set", "infer.models=" + stack.path("models"))
        key = stack.path("key")
        public = stack.walle("key", "new", "--out", key).stdout.strip().splitlines()[-1]
        leaves = {"infer": {"wide": {"inputs": {"x": {"dtype": "FP32", "max_elements": 1}}}}}
        stack.release_to_all("cloud/offline", SCRIPT, key, every_s=1, time_ms=60000, leaves=leaves)
        path = stack.path("out")
        with open(path, "w", encoding="utf-8") as output:
            device = stack.spawn("walle-device", "--gateway", stack.gateway.tls_url, "--enroll-token", stack.enroll_token, "--ca",
                                 os.path.join(stack.gateway.folder, "cert.pem"), "--dir", stack.path("device"), "--trust", public,
                                 "--checkin-interval", "1", stdout=output, stderr=subprocess.DEVNULL)

        def times():
            with open(path, encoding="utf-8") as file:
                return [int(us) for us in re.findall(rf"^task cloud/offline \w+ ran (\d+) us \[0, *{OFFLINE_CALLS}\]$", file.read(), re.M)]
        with open(path, encoding="utf-8") as file:
            wait_until(lambda: "task cloud/offline" in file.read(), what="a run")
        stack.gateway.kill()
        rounds = 2 if bench.options.quick else 5
        took = [us / OFFLINE_CALLS / 1000 for us in wait_until(lambda: len(times()) >= rounds and times(), what="runs without a gateway")]
        device.terminate()
        device.wait()
    bench.report("inference.cloud_offline", statistics.median(took), "bar", BAR_OFFLINE_MS, "ms a call", "lower", runs=took)


def rows(bench):
    for loss_ppm in (LOSS_PPM, 0):
        runs = [run for run in OVER_LINK if run[1] == loss_ppm and bench.wanted("inference.cloud_call" + run[0])]
        if runs:
            over_link(bench, loss_ppm, runs)
    if bench.wanted("inference.cloud_offline"):
        offline(bench)
