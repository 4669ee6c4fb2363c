"""A service of models with many more callers than it can serve, and one that is killed under its callers: in HTTP/1.1, HTTP/2 and
gRPC. Nothing is timed: what is asserted is what each caller was told, and what was counted."""
import json
import os
import re
import shutil
import signal
import struct
import tempfile
import threading
import unittest

import grpc
import numpy as np
import raw_h2
from onnx import TensorProto, helper, numpy_helper
from test_infer_overload import METHOD, PATH, Line, field
from test_inference import ONE, Infer, curl, endless_model, model_of, relu_model, request_of, save
from walle_stack import wait_until

QUEUE = 4
CROWD = 10 * (QUEUE + 1)  # callers, beside the one of the best priority
FIRST_CALLS = 40
GROWTH_KB_MAX = 32 << 10
RELU = "/v2/models/relu/infer"


def rounds_model(rounds):
    """y = x after so many rounds of a loop: a run that takes a while."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Abs", ["s"], ["next"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", TensorProto.FLOAT, ["a", "b"])],
        [info("more", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, ["a", "b"])])
    return model_of(helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "rounds",
        [info("x", TensorProto.FLOAT, ["a", "b"])], [info("y", TensorProto.FLOAT, ["a", "b"])],
        [numpy_helper.from_array(np.int64(rounds), "n")]))


def figure(infer, name, model, more=""):
    text = curl(infer.url("/metrics"))[2].decode()
    return int(re.search(rf'^walle_infer_{name}{{model="{model}",version="1"{more}}} (\d+)$', text, re.M).group(1))


def calls(infer, model, result):
    return figure(infer, "calls_total", model, f',result="{result}"')


class Crowd(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-crowd-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = os.path.join(self.folder, "models")

    def start(self, *arguments):
        infer = Infer(self.folder, self.models, *arguments)
        self.addCleanup(infer.end)
        return infer

    @staticmethod
    def call_on(line, path, body):
        line.socket.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        return line.answer()

    def one_of_the_crowd(self, infer, over, told):
        """Calls again as soon as it is answered, whatever the answer, and at least once."""
        line, body = Line(infer.ports["h2c"]), request_of(ONE)
        with line.socket:
            while True:
                status, headers, answer = self.call_on(line, "/v2/models/rounds/infer", body)
                told.append((status, status == 200 or int(headers.get("retry-after", 0)) >= 1, status == 200 or json.loads(answer)["error"]))
                if over.is_set():
                    return

    def test_ten_times_what_it_can(self):
        """Each call is answered or refused at once with a time to come again; those of the best priority are all answered; no work is
        done but for answers; the queue and the memory stay within their bounds; and then it is as before."""
        save(rounds_model(2000), self.models, "rounds", conf=f"queue = {QUEUE}\ninstances = 1\n")
        infer = self.start()
        path, first, over = "/v2/models/rounds/infer", request_of(ONE, priority=0), threading.Event()
        self.assertEqual(curl(infer.url(path), data=first)[0], 200)
        before = infer.resident_kb()
        told = [[] for _ in range(CROWD)]
        callers = [threading.Thread(target=self.one_of_the_crowd, args=(infer, over, mine)) for mine in told]
        for caller in callers:
            caller.start()
        try:
            wait_until(lambda: calls(infer, "rounds", "refused") > 0, what="the crowd to be too many")
            line, waiting = Line(infer.ports["h2c"]), []
            with line.socket:
                for number in range(FIRST_CALLS):
                    status, _, body = self.call_on(line, path, first)
                    self.assertEqual(status, 200, body)
                    self.assertEqual(json.loads(body)["outputs"][0]["data"], [1, 2, 4])
                    if number % 8 == 0:
                        waiting.append(figure(infer, "waiting", "rounds"))
        finally:
            over.set()
            for caller in callers:
                caller.join()
        all_told = [one for mine in told for one in mine]
        self.assertEqual(sum(1 for mine in told if mine), CROWD)  # nobody was left without an answer
        self.assertEqual({one[0] for one in all_told}, {200, 429})
        self.assertTrue(all(fine for _, fine, _ in all_told))
        self.assertLessEqual({why for status, _, why in all_told if status == 429},
                             {"too many calls wait for the model", "calls of a better priority took its place"})
        good = sum(status == 200 for status, _, _ in all_told)
        self.assertEqual(calls(infer, "rounds", "ok"), good + FIRST_CALLS + 1)
        self.assertEqual(calls(infer, "rounds", "refused"), len(all_told) - good)
        self.assertEqual(figure(infer, "batches_total", "rounds"), good + FIRST_CALLS + 1)  # a run for each answer, and no other
        self.assertLessEqual(max(waiting), QUEUE)
        grown = infer.resident_kb() - before
        print(f"{len(all_told)} calls of the crowd, {good} answered, resident {before} KiB and {grown} more")
        self.assertLess(grown, GROWTH_KB_MAX)
        self.assertEqual((figure(infer, "waiting", "rounds"), figure(infer, "running", "rounds")), (0, 0))
        self.assertEqual(curl(infer.url(path), data=request_of(ONE))[0], 200)

    def test_killed_under_its_callers(self):
        """A call that runs and others that wait, of three protocols: a kill ends each with an error, long before its deadline. A service
        that is started again runs none of them, and charges only for what comes then."""
        save(endless_model(), self.models, "endless", conf="instances = 1\n")
        save(relu_model(), self.models, "relu")
        quota, data = ("--set", "infer.tenant_calls_per_min=8"), request_of(ONE, timeout=600_000_000)
        infer = self.start(*quota)
        lines = [Line(infer.ports["h2c"]) for _ in range(3)]
        link = raw_h2.Connection(infer.ports["h2c"])
        channel = grpc.insecure_channel(f"127.0.0.1:{infer.ports['h2c']}")
        for held in (*(line.socket for line in lines), link.socket, channel):
            self.addCleanup(held.close)
        for line in lines:
            line.socket.sendall(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        for _ in range(3):
            stream = link.headers(raw_h2.request(PATH, "POST", ("content-length", str(len(data)))), raw_h2.END_HEADERS)
            link.frame(raw_h2.DATA, raw_h2.END_STREAM, stream, data)
        tensor = field(1, b"x") + field(2, b"FP32") + field(3, b"\x01\x03")
        message = field(1, b"endless") + field(5, tensor) + field(7, struct.pack("<3f", *ONE[0]))
        asked = [channel.unary_unary(METHOD).future(message, timeout=600) for _ in range(2)]
        wait_until(lambda: figure(infer, "waiting", "endless") + figure(infer, "running", "endless") == 8, what="all the calls")
        infer.end(signal.SIGKILL)
        for line in lines:
            with self.assertRaises((EOFError, ConnectionError)):
                line.answer()
        with self.assertRaises((raw_h2.Closed, ConnectionError)):
            while True:
                self.assertNotEqual(link.read().kind, raw_h2.HEADERS)  # no answer to any of the three
        for call in asked:
            self.assertEqual(call.exception().code(), grpc.StatusCode.UNAVAILABLE)
        again = self.start(*quota)
        for result in ("ok", "cancelled", "failed", "timed_out"):
            self.assertEqual(calls(again, "endless", result), 0)
        self.assertEqual(figure(again, "running", "endless"), 0)
        statuses = [curl(again.url(RELU), data=request_of(ONE))[0] for _ in range(9)]
        self.assertEqual(statuses, [200] * 8 + [429])  # all of the quota, and no more than that


if __name__ == "__main__":
    unittest.main()
