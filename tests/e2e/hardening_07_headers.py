"""Who may not, and what cannot be, is told so when the headers are there: before a byte of the body has come."""
import hashlib
import json
import os
import subprocess
import unittest

from raw_h2 import DATA, END_HEADERS, END_STREAM, NO_ERROR, RST_STREAM, WINDOW_UPDATE, Connection, request
from walle_stack import Stack

ADMIN = "a-long-enough-admin-token"
DEVICE = "00000000000000aa"
BLOB = "/api/v1/blobs/" + "00" * 32


def bearer(secret):
    return ("authorization", "Bearer " + secret)


class AtTheHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        for name, text in (("admin.token", ADMIN), ("ddi.token", "a-long-enough-ddi-token")):
            with open(cls.stack.path(name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.chmod(cls.stack.path(name), 0o600)
        cls.gateway = cls.stack.start_gateway("--set", "admin.token_file=" + cls.stack.path("admin.token"),
                                              "--set", "ddi.token_file=" + cls.stack.path("ddi.token"))
        cls.viewer = cls.walle("token", "new", "--name", "eye", "--role", "viewer").stdout.strip()
        cls.enrol_token = enrol = cls.walle("device", "enroll-token", "--name", "fleet").stdout.strip()
        cls.credential = cls.enrol(enrol, DEVICE)
        cls.enrol(enrol, "00000000000000bb")
        cls.walle("device", "revoke", "00000000000000bb")

    @classmethod
    def tearDownClass(cls):
        cls.stack.__exit__()

    @classmethod
    def walle(cls, *arguments):
        return cls.stack.walle(*arguments, "--token", ADMIN)

    @classmethod
    def enrol(cls, token, device):
        with Connection(cls.gateway.ports["h2c"]) as conn:
            status, body = conn.reply(conn.headers(request("/v1/enroll", "POST", bearer(token), ("walle-device", device))))
            assert status == 201, (status, body)
            return body[body.index(b"wdt_"):][:47].decode()

    def asked(self, method, path, *fields):
        """Headers alone, the body still to come: (status, text)."""
        with Connection(self.gateway.ports["h2c"], timeout_s=60) as conn:
            stream = conn.headers(request(path, method, *fields), END_HEADERS)
            try:
                status, body = conn.reply(stream)
            except TimeoutError:
                self.fail(f"{method} {path} {fields}: no answer before the body")
            conn.frame(DATA, END_STREAM, stream, b"{}")  # what was under way does no harm
            self.assertEqual(conn.get("/healthz")[0], 200)
            return status, body.decode()

    def test_the_rest_is_not_wanted(self):
        with Connection(self.gateway.ports["h2c"]) as conn:
            stream = conn.headers(request(BLOB, "PUT"), END_HEADERS)
            self.assertEqual(conn.reply(stream)[0], 401)
            for _ in range(3):
                conn.frame(DATA, 0, stream, b"a" * 16384)
            frame = conn.read()
            while frame.kind != RST_STREAM:
                self.assertFalse(frame.kind == WINDOW_UPDATE and frame.stream == stream, "room for more")
                frame = conn.read()
            self.assertEqual((frame.stream, frame.error), (stream, NO_ERROR))
            self.assertEqual(conn.get("/healthz")[0], 200)

    def test_operators(self):
        admin, json_type = bearer(ADMIN), ("content-type", "application/json")
        for wanted, method, path, *fields in (
                (401, "PUT", BLOB),
                (401, "PUT", BLOB, bearer("wrong")),
                (401, "POST", "/api/v1/tasks", json_type),
                (403, "PUT", BLOB, bearer(self.viewer)),
                (403, "PUT", "/api/v1/trust/root", bearer(self.viewer)),
                (404, "PUT", "/api/v1/nothing", admin),
                (404, "PUT", BLOB, admin, ("walle-tenant", "nobody")),
                (405, "PUT", "/api/v1/tasks", admin),
                (415, "POST", "/api/v1/tasks", admin, ("content-type", "text/plain")),
                (413, "PUT", BLOB, admin, ("content-length", str((256 << 20) + 1))),
                (413, "POST", "/api/v1/tasks", admin, json_type, ("content-length", str((1 << 20) + 1)))):
            with self.subTest(f"{wanted} {method} {path} {fields}"):
                self.assertEqual(self.asked(method, path, *fields)[0], wanted)
        entries = self.walle("audit", "tail", "-o", "json").stdout.splitlines()
        self.assertGreaterEqual(sum(1 for line in entries if json.loads(line).get("method", "PUT") == "PUT"), 4)

    def test_devices(self):
        device = ("walle-device", DEVICE)
        for wanted, method, path, *fields in (
                (401, "POST", "/v1/report", device),
                (401, "POST", "/v1/report", device, ("walle-credential", "wdt_" + "x" * 43)),
                (403, "POST", "/v1/report", ("walle-device", "00000000000000bb")),
                (400, "POST", "/v1/report", ("walle-device", "nonsense")),
                (413, "POST", "/v1/report", ("content-length", "16385")),
                (413, "POST", "/v1/checkin", ("content-length", "16385")),
                (405, "PUT", "/v1/report"),
                (404, "POST", "/v1/nothing"),
                (401, "POST", "/v1/enroll"),
                (401, "POST", "/v1/enroll", bearer("wet_" + "x" * 43)),
                (401, "PUT", "/default/controller/v1/box/configData"),
                (404, "PUT", "/default/controller/v1/box/nothing", ("authorization", "GatewayToken a-long-enough-ddi-token"))):
            with self.subTest(f"{wanted} {method} {path} {fields}"):
                self.assertEqual(self.asked(method, path, *fields)[0], wanted)

    def test_who_somebody_is_is_said_once(self):
        """Two of a field that says who asks: refused, whichever comes first, and when they are the same."""
        key = "wek_" + "A" * 43
        fields = {"walle-device": (DEVICE, "00000000000000bb"), "walle-credential": (self.credential, "wdt_" + "x" * 43),
                  "walle-enroll-key": (key, "wek_" + "B" * 42 + "A"), "authorization": ("Bearer " + self.enrol_token, "Bearer x")}
        right = [(name, values[0]) for name, values in fields.items()]
        for name, (good, bad) in fields.items():
            others = [field for field in right if field[0] != name]
            for first, second in ((good, bad), (bad, good), (good, good), ("", good)):
                for method, path in (("POST", "/v1/enroll"), ("POST", "/v1/report"), ("POST", "/v1/checkin"), ("GET", "/elsewhere")):
                    with self.subTest(name=name, first=first, second=second, path=path):
                        status, text = self.asked(method, path, *others, (name, first), (name, second))
                        self.assertEqual(status, 400, text)

    def test_nobody_is_the_device_whose_id_means_none(self):
        token = bearer(self.enrol_token)
        status, text = self.asked("POST", "/v1/enroll", token, ("walle-device", "0" * 16))
        self.assertEqual(status, 400, text)
        self.assertIn("walle-device: 16 hex digits expected, not all 0", text)
        for method, path in (("POST", "/v1/report"), ("POST", "/v1/tunnel")):
            with self.subTest(path=path):
                status, text = self.asked(method, path, ("walle-device", "0" * 16), ("walle-profile", "AAAA"))
                self.assertEqual(status, 400, text)
                self.assertIn("not all 0", text)
        with Connection(self.gateway.ports["h2c"]) as conn:
            stream = conn.headers(request("/v1/checkin", "POST", ("walle-device", "0" * 16), ("walle-profile", "AAAA")),
                                  END_HEADERS | END_STREAM)
            status, body = conn.reply(stream)
            self.assertEqual(status, 400, body)
            self.assertIn(b"not all 0", body)

    def test_who_may_is_heard_to_the_end(self):
        content = os.urandom(3 << 20)
        path = "/api/v1/blobs/" + hashlib.sha256(content).hexdigest()
        done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT", "-H",
                               "authorization: Bearer " + ADMIN, "--data-binary", "@-", self.gateway.url + path],
                              input=content, capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stdout, b"201")
        with Connection(self.gateway.ports["h2c"]) as conn:
            stream = conn.headers(request("/v1/report", "POST", ("walle-device", DEVICE), ("walle-credential", self.credential)),
                                  END_HEADERS)
            conn.frame(DATA, END_STREAM, stream, b"no report")
            self.assertEqual(conn.reply(stream)[0], 400)


if __name__ == "__main__":
    unittest.main()
