"""The Open Inference Protocol, clause by clause, as its text has it: every datatype there and back in JSON, with binary
tensors and over gRPC, by clients that nobody here wrote (curl in HTTP/1.1 and HTTP/2, Debian's python3-grpcio with classes
that protoc makes of our description); what is malformed is refused with the reason; a caller that leaves is dropped."""
import importlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy as np
from onnx import TensorProto, helper

from test_inference import Infer, curl, endless_model, model_of, save

SOURCE = os.environ["WALLE_SOURCE"]
SERVICE = "/inference.GRPCInferenceService/"
SEED = 20261129
VERSIONS = ("--http1.1", "--http2-prior-knowledge")

# Datatype of the protocol: numpy's, ONNX's, the list of typed contents, values at the ends of its range.
TYPES = {
    "BOOL": (np.bool_, TensorProto.BOOL, "bool_contents", [True, False, True]),
    "UINT8": (np.uint8, TensorProto.UINT8, "uint_contents", [0, 7, 255]),
    "UINT16": (np.uint16, TensorProto.UINT16, "uint_contents", [0, 7, 65535]),
    "UINT32": (np.uint32, TensorProto.UINT32, "uint_contents", [0, 7, 2**32 - 1]),
    "UINT64": (np.uint64, TensorProto.UINT64, "uint64_contents", [0, 2**63 + 1, 2**64 - 1]),
    "INT8": (np.int8, TensorProto.INT8, "int_contents", [-128, 0, 127]),
    "INT16": (np.int16, TensorProto.INT16, "int_contents", [-2**15, 0, 2**15 - 1]),
    "INT32": (np.int32, TensorProto.INT32, "int_contents", [-2**31, 0, 2**31 - 1]),
    "INT64": (np.int64, TensorProto.INT64, "int64_contents", [-2**63, 2**53 + 1, 2**63 - 1]),
    "FP16": (np.float16, TensorProto.FLOAT16, None, [0.1, -65504, 6e-8]),
    "FP32": (np.float32, TensorProto.FLOAT, "fp32_contents", [0.1, -3.4028235e38, 1e-45]),
    "FP64": (np.float64, TensorProto.DOUBLE, "fp64_contents", [0.1, -1.7976931348623157e308, 5e-324]),
    "BYTES": (np.object_, TensorProto.STRING, "bytes_contents", [b"", b"caf\xc3\xa9 \"\\\n", b"x" * 300]),
}


def identity_model(kind):
    info = helper.make_tensor_value_info
    return model_of(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [info("x", kind, ["n", 3])],
                                      [info("y", kind, ["n", 3])]))


def raw_of(values, dtype):
    if dtype is np.object_:
        return b"".join(len(value).to_bytes(4, "little") + value for value in values)
    return np.array(values, dtype).tobytes()


def json_values(values):
    return [value.decode() if isinstance(value, bytes) else value for value in values]


class ProtocolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="walle-protocol-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run(["protoc", f"--python_out={cls.folder}", f"-I{SOURCE}/gateway/infer/grpc", "inference.proto"], check=True)
        sys.path.insert(0, cls.folder)
        cls.pb = importlib.import_module("inference_pb2")
        models = os.path.join(cls.folder, "models")
        for name, (_, kind, _, _) in TYPES.items():
            save(identity_model(kind), models, f"same_{name.lower()}")
        save(endless_model(), models, "endless", conf="instances = 1\n")
        cls.infer = Infer(cls.folder, models)
        cls.addClassCleanup(cls.infer.end)
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.infer.ports['h2c']}",
                                            options=[("grpc.max_receive_message_length", 64 << 20)])
        cls.addClassCleanup(cls.channel.close)

    def method(self, name, answer):
        return self.channel.unary_unary(SERVICE + name, request_serializer=lambda message: message.SerializeToString(),
                                        response_deserializer=getattr(self.pb, answer).FromString)

    def call(self, name, request=None, **settings):
        request = request if request is not None else getattr(self.pb, name + "Request")()
        return self.method(name, name + "Response")(request, timeout=settings.pop("timeout", 30), **settings)

    def refused(self, code, says, name, request=None, **settings):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(name, request, **settings)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(says, caught.exception.details())

    def request(self, model, datatype, shape, raw=None):
        request = self.pb.ModelInferRequest(model_name=model, id="ab 1")
        request.inputs.add(name="x", datatype=datatype, shape=shape)
        if raw is not None:
            request.raw_input_contents.append(raw)
        return request

    # ---- gRPC

    def test_grpc_health_and_metadata(self):
        self.assertTrue(self.call("ServerLive").live)
        self.assertTrue(self.call("ServerReady").ready)
        server = self.call("ServerMetadata")
        self.assertEqual(server.name, "walle")
        self.assertIn("model_repository", server.extensions)
        self.assertTrue(self.call("ModelReady", self.pb.ModelReadyRequest(name="same_fp32", version="1")).ready)
        self.assertFalse(self.call("ModelReady", self.pb.ModelReadyRequest(name="none")).ready)
        model = self.call("ModelMetadata", self.pb.ModelMetadataRequest(name="same_int64"))
        self.assertEqual((model.name, list(model.versions)), ("same_int64", ["1"]))
        self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in model.inputs], [("x", "INT64", [-1, 3])])
        self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in model.outputs], [("y", "INT64", [-1, 3])])
        index = self.call("RepositoryIndex", self.pb.RepositoryIndexRequest(ready=True))
        self.assertEqual({m.name: m.state for m in index.models},
                         {**{f"same_{name.lower()}": "READY" for name in TYPES}, "endless": "READY"})

    def test_grpc_every_datatype(self):
        for datatype, (dtype, _, field, values) in TYPES.items():
            raw = raw_of(values, dtype)
            requests = [self.request(f"same_{datatype.lower()}", datatype, [1, 3], raw)]
            if field is not None:
                requests.append(self.request(f"same_{datatype.lower()}", datatype, [1, 3]))
                getattr(requests[1].inputs[0].contents, field).extend(values)
            for request in requests:
                with self.subTest(datatype=datatype, raw=bool(request.raw_input_contents)):
                    answer = self.call("ModelInfer", request)
                    self.assertEqual((answer.model_name, answer.model_version, answer.id), (request.model_name, "1", "ab 1"))
                    self.assertEqual([(t.name, t.datatype, list(t.shape)) for t in answer.outputs], [("y", datatype, [1, 3])])
                    self.assertEqual(answer.raw_output_contents[0], raw)

    def test_grpc_statistics(self):
        request = self.request("same_uint8", "UINT8", [2, 3], bytes(6))
        before = self.call("ModelStatistics", self.pb.ModelStatisticsRequest(name="same_uint8")).model_stats[0]
        self.call("ModelInfer", request)
        row = self.call("ModelStatistics", self.pb.ModelStatisticsRequest(name="same_uint8", version="1")).model_stats[0]
        self.assertEqual((row.name, row.version), ("same_uint8", "1"))
        self.assertEqual(row.inference_count - before.inference_count, 1)  # rows are counted where they are put together
        self.assertEqual(row.execution_count - before.execution_count, 1)
        self.assertEqual(row.inference_stats.success.count - before.inference_stats.success.count, 1)
        self.assertGreaterEqual(row.inference_stats.success.ns, row.inference_stats.queue.ns)
        every = self.call("ModelStatistics").model_stats
        self.assertEqual({r.name for r in every}, {f"same_{name.lower()}" for name in TYPES} | {"endless"})
        self.refused(grpc.StatusCode.NOT_FOUND, "none", "ModelStatistics", self.pb.ModelStatisticsRequest(name="none"))

    def test_grpc_refusals(self):
        code = grpc.StatusCode
        good = raw_of([1, 2, 3], np.float32)
        self.refused(code.NOT_FOUND, "none", "ModelInfer", self.request("none", "FP32", [1, 3], good))
        self.refused(code.NOT_FOUND, "none", "ModelMetadata", self.pb.ModelMetadataRequest(name="none"))
        self.refused(code.INVALID_ARGUMENT, "wants 24", "ModelInfer", self.request("same_fp32", "FP32", [2, 3], good))
        self.refused(code.INVALID_ARGUMENT, "negative", "ModelInfer", self.request("same_fp32", "FP32", [-1, 3], good))
        self.refused(code.INVALID_ARGUMENT, "over", "ModelInfer", self.request("same_fp32", "FP32", [2**40, 2**40], good))
        self.refused(code.INVALID_ARGUMENT, "\"FP7\"", "ModelInfer", self.request("same_fp32", "FP7", [1, 3], good))
        self.refused(code.INVALID_ARGUMENT, "x", "ModelInfer", self.request("same_fp32", "INT32", [1, 3], good))
        lying = self.request("same_bytes", "BYTES", [1, 1], b"\xff\xff\xff\x7fabc")
        self.refused(code.INVALID_ARGUMENT, "are no 1 texts", "ModelInfer", lying)
        send = self.channel.unary_unary(SERVICE + "ModelInfer")
        for junk in (b"\x0a\x05ab", b"\x2b", bytes(range(256))):
            with self.assertRaises(grpc.RpcError) as caught:
                send(junk, timeout=30)
            self.assertEqual(caught.exception.code(), code.INVALID_ARGUMENT)
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel.unary_unary(SERVICE + "Else")(b"", timeout=30)
        self.assertEqual(caught.exception.code(), code.UNIMPLEMENTED)

    def test_grpc_load_and_unload(self):
        code = grpc.StatusCode
        mine = (("authorization", f"Bearer {self.infer.token()}"),)

        def wish(kind, model):
            return getattr(self.pb, f"RepositoryModel{kind}Request")(model_name=model)

        save(identity_model(TensorProto.FLOAT), os.path.join(self.folder, "models"), "coming")
        before = len(self.infer.audit())
        self.refused(code.UNAUTHENTICATED, "", "RepositoryModelLoad", wish("Load", "coming"))
        self.refused(code.NOT_FOUND, "absent", "RepositoryModelLoad", wish("Load", "absent"), metadata=mine)
        self.refused(code.NOT_FOUND, "coming", "RepositoryModelUnload", wish("Unload", "coming"), metadata=mine)
        self.call("RepositoryModelLoad", wish("Load", "coming"), metadata=mine)
        self.assertTrue(self.call("ModelReady", self.pb.ModelReadyRequest(name="coming")).ready)
        self.call("RepositoryModelUnload", wish("Unload", "coming"), metadata=mine)
        self.refused(code.UNAVAILABLE, "not loaded", "ModelInfer",
                     self.request("coming", "FP32", [1, 3], raw_of([1, 2, 3], np.float32)))
        entries = self.infer.audit()[before:]
        self.assertEqual([(entry["path"].removeprefix(SERVICE), entry["before"]["model"], entry["outcome"], entry["status"])
                          for entry in entries],
                         [("RepositoryModelLoad", "absent", "refused", 5), ("RepositoryModelUnload", "coming", "refused", 5),
                          ("RepositoryModelLoad", "coming", "done", 0), ("RepositoryModelUnload", "coming", "done", 0)])
        self.assertEqual((entries[2]["actor"]["role"], entries[2]["after"]), ("admin", {"model": "coming", "loaded": True}))
        # Whose rights do not do.
        for name, role, more in (("eve", "viewer", {"tenant": "*"}), ("mallory", "releaser", {})):
            hers = (("authorization", f"Bearer {self.infer.new_token(name, role, **more)}"),)
            for kind in ("Load", "Unload"):
                self.refused(code.PERMISSION_DENIED, "releaser of all tenants", f"RepositoryModel{kind}",
                             wish(kind, "same_fp32"), metadata=hers)
                self.assertEqual([(entry["actor"]["name"], entry["outcome"], entry["status"])
                                  for entry in self.infer.audit()[-1:]], [(name, "refused", 7)])

    def test_grpc_what_is_shown_counts(self):
        good = self.request("same_fp32", "FP32", [1, 3], raw_of([1, 2, 3], np.float32))
        for wrong in (("authorization", "Bearer wrong"), ("walle-credential", "wrong")):
            self.refused(grpc.StatusCode.UNAUTHENTICATED, "", "ModelInfer", good, metadata=(wrong,))

    def test_grpc_by_hand(self):
        url = self.infer.url(SERVICE + "ServerLive")
        grpc_type = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        frame = b"\0\0\0\0\0"
        status, headers, body = curl(url, "--http2-prior-knowledge", *grpc_type, data=frame)
        self.assertEqual((status, headers["content-type"], body), (200, "application/grpc", b"\0\0\0\0\2\x08\1"))
        for bad, says in ((b"", "five bytes"), (b"\0\0\0\0\1", "1 bytes in 0"), (frame + frame, "0 bytes in 5")):
            status, headers, body = curl(url, "--http2-prior-knowledge", *grpc_type, data=bad)
            self.assertEqual((status, headers["grpc-status"], body), (200, "3", b""))
            self.assertIn(says, headers["grpc-message"])
        self.assertEqual(curl(url, "--http2-prior-knowledge", "-H", "content-type: application/json", data=b"{}")[0], 415)
        self.assertEqual(curl(url, "--http2-prior-knowledge")[0], 405)

    def test_grpc_compressed_messages_are_refused(self):
        """The protocol's text: UNIMPLEMENTED, with the encodings that are taken; INTERNAL where none is named."""
        good = self.request("same_fp32", "FP32", [999, 3], raw_of([1, 2, 3] * 999, np.float32))
        for how in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            self.refused(grpc.StatusCode.UNIMPLEMENTED, "compressed", "ModelInfer", good, compression=how)
        url = self.infer.url(SERVICE + "ServerLive")
        for encoding, status in (((), "13"), (("-H", "grpc-encoding: identity"), "13"), (("-H", "grpc-encoding: gzip"), "12")):
            answer = curl(url, "--http2-prior-knowledge", "-H", "content-type: application/grpc", *encoding, data=b"\1\0\0\0\1x")
            self.assertEqual((answer[0], answer[1]["grpc-status"], answer[1]["grpc-accept-encoding"]), (200, status, "identity"))
        # A message that is not compressed is taken, whatever the header says.
        self.assertEqual(curl(url, "--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H", "grpc-encoding: gzip",
                              data=b"\0\0\0\0\0")[2], b"\0\0\0\0\2\x08\1")

    def test_grpc_deadline_and_cancel(self):
        def endless():
            return self.request("endless", "FP32", [1, 1], raw_of([0], np.float32))

        self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, "", "ModelInfer", endless(), timeout=0.3)
        late = self.request("endless", "FP32", [1, 1], raw_of([0], np.float32))
        late.parameters["timeout"].int64_param = 200000
        self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, "", "ModelInfer", late)
        future = self.method("ModelInfer", "ModelInferResponse").future(endless())
        future.cancel()
        # What they ran was stopped: the model's one instance is free for a call that ends.
        done = self.request("endless", "FP32", [1, 1], raw_of([2e6], np.float32))
        self.assertEqual(self.call("ModelInfer", done).raw_output_contents[0], raw_of([2e6], np.float32))

    # ---- HTTP

    def post(self, model, body, *arguments):
        status, headers, answer = curl(self.infer.url(f"/v2/models/{model}/infer"), *arguments, data=body)
        return status, headers, answer

    def test_json_every_datatype(self):
        for version in VERSIONS:
            for datatype, (dtype, _, _, values) in TYPES.items():
                values = np.array(values, dtype).tolist() if dtype is not np.object_ else json_values(values)
                for data in (values, [values]):  # flat and nested
                    with self.subTest(version=version, datatype=datatype, nested=data is not values):
                        body = json.dumps({"id": "q", "inputs": [{"data": data, "name": "x", "shape": [1, 3],
                                                                  "datatype": datatype}]})
                        status, headers, answer = self.post(f"same_{datatype.lower()}", body.encode(), version)
                        self.assertEqual((status, headers["content-type"]), (200, "application/json"), answer)
                        said = json.loads(answer)
                        self.assertEqual((said["model_name"], said["id"]), (f"same_{datatype.lower()}", "q"))
                        output, = said["outputs"]
                        self.assertEqual((output["name"], output["datatype"], output["shape"]), ("y", datatype, [1, 3]))
                        got = output["data"] if dtype is np.object_ else np.array(output["data"], dtype).tolist()
                        self.assertEqual(got, values)

    def test_binary_every_datatype(self):
        for version in VERSIONS:
            for datatype, (dtype, _, _, values) in TYPES.items():
                with self.subTest(version=version, datatype=datatype):
                    raw = raw_of(values, dtype)
                    head = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": datatype,
                                                   "parameters": {"binary_data_size": len(raw)}}],
                                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
                    status, headers, answer = self.post(f"same_{datatype.lower()}", head + raw, version, "-H",
                                                        f"Inference-Header-Content-Length: {len(head)}")
                    self.assertEqual(status, 200, answer)
                    length = int(headers["inference-header-content-length"])
                    output, = json.loads(answer[:length])["outputs"]
                    self.assertEqual(output["parameters"]["binary_data_size"], len(raw))
                    self.assertNotIn("data", output)
                    self.assertEqual(answer[length:], raw)

    def test_json_numbers_beside_pythons(self):
        draw = random.Random(SEED)
        bits = np.array([draw.getrandbits(32) for _ in range(6000)], np.uint32).view(np.float32)
        values = np.where(np.isfinite(bits), bits, np.float32(0.5))
        text = ", ".join(draw.choice(("{!r}", "{:.9g}", "{:.20e}", "{:.25e}")).format(float(value)) for value in values)
        body = f'{{"inputs": [{{"name": "x", "shape": [2000, 3], "datatype": "FP32", "data": [{text}]}}]}}'
        wanted = np.array(json.loads(body)["inputs"][0]["data"], np.float64).astype(np.float32)
        status, _, answer = self.post("same_fp32", body.encode())
        self.assertEqual(status, 200, answer[:300])
        got = np.array(json.loads(answer)["outputs"][0]["data"], np.float64).astype(np.float32)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(got, values)

    def test_json_refusals(self):
        def body(data="[1,2,3]", shape="[1,3]", datatype="FP32", more=""):
            return f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{data}}}]{more}}}'.encode()

        cases = [(b"", "wanted"), (b"{", "wanted"), (b"[1]", "wanted"), (body("[1,2]"), "fewer"), (body("[1,2,3,4]"), "more"),
                 (body("[1,2,null]"), "FP32"), (body(datatype="FP7"), "FP7"), (body(shape="[1,-3]"), "whole number"),
                 (body(shape=f"[{2**40},{2**40}]"), "over"), (body("[[1,2],[3]]", "[2,2]"), "fewer"),
                 (body("[1,2,99999999999]", datatype="INT32"), "INT32"), (body(more=',"id":3'), "text"),
                 (body(more=',"z":' + "[" * 5000), "deep"), (body(more=',"parameters":{"priority":99}'), "0 to 3"),
                 (body(more=',"outputs":[{"name":"q"}]'), "q"), (b'{"inputs":[]}', "x")]
        for version, (request, says) in itertools.product(VERSIONS, cases):
            with self.subTest(version=version, request=request[:100]):
                status, headers, answer = self.post("same_fp32", request, version)
                self.assertIn(status, (400, 404, 413), answer)
                self.assertEqual(headers["content-type"], "application/json")
                self.assertIn(says, json.loads(answer)["error"])
        for length in ("0", "x", "999999", "-1"):
            self.assertEqual(self.post("same_fp32", body(), "-H", f"Inference-Header-Content-Length: {length}")[0], 400)
        self.assertEqual(self.post("none", body())[0], 404)

    def test_binary_refusals(self):
        """Tensors that are cut, or of which the JSON says what is not so: 400 with the reason, in both versions of HTTP."""
        def ask(version, raw, model="same_fp32", length=None, **tensor):
            values = {"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}, **tensor}
            head = json.dumps({"inputs": [values]}).encode()
            return self.post(model, head + raw, version, "-H", f"Inference-Header-Content-Length: {length or len(head)}")

        good = raw_of([1, 2, 3], np.float32)
        texts = {"datatype": "BYTES", "shape": [1, 1]}
        for version in VERSIONS:
            self.assertEqual(ask(version, good)[0], 200)
            for number, (raw, more) in enumerate((
                    (good[:-1], {}), (b"", {}), (good + b"x", {}),  # cut, and more than is said
                    (good, {"parameters": {"binary_data_size": 8}}), (good, {"parameters": {"binary_data_size": 2**63}}),
                    (good, {"parameters": {"binary_data_size": -12}}), (good, {"parameters": {"binary_data_size": "12"}}),
                    (good, {"shape": [2, 3]}), (good, {"shape": [2**40, 2**40]}), (good, {"datatype": "FP64"}),
                    (good, {"data": [1, 2, 3]}), (good, {"length": 1}),
                    (b"\xff\xff\xff\x7fabc", {"model": "same_bytes", "parameters": {"binary_data_size": 7}, **texts}),
                    (b"\1\0\0", {"model": "same_bytes", "parameters": {"binary_data_size": 3}, **texts}))):
                with self.subTest(version=version, case=number):
                    status, headers, answer = ask(version, raw, **more)
                    self.assertIn(status, (400, 413), answer)
                    self.assertEqual(headers["content-type"], "application/json")
                    self.assertTrue(json.loads(answer)["error"])


if __name__ == "__main__":
    unittest.main()
