#!/usr/bin/env python3
"""Callers of models that take their answers by the byte, and answers that wait for one who reads nothing: the first are reset by
limits.reply_rate_bytes over timeouts.write_ms, and of the second nothing is held but the answers."""
import importlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import raw_h2
from test_inference import GIVE_BACK, Gateway, curl, model_of, relu_model, request_of, save
from test_infer_stream import INITIAL_WINDOW_SIZE, METHOD, SOURCE, WINDOW, frame, wide_model
from walle_stack import wait_until

NO_WINDOW = INITIAL_WINDOW_SIZE.to_bytes(2, "big") + bytes(4)
RATE = ("--set", "timeouts.write_ms=2000", "--set", "limits.reply_rate_bytes=4096")  # 8 KiB in two seconds


def cut_model():
    """The first 600 of a row's numbers: a small answer to a large call."""
    info = helper.make_tensor_value_info
    consts = [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in (("from", 0), ("to", 600), ("axis", 1))]
    return model_of(helper.make_graph([helper.make_node("Slice", ["x", "from", "to", "axis"], ["y"])], "cut",
                                      [info("x", TensorProto.INT64, ["n", "m"])], [info("y", TensorProto.INT64, ["n", "k"])], consts))


class SlowStreams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ.update(GIVE_BACK)
        cls.folder = tempfile.mkdtemp(prefix="walle-slow-streams-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run(["protoc", f"--python_out={cls.folder}", f"-I{SOURCE}/gateway/infer/grpc", "inference.proto"], check=True)
        sys.path.insert(0, cls.folder)
        cls.pb = importlib.import_module("inference_pb2")
        cls.models = os.path.join(cls.folder, "models")
        save(wide_model(), cls.models, "wide")
        save(cut_model(), cls.models, "cut")
        save(relu_model(), cls.models, "relu")

    def gateway(self, *more):
        gateway = Gateway(tempfile.mkdtemp(prefix="run-", dir=self.folder), ("--set", "infer.models=" + self.models, *more))

        def end():
            gateway.stop()
            gateway.process.stdout.close()
            gateway.log.close()
        self.addCleanup(end)
        return gateway

    def open(self, gateway, path=METHOD, kind="application/grpc"):
        """A stream that may not be answered a byte, so far."""
        link = raw_h2.Connection(int(gateway.url.rsplit(":", 1)[1]), settings=NO_WINDOW)
        self.addCleanup(link.socket.close)
        fields = raw_h2.request(path, "POST", ("content-type", kind), ("te", "trailers"))
        return link, link.headers(fields, raw_h2.END_HEADERS)

    def wide_call(self):
        request = self.pb.ModelInferRequest(model_name="wide", id="1")
        request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        request.raw_input_contents.append(np.ones(1, np.float32).tobytes())
        return frame(request.SerializeToString())

    def taken(self, link, stream, step, enough):
        """Takes `step` bytes at a time until it has `enough`, or until it is reset: what it got, and whether it was."""
        got = 0
        link.socket.settimeout(60)
        while got < enough:
            for where in (0, stream):
                link.frame(raw_h2.WINDOW_UPDATE, 0, where, struct.pack(">I", step))
            room = step
            while room > 0:
                said = link.read()
                if said.kind == raw_h2.RST_STREAM and said.stream == stream:
                    return got, True
                if said.kind == raw_h2.DATA and said.stream == stream:
                    got, room = got + len(said.payload), room - len(said.payload)
            self.pause.wait(0.3)
        return got, False

    def check_rate(self, gateway, path, body, kind, end):
        self.pause = threading.Event()
        for step, reset in ((1, True), (16384, False)):
            link, stream = self.open(gateway, path, kind)
            link.frame(raw_h2.DATA, end, stream, body)
            got, was_reset = self.taken(link, stream, step, 8 * 16384)
            self.assertEqual(was_reset, reset, f"{got} bytes by {step}")
            self.assertLess(got, 8192 if reset else 9 * 16384)

    def test_who_takes_answers_of_a_stream_by_the_byte(self):
        self.check_rate(self.gateway(*RATE), METHOD, self.wide_call(), "application/grpc", 0)

    def test_who_takes_the_answer_to_one_call_by_the_byte(self):
        body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}'
        self.check_rate(self.gateway(*RATE), "/v2/models/wide/infer", body, "application/json", raw_h2.END_STREAM)

    def resident_mib(self, gateway):
        with open(f"/proc/{gateway.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1)) >> 10

    @staticmethod
    def calls_of(gateway, model):
        rows = json.loads(curl(gateway.url + "/v2/models/stats", "--http2-prior-knowledge")[2])["model_stats"]
        return sum(row["inference_stats"]["success"]["count"] for row in rows if row["name"] == model)

    def test_large_calls_whose_small_answers_nobody_reads(self):
        """24 calls of 2 MB on their way, 16 MB once read, and 5 KB answered: they took 16 MB each until they were read."""
        calls, count = 24, 2_000_000
        gateway = self.gateway("--set", "timeouts.write_ms=600000")
        request = self.pb.ModelInferRequest(model_name="cut", id="1")
        request.inputs.add(name="x", datatype="INT64", shape=[1, count]).contents.int64_contents.extend([1] * count)
        message = frame(request.SerializeToString())
        before = self.resident_mib(gateway)
        link, stream = self.open(gateway)
        link.socket.settimeout(120)
        room = {0: WINDOW, stream: WINDOW}
        for number in range(calls):
            at = 0
            while at < len(message):
                size = min(len(message) - at, 16384, *room.values())
                if size > 0:
                    link.frame(raw_h2.DATA, 0, stream, message[at:at + size])
                    at += size
                    room = {key: left - size for key, left in room.items()}
                    continue
                said = link.read()
                self.assertNotIn(said.kind, (raw_h2.RST_STREAM, raw_h2.GOAWAY), number)
                if said.kind == raw_h2.WINDOW_UPDATE and said.stream in room:
                    room[said.stream] += int.from_bytes(said.payload, "big")
        wait_until(lambda: self.calls_of(gateway, "cut") == calls, what="the last answer")
        self.assertLess(self.resident_mib(gateway) - before, calls * count * 8 >> 21)  # half of what they took
        answer = curl(gateway.url + "/v2/models/relu/infer", "--http2-prior-knowledge", data=request_of(np.ones((1, 3), np.float32)))
        self.assertEqual(answer[0], 200)


if __name__ == "__main__":
    unittest.main()
