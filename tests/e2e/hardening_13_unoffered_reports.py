"""A device that shows who it is speaks for itself, and no more: what it says of a rollout whose stages do not let it in moves nothing and
leaves no trace. What it was offered counts, also when the gateway was killed before it wrote the offer down."""
import os
import signal
import struct
import sys
import unittest

import raw_device
from raw_h2 import Connection, DATA, END_HEADERS, END_STREAM, request
from walle_stack import SOURCE, Stack, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile.invented_reports import CRASHED, RAN_WELL, report, rollouts_in  # noqa: E402

SCRIPT = "import walle\nwalle.result(1)\n"
STAGES = [{"name": "first", "kind": "gray", "percent": 20, "min_sample": 1, "max_failure": 0.1, "min_dwell_s": 0},
          {"name": "full", "kind": "full", "min_sample": 1000}]
LIARS = 12


class UnofferedReports(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.arguments = [word for setting in ("rollout.tick_ms=50", "device.checkin_interval_s=1") for word in ("--set", setting)]
        self.stack.start_gateway(*self.arguments)
        self.credentials = {}
        self.seqs = {}

    def post(self, path, device, *headers, body=b""):
        with Connection(self.stack.gateway.ports["h2c"]) as connection:
            stream = connection.headers(request(path, "POST", ("walle-device", raw_device.hexa(device)), *headers),
                                        END_HEADERS if body else END_HEADERS | END_STREAM)
            if body:
                connection.frame(DATA, END_STREAM, stream, body)
            return connection.reply(stream)

    def enrol(self, devices):
        token = self.stack.walle("device", "enroll-token", "--name", "some").stdout.strip()
        for device in devices:
            _, body = self.post("/v1/enroll", device, ("authorization", "Bearer " + token))
            self.assertEqual(struct.unpack_from("<Q", body, 1)[0], device)
            self.credentials[device] = ("walle-credential", body[10:].decode())

    def checkin(self, device, os_):
        """The rollouts that it is offered."""
        status, body = self.post("/v1/checkin", device, self.credentials[device], ("walle-profile", raw_device.profile(os=os_)))
        self.assertIn(status, (200, 204))
        return rollouts_in(body)

    def say(self, device, rollout, kinds):
        first = self.seqs.get(device, 1)
        self.assertEqual(self.post("/v1/report", device, self.credentials[device],
                                   body=report(device, int(rollout, 16), kinds, first=first))[0], 204)
        self.seqs[device] = first + len(kinds)

    def rollout(self, id_):
        return self.stack.api(f"/api/v1/rollouts/{id_}")[1]

    def expect_unmoved(self, id_, state="running"):
        """Whatever the gate makes of what was said, it has made of it when the report is answered and a verdict is there."""
        now = self.rollout(id_)
        counts = now["counts"]
        self.assertEqual((now["state"], now["stage"]["index"]), (state, 0), now)
        self.assertEqual((counts["offered"], counts["succeeded"], counts["failed"]), (0, 0, 0), counts)
        self.assertEqual((now["fingerprints"], now["slices"]), ([], []))

    def unoffered(self):
        return raw_device.metrics(self.stack.gateway.ports["h2c"]).get("walle_outcomes_unoffered_total", 0)

    def inside(self, id_, wanted):
        salt = int(self.rollout(id_)["salt"], 16)
        found = [device for device in range(1, 1000) if (raw_device.bucket(device, salt) < 2000) == wanted]
        return found[:LIARS]

    def test_who_was_not_offered_it_moves_nothing(self):
        """The attack as it was told: twelve enrolled devices beyond the share pass a stage, one of them stops it."""
        id_ = self.stack.release("share", 1, SCRIPT, STAGES, more=("--accept-power",))
        liars = self.inside(id_, False)
        self.enrol(liars)
        for device in liars:
            self.assertEqual(self.checkin(device, "android"), set())
            self.say(device, id_, RAN_WELL)
        self.say(liars[0], id_, CRASHED)
        self.expect_unmoved(id_)
        self.assertEqual(self.unoffered(), 3 * LIARS + 3)
        self.stack.gateway.kill(signal.SIGKILL)
        self.stack.restart_gateway(*self.arguments)
        self.expect_unmoved(id_)

    def test_who_is_not_targeted_moves_nothing(self):
        id_ = self.stack.release("target", 1, SCRIPT, STAGES, target='os == "ios"', more=("--accept-power", "--accept-empty"))
        liars = self.inside(id_, True)
        self.enrol(liars)
        for device in liars[1:]:
            self.assertEqual(self.checkin(device, "android"), set())
            self.say(device, id_, RAN_WELL)
        self.say(liars[0], id_, CRASHED)  # it never said what it is
        self.expect_unmoved(id_)
        self.assertEqual(self.unoffered(), 3 * LIARS)

    def test_a_kill_between_offer_and_report(self):
        id_ = self.stack.release("kill", 1, SCRIPT, [{**STAGES[0], "min_sample": LIARS, "max_failure": 1}, STAGES[1]],
                                 more=("--accept-power",))
        devices = self.inside(id_, True)
        self.enrol(devices)
        for device in devices:
            self.assertEqual(self.checkin(device, "android"), {int(id_, 16)})
        self.stack.gateway.kill(signal.SIGKILL)
        self.stack.restart_gateway(*self.arguments)
        for device in devices:
            self.say(device, id_, RAN_WELL)
        wait_until(lambda: self.rollout(id_)["stage"]["index"] == 1, what="the stage to pass")
        counts = self.rollout(id_)["counts"]
        self.assertEqual((counts["offered"], counts["succeeded"], self.unoffered()), (LIARS, LIARS, 0), counts)


if __name__ == "__main__":
    unittest.main()
