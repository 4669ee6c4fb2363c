"""Every program answers words that make no sense alike: exit status 2 and a line that names them on standard error; --help is no error."""
import os
import subprocess
import tempfile
import unittest

from walle_stack import BIN, program

WRONG = {
    "walle": (["--no-such-option"], ["no-such-command"], ["task", "no-such-command"], ["rollout", "start"]),
    "walle-gateway": (["--no-such-option"], ["a-word"], ["--workers", "many"], ["--set", "no.such = 1"], ["--config", "/no/such/file"]),
    "walle-infer": (["--no-such-option"], ["a-word"], [], ["--models", "m", "--threads", "many"]),
    "walle-store": (["--no-such-option"], ["no-such-command", "."], []),
    "walle-device": (["--no-such-option"], ["a-word"], []),
    "walle-engine": (["--no-such-option"], ["no-such-command"], []),
    "walle-fleet-sim": (["--no-such-option"], ["no-such-command"], ["run", "--no-such-option"], ["run", "--devices", "many"], ["tunnel", "--devices", "x"],
                        ["law"]),
}


# Programs of the tests take care of their words, too: a wrong one must not play nothing and say that all is well.
WRONG_SEEDS = (["--seeds", "40-1"], ["--seeds", "0-3"], ["--seeds", "x"], ["--seeds", "1-"], ["--calls", "abc"], ["--calls", "0"], ["--seeds", "1", "--devices", "3x"],
               ["--shrink", "-1"])


class Usage(unittest.TestCase):
    def run_in_scratch(self, name, arguments):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=60, cwd=folder, stdin=subprocess.DEVNULL)

    def test_wrong_words(self):
        for name, cases in WRONG.items():
            for arguments in cases:
                with self.subTest(program=name, arguments=arguments):
                    run = self.run_in_scratch(name, arguments)
                    self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                    self.assertNotEqual(run.stderr.strip(), "")

    def test_wrong_words_of_the_model(self):
        model = os.path.join(BIN, "..", "tests", "model_rollouts")
        if not os.path.exists(model):
            self.skipTest("built without tests")
        for arguments in WRONG_SEEDS:
            with self.subTest(arguments=arguments):
                run = subprocess.run([model, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertIn(f"'{arguments[-1]}' makes no sense there", run.stderr)

    def test_nearly_a_command(self):
        for arguments, meant, listed in ((["rolout", "start"], "did you mean 'walle rollout'?", "groups of commands: key root release task rollout "),
                                         (["rollout", "strat"], "did you mean 'walle rollout start'?", "  rollout start TASK"),
                                         (["xyzzy"], "no command group 'xyzzy'\n", "groups of commands: ")):
            with self.subTest(arguments=arguments):
                run = self.run_in_scratch("walle", arguments)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertIn(meant, run.stderr)
                self.assertIn(listed, run.stderr)
                self.assertNotIn("device enroll-token" if arguments[0] == "rollout" else "  rollout start", run.stderr)

    def test_help(self):
        for name in WRONG:
            with self.subTest(program=name):
                run = self.run_in_scratch(name, ["--help"])
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertIn("sage:", run.stdout)

    def test_output_that_is_lost(self):
        """A full disk behind standard output: no program says that all is well."""
        programs = {**dict.fromkeys(WRONG, 1), "walle": 5, "walle-fleet-sim": 4}
        cases = [(name, [word], status) for name, status in programs.items() for word in ("--help", "--version")]
        cases += [("walle", ["task", "--help"], 5), ("walle", ["task", "build", "--help"], 5), ("walle-task-runner", ["--version"], 1),
                  ("walle-gateway", ["--check-config"], 1), ("walle-load", ["--help"], 1)]
        for name, arguments, status in cases:
            with self.subTest(program=name, arguments=arguments), tempfile.TemporaryDirectory() as folder, open("/dev/full", "w") as full:
                run = subprocess.run([program(name), *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=folder,
                                     stdin=subprocess.DEVNULL)
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertRegex(run.stderr, f"^{name}[ a-z]*: standard output: cannot write\n$")

    def test_a_gateway_whose_lines_nobody_takes(self):
        """It serves all the same, says so, and ends well."""
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w") as full:
            gateway = subprocess.Popen([program("walle-gateway"), "--dir", "data", "--h2c", "127.0.0.1:0", "--tls", "none"], stdout=full,
                                       stderr=subprocess.PIPE, text=True, cwd=folder, stdin=subprocess.DEVNULL)
            said = next(line for line in gateway.stderr if "standard output" in line)
            self.assertIn("WARN gateway: standard output: cannot write", said)
            gateway.terminate()
            rest = gateway.communicate(timeout=60)[1]
            self.assertEqual(gateway.returncode, 0, rest)
            self.assertNotIn("cannot write", rest)


if __name__ == "__main__":
    unittest.main()
