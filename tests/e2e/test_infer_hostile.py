"""Hostile calls of the inference service, in JSON, with binary tensors and over gRPC: cut, damaged, lying about their sizes.
Each is refused or answered, and the process has as much memory as before. WALLE_HOSTILE_REQUESTS says how many; 4000."""
import http.client
import json
import os
import random
import shutil
import tempfile
import unittest

import grpc
import numpy as np

from test_inference import ONE, Infer, binary_of, curl, relu_model, request_of, save

COUNT = int(os.environ.get("WALLE_HOSTILE_REQUESTS", "4000"))
SEED = 18
GROWTH_KB_MAX = 4096
PATH = "/v2/models/relu/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"


def message_of(x):
    """A ModelInferRequest, by hand."""
    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value
    tensor = field(1, b"x") + field(2, b"FP32") + field(3, bytes(x.shape))
    return field(1, b"relu") + field(5, tensor) + field(7, x.astype("<f4").tobytes())


class Hostile:
    """Draws requests: (path, headers, body)."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        head, raw = binary_of(ONE)
        self.head = head
        self.good = [("json", request_of(ONE)), ("binary", head + raw), ("grpc", message_of(ONE))]

    def damage(self, body):
        body = bytearray(body)
        for _ in range(self.draw.randint(1, 4)):
            at = self.draw.randrange(len(body) + 1)
            kind = self.draw.randrange(5)
            if kind == 0:
                body = body[:at]
            elif kind == 1:
                body[at:at] = self.draw.randbytes(self.draw.randint(1, 9))
            elif kind == 2:
                body[at:at] = self.draw.choice((b"[" * 2000, b"9" * 2000, b'{"a":' * 500, b"\xff" * 10, b"\\ud800", b"1e999"))
            elif kind == 3:
                body[at:at + self.draw.randint(1, 20)] = b""
            elif at < len(body):
                body[at] ^= 1 << self.draw.randrange(8)
        if self.draw.randrange(50) == 0:
            body += bytes(body[-1:] or b" ") * self.draw.choice((70000, 300000))  # read by another thread, from a file
        return bytes(body)

    def next(self):
        kind, body = self.draw.choice(self.good)
        body = self.damage(body)
        if kind == "grpc":
            return METHOD, {}, body
        headers = {"content-type": "application/json"}
        if kind == "binary":
            length = self.draw.choice((len(self.head), len(body), len(body) + 1, 1, 2**63))
            headers["inference-header-content-length"] = str(length)
        return PATH, headers, body


class HostileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="walle-hostile-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        models = os.path.join(folder, "models")
        save(relu_model(), models, "relu", conf="max_batch = 8\n")
        # The address sanitizer keeps what was freed: so little that growth shows.
        os.environ["ASAN_OPTIONS"] = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1")))
        self.infer = Infer(folder, models)
        self.addCleanup(self.infer.end)
        self.link = http.client.HTTPConnection("127.0.0.1", self.infer.ports["h2c"], timeout=60)
        self.addCleanup(self.link.close)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.infer.ports['h2c']}")
        self.addCleanup(channel.close)
        self.send = channel.unary_unary(METHOD)

    def post(self, headers, body):
        """What became of it: "ok" or "refused"."""
        self.link.request("POST", PATH, body, headers)
        answer = self.link.getresponse()
        text = answer.read()
        self.assertIn(answer.status, (200, 400, 413), (body[:300], text[:300]))
        if answer.status != 200:
            self.assertTrue(json.loads(text)["error"])
        return "ok" if answer.status == 200 else "refused"

    def call(self, message):
        code = grpc.StatusCode
        try:
            self.send(message, timeout=60)
            return "ok"
        except grpc.RpcError as error:
            self.assertIn(error.code(), (code.INVALID_ARGUMENT, code.NOT_FOUND), message[:300])
            self.assertTrue(error.details())
            return "refused"

    def test_memory_stays_where_it_was(self):
        print(f"seed {SEED}, {COUNT} requests")
        hostile = Hostile(SEED)
        seen = {"ok": 0, "refused": 0}
        before = 0
        for number in range(COUNT):
            if number == COUNT // 4:
                before = self.infer.resident_kb()  # what is kept for later, such as plans, is there
            path, headers, body = hostile.next()
            seen[self.post(headers, body) if path == PATH else self.call(body)] += 1
        after = self.infer.resident_kb()
        print(f"{seen}, resident {before} KiB after {COUNT // 4} requests, {after} KiB at the end")
        self.assertGreater(seen["refused"], COUNT // 2)
        self.assertLess(after - before, GROWTH_KB_MAX)
        status, _, body = curl(self.infer.url(PATH), data=request_of(ONE))
        self.assertEqual(status, 200, body)
        np.testing.assert_array_equal(json.loads(body)["outputs"][0]["data"], [2, 0, 0])


if __name__ == "__main__":
    unittest.main()
