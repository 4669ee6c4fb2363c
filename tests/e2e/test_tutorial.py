"""Runs the commands of docs/TUTORIAL.md from the page, in order, in one shell, on ports that are free."""
import os
import re
import signal
import socket
import subprocess
import tempfile
import shutil
import unittest

from walle_stack import BIN, SOURCE

TIMEOUT_S = 240


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def blocks(text):
    """(script, wanted exit status) of every block marked sh."""
    found = re.findall(r"^```sh(?: exit=(\d+))?\n(.*?)^```$", text, re.M | re.S)
    return [(script, int(status or 0)) for status, script in found]


class Tutorial(unittest.TestCase):
    def test_every_command_of_the_page(self):
        with open(os.path.join(SOURCE, "docs", "TUTORIAL.md"), encoding="utf-8") as file:
            page = file.read()
        parts = blocks(page)
        self.assertGreaterEqual(len(parts), 10)
        script = "set -o pipefail\ntrap 'trap - EXIT; kill 0' EXIT\n"
        for number, (part, wanted) in enumerate(parts):
            # A subshell would lose variables and jobs; a trap on errors tells which block.
            script += f"echo '== block {number}'\n"
            body = part if wanted else "set -e\n" + part + "set +e\n"
            script += body
            if wanted:
                script += f"status=$?; [ $status -eq {wanted} ] || {{ echo \"block {number}: exit $status, wanted {wanted}\"; exit 9; }}\n"
        script += "echo '== end'\n"
        for port in ("8443", "8080"):
            script = script.replace(port, str(free_port()))
        folder = tempfile.mkdtemp(prefix="walle-tutorial-")
        self.addCleanup(shutil.rmtree, folder, True)
        shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
                                 text=True, start_new_session=True,
                                 env={**os.environ, "PATH": os.path.abspath(BIN) + ":" + os.environ["PATH"], "HOME": folder})
        try:
            output, _ = shell.communicate(script, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            output, _ = shell.communicate()
            output += "\n(timed out)"
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        logs = ""
        for name in ("gateway.log", "fleet.log"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    logs += f"\n-- {name}\n" + file.read()[-2000:]
        self.assertIn("== end", output, output[-6000:] + logs)


if __name__ == "__main__":
    unittest.main()
