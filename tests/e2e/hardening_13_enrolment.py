"""Enrolment is the way in: a gateway makes a token at its first start, a device enrols with it at its own and its reports count; without
one it is served, says once that nothing it reports counts, and does not. And a fleet that enrolled goes through its stages while
10,000 invented devices report that everything fails."""
import itertools
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import unittest

from raw_device import Requests, hexa, metrics, report
from raw_h2 import DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, Connection, request
from walle_stack import SOURCE, Stack, program, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile.invented_reports import DEVICES, attack  # noqa: E402
from hostile.target import Target  # noqa: E402

SCRIPT = "import walle\nwalle.result(1)\n"
FLEET = 30
STAGES = [{"name": "gray", "kind": "gray", "percent": 50, "min_sample": 5, "max_failure": 0},
          {"name": "full", "kind": "full", "min_sample": 5, "max_failure": 0}]
UNPROVEN = "not enrolled: no gate counts what this device reports"


class Enrolment(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.start()

    def start(self, again=False):
        arguments = [word for setting in ("rollout.tick_ms=50", "device.checkin_interval_s=1") for word in ("--set", setting)]
        (self.stack.restart_gateway if again else self.stack.start_gateway)(*arguments)

    def device(self, name, *arguments):
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path(name), "--trust",
                              self.stack.path("release.key.pub"), "--once", *arguments], capture_output=True, text=True, timeout=60,
                             stdin=subprocess.DEVNULL)
        return run

    def counts(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]

    def test_the_first_start_makes_a_token(self):
        path = self.stack.enroll_token
        wait_until(lambda: os.path.exists(path), what="the token")
        with open(path, encoding="ascii") as file:
            token = file.read()
        self.assertRegex(token, r"\Awet_[A-Za-z0-9_-]{43}\n\Z")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertIn("made an enrolment token: " + path, self.stack.gateway.log_text())
        self.assertNotIn(token.strip(), self.stack.gateway.log_text())
        rollout = self.stack.release("first", 1, SCRIPT, [{**STAGES[1], "min_sample": 1000}])
        # Without it: served, told once, not counted.
        stranger = self.device("stranger", "--id", f"{0xbad:016x}")
        self.assertEqual((stranger.returncode, stranger.stderr.count(UNPROVEN)), (0, 1), stranger.stderr)
        wait_until(lambda: self.counts(rollout)["unproven_completed"] == 1, what="its report")
        # With it, at the first start alone: the credential is in the folder from then on.
        for arguments in (("--enroll-token", path), ()):
            ours = self.device("ours", *arguments)
            self.assertEqual((ours.returncode, UNPROVEN in ours.stderr), (0, False), ours.stderr)
        counts = wait_until(lambda: (lambda now: now if now["succeeded"] else None)(self.counts(rollout)), what="our report")
        self.assertEqual((counts["succeeded"], counts["unproven_completed"]), (1, 1), counts)
        # The same token after kill -9; revoked, it opens nothing and is not made again.
        self.stack.gateway.kill(signal.SIGKILL)
        self.start(again=True)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), token)
        tokens = self.stack.api("/api/v1/tokens")[1]["items"]
        self.assertEqual([(one["name"], one["role"], one["uses"]) for one in tokens if one["role"] == "enrol"], [("first start", "enrol", 1)])
        self.stack.walle("token", "revoke", next(one["id"] for one in tokens if one["role"] == "enrol"))
        self.assertNotEqual(self.device("late", "--enroll-token", path).returncode, 0)
        os.unlink(path)
        self.stack.gateway.kill(signal.SIGKILL)
        self.start(again=True)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(self.device("ours").returncode, 0)  # who has enrolled stays so

    def test_a_refusal_ends_a_single_check_in(self):
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        wrong = self.stack.secret("wrong.token", "wet_" + "A" * 43)
        wait_until(lambda: os.path.exists(self.stack.enroll_token), what="the token")
        name = ("--id", f"{0xa5:016x}")
        ours = self.device("ours", *name, "--enroll-token", self.stack.enroll_token)
        self.assertEqual(ours.returncode, 0, ours.stderr)
        refused = {"401: bearer token missing or wrong": ("new", "--enroll-token", wrong),
                   "409: this device is enrolled": ("other", *name, "--enroll-token", self.stack.enroll_token),
                   "401: ": ("stranger", *name)}
        for text, arguments in refused.items():
            run = self.device(*arguments)
            self.assertEqual((run.returncode, "the gateway answers " + text in run.stderr), (1, True), run.stderr)
            self.assertEqual(sum(" ERROR " in line for line in run.stderr.splitlines()), 1, run.stderr)  # and nothing else
        self.stack.walle("device", "revoke", name[1])
        run = self.device("ours")
        self.assertEqual((run.returncode, "the gateway answers 403: " in run.stderr), (1, True), run.stderr)
        # One that stays says so as well, once, and asks on: it may be made known again.
        with open(self.stack.path("stays.log"), "w+", encoding="utf-8") as log:
            child = self.stack.spawn("walle-device", "--gateway", self.stack.gateway.url, "--dir", self.stack.path("ours"), "--trust",
                                     self.stack.path("release.key.pub"), "--retry-base", "50", stderr=log)
            asked = itertools.count(1)  # each look is a request too
            before = metrics(self.stack.gateway.ports["h2c"])["walle_requests_total"]
            wait_until(lambda: metrics(self.stack.gateway.ports["h2c"])["walle_requests_total"] - next(asked) > before + 3, what="more tries")
            child.kill()
            child.wait()
            log.seek(0)
            self.assertEqual(log.read().count("the gateway answers 403: "), 1)

    def test_an_answer_that_got_lost(self):
        """Its token has no use left, and the device has no id of its own: it is given what it was given, once, and nobody else is."""
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        token = self.stack.walle("device", "enroll-token", "--name", "single", "--uses", "1").stdout.strip()
        path = self.stack.secret("single.token", token)

        def uses():
            listed = self.stack.api("/api/v1/tokens")[1]["items"]
            return next(one["uses"] for one in listed if one["name"] == "single")

        with socket.create_server(("127.0.0.1", 0)) as front:
            command = [program("walle-device"), "--gateway", f"http://127.0.0.1:{front.getsockname()[1]}", "--dir", self.stack.path("ours"),
                       "--trust", self.stack.path("release.key.pub"), "--once", "--enroll-token", path]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.stack.children.append(child)
            ours, _ = front.accept()
            with ours, socket.create_connection(("127.0.0.1", self.stack.gateway.ports["h2c"])) as gateway:
                ours.settimeout(0.05)
                def passed_on():  # what the device sends goes on; what the gateway answers does not come back
                    try:
                        gateway.sendall(ours.recv(65536))
                    except TimeoutError:
                        pass
                    return uses() == 1
                wait_until(passed_on, what="the enrolment")
            self.assertEqual(child.wait(60), 1)
            child.stderr.close()
        self.assertEqual(self.device("other", "--enroll-token", path).returncode, 1)
        run = self.device("ours", "--enroll-token", path)
        self.assertEqual((run.returncode, UNPROVEN in run.stderr, uses()), (0, False, 1), run.stderr)
        self.assertEqual(sorted(name for name in os.listdir(self.stack.path("ours")) if "enrol" in name or "credential" in name), ["credential"])
        wait_until(lambda: len(self.stack.api("/api/v1/devices")[1]["items"]) == 1, what="one device")

    def test_an_answer_that_is_too_long(self):
        """A gateway that is none, or somebody on the way, says more than an enrolment has, in many pieces or in one."""
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        made = HEADERS, END_HEADERS, b"\x08\x03201"
        for number, pieces in enumerate(([b"\x01" * 16000] * 40, [b"\x01" * 70, b"\x01" * 70, b"\x01" * 70], [b"\x01" * 75, b"\x01"])):
            with socket.create_server(("127.0.0.1", 0)) as front:
                command = [program("walle-device"), "--gateway", f"http://127.0.0.1:{front.getsockname()[1]}", "--dir",
                           self.stack.path(f"long{number}"), "--trust", self.stack.path("release.key.pub"), "--once", "--enroll-token",
                           self.stack.enroll_token]
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                self.stack.children.append(child)
                ours, _ = front.accept()
                with ours:
                    frames = [(SETTINGS, 0, 0, b""), (*made[:2], 1, made[2]), *((DATA, 0, 1, piece) for piece in pieces), (DATA, END_STREAM, 1, b"")]
                    ours.sendall(b"".join(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
                                          for kind, flags, stream, payload in frames))
                    _, said = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 1, said)
            self.assertIn("enrolment: ", said)
            self.assertNotIn("Sanitizer", said)
            self.assertFalse(os.path.exists(self.stack.path(f"long{number}", "credential")))

    def test_what_stands_in_the_place_of_the_key(self):
        os.mkdir(self.stack.path("odd"))
        path = self.stack.path("odd", "enrolment.key")
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        os.mkfifo(path)
        run = self.device("odd", "--enroll-token", self.stack.enroll_token)
        self.assertEqual((run.returncode, path + ": a named pipe, not a regular file" in run.stderr), (1, True), run.stderr)
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(b"wek_short")  # a crash while it was written: another is drawn
        run = self.device("odd", "--enroll-token", self.stack.enroll_token)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_what_one_tenant_knows_another_cannot_take(self):
        port = self.stack.gateway.ports["h2c"]
        tokens = {"default": self.stack.walle("device", "enroll-token", "--name", "ours").stdout.strip()}
        self.stack.walle("tenant", "new", "other")
        tokens["other"] = self.stack.walle("device", "enroll-token", "--name", "theirs", "--tenant", "other").stdout.strip()

        def enrol(device, tenant):
            with Connection(port) as conn:
                return conn.reply(conn.headers(request("/v1/enroll", "POST", ("authorization", "Bearer " + tokens[tenant]),
                                                       ("walle-device", hexa(device)))))

        reported, bound, free = 0xa1, 0xa2, 0xa3
        with Requests(port) as requests:  # served without having enrolled: a device of the tenant default
            stream = requests.send("/v1/report", "POST", (), report(reported))
            self.assertEqual(requests.connection.reply(stream)[0], 204)
        self.assertEqual(self.stack.api(f"/api/v1/devices/{hexa(bound)}/user", "PUT", {"user": "ana"})[0], 200)
        for again in (False, True):
            if again:
                self.stack.gateway.stop()
                self.start(again=True)
            for device in (reported, bound):
                status, body = enrol(device, "other")
                self.assertEqual((status, b"another tenant" in body), (409, True), body)
        listed = json.loads(self.stack.walle("token", "list", "-o", "json", "--tenant", "other").stdout)["items"]
        self.assertEqual([item["uses"] for item in listed if item["name"] == "theirs"], [0])
        for device in (reported, bound):
            self.assertEqual(enrol(device, "default")[0], 201)
        self.assertEqual(enrol(free, "other")[0], 201)
        self.assertEqual(enrol(free, "default")[0], 409)

    def test_a_fleet_under_attack_goes_its_way(self):
        log = open(self.stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        rollout = self.stack.release("fleet", 1, SCRIPT, STAGES, more=("--no-start",))
        ports = self.stack.gateway.ports
        stop, result = threading.Event(), {}
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{rollout}/start", "POST")[0], 200)
        attacker = threading.Thread(target=lambda: result.update(attack(Target(ports["h2c"], ports["tls"]), stop, [int(rollout, 16)])))
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(stop.set)
        with open(self.stack.path("release.key.pub"), encoding="ascii") as file:
            trust = file.read().strip()
        self.stack.spawn("walle-fleet-sim", "run", "--devices", str(FLEET), "--gateway", self.stack.gateway.url, "--trust", trust,
                         "--task", "fleet", "--enroll-token", self.stack.enroll_token, "--threads", "1", "--no-live", "--checkin-interval", "1",
                         "--out", self.stack.path("fleet"), stdout=log, stderr=subprocess.STDOUT)
        state = wait_until(lambda: (lambda now: now if now["state"] not in ("draft", "running") else None)(
            self.stack.api(f"/api/v1/rollouts/{rollout}")[1]), what="the end")
        self.assertEqual((state["state"], state["counts"]["failed"]), ("completed", 0), state)
        wait_until(lambda: self.counts(rollout)["succeeded"] == FLEET, what="the whole fleet")
        attacker.join()
        self.assertEqual((result["devices"], result["answers"].get("closed")), (DEVICES, None), result)
        # Of all that was said, what no stage let in yet left no trace, and the rest is counted apart.
        counts, figures = self.counts(rollout), metrics(ports["h2c"])
        said = counts["unproven_completed"]
        # A stage that opens while a device's three outcomes are applied lets in what is left of them: the first or two are missing.
        self.assertIn(3 * said - figures["walle_outcomes_unproven_total"], range(2 * len(STAGES[1:]) + 1))
        self.assertEqual(figures["walle_outcomes_unproven_total"] + figures["walle_outcomes_unoffered_total"], 3 * DEVICES)
        self.assertEqual((counts["failed"], counts["succeeded"]), (0, FLEET))
        self.assertTrue(DEVICES // 4 < said <= DEVICES and said // 3 < counts["unproven_failed"] < said, counts)
        self.assertTrue(re.search(rf"not counted: {said} devices", self.stack.walle("rollout", "explain", rollout).stdout))


if __name__ == "__main__":
    unittest.main()
