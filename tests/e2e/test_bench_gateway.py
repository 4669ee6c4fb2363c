#!/usr/bin/env python3
"""What `./bench/run gateway` measures is what it says it measures: the store it fills opens, strangers and enrolled devices that
have what they should are answered 204, and a device that lacks it is not. A few requests of each; nothing is timed."""
import base64
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["WALLE_SOURCE"], "bench"))
import gateway_bench  # noqa: E402  pylint: disable=wrong-import-position

ENROLLED, REQUESTS = 20, 400


class BenchGateway(unittest.TestCase):
    def setUp(self):
        self.bench = gateway_bench.Bench(os.path.dirname(os.environ["WALLE_BIN"]), quick=True)
        self.addCleanup(self.bench.close)
        self.data = self.bench.fill()
        _, self.h2c, self.https = self.bench.gateway(self.data)

    def settled(self, url, *devices):
        result = self.bench.load(url + "/v1/checkin", "-n", REQUESTS, *devices, "-P", self.bench.profiles)
        self.assertEqual(result["status_204"], REQUESTS, result)

    def test_checkins(self):
        self.settled(self.h2c, "-D", REQUESTS)
        path = os.path.join(self.bench.folder, "credentials")
        gateway_bench.enrol(int(self.https.rpartition(":")[2]), self.data, ENROLLED, path)
        self.settled(self.h2c, "-C", path)
        self.settled(self.https, "-C", path)
        with open(self.bench.profiles, encoding="ascii") as file:
            told = bytearray(base64.urlsafe_b64decode(file.readline().strip() + "=="))
        told[2:10] = bytes(8)  # the digest of what it has (device/wire/profile.h)
        lacking = os.path.join(self.bench.folder, "lacking.txt")
        with open(lacking, "w", encoding="ascii") as file:  # the same device, with nothing on it
            file.write(base64.urlsafe_b64encode(told).decode("ascii").rstrip("=") + "\n")
        result = self.bench.load(self.h2c + "/v1/checkin", "-n", REQUESTS, "-C", path, "-P", lacking)
        self.assertEqual(result["status_204"], 0, result)


if __name__ == "__main__":
    unittest.main()
