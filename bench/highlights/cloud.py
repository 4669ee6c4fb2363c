"""The big model in the cloud: its folder for the gateway's inference service, and calls over HTTP (Open Inference Protocol)."""
import http.client
import json
import os
import time

import numpy as np
import onnx

import networks

MODEL = "highlights-big"


def write_repository(folder, plan, weights):
    place = os.path.join(folder, MODEL, "1")
    os.makedirs(place, exist_ok=True)
    onnx.save(networks.whole(plan, weights, 1), os.path.join(place, "model.onnx"))


def body_of(tensors):
    inputs = [{"name": name, "datatype": "UINT8", "shape": list(array.shape), "parameters": {"binary_data_size": array.nbytes}}
              for name, array in tensors.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return len(head), head + b"".join(array.tobytes() for array in tensors.values())


class Cloud:
    """A connection to the service; `calls`, the bytes sent and how long each call took are kept."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.took_ms, self.bytes = [], 0

    def classes(self, frame, sound):
        """Probabilities of one moment."""
        head, body = body_of({"frame": frame[None], "sound": sound[None]})
        began = time.monotonic()
        self.connection.request("POST", f"/v2/models/{MODEL}/infer", body, {"inference-header-content-length": str(head)})
        answer = self.connection.getresponse()
        data = answer.read()
        self.took_ms.append(1e3 * (time.monotonic() - began))
        self.bytes += len(body)
        if answer.status != 200:
            raise SystemExit(f"highlights: the inference service said {answer.status}: {data[:300]!r}")
        head = int(answer.headers["inference-header-content-length"])
        return np.frombuffer(data[head:], "<f4")

    def close(self):
        self.connection.close()
