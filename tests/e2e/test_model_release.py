"""Versions of models pushed into the store and released in stages, through real sockets and the command: a good version comes
to serve, a slow, a failing and a wrong one go back by themselves, what cannot be loaded is refused, and a kill in the middle
of it all changes nothing."""
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from test_inference import Infer, W, curl, model_of, relu_model, request_of, save
from walle_stack import program, wait_until

INFO = helper.make_tensor_value_info
ONE = np.array([[1, 2, -4]], np.float32)
PORTS = ([INFO("x", TensorProto.FLOAT, ["n", 3])], [INFO("y", TensorProto.FLOAT, ["n", 3])])


def other_model():
    """y = relu(x + W + 1)"""
    return model_of(helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])], "other", *PORTS,
        [numpy_helper.from_array(W + 1, "w")]))


def slow_model(steps):
    """The same as relu_model, beside so many products whose sum comes to nothing."""
    nodes = [helper.make_node("MatMul", ["x", "rise"], ["s0"])]
    for at in range(steps):
        nodes += [helper.make_node("MatMul", [f"s{at}", "r"], [f"p{at}"]), helper.make_node("Tanh", [f"p{at}"], [f"s{at + 1}"])]
    nodes += [helper.make_node("Mul", [f"s{steps}", "half"], ["h"]), helper.make_node("Abs", ["h"], ["a"]),
              helper.make_node("Floor", ["a"], ["f"]), helper.make_node("ReduceMax", ["f"], ["z"], axes=[1], keepdims=1),
              helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "z"], ["t"]),
              helper.make_node("Relu", ["t"], ["y"])]
    return model_of(helper.make_graph(
        nodes, "slow", *PORTS,
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.ones((3, 512), np.float32), "rise"),
         numpy_helper.from_array(np.eye(512, dtype=np.float32), "r"), numpy_helper.from_array(np.float32(0.5), "half")]))


def failing_model():
    """Fails on every call but those of zeros: an index that is outside."""
    return model_of(helper.make_graph(
        [helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64), helper.make_node("ReduceMax", ["i"], ["j"], keepdims=0),
         helper.make_node("Mul", ["j", "far"], ["k"]), helper.make_node("Gather", ["w", "k"], ["g"], axis=0),
         helper.make_node("Add", ["x", "g"], ["s"]), helper.make_node("Relu", ["s"], ["y"])], "failing", *PORTS,
        [numpy_helper.from_array(np.stack([W, W]), "w"), numpy_helper.from_array(np.int64(1000), "far")]))


class Callers:
    """Threads that call the model all the time, each call as another caller; `bad` are answers that are not the model's."""

    def __init__(self, port, wanted, threads=3):
        self.port = port
        self.wanted = wanted
        self.ending = False
        self.lock = threading.Lock()
        self.versions = {}
        self.of_caller = {}
        self.bad = []
        self.failed = 0
        self.lost = 0
        self.threads = [threading.Thread(target=self.run, args=(at,)) for at in range(threads)]
        for thread in self.threads:
            thread.start()

    def call(self, connection, caller):
        connection.request("POST", "/v2/models/relu/infer", request_of(ONE),
                           {"Content-Type": "application/json", "Idempotency-Key": f"caller-{caller}"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def run(self, at):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        number = 0
        while not self.ending:
            caller = at * 1000 + number % 1000
            number += 1
            try:
                status, body = self.call(connection, caller)
            except (OSError, http.client.HTTPException):
                with self.lock:
                    self.lost += 1
                connection.close()
                continue
            with self.lock:
                self.take(caller, status, body)
        connection.close()

    def take(self, caller, status, body):
        if status != 200:
            self.failed += 1
            return
        answer = json.loads(body)
        version = answer["model_version"]
        self.versions[version] = self.versions.get(version, 0) + 1
        self.of_caller.setdefault(caller, set()).add(version)
        if answer["outputs"][0]["data"] != self.wanted:
            self.bad.append(answer)

    def end(self):
        self.ending = True
        for thread in self.threads:
            thread.join()


class ModelReleaseTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-model-release-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = os.path.join(self.folder, "models")
        save(relu_model(), self.models, "relu")
        self.callers = None
        self.addCleanup(lambda: self.callers and self.callers.end())
        self.start()

    def start(self, *arguments):
        self.infer = Infer(self.folder, self.models, "--threads", "2", *arguments)
        self.addCleanup(self.infer.end)

    def file_of(self, name, model):
        path = os.path.join(self.folder, name)
        onnx.save(model, path)
        return path

    def walle(self, *arguments, code=0):
        done = subprocess.run([program("walle"), "model", *arguments, "--gateway", self.infer.url(""), "--token",
                               self.infer.token()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, code, (arguments, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def view(self):
        return json.loads(subprocess.run(
            [program("walle"), "model", "status", "relu", "-o", "json", "--gateway", self.infer.url(""), "--token",
             self.infer.token()], stdout=subprocess.PIPE, check=True, timeout=120).stdout)

    def release(self, version, stages, per_caller=0, **more):
        """Every call counts unless said otherwise: all of a test's callers have one address."""
        stages = [{"per_caller": per_caller, **stage} for stage in stages]
        path = os.path.join(self.folder, "stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"stages": stages, **more}, file)
        return self.walle("release", "relu", "--version", str(version), "--stages", path, "--reason", "a test")

    def state(self):
        return self.view()["release"]["state"]

    def begin_calls(self):
        self.callers = Callers(self.infer.ports["h2c"], np.maximum(ONE + W, 0).flatten().tolist())
        return self.callers

    def serves(self):
        answer = curl(self.infer.url("/v2/models/relu/infer"), data=request_of(ONE))[2]
        return json.loads(answer)["model_version"]

    def test_a_good_version_comes_to_serve(self):
        self.walle("push", "relu", self.file_of("good.onnx", relu_model()), "--version", "2")
        self.assertEqual(self.serves(), "1")
        named = curl(self.infer.url("/v2/models/relu/versions/2/infer"), data=request_of(ONE))
        self.assertEqual(json.loads(named[2])["model_version"], "2")
        callers = self.begin_calls()
        self.release(2, [{"shadow": 1, "min_calls": 100, "min_s": 0, "max_differ": 0.05},
                         {"share": 0.2, "min_calls": 100, "min_s": 0, "max_rise": 0.2, "max_slow": 100},
                         {"share": 0.5, "min_calls": 100, "min_s": 1, "max_rise": 0.2, "max_slow": 100}])
        text = self.walle("status", "relu", "--watch", "--timeout", "100")
        self.assertIn("version 2 completed", text)
        callers.end()
        self.assertEqual(callers.bad, [])
        self.assertEqual(callers.failed, 0)
        self.assertEqual(self.serves(), "2")
        # Stages only grow, so who once had the candidate had it from then on: no caller saw three.
        self.assertEqual(set(callers.versions), {"1", "2"})
        release = self.view()["release"]
        self.assertEqual([event["what"] for event in release["events"]], ["start", "advance", "advance", "complete"])
        self.assertEqual(release["events"][0]["why"], "a test")
        self.infer.end()
        self.start()
        self.assertEqual(self.serves(), "2")
        self.walle("remove", "relu", "--version", "2", code=4)
        self.assertIn("serves 2", self.walle("list"))

    def test_one_caller_stays_on_one_version(self):
        self.walle("push", "relu", self.file_of("good.onnx", relu_model()), "--version", "2")
        self.release(2, [{"share": 0.3, "min_calls": 1000000, "min_s": 3600}])
        wait_until(lambda: self.view()["release"]["stage"] == 1)
        callers = self.begin_calls()
        wait_until(lambda: sum(callers.versions.values()) > 1500)
        callers.end()
        self.assertTrue(all(len(versions) == 1 for versions in callers.of_caller.values()))
        share = sum(versions == {"2"} for versions in callers.of_caller.values()) / len(callers.of_caller)
        self.assertTrue(0.2 < share < 0.4, share)
        self.walle("abort", "relu", "--reason", "enough")
        wait_until(lambda: self.state() == "rolled_back")
        self.assertEqual(self.serves(), "1")
        self.assertEqual(curl(self.infer.url("/metrics"))[2].decode().count('walle_infer_release_state{model="relu"'), 1)

    def test_one_caller_alone_decides_nothing(self):
        for number, (name, model) in enumerate((("good", relu_model()), ("failing", failing_model())), 2):
            self.walle("push", "relu", self.file_of(name + ".onnx", model), "--version", str(number))
            self.release(number, [{"share": 0.5, "min_calls": 20, "min_s": 0, "max_rise": 0.2, "max_slow": 0}], per_caller=50)
            callers = self.begin_calls()  # one address, by whatever keys
            wait_until(lambda: self.view()["release"]["seen"]["uncounted"] > 1000, timeout_s=100)
            callers.end()
            release = self.view()["release"]
            self.assertEqual(release["state"], "running")
            self.assertEqual((release["seen"]["serving"]["calls"], release["seen"]["candidate"]["calls"]), (50, 50))
            self.assertEqual([release["questions"]["errors"][name] for name in ("callers", "serving_callers")], [1, 1])
            text = self.walle("status", "relu")
            self.assertIn("not counted", text)
            self.assertRegex(text, r"errors .* of 50 calls, of 1 caller so far; of the serving version 0 of 50, of 1 caller so far")
            self.walle("abort", "relu")
            wait_until(lambda: self.state() == "rolled_back")
        # Malformed calls count nowhere.
        self.release(2, [{"share": 0.5, "min_calls": 20, "min_s": 0}])
        wait_until(lambda: self.view()["release"]["stage"] == 1)
        malformed = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()
        for number in range(100):
            status = curl(self.infer.url("/v2/models/relu/infer"), "-H", f"Idempotency-Key: key-{number % 10}", data=malformed)[0]
            self.assertEqual(status, 400)
        seen = self.view()["release"]["seen"]
        self.assertEqual((seen["serving"]["calls"], seen["candidate"]["calls"]), (0, 0))
        self.walle("abort", "relu")

    def test_a_slow_version_goes_back(self):
        self.walle("push", "relu", self.file_of("slow.onnx", slow_model(60)), "--version", "2")
        callers = self.begin_calls()
        self.release(2, [{"share": 0.2, "min_calls": 100, "min_s": 0, "max_slow": 2}])
        wait_until(lambda: self.state() == "rolled_back", timeout_s=100)
        callers.end()
        self.assertEqual(callers.bad, [])
        self.assertEqual(self.serves(), "1")
        events = self.view()["release"]["events"]
        self.assertEqual([event["what"] for event in events], ["start", "roll_back", "rolled_back"])
        self.assertIn("slow", events[1]["why"])
        self.assertIn("rolled_back", self.walle("status", "relu", code=1))

    def test_a_failing_version_goes_back(self):
        self.walle("push", "relu", self.file_of("failing.onnx", failing_model()), "--version", "2")
        callers = self.begin_calls()
        self.release(2, [{"share": 0.1, "min_calls": 100, "min_s": 0}])
        wait_until(lambda: self.state() == "rolled_back", timeout_s=100)
        callers.end()
        self.assertEqual(callers.bad, [])
        self.assertIn("errors", self.view()["release"]["events"][1]["why"])

    def test_a_wrong_version_reaches_nobody(self):
        self.walle("push", "relu", self.file_of("wrong.onnx", other_model()), "--version", "2")
        callers = self.begin_calls()
        self.release(2, [{"shadow": 1, "min_calls": 100, "min_s": 0}, {"share": 0.5}])
        wait_until(lambda: self.state() == "rolled_back", timeout_s=100)
        callers.end()
        self.assertEqual(callers.bad, [])
        self.assertEqual(callers.failed, 0)
        self.assertEqual(set(callers.versions), {"1"})
        release = self.view()["release"]
        self.assertIn("differ", release["events"][1]["why"])
        self.assertEqual(release["shadows"]["agreed"], 0)
        # What it may be off by is the release's to say.
        self.callers = self.begin_calls()
        self.release(2, [{"shadow": 1, "min_calls": 100, "min_s": 0, "max_differ": 0.05, "on_pass": "pause"}, {"share": 0.5}],
                     tolerance={"absolute": 1})
        wait_until(lambda: self.state() == "paused", timeout_s=100)
        self.walle("abort", "relu")

    def test_what_is_refused(self):
        good = self.file_of("good.onnx", relu_model())
        garbage = os.path.join(self.folder, "garbage.onnx")
        with open(garbage, "wb") as file:
            file.write(os.urandom(4096))
        self.assertIn("relu/2", self.walle("push", "relu", garbage, "--version", "2", code=4))
        self.assertIn("number from 1", self.walle("push", "relu", good, "--version", "two", code=4))
        self.assertIn("is there already", self.walle("push", "relu", good, "--version", "1", code=4))
        self.assertIn("name", self.walle("push", ".relu", good, "--version", "2", code=4))
        self.assertIn("to 9223372036854775807", self.walle("push", "relu", good, "--version", str(2**63), code=4))
        self.assertIn("is of all models", self.walle("push", "stats", good, "--version", "1", code=4))
        self.assertIn("not loaded", self.walle("release", "relu", "--version", "2", code=4))
        self.assertIn("serves already", self.walle("release", "relu", "--version", "1", code=4))
        self.assertIn("no release", self.walle("pause", "relu", code=4))
        many = model_of(helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "other", PORTS[0],
                                          [INFO("z", TensorProto.FLOAT, ["n", 3])]))
        self.walle("push", "relu", self.file_of("many.onnx", many), "--version", "3")
        self.assertIn("another name", self.walle("release", "relu", "--version", "3", code=4))
        wide = model_of(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "wide",
                                          [INFO("x", TensorProto.FLOAT, ["n", 4])], [INFO("y", TensorProto.FLOAT, ["n", 4])]))
        self.walle("push", "relu", self.file_of("wide.onnx", wide), "--version", "4")
        self.assertIn("other dimensions", self.walle("release", "relu", "--version", "4", code=4))
        self.walle("remove", "relu", "--version", "3")
        self.assertIn("no such version", self.walle("remove", "relu", "--version", "3", code=4))
        status = curl(self.infer.url("/v2/repository/models/relu/versions/4"), data=b"x")[0]
        self.assertEqual(status, 401)
        viewer = self.infer.new_token("ana", "viewer")
        status, _, body = curl(self.infer.url("/v2/repository/models/relu/release"), "-H", f"Authorization: Bearer {viewer}",
                               data=b'{"version": 2}')
        self.assertEqual((status, "releaser" in body.decode()), (403, True))
        self.assertEqual(curl(self.infer.url("/v2/repository/models/relu/release"), "-H", f"Authorization: Bearer {viewer}")[0],
                         200)
        refused = [entry for entry in self.infer.audit() if entry["outcome"] == "refused" and "versions/2" in entry["path"]]
        self.assertTrue(refused)
        self.assertEqual(self.serves(), "1")

    def test_a_model_of_the_store_alone(self):
        self.walle("push", "own", self.file_of("good.onnx", relu_model()), "--version", "1")
        self.walle("push", "own", self.file_of("other.onnx", other_model()), "--version", "2")
        for _ in range(2):
            answer = curl(self.infer.url("/v2/models/own/infer"), data=request_of(ONE))
            self.assertEqual(json.loads(answer[2])["model_version"], "1")
            self.infer.end()
            self.start()

    def test_a_kill_changes_nothing(self):
        self.walle("push", "relu", self.file_of("good.onnx", relu_model()), "--version", "2")
        self.release(2, [{"share": 0.2, "min_calls": 50, "min_s": 0, "max_rise": 0.2, "max_slow": 100, "on_pass": "pause"},
                         {"share": 0.5, "min_calls": 50, "min_s": 0, "max_rise": 0.2, "max_slow": 100}])
        self.infer.end()  # nobody called yet
        self.start()
        callers = self.begin_calls()
        wait_until(lambda: self.state() == "paused", timeout_s=100)
        callers.end()
        self.infer.end()
        self.start()
        self.assertEqual(self.state(), "paused")
        self.assertEqual(self.serves(), "1")
        self.walle("promote", "relu")
        self.infer.end()
        self.start()
        self.assertEqual((self.state(), self.view()["release"]["stage"]), ("running", 2))
        callers = self.begin_calls()
        wait_until(lambda: self.state() == "completed", timeout_s=100)
        callers.end()
        self.infer.end()
        self.start()
        self.assertEqual(self.serves(), "2")


if __name__ == "__main__":
    unittest.main()
