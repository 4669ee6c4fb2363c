"""kill -9 of walle-device at random moments of a pull and an activation, 50 times, against a real gateway over TLS.

After every kill: each name under blobs/ stands for whole content with that SHA-256. At the next start the device
goes on by Range from where it was. What it runs is always whole. In the end it runs the right version, and keeps the
one before.
"""
import glob
import json
import os
import random
import re
import socket
import subprocess
import threading
import time
import unittest

from walle_stack import Stack, program, sha256_of, wait_until

KILLS = 50
DATA_BYTES = 3_000_000
RATE = 8_000_000  # bytes a second through the relay
CHUNK = 32_768
RUN_MS = 60_000  # however slow the machine is, no run ends for that
DEVICE = "0123456789abcdef"
TASK = "kill/score"
SCRIPT = "import walle\nwalle.result(walle.config['n'])\n"
# A kill during the first run looks like a crash of the version and is reported as one: here it must not end the rollout.
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 1}]


class Relay:
    """Passes connections on to a port of this machine, no faster than RATE from there to here."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near, far):
        with near, far:
            up = threading.Thread(target=self._copy, args=(near, far, False), daemon=True)
            up.start()
            self._copy(far, near, True)
            up.join()

    @staticmethod
    def _copy(source, sink, slow):
        due = time.monotonic()
        try:
            while data := source.recv(CHUNK):
                sink.sendall(data)
                due = max(due, time.monotonic()) + len(data) / RATE
                if slow:
                    time.sleep(max(0, due - time.monotonic()))
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class DeviceKill(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("WALLE_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {self.seed}", flush=True)
        self.random = random.Random(self.seed)
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.relay = Relay(self.stack.gateway.ports["tls"])
        self.addCleanup(self.relay.close)
        self.key = self.stack.path("release.key")
        self.stack.walle("key", "new", "--out", self.key)
        self.stages = self.stack.path("stages.json")
        with open(self.stages, "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        self.dir = self.stack.path("device")
        self.versions = {}  # manifest -> names and sizes of its content
        self.resumed = 0  # runs that went on with a partial file
        self.late_kills = 0  # with everything pulled: during or after the activation

    def release(self, number):
        """Builds, pushes and rolls out version `number`; returns (manifest, rollout id)."""
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": TASK, "version": f"1.0.{number}", "entry": "task", "config": {"n": number},
                       "time_ms": RUN_MS, "files": ["task.py", "data.bin"]}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        with open(os.path.join(source, "data.bin"), "wb") as file:
            file.write(self.random.randbytes(DATA_BYTES))
        self.stack.walle("task", "build", source, "--out", build)
        manifest = sha256_of(os.path.join(build, "manifest"))
        self.versions[manifest] = {os.path.basename(path): os.path.getsize(path)
                                   for path in glob.glob(os.path.join(build, "blobs", "*"))}
        self.versions[manifest][manifest] = os.path.getsize(os.path.join(build, "manifest"))
        self.stack.walle("task", "push", build)
        run = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.key,
                               "--stages", self.stages, "--trust-unproven")
        return manifest, re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    def device(self):
        return subprocess.Popen(
            [program("walle-device"), "--gateway", f"https://127.0.0.1:{self.relay.port}",
             "--ca", os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", self.dir, "--id", DEVICE,
             "--attr", "os=android", "--trust", self.key + ".pub", "--crash-limit", "100", "--once"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stored(self, folder):
        """Names and sizes. What a device that runs seals or collects while we look is left out."""
        path, found = os.path.join(self.dir, folder), {}
        for name in os.listdir(path) if os.path.isdir(path) else ():
            try:
                found[name] = os.path.getsize(os.path.join(path, name))
            except FileNotFoundError:
                pass
        return found

    def check_content(self):
        for name in self.stored("blobs"):
            self.assertEqual(sha256_of(os.path.join(self.dir, "blobs", name)), name, "unverified content was sealed")

    def check_runs(self, output):
        """Every run the device told of was of a version whose content lies there whole."""
        blobs = self.stored("blobs")
        for line in output.splitlines():
            found = re.match(r"task (\S+) ([0-9a-f]{64}) (\w+)", line)
            if found:
                self.assertEqual(found.group(1), TASK)
                self.assertEqual(found.group(3), "ran", line)
                self.assertIn(found.group(2), self.versions)
                for name in self.versions[found.group(2)]:
                    self.assertIn(name, blobs, "ran an incomplete version")

    def check_progress(self, manifest, before):
        """What was there of a file is never thrown away: the next run goes on behind it."""
        partial, blobs = self.stored("partial"), self.stored("blobs")
        for name, size in before.items():
            if name in self.versions[manifest]:
                now = blobs.get(name, partial.get(name, 0))
                self.assertGreaterEqual(now, size, "a partial file was started anew")
                self.resumed += 1 if now > size else 0

    def wait_sealed(self, child, manifest):
        """Waits until all content of the version is sealed, or the device ended."""
        names = self.versions[manifest]
        path = os.path.join(self.dir, "blobs")
        while child.poll() is None and not all(os.path.exists(os.path.join(path, name)) for name in names):
            time.sleep(0.0005)

    def wait_pulled(self, child, size):
        """Waits until so much lies in partial files, or one was sealed, or the device ended."""
        sealed = set(self.stored("blobs"))
        while child.poll() is None and set(self.stored("blobs")) == sealed and sum(self.stored("partial").values()) < size:
            time.sleep(0.0005)

    def kill_once(self, manifest):
        """Starts the device and kills it at a random moment. False: it was done before that."""
        left = sum(size for name, size in self.versions[manifest].items() if name not in self.stored("blobs"))
        left -= sum(self.stored("partial").values())
        whole_s = 0.05 + max(left, 0) / RATE
        partial = self.stored("partial")
        activation = left > 0 and self.random.random() < 0.15  # else: some moment of the pull, or of what is around it
        delay_s = self.random.uniform(0, 0.012 if activation else whole_s)
        child = self.device()
        if activation:
            self.wait_sealed(child, manifest)
        elif left > 0 and self.random.random() < 0.4:  # some moment of the pull, however long the start takes
            self.wait_pulled(child, sum(partial.values()) + self.random.randrange(left))
            delay_s = 0.001
        try:
            child.wait(delay_s)
        except subprocess.TimeoutExpired:
            pass
        killed = child.poll() is None
        if killed:
            child.kill()
        output, errors = child.communicate()
        if not killed:
            self.assertEqual(child.returncode, 0, errors)
        self.check_content()
        self.check_runs(output)
        self.check_progress(manifest, partial)
        if killed and all(name in self.stored("blobs") for name in self.versions[manifest]):
            self.late_kills += 1
        return killed

    def finish(self, manifest):
        """Lets the device come to rest; returns the version it keeps beside the active one."""
        partial = self.stored("partial")
        left = sum(size for name, size in self.versions[manifest].items() if name not in self.stored("blobs"))
        kept = sum(size for name, size in partial.items() if name in self.versions[manifest])
        child = self.device()
        output, errors = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 0, errors)
        self.check_content()
        self.check_runs(output)
        state = re.search(r"^state (\S+) active ([0-9a-f]{64}) previous ([0-9a-f]{64})( on-trial)?$", output, re.M)
        self.assertIsNotNone(state, output + errors)
        self.assertEqual(state.group(2), manifest, output + errors)
        self.assertIsNone(state.group(4), "still on trial")
        fetched = re.search(r"pulls \d+ \((\d+) bytes, (\d+) resumed\)", errors)
        self.assertEqual(int(fetched.group(1)), left - kept, "fetched what was there already")
        self.assertEqual(int(fetched.group(2)), kept)
        self.check_progress(manifest, partial)
        return state.group(3)

    def test_killed_fifty_times(self):
        kills, number, before = 0, 0, "0" * 64
        while kills < KILLS:
            manifest, rollout = self.release(number)
            kills_before = kills
            while kills < KILLS and kills - kills_before < 12 and self.kill_once(manifest):
                kills += 1
            self.assertEqual(self.finish(manifest), before, "the last good version was not kept")
            self.assertEqual(set(self.stored("blobs")),
                             set(self.versions[manifest]) | set(self.versions.get(before, {})), "garbage, or a loss")
            wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1].get("state") == "completed", 60,
                       "the rollout to complete")
            before = manifest
            number += 1
        print(f"{kills} kills over {number} versions, {self.late_kills} with all pulled, "
              f"{self.resumed} times resumed", flush=True)
        self.assertGreater(self.resumed, 0)


if __name__ == "__main__":
    unittest.main()
