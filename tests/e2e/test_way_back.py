"""The newest completed version is killed after a bad one over it was aborted: real agents on which that failed go back to what was
before both, and what they report is no failure of the old release. Those on which it ran well are kept by its floor, and told of."""
import re
import unittest
from concurrent.futures import ThreadPoolExecutor

from rooted_agents import RootedAgents
from walle_stack import wait_until

TASK = "shop/score"
SCRIPT = "import walle\nwalle.result({})\n"
BAD = "import walle\nif walle.device.get('broken'):\n    raise RuntimeError('broken here')\nwalle.result(3)\n"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "max_failure": 1, "guard_s": 0}]
DEVICES = [(number, number % 2 == 0, number < 4) for number in range(1, 5)]  # id, has the root, B fails on it


class WayBack(RootedAgents):
    def wake(self, device):
        """The version that it runs when it has done what is to be done; None: nothing."""
        number, rooted, broken = device
        printed, _ = self.run_once(number, rooted, "--attr", "tier=a", *(("--attr", "broken=yes") if broken else ()))
        found = re.search(rf"^state {TASK} active ([0-9a-f]{{64}})", printed, re.M)
        return found.group(1) if found and set(found.group(1)) != {"0"} else None

    def settle(self, should):
        """Every device comes to the version that `should` says of it."""
        def come(device):
            seen = []
            for _ in range(6):
                seen.append(self.wake(device))
                if seen[-1] == should(device) and len(seen) > 1 and seen[-2] == seen[-1]:
                    return
            self.fail(f"device {device} ran {seen}, should run {should(device)}")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(come, DEVICES))

    def completed(self, number, target=None):
        rollout = self.stack.release(TASK, number, SCRIPT.format(number), FULL, target=target)
        manifest = self.view(rollout)["manifest"]
        self.settle(lambda _: manifest)
        wait_until(lambda: self.view(rollout)["state"] == "completed", what=f"version {number} is completed")
        return rollout, manifest

    def test_kill_behind_an_abort(self):
        old, first = self.completed(1)
        newest, second = self.completed(2)
        bad = self.stack.release(TASK, 3, BAD, [{**FULL[0], "min_sample": 1000}])
        third = self.view(bad)["manifest"]
        self.settle(lambda device: second if device[2] else third)
        said = self.stack.walle("rollout", "abort", bad, "--reason", "fails").stderr
        self.assertNotIn("warning", said, "what is left is not below a floor")
        self.settle(lambda _: second)
        said = self.stack.walle("rollout", "kill", newest, "--reason", "leaks").stderr
        self.assertRegex(said, rf"warning: 1 device on which rollout {bad} ran well follows nothing older than release 2 of {TASK}, and what is left is "
                               r"release 1: nothing of the task runs there until something newer is released\n  walle rollout start shop/score --version 1\.0\.1 ")
        said = self.stack.walle("release", "kill", third, "--reason", "fails", "-o", "json").stderr
        self.assertRegex(said, rf"warning: 1 device on which rollout {bad} ran well")
        self.settle(lambda device: first if device[2] else None)
        counts = self.view(old)["counts"]
        self.assertEqual((counts["succeeded"], counts["failed"]), (len(DEVICES), 0), "whom its floor keeps off is no failure of what is older")
        self.assertIsNone(self.view(old)["late"])
        for number, _, broken in DEVICES:
            why = self.stack.api(f"/api/v1/devices/{number:016x}/why?task={self.stack.quoted(TASK)}")[1]
            self.assertEqual((why["should_rollout"], why["floor"]), (old if broken else None, 1 if broken else 2), why)
        again = self.stack.walle("rollout", "start", TASK, "--version", "1.0.1", "--key", self.stack.path("release.key"), "--stages",
                                 self.stack.path("stages.json")).stdout
        self.assertRegex(again, r"^[0-9a-f]{16}")
        self.settle(lambda _: first)

    def test_the_only_baseline_goes(self):
        """A kill and an undo say why, and tell of the devices that are left with nothing."""
        rollout, manifest = self.completed(1)
        for command in ("kill", "undo"):
            for reason in ((), ("--reason", " ")):
                run = self.stack.walle("rollout", command, rollout, *reason, check=False)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn("--reason TEXT is missing", run.stderr)
        self.assertEqual(self.view(rollout)["state"], "completed")
        nothing = rf"warning: no completed release of {TASK} is left: nothing of the task runs on the {len(DEVICES)} devices on which rollout {rollout} ran well"
        self.assertRegex(self.stack.walle("rollout", "undo", rollout, "--reason", "sales fell").stderr, nothing)
        self.settle(lambda _: None)
        self.assertRegex(self.stack.walle("release", "kill", manifest, "--reason", "leaks").stderr, nothing)
        self.assertEqual(self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}")[1]["floored"],
                         {"rollout": rollout, "floor": 0, "baseline": None, "devices": len(DEVICES), "untargeted": 0, "open": 0})

    def test_what_is_left_is_for_others(self):
        """An undo tells of the devices that are in the target of no baseline; a later way back does not tell of them again."""
        self.stack.release(TASK, 1, SCRIPT.format(1), FULL, target='broken == "yes"', more=("--accept-empty",))
        first = self.stack.api("/api/v1/rollouts?limit=1")[1]["items"][0]
        self.settle(lambda device: first["manifest"] if device[2] else None)
        wait_until(lambda: self.view(first["id"])["state"] == "completed", what="version 1 is completed")
        second, _ = self.completed(2, 'tier == "a"')
        self.run_once(9, False)  # neither is for it, and it is not told of
        mine = len([device for device in DEVICES if not device[2]])
        said = self.stack.walle("rollout", "undo", second, "--reason", "sales fell").stderr
        self.assertRegex(said, rf"warning: {mine} known device of {TASK} that rollout {second} is for is in the target of no completed release that is left: nothing of "
                               "the task runs there until something newer is released")
        self.settle(lambda device: first["manifest"] if device[2] else None)
        floored = self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}?rollout={second}")[1]["floored"]
        self.assertEqual(floored, {"rollout": second, "floor": 1, "baseline": 1, "devices": 0, "untargeted": mine, "open": 0})
        for number, target in ((3, 'broken == "yes"'), (4, None)):  # nobody lost anything by these
            never = self.stack.release(TASK, number, BAD, [{**FULL[0], "min_sample": 1000}], target=target)
            self.assertEqual(self.stack.walle("rollout", "abort", never, "--reason", "fails").stderr, "")
        for query, status in ((f"rollout={second}x", 400), ("rollout=", 400), ("other=1", 400), ("rollout=" + "0" * 16, 200), ("rollout=" + "f" * 16, 404)):
            self.assertEqual(self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}?{query}")[0], status, query)

    def test_an_older_way_back_is_not_told_again(self):
        first, _ = self.completed(1)
        self.assertIn("warning: no completed release", self.stack.walle("rollout", "undo", first, "--reason", "sales fell").stderr)
        self.settle(lambda _: None)
        second = self.stack.release(TASK, 2, BAD, [{**FULL[0], "min_sample": 1000}])
        self.assertEqual(self.stack.walle("rollout", "abort", second, "--reason", "fails").stderr, "")


if __name__ == "__main__":
    unittest.main()
