"""What callers of models and their operators are told: traces (W3C Trace Context), quotas of tenants, the cache, statistics."""
import json
import os
import re
import shutil
import tempfile
import unittest

import numpy as np
from test_inference import ONE, Infer, curl, relu_model, request_of, save

PATH = "/v2/models/relu/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"traceparent: 00-{TRACE}-{SPAN}-01"


class Told(unittest.TestCase):
    def start(self, *arguments, conf=None):
        self.folder = tempfile.mkdtemp(prefix="walle-told-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        models = os.path.join(self.folder, "models")
        save(relu_model(), models, "relu", conf=conf)
        save(relu_model(), models, "other")
        infer = Infer(self.folder, models, *arguments)
        self.addCleanup(infer.end)
        return infer

    def lines(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return [line for line in file if f"trace={TRACE}" in line]

    def test_traces(self):
        infer, spans = self.start(), set()
        for how in ("--http1.1", "--http2-prior-knowledge"):
            status, headers, _ = curl(infer.url(PATH), how, "-H", PARENT, "-H", "tracestate: a=1,b=2", data=request_of(ONE))
            self.assertEqual(status, 200)
            found = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", headers["traceparent"])
            spans.add(found.group(1))
            self.assertEqual(headers["tracestate"], "a=1,b=2")
            self.assertRegex(headers["server-timing"], r"^queue;dur=\d+\.\d{3}, run;dur=\d+\.\d{3}$")
            self.assertRegex(self.lines()[-1], rf"span={found.group(1)} parent={SPAN} model=relu version=1 status=\w+ queue_us=\d+ run_us=\d+ rows=1")
        self.assertEqual(len(spans - {SPAN}), 2)
        status, headers, _ = curl(infer.url(PATH), "-H", PARENT, data=b"[")  # what fails is told, too
        self.assertEqual((status, headers["traceparent"][:36]), (400, f"00-{TRACE}-"))
        self.assertIn("model=- version=-", self.lines()[-1])
        for wrong in ((), ("-H", PARENT.upper()), ("-H", "traceparent: 00-1-2-3")):
            headers = curl(infer.url(PATH), *wrong, data=request_of(ONE))[1]
            self.assertFalse({"traceparent", "tracestate", "server-timing"} & set(headers))
        self.assertEqual(len(self.lines()), 3)

    def test_quotas(self):
        infer = self.start("--set", "infer.tenant_calls_per_min=3", "--set", "infer.tenant_bytes_per_min=4000")
        token = ("-H", f"authorization: Bearer {infer.token()}")
        for _ in range(3):
            self.assertEqual(curl(infer.url(PATH), data=request_of(ONE))[0], 200)
        status, headers, body = curl(infer.url(PATH), data=request_of(ONE))
        self.assertEqual((status, json.loads(body)), (429, {"error": "the tenant had its 3 calls of a minute"}))
        self.assertIn(int(headers["retry-after"]), range(1, 22))
        status, headers, _ = curl(infer.url(METHOD), "--http2-prior-knowledge", "-H", "content-type: application/grpc", data=bytes(5))
        self.assertEqual((status, headers["grpc-status"]), (200, "8"))
        self.assertEqual(curl(infer.url("/v2/models/relu"))[0], 200)  # what is no call is free
        self.assertEqual(curl(infer.url(PATH), *token, data=request_of(ONE))[0], 200)  # the token's tenant has its own
        for size, wanted in ((3000, 400), (3000, 429), (5000, 413)):
            status, _, body = curl(infer.url(PATH), *token, data=b" " * size)
            self.assertEqual(status, wanted, body)
            self.assertTrue(wanted == 400 or b"the tenant" in body, body)

    def test_cache_and_statistics(self):
        infer = self.start(conf="cache_bytes = 100000\n")
        answers = [curl(infer.url(PATH), data=request_of(x)) for x in (ONE, ONE, ONE + 1)]
        self.assertEqual([status for status, _, _ in answers], [200] * 3)
        np.testing.assert_array_equal(*(json.loads(body)["outputs"][0]["data"] for _, _, body in answers[:2]))
        text = curl(infer.url("/metrics"))[2].decode()
        for what, count in (("cache_hits_total", 1), ("cache_misses_total", 2), ("batches_total", 2)):
            self.assertIn(f'walle_infer_{what}{{model="relu",version="1"}} {count}\n', text)
        self.assertRegex(text, r'walle_infer_cache_bytes\{model="relu",version="1"\} [1-9]')
        stats = {row["name"]: row for row in json.loads(curl(infer.url("/v2/models/stats"))[2])["model_stats"]}
        self.assertEqual(set(stats), {"relu", "other"})
        self.assertEqual((stats["relu"]["inference_count"], stats["relu"]["execution_count"]), (3, 2))
        self.assertEqual(stats["relu"]["inference_stats"]["cache_hit"]["count"], 1)
        self.assertEqual(curl(infer.url("/v2/models/stats"), "-X", "POST")[0], 405)


if __name__ == "__main__":
    unittest.main()
