"""Callers of models who send ahead and leave, do not read what they asked for, or contradict themselves; and gRPC's statuses for
what is refused before a method is reached."""
import json
import os
import re
import shutil
import socket
import struct
import tempfile
import unittest

import grpc
import numpy as np
import raw_h2
from test_inference import ONE, Infer, binary_of, curl, endless_model, relu_model, request_of, save
from walle_stack import wait_until

RELU, ENDLESS = "/v2/models/relu/infer", "/v2/models/endless/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"


def head_of(path, size, *more):
    lines = "".join(f"{line}\r\n" for line in more)
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n{lines}\r\n".encode()


class Callers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-callers-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = os.path.join(self.folder, "models")
        save(relu_model(), self.models, "relu")
        save(endless_model(), self.models, "endless", conf="instances = 1\n")

    def start(self, *arguments):
        infer = Infer(self.folder, self.models, *arguments)
        self.addCleanup(infer.end)
        return infer

    def figure(self, infer, name, more=""):
        text = curl(infer.url("/metrics"))[2].decode()
        return int(re.search(rf'^walle_infer_{name}{{model="endless",version="1"{more}}} (\d+)$', text, re.M).group(1))

    def connect(self, infer):
        link = socket.create_connection(("127.0.0.1", infer.ports["h2c"]), 60)
        self.addCleanup(link.close)
        return link

    def test_sent_ahead_and_left(self):
        """None of the calls that were sent one behind another runs on when their caller is gone."""
        infer, body = self.start(), request_of(ONE)
        link = self.connect(infer)
        link.sendall(3 * (head_of(ENDLESS, len(body)) + body))
        wait_until(lambda: self.figure(infer, "running") == 1, what="the first one")
        link.shutdown(socket.SHUT_WR)
        answers = b""
        while data := link.recv(65536):
            answers += data
        self.assertEqual(answers.count(b"HTTP/1.1 503 "), 3, answers)
        self.assertEqual(answers.count(b"the caller is gone"), 3, answers)
        self.assertEqual(self.figure(infer, "calls_total", ',result="cancelled"'), 3)
        self.assertEqual(self.figure(infer, "running"), 0)

    @staticmethod
    def send_body(link, stream, body):
        """Within the stream's window; that of the connection is larger than all that is sent."""
        window = 65_535
        for at in range(0, len(body), 16_384):
            piece = body[at:at + 16_384]
            while window < len(piece):
                window += int.from_bytes(link.wait(raw_h2.WINDOW_UPDATE, stream).payload, "big")
            window -= len(piece)
            link.frame(raw_h2.DATA, raw_h2.END_STREAM if at + len(piece) == len(body) else 0, stream, piece)

    def test_slow_readers(self):
        """What answers hold that nobody reads is bounded, and comes back when they are read or given up."""
        infer = self.start("--set", "limits.infer_answer_bytes=1048576")
        head, raw = binary_of(np.ones((25_000, 3), np.float32))  # 300,000 bytes and so the answer
        link = raw_h2.Connection(infer.ports["h2c"], settings=struct.pack(">HI", 4, 0))  # no window
        self.addCleanup(link.socket.close)
        statuses = []
        for _ in range(3):
            stream = link.headers(raw_h2.request(RELU, "POST", ("inference-header-content-length", str(len(head)))), raw_h2.END_HEADERS)
            self.send_body(link, stream, head + raw)
            statuses.append(raw_h2.status_of(link.wait(raw_h2.HEADERS, stream).payload))
        self.assertEqual(statuses, [200, 503, 503])  # of one caller half of the limit
        call = lambda: curl(infer.url(RELU), "-H", f"inference-header-content-length: {len(head)}", data=head + raw)[0]
        self.assertEqual(call(), 503)
        self.assertEqual(curl(infer.url(RELU), data=request_of(ONE))[0], 200)  # a small one is not counted
        link.socket.close()
        wait_until(lambda: call() == 200, what="the answers to be given up")

    def test_contradictions(self):
        infer = self.start()
        head, raw = binary_of(ONE)
        length = f"inference-header-content-length: {len(head)}"
        for more, status in (((length, length), b"200"), ((length, length + "0"), b"400"), (("inference-header-content-length: 1", length), b"400")):
            link = self.connect(infer)
            link.sendall(head_of(RELU, len(head + raw), *more) + head + raw)
            self.assertEqual(link.recv(65536).split()[1], status, more)

    def test_grpc_statuses(self):
        infer = self.start("--set", "limits.infer_bytes=4096")
        channel = grpc.insecure_channel(f"127.0.0.1:{infer.ports['h2c']}")
        self.addCleanup(channel.close)
        code = grpc.StatusCode
        for metadata, message, wanted, says in (((("authorization", "Bearer wrong"),), b"", code.UNAUTHENTICATED, "token"),
                                                ((), bytes(5000), code.RESOURCE_EXHAUSTED, "over the limit")):
            with self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary(METHOD)(message, metadata=metadata, timeout=60)
            self.assertEqual(caught.exception.code(), wanted)
            self.assertIn(says, caught.exception.details())  # ours, not what a client makes of a status of HTTP
        for path in (METHOD, RELU):  # who does not speak gRPC, and other paths, get HTTP's
            status, headers, text = curl(infer.url(path), "--http2-prior-knowledge", "-H", "authorization: Bearer wrong", data=b"{}")
            self.assertEqual(status, 401)
            self.assertNotIn("grpc-status", headers)
            self.assertTrue(json.loads(text))


if __name__ == "__main__":
    unittest.main()
