"""ModelStreamInfer: calls over one stream of gRPC, by Debian's python3-grpcio and by hand. Answers in the order of the calls;
one that fails leaves the stream as it was; deadlines, callers that go, what is no message, and peers that read nothing."""
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy as np
from onnx import TensorProto, helper

import raw_h2
from test_inference import Infer, curl, endless_model, model_of, relu_model, save
from test_infer_protocol import identity_model
from walle_stack import wait_until

SOURCE = os.environ["WALLE_SOURCE"]
METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
CALLS_MAX = 32  # not read, of a stream
WINDOW = 65535
INITIAL_WINDOW_SIZE = 4
ENDS = 2_000_000  # the endless model, at once


def wide_model():
    """65,536 numbers for one"""
    info = helper.make_tensor_value_info
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [1, 65536])
    return model_of(helper.make_graph([helper.make_node("Expand", ["x", "shape"], ["y"])], "wide",
                                      [info("x", TensorProto.FLOAT, ["n", 1])], [info("y", TensorProto.FLOAT, ["n", 65536])],
                                      [shape]))


def frame(message, flag=0):
    return bytes([flag]) + len(message).to_bytes(4, "big") + message


class StreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="walle-infer-stream-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run(["protoc", f"--python_out={cls.folder}", f"-I{SOURCE}/gateway/infer/grpc", "inference.proto"], check=True)
        sys.path.insert(0, cls.folder)
        cls.pb = importlib.import_module("inference_pb2")
        cls.models = os.path.join(cls.folder, "models")
        save(relu_model(), cls.models, "relu", conf="max_batch = 8\n")
        save(identity_model(TensorProto.FLOAT), cls.models, "same")
        save(endless_model(), cls.models, "endless", conf="instances = 1\n")
        save(wide_model(), cls.models, "wide")

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="run-", dir=self.folder)
        self.infer = Infer(folder, self.models, *self.more())
        self.addCleanup(self.infer.end)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.infer.ports['h2c']}",
                                             options=[("grpc.max_receive_message_length", 64 << 20)])
        self.addCleanup(self.channel.close)
        self.stream = self.channel.stream_stream(METHOD, request_serializer=self.bytes_of,
                                                 response_deserializer=self.pb.ModelStreamInferResponse.FromString)

    def more(self):
        return ("--threads", "2")

    @staticmethod
    def bytes_of(message):
        return message if isinstance(message, bytes) else message.SerializeToString()

    def request(self, model, x, number=0, **numbers):
        x = np.asarray(x, np.float32)
        request = self.pb.ModelInferRequest(model_name=model, id=str(number))
        request.inputs.add(name="x", datatype="FP32", shape=x.shape)
        request.raw_input_contents.append(x.tobytes())
        for name, value in numbers.items():
            request.parameters[name].int64_param = value
        return request

    def values(self, answer):
        self.assertEqual(answer.error_message, "")
        return np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32).tolist()

    def ask(self, requests, **settings):
        return list(self.stream(iter(requests), timeout=settings.pop("timeout", 60), **settings))

    def test_answers_come_in_order(self):
        # The first one takes long, the others are done before it.
        slow = self.request("endless", [[0]], 0, timeout=300000)
        requests = [slow] + [self.request("relu", [[number, 2, -4]], number) for number in range(1, 200)]
        answers = self.ask(requests)
        self.assertEqual([answer.infer_response.id for answer in answers], [str(number) for number in range(200)])
        self.assertTrue(answers[0].error_message)
        for number in range(1, 200):
            self.assertEqual(self.values(answers[number]), [number + 1, 0, 0])
            self.assertEqual(answers[number].infer_response.model_name, "relu")

    def test_a_conversation(self):
        """Each call is answered before the next one is asked."""
        asked = queue.Queue()
        call = self.stream(iter(asked.get, None), timeout=60)
        for number in range(20):
            asked.put(self.request("same", [[number, 0, 0]], number))
            answer = next(call)
            self.assertEqual((answer.infer_response.id, self.values(answer)), (str(number), [number, 0, 0]))
        asked.put(None)
        self.assertEqual(list(call), [])
        self.assertEqual(call.code(), grpc.StatusCode.OK)

    def test_one_bad_message_is_answered_and_the_stream_goes_on(self):
        good = self.request("relu", [[1, 2, -4]], 7)
        shape = self.request("relu", [[1, 2]], 2)
        lying = self.request("relu", [[1, 2, 3]], 3)
        lying.inputs[0].shape[1] = 2**40
        raw = self.request("relu", [[1, 2, 3]], 4)
        raw.raw_input_contents[0] = raw.raw_input_contents[0][:-1]
        bad = [(b"\xff\xff\xff", "", "malformed"), (b"", "", ""), (self.request("none", [[1, 2, 3]], 1), "1", "none"),
               (shape, "2", "x"), (lying, "3", "x"), (raw, "4", "x"),
               (self.request("relu", [[1, 2, 3]], 5, priority=9), "5", "priority"),
               (good.SerializeToString()[:-5], "7", "")]
        answers = self.ask([message for wrong, _, _ in bad for message in (wrong, good)])
        self.assertEqual(len(answers), 2 * len(bad))
        for (_, number, says), answer in zip(bad, answers[::2]):
            self.assertTrue(answer.error_message)
            self.assertIn(says, answer.error_message)
            self.assertEqual((answer.infer_response.id, len(answer.infer_response.outputs)), (number, 0))
        for answer in answers[1::2]:
            self.assertEqual(self.values(answer), [2, 0, 0])

    def test_nothing_is_asked(self):
        self.assertEqual(self.ask([]), [])

    def test_large_messages(self):
        x = np.arange(3 << 18, dtype=np.float32).reshape(-1, 3)
        answers = self.ask([self.request("same", x, number) for number in range(8)])
        self.assertEqual(len(answers), 8)
        for answer in answers:
            self.assertEqual(answer.infer_response.raw_output_contents[0], x.tobytes())

    def test_deadline(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.ask([self.request("endless", [[0]])], timeout=1)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(self.values(self.ask([self.request("endless", [[ENDS]])])[0]), [ENDS])

    def test_deadline_of_a_call_is_its_own(self):
        answers = self.ask([self.request("endless", [[0]], 1, timeout=100000), self.request("relu", [[1, 2, -4]], 2)])
        self.assertIn("time", answers[0].error_message)
        self.assertEqual(self.values(answers[1]), [2, 0, 0])

    def test_a_caller_that_goes_leaves_nothing_running(self):
        asked = queue.Queue()
        call = self.stream(iter(asked.get, None))
        for number in range(5):
            asked.put(self.request("endless", [[0]], number))
        wait_until(lambda: b'walle_infer_running{model="endless",version="1"} 1' in curl(self.infer.url("/metrics"))[2],
                   what="a run of the endless model")
        call.cancel()
        asked.put(None)
        self.assertEqual(self.values(self.ask([self.request("endless", [[ENDS]])])[0]), [ENDS])

    def test_the_server_ends(self):
        asked = queue.Queue()
        call = self.stream(iter(asked.get, None))
        asked.put(self.request("relu", [[1, 2, -4]]))
        self.assertEqual(self.values(next(call)), [2, 0, 0])
        self.infer.process.send_signal(signal.SIGTERM)
        with self.assertRaises(grpc.RpcError) as caught:
            next(call)
        asked.put(None)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.infer.process.wait(60), 0)

    # ---- By hand

    def open(self, *more, settings=b""):
        link = raw_h2.Connection(self.infer.ports["h2c"], settings=settings)
        self.addCleanup(link.socket.close)
        fields = (("content-type", "application/grpc"), ("te", "trailers"), *more)
        return link, link.headers(raw_h2.request(METHOD, "POST", *fields), raw_h2.END_HEADERS)

    def pieces(self, *pieces):
        """The bytes of the answers to a stream of these, each a DATA frame of its own."""
        link, stream = self.open()
        for piece in pieces:
            link.frame(raw_h2.DATA, 0, stream, piece)
        link.frame(raw_h2.DATA, raw_h2.END_STREAM, stream)
        seen = b""
        while True:
            got = link.read()
            if got.stream == stream and got.kind == raw_h2.DATA:
                seen += got.payload
            if got.stream == stream and got.kind == raw_h2.HEADERS and got.flags & raw_h2.END_STREAM:
                return seen

    def test_what_is_no_message_ends_the_stream(self):
        good = frame(self.request("relu", [[1, 2, -4]]).SerializeToString())
        for bad, status, says, more in (
                (b"", "0", None, ()),
                (frame(b"abc", 1), "13", "compressed", ()),
                (frame(b"abc", 1), "13", "compressed", ("-H", "grpc-encoding: identity")),
                (frame(b"abc", 1), "12", "compressed", ("-H", "grpc-encoding: gzip")),
                (b"\0\xff\xff\xff\xff", "8", "limit", ()),
                (good[:-1], "3", "within", ()), (b"\0\0", "3", "within", ())):
            code, headers, seen = curl(self.infer.url(METHOD), "--http2-prior-knowledge", "-H", "content-type: application/grpc",
                                       "-H", "te: trailers", *more, data=good + bad)
            self.assertEqual((code, headers["grpc-status"], headers["grpc-accept-encoding"]), (200, status, "identity"))
            self.assertEqual(says is None, "grpc-message" not in headers)
            self.assertIn(says or "", headers.get("grpc-message", ""))
            answer = self.pb.ModelStreamInferResponse.FromString(seen[5:])  # what was asked before is answered
            self.assertEqual(self.values(answer), [2, 0, 0])

    def test_messages_in_pieces(self):
        good = frame(self.request("relu", [[1, 2, -4]]).SerializeToString())
        answer = self.pieces(good)
        for size in (1, 3, 7, len(good) + 1):
            every = good * 3
            self.assertEqual(self.pieces(*[every[at:at + size] for at in range(0, len(every), size)]), 3 * answer)

    def fill(self, model):
        """A peer that takes no byte of an answer sends as much as it is let: how much that is."""
        link, stream = self.open(settings=INITIAL_WINDOW_SIZE.to_bytes(2, "big") + bytes(4))
        message = frame(self.request(model, [[1]]).SerializeToString())
        room, sent = WINDOW, 0
        link.socket.settimeout(2)
        try:
            while sent < 8 << 20:
                while room < len(message):
                    got = link.wait(raw_h2.WINDOW_UPDATE)
                    room += int.from_bytes(got.payload, "big") if got.stream == stream else 0
                link.frame(raw_h2.DATA, 0, stream, message)
                room, sent = room - len(message), sent + len(message)
        except TimeoutError:
            return link, sent
        self.fail("a peer that reads nothing was never stopped")

    def test_peers_that_read_nothing(self):
        grown = []
        for _ in range(3):
            links = [self.fill("wide") for _ in range(3)]
            for link, sent in links:
                self.assertLess(sent, 3 * WINDOW)
                grown.append(self.infer.resident_kb())
                link.socket.close()
        # Of each stream at most the calls that were under way, whose answers are 256 KiB, made once and copied once.
        self.assertLess(max(grown) - min(grown), 3 * CALLS_MAX * 2 * 256 + 16384)
        self.assertLess(grown[-1] - grown[2], 16384)
        self.assertEqual(self.values(self.ask([self.request("relu", [[1, 2, -4]])])[0]), [2, 0, 0])

    def test_small_answers_that_nobody_reads(self):
        _, sent = self.fill("none")
        size = len(frame(self.request("none", [[1]]).SerializeToString()))
        self.assertLess(sent, CALLS_MAX * size + WINDOW + size)


class TokenTest(StreamTest):
    """Only what a stream needs of a token is looked at."""

    def more(self):
        return ("--threads", "2", "--access", "token")

    def ask(self, requests, **settings):
        token = settings.pop("token", self.infer.token())
        return super().ask(requests, metadata=(("authorization", f"Bearer {token}"),), **settings)

    def test_who_shows_nothing(self):
        for token in ("", "wrong"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.ask([self.request("relu", [[1, 2, -4]])], token=token)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_a_token_that_is_revoked(self):
        secret = self.infer.new_token("caller", "viewer")
        asked = queue.Queue()
        call = self.stream(iter(asked.get, None), metadata=(("authorization", f"Bearer {secret}"),))
        asked.put(self.request("relu", [[1, 2, -4]]))
        self.assertEqual(self.values(next(call)), [2, 0, 0])
        admin = ("-H", f"Authorization: Bearer {self.infer.token()}", "-H", "Content-Type: application/json")
        tokens = json.loads(curl(self.infer.url("/api/v1/tokens"), *admin)[2])["items"]
        number = next(token["id"] for token in tokens if token["name"] == "caller")
        self.assertEqual(curl(self.infer.url(f"/api/v1/tokens/{number}/revoke"), *admin, data=b"{}")[0], 200)
        asked.put(self.request("relu", [[1, 2, -4]]))
        with self.assertRaises(grpc.RpcError) as caught:
            next(call)
        asked.put(None)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)


class QuotaTest(StreamTest):
    """Each message is a call of its own to its tenant, and a refused one ends no stream."""

    def more(self):
        return ("--threads", "2", "--set", "infer.tenant_calls_per_min=4", "--set", "infer.tenant_bytes_per_min=3000")

    def test_messages_are_charged(self):
        large = self.request("same", [[1.0] * 3] * 200, 0)  # 2,400 bytes of numbers
        small = self.request("same", [[1, 2, 3]], 1)
        answers = self.ask([large, large, *[small] * 5])
        told = [answer.error_message for answer in answers]
        self.assertEqual([bool(text) for text in told], [False, True, False, False, False, True, True], told)
        self.assertIn("the tenant had its 3000 bytes", told[1])
        self.assertIn("the tenant had its 4 calls of a minute", told[5])


def load_tests(loader, standard, pattern):
    del standard, pattern
    tests = unittest.TestSuite(loader.loadTestsFromTestCase(StreamTest))
    for name in ("test_who_shows_nothing", "test_a_token_that_is_revoked", "test_answers_come_in_order"):
        tests.addTest(TokenTest(name))
    tests.addTest(QuotaTest("test_messages_are_charged"))
    return tests


if __name__ == "__main__":
    unittest.main()
