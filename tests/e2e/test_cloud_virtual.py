"""Calls of models in the cloud in virtual time: they take an instance's time, queue, meet the device's quota and are counted, the
same with any number of threads. A rule that sends everything is stopped by its stage, without a socket and in seconds."""
import json
import os
import re
import subprocess
import unittest

from test_inference import relu_model, save
from walle_stack import Stack, program

DEVICES = 300
CALLS = {"good": 10, "bad": 40}  # of a run: forty inputs, confidences of 0.0125 to 0.9875
SCRIPT = """import walle
from walle import cloud
rule = walle.config["rule"]
for i in range(40):
    ask, why = cloud.decide((i * 7 % 40 + .5) / 40, rule, model="relu")
    if ask and cloud.infer("relu", {"x": [[1, 2, 3]]}, 4000, None):
        cloud.agreed(True)
walle.result({"why": cloud.why()})
"""
LEAVES = {"infer": {"relu": {"inputs": {"x": {"dtype": "FP32", "max_elements": 3}}}}}
STAGES = [{"name": "gray", "kind": "gray", "percent": 20, "min_sample": 20, "min_dwell_s": 60, "max_failure": 0.05, "max_sent": 0.4},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 5, "max_failure": 0.05, "max_sent": 0.4}]


class CloudVirtual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = stack = Stack()
        cls.addClassCleanup(stack.__exit__, None, None, None)
        gateway = stack.start_gateway()
        os.mkdir(stack.path("models"))
        save(relu_model(), stack.path("models"), "relu", "1")
        stack.walle("key", "new", "--out", stack.path("key"))
        stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("key"), "--release", stack.path("key.pub"))
        stack.walle("root", "push", stack.path("root.1"))
        with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        for name, threshold in (("good", 0.25), ("bad", 1.5)):
            cls.start(name, threshold)
        assert gateway.stop() == 0

    @classmethod
    def start(cls, name, threshold):
        source = cls.stack.path(name)
        os.mkdir(source)
        task = {"name": "shop/" + name, "version": "1.0.0", "entry": "rule", "time_ms": 60000, "leaves": LEAVES,
                "config": {"rule": {"threshold": threshold, "deadline_ms": 4000}}, "files": ["rule.py"]}
        for file_name, text in (("task.json", json.dumps(task)), ("rule.py", SCRIPT)):
            with open(os.path.join(source, file_name), "w", encoding="utf-8") as file:
                file.write(text)
        build = cls.stack.path("build-" + name)
        cls.stack.walle("task", "build", source, "--out", build)
        cls.stack.walle("task", "push", build)
        cls.stack.walle("rollout", "start", "shop/" + name, "--build", build, "--stages", cls.stack.path("stages.json"), "--key",
                        cls.stack.path("key"), "--accept-empty")

    def run_fleet(self, out, task, *options, status=(0,)):
        run = subprocess.run([program("walle-fleet-sim"), "run", "--virtual", self.stack.path("gateway"), "--root", self.stack.path("root.1"),
                              "--devices", str(DEVICES), "--tasks", "2", "--task", task, "--cloud-models", self.stack.path("models"),
                              "--duration", "3600", "--no-live", "--out", self.stack.path(out), *options],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
        text = run.stdout + run.stderr
        self.assertIn(run.returncode, status, text[-3000:])
        if not os.path.exists(self.stack.path(out, "run.json")):
            return text
        with open(self.stack.path(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        cloud = result["cloud"]
        self.assertEqual(cloud["asked"], cloud["kept"] + cloud["sent"], cloud)
        self.assertEqual(cloud["sent"], cloud["answered"] + cloud["late"] + cloud["refused"], cloud)
        self.assertEqual(result["latency_us"]["cloud"]["count"], cloud["answered"])
        self.assertRegex(text, rf"(?m)^  cloud +{cloud['asked']} calls, {cloud['sent']} sent: {cloud['answered']} answered \(p50 ")
        return result

    def test_a_rule_that_sends_everything_is_stopped(self):
        result = self.run_fleet("bad", "shop/bad", status=(0, 1))
        rollout = result["rollouts"][0]
        self.assertEqual((rollout["task"], rollout["state"]), ("shop/bad", "rolled_back"), result["rollouts"])
        self.assertLessEqual(result["versions"][0]["ran"], DEVICES * 0.4)
        self.assertLess(result["virtual"]["took_s"], result["duration_s"])

    def test_one_that_keeps_to_the_limits_goes_to_everybody_and_waits_for_nobody(self):
        result = self.run_fleet("good", "shop/good", "--threshold", "cloud_p99<=61ms", "--threshold", "cloud_sent>=3000")
        self.assertEqual((result["rollouts"][0]["state"], result["versions"][0]["ran"]), ("completed", DEVICES))
        self.assertEqual((result["cloud"]["waited"], result["cloud"]["served_us"], result["cloud"]["refused"]), (0, 0, 0))
        self.assertEqual(result["cloud"]["answered"] % 10, 0)  # of good ones ten calls each, of bad ones forty

    def test_calls_queue_the_same_with_any_number_of_threads(self):
        load = ("--cloud-load", "service_ms=50,queue=20,relu.instances=2", "--arrival-rate", "300")
        runs = [self.run_fleet(f"threads-{threads}", "shop/good", "--threads", str(threads), *load, status=(0, 1)) for threads in (1, 2)]
        cloud = runs[0]["cloud"]
        self.assertGreater(cloud["waited"], 0)
        self.assertGreater(cloud["busy"], 0)
        self.assertEqual(cloud["served_us"], 50000 * (cloud["answered"] + cloud["late"]))
        self.assertGreater(runs[0]["latency_us"]["cloud"]["p99"], 100000)
        self.assertLess(runs[0]["latency_us"]["cloud"]["max"], 60000 + 20 * 50000 // 2 + 2000)  # the queue is full then
        for part in ("cloud", "latency_us", "totals", "versions", "duration_s"):
            self.assertEqual(runs[1][part], runs[0][part], part)
        self.assertEqual(runs[1]["virtual"]["digest"], runs[0]["virtual"]["digest"])

    def test_a_device_has_its_quota(self):
        result = self.run_fleet("quota", "shop/good", "--cloud-load", "per_min=4", status=(0, 1))
        cloud = result["cloud"]
        self.assertEqual(cloud["over_quota"], cloud["refused"])
        self.assertGreater(cloud["over_quota"], cloud["answered"])
        self.assertLess(cloud["answered"], cloud["sent"] / 2)

    def test_words_that_are_none(self):
        for words in ("service_ms=fast", "big.service_ms=1"):
            text = self.run_fleet("words", "shop/good", "--cloud-load", words, status=(2, 4))
            self.assertIn(f'--cloud-load: "{words}" is none of', re.sub(r"\s+", " ", text))


if __name__ == "__main__":
    unittest.main(verbosity=2)
