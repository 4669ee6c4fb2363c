"""Every program answers words that make no sense alike: exit status 2 and a line that names them on standard error; --help is no error."""
import subprocess
import tempfile
import unittest

from walle_stack import program

WRONG = {
    "walle": (["--no-such-option"], ["no-such-command"], ["task", "no-such-command"], ["rollout", "start"]),
    "walle-gateway": (["--no-such-option"], ["a-word"], ["--workers", "many"], ["--set", "no.such = 1"], ["--config", "/no/such/file"]),
    "walle-store": (["--no-such-option"], ["no-such-command", "."], []),
    "walle-device": (["--no-such-option"], ["a-word"], []),
    "walle-engine": (["--no-such-option"], ["no-such-command"], []),
    "walle-fleet-sim": (["--no-such-option"], ["no-such-command"], ["run", "--no-such-option"], ["run", "--devices", "many"], ["tunnel", "--devices", "x"],
                        ["law"]),
}


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

    def test_help(self):
        for name in WRONG:
            with self.subTest(program=name):
                run = self.run_in_scratch(name, ["--help"])
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertIn("sage:", run.stdout)


if __name__ == "__main__":
    unittest.main()
