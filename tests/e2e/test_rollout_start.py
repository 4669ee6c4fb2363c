"""`walle rollout start`: drawn up anew while another rollout of the task is made, and which release may follow it."""
import os
import subprocess
import time
import unittest

from walle_stack import Stack

TASK = "shop/score"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1}]
SCRIPT = "import walle\nwalle.result(1)\n"


class RolloutStart(unittest.TestCase):
    def test_another_rollout_comes_in_between(self):
        with Stack() as stack:
            stack.start_gateway()
            stack.release(TASK, 1, SCRIPT, STAGES)
            with open(stack.path("release.key"), "rb") as file:
                key = file.read()
            os.mkfifo(stack.path("slow.key"))
            child = stack.spawn("walle", "rollout", "start", TASK, "--accept-empty", "--gateway", stack.gateway.url, "--build", stack.path("build1"), "--key",
                                stack.path("slow.key"), "--stages", stack.path("stages.json"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
            with open(stack.path("slow.key"), "wb") as file:  # it has asked for the task, and waits for its key
                second = stack.release(TASK, 2, SCRIPT, STAGES)
                file.write(key)
            said = [child.stderr.readline(), child.stderr.readline()]
            self.assertIn("drawn up anew", said[1], said)
            with open(stack.path("slow.key"), "wb") as file:
                file.write(key)
            out, more = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, more)
            third = out.split()[0]
            counters = {name: stack.api("/api/v1/rollouts/" + name)[1]["release_counter"] for name in (second, third)}
            self.assertGreater(counters[third], counters[second])

    def test_what_may_follow(self):
        with Stack() as stack:
            stack.start_gateway("--set", "rollout.tick_ms=50")
            full = [{**STAGES[0], "max_failure": 1}]

            def start(number, *more):
                rollout = stack.release(TASK, number, SCRIPT, full, more=("--trust-unproven", *more))
                view = stack.api("/api/v1/rollouts/" + rollout)[1]
                return rollout, view["release_counter"], view["floor"]

            def complete(rollout):
                device = stack.spawn("walle-device", "--gateway", stack.gateway.url, "--dir", stack.path("device"), "--id", "00000000000000f1",
                                     "--trust", stack.path("release.key.pub"), "--once", stdout=subprocess.DEVNULL)
                self.assertEqual(device.wait(60), 0)
                for _ in range(3000):
                    if stack.api("/api/v1/rollouts/" + rollout)[1]["state"] == "completed":
                        return
                    time.sleep(0.02)
                self.fail(f"rollout {rollout} did not complete")

            first = start(1)
            self.assertEqual(first[1:], (1, 0))  # nothing was released before
            complete(first[0])
            second = start(2)
            self.assertEqual(second[1:], (2, 1))  # the baseline
            complete(second[0])
            third = start(3, "--floor", "1.0.1")  # further back
            self.assertEqual(third[1:], (3, 1))
            fourth = start(4, "--floor", "1.0.4")  # not back at all
            self.assertEqual(fourth[1:], (4, 4))
            for version in ("1.0.3", "7.0.0"):  # open, and unknown
                with self.assertRaises(AssertionError) as caught:
                    start(10 + int(version[0]) + int(version[-1]), "--floor", version)
                self.assertIn("never released", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
