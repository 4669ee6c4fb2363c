"""Virtual devices that enrol: a gateway that serves nobody else serves them, each gets its own exclusive files and nobody another's, a
run started anew finds its credentials, kills while they enrol do no harm, and what is not theirs is refused."""
import json
import os
import re
import signal
import struct
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

NO_GATEWAY, NOBODY_ONLINE, NO_RELEASE = 7, 8, 10  # exit statuses
TASK = "taste"
STAGES = [{"name": "full", "kind": "full", "max_failure": 1, "min_sample": 1000}]
# Every run fails with the number of the device's own file in the failure's kind, so the gateway counts devices by number.
SCRIPT = """try:
    import own
except ImportError:
    raise KeyError("nothing of its own")
own.tell()
"""


class Credentials(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def start(self, *settings, auth="required"):
        more = [word for setting in ("rollout.tick_ms=100", "device.checkin_interval_s=1", "device.auth=" + auth, *settings)
                for word in ("--set", setting)]
        self.stack.start_gateway(*more)
        self.token = self.stack.path("enrol.token")
        if not os.path.exists(self.token):
            self.stack.secret("enrol.token", self.stack.walle("device", "enroll-token", "--name", "fleet").stdout.strip())
            key = self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
            self.trust = key.stdout.strip().splitlines()[-1]

    def fleet(self, devices, *arguments, enrol=True, out="fleet"):
        log = open(self.stack.path(out + ".log"), "wb")
        self.addCleanup(log.close)
        token = ["--enroll-token", self.token] if enrol else []
        return self.stack.spawn("walle-fleet-sim", "run", "--devices", str(devices), "--gateway", self.stack.gateway.url, "--trust",
                                self.trust, "--threads", "2", "--no-live", "--checkin-interval", "1", "--until-stopped", "--out",
                                self.stack.path(out), *token, *arguments, stdout=log, stderr=subprocess.STDOUT)

    def stop(self, fleet, out="fleet", status=NO_RELEASE):
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), status, self.log(out)[-3000:])
        with open(self.stack.path(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def known(self):
        listed = json.loads(self.stack.walle("device", "list", "--limit", "500", "-o", "json").stdout)["items"]
        return {device["id"]: device["credential"] for device in listed}

    def await_known(self, count):
        return wait_until(lambda: (lambda all_: all_ if sum(state == "token" for state in all_.values()) == count else None)(self.known()),
                          what=f"{count} devices that showed their credential")

    def metric(self, name):
        found = re.search(rf"^{name} (\d+)$", self.stack.api("/metrics")[1], re.M)
        return int(found.group(1)) if found else 0

    def release(self, version, numbers, stages=STAGES, script=SCRIPT):
        """A version with exclusive files: device id -> number."""
        source, build = self.stack.path("source" + version), self.stack.path("build" + version)
        more = {"exclusive": {"path": "exclusive"}} if numbers else {}
        files = {"task.py": script, "task.json": json.dumps(
            {"name": TASK, "version": version, "entry": "task", "files": ["task.py"], **more})}
        for device, number in numbers.items():
            files[f"exclusive/device/{device}/own.py"] = "\n" * number + "def tell():\n    raise RuntimeError('mine')\n"
        for name, text in files.items():
            path = os.path.join(source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        run = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                               self.stack.path("stages.json"), "-o", "json")
        return json.loads(run.stdout)["id"]

    def test_each_device_gets_its_own_files(self):
        self.start()
        fleet = self.fleet(3)
        one, two, three = sorted(self.await_known(3))
        rollout = self.release("1.0.0", {one: 10, two: 20})
        state = wait_until(lambda: (lambda now: now if now["counts"]["failed"] == 3 else None)(self.stack.api(f"/api/v1/rollouts/{rollout}")[1]),
                           what="three runs")
        outcomes = {device: json.dumps(self.stack.api(f"/api/v1/devices/{device}")[1]) for device in (one, two, three)}
        self.assertIn("own.py:12", outcomes[one], state)
        self.assertIn("own.py:22", outcomes[two], state)
        self.assertIn("KeyError", outcomes[three], state)
        result = self.stop(fleet, status=0)
        totals = result["totals"]
        self.assertEqual((totals["enrolled"], totals["enrol_refused"], totals["unauthorized"]), (3, 0, 0))
        self.assertEqual(totals["exclusive_runs"], totals["runs"] - 1)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]))

    def test_reports_of_a_second_run_are_news(self):
        """Its devices have the ids of the first, and begin without its state: another epoch of their reports."""
        self.start()
        for number, more in ((1, ()), (2, ("--credentials", self.stack.path("fleet1", "credentials")))):
            rollout = self.release(f"1.{number}.0", {}, script="")
            fleet = self.fleet(3, *more, enrol=number == 1, out=f"fleet{number}")
            wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]["succeeded"] == 3,
                       what=f"three runs of version {number}")
            self.stop(fleet, f"fleet{number}", status=0)
            self.stack.walle("rollout", "promote", rollout)

    def test_a_run_finds_the_credentials_of_the_last_one(self):
        self.start()
        self.stop_when_known(self.fleet(20), 20)
        with open(self.stack.path("fleet", "credentials"), "rb") as file:
            kept = file.read()
        self.assertEqual((kept[:16], len(kept)), (b"WSIMCRED\x02" + bytes(7), 48 + 20 * 72))
        self.assertEqual({f"{struct.unpack_from('<Q', kept, 48 + 72 * at + 64)[0]:016x}" for at in range(20)}, set(self.known()))
        self.assertEqual(os.stat(self.stack.path("fleet", "credentials")).st_mode & 0o777, 0o600)
        # The same devices without a token, and ten more of them with one.
        credentials = ("--credentials", self.stack.path("fleet", "credentials"))
        checkins = self.metric("walle_checkins_total")
        fleet = self.fleet(20, *credentials, enrol=False, out="again")
        wait_until(lambda: self.metric("walle_checkins_total") >= checkins + 20, what="check-ins")
        totals = self.stop(fleet, "again")["totals"]
        self.assertEqual((totals["enrolled"], totals["unauthorized"]), (0, 0))
        totals = self.stop_when_known(self.fleet(30, *credentials, out="more"), 30, "more")["totals"]
        self.assertEqual((totals["enrolled"], totals["enrol_refused"], totals["unauthorized"]), (10, 0, 0))
        # Another population, a run beside this one, and bytes that are no credentials are refused before a device comes online.
        self.refused("credentials of another fleet", "--seed", "2", *credentials)
        self.refused("credentials of another fleet", "--where", "os == ios", *credentials)
        fleet = self.fleet(30, *credentials, out="first")
        wait_until(lambda: os.path.exists(self.stack.path("first", "timeline.csv")) or "s: online" in self.log("first"), what="the first run")
        wait_until(lambda: "another run has it" in self.said(*credentials), what="the lock of the first run")
        self.stop(fleet, "first")
        for bad in (b"x" * 16, kept[:16] + b"x", b"WSIMCRED\x03" + kept[9:], kept[:8]):
            with open(self.stack.path("bad"), "wb") as file:
                file.write(bad)
            self.refused("not credentials of a virtual fleet", "--credentials", self.stack.path("bad"))

    def said(self, *arguments):
        run = subprocess.run([program("walle-fleet-sim"), "run", "--devices", "20", "--gateway", self.stack.gateway.url, "--trust", self.trust,
                              "--no-live", "--duration", "1", "--out", self.stack.path("refused"), *arguments], capture_output=True, text=True,
                             timeout=60)
        return run.stdout + run.stderr if run.returncode == 4 else ""

    def refused(self, text, *arguments):
        self.assertIn(text, self.said(*arguments))

    def stop_when_known(self, fleet, count, out="fleet"):
        self.await_known(count)
        return self.stop(fleet, out)

    def test_a_gateway_that_trusts_nobody(self):
        """Operators need tokens, devices credentials: the fleet has both, watches its rollout and ends with it."""
        admin = self.stack.secret("admin.token", "a-long-enough-admin-token")
        os.environ["WALLE_TOKEN"] = "a-long-enough-admin-token"  # of the walle commands below
        self.addCleanup(os.environ.pop, "WALLE_TOKEN")
        self.start("admin.token_file=" + admin)
        self.stack.secret("viewer.token", self.stack.walle("token", "new", "--name", "fleet", "--role", "viewer").stdout.strip())
        rollout = self.release("1.0.0", {}, [{**STAGES[0], "min_sample": 5}], script="import walle\nwalle.result(1)\n")
        self.fleet(3, "--duration", "1", enrol=False, out="blind").wait(60)
        self.assertIn("--token-file", self.log("blind"))
        fleet = self.fleet(8, "--token-file", self.stack.path("viewer.token"), "--until-rollout", rollout)
        self.assertEqual(fleet.wait(60), 0, self.log()[-3000:])
        self.assertIn("the rollout is completed", self.log())
        self.assertNotIn("--token-file", self.log().split("preflight")[1])
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["totals"]["runs"], 8)

    def test_killed_while_they_enrol(self):
        self.start("device.enroll_rate_per_s=100")
        fleet = self.fleet(200, "--kills", "90%", "--arrival-rate", "100000")
        result = self.stop_when_known(fleet, 200)
        self.assertEqual(result["totals"]["enrolled"], 200)
        self.assertGreater(result["totals"]["crashes"], 20)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]))
        # The gateway gave some credentials twice: the answer was lost with the device.
        self.assertGreaterEqual(result["latency_us"]["enrolment"]["count"], 200)

    def keys_shown(self, port, name):
        """What the devices of one run show somebody who answers nothing that is an enrolment: {device: keys}."""
        with open(self.stack.path(name + ".wire"), "w+", encoding="utf-8") as log:
            peer = self.stack.spawn_path("nghttpd", "-v", "--no-tls", "-a", "127.0.0.1", "-d", self.stack.folder, str(port), stdout=log)

            def seen():
                log.seek(0)
                text = re.sub(r"\x1b\[[0-9;]*m", "", log.read())
                shown = {}
                for stream in re.findall(r"recv \(stream_id=(\d+)\) :path: /v1/enroll", text):
                    fields = dict(re.findall(rf"recv \(stream_id={stream}(?:, sensitive)?\) ([a-z-]+): (\S+)", text))
                    shown.setdefault(fields.get("walle-device"), set()).add(fields.get("walle-enroll-key"))
                return shown

            wait_until(lambda: "listen" in (log.seek(0), log.read())[1], what="nghttpd")
            fleet = self.fleet(3, "--threads", "1", "--credentials", self.stack.path("kept"), out=name)
            shown = wait_until(lambda: (lambda now: now if len(now) == 3 else None)(seen()), what="three enrolments")
            fleet.send_signal(signal.SIGTERM)
            fleet.wait(60)
            peer.kill()
            peer.wait()
            return shown

    def test_a_device_brings_its_key(self):
        """As a real one: drawn before its first try, the same until it is answered, also in another run."""
        self.start()
        port = self.stack.gateway.ports["h2c"]
        self.stack.gateway.stop()
        first = self.keys_shown(port, "first")
        keys = set().union(*first.values())
        self.assertEqual(len(keys), 3, first)
        for key in keys:
            self.assertRegex(key or "", r"^wek_[A-Za-z0-9_-]{43}$")
        self.assertEqual(self.keys_shown(port, "second"), first)
        self.stack.restart_gateway()
        self.stop_when_known(self.fleet(3, "--credentials", self.stack.path("kept"), out="third"), 3, "third")

    def test_strangers_and_the_revoked_are_refused(self):
        self.start()
        fleet = self.fleet(5, enrol=False)
        wait_until(lambda: re.search(r"errors [1-9]", self.log()), what="a refusal")
        self.assertGreater(self.stop(fleet, status=NOBODY_ONLINE)["totals"]["unauthorized"], 0)
        good, self.token = self.token, self.stack.secret("wrong.token", "wet_" + "A" * 43)
        fleet = self.fleet(5)
        wait_until(lambda: self.metric("walle_access_failures_total") >= 5, what="refusals")
        totals = self.stop(fleet, status=NOBODY_ONLINE)["totals"]
        self.assertIn("the gateway refused every enrolment", self.log())
        self.assertEqual((totals["enrolled"], totals["checkins"]), (0, 0))
        self.assertGreater(totals["enrol_refused"], 0)
        self.token = good
        # One that an operator revokes is refused from then on, and nobody else.
        fleet = self.fleet(5)
        revoked = sorted(self.await_known(5))[0]
        self.stack.walle("device", "revoke", revoked)
        wait_until(lambda: re.search(r"errors [1-9]", self.log()), what="a refusal")
        totals = self.stop(fleet)["totals"]
        self.assertEqual(totals["enrolled"], 5)
        self.assertGreater(totals["unauthorized"], 0)

    def test_one_that_was_reset_enrols_anew(self):
        self.start()
        fleet = self.fleet(3)
        lost = sorted(self.await_known(3))[0]
        self.stack.walle("device", "revoke", lost)
        self.stack.walle("device", "reset", lost)
        wait_until(lambda: self.known().get(lost) == "token", what="the enrolment of the one that was reset")
        self.assertEqual(self.stop(fleet)["totals"]["enrolled"], 4)

    def test_a_fleet_that_is_enrolled_already(self):
        self.start()
        self.stop_when_known(self.fleet(3), 3)
        said = self.finished(self.fleet(3, "--duration", "2", out="second"), "second", NOBODY_ONLINE)
        self.assertIn("these devices are enrolled already, and " + self.stack.path("second", "credentials") + " does not hold", said)
        self.assertIn("walle device reset ID", said)
        self.assertNotIn("does not take the token", said)
        # Among others: the run shows what it does of a part of its fleet alone.
        fleet = self.fleet(6, out="third")
        self.await_known(6)
        totals = self.stop(fleet, "third", NOBODY_ONLINE)["totals"]
        self.assertGreater(totals["enrolled_before"], 0)
        self.assertEqual((totals["arrived"], totals["enrolled"], totals["unenrolled"]), (6, 3, 3))
        self.assertIn("devices were refused that are enrolled already", self.log("third"))
        self.assertIn("3 devices have none, and never came online", self.log("third"))
        self.assertRegex(self.log("third"), r"(?m)^  devices     3 online of 6;")
        self.assertIn("DEVICES REFUSED: 3 of 6 devices never came online: they are enrolled already, by another run", self.log("third"))
        with open(self.stack.path("third", "report.html"), encoding="utf-8") as file:
            self.assertIn("<li>3 of the 6 devices: they never came online", file.read())

    def test_no_gateway(self):
        self.start()
        url = self.stack.gateway.url
        self.stack.gateway.kill(signal.SIGKILL)
        for enrol in (True, False):
            said = self.finished(self.fleet(3, "--duration", "1", enrol=enrol, out="nobody"), "nobody", NO_GATEWAY)
            self.assertIn("no gateway answered: " + url.split("//")[1] + ": Connection refused", said)
            with open(self.stack.path("nobody", "run.json"), encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((result["passed"], "no gateway" in result["failed_because"]), (False, True))

    def finished(self, fleet, out, status):
        self.assertEqual(fleet.wait(60), status, self.log(out)[-3000:])
        return self.log(out)

    def log(self, out="fleet"):
        with open(self.stack.path(out + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main(verbosity=2)
