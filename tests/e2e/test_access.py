"""Who may do what, over real sockets with the real programs: operators' tokens, tenants, the audit log, devices that
enrol, show a credential or a certificate, and are revoked."""
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import unittest

from walle_stack import Stack, program, wait_until

SECRET = re.compile(r"w[ade]t_[A-Za-z0-9_-]{43}")


class Access(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.secret("admin.token", "a-long-enough-admin-token")
        self.arguments = ["--set", "admin.token_file=" + self.stack.path("admin.token")]

    def walle(self, *arguments, token="a-long-enough-admin-token", tenant=None, code=0):
        extra = ["--token", token] if token else []
        extra += ["--tenant", tenant] if tenant else []
        run = self.stack.walle(*arguments, *extra, check=False)
        self.assertEqual(run.returncode, code, f"walle {arguments}: {run.stdout}{run.stderr}")
        return run

    def token(self, role, *arguments, tenant=None):
        run = self.walle("token", "new", "--name", "ana", "--role", role, *arguments, tenant=tenant)
        secret = run.stdout.strip()
        self.assertRegex(secret, r"^wat_[A-Za-z0-9_-]{43}$")
        self.assertNotIn(secret, run.stderr)
        return secret

    def curl(self, path, *arguments, token=None, url=None):
        headers = ["-H", f"authorization: Bearer {token}"] if token else []
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_code}", "--max-time", "60", *headers,
                              *arguments, (url or self.stack.gateway.url) + path], capture_output=True, text=True, timeout=90)
        text, _, status = run.stdout.rpartition("\n")
        return int(status), text

    def device(self, name, *arguments, wait=True):
        """walle-device in a folder of its own; its exit status, or the process."""
        command = [program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path(name),
                   "--trust", "11" * 32, *arguments]
        if not wait:
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.stack.children.append(child)
            return child
        return subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=60)

    # ---- operators

    def test_roles_scopes_and_revocation(self):
        self.stack.start_gateway(*self.arguments)
        self.walle("task", "list", token=None, code=4)
        self.walle("task", "list", token="wrong", code=4)
        viewer = self.token("viewer")
        releaser = self.token("releaser", "--scopes", "shop,ads-*", "--expires", "1")
        body = ["--json", '{"name": "shop/view"}']
        self.assertEqual(self.curl("/api/v1/tasks", *body, token=viewer)[0], 403)
        self.assertEqual(self.curl("/api/v1/tasks", *body, token=releaser)[0], 201)
        self.assertEqual(self.curl("/api/v1/tasks", "--json", '{"name": "zoo"}', token=releaser)[0], 403)
        self.assertEqual(self.curl("/api/v1/tasks", "--json", '{"name": "zoo"}', token="a-long-enough-admin-token")[0], 201)
        self.assertEqual(self.curl("/api/v1/tasks/zoo", token=releaser)[0], 404)
        self.assertEqual(self.walle("task", "list", token=releaser).stdout.split()[0], "shop/view")
        tokens = json.loads(self.walle("token", "list", "-o", "json").stdout)["items"]
        self.assertEqual(len([token for token in tokens if token["role"] != "enrol"]), 2)  # and the one of the first start
        self.assertFalse(any("secret" in token for token in tokens))
        mine = next(token for token in tokens if token["role"] == "releaser")
        self.assertEqual(mine["scopes"], ["shop", "ads-*"])
        self.walle("token", "revoke", mine["id"])
        self.walle("task", "list", token=releaser, code=4)
        self.walle("task", "list", token=viewer)
        # Nothing of a secret is in the log or, as text, in the store.
        self.assertIsNone(SECRET.search(self.stack.gateway.log_text()))
        self.assertNotIn("a-long-enough-admin-token", self.stack.gateway.log_text())
        self.stack.gateway.stop()
        with open(self.stack.path("gateway", "store.mdb"), "rb") as file:
            stored = file.read()
        for secret in (viewer, releaser, "a-long-enough-admin-token"):
            self.assertNotIn(secret.encode(), stored)
        self.assertIn(mine["name"].encode(), stored)

    def test_guessing_and_long_headers(self):
        self.stack.start_gateway(*self.arguments)
        # Many guesses over one connection, as an attacker sends them.
        with open(self.stack.path("guesses"), "w", encoding="utf-8") as file:
            for number in range(60):
                file.write(f'url = "{self.stack.gateway.tls_url}/api/v1/tasks"\nheader = "authorization: Bearer guess-{number}"\ninsecure\n'
                           'output = "/dev/null"\nwrite-out = "%{http_code}\\n"\n' + ("next\n" if number < 59 else ""))
        run = subprocess.run(["curl", "-sS", "-k", "-K", self.stack.path("guesses")], capture_output=True, text=True, timeout=60)
        codes = run.stdout.split()
        self.assertEqual(len(codes), 60, run.stderr)
        self.assertEqual(set(codes), {"401", "429"})
        self.assertGreaterEqual(codes.count("429"), 30)
        status, _ = self.curl("/api/v1/tasks", "-H", "authorization: Bearer " + "x" * 40000)
        self.assertEqual(status, 431)
        status, _ = self.curl("/api/v1/tasks", "-H", "authorization: Bearer " + "x" * 20000)
        self.assertIn(status, (401, 429))

    def test_audit_survives_kills_and_shows_tampering(self):
        self.stack.start_gateway(*self.arguments)
        releaser = self.token("releaser")
        for number in range(6):
            status, _ = self.curl("/api/v1/tasks", "--json", f'{{"name": "t{number}"}}', token=releaser)
            self.assertEqual(status, 201)
            self.stack.gateway.kill(signal.SIGKILL)
            self.stack.restart_gateway(*self.arguments)
        self.curl("/api/v1/tasks", "--json", '{"nome": 1}', token=releaser)
        lines = self.walle("audit", "tail", "--limit", "3").stdout.strip().split("\n")
        self.assertEqual(len(lines), 3)
        self.assertIn("ana (releaser) POST /api/v1/tasks refused 400: nome: unknown field", lines[2])
        self.assertIn("POST /api/v1/tasks done 201", lines[1])
        verified = self.walle("audit", "verify").stdout
        found = re.match(r"(\d+) entries, unbroken; head (\d+:[0-9a-f]{64})", verified)
        self.assertEqual(found.group(1), "8")
        head = found.group(2)
        # Named by whoever pleases: shown made visible, hashed as it is.
        for sign in ("\u007f", "\u0085", "\u00ad", "\u200b", "\u2028", "\u202e", "\ufeff"):
            self.walle("release", "kill", f"{ord(sign):064x}", "--reason", f"soft{sign}hyphen")
        self.curl("/api/v1/tasks", "--json", '{"name": "later"}', token=releaser)
        self.walle("audit", "verify", "--head", head)
        self.assertNotIn("\u202e", self.walle("audit", "tail").stdout)
        number, digest = head.split(":")
        other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
        run = self.walle("audit", "verify", "--head", f"{number}:{other}", code=1)
        self.assertIn("not the entry that was noted", run.stderr)
        run = self.walle("audit", "verify", "--head", f"99:{digest}", code=1)
        self.assertIn("ends before the entry that was noted", run.stderr)
        self.walle("audit", "tail", token=releaser, code=4)  # an admin's
        follow = subprocess.Popen([program("walle"), "audit", "tail", "-f", "--limit", "1", "--token", "a-long-enough-admin-token",
                                   "--gateway", self.stack.gateway.url], stdout=subprocess.PIPE, text=True)
        self.stack.children.append(follow)
        follow.stdout.readline()
        self.curl("/api/v1/tasks", "--json", '{"name": "followed"}', token=releaser)
        self.assertIn("POST /api/v1/tasks done 201", follow.stdout.readline())
        # One byte of an entry in the store, changed behind the gateway's back.
        self.stack.gateway.stop()
        path = self.stack.path("gateway", "store.mdb")
        with open(path, "rb") as file:
            stored = file.read()
        changed = re.sub(rb'("path":"/api/v1/tasks".{0,200}?"name":")t3', rb"\1t9", stored)
        self.assertNotEqual(stored, changed)
        with open(path, "wb") as file:
            file.write(changed)
        self.stack.restart_gateway(*self.arguments)
        # Whoever leaves the record's checksum is found by that (test_api_audit.c has those who do not).
        run = self.walle("audit", "verify", code=4)
        self.assertIn("audit log", run.stderr)
        self.assertIn("table audit, key", self.stack.gateway.log_text())

    # ---- devices

    def enrol_token(self, *arguments, tenant=None):
        run = self.walle("device", "enroll-token", "--name", "factory", *arguments, tenant=tenant)
        return self.stack.secret("enrol.token", run.stdout.strip())

    def checkin(self, device, credential=None, url=None, *arguments):
        extra = ["-H", f"walle-credential: {credential}"] if credential else []
        return self.curl("/v1/checkin", "-X", "POST", "-H", f"walle-device: {device}", "-H", "walle-profile: AQAAAAAAAAAAAAABAA",
                         *extra, *arguments, url=url)[0]

    def credential(self, name):
        with open(self.stack.path(name, "credential"), "rb") as file:
            kept = file.read()
        self.assertEqual(os.stat(self.stack.path(name, "credential")).st_mode & 0o777, 0o600)
        return kept[10:].decode(), format(int.from_bytes(kept[1:9], "little"), "016x")

    def test_devices_enrol_and_are_revoked(self):
        self.stack.start_gateway(*self.arguments, "--set", "device.auth=required")
        self.assertEqual(self.checkin("00000000000000aa"), 401)
        refused = self.device("nobody")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--id or --enroll-token is needed", refused.stderr)
        path = self.enrol_token("--uses", "2")
        run = self.device("one", "--id", "0000000000000001", "--enroll-token", path)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.device("two", "--enroll-token", path)  # the gateway draws its id
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.device("three", "--enroll-token", path)
        self.assertEqual(run.returncode, 1)
        self.assertIn("the gateway answers 403", run.stderr)
        run = self.device("two")  # known from now on, without token or id
        self.assertEqual(run.returncode, 0, run.stderr)
        credential, device = self.credential("one")
        _, drawn = self.credential("two")
        self.assertEqual(device, "0000000000000001")
        self.assertEqual(self.checkin(device, credential), 204)
        self.assertEqual(self.checkin(drawn, credential), 401)
        self.assertEqual(self.checkin(device), 401)
        shown = json.loads(self.walle("device", "get", drawn).stdout)
        self.assertEqual(shown["credential"], "token")
        # A hint stream is open; revoking the device ends it, and the next request is refused.
        stream = subprocess.Popen(["curl", "-sSN", "--http2-prior-knowledge", "-H", f"walle-device: {device}", "-H",
                                   "walle-profile: AQAAAAAAAAAAAAABAA", "-H", f"walle-credential: {credential}",
                                   self.stack.gateway.url + "/v1/push"], stdout=subprocess.PIPE, text=True)
        self.stack.children.append(stream)
        self.assertIn("hello", stream.stdout.readline())
        self.walle("device", "revoke", device)
        self.assertEqual(stream.wait(60), 0)  # ended in order, by the gateway
        self.assertEqual(self.checkin(device, credential), 403)
        self.stack.gateway.kill(signal.SIGKILL)
        self.stack.restart_gateway(*self.arguments, "--set", "device.auth=required")
        self.assertEqual(self.checkin(device, credential), 403)
        _, other = self.credential("two")
        self.assertEqual(self.checkin(other, self.credential("two")[0]), 204)
        self.walle("device", "reset", device)
        # It still has the credential of before: without a token it says what to do, with one it enrols anew, once.
        run = self.device("one")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("--enroll-token FILE enrols it anew", run.stderr)
        run = self.device("one", "--enroll-token", self.stack.secret("no.token", "wet_" + "A" * 43))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(run.stderr.count("enrolment: the gateway answers 401"), 1, run.stderr)
        self.assertEqual(self.credential("one"), (credential, device))
        run = self.device("one", "--enroll-token", self.enrol_token())
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotEqual(self.credential("one")[0], credential)
        self.assertIsNone(SECRET.search(self.stack.gateway.log_text()))

    def test_a_device_waits_for_its_gateway(self):
        self.stack.start_gateway(*self.arguments)
        path = self.enrol_token()
        self.stack.gateway.kill()
        child = self.device("one", "--enroll-token", path, "--verbose", wait=False)
        for _ in range(2):  # it asks again
            self.assertIn("enrolment: ", child.stderr.readline())
        self.stack.restart_gateway(*self.arguments)
        wait_until(lambda: os.path.exists(self.stack.path("one", "credential")), what="enrolment")
        child.terminate()
        self.assertEqual(child.wait(60), 0)

    def test_tenants_and_their_devices(self):
        self.stack.start_gateway(*self.arguments)
        self.walle("tenant", "new", "acme")
        self.assertEqual(self.walle("tenant", "list").stdout.split(), ["default", "acme"])
        admin = self.token("admin", tenant="acme")
        self.walle("tenant", "new", "mine", token=admin, code=4)
        self.assertEqual(self.walle("tenant", "list", token=admin).stdout.split(), ["acme"])
        run = self.device("theirs", "--id", "0000000000000002", "--enroll-token", self.enrol_token(tenant="acme"))
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.device("ours", "--id", "0000000000000003", "--enroll-token", self.enrol_token())
        self.assertEqual(run.returncode, 0, run.stderr)

        def seen(token, **options):
            return json.loads(self.walle("device", "list", "-o", "json", token=token, **options).stdout)["items"]
        wait_until(lambda: len(seen(admin)) == 1, what="the device on disk")
        self.assertEqual([device["id"] for device in seen(admin)], ["0000000000000002"])
        wait_until(lambda: len(seen("a-long-enough-admin-token")) == 1, what="the device on disk")
        self.assertEqual([device["id"] for device in seen("a-long-enough-admin-token")], ["0000000000000003"])
        self.walle("device", "get", "0000000000000003", token=admin, code=4)
        self.walle("device", "revoke", "0000000000000003", token=admin, code=4)
        self.walle("device", "get", "0000000000000002", token=admin)

    def certificate(self, name, subject, ca=True):
        """A key and a certificate signed by the test's authority (or by itself)."""
        key, pem = self.stack.path(name + ".key"), self.stack.path(name + ".pem")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                   "-subj", subject, "-keyout", key, "-out", pem]
        if ca:
            command += ["-CA", self.stack.path("ca.pem"), "-CAkey", self.stack.path("ca.key"), "-addext", "basicConstraints=CA:FALSE"]
        subprocess.run(command, check=True, capture_output=True)
        return pem, key

    def test_client_certificates(self):
        self.certificate("ca", "/CN=fleet authority", ca=False)
        self.stack.start_gateway(*self.arguments, "--set", "tls.client_ca=" + self.stack.path("ca.pem"), "--set", "device.auth=required")
        self.walle("tenant", "new", "acme")
        url = self.stack.gateway.tls_url
        pem, key = self.certificate("seven", "/CN=0000000000000007/O=acme")
        good = ["-k", "--cert", pem, "--key", key]
        self.assertEqual(self.checkin("0000000000000007", None, url, *good), 204)
        self.assertEqual(self.checkin("0000000000000008", None, url, *good), 401)
        self.assertEqual(self.checkin("0000000000000007", None, url, "-k"), 401)
        pem, key = self.certificate("stranger", "/CN=0000000000000009", ca=False)
        run = subprocess.run(["curl", "-sS", "-k", "--cert", pem, "--key", key, url + "/healthz"], capture_output=True, text=True, timeout=90)
        self.assertNotEqual(run.returncode, 0)  # the handshake ends: it does not verify
        pem, key = self.certificate("gone", "/CN=000000000000000a/O=nowhere")
        self.assertEqual(self.checkin("000000000000000a", None, url, "-k", "--cert", pem, "--key", key), 401)
        # The agent, twice: the second handshake resumes, and the certificate still counts.
        pem, key = self.certificate("agent", "/CN=000000000000000b/O=acme")
        for _ in range(2):
            run = subprocess.run([program("walle-device"), "--gateway", url, "--insecure", "--dir", self.stack.path("agent"), "--id",
                                  "000000000000000b", "--trust", "11" * 32, "--cert", pem, "--cert-key", key, "--once"],
                                 capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
        wait_until(lambda: self.stack.walle("device", "get", "0000000000000007", "--token", "a-long-enough-admin-token", "--tenant",
                                            "acme", check=False).returncode == 0, what="the device in its tenant")
        shown = json.loads(self.walle("device", "get", "0000000000000007", tenant="acme").stdout)
        self.assertEqual(shown["credential"], "certificate")
        self.walle("device", "revoke", "0000000000000007", tenant="acme")
        self.assertEqual(self.checkin("0000000000000007", None, url, *good), 403)

    def test_a_credential_is_forwarded_to_nobody(self):
        seen = []

        class Service(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        self.addCleanup(service.shutdown)
        self.stack.start_gateway(*self.arguments, "--upstream", f"http://127.0.0.1:{service.server_address[1]}")
        path = self.enrol_token()
        self.assertEqual(self.device("one", "--id", "0000000000000001", "--enroll-token", path).returncode, 0)
        credential, _ = self.credential("one")
        for shown, wanted in ((credential, 200), ("wdt_wrong", 401)):
            status, _ = self.curl("/shop/home", "-H", "walle-device: 0000000000000001", "-H", "walle-profile: AQAAAAAAAAAAAAABAA",
                                  "-H", f"walle-credential: {shown}", "-H", "cookie: mine")
            self.assertEqual(status, wanted)
        self.assertEqual(len(seen), 1)
        for headers in seen:
            self.assertEqual(headers["cookie"], "mine")
            self.assertEqual(headers["walle-device"], "0000000000000001")
            self.assertNotIn("walle-credential", headers)

    # ---- repeating

    def test_a_repeated_request_changes_once(self):
        self.stack.start_gateway(*self.arguments)
        releaser = self.token("releaser")
        arguments = ["-D", "-", "-H", "idempotency-key: 4711", "--json", '{"name": "once"}']
        status, text = self.curl("/api/v1/tasks", *arguments, token=releaser)
        self.assertEqual(status, 201)
        self.stack.gateway.kill(signal.SIGKILL)
        self.stack.restart_gateway(*self.arguments)
        status, text = self.curl("/api/v1/tasks", *arguments, token=releaser)
        self.assertEqual(status, 201)
        self.assertIn("idempotency-replayed: true", text)
        status, text = self.curl("/api/v1/tasks", "-H", "idempotency-key: 4711", "--json", '{"name": "other"}', token=releaser)
        self.assertEqual(status, 422)
        self.assertEqual(self.walle("task", "list").stdout.split()[0], "once")
        status, text = self.curl("/api/v1/openapi.json", token=releaser)
        self.assertEqual(json.loads(text)["openapi"], "3.1.0")


if __name__ == "__main__":
    unittest.main()
