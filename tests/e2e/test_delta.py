"""Deltas over the wire: a device updates by the difference, and a client that is not ours can read them."""
import array
import base64
import hashlib
import os
import random
import re
import subprocess
import unittest

from walle_stack import Stack, wait_until

TASK, DEVICE, SEED = "delta/score", "00000000000000d2", 11
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
DATA_BYTES = 1024 * 1024
LARGE_BYTES = 12 * 1024 * 1024
WEIGHTS = 512 * 1024


def change(old, places, rng):
    """The content with so many bytes changed, the last one among them: all of the old one has to be in reach."""
    changed = bytearray(old)
    for i in rng.sample(range(len(old)), places):
        changed[i] ^= 0x55
    changed[-1] ^= 0x55
    return bytes(changed)


class Delta(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        rng = random.Random(SEED)
        self.old = rng.randbytes(DATA_BYTES)
        changed = bytearray(self.old)
        for i in rng.sample(range(DATA_BYTES), DATA_BYTES // 500):
            changed[i] ^= 0x55
        self.new = bytes(changed)

    def release(self, number, data):
        return self.stack.release(TASK, number, "print('ran')\n", STAGES, ("weights.bin", data))

    def update(self, rollout, *options):
        """A device takes the release. Returns how many bytes of content it was sent."""
        device = self.stack.spawn(
            "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca", os.path.join(self.stack.gateway.folder, "cert.pem"),
            "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", self.stack.path("release.key.pub"),
            "--checkin-interval", "86400", *options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1].get("state") == "completed", 60, "the update")
        device.terminate()
        log = device.communicate(timeout=60)[1]
        pulled = re.search(r"pulls \d+ \((\d+) bytes", log)
        self.assertIsNotNone(pulled, log)
        return int(pulled.group(1))

    def test_a_device_updates_by_the_difference(self):
        self.assertGreater(self.update(self.release(1, self.old)), DATA_BYTES)
        sent = self.update(self.release(2, self.new))
        self.assertGreater(sent, DATA_BYTES // 500)  # the changed bytes at least
        self.assertLess(sent, DATA_BYTES // 10)

    def bytes_for(self, old, new, *options, between=None):
        """What a device was sent for the update of a device that runs the old content to the new; the device ends with that."""
        self.update(self.release(1, old), *options)
        if between:
            between()
        sent = self.update(self.release(2, new), *options)
        self.assertIn(new, self.stored(len(new)))
        return sent

    def stored(self, size, damage=False):
        """Contents of the device's files of that size; `damage` changes a byte of each."""
        found = []
        for folder, _, names in os.walk(self.stack.path("device")):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.isfile(path) and os.path.getsize(path) == size:
                    os.chmod(path, 0o600)
                    with open(path, "r+b") as file:
                        found.append(file.read())
                        if damage:
                            file.seek(size // 3)
                            file.write(bytes([found[-1][size // 3] ^ 1]))
        return found

    def test_a_large_model_comes_as_a_difference(self):
        rng = random.Random(SEED)
        old = rng.randbytes(LARGE_BYTES)
        self.assertLess(self.bytes_for(old, change(old, 500, rng)), LARGE_BYTES // 10)

    def test_a_large_model_for_a_device_with_little_memory(self):
        rng = random.Random(SEED)
        old = rng.randbytes(LARGE_BYTES)
        self.assertLess(self.bytes_for(old, change(old, 500, rng), "--delta-memory", "3"), LARGE_BYTES // 10)

    def test_a_large_model_for_a_device_with_no_memory(self):
        rng = random.Random(SEED)
        old = rng.randbytes(LARGE_BYTES)
        self.assertGreater(self.bytes_for(old, change(old, 500, rng), "--delta-memory", "1"), LARGE_BYTES)

    def test_weights_that_all_moved(self):
        rng = random.Random(SEED)
        old = array.array("f", (rng.gauss(0.0, 0.05) for _ in range(WEIGHTS)))
        new = array.array("f", (weight + rng.uniform(-1e-4, 1e-4) for weight in old))
        sent = self.bytes_for(old.tobytes(), new.tobytes())
        self.assertLess(sent, 4 * WEIGHTS * 7 // 10)

    def test_a_damaged_old_file_ends_in_the_whole_new_one(self):
        rng = random.Random(SEED)
        old = rng.randbytes(LARGE_BYTES)
        sent = self.bytes_for(old, change(old, 500, rng), between=lambda: self.stored(LARGE_BYTES, damage=True))
        self.assertGreater(sent, LARGE_BYTES)

    def test_curl_and_zstd_can_read_it(self):
        for number, data in ((1, self.old), (2, self.new)):
            source = self.stack.path(f"blob{number}")
            with open(source, "wb") as file:
                file.write(data)
            status, _ = self.put(hashlib.sha256(data).hexdigest(), source)
            self.assertEqual(status, 201)
        dictionary = base64.b64encode(hashlib.sha256(self.old).digest()).decode()
        url = self.stack.gateway.url + "/v1/blob/" + hashlib.sha256(self.new).hexdigest()
        head = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-D", "-", "-o", self.stack.path("delta.zst"), "-H",
                               "accept-encoding: gzip, dcz", "-H", f"available-dictionary: :{dictionary}:", url],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("content-encoding: dcz", head)
        self.assertRegex(head, r"etag: \"[0-9a-f]{64}-dcz-[0-9a-f]{16}\"")
        self.assertLess(os.path.getsize(self.stack.path("delta.zst")), DATA_BYTES // 10)
        subprocess.run(["zstd", "-q", "-d", f"--patch-from={self.stack.path('blob1')}", self.stack.path("delta.zst"), "-o",
                        self.stack.path("made")], timeout=60, check=True)
        with open(self.stack.path("made"), "rb") as file:
            self.assertEqual(file.read(), self.new)

    def put(self, name, path):
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-o", os.devnull, "-w", "%{http_code}", "-T", path,
                              "-H", self.stack.bearer,
                              f"{self.stack.gateway.url}/api/v1/blobs/{name}"], capture_output=True, text=True, timeout=60, check=True)
        return int(run.stdout), run


if __name__ == "__main__":
    unittest.main()
