"""Control devices of a stage, as real agents: each runs once more what it has, for the rollout and for nobody else; a failure there
takes nothing from it, and neither does a kill."""
import re
import signal
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from rooted_agents import RootedAgents
from walle_stack import wait_until

TASK = "shop/score"
SCRIPT = "import walle\nif walle.device.get('broken'):\n    raise RuntimeError('broken here')\nwalle.result({})\n"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "max_failure": 1}]
TRIAL = [{"name": "gray", "kind": "gray", "percent": 50, "control": 50, "rule": "logrank", "max_rise": 0.5, "alpha": 0.01, "max_failure": 0.9,
          "min_sample": 1000, "window_s": 600}, {"name": "full", "kind": "full", "min_sample": 1000, "max_failure": 1}]
EACH = 2  # devices of each cohort born with a root, and as many with a pinned key
MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Agents(RootedAgents):
    def await_view(self, rollout, what, test):
        """The rollout's view once the test holds."""
        seen = []

        def look():
            seen[:] = [self.view(rollout)]
            return test(seen[0])
        try:
            wait_until(look, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen[0]['counts']} {seen[0]['trial']}") from error
        return seen[0]

    def wake(self, device, *more):
        """Lets it do what is to be done: (results of its runs, version it has, one before, what it says)."""
        printed, said = self.run_once(*device, *more)
        found = re.search(rf"^state {TASK} active ([0-9a-f]{{64}}) previous ([0-9a-f]{{64}})", printed, re.M)
        return re.findall(r" ran \d+ us (.*)$", printed, re.M), *(found.groups() if found else (None, None)), said

    @staticmethod
    def each(look, devices):
        """What `look` says of every device, several at a time."""
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(look, devices))

    def settle(self, device, *more):
        """Until a wake has nothing to do: the results of all runs, and what it has in the end."""
        results = []
        for _ in range(6):
            ran, active, before, said = self.wake(device, *more)
            results += ran
            if not ran and "failures 0" in said:
                return results, active, before
        raise AssertionError(f"it does not settle: {results}")

    def release_both(self):
        """Version 1 on both cohorts' devices, and a trial of version 2 that is open: the trial's id, and the devices of each."""
        first = self.stack.release(TASK, 1, SCRIPT.format(1), FULL)
        trial = self.stack.release(TASK, 2, SCRIPT.format(2), TRIAL, more=("--no-start", "--accept-power"))
        salt = mix(int(self.view(trial)["salt"], 16))
        updated, control, number = [], [], 0
        while min(len(updated), len(control)) < 2 * EACH:
            number += 1
            cohort = updated if (mix(mix(number) ^ salt) * 10000 >> 64) < 5000 else control
            if len(cohort) < 2 * EACH:
                cohort.append((mix(number), len(cohort) % 2 == 0))
        one = self.view(first)["manifest"]
        for ran, active, _ in self.each(self.settle, updated + control):
            self.assertEqual((ran, active), (["1"], one))
        self.await_view(first, "version 1 everywhere", lambda view: view["state"] == "completed" and view["counts"]["succeeded"] == 4 * EACH)
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{trial}/start", "POST")[0], 200)
        return first, trial, updated, control

    def test_control_runs_what_it_has(self):
        first, trial, updated, control = self.release_both()
        one, two = (self.view(rollout)["manifest"] for rollout in (first, trial))
        for seen in self.each(self.settle, updated):
            self.assertEqual(seen, (["2"], two, one))
        for ran, active, before, said in self.each(self.wake, control):
            self.assertEqual((ran, active, before), (["1"], one, "0" * 64), said)
            self.assertEqual(re.search(r"pulls \d+ \((\d+) bytes", said).group(1), "0", "nothing is downloaded")
        for ran, *_ in self.each(self.wake, control):
            self.assertEqual(ran, [], "a mark is followed once")
        view = self.await_view(trial, "both cohorts' successes", lambda view: all(
            view["trial"][cohort]["succeeded"] == 2 * EACH for cohort in ("updated", "control")))
        counts, control_seen = view["counts"], view["trial"]["control"]
        self.assertEqual((counts["offered"], counts["downloaded"], counts["activated"], counts["succeeded"]), (2 * EACH,) * 4)
        self.assertEqual((counts["control_offered"], counts["control_activated"], counts["control_failed"]), (2 * EACH, 2 * EACH, 0))
        self.assertEqual((control_seen["offered"], control_seen["failed"], control_seen["unanswered"]), (2 * EACH, 0, 0))
        self.assertTrue(view["trial"]["placebo"] and view["trial"]["compares"])
        why = self.stack.walle("device", "why", f"{control[0][0]:016x}", "--task", TASK).stdout
        self.assertIn("should run 1.0.1 of shop/score: the rollout that it follows, ", why)
        self.assertIn(", has it for control, which keeps what it has", why)
        self.assertIn("control (told to run what it has once more)", why)
        said = self.stack.walle("rollout", "status", trial).stdout
        self.assertIn(f"trial, control (offered what it has): {2 * EACH} offered, 0 failed, {2 * EACH} ok, 0 in their window, 0 not heard of in it", said)
        self.assertEqual(self.view(first)["counts"]["succeeded"], 4 * EACH, "it is the trial's run, not the first rollout's")

    def test_a_failure_of_control_takes_nothing(self):
        first, trial, _, control = self.release_both()
        one = self.view(first)["manifest"]
        for ran, active, before, said in self.each(lambda device: self.wake(device, "--attr", "broken=yes"), control):
            self.assertEqual((ran, active, before), ([], one, "0" * 64), said)
            self.assertRegex(said, r"failures 1, rollbacks 0")
        view = self.await_view(trial, "its failures", lambda view: view["trial"]["control"]["failed"] == 2 * EACH)
        self.assertEqual((view["counts"]["failed"], view["counts"]["control_failed"]), (0, 2 * EACH))
        self.assertEqual(self.view(first)["counts"]["failed"], 0)
        for _, active, *_ in self.each(self.wake, control):
            self.assertEqual(active, one, "nothing was blocked")

    def test_a_kill_is_an_answer_and_no_second_mark(self):
        first, trial, _, control = self.release_both()
        one = self.view(first)["manifest"]
        for device in control:
            child = self.stack.spawn_path(*self.command(*device, once=False), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            line = child.stdout.readline()
            while " ran " not in line:
                line = child.stdout.readline()
            child.send_signal(signal.SIGKILL)  # at the end of its run: to the next boot a crash, unless that end was saved
            child.wait()
            child.stdout.close()
        for _, active, before, said in self.each(self.wake, control):
            self.assertEqual((active, before), (one, "0" * 64), said)
        for ran, active, *_ in self.each(self.wake, control):
            self.assertEqual((ran, active), ([], one), "the mark was followed")
        view = self.await_view(trial, "their answers", lambda view: view["trial"]["control"]["under_way"] == 0)
        seen = view["trial"]["control"]
        self.assertEqual((seen["offered"], seen["failed"] + seen["succeeded"]), (2 * EACH, 2 * EACH), seen)
        self.assertEqual(view["counts"]["failed"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
