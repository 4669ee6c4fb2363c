"""The inference service over real sockets, by curl: walle-infer and the gateway's role, in HTTP/1.1, HTTP/2 and TLS; results
beside numpy, refusals, overload, callers that go, and a kill."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from walle_stack import Gateway, program, wait_until

W = np.array([1, -2, 3], np.float32)


def save(model, folder, name, version="1", conf=None):
    place = os.path.join(folder, name, version)
    os.makedirs(place)
    onnx.save(model, os.path.join(place, "model.onnx"))
    if conf is not None:
        with open(os.path.join(folder, name, "model.conf"), "w", encoding="utf-8") as file:
            file.write(conf)


def model_of(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def relu_model():
    """y = relu(x + W), x [n, 3]"""
    return model_of(helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])], "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], [numpy_helper.from_array(W, "w")]))


def endless_model():
    """A loop that nothing ends but whoever stops it: while the sum of x is below a million."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("ReduceSum", ["s"], ["t"], keepdims=0), helper.make_node("Less", ["t", "limit"], ["more"]),
         helper.make_node("Identity", ["s"], ["next"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", TensorProto.FLOAT, ["a", "b"])],
        [info("more", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, ["a", "b"])],
        [numpy_helper.from_array(np.float32(1e6), "limit")])
    return model_of(helper.make_graph(
        [helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], "endless",
        [info("x", TensorProto.FLOAT, ["a", "b"])], [info("y", TensorProto.FLOAT, ["a", "b"])]))


# Memory is compared: so that an address sanitizer gives back what was freed, but for a little.
GIVE_BACK = {"ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1", "thread_local_quarantine_size_kb=64")))}


class Infer:
    """A running walle-infer over `models`."""

    def __init__(self, folder, models, *arguments):
        self.dir = os.path.join(folder, "data")
        self.log = open(os.path.join(folder, "log"), "ab")
        self.process = subprocess.Popen(
            [program("walle-infer"), "--models", models, "--dir", self.dir, "--listen", "127.0.0.1:0", "--tls", "127.0.0.1:0",
             "--threads", "1", *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True, env=dict(os.environ, **GIVE_BACK))
        self.ports = {}
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            found = re.match(r"listening (\w+) ([\d.]+):(\d+)", line)
            if found:
                self.ports[found.group(1)] = int(found.group(3))
            if len(self.ports) == 2:
                return
        raise AssertionError("walle-infer did not start")

    def url(self, path, tls=False):
        return f"http{'s' if tls else ''}://127.0.0.1:{self.ports['tls' if tls else 'h2c']}{path}"

    def token(self):
        with open(os.path.join(self.dir, "admin.token"), encoding="utf-8") as file:
            return file.readline().strip()

    def new_token(self, name, role, **more):
        status, _, body = curl(self.url("/api/v1/tokens"), "-H", f"Authorization: Bearer {self.token()}", "-H",
                               "Content-Type: application/json", data=json.dumps({"name": name, "role": role, **more}).encode())
        assert status == 201, body
        return json.loads(body)["secret"]

    def audit(self):
        answer = curl(self.url("/api/v1/audit?limit=50"), "-H", f"Authorization: Bearer {self.token()}")[2]
        return [json.loads(item["entry"]) for item in json.loads(answer)["items"]]

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.stdout.close()
        self.log.close()
        return self.process.wait(60)


def curl(url, *arguments, data=None):
    """(status, headers, body)"""
    with tempfile.TemporaryDirectory() as folder:
        heads = os.path.join(folder, "heads")
        command = ["curl", "-sk", "--max-time", "60", "-D", heads, "-w", "\n%{http_code}", *arguments, url]
        if data is not None:
            command += ["--data-binary", "@-"]
        done = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=False)
        body, _, status = done.stdout.rpartition(b"\n")
        headers = {}
        if os.path.exists(heads):
            with open(heads, encoding="latin-1") as file:
                for line in file:
                    name, colon, value = line.partition(":")
                    if colon:
                        headers[name.strip().lower()] = value.strip()
        return int(status), headers, body


def request_of(x, **parameters):
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.flatten().tolist()}
    return json.dumps({"inputs": [tensor], "parameters": parameters}).encode()


def binary_of(x):
    raw = x.astype("<f4").tobytes()
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": list(x.shape),
                                   "parameters": {"binary_data_size": len(raw)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return head, raw


ONE = np.array([[1, 2, -4]], np.float32)


class InferenceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-infer-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = os.path.join(self.folder, "models")
        save(relu_model(), self.models, "relu", conf="max_batch = 8\nbatch_delay_us = 1000\naliases = best\n")
        save(endless_model(), self.models, "endless", conf="queue = 1\ninstances = 1\n")

    def start(self, *arguments):
        infer = Infer(self.folder, self.models, *arguments)
        self.addCleanup(infer.end)
        return infer

    def figure(self, infer, what):
        text = curl(infer.url("/metrics"))[2].decode()
        return int(re.search(rf'^walle_{re.escape(what)} (\d+)$', text, re.M).group(1))

    def call_in_background(self, infer, data, how="--http1.1"):
        """A call of the endless model, which takes until its caller goes."""
        process = subprocess.Popen(["curl", "-s", how, "--max-time", "60", "-d", data.decode(), "-w", "\n%{http_code}",
                                    infer.url("/v2/models/endless/infer")], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_results(self):
        infer = self.start()
        self.assertNotIn("device", "".join(infer.said))
        x = np.random.default_rng(7).integers(-9, 9, (5, 3)).astype(np.float32)
        wanted = np.maximum(x + W, 0)
        head, raw = binary_of(x)
        for tls, how in ((False, "--http1.1"), (False, "--http2-prior-knowledge"), (True, "--http1.1"), (True, "--http2")):
            status, _, body = curl(infer.url("/v2/models/relu/infer", tls), how, data=request_of(x))
            self.assertEqual(status, 200, body)
            answer = json.loads(body)
            self.assertEqual((answer["model_name"], answer["model_version"]), ("relu", "1"))
            self.assertEqual(answer["outputs"][0]["shape"], [5, 3])
            np.testing.assert_array_equal(np.array(answer["outputs"][0]["data"], np.float32).reshape(5, 3), wanted)
            status, headers, body = curl(infer.url("/v2/models/best/versions/1/infer", tls), how, "-H",
                                         f"Inference-Header-Content-Length: {len(head)}", data=head + raw)
            self.assertEqual(status, 200, body)
            size = int(headers["inference-header-content-length"])
            self.assertEqual(json.loads(body[:size])["outputs"][0]["parameters"]["binary_data_size"], len(raw))
            np.testing.assert_array_equal(np.frombuffer(body[size:], "<f4").reshape(5, 3), wanted)
        self.assertEqual(self.figure(infer, 'infer_calls_total{model="relu",version="1",result="ok"}'), 8)
        self.assertEqual(infer.end(signal.SIGTERM), 0)

    def test_refusals(self):
        infer = self.start("--set", "limits.infer_bytes=4096")
        head, raw = binary_of(ONE)
        sized = ("-H", f"Inference-Header-Content-Length: {len(head)}")
        path = "/v2/models/relu/infer"
        cases = (
            (404, "/v2/models/none/infer", (), request_of(ONE), "none"),
            (404, "/v2/models/relu/versions/2/infer", (), request_of(ONE), "version '2'"),
            (404, "/v2/models/..%2frelu/infer", (), request_of(ONE), "none of this name"),
            (404, "/v2/models/relu/other", (), request_of(ONE), "no such path"),
            (400, path, (), b"{", "JSON"),
            (400, path, (), b"", "JSON"),
            (400, path, (), request_of(ONE[:, :2]), "the model takes FP32[?,3]"),
            (400, path, (), request_of(ONE).replace(b"FP32", b"FP64"), "is FP64, the model takes FP32"),
            (400, path, (), request_of(ONE).replace(b'"x"', b'"z"'), "none of this name"),
            (400, path, sized, head + raw[:-1], ""),
            (400, path, sized, head + raw + b"x", ""),
            (400, path, ("-H", "Inference-Header-Content-Length: 100000"), head + raw, "inference-header-content-length"),
            (400, path, ("-H", "Inference-Header-Content-Length: -1"), head + raw, "inference-header-content-length"),
            (401, "/v2/repository/models/relu/load", (), b"", "token"),
            (401, "/v2/models/relu", ("-X", "GET", "-H", "Authorization: Bearer none"), b"", "token"),
            (413, path, (), b" " * 5000, "limit"),
            (405, "/v2/models/relu", (), request_of(ONE), ""),
        )
        for wanted, where, more, data, says in cases:
            status, _, body = curl(infer.url(where), *more, data=data)
            self.assertEqual(status, wanted, (where, data[:80], body))
            self.assertIn(says, body.decode())
            self.assertEqual(list(json.loads(body)), ["error"], body)
            self.assertTrue(json.loads(body)["error"], where)
        self.assertEqual(curl(infer.url(path))[0], 405)
        self.assertEqual(curl(infer.url(path), data=request_of(ONE))[0], 200)
        status, _, body = curl(infer.url("/v2x"), "--http1.1")
        self.assertEqual(status, 505)
        self.assertIn(b" /v2,", body)

    def test_overload_and_callers_that_go(self):
        infer = self.start()
        running = self.call_in_background(infer, request_of(ONE), "--http2-prior-knowledge")
        wait_until(lambda: self.figure(infer, 'infer_running{model="endless",version="1"}') == 1, what="the first call")
        waiting = self.call_in_background(infer, request_of(ONE))
        wait_until(lambda: self.figure(infer, 'infer_waiting{model="endless",version="1"}') == 1, what="the second call")
        status, headers, body = curl(infer.url("/v2/models/endless/infer"), data=request_of(ONE))
        self.assertEqual(status, 429, body)
        self.assertGreaterEqual(int(headers["retry-after"]), 1)
        waiting.kill()
        running.kill()
        wait_until(lambda: self.figure(infer, 'infer_calls_total{model="endless",version="1",result="cancelled"}') == 2,
                   what="the calls to be given up")
        self.assertEqual(curl(infer.url("/v2/models/relu/infer"), data=request_of(ONE))[0], 200)  # by the one thread there is

    def test_deadline_while_it_runs(self):
        infer = self.start()
        for timeout in (1, 50000):
            status, _, body = curl(infer.url("/v2/models/endless/infer"), data=request_of(ONE, timeout=timeout))
            self.assertEqual((status, json.loads(body)), (504, {"error": "not done within its timeout"}))
        self.assertEqual(curl(infer.url("/v2/models/relu/infer"), data=request_of(ONE))[0], 200)

    def test_kill(self):
        infer = self.start()
        call = self.call_in_background(infer, request_of(ONE))
        wait_until(lambda: self.figure(infer, 'infer_running{model="endless",version="1"}') == 1, what="the call")
        infer.end(signal.SIGKILL)
        out, _ = call.communicate(timeout=60)
        self.assertEqual(out.rpartition(b"\n")[2], b"000")  # an error at once, and no answer
        again = self.start()
        self.assertEqual(curl(again.url("/v2/models/relu/infer"), data=request_of(ONE))[0], 200)

    def test_models_come_and_go(self):
        infer = self.start("--model-control", "explicit")
        load = infer.url("/v2/repository/models/relu/load")
        token = ("-H", f"Authorization: Bearer {infer.token()}")
        call = infer.url("/v2/models/relu/infer")
        self.assertEqual(curl(call, data=request_of(ONE))[0], 404)
        self.assertEqual(curl(load, "-X", "POST")[0], 401)
        self.assertEqual(curl(load, "-X", "POST", *token)[0], 200)
        self.assertEqual(json.loads(curl(call, data=request_of(ONE))[2])["model_version"], "1")
        save(relu_model(), self.models, "relu", "2")
        self.assertEqual(curl(load, "-X", "POST", *token)[0], 200)
        self.assertEqual(json.loads(curl(call, data=request_of(ONE))[2])["model_version"], "2")
        index = json.loads(curl(infer.url("/v2/repository/index"), "-X", "POST")[2])
        self.assertEqual([(row["name"], row["version"], row["state"]) for row in index], [("relu", "2", "READY")])
        self.assertEqual(curl(infer.url("/v2/repository/models/none/load"), "-X", "POST", *token)[0], 404)
        self.assertEqual(curl(infer.url("/v2/repository/models/..%2fx/load"), "-X", "POST", *token)[0], 400)
        self.assertEqual(curl(infer.url("/v2/repository/models/relu/unload"), "-X", "POST", *token)[0], 200)
        self.assertEqual(curl(call, data=request_of(ONE))[0], 503)
        self.assertEqual(curl(infer.url("/v2/models/relu/ready"))[0], 503)
        self.assertEqual(curl(infer.url("/v2/health/live"))[0], 200)
        entries = [(entry["method"], entry["path"].rpartition("/models/")[2], entry["outcome"], entry["status"])
                   for entry in infer.audit()]
        self.assertEqual(entries, [("POST", "relu/load", "done", 200), ("POST", "relu/load", "done", 200),
                                   ("POST", "none/load", "refused", 404), ("POST", "..%2fx/load", "refused", 400),
                                   ("POST", "relu/unload", "done", 200)])
        last = infer.audit()[-1]
        self.assertEqual((last["actor"]["role"], last["before"], last["after"], last["detail"]),
                         ("admin", {"model": "relu", "loaded": True}, {"model": "relu", "loaded": False}, None))
        self.assertIn("none", infer.audit()[2]["detail"])

    def test_who_may_load(self):
        infer = self.start()
        for name, role, more in (("eve", "viewer", {"tenant": "*"}), ("mallory", "releaser", {})):
            hers = ("-H", f"Authorization: Bearer {infer.new_token(name, role, **more)}")
            for change in ("load", "unload"):
                path = f"/v2/repository/models/relu/{change}"
                status, _, body = curl(infer.url(path), "-X", "POST", *hers)
                self.assertEqual((status, json.loads(body)["error"]), (403, "needs the token of a releaser of all tenants"))
                last = infer.audit()[-1]
                self.assertEqual((last["actor"]["name"], last["path"], last["outcome"], last["status"]),
                                 (name, path, "refused", 403))
                self.assertEqual((last["before"], last["after"]), ({"model": "relu", "loaded": True}, None))
            self.assertEqual(curl(infer.url("/v2/models/relu/ready"))[0], 200)
        hers = ("-H", f"Authorization: Bearer {infer.new_token('ruth', 'releaser', tenant='*')}")
        self.assertEqual(curl(infer.url("/v2/repository/models/relu/unload"), "-X", "POST", *hers)[0], 200)

    def test_large_json(self):
        infer = self.start()
        x = np.random.default_rng(11).integers(-9, 9, (8, 3)).astype(np.float32)
        for blanks in (60000, 70000, 3000000):  # read on the event loop, by a thread, and by one from a file
            status, _, body = curl(infer.url("/v2/models/relu/infer"), data=request_of(x) + b" " * blanks)
            self.assertEqual(status, 200, body)
            np.testing.assert_array_equal(np.array(json.loads(body)["outputs"][0]["data"], np.float32).reshape(8, 3),
                                          np.maximum(x + W, 0))
            status, _, body = curl(infer.url("/v2/models/relu/infer"), data=request_of(x) + b" " * blanks + b"x")
            self.assertEqual(status, 400, body)

    def test_who_may_call(self):
        infer = self.start("--access", "token")
        call = infer.url("/v2/models/relu/infer")
        self.assertEqual(curl(call, data=request_of(ONE))[0], 401)
        self.assertEqual(curl(call, "-H", f"Authorization: Bearer {infer.token()}", data=request_of(ONE))[0], 200)
        self.assertEqual(curl(infer.url("/v2/health/ready"))[0], 200)

    def test_what_is_shown_counts(self):
        for access in ("loopback", "open"):
            infer = self.start("--access", access)
            call = infer.url("/v2/models/relu/infer")
            self.assertEqual(curl(call, data=request_of(ONE))[0], 200)
            for wrong in ("Authorization: Bearer wrong", f"Authorization: Bearer {infer.token()[:-1]}", "Walle-Credential: wrong"):
                self.assertEqual(curl(call, "-H", wrong, data=request_of(ONE))[0], 401, wrong)
            self.assertEqual(curl(call, "-H", "Walle-Device: 42", "-H", "Walle-Credential: wrong", data=request_of(ONE))[0], 401)
            if access == "loopback":
                self.assertEqual(curl(call, "-H", "Origin: http://evil.example", data=request_of(ONE))[0], 403)
            infer.end()

    def test_faults_at_the_start(self):
        def refused(*arguments):
            done = subprocess.run([program("walle-infer"), "--dir", os.path.join(self.folder, "d"), *arguments],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn("--models DIR is needed", refused())
        self.assertIn("/nowhere: No such file or directory", refused("--models", "/nowhere"))
        self.assertIn("infer.access: 'all'", refused("--models", self.models, "--access", "all"))
        self.assertIn("infer.threads", refused("--models", self.models, "--threads", "x"))

    def test_in_the_gateway(self):
        for arguments, status in ((("--set", "infer.models=" + self.models), 200), ((), 404)):
            gateway = Gateway(os.path.join(self.folder, f"gateway{status}"), arguments)
            try:
                answer = curl(gateway.url + "/v2/models/relu/infer", "--http2-prior-knowledge", data=request_of(ONE))
                self.assertEqual(answer[0], status)
                self.assertEqual(b"is off: set infer.models" in answer[2], status == 404)
            finally:
                gateway.stop()
                gateway.process.stdout.close()
                gateway.log.close()


if __name__ == "__main__":
    unittest.main()
