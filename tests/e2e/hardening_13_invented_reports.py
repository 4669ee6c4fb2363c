"""A stranger cannot steer a release: what devices that did not show who they are say counts in no stage, is shown apart, and stays
apart over kill -9. What enrolled devices say counts; not in another's name, and not after they were revoked."""
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import unittest

from raw_device import bucket
from raw_h2 import Connection, DATA, END_HEADERS, END_STREAM, request
from walle_stack import SOURCE, Stack, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile.invented_reports import AGREED, CRASHED, FIRST, RAN_WELL, SHADOW_MARK, attack, report  # noqa: E402
from hostile.target import Target  # noqa: E402

SCRIPT = "import walle\nwalle.result(1)\n"
GATE = {"min_sample": 4, "max_failure": 0.1, "min_dwell_s": 0}
FULL = {"name": "full", "kind": "full", "min_sample": 1000}
# The first stage of each rollout: one of every kind that devices decide, and both rules.
KINDS = {
    "shadow": {"kind": "shadow", "percent": 100, **GATE},
    "beta": {"kind": "beta", **GATE},
    "gray": {"kind": "gray", "percent": 50, **GATE},
    "compared": {"kind": "gray", "percent": 20, "rule": "sequential", "control": 80, "max_rise": 0.05, **GATE},
    "everybody": {"kind": "full", **GATE},
}
INVENTED = 400  # of each kind of word; the fleet's test has 10,000


class InventedReports(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.start()
        self.rollouts = 0
        self.seqs = {}

    def start(self, again=False, *more):
        arguments = [word for setting in ("rollout.tick_ms=50", "device.checkin_interval_s=1", *more) for word in ("--set", setting)]
        (self.stack.restart_gateway if again else self.stack.start_gateway)(*arguments)
        self.target = Target(h2c=self.stack.gateway.ports["h2c"], tls=self.stack.gateway.ports["tls"])

    def release(self, task, stages, *more):
        self.rollouts += 1
        return self.stack.release(task, self.rollouts, SCRIPT, stages, more=("--accept-power", *more))

    def rollout(self, id_):
        return self.stack.api(f"/api/v1/rollouts/{id_}")[1]

    def post(self, path, device, *headers, body=b""):
        with Connection(self.target.h2c) as connection:
            stream = connection.headers(request(path, "POST", ("walle-device", f"{device:016x}"), *headers),
                                        END_HEADERS if body else END_HEADERS | END_STREAM)
            if body:
                connection.frame(DATA, END_STREAM, stream, body)
            return connection.reply(stream)

    def enrol(self, *devices):
        """Credentials of devices, as walle-device gets them."""
        token = self.stack.walle("device", "enroll-token", "--name", "some").stdout.strip()
        found = {}
        for device in devices:
            status, body = self.post("/v1/enroll", device, ("authorization", "Bearer " + token))
            self.assertEqual(len(body), 10 + body[9], status)  # 201
            self.assertEqual(struct.unpack_from("<Q", body, 1)[0], device)
            found[device] = body[10:].decode()
        return found

    def say(self, device, rollout, kinds, credential=None, task=0):
        first = self.seqs.get(device, 1)
        headers = [("walle-credential", credential)] if credential else []
        status, _ = self.post("/v1/report", device, *headers, body=report(device, int(rollout, 16), kinds, task, first=first))
        self.seqs[device] = first + (len(kinds) if status == 204 else 0)
        return status

    def invent(self, rollouts, shadows=(), devices=INVENTED):
        return attack(self.target, threading.Event(), [int(id_, 16) for id_ in rollouts], shadows, devices)

    def inside(self, id_, devices):
        """Those of the devices that the rollout's first stage lets in: what the others say leaves no trace."""
        state = self.rollout(id_)
        share = state["stages"][0]["percent"] * 100
        return [device for device in devices if bucket(device, int(state["salt"], 16)) < share]

    def expect_unmoved(self, id_, devices=range(FIRST, FIRST + INVENTED)):
        inside = self.inside(id_, devices)
        said, failed = len(inside), sum(device % 2 for device in inside)
        state = self.rollout(id_)
        counts = state["counts"]
        self.assertEqual((state["state"], state["stage"]["index"], state["verdict"]), ("running", 0, "no_data"), state)
        self.assertEqual((counts["succeeded"], counts["failed"], counts["timed_out"], counts["control_completed"]), (0, 0, 0, 0), counts)
        self.assertEqual((counts["unproven_completed"], counts["unproven_failed"]), (said, failed), counts)
        self.assertEqual((state["fingerprints"], state["slices"]), ([], []))
        return state

    def test_one_invented_device_moves_nothing(self):
        """The attack as it was told: one report of one device nobody knows."""
        rollout = self.release("one", [{"name": "first", "kind": "full", "min_sample": 1, "max_failure": 0}])
        self.assertEqual(self.say(0xbad, rollout, CRASHED), 204)
        wait_until(lambda: self.rollout(rollout)["counts"].get("unproven_failed", 0) or self.rollout(rollout)["counts"]["failed"],
                   what="the report")
        # Whatever the gate makes of it, it has made of it two ticks after the next line of the log.
        state = wait_until(lambda: (lambda now: now if now["reason"] == "no_proven" or now["state"] != "running" else None)(self.rollout(rollout)),
                           what="a verdict")
        self.assertEqual((state["state"], state["counts"]["failed"]), ("running", 0))

    def test_every_kind_of_stage(self):
        ids = {kind: self.release("kind-" + kind, [{"name": "first", **stage}, *([] if stage["kind"] == "full" else [FULL])])
               for kind, stage in KINDS.items()}
        tasks = {task["name"]: task["id"] for task in self.stack.api("/api/v1/tasks")[1]["items"]}
        shadow = (int(ids["shadow"], 16), int(tasks["kind-shadow"], 16))
        counts = self.invent([ids[kind] for kind in KINDS if kind != "shadow"], [shadow])
        self.assertNotIn("closed", counts["answers"])
        for id_ in ids.values():
            wait_until(lambda: self.rollout(id_)["reason"] == "no_proven" or self.rollout(id_)["state"] != "running", what="a verdict")
            self.expect_unmoved(id_)
        self.pages(ids["gray"])
        # The same from the disk.
        self.stack.gateway.kill(signal.SIGKILL)
        self.start(again=True)
        for id_ in ids.values():
            wait_until(lambda: self.rollout(id_)["reason"] == "no_proven", what="a verdict")
            self.expect_unmoved(id_)
        # Four enrolled devices are enough where the stage asks for no comparison.
        for device, credential in self.enrol(*self.inside(ids["gray"], range(1, 100))[:4]).items():
            for kind in ("beta", "gray", "everybody"):
                self.assertEqual(self.say(device, ids[kind], RAN_WELL, credential), 204)
            self.assertEqual(self.say(device, ids["shadow"], AGREED, credential, shadow[1] ^ SHADOW_MARK), 204)
        for kind in ("shadow", "beta", "gray"):
            wait_until(lambda: self.rollout(ids[kind])["stage"]["name"] == "full", what=kind + " to pass")
        wait_until(lambda: self.rollout(ids["everybody"])["state"] == "completed", what="the full stage to pass")
        replay = self.stack.walle("rollout", "replay", ids["gray"])
        self.assertIn("no_proven", self.stack.walle("rollout", "log", ids["gray"], "-o", "json").stdout)
        self.assertIn(" 0 differ", replay.stdout)

    def pages(self, id_):
        """Status, explain and metrics say how many are not counted, and what to do."""
        inside = self.inside(id_, range(FIRST, FIRST + INVENTED))
        said = (f"not counted: {len(inside)} devices that did not show who they are; {len(inside)} said they ran it, "
                f"{sum(device % 2 for device in inside)} of them that it failed")
        self.assertIn(said, self.stack.walle("rollout", "status", id_).stdout)
        explained = self.stack.walle("rollout", "explain", id_).stdout
        self.assertIn(said, explained)
        self.assertIn("--trust-unproven", explained)
        self.assertRegex(self.stack.api("/metrics")[1], r"(?m)^walle_outcomes_unproven_total [1-9]")

    def test_a_rollout_may_trust_them(self):
        id_ = self.release("trusting", [{"name": "first", "kind": "full", **GATE}], "--trust-unproven", "--reason", "a fleet without credentials")
        for device in range(1, 5):
            self.assertEqual(self.say(device, id_, RAN_WELL), 204)
        state = wait_until(lambda: (lambda now: now if now["state"] == "completed" else None)(self.rollout(id_)), what="completion")
        self.assertEqual((state["trust_unproven"], state["counts"]["succeeded"], state["counts"]["unproven"]), (True, 4, 0))
        self.assertIn("--trust-unproven", self.stack.walle("rollout", "status", id_).stdout)
        self.assertRegex(self.stack.walle("rollout", "log", id_).stdout, "unproven devices count: .*a fleet without credentials")
        self.assertIn(" 0 differ", self.stack.walle("rollout", "replay", id_).stdout)

    def test_nobody_speaks_for_another_and_the_revoked_for_nobody(self):
        rollout = self.release("names", [{**FULL, "min_sample": 1000, "max_failure": 1}])
        credentials = self.enrol(1, 2)
        self.assertEqual(self.say(1, rollout, RAN_WELL, credentials[1]), 204)
        self.seqs[2] = 1
        for header, body, credential in ((1, 2, credentials[1]), (2, 2, credentials[1]), (2, 2, None), (1, 1, credentials[2])):
            headers = [("walle-credential", credential)] if credential else []
            status, _ = self.post("/v1/report", header, *headers, body=report(body, int(rollout, 16), CRASHED, first=10))
            self.assertNotEqual(status, 204, (header, body))
        self.assertEqual(self.say(2, rollout, CRASHED, credentials[2]), 204)
        wait_until(lambda: self.rollout(rollout)["counts"]["failed"] == 1, what="its own word")
        self.stack.walle("device", "revoke", f"{2:016x}")
        self.assertNotEqual(self.say(2, rollout, RAN_WELL, credentials[2]), 204)
        self.assertNotEqual(self.say(2, rollout, RAN_WELL), 204)
        # What the stranger says of device 3 before it enrols goes when device 3 speaks for itself.
        self.assertEqual(self.say(3, rollout, CRASHED), 204)
        credentials = self.enrol(3)
        self.assertNotEqual(self.say(3, rollout, CRASHED), 204)
        self.seqs[3] = 1
        self.assertEqual(self.say(3, rollout, RAN_WELL, credentials[3]), 204)
        counts = wait_until(lambda: (lambda now: now if now["succeeded"] == 2 else None)(self.rollout(rollout)["counts"]), what="both")
        self.assertEqual((counts["succeeded"], counts["failed"], counts["unproven"]), (2, 1, 0), counts)
        self.stack.gateway.kill(signal.SIGKILL)
        self.start(again=True)
        counts = self.rollout(rollout)["counts"]
        self.assertEqual((counts["succeeded"], counts["failed"], counts["unproven"]), (2, 1, 0), counts)

    def ddi(self, path, body=None, token=None, method="POST"):
        """Status and answer of hawkBit's device API."""
        command = ["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_code}", "--max-time", "30", self.stack.gateway.url + path]
        command += ["-H", f"authorization: GatewayToken {token}"] if token else []
        command += ["-X", method, "-H", "content-type: application/json", "-d", json.dumps(body)] if body is not None else []
        text, _, status = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.rpartition("\n")
        return int(status), json.loads(text) if text.startswith("{") else {}

    def test_a_hawkbit_client_is_proven_by_the_gateway_token(self):
        self.stack.gateway.kill()
        self.start(True, "ddi.token_file=" + self.stack.secret("ddi.token", "a-Gateway-Token-0123456789"))
        client, token = "/default/controller/v1/cam-1", "a-Gateway-Token-0123456789"
        self.assertEqual(self.ddi(client + "/configData", {"mode": "merge", "data": {"kind": "camera"}}, token, "PUT")[0], 200)
        device = wait_until(lambda: self.stack.api("/api/v1/devices")[1]["items"], what="the client")[0]
        self.assertEqual((device["attrs"]["controller_id"], device["proven"]), ("cam-1", True))
        rollout = self.release("ddi", [{**FULL, "max_failure": 1}])
        links = wait_until(lambda: self.ddi(client, token=token)[1]["_links"].get("deploymentBase"), what="a deployment")
        href = links["href"].split(str(self.target.h2c), 1)[1]
        said = {"id": href.rsplit("/", 1)[1].split("?")[0], "status": {"execution": "closed", "result": {"finished": "failure"}, "details": ["no"]}}
        # A stranger, in the client's name: at its own door without the token, and at the other door.
        self.assertEqual(self.ddi(href.split("?")[0] + "/feedback", said)[0], 401)
        self.assertNotEqual(self.say(int(device["id"], 16), rollout, CRASHED), 204)
        self.assertEqual(self.ddi(href.split("?")[0] + "/feedback", {**said, "status": {**said["status"], "result": {"finished": "success"}}},
                                  token)[0], 200)
        counts = wait_until(lambda: (lambda now: now if now["succeeded"] else None)(self.rollout(rollout)["counts"]), what="its word")
        self.assertEqual((counts["succeeded"], counts["failed"], counts["unproven"]), (1, 0, 0), counts)


if __name__ == "__main__":
    unittest.main()
