"""Rows of inference_bench.py about calls of devices (walle.cloud.infer).

inference.cloud_call     median of a call of 30 KB that does not compress, over a link of 50 ms and 1 % loss (link_emulator, two
                         network namespaces; needs root); bar: the link's round trip, the model's run and 5 ms
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
LINK_SEED = 7
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


def over_link(bench):
    import tunnel_bench as tunnel
    program = bench.program
    try:
        link = tunnel.Link(program("link_emulator"), LINK_SEED)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"inference_bench: no network namespaces here (root is needed): {error}; inference.cloud_call is left out",
              file=sys.stderr)
        tunnel.Link.remove()
        return
    folder, host, port = tempfile.mkdtemp(dir=bench.folder), tunnel.ADDRESSES[1], 8443
    inside = [["ip", "netns", "exec", name] for name in tunnel.NAMES]
    gateway = None
    try:
        wide_model(os.path.join(folder, "models", "wide", "1", "model.onnx"))
        key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:" + host, "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        gateway = subprocess.Popen(
            [*inside[1], program("walle-gateway"), "--dir", os.path.join(folder, "data"), "--tls", f"{host}:{port}", "--h2c",
             "127.0.0.1:8080", "--log", "error", "--set", "infer.models=" + os.path.join(folder, "models"), "--set", "infer.access=open",
             "--set", "infer.device_calls_per_min=0", "--set", "tls.certificate=" + certificate, "--set", "tls.key=" + key],
            stdout=subprocess.PIPE, text=True)
        while not gateway.stdout.readline().startswith("listening tls"):
            pass
        rtt_ms = link.rtt_ms(port)
        count = 40 if bench.options.quick else 200
        out = subprocess.run([*inside[0], program("cloud_calls"), host, str(port), certificate, os.path.join(folder, "device"), "wide",
                              "x", str(CALL_BYTES), str(count)], check=True, stdout=subprocess.PIPE, text=True).stdout
        got = json.loads(out)
        text = subprocess.run([*inside[1], "curl", "-s", "--http2-prior-knowledge", "http://127.0.0.1:8080/metrics"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        model_ms = 1000 * metric(text, "walle_infer_run_seconds_total") / metric(text, "walle_infer_batches_total")
    finally:
        if gateway is not None:
            gateway.terminate()
            gateway.wait()
        told = link.close()
    bench.report("inference.cloud_call", got["p50_us"] / 1000, f"bar: round trip, model, {BAR_OVER_MS} ms",
                 rtt_ms + model_ms + BAR_OVER_MS, "ms", "lower", rtt_ms=rtt_ms, model_ms=model_ms, link=told, **got)


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
    if bench.wanted("inference.cloud_call"):
        over_link(bench)
    if bench.wanted("inference.cloud_offline"):
        offline(bench)
