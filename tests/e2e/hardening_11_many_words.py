"""A device that is known as failed says of ever new failures, and one that may try again says by turns that it failed and that it is
active: what the gateway keeps of them is bounded, other devices' failures keep their words, and no device completes twice in its part
of the fleet."""
import os
import signal
import struct
import unittest

import raw_device
from raw_h2 import DATA, END_HEADERS, END_STREAM, Connection, request
from walle_stack import Stack, wait_until

STAGE = {"name": "full", "kind": "full", "min_sample": 1000000, "min_dwell_s": 0, "max_failure": 1}
ACTIVATED, RAN_WELL, EXCEPTION, INTEGRITY = 2, (1, 2, 3), 19, 28
TALKER, HONEST, FLEET = 7, 8, range(100, 110)
REPORTS, OUTCOMES = 200, 64


class ManyWords(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        self.seqs = {}
        self.connect()

    def restart(self):
        self.stack.gateway.kill(signal.SIGKILL)
        self.stack.restart_gateway("--set", "rollout.tick_ms=50")
        self.connect()

    def connect(self):
        self.connection = Connection(self.stack.gateway.ports["h2c"])
        self.addCleanup(self.connection.socket.close)

    def open(self, **more):
        self.rollout = self.stack.release("shop/words", 1, "print(1)\n", [{**STAGE, **more}])
        self.version = int(self.stack.api(f"/api/v1/rollouts/{self.rollout}")[1]["version_id"], 16)

    def send(self, path, device, body=b"", *more):
        headers = request(path, "POST", ("walle-device", raw_device.hexa(device)), ("walle-credential", self.credentials[device]), *more)
        stream = self.connection.headers(headers, END_HEADERS if body else END_HEADERS | END_STREAM)
        if body:
            self.connection.frame(DATA, END_STREAM, stream, body)
        return self.connection.reply(stream)[0]

    def say(self, device, *outcomes):
        """Each a kind, or (kind, fingerprint, words)."""
        first = self.seqs.get(device, 1)
        self.seqs[device] = first + len(outcomes)
        body = struct.pack("<BQIQB", 1, device, 1, first, len(outcomes))
        for outcome in outcomes:
            kind, fingerprint, words = outcome if isinstance(outcome, tuple) else (outcome, 0, b"")
            body += struct.pack("<BQQQBQB", kind, 1, self.version, int(self.rollout, 16), 0, fingerprint, len(words)) + words
        self.assertEqual(self.send("/v1/report", device, body), 204)

    def kept(self):
        """Bytes of the store's file."""
        return os.stat(self.stack.path("gateway", "store.mdb")).st_blocks * 512

    def failures(self):
        return {one["detail"]: one["devices"] for one in self.stack.api(f"/api/v1/rollouts/{self.rollout}")[1]["fingerprints"]}

    def talk(self, kind, reports, first):
        for report in range(reports):
            numbers = range(first + report * OUTCOMES, first + (report + 1) * OUTCOMES)
            self.say(TALKER, *((kind, number * 7919, b"words of mine %08d " % number + b"x" * 120) for number in numbers))

    def test_new_failures_of_one_that_failed(self):
        self.open(retries={"exception": 3})
        self.credentials = self.stack.enrol([TALKER, HONEST])
        self.say(TALKER, (22, 1, b"the first"))
        before = self.kept()
        for kind, first in ((22, 1000), (INTEGRITY, 100000), (EXCEPTION, 200000)):
            self.talk(kind, REPORTS, first)
        self.assertLess(self.kept() - before, 1 << 20)  # of 38,400 texts, 6 MB
        self.restart()
        self.say(HONEST, (22, 5, b"the real cause"))
        wait_until(lambda: self.failures().get("the real cause") == 1, what="a cause in words")
        self.assertEqual(sum(self.failures().values()), 2)

    def test_words_of_those_that_may_try_again(self):
        """They have no failure, and their words are kept, also through a restart; another's failure of the kind makes it the rollout's."""
        self.open(retries={"exception": 3})
        self.credentials = self.stack.enrol([TALKER, HONEST])
        self.say(TALKER, (EXCEPTION, 77, b"may be tried again"))
        for again in (False, True):
            if again:
                self.restart()
            text = self.stack.api(f"/api/v1/devices/{raw_device.hexa(TALKER)}")[1]
            self.assertIn("may be tried again", str(text))
            self.assertEqual(self.failures(), {})
        self.say(HONEST, (22, 77, b"may be tried again"))
        wait_until(lambda: self.failures() == {"may be tried again": 1}, what="the cause")
        self.restart()
        self.assertEqual(self.failures(), {"may be tried again": 1})

    def test_a_device_completes_once(self):
        self.open(retries={"exception": 3})
        self.credentials = self.stack.enrol(FLEET)
        raw_device.CODES.setdefault("model", 4)
        for device in FLEET:
            model = "m1" if device < FLEET[5] else "m2"
            self.send("/v1/checkin", device, b"", ("walle-profile", raw_device.profile(os="android", model=model)))
        for device in FLEET:
            self.say(device, *RAN_WELL)
        for _ in range(10):
            self.say(FLEET[0], *[(EXCEPTION, 5, b""), ACTIVATED] * (OUTCOMES // 2))

        def completed():
            return {one["value"]: (one["completed"], one["failed"])
                    for one in self.stack.api(f"/api/v1/rollouts/{self.rollout}")[1]["slices"] if one["attr"] == "model"}

        wait_until(lambda: sum(count for count, _ in completed().values()) >= len(FLEET), what="all to complete")
        self.assertEqual(completed(), {"m1": (5, 0), "m2": (5, 0)})
        counts = self.stack.api(f"/api/v1/rollouts/{self.rollout}")[1]["counts"]
        self.assertEqual((counts["succeeded"], counts["failed"]), (len(FLEET), 0))


if __name__ == "__main__":
    unittest.main()
