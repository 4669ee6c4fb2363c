"""`walle rollout start` while another rollout of the task is made: the draft is drawn up anew."""
import os
import subprocess
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
            child = stack.spawn("walle", "rollout", "start", TASK, "--gateway", stack.gateway.url, "--build", stack.path("build1"), "--key",
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


if __name__ == "__main__":
    unittest.main()
