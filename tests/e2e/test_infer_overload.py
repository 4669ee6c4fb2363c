"""A model whose queue is full: large calls are refused by the beginning of their body, in HTTP/1.1, HTTP/2 and gRPC, and the
connection goes on; a call of the best priority is taken. Nothing is timed: the call that runs never ends."""
import json
import os
import re
import shutil
import socket
import struct
import tempfile
import unittest

import raw_h2
from test_inference import ONE, Infer, curl, endless_model, request_of, save
from walle_stack import wait_until

PATH = "/v2/models/endless/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"
SIZE = 600_000  # bytes of tensors
CALLS = 100


def json_head(size=SIZE, **parameters):
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [size // 12, 3],
                                   "parameters": {"binary_data_size": size}}], "parameters": parameters}).encode()


def field(number, value):
    size, length = len(value), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


class Line:
    """A connection in HTTP/1.1, by hand."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = b""

    def begin(self, head, size=SIZE):
        """A call with all of its JSON and nothing of its tensors."""
        self.socket.sendall(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(head) + size}\r\n"
                            f"inference-header-content-length: {len(head)}\r\n\r\n".encode() + head)

    def answer(self):
        """(status, headers, body)"""
        while b"\r\n\r\n" not in self.input:
            self.more()
        head, _, self.input = self.input.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        size = int(headers["content-length"])
        while len(self.input) < size:
            self.more()
        body, self.input = self.input[:size], self.input[size:]
        return int(lines[0].split()[1]), headers, body

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self.input += data


class Overload(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="walle-overload-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        models = os.path.join(folder, "models")
        save(endless_model(), models, "endless", conf="queue = 1\ninstances = 1\n")
        self.infer = Infer(folder, models)
        self.addCleanup(self.infer.end)
        self.lines = []
        for what in ("running", "waiting"):
            line = self.line()
            body = request_of(ONE)
            line.socket.sendall(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            wait_until(lambda: self.figure(f"infer_{what}") == 1, what=f"a call that is {what}")

    def line(self):
        line = Line(self.infer.ports["h2c"])
        self.lines.append(line)
        self.addCleanup(line.socket.close)
        return line

    def figure(self, name, more=""):
        text = curl(self.infer.url("/metrics"))[2].decode()
        return int(re.search(rf'^walle_{name}{{model="endless",version="1"{more}}} (\d+)$', text, re.M).group(1))

    def refused(self):
        return self.figure("infer_calls_total", ',result="refused"')

    def test_http1(self):
        line = self.line()
        for number in range(3):
            line.begin(json_head())
            status, headers, body = line.answer()  # nothing of the tensors was sent
            self.assertEqual((status, json.loads(body)), (429, {"error": "too many calls wait for the model"}))
            self.assertGreaterEqual(int(headers["retry-after"]), 1)
            self.assertNotIn("connection", headers)
            line.socket.sendall(bytes(SIZE))
            self.assertEqual(self.refused(), number + 1)
        line.socket.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        self.assertEqual(line.answer()[0], 200)

    def test_http1_many(self):
        """As many as there are: a refusal costs the connection nothing, not even where the body comes with the next head."""
        line, head = self.line(), json_head(20_400)
        for _ in range(CALLS):
            line.begin(head, 20_400)
            self.assertEqual(line.answer()[0], 429)
            line.socket.sendall(bytes(20_400))
        self.assertEqual(self.refused(), CALLS)

    def test_http1_too_long_to_wait_for(self):
        line, size = self.line(), 2 << 20
        line.begin(json_head(size), size)
        status, headers, _ = line.answer()
        self.assertEqual((status, headers["connection"]), (429, "close"))

    def test_http2(self):
        link = raw_h2.Connection(self.infer.ports["h2c"])
        self.addCleanup(link.socket.close)
        head = json_head()
        for number in range(3):
            stream = link.headers(raw_h2.request(PATH, "POST", ("inference-header-content-length", str(len(head))),
                                                 ("content-length", str(len(head) + SIZE))), raw_h2.END_HEADERS)
            link.frame(raw_h2.DATA, 0, stream, head)
            self.assertEqual(link.reply(stream), (429, b'{"error":"too many calls wait for the model"}'))
            self.assertEqual(self.refused(), number + 1)
        for number in range(3):  # a client that sends on comes to its end
            status, headers, _ = curl(self.infer.url(PATH), "--http2-prior-knowledge", "-H", f"inference-header-content-length: {len(head)}",
                                      data=head + bytes(SIZE))
            self.assertEqual((status, "retry-after" in headers), (429, True))
        self.assertEqual(self.refused(), 6)

    def test_grpc(self):
        link = raw_h2.Connection(self.infer.ports["h2c"])
        self.addCleanup(link.socket.close)
        raw = bytes(SIZE)
        message = field(1, b"endless") + field(5, b"") + field(7, raw)
        stream = link.headers(raw_h2.request(METHOD, "POST", ("content-type", "application/grpc"), ("te", "trailers")), raw_h2.END_HEADERS)
        link.frame(raw_h2.DATA, 0, stream, b"\0" + struct.pack(">I", len(message)) + message[:100])
        frame = link.wait(raw_h2.HEADERS, stream)
        self.assertTrue(frame.flags & raw_h2.END_STREAM)
        self.assertEqual(self.refused(), 1)

    def test_the_best_goes_on(self):
        line = self.line()
        line.begin(json_head(priority=0))
        line.socket.sendall(bytes(SIZE))
        waited = self.lines[1].answer()  # it took this one's place
        self.assertEqual((waited[0], json.loads(waited[2])), (429, {"error": "calls of a better priority took its place"}))
        self.assertEqual(self.figure("infer_waiting"), 1)


if __name__ == "__main__":
    unittest.main()
