"""What tests with real agents share: a gateway that ticks fast and has a root, and agents of which some are born with that root and
others with the release key alone."""
import subprocess
import unittest

from walle_stack import Stack, program


class RootedAgents(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=50", "--set", "device.checkin_interval_s=10")
        path, walle = self.stack.path, self.stack.walle
        for name in ("a", "release"):
            walle("key", "new", "--out", path(name + ".key"))
        walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--release", path("release.key.pub"))
        walle("root", "push", path("root.1"))

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def command(self, number, rooted, *more, once=True):
        """The command line of an agent."""
        trust = ("--root", self.stack.path("root.1")) if rooted else ("--trust", self.stack.path("release.key.pub"))
        return [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                self.stack.path(f"d{number:016x}"), "--id", f"{number:016x}", *trust, *(("--once",) if once else ()), *more]

    def run_once(self, number, rooted, *more):
        """Lets an agent do what is to be done: (what it printed, what it said)."""
        run = subprocess.run(self.command(number, rooted, *more), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout, run.stderr
