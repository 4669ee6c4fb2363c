"""Real programs for end-to-end tests: a gateway in a scratch folder, the operator's command, devices and fleets.

    with Stack() as stack:
        stack.start_gateway()
        stack.walle("task", "push", ...)

The programs come from $WALLE_BIN (set by ctest). Everything started is killed and removed at the end.
"""
import atexit
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse

from raw_h2 import Connection, DATA, END_HEADERS, END_STREAM, request

BIN = os.environ.get("WALLE_BIN", "build/dev/bin")
SOURCE = os.environ.get("WALLE_SOURCE", os.getcwd())
START_TIMEOUT_S = 60

# Where gateways leave word for `walle`: not in the home of who runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="walle-e2e-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def program(name):
    return os.path.join(BIN, name)


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def wait_until(condition, timeout_s=60, what="condition"):
    """Polls until condition() is true; returns its value. The deadline is generous: it only ends a hang."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {timeout_s} s waiting for {what}")
        time.sleep(0.02)


class Gateway:
    """A running walle-gateway. `h2c` and `tls` are (host, port)."""

    def __init__(self, folder, arguments=(), h2c_port=0, tls_port=0):
        self.folder = folder
        self.log_path = folder + ".log"
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [program("walle-gateway"), "--dir", folder, "--h2c", f"127.0.0.1:{h2c_port}",
             "--tls", f"127.0.0.1:{tls_port}", *arguments],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports = {}
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(self.ports) < 2:
            line = self.process.stdout.readline()
            if not line or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("gateway did not start: " + self.log_text())
            found = re.match(r"listening (\w+) ([\d.]+):(\d+)", line)
            if found:
                self.ports[found.group(1)] = int(found.group(3))
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self):
        for _ in self.process.stdout:
            pass

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports['h2c']}"

    @property
    def tls_url(self):
        return f"https://127.0.0.1:{self.ports['tls']}"

    @property
    def pid(self):
        return self.process.pid

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-400000:]

    def kill(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()

    def stop(self, timeout_s=60):
        """Graceful end; returns the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout_s)


class Stack:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="walle-e2e-")
        self.gateway = None
        self.children = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        if self.gateway:
            self.gateway.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    @property
    def enroll_token(self):
        """The file with the enrolment token that the gateway made at its first start."""
        return self.path("gateway", "enroll.token")

    @property
    def admin_token(self):
        """The text of the administrator's token that the gateway made at its first start; empty: it made none."""
        try:
            with open(self.path("gateway", "admin.token"), encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""

    @property
    def bearer(self):
        """The header that shows it, or the one that walle was given, as curl wants it."""
        return f"authorization: Bearer {os.environ.get('WALLE_TOKEN') or self.admin_token}"

    def secret(self, name, text):
        """A file that only its owner reads, as secrets are."""
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        return self.path(name)

    def start_gateway(self, *arguments, h2c_port=0, tls_port=0):
        self.gateway = Gateway(self.path("gateway"), arguments, h2c_port, tls_port)
        return self.gateway

    def restart_gateway(self, *arguments):
        """A new process on the same data folder and the same ports."""
        ports = self.gateway.ports
        return self.start_gateway(*arguments, h2c_port=ports["h2c"], tls_port=ports["tls"])

    def start_hasty_gateway(self, again=False):
        """One that judges and is asked often; `again`: a new process, as restart_gateway."""
        arguments = [word for setting in ("rollout.tick_ms=50", "device.checkin_interval_s=1") for word in ("--set", setting)]
        return (self.restart_gateway if again else self.start_gateway)(*arguments)

    def start_rooted_gateway(self):
        """A hasty one, of a fleet that was born with root.1: root.key signs roots, release.key releases."""
        self.start_hasty_gateway()
        for name in ("root.key", "release.key"):
            self.walle("key", "new", "--out", self.path(name))
        self.walle("root", "init", "--out", self.path("root.1"), "--key", self.path("root.key"), "--release", self.path("release.key.pub"))
        self.walle("root", "push", self.path("root.1"))

    def post(self, path, device, *headers, body=b""):
        """A request of a device, its number in walle-device: (status, body)."""
        with Connection(self.gateway.ports["h2c"]) as connection:
            stream = connection.headers(request(path, "POST", ("walle-device", f"{device:016x}"), *headers),
                                        END_HEADERS if body else END_HEADERS | END_STREAM)
            if body:
                connection.frame(DATA, END_STREAM, stream, body)
            return connection.reply(stream)

    def enrol(self, devices):
        """Enrols devices by their numbers, with a token of their own: {number: credential}."""
        token = self.walle("device", "enroll-token", "--name", "some").stdout.strip()
        found = {}
        for device in devices:
            status, body = self.post("/v1/enroll", device, ("authorization", "Bearer " + token))
            if status != 201 or struct.unpack_from("<Q", body, 1)[0] != device:
                raise AssertionError(f"device {device}: {status} {body!r}")
            found[device] = body[10:].decode()
        return found

    def walle(self, *arguments, check=True, timeout_s=120, reaching=False):
        """Runs walle. Rollouts of tests mostly start before the first device comes; `reaching`: not this one. And devices of tests
        may never answer: a rollout is not guarded unless it says so."""
        if arguments[:2] in (("rollout", "start"), ("rollout", "submit")) and not reaching:
            arguments = (*arguments, "--accept-empty")
        if arguments[:2] == ("rollout", "start") and "--guard" not in arguments:
            arguments = (*arguments, "--guard", "0")
        run = subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=timeout_s,
                             stdin=subprocess.DEVNULL,
                             env={**os.environ, "WALLE_GATEWAY": self.gateway.url if self.gateway else ""})
        if check and run.returncode != 0:
            raise AssertionError(f"walle {' '.join(arguments)}: exit {run.returncode}\n{run.stdout}{run.stderr}")
        return run

    def spawn_path(self, *command, **options):
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self.children.append(child)
        return child

    def release(self, task, number, script, stages, data=None, target=None, more=()):
        """Builds version 1.0.NUMBER of a task with one script and perhaps one data file (name, bytes), pushes it and starts a
        rollout signed with release.key, which is drawn when it is not there, and `more` options. Returns the rollout's id."""
        source, build, key = self.path(f"source{number}"), self.path(f"build{number}"), self.path("release.key")
        files = {"task.py": script.encode(), **(dict([data]) if data else {})}
        listed = ["task.py"] + ([{"name": data[0], "kind": "data"}] if data else [])
        files["task.json"] = json.dumps({"name": task, "version": f"1.0.{number}", "entry": "task", "files": listed}).encode()
        files["../stages.json"] = json.dumps(stages).encode()
        os.mkdir(source)
        for name, content in files.items():
            with open(os.path.join(source, name), "wb") as file:
                file.write(content)
        if not os.path.exists(key):
            self.walle("key", "new", "--out", key)
        self.walle("task", "build", source, "--out", build)
        self.walle("task", "push", build)
        run = self.walle("rollout", "start", task, "--build", build, "--key", key, "--stages", self.path("stages.json"),
                         *(("--target", target) if target else ()), *more)
        return re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    def release_to_all(self, name, script, key, **task):
        """Builds version 1.0.0 of a task with this one script and the fields `task` in its task.json, pushes it and starts a rollout to
        everybody, signed with the file `key`."""
        folder = self.path(name)
        os.makedirs(folder)
        fields = {"name": name, "version": "1.0.0", "entry": "main", "files": ["main.py"], **task}
        stages = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
        for file_name, text in (("task.json", json.dumps(fields)), ("main.py", script), ("stages", json.dumps(stages))):
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
                file.write(text)
        self.walle("task", "build", folder, "--out", folder + ".build")
        self.walle("task", "push", folder + ".build")
        self.walle("rollout", "start", name, "--build", folder + ".build", "--key", key, "--stages", os.path.join(folder, "stages"))

    def exported(self):
        """All rows of the tunnel so far: an export goes on where the last one ended."""
        path = self.path("records.jsonl")
        self.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def spawn(self, name, *arguments, **options):
        child = subprocess.Popen([program(name), *arguments], stdin=subprocess.DEVNULL, **options)
        self.children.append(child)
        return child

    def api(self, path, method="GET", body=None):
        """A request with curl over HTTP/2; returns (status, decoded JSON or text)."""
        command = ["curl", "-sS", "--http2-prior-knowledge", "-X", method, "-w", "\n%{http_code}", "--max-time", "30",
                   "-H", self.bearer, self.gateway.url + path]
        if method == "POST" or body is not None:
            command += ["-H", "content-type: application/json", "--data-binary", json.dumps(body if body is not None else {})]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if run.returncode != 0:
            raise AssertionError(f"curl {path}: {run.stderr}")
        text, _, status = run.stdout.rpartition("\n")
        try:
            return int(status), json.loads(text)
        except json.JSONDecodeError:
            return int(status), text

    @staticmethod
    def quoted(name):
        return urllib.parse.quote(name, safe="")
