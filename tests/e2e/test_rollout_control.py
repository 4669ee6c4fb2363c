"""Operating a rollout with real programs: approval, undo, kill, replay with what-if, and a gateway killed after every step.

A few walle-device agents with fixed ids; stages are chosen by audience, so that nothing is left to the draw of a salt.
"""
import json
import os
import re
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

DEVICES = {f"{index:016x}": {"os": "android", "ring": "early" if index % 2 else "late", "os_version": str(8 + index)} for index in range(1, 7)}
EARLY = [device for device, attrs in DEVICES.items() if attrs["ring"] == "early"]
STAGES = [{"name": "early", "kind": "beta", "audience": [{"attr": "ring", "op": "==", "value": "early"}], "min_sample": 3,
           "max_failure": 0.4},
          {"name": "full", "kind": "full", "min_sample": 3, "max_failure": 0.4}]


class Control(unittest.TestCase):
    def setUp(self):
        self.stacks = []
        self.stack = self.new_stack()

    def new_stack(self):
        stack = Stack()
        self.addCleanup(stack.__exit__)
        stack.start_gateway("--set", "rollout.tick_ms=20")
        stack.key = stack.path("key")
        stack.public = stack.walle("key", "new", "--out", stack.key).stdout.strip()
        return stack

    def push(self, stack, name):
        build = stack.path(name)
        stack.walle("task", "build", os.path.join(SOURCE, "conf/tasks", name), "--out", build)
        stack.walle("task", "push", build)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            return build, json.load(file)["manifest"]

    def start(self, stack, build, stages, *more):
        path = stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages, file)
        run = stack.walle("rollout", "start", "ipv", "--build", build, "--key", stack.key, "--stages", path, "-o", "json",
                          "--by", "ana", *more)
        return json.loads(run.stdout)["id"]

    def wake(self, stack, device, **more):
        arguments = [program("walle-device"), "--gateway", stack.gateway.url, "--enroll-token", stack.enroll_token, "--dir", stack.path("d" + device), "--id", device,
                     "--trust", stack.public, "--once"]
        for name, value in {**DEVICES[device], **more}.items():
            arguments += ["--attr", f"{name}={value}"]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        state = re.search(r"state ipv active ([0-9a-f]{64})", run.stdout + run.stderr)
        return state.group(1) if state else None

    def status(self, stack, rollout):
        return json.loads(stack.walle("rollout", "status", rollout, "-o", "json", check=False).stdout)

    def wait_for(self, stack, rollout, test, what):
        return wait_until(lambda: next((r for r in [self.status(stack, rollout)] if test(r)), None), what=what)

    def log(self, stack, rollout):
        return json.loads(stack.walle("rollout", "log", rollout, "--limit", "500", "-o", "json").stdout)["items"]

    def replay(self, stack, rollout, *options):
        run = stack.walle("rollout", "replay", rollout, "-o", "json", *options, check=False)
        return run.returncode, json.loads(run.stdout)

    def complete(self, stack, name="ipv", stages=STAGES):
        build, version = self.push(stack, name)
        rollout = self.start(stack, build, stages)
        for device in EARLY:
            self.wake(stack, device)
        self.wait_for(stack, rollout, lambda r: r["stage"]["index"] == 1, "the full stage")
        for device in DEVICES:
            self.assertEqual(self.wake(stack, device), version)
        self.wait_for(stack, rollout, lambda r: r["state"] == "completed", "completion")
        return rollout, version

    def test_approval_undo_and_kill(self):
        stack = self.stack
        first, v1 = self.complete(stack)
        build, v2 = self.push(stack, "ipv_v2")
        stages = [dict(STAGES[0]), dict(STAGES[1], approval=True, max_failure=1.0)]
        stages[0]["audience"] = [{"attr": "os_version", "op": ">=", "value": "12", "type": "version"}]
        rollout = self.start(stack, build, stages)
        new = [device for device, attrs in DEVICES.items() if int(attrs["os_version"]) >= 12]
        for device in new:
            self.assertEqual(self.wake(stack, device), v2)
        waiting = self.wait_for(stack, rollout, lambda r: r["state"] == "waiting_approval", "the approval to be due")
        self.assertEqual((waiting["created_by"], waiting["verdict"]), ("admin", "pass"))
        eve = stack.walle("token", "new", "--name", "eve", "--role", "approver").stdout.strip()
        for who, text in ((("--by", "ana"), "another person"), (("--by", "eve"), "another person"), (("--token", eve), None)):
            run = stack.walle("rollout", "approve", rollout, *who, check=False)
            self.assertEqual(run.returncode, 4 if text else 0, run.stderr)
            self.assertIn(text or "", run.stderr)
        run = stack.walle("rollout", "pause", rollout, "--if-revision", "1", check=False)
        self.assertEqual(run.returncode, 4)
        self.assertIn("if_revision", run.stderr)
        stack.walle("rollout", "promote", rollout, "--by", "eve")
        self.wait_for(stack, rollout, lambda r: r["state"] == "completed", "completion")
        stack.walle("rollout", "undo", rollout, "--reason", "sales fell")
        for device in new:
            self.assertEqual(self.wake(stack, device), v1)
        self.wait_for(stack, rollout, lambda r: r["state"] == "rolled_back", "the way back")
        self.assertEqual(json.loads(stack.walle("task", "get", "ipv").stdout)["baseline"]["manifest"], v1)
        stack.walle("rollout", "kill", rollout, "--reason", "leaks")
        self.assertTrue(self.status(stack, rollout)["killed"])
        again = stack.walle("rollout", "start", "ipv", "--build", build, "--key", stack.key, check=False)
        self.assertEqual(again.returncode, 4)
        self.assertIn("kill list", again.stderr)
        self.assertEqual(self.replay(stack, rollout)[0], 0)

    def test_replay_and_what_if(self):
        stack = self.stack
        rollout, _ = self.complete(stack)
        code, equal = self.replay(stack, rollout)
        self.assertEqual((code, equal["differences"], equal["what_if"]), (0, [], False))
        self.assertGreaterEqual(equal["decisions"], 3)  # start, advance, complete
        code, other = self.replay(stack, rollout, "--min-sample", "4")
        self.assertEqual((code, other["what_if"]), (0, True))
        difference = other["differences"][-1]
        self.assertEqual((difference["recorded_action"], difference["action"], difference["reason"]),
                         ("advance", "hold", "sample_too_small"))
        text = stack.walle("rollout", "replay", rollout, "--min-sample", "4").stdout
        self.assertIn("recorded advance", text)
        self.assertIn("what came after would not have happened so", text)

    def test_a_quarantine_is_replayed(self):
        """Devices of one model fail: it is held, and the log tells why, with these limits and with others."""
        stack = self.stack
        self.complete(stack)
        build, _ = self.push(stack, "ipv_v2")
        rollout = self.start(stack, build, [{"name": "full", "kind": "full", "min_sample": 400, "max_failure": 0.01}])
        for device in ("4", "5", "6", "1", "2"):  # of an os_version below 12, the last two
            self.wake(stack, device.rjust(16, "0"), model="SM-3" if device in "12" else "SM-1")
        held = "model=SM-3 os=android no app_version"
        self.wait_for(stack, rollout, lambda r: r["quarantine"] == [held], "the quarantine")
        line = next(line for line in self.log(stack, rollout) if line["kind"] == "quarantine")
        self.assertEqual([item["name"] for item in line["held"]], [held])
        self.assertEqual((line["what"], line["slices"]["count"]), ("quarantine", 2))
        code, equal = self.replay(stack, rollout)
        self.assertEqual((code, equal["differences"]), (0, []))
        self.assertEqual(equal["decisions"], 2)  # the start, and the quarantine
        code, other = self.replay(stack, rollout, "--threshold", "0.9")
        self.assertEqual((code, other["what_if"]), (0, True))
        difference = other["differences"][-1]
        self.assertEqual((difference["recorded_held"], difference["held"], difference["seq"]), ([held], [], line["seq"]))
        text = stack.walle("rollout", "replay", rollout, "--threshold", "0.9").stdout
        self.assertIn(f"recorded quarantine of {held}, replayed of nothing", text)
        stack.walle("rollout", "lift", rollout, "--segment", held)
        code, equal = self.replay(stack, rollout)
        self.assertEqual((code, equal["differences"]), (0, []))

    def test_start_says_what_it_cannot_see(self):
        build, _ = self.push(self.stack, "ipv")
        stages = [{"name": "gray-1", "kind": "gray", "percent": 1, "max_failure": 0.05}, {"name": "full", "kind": "full",
                                                                                          "max_failure": 0.05}]
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages, file)
        base = ["rollout", "start", "ipv", "--build", build, "--key", self.stack.key, "--stages", path, "--max-rise", "0.005"]
        for more, text in ((["--fleet", "50000"], "no stage before the full one can see"), ([], "--fleet N")):
            run = self.stack.walle(*base, *more, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn(text, run.stderr)
        run = self.stack.walle(*base, "--fleet", "50000", "--accept-power", "--no-start", "-o", "json")
        self.assertIn("stage gray-1 cannot see +0.5 points", run.stderr)
        created = json.loads(run.stdout)
        self.assertIsNone(created["power"])  # nothing is open yet
        stage = created["stages"][0]
        self.assertEqual((stage["rule"], stage["max_rise"], stage["control"]), ("sequential", 0.005, 1.0))
        run = self.stack.walle(*base, "--fleet", "50000", "--accept-power", "-o", "json")
        rollout = json.loads(run.stdout)["id"]
        power = self.status(self.stack, rollout)["power"]
        self.assertEqual((power["rise"], power["completed"], power["can_detect"], power["base_measured"]), (0.005, 0, False, False))
        line = "power: cannot see +0.5 points: the stage's 0 devices show no rise, if 0.5 % of control fail"
        for verb in ("status", "explain"):
            self.assertIn(line, self.stack.walle("rollout", verb, rollout).stdout)
        plan = self.stack.walle("rollout", "plan", "--max-rise", "0.05", "--fleet", "100000").stdout
        self.assertRegex(plan, r"to see \+5 points at stage gray-10 you need \d+ of its 10000 devices, about \d+ ")
        trial = [{"name": name, "kind": "gray", "percent": percent, "rule": "logrank", "control": percent, "max_rise": 0.05}
                 for name, percent in (("first", 1), ("second", 10))]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trial, file)
        plan = self.stack.walle("rollout", "plan", "--stages", path, "--fleet", "100000").stdout
        self.assertRegex(plan, r"to see \+5 points at stage first you need \d+ of its 1000 devices")
        self.assertRegex(plan, r"to see \+5 points at stage second you need \d+ of its 9000 devices")  # the first are compared no more

    # ---- Killed after every step

    def story(self, stack, kills):
        """A release that completes, and one that fails on old devices; SIGKILL and restart after every step when `kills`."""
        steps = 0

        def after_step(rollout, test, what):
            nonlocal steps
            self.wait_for(stack, rollout, test, what)
            steps += 1
            if kills:
                stack.gateway.kill()
                stack.restart_gateway("--set", "rollout.tick_ms=20")

        build, v1 = self.push(stack, "ipv")
        first = self.start(stack, build, STAGES)
        for count, device in enumerate(EARLY, 1):
            self.wake(stack, device)
            after_step(first, lambda r, n=count: r["counts"]["succeeded"] == n and
                       r["stage"]["index"] == (1 if n == len(EARLY) else 0), "a success, and the next stage after the last")
        stack.walle("rollout", "pause", first)
        after_step(first, lambda r: r["state"] == "paused", "the pause")
        stack.walle("rollout", "resume", first)
        after_step(first, lambda r: r["state"] == "running", "going on")
        for device in DEVICES:
            self.wake(stack, device)
            after_step(first, lambda r: True, "nothing")
        after_step(first, lambda r: r["state"] == "completed", "completion")
        build, _ = self.push(stack, "ipv_v2")
        old = [{"attr": "os_version", "op": "<", "value": "12", "type": "version"}]
        second = self.start(stack, build, [dict(STAGES[0], audience=old), STAGES[1]])
        for device, attrs in DEVICES.items():
            if int(attrs["os_version"]) < 12:
                self.wake(stack, device)
                after_step(second, lambda r: True, "nothing")
        after_step(second, lambda r: r["state"] == "rolled_back", "the way back")
        device = next(device for device, attrs in DEVICES.items() if int(attrs["os_version"]) < 12)
        why = stack.walle("device", "why", device, "--task", "ipv").stdout
        self.assertIn("so the baseline runs", why)
        self.assertRegex(why, r"fail_exception KeyError: \d+ \(features\.py:\d+( < \w+\.py:\d+)*\) \[[0-9a-f]{16}\]")
        causes = self.status(stack, second)["fingerprints"]
        self.assertRegex(causes[0]["detail"], r"^KeyError")  # also when the gateway was killed since
        keys = ("kind", "what", "state", "stage_index", "verdict", "reason")
        told = [[tuple(line[key] for key in keys) for line in self.log(stack, rollout) if line["kind"] not in ("observation", "slices")]
                for rollout in (first, second)]
        for rollout in (first, second):
            self.assertEqual(self.replay(stack, rollout)[0], 0)
        return told, steps

    def test_killed_after_every_step_it_decides_the_same(self):
        whole, _ = self.story(self.stack, kills=False)
        killed, steps = self.story(self.new_stack(), kills=True)
        self.assertEqual(killed, whole)
        self.assertGreaterEqual(steps, 15)
        print(f"killed {steps} times, {sum(map(len, whole))} decisions and commands, all the same")


if __name__ == "__main__":
    unittest.main(verbosity=2)
