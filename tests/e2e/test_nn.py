"""A task with models on its whole way: built, run on this machine, simulated, released to a device and to a fleet. What the
model gives is compared with the ONNX project's own numbers for it, on every stop."""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from walle_stack import Stack, program, wait_until

DATA = os.path.join(os.environ.get("WALLE_ONNX_CASES", "/usr/share/libonnx-testdata/data"), "pytorch-converted", "test_Conv2d")
TASK = "shop/look"
DEVICE = "00000000000000a1"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 101, "min_dwell_s": 0, "max_failure": 0.05}]
# The check is in the script as well, so that a run with other numbers counts as failed wherever it is.
SCRIPT = """import binascii
import walle
from walle import nn

x = nn.tensor(binascii.a2b_base64(walle.config["x"]), walle.config["x_shape"])
want = nn.tensor(binascii.a2b_base64(walle.config["y"]))
model = nn.load("nets/look.onnx")
y = model(x)
worst = max(abs(a - b) for a, b in zip(y.reshape(-1), want))
assert worst <= {tolerance} and list(y.shape) == walle.config["y_shape"], (worst, y.shape)
walle.result({{"y": y.tolist(), "worst": worst}})
"""


def tensor_of(name):
    with open(os.path.join(DATA, "test_data_set_0", name), "rb") as file:
        return numpy_helper.to_array(TensorProto.FromString(file.read()))


class Models(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.x, self.y = tensor_of("input_0.pb"), tensor_of("output_0.pb")

    def build(self, version="1.0.0", tolerance="1e-5", script=SCRIPT, files=None, **more):
        source, build = self.stack.path("source" + version), self.stack.path("build" + version)
        os.makedirs(os.path.join(source, "nets"))
        shutil.copy(os.path.join(DATA, "model.onnx"), os.path.join(source, "nets", "look.onnx"))
        config = {"x": base64.b64encode(self.x.tobytes()).decode(), "x_shape": self.x.shape,
                  "y": base64.b64encode(self.y.tobytes()).decode(), "y_shape": self.y.shape}
        task = {"name": TASK, "version": version, "entry": "task", "config": config, "files": ["task.py", "nets/look.onnx"], **more}
        for name, content in {"task.json": json.dumps(task).encode(), "task.py": script.format(tolerance=tolerance).encode(),
                              **(files or {})}.items():
            path = os.path.join(source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        self.stack.walle("task", "build", source, "--out", build)
        return build

    def assert_reference(self, result):
        self.assertLess(numpy.abs(numpy.array(result["y"]) - self.y).max(), 1e-5)

    def simulate(self, build, code=0):
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", "200", "--no-live", "--threads", "2",
                              "--out", self.stack.path("sim")], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        with open(self.stack.path("sim", "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_built_run_and_simulated(self):
        build = self.build()
        run = json.loads(self.stack.walle("task", "run", build, "-o", "json").stdout)
        self.assertEqual(run["end"], "finished", run)
        self.assert_reference(run["result"])
        again = json.loads(self.stack.walle("task", "run", build, "-o", "json", "--repeat", "20").stdout)
        self.assertEqual((again["result"], again["instructions"]), (run["result"], run["instructions"]))
        result = self.simulate(build)
        self.assertEqual((result["completed"], result["failed"]), (200, 0))
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        # The same, wanting more than float32 gives: every device says so.
        build = self.build("1.0.1", tolerance="-1")
        failed = self.stack.walle("task", "run", build, check=False)
        self.assertEqual(failed.returncode, 1, failed.stdout)
        self.assertIn("AssertionError", failed.stdout)
        self.assertEqual(self.simulate(build, code=1)["failed"], 200)

    def test_released_to_a_device_and_a_fleet(self):
        self.stack.start_gateway("--set", "rollout.tick_ms=100")
        key = self.stack.path("key")
        public_key = self.stack.walle("key", "new", "--out", key).stdout.strip().splitlines()[-1]
        build = self.build()
        self.stack.walle("task", "push", build)
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        started = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", key, "--stages", self.stack.path("stages.json"),
                                   "-o", "json")
        rollout = json.loads(started.stdout)["id"]
        output = open(self.stack.path("device.out"), "w+", encoding="utf-8")
        self.addCleanup(output.close)
        device = self.stack.spawn(
            "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca", os.path.join(self.stack.gateway.folder, "cert.pem"),
            "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", public_key, "--checkin-interval", "1", stdout=output)

        def ran():
            with open(output.name, encoding="utf-8") as file:
                return re.search(rf"^task {TASK} [0-9a-f]{{64}} (\w+) \d+ us (.*)$", file.read(), re.M)
        line = wait_until(ran, what="the device's run")
        self.assertEqual(line.group(1), "ran", line.group(0))
        self.assert_reference(json.loads(line.group(2)))
        device.terminate()
        self.assertEqual(device.wait(60), 0)
        fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", "100", "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--trust", public_key,
                                 "--task", TASK, "--until-stopped", "--no-live", "--threads", "2", "--out", self.stack.path("fleet"), stdout=subprocess.DEVNULL)
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == "completed", what="the fleet's runs")
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]["succeeded"], 101)
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), 0)
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual([(v["ran"], v["failed"]) for v in result["versions"] if v["ran"]], [(100, 0)], result["versions"])

    def test_a_model_of_ones_own(self):
        """An exclusive file may be a model: its name in the script is the same for everybody who has one."""
        def scale(factor):
            node = helper.make_node("Mul", ["x", "f"], ["y"])
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                                      [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
                                      [numpy_helper.from_array(numpy.array([factor], numpy.float32), "f")])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
            model.ir_version = 8
            return model.SerializeToString()
        script = ("import walle\nfrom walle import nn\ntry:\n    own = nn.load('own.onnx')\nexcept OSError:\n    own = None\n"
                  "walle.result(own([1, 2]).tolist() if own else None)\n")
        build = self.build(script=script, exclusive={"path": "exclusive"},
                           files={f"exclusive/device/{DEVICE}/own.onnx": scale(3), "exclusive/user/ana/own.onnx": scale(5)})

        def result(*arguments):
            return json.loads(self.stack.walle("task", "run", build, "-o", "json", *arguments).stdout)["result"]
        self.assertEqual(result("--device", DEVICE), [3, 6])
        self.assertEqual(result("--user", "ana"), [5, 10])
        self.assertIsNone(result())
        simulated = self.simulate(build)
        self.assertEqual((simulated["completed"], simulated["failed"]), (200, 0))


if __name__ == "__main__":
    unittest.main()
