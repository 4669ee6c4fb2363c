"""The rule between device and cloud is released in stages: a threshold that sends everything is stopped by what devices tell of
their decisions, one that keeps to the limits goes to everybody. Virtual devices over real sockets, and real agents whose calls the
gateway answers."""
import json
import os
import signal
import socket
import subprocess
import unittest

from test_inference import relu_model, save
from walle_stack import Stack, wait_until

DEVICES = 200
TASK = "shop/rule"
# 40 inputs with confidences of 0.0125 to 0.9875 in some order; the cloud's answer is the device's own for most of them.
SCRIPT = """import walle
from walle import cloud
rule = walle.config["rule"]
for i in range(40):
    confidence = (i * 7 % 40 + .5) / 40
    ask, why = cloud.decide(confidence, rule, model="relu")
    if ask and cloud.infer("relu", {"x": [[1, 2, 3]]}, 20000, None):
        cloud.agreed(i % 8 != 0)
walle.result({"why": cloud.why()})
"""
FULL = {"name": "full", "kind": "full", "min_sample": 80, "min_dwell_s": 0, "max_failure": 0.05}
GRAY = {"name": "gray", "kind": "gray", "percent": 40, "min_sample": 40, "min_dwell_s": 1, "max_failure": 0.05}
LEAVES = {"infer": {"relu": {"inputs": {"x": {"dtype": "FP32", "max_elements": 3}}}}}


class RuleStages(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.models = self.stack.path("models")
        os.mkdir(self.models)
        save(relu_model(), self.models, "relu", "1")
        self.public_key = None

    def start(self, *more):
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100",
                                 "--set", f"infer.models={self.models}", "--set", "infer.access=token", *more)
        self.public_key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def spawn_agent(self, number, *more):
        output = open(self.stack.path(f"device{number}.out"), "wb")
        self.addCleanup(output.close)
        self.stack.spawn(
            "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca",
            os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", self.stack.path(f"device{number}"), "--id", f"{0xa0 + number:016x}",
            "--trust", self.public_key, "--checkin-interval", "1", "--retry-base", "50", *more, stdout=output, stderr=subprocess.STDOUT)

    def build(self, version, threshold, leaves=LEAVES):
        folder = self.stack.path("source" + version)
        os.mkdir(folder)
        task = {"name": TASK, "version": version, "entry": "rule", "time_ms": 60000, "leaves": LEAVES,
                "config": {"rule": {"threshold": threshold, "deadline_ms": 20000}}, "files": ["rule.py"]}
        if leaves is None:
            del task["leaves"]
        for name, text in (("task.json", json.dumps(task)), ("rule.py", SCRIPT)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        out = self.stack.path("build" + version)
        self.stack.walle("task", "build", folder, "--out", out)
        return out

    def release(self, version, threshold, *stages, leaves=LEAVES):
        out = self.build(version, threshold, leaves)
        self.stack.walle("task", "push", out)
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(list(stages), file)
        run = self.stack.walle("rollout", "start", TASK, "--build", out, "--key", self.stack.path("key"), "--stages", path, "-o", "json")
        return json.loads(run.stdout)["id"]

    def await_state(self, rollout, wanted):
        def look():
            status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
            return state if status == 200 and state["state"] in ("completed", "rolled_back", "paused") else None
        state = wait_until(look, timeout_s=240, what=f"{wanted}: {self.stack.api(f'/api/v1/rollouts/{rollout}')[1]}")
        self.assertEqual(state["state"], wanted, state)
        return state

    def test_a_fleet_over_sockets(self):
        self.start()
        log = open(self.stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        fleet = self.stack.spawn(
            "walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token,
            "--trust", self.public_key, "--task", TASK, "--until-stopped", "--no-live", "--threads", "2", "--hints", "--per-carrier", "100",
            "--checkin-interval", "2", "--cloud-models", self.models, "--cloud-ms", "60", "--out", self.stack.path("fleet"), stdout=log,
            stderr=subprocess.STDOUT)
        limits = {"max_sent": 0.4, "min_agreed": 0.6, "max_cloud_ms": 200}
        first = self.release("1.0.0", 0.25, dict(FULL, **limits))  # a quarter is sent
        state = self.await_state(first, "completed")
        self.assertEqual((state["counts"]["succeeded"], state["counts"]["failed"]), (DEVICES, 0))
        self.assertEqual(state["stages"][0]["max_sent"], 0.4)
        self.assertIn("\nOf each device's decisions at most 40 % are sent to the cloud (max_sent), at least 60 % of the answers are its own "
                      "(min_agreed), 95 % of the answers take at most 200 ms (max_cloud_ms)\n", self.stack.walle("rollout", "explain", first).stdout)

        second = self.release("2.0.0", 1.5, dict(GRAY, **limits), dict(FULL, **limits))  # everything is
        state = self.await_state(second, "rolled_back")
        self.assertEqual(state["stage"]["name"], "gray")
        self.assertLessEqual(state["counts"]["activated"], DEVICES * 0.6)
        self.assertEqual(state["fingerprints"][0]["kind"], "fail_cloud")
        self.assertIn("max_sent", state["fingerprints"][0]["detail"])

        third = self.release("3.0.0", 0.3, dict(GRAY, max_cloud_ms=50), FULL)  # answers take 60 ms, in the step up to 100
        state = self.await_state(third, "rolled_back")
        self.assertIn("max_cloud_ms", state["fingerprints"][0]["detail"])

        fourth = self.release("4.0.0", 0.8, dict(GRAY, min_agreed=0.99), FULL)
        state = self.await_state(fourth, "rolled_back")
        self.assertIn("min_agreed", state["fingerprints"][0]["detail"])

        fifth = self.release("5.0.0", 0.3, dict(GRAY, **limits), dict(FULL, **limits))
        state = self.await_state(fifth, "completed")
        self.assertEqual(state["stages"][-1]["counts"]["failed"], 0)
        fleet.send_signal(signal.SIGTERM)
        fleet.wait(60)

    def test_agents_whose_calls_the_gateway_answers(self):
        self.start()
        for number in range(3):
            self.spawn_agent(number)
        few = {"min_sample": 3, "max_failure": 0.1, "max_sent": 0.4}
        first = self.release("1.0.0", 0.25, dict(FULL, **few))
        self.await_state(first, "completed")
        device = json.loads(self.stack.walle("device", "get", f"{0xa0:016x}", "-o", "json").stdout)
        figures = device["outcomes"][0]["figures"]
        self.assertEqual((figures["cloud_asked"], figures["cloud_sent"], figures["cloud_answered"]), (40, 10, 10))
        self.assertGreaterEqual(figures["cloud_differed"], 1)
        second = self.release("2.0.0", 1.5, dict(FULL, **few))
        state = self.await_state(second, "rolled_back")
        self.assertEqual(state["fingerprints"][0]["kind"], "fail_cloud")

    def test_a_device_that_wants_to_be_told_what_may_leave(self):
        """--leaves-required: a version that does not say it is not for this device, and the gateway hears so; one that does runs."""
        self.start()
        for number, more in ((0, ["--leaves-required"]), (1, [])):
            self.spawn_agent(number, *more)
        whole = dict(FULL, min_sample=1, max_failure=0.1)
        first = self.release("1.0.0", 0.25, whole, leaves=None)

        def told(number, rollout):
            status, device = self.stack.api(f"/api/v1/devices/{0xa0 + number:016x}")
            return [outcome["last"] for outcome in device["outcomes"] if outcome["rollout"] == rollout] if status == 200 else []

        wait_until(lambda: told(0, first) == ["not_applicable"] and told(1, first) == ["ran"], timeout_s=120,
                   what=f"a refusal and a run: {told(0, first)}, {told(1, first)}")
        state = self.await_state(first, "completed")
        self.assertEqual((state["counts"]["succeeded"], state["counts"]["failed"]), (1, 0))
        second = self.release("2.0.0", 0.25, dict(whole, min_sample=2))
        self.await_state(second, "completed")
        self.assertEqual(told(0, second) + told(1, second), ["ran", "ran"])
        self.assertEqual(told(0, first), ["not_applicable"])

    def test_on_this_machine_before_a_release(self):
        """`walle task run` asks the gateway that --gateway names, and is offline without."""
        self.start()
        out = self.build("1.0.0", 0.25)
        run = self.stack.walle("task", "run", out, "--device", "00000000000000b1", "--gateway", self.stack.gateway.url)
        self.assertIn('"why":"answered"', run.stdout.replace(" ", ""))
        self.assertIn('walle_infer_device_calls_total{let="charged"} 10', self.stack.api("/metrics")[1])
        run = self.stack.walle("task", "run", out)
        self.assertIn('"why":null', run.stdout.replace(" ", ""))  # decide() knows it before a call

    def test_a_gateway_that_says_nothing_is_late(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        folder = self.stack.path("source")
        os.mkdir(folder)
        for name, text in (("task.json", json.dumps({"name": TASK, "version": "1.0.0", "entry": "ask", "leaves": LEAVES, "files": ["ask.py"]})),
                           ("ask.py", 'import walle\nfrom walle import cloud\n'
                                      'cloud.infer("relu", {"x": [[1, 2, 3]]}, 300, None)\nwalle.result({"why": cloud.why()})\n')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        out = self.stack.path("asks")
        self.stack.walle("task", "build", folder, "--out", out)
        run = self.stack.walle("task", "run", out, "--gateway", f"http://127.0.0.1:{silent.getsockname()[1]}")
        self.assertIn('"why":"late"', run.stdout.replace(" ", ""))
        run = self.stack.walle("task", "run", out, "--gateway", "localhost:8000", check=False)
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("--gateway takes a URL like https://HOST:PORT, not 'localhost:8000'", run.stderr)

    def test_a_gateway_without_models_says_so(self):
        self.stack.start_gateway()
        folder = self.stack.path("source")
        os.mkdir(folder)
        for name, text in (("task.json", json.dumps({"name": TASK, "version": "1.0.0", "entry": "ask", "files": ["ask.py"],
                                                     "leaves": {"infer": {"nosuch": {"inputs": {"x": {"dtype": "FP32", "max_elements": 3}},
                                                                                     "per_day": 9}}}})),
                           ("ask.py", 'from walle import cloud\ncloud.infer("nosuch", {"x": [[1, 2, 3]]}, 900)\n')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        run = self.stack.walle("task", "run", folder, "--gateway", self.stack.gateway.url, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stdout + run.stderr, r"walle\.cloud: failed: nosuch: the gateway answers 404: .*infer")

    def test_the_plan_tells_the_limits(self):
        self.start()
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump([dict(GRAY, max_sent=0.35, max_cloud_ms=200), dict(GRAY, name="more", percent=60, min_agreed=0.6), FULL], file)
        text = self.stack.walle("rollout", "plan", "--stages", path).stdout
        self.assertIn("of each device's decisions at most 35 % are sent to the cloud (max_sent), 95 % of the answers take at most 200 ms "
                      "(max_cloud_ms)\n", text)
        self.assertIn("of each device's decisions at least 60 % of the answers are its own (min_agreed)\n", text)
        self.assertEqual(text.count("of each device's decisions"), 2)

    def test_limits_that_make_no_sense(self):
        self.start()
        for limits, text in (({"max_sent": 1.1}, "max_sent"), ({"min_agreed": -1}, "min_agreed"), ({"max_cloud_ms": 2000}, "max_cloud_ms")):
            path = self.stack.path("stages.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump([dict(FULL, **limits)], file)
            run = self.stack.walle("rollout", "plan", "--stages", path, check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
