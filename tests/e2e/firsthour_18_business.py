#!/usr/bin/env python3
"""Push, then pull, without a request of its own: check-ins and reports of devices ride on what their apps ask their service for, through the
gateway's proxy. Everything is real: gateway, upstream, the runtime in virtual devices and in an app. What rides stays between device and gateway."""
import base64
import http.server
import json
import os
import signal
import struct
import subprocess
import threading
import unittest

import raw_device
from page_commands import free_ports
from raw_h2 import Connection, PING, request
from walle_stack import Stack, program, wait_until

DEVICES = 500
DEVICE = 0xaa
TOKEN = "00000000000000a1"
RIDE = "walle-ride: 1 " + TOKEN
SCRIPT = "import walle\nwalle.result({})\n"
GRAY = {"name": "gray", "kind": "gray", "percent": 20, "min_sample": 10, "min_dwell_s": 0, "max_failure": 0.05}
FULL = {**GRAY, "name": "full", "kind": "full", "percent": 100, "min_sample": 50}
OWN = ("own_checkins", "own_reports")


class Service(http.server.ThreadingHTTPServer):
    """An upstream that remembers what it was sent, and says what only a gateway may say."""
    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.server.seen.append((self.path, dict(self.headers.items())))
            self.send_response(self.server.status)
            for name in ("walle-ride", "walle-offer", "Walle-Ride", "walle_offer", "walle-anything"):
                self.send_header(name, "checkin, report")
            self.send_header("x-service", "answered")
            self.send_header("Cache-Control", "public, max-age=3600")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    def __init__(self, status=200):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.seen, self.status = [], status
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a gateway whose client left closes in the middle

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Business(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def path(self, *names):
        return self.stack.path(*names)

    def trusted(self):
        if not os.path.exists(self.path("release.key")):
            self.stack.walle("key", "new", "--out", self.path("release.key"))
        with open(self.path("release.key.pub"), encoding="ascii") as file:
            return file.read().split()[-1]

    def counts(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]

    def state(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"]

    # ---- A fleet

    def start_fleet(self, port, *arguments):
        log = open(self.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        self.fleet = self.stack.spawn(
            "walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--business", "30", "--upstream", str(port),
            "--enroll-token", self.stack.enroll_token, "--task", "shop/score", "--per-carrier", "100", "--until-stopped", "--no-live",
            "--out", self.path("fleet"), *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log_text(self):
        with open(self.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop_fleet(self):
        self.fleet.send_signal(signal.SIGTERM)
        self.assertEqual(self.fleet.wait(120), 0, self.log_text()[-3000:])
        with open(self.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        return result

    def await_state(self, rollout, wanted):
        try:
            wait_until(lambda: self.state(rollout) == wanted, 240, f"the rollout to be {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.counts(rollout)} {self.log_text()[-600:]}") from error

    def reach_everybody(self, trust):
        """A release, another, and the way back from that: by business alone."""
        port = free_ports(1)[0]
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--upstream", f"http://127.0.0.1:{port}")
        arguments, more = trust()
        self.start_fleet(port, "--bad-version", "1.0.2", *arguments)
        one = self.stack.release("shop/score", 1, SCRIPT.format(1), [GRAY, FULL], more=more)
        self.await_state(one, "completed")
        wait_until(lambda: self.counts(one)["succeeded"] >= DEVICES, 240, "every device to have reported")
        two = self.stack.release("shop/score", 2, SCRIPT.format(2), [FULL], more=more)
        self.await_state(two, "completed")
        self.stack.walle("rollout", "undo", two, "--reason", "business as usual")
        try:
            wait_until(lambda: self.counts(two)["rolled_back"] >= DEVICES, 240, "every device to be back")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.counts(two)} {self.log_text()[-600:]}") from error
        metrics = raw_device.metrics(self.stack.gateway.ports["h2c"])
        result = self.stop_fleet()
        asked = result["requests"]
        self.assertEqual([asked[name] for name in OWN], [0, 0], asked)
        self.assertGreaterEqual(asked["business"], asked["rides"])
        self.assertGreaterEqual(asked["rides"], 3 * DEVICES)
        self.assertGreaterEqual(asked["ride_reports"], 2 * DEVICES)
        self.assertGreaterEqual(asked["pulls"], DEVICES)
        self.assertGreaterEqual(metrics["walle_rides_total"], 3 * DEVICES)
        self.assertEqual({version["version"]: version["current"] for version in result["versions"]}, {"1.0.1": DEVICES, "1.0.2": 0})
        self.assertEqual(asked["business_failed"], 0, asked)
        self.assertRegex(self.log_text(), rf"business    {asked['business']} requests, on which {asked['rides']} check-ins")

    def test_with_one_key(self):
        self.reach_everybody(lambda: (("--trust", self.trusted()), ()))

    def test_with_a_root(self):
        """The question rides, and the director's answer comes back on the reply."""
        def trust():
            self.trusted()
            self.stack.walle("root", "init", "--out", self.path("root.1"), "--key", self.path("release.key"),
                             "--release", self.path("release.key.pub"), "--narrow", "1", "--wide", "1")
            self.stack.walle("root", "push", self.path("root.1"))
            return ("--root", self.path("root.1")), ()
        self.reach_everybody(trust)

    def test_a_gateway_without_an_upstream(self):
        """Nothing rides: the fleet says why, and goes by itself."""
        self.stack.start_gateway("--set", "rollout.tick_ms=100")
        self.start_fleet(free_ports(1)[0], "--trust", self.trusted(), "--devices", "3")
        one = self.stack.release("shop/score", 1, SCRIPT.format(1), [{**FULL, "min_sample": 1}])
        wait_until(lambda: self.counts(one)["succeeded"] >= 3, 240, "check-ins of their own")
        result = self.stop_fleet()
        self.assertEqual(result["requests"]["rides"], 0)
        self.assertGreaterEqual(result["requests"]["own_checkins"], 3)
        self.assertRegex(self.log_text(), r"WARNING     no business request was answered through the gateway's proxy")

    def test_a_service_that_is_gone(self):
        """The release comes to everybody on the gateway's own answers; the run was to show an app at work, and did not."""
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--upstream", f"http://127.0.0.1:{free_ports(1)[0]}")
        self.start_fleet(free_ports(1)[0], "--trust", self.trusted(), "--devices", "3")
        one = self.stack.release("shop/score", 1, SCRIPT.format(1), [{**FULL, "min_sample": 1}])
        wait_until(lambda: self.counts(one)["succeeded"] >= 3, 240, "the release by rides")
        self.fleet.send_signal(signal.SIGTERM)
        self.assertEqual(self.fleet.wait(120), 1, self.log_text()[-3000:])
        self.assertRegex(self.log_text(), r"WARNING     \d+ of \d+ business requests failed")
        self.assertRegex(self.log_text().strip().splitlines()[-1], r"none of \d+ business requests was served: does the gateway's proxy\.upstream name a service")

    def test_a_service_that_says_no(self):
        """A 404 is an answer, and the app was at work; a 503 is none, and the run is no failure for one."""
        service = Service(404)
        self.addCleanup(service.server_close)
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--upstream", service.url)
        self.start_fleet(free_ports(1)[0], "--trust", self.trusted(), "--devices", "3")
        one = self.stack.release("shop/score", 1, SCRIPT.format(1), [{**FULL, "min_sample": 1}])
        wait_until(lambda: self.counts(one)["succeeded"] >= 3, 240, "the release by rides")
        said_no = len(service.seen)
        service.status = 503
        wait_until(lambda: len(service.seen) > said_no + 3, 240, "each app to be told so")  # one of each may have been under way
        asked = self.stop_fleet()["requests"]
        self.assertGreaterEqual(asked["rides"], 3, asked)
        self.assertIn(asked["business_failed"], range(1, asked["business"] - said_no + 4), asked)

    # ---- An app

    def test_an_app_on_the_library(self):
        """ride_example asks its service with each tap: what it has to say goes with that, and nothing else but pulls does."""
        service = Service()
        self.addCleanup(service.server_close)
        gateway = self.stack.start_gateway("--upstream", service.url, "--set", "rollout.tick_ms=100")
        key = self.trusted()
        rollout = self.stack.release("shop/score", 1, SCRIPT.format(1), [{**FULL, "min_sample": 1}])
        with open(self.stack.enroll_token, encoding="ascii") as file:
            token = file.read().strip()
        os.mkdir(self.path("app"))
        app = subprocess.Popen([program("ride_example"), "127.0.0.1", str(gateway.ports["tls"]), self.path("gateway", "cert.pem"), self.path("app"),
                                key, "/items"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "WALLE_ENROLL_TOKEN": token})
        self.stack.children.append(app)
        said = []
        threading.Thread(target=lambda: said.extend(app.stdout), daemon=True).start()

        def tapped():
            """A tap, its answer, and what came of it since."""
            before = sum("service 200 ok" in line for line in said)
            app.stdin.write("i-7\n")
            app.stdin.flush()
            wait_until(lambda: sum("service 200 ok" in line for line in said) > before, 60, f"the service's answer: {said}")
            return self.counts(rollout)["succeeded"] == 1

        wait_until(tapped, 120, f"the device's word that it runs: {said}")
        self.assertIn("shop/score ran 1\n", said)
        metrics = raw_device.metrics(gateway.ports["h2c"])
        self.assertEqual(metrics["walle_checkins_total"], metrics["walle_rides_total"])
        self.assertLessEqual(metrics["walle_reports_total"], metrics["walle_rides_total"])
        self.assertTrue(all(path == "/items" for path, _ in service.seen))
        self.assertRegex(service.seen[-1][1]["walle-proven"], r"device=\w{16}; tenant=default; by=credential")
        app.stdin.close()
        app.wait(60)
        app.stdout.close()

    # ---- What rides stays between device and gateway

    def ask(self, *headers):
        """(status, fields of the reply) of a business request."""
        words = [word for header in headers for word in ("-H", header)]
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--max-time", "30", "-i", *words, self.stack.gateway.url + "/item/7"],
                             capture_output=True, text=True, timeout=60, check=True)
        head = run.stdout.split("\n\n")[0].splitlines()
        return int(head[0].split()[1]), [tuple(line.split(": ", 1)) for line in head[1:]]

    def test_an_upstream_that_is_gone(self):
        """The app's request fails; what rides on it does not."""
        self.stack.start_gateway("--upstream", f"http://127.0.0.1:{free_ports(1)[0]}", "--set", "rollout.tick_ms=100")
        credential = self.stack.enrol([DEVICE])
        self.trusted()
        rollout = self.stack.release("shop/score", 1, SCRIPT.format(1), [FULL])
        report = base64.urlsafe_b64encode(raw_device.report(DEVICE, int(rollout, 16), 1)).decode().rstrip("=")
        rides = [f"walle-device: {DEVICE:016x}", f"walle-credential: {credential[DEVICE]}", RIDE, "walle-report: " + report,
                 f"walle-profile: {raw_device.profile(os='android')}"]
        status, fields = self.ask(*rides)
        self.assertEqual((status, len(dict(fields)["walle-offer"]) > 100), (502, True), fields)
        wait_until(lambda: dict(self.ask(*rides)[1]).get("walle-ride") == TOKEN + " checkin, report", 60, "the report to be durable")
        self.assertEqual(self.ask(*rides[:1], "walle-credential: wdt_" + "x" * 43, *rides[2:])[0], 401)
        self.assertEqual([name for name, _ in self.ask()[1] if name.startswith("walle")], [])

    def test_riders_that_leave(self):
        """Their reports are on the way to the disk when the connection goes: nothing is lost of these, nor of the gateway."""
        service = Service()
        self.addCleanup(service.server_close)
        gateway = self.stack.start_gateway("--upstream", service.url, "--set", "rollout.tick_ms=100")
        credential = self.stack.enrol([DEVICE])[DEVICE]
        self.trusted()
        rollout = int(self.stack.release("shop/score", 1, SCRIPT.format(1), [FULL]), 16)
        for seq in range(1, 201):
            report = base64.urlsafe_b64encode(raw_device.report(DEVICE, rollout, 1, seq)).decode().rstrip("=")
            with Connection(gateway.ports["h2c"]) as connection:
                connection.headers(request("/item/7", "GET", ("walle-device", f"{DEVICE:016x}"), ("walle-credential", credential), ("walle-ride", RIDE.split(": ")[1]),
                                           ("walle-profile", raw_device.profile(os="android")), ("walle-report", report)))
                connection.frame(PING, 0, 0, b"taken on")
                connection.wait(PING)  # the gateway has read what stood before it: what a reset outruns comes with the device's next request
        wait_until(lambda: raw_device.metrics(gateway.ports["h2c"])["walle_reports_total"] >= 200, 60, "every report to be there")
        wait_until(lambda: self.counts(f"{rollout:016x}")["downloaded"] == 1, 60, "the device's word")
        self.assertEqual(gateway.stop(), 0, gateway.log_text()[-2000:])

    def test_what_rides(self):
        service = Service()
        self.addCleanup(service.server_close)
        self.stack.start_gateway("--upstream", service.url, "--set", "rollout.tick_ms=100")
        credential = self.stack.enrol([DEVICE, DEVICE + 1])
        rollout = self.stack.release("shop/score", 1, SCRIPT.format(1), [FULL])
        who = [f"walle-device: {DEVICE:016x}", f"walle-credential: {credential[DEVICE]}"]
        rides = [*who, RIDE, f"walle-profile: {raw_device.profile(os='android')}"]
        report = base64.urlsafe_b64encode(raw_device.report(DEVICE, int(rollout, 16), 1)).decode().rstrip("=")

        def told(*headers):
            status, fields = self.ask(*headers)
            return status, [(name, value) for name, value in fields if name.startswith("walle")]

        # The upstream's own words are not the gateway's, whoever asks.
        for headers in ((), who, (RIDE,), (*who, RIDE), ("walle_ride: 1", "walle_report: AAAA", "Walle_Credential: x")):
            status, said = told(*headers)
            self.assertEqual((status, said), (200, []), headers)
        self.assertIn(("x-service", "answered"), self.ask()[1])
        # A ride is answered as a check-in; the device is none that was seen before.
        status, said = told(*rides)
        self.assertEqual((status, sorted(name for name, _ in said)), (200, ["walle-offer", "walle-ride"]))
        # No cache keeps what was said to one device; what says nothing to it the service's word stands for.
        caches = [[value for name, value in self.ask(*words)[1] if name == "cache-control"] for words in (rides, who)]
        self.assertEqual(caches, [["no-store"], ["public, max-age=3600"]])
        self.assertEqual(dict(said)["walle-ride"], TOKEN + " checkin")
        # Without the word the profile alone gets news, as ever; and another version of rides is none.
        for word in (None, "1", "2", "2 " + TOKEN, "1 " + TOKEN[1:], "1 " + TOKEN + "0", "1 " + TOKEN.upper(), "1  " + TOKEN, "1 " + TOKEN + ", 1 " + TOKEN):
            headers = [*who, rides[-1], *(["walle-ride: " + word] if word is not None else [])]
            self.assertEqual([name for name, _ in told(*headers)[1]], ["walle-offer"])
        # A report is acknowledged when it is durable: at once, or with a later request that brings it again.
        wait_until(lambda: dict(told(*rides, "walle-report: " + report)[1]).get("walle-ride") == TOKEN + " checkin, report", 60, "the report to be durable")
        self.assertEqual(self.counts(rollout)["downloaded"], 1)
        # What can never be taken is said to be so: no report, another device's, too long.
        other = base64.urlsafe_b64encode(raw_device.report(DEVICE + 1)).decode().rstrip("=")
        for bad in ("AAAA", "!", other, "A" * 4200):
            self.assertEqual(dict(told(*rides, "walle-report: " + bad)[1])["walle-ride"], TOKEN + " checkin, refused", bad[:10])
        # Nobody rides under another's name, and who is wrong never comes to the upstream.
        before = len(service.seen)
        wrong = [rides[0], f"walle-credential: {credential[DEVICE + 1]}", *rides[2:]]
        self.assertEqual(self.ask(*wrong, "walle-report: " + report)[0], 401)
        self.assertEqual(self.ask(*rides, rides[0])[0], 400)
        self.assertEqual(len(service.seen), before)
        # A profile that is none is no check-in; the business is done all the same.
        self.assertEqual(told(*who, RIDE, "walle-profile: AAAA"), (200, []))
        self.assertEqual(told(*rides, "walle-nonce: AAAA"), (200, []))
        for _, fields in service.seen:
            names = {name.lower().replace("_", "-") for name in fields}
            self.assertFalse(names & {"walle-ride", "walle-profile", "walle-report", "walle-nonce", "walle-credential"}, names)
        self.assertIn(f"device={DEVICE:016x}; tenant=default; by=credential", [fields.get("walle-proven") for _, fields in service.seen])
        # A device that was revoked meanwhile has no ride.
        self.stack.walle("device", "revoke", f"{DEVICE:016x}")
        self.assertEqual(self.ask(*rides)[0], 403)


if __name__ == "__main__":
    unittest.main()
