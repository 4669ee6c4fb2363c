"""walle.cloud.infer on real programs: a task on an enrolled device asks a model of its gateway over the device's one connection;
quotas, a gateway that is away, answers that are lost and repeated, and kill -9 during calls. In both ways tasks are run."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import numpy as np

from onnx import TensorProto, helper

import raw_h2
from test_inference import W, endless_model, model_of, relu_model, save
from walle_stack import SOURCE, Stack, program, wait_until

DEVICE = "00000000000000a1"
TASK = "cloud/ask"
# What a run does is in walle.config; it tells what became of each call.
SCRIPT = """
import walle
from walle import cloud

told = []
for model in walle.config["models"]:
    y = cloud.infer(model, {"x": [[1, 2, 3]] * walle.config["rows"]}, walle.config["deadline_ms"], None)
    told.append([cloud.why(), y["y"].tolist()[-1] if y else None])
choice = cloud.decide(0.4, {"threshold": 0.5, "deadline_ms": 60000}, model="relu")
walle.result({"told": told, "choice": choice})
"""
ANSWER = np.maximum(np.array([1, 2, 3], np.float32) + W, 0).tolist()


def declared(models):
    """What of task.json lets these be asked."""
    return {"leaves": {"infer": {name: {"inputs": {"x": {"dtype": "FP32", "max_elements": 12000}}} for name in set(models)}}}


class Relay:
    """Passes connections on to a port of this machine; while it swallows, nothing comes back through it."""

    def __init__(self, port):
        self.target, self.swallows, self.accepted, self.sent, self.open = port, False, 0, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.accepted += 1
            self.open += [near, far]
            threading.Thread(target=self._copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, True), daemon=True).start()

    def _copy(self, source, sink, back):
        try:
            while data := source.recv(65536):
                self.sent += 0 if back else len(data)
                if not (back and self.swallows):
                    sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        ends, self.open = self.open, []  # what is accepted meanwhile is not cut
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.cut()


class Cloud(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.models = tempfile.mkdtemp(dir=self.stack.folder)
        save(relu_model(), self.models, "relu", "4")
        save(endless_model(), self.models, "endless")
        self.settings = ["--set", "rollout.tick_ms=50", "--set", f"infer.models={self.models}", "--set", "infer.access=token"]
        self.outputs = 0

    def start(self, *more):
        self.stack.start_gateway(*self.settings, *more)
        self.key = self.stack.path("key")
        self.public_key = self.stack.walle("key", "new", "--out", self.key).stdout.strip().splitlines()[-1]

    def release(self, models, deadline_ms=20000, rows=1, **more):
        config = {"models": models, "deadline_ms": deadline_ms, "rows": rows}
        self.stack.release_to_all(TASK, SCRIPT, self.key, config=config, time_ms=60000, **declared(models), **more)

    def device(self, *arguments, port=None):
        self.outputs += 1
        output = open(self.stack.path(f"device.{self.outputs}.out"), "w+", encoding="utf-8")
        log = open(self.stack.path(f"device.{self.outputs}.log"), "w+", encoding="utf-8")
        self.addCleanup(output.close)
        self.addCleanup(log.close)
        url = self.stack.gateway.tls_url if port is None else f"https://127.0.0.1:{port}"
        return self.stack.spawn(
            "walle-device", "--gateway", url, "--enroll-token", self.stack.enroll_token, "--ca",
            os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", self.stack.path("device"), "--id", DEVICE, "--trust",
            self.public_key, "--checkin-interval", "1", "--retry-base", "50", *arguments, stdout=output, stderr=log)

    def runs(self):
        """(outcome, result) of all runs so far that the newest device told."""
        with open(self.stack.path(f"device.{self.outputs}.out"), encoding="utf-8") as file:
            lines = re.findall(rf"^task {TASK} [0-9a-f]{{64}} (\w+) \d+ us (.*)$", file.read(), re.M)
        return [(outcome, json.loads(result) if outcome == "ran" else result) for outcome, result in lines]

    def end(self, device):
        device.terminate()
        self.assertEqual(device.wait(60), 0)

    def figures(self):
        text = self.stack.api("/metrics")[1]
        found = dict(re.findall(r'^walle_infer_device_calls_total\{let="(\w+)"\} (\d+)$', text, re.M))
        return {name: int(value) for name, value in found.items()}

    def test_asked_and_answered(self):
        self.start()
        self.release(["relu", "none"], every_s=1)
        for isolation in ("process", "thread"):
            device = self.device("--isolation", isolation)
            outcome, result = wait_until(self.runs, what="a run")[0]
            self.assertEqual(outcome, "ran", result)
            self.assertEqual(result["told"], [["answered", ANSWER], ["no_model", None]], isolation)
            self.assertEqual(result["choice"], [True, "unsure"])
            self.end(device)
        # It is the credential that let it in.
        status, _ = self.stack.post("/v2/models/relu/infer", 7, ("content-type", "application/x-walle-tensors"), body=b"x")
        self.assertEqual(status, 401)

    def test_what_may_not_leave_is_not_asked(self):
        """More than is declared, and a model that is not: said by the script's VM, counted, and nothing goes to the gateway. A version
        that declares nothing asks nothing."""
        self.start()
        for name, leaves in (("more", declared(["relu"])), ("none", {})):
            script = ("import walle\nfrom walle import cloud\ntold = []\n"
                      "for model, rows in (('relu', 4001), ('endless', 1), ('relu', 4000)):\n"
                      "    cloud.infer(model, {'x': [[1, 2, 3]] * rows}, 20000, None)\n    told.append(cloud.why())\n"
                      "try:\n    cloud.infer('endless', {'x': [1]})\nexcept OSError as error:\n    told.append(str(error))\n"
                      "walle.result(told)\n")
            self.stack.release_to_all("cloud/" + name, script, self.key, heap_kib=4096, time_ms=60000, **leaves)
        device = self.device()

        def told():
            with open(self.stack.path("device.1.out"), encoding="utf-8") as file:
                found = re.findall(r"^task cloud/(\w+) [0-9a-f]{64} ran \d+ us (.*)$", file.read(), re.M)
            return len(found) == 2 and {name: json.loads(result) for name, result in found}
        for name, result in wait_until(told, what="both runs").items():
            self.assertEqual(result[:3], ["not_allowed", "not_allowed", "answered"] if name == "more" else ["not_allowed"] * 3)
            self.assertRegex(result[3], "^walle.cloud: not_allowed: endless: may not leave: .*'endless'")
        self.end(device)
        self.assertEqual(self.figures()["charged"], 1)

    def test_one_connection(self):
        """Check-ins, tunnel and calls share it; a large body is compressed on its way."""
        self.start()
        self.end_once(self.device("--once"))
        relay = Relay(self.stack.gateway.ports["tls"])
        self.addCleanup(relay.close)
        self.release(["relu"] * 3, rows=4000, heap_kib=8192)
        device = self.device(port=relay.port)
        outcome, result = wait_until(self.runs, what="a run")[0]
        self.assertEqual((outcome, result["told"]), ("ran", [["answered", ANSWER]] * 3))
        self.end(device)
        self.assertEqual(relay.accepted, 1)
        self.assertLess(relay.sent, 3 * 4000 * 12 / 2)
        self.assertEqual(self.figures()["charged"], 3)

    def end_once(self, device):
        self.assertEqual(device.wait(120), 0)

    def test_quota(self):
        self.start("--set", "infer.device_calls_per_min=2", "--set", "infer.tenant_calls_per_min=1")  # of those who show no credential
        self.release(["relu"] * 4)
        device = self.device()
        outcome, result = wait_until(self.runs, what="a run")[0]
        self.assertEqual(outcome, "ran", result)
        self.assertEqual([why for why, _ in result["told"]], ["answered", "answered", "quota", "quota"])
        self.assertEqual(result["choice"], [False, "quota"])
        self.end(device)
        self.assertEqual(self.figures(), {"charged": 2, "repeated": 0, "kept": 0, "over_quota": 1, "under_way": 0, "other_call": 0,
                                          "given_back": 0})

    def test_quota_in_json(self):
        """Who shows a device's credential uses up the device's quota in any form, not only in that of its tasks."""
        self.start("--set", "infer.device_calls_per_min=3")
        with open(self.stack.enroll_token, encoding="ascii") as file:
            token = file.read().strip()
        connection = raw_h2.Connection(self.stack.gateway.ports["h2c"])
        self.addCleanup(connection.socket.close)
        _, body = connection.reply(connection.headers(raw_h2.request("/v1/enroll", "POST", ("authorization", "Bearer " + token),
                                                                     ("walle-device", DEVICE))))
        credential = re.search(rb"wdt_[!-~]{43}", body).group().decode()
        asked = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]})
        url = f"http://127.0.0.1:{self.stack.gateway.ports['h2c']}/v2/models/relu/infer"
        said = [subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-o", os.devnull, "-w", "%{http_code} %header{retry-after}",
                                "-H", "walle-device: " + DEVICE, "-H", "walle-credential: " + credential, "-d", asked, url],
                               capture_output=True, text=True, check=True, timeout=60).stdout for _ in range(4)]
        self.assertEqual(said[:3], ["200 "] * 3)
        self.assertRegex(said[3], r"^429 \d+$")
        figures = self.figures()
        self.assertEqual((figures["charged"], figures["over_quota"]), (3, 1))

    def test_away_and_back(self):
        """A task goes on without a gateway, run after run, and asks again when there is one."""
        self.start()
        self.release(["relu"] * 2, every_s=1)
        device = self.device()
        wait_until(self.runs, what="a run")
        self.stack.gateway.kill()
        wait_until(lambda: self.runs()[-1] == ("ran", {"told": [["offline", None]] * 2, "choice": [False, "offline"]}),
                   what="a run without a gateway")
        self.stack.restart_gateway(*self.settings)
        wait_until(lambda: self.runs()[-1][1]["told"] == [["answered", ANSWER]] * 2, what="a run with one")
        self.assertTrue(all(outcome == "ran" for outcome, _ in self.runs()), self.runs())
        self.end(device)

    def test_a_lost_answer_is_charged_once(self):
        self.start()
        self.end_once(self.device("--once"))
        relay = Relay(self.stack.gateway.ports["tls"])
        self.addCleanup(relay.close)
        self.release(["relu"], deadline_ms=50000, every_s=1)
        device = self.device(port=relay.port)
        wait_until(self.runs, what="a run")
        relay.swallows = True
        before = self.figures()["charged"]
        wait_until(lambda: self.figures()["charged"] > before, what="a call whose answer is lost")
        relay.swallows = False  # before the next connection's handshake
        relay.cut()
        wait_until(lambda: self.figures()["kept"] + self.figures()["repeated"] > 0, what="the same call again")
        count = len(self.runs())
        wait_until(lambda: len(self.runs()) > count + 1, what="more runs")
        self.end(device)
        told = [why for _, result in self.runs() for why, _ in result["told"]]
        self.assertEqual(set(told), {"answered"})
        self.assertIn(self.figures()["charged"] - len(told), (0, 1))  # one may have been under way at the end

    def simulate(self, script, *arguments):
        """run.json of 60 virtual devices that run it, once each and more."""
        folder = self.stack.path(f"simulated{self.outputs}")
        self.outputs += 1
        os.makedirs(folder)
        for name, text in (("task.json", json.dumps({"name": TASK, "version": "1.0.0", "entry": "main", "files": ["main.py"], **declared(["relu"])})),
                           ("main.py", script)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", folder + ".build")
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", folder + ".build", "--devices", "60", "--no-live",
                              "--threads", "2", "--max-failure", "100%", "--out", folder + ".out", *arguments], capture_output=True, text=True,
                             timeout=300)
        with open(os.path.join(folder + ".out", "run.json"), encoding="utf-8") as file:
            return json.load(file), run.stdout + run.stderr

    def test_the_example_of_the_page(self):
        """VM.md's script, task.json and commands, as they stand there; then with a word more, that it was the cloud that answered."""
        with open(os.path.join(SOURCE, "docs", "VM.md"), encoding="utf-8") as page:
            part = page.read().split("## The module `walle.cloud`")[1].split("\n## ")[0]
        script, task, commands = (re.search(rf"```{kind}\n(.*?)```", part, re.S)[1] for kind in ("python", "json", "sh"))
        place, folder = self.stack.path("example"), self.stack.path("example", "classify")
        os.makedirs(folder)
        model = model_of(helper.make_graph([helper.make_node("Softmax", ["x"], ["scores"])], "soft",
                                           [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
                                           [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])]))
        save(model, os.path.join(place, "models"), "big")
        shutil.copy(os.path.join(place, "models", "big", "1", "model.onnx"), os.path.join(folder, "small.onnx"))
        environment = {**os.environ, "PATH": os.path.abspath(os.path.dirname(program("walle"))) + ":" + os.environ["PATH"]}
        for more in ("", "assert why == 'answered', why\n"):
            for name, text in (("task.json", task), ("classify.py", script + more)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            run = subprocess.run(["sh", "-ec", commands], cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn("20 ran, 0 failed", run.stdout)

    def test_in_the_simulator(self):
        """Virtual devices get what the engine computes; one that has no time for it is late; without --cloud-models none may call."""
        check = "from walle import cloud\ny = cloud.infer('relu', {'x': [[1, 2, 3]]}, %d, None)\nassert (y and y['y'].tolist(), cloud.why()) == %s, cloud.why()\n"
        answered = check % (500, ([ANSWER], "answered"))
        for script, arguments in ((answered, ("--cloud-models", self.models)),
                                  (check % (99, (None, "late")), ("--cloud-models", self.models, "--cloud-ms", "100")),
                                  (check % (99, (None, "not_allowed")), ())):
            result, said = self.simulate(script, *arguments)
            self.assertEqual((result["completed"], result["failed"]), (60, 0), said)
        result, said = self.simulate(answered)
        self.assertEqual(result["failed"], 60, said)

    def test_gateway_killed_during_calls(self):
        """Ten kills while a call runs that nothing else ends: each call ends within its deadline, each run ends well, and what the
        last gateway charged is what was asked of it."""
        self.start()
        self.release(["endless", "relu", "relu"], deadline_ms=15000, every_s=1)
        device = self.device()
        for _ in range(10):
            wait_until(lambda: 'walle_infer_running{model="endless",version="1"} 1' in self.stack.api("/metrics")[1], what="a call")
            count = len(self.runs())
            self.stack.gateway.kill()
            self.stack.restart_gateway(*self.settings)
            wait_until(lambda: len(self.runs()) > count, what="the run's end")
        self.end(device)
        for outcome, result in self.runs():
            self.assertEqual(outcome, "ran", result)
            for why, y in result["told"]:
                self.assertIn(why, ("answered", "offline", "late", "slow"))
                self.assertEqual(y, ANSWER if why == "answered" else None)
        figures = self.figures()
        self.assertEqual(figures["over_quota"], 0)
        self.assertLessEqual(figures["charged"], 3 * 2)  # of the run it met and of one more


if __name__ == "__main__":
    unittest.main()
