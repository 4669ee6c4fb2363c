"""A plan with a simulation beside it: its stages on a gateway of its own, whose gates are those that ship, and virtual devices like
those of a real gateway. Nobody signs anything for it, and no gateway is touched."""
import json
import os
import subprocess
import tempfile
import unittest

from fleet_folder import TASK, FleetFolder
from walle_stack import Stack, program, sha256_of

STAGES = [{"name": "try", "kind": "simulate", "min_sample": 100},
          {"name": "gray", "kind": "gray", "percent": 20, "min_sample": 20, "min_dwell_s": 60, "max_failure": 0.05},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 40, "min_dwell_s": 30, "max_failure": 0.05}]


def sums(folder):
    return {os.path.join(at, name): sha256_of(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names}


class PlanSimulate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.folder = FleetFolder(cls.stack)
        cls.folder.release("1.0.0")
        run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", cls.folder.gateway.url, "--root", cls.stack.path("root.1"),
                              "--devices", "40", "--arrival-rate", "20", "--duration", "5", "--no-live", "--enroll-token",
                              cls.stack.path("gateway", "enroll.token"), "--out", cls.stack.path("fleet")],
                             capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert os.path.exists(cls.stack.path("fleet", "run.json")), run.stdout + run.stderr
        cls.temporary = tempfile.mkdtemp(prefix="walle-e2e-plan-")
        cls.addClassCleanup(os.rmdir, cls.temporary)  # nothing may be left in it
        with open(cls.stack.path("plan.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        cls.busy = cls.plan("--dir", cls.stack.path("gateway"), status=5)
        cls.folder.stop()

    @classmethod
    def plan(cls, *arguments, status=0, build="build-1.0.0"):
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = cls.temporary
        try:
            run = cls.stack.walle("rollout", "plan", TASK, "--build", cls.stack.path(build), "--stages", cls.stack.path("plan.json"),
                                  "--simulate", "--fleet", "400", *arguments, check=False)
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before
        assert run.returncode == status, f"{run.returncode}: {run.stdout}{run.stderr}"
        return run.stdout + run.stderr

    def population(self):
        path = self.stack.path("population.conf")
        with open(os.path.join(os.environ.get("WALLE_SOURCE", os.getcwd()), "conf", "populations", "cheap-phones.conf"),
                  encoding="utf-8") as source, open(path, "w", encoding="utf-8") as file:
            file.write(source.read())
        return path

    def test_stages_take_their_time_and_bad_releases_are_stopped(self):
        before = sums(self.stack.path("gateway"))
        text = self.plan("--dir", self.stack.path("gateway"), "-o", "json")
        found = json.loads(text[text.index("{"):text.rindex("}") + 1])["simulation"]
        self.assertEqual((found["devices"], found["runs"]), (400, 5))
        stages = {stage["name"]: stage for stage in found["stages"]}
        self.assertEqual(list(stages), ["gray", "full"])  # what is played beforehand is no stage of it
        self.assertEqual(stages["gray"]["took_s"]["runs"], 5)
        self.assertGreaterEqual(stages["gray"]["took_s"]["least"], 60)
        self.assertGreaterEqual(stages["full"]["took_s"]["least"], 29)
        for figure in (stages["gray"]["took_s"], found["passed_s"]):
            self.assertTrue(figure["least"] <= figure["middle"] <= figure["most"], figure)
        self.assertGreaterEqual(found["passed_s"]["least"], 89)
        good, everywhere, tenth = found["releases"]
        self.assertIsNone(good["stopped_s"])
        self.assertEqual((everywhere["stopped_s"]["runs"], tenth["key"]), (5, "bad_on_a_tenth"))
        # A fifth of the fleet is asked to take it, and it is stopped long before.
        self.assertLess(everywhere["reached"]["most"], 400 / 5)
        self.assertGreater(everywhere["reached"]["least"], 0)
        self.assertLess(everywhere["reached"]["middle"], tenth["reached"]["middle"])
        self.assertEqual(sums(self.stack.path("gateway")), before)

    def test_it_is_said_for_people(self):
        text = self.plan("--population", self.population())
        self.assertRegex(text, r"simulating a good release on 400 virtual devices, 5 times\n(  run [1-5] of 5: passed after \d+ s\n){5}")
        self.assertRegex(text, r"a release that fails on every device .*\n(  run [1-5] of 5: stopped after \d+ s\n){5}")
        self.assertRegex(text, r"(?s)simulated 5 times on 400 virtual devices like those of .*\n  gray +begins at \d+ s \(\d+ to \d+\), takes "
                               r"\d+ s .*\n  all passed after \d+ s")
        self.assertRegex(text, r"a good release: stopped in 0 of 5 runs\n")
        self.assertRegex(text, r"a release that fails on every device: stopped in 5 of 5 runs, after \d+ s \(\d+ to \d+\); devices that "
                               r"took it: \d+ \(\d+ to \d+\), \d+\.\d % at most")

    def test_a_plan_that_cannot_pass_is_not_played(self):
        for change, said in (({"min_sample": 300}, "the plan cannot pass on 400 devices: the stage gray waits for 300, and about 80 enter it; --fleet"),
                             ({"percent": 100, "min_sample": 401}, "gray waits for 401, and about 400 enter it"),
                             ({"percent": 99}, "full waits for 40, and about 4 enter it")):
            path = self.stack.path("starving.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump([STAGES[0], STAGES[1] | change, STAGES[2]], file)
            text = self.plan("--population", self.population(), "--stages", path, status=2)
            self.assertIn(said, text)
            self.assertNotIn("simulating", text)

    def test_the_first_run_that_waits_is_the_last(self):
        text = self.plan("--population", self.population(), "--target", 'os == "symbian"', status=2)
        self.assertRegex(text, r"the plan does not pass on 400 devices: after 14670 s a good release still waits in gray; ")

    def test_what_is_missing_is_said(self):
        for words, status, said in (((), 2, "--simulate needs either --dir DIR"),
                                    (("--dir", "nowhere"), 5, "nowhere: no folder of a gateway on this machine"),
                                    (("--population", self.stack.path("gateway")), 5, "no population file on this machine"),
                                    (("--dir", self.stack.path("source")), 5, "--dir: walle-fleet-sim population: "),
                                    (("--fleet", "0", "--population", self.population()), 2, "fleet")):
            self.assertIn(said, self.plan(*words, status=status))
        self.assertIn("the plan cannot be simulated", self.plan("--population", self.population(), build="source", status=5))
        run = self.stack.walle("rollout", "plan", "--simulate", "--population", self.population(), check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("TASK and --build DIR are needed", run.stderr)
        self.assertRegex(self.busy, "--dir: .*gateway")


if __name__ == "__main__":
    unittest.main()
