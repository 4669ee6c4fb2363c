"""Runs the commands of a page, in order, in one shell, in an empty folder, on ports that are free."""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from walle_stack import BIN, SOURCE

TIMEOUT_S = 500


def free_ports(count):
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def blocks(text):
    """(script, wanted exit status) of every block marked sh."""
    found = re.findall(r"^```sh(?: exit=(\d+))?\n(.*?)^```$", text, re.M | re.S)
    return [(script, int(status or 0)) for status, script in found]


def script_of(parts):
    script = "set -o pipefail\ntrap 'trap - EXIT; kill 0' EXIT\n"
    for number, (part, wanted) in enumerate(parts):
        # A subshell would lose variables and jobs; a trap on errors tells which block.
        script += f"echo '== block {number}'\n"
        script += part if wanted else "set -e\n" + part + "set +e\n"
        if wanted:
            script += f"status=$?; [ $status -eq {wanted} ] || {{ echo \"block {number}: exit $status, wanted {wanted}\"; exit 9; }}\n"
    return script + "echo '== end'\n"


def outputs(output):
    """What each block said, of what run_page returned."""
    return re.split(r"== (?:block \d+|end)\n", output)[1:]


def last_words(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return f"\n-- {os.path.basename(path)}\n" + file.read()[-2000:]
    except OSError:
        return ""


def run_page(test, *names, least):
    """Every block of the page marked sh ends as it says, or `test` fails. `least`: blocks there must be."""
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as file:
        parts = blocks(file.read())
    test.assertGreaterEqual(len(parts), least)
    script = script_of(parts)
    for port, free in zip(("8443", "8080"), free_ports(2)):
        script = script.replace(port, str(free))
    folder = tempfile.mkdtemp(prefix="walle-page-")
    test.addCleanup(shutil.rmtree, folder, True)
    shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
                             text=True, start_new_session=True,
                             env={**os.environ, "PATH": os.path.abspath(BIN) + ":" + os.environ["PATH"], "HOME": folder,
                                  "WALLE": os.path.abspath(SOURCE)})
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
    logs = "".join(last_words(os.path.join(folder, name)) for name in ("gateway.log", "fleet.log"))
    test.assertIn("== end", output, output[-6000:] + logs)
    return output
