"""Point 15: a page of another site does not use the operator's browser against the gateway; token files and keys that others
may read, or that somebody may guess, are refused with what is wrong and how to mend it."""
import os
import signal
import subprocess
import unittest

from raw_h2 import Connection, request
from walle_stack import Stack, program, wait_until

GOOD = "0123456789abcdef0123456789abcdef"


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.stack.start_gateway()
        cls.authority = cls.stack.gateway.url.removeprefix("http://")

    def status(self, *headers, path="/api/v1/tasks", method="GET", body=None):
        command = ["curl", "-sS", "--http2-prior-knowledge", "-X", method, "-o", "/dev/null", "-w", "%{http_code}", "--max-time",
                   "30", self.stack.gateway.url + path]
        for header in (self.stack.bearer, *headers):
            command += ["-H", header]
        if body is not None:
            command += ["-H", "content-type: application/json", "--data-binary", body]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        return int(run.stdout)

    def test_pages_of_others_are_refused(self):
        foreign = (("origin: http://evil.example",), ("origin: null",), ("origin: http://" + self.authority + ".evil.example",),
                   ("origin: http://127.0.0.1:1",), ("origin: ftp://" + self.authority,), ("origin: " + self.authority,),
                   ("origin: https://" + self.authority,),  # this is the clear address: no page of it came over TLS
                   ("sec-fetch-site: cross-site",), ("sec-fetch-site: same-site",), ("sec-fetch-site: x",),
                   ("origin: http://" + self.authority, "sec-fetch-site: cross-site"))
        for headers in foreign:
            with self.subTest(headers=headers):
                self.assertEqual(self.status(*headers), 403)
                self.assertEqual(self.status(*headers, method="POST", body='{"name": "stolen"}'), 403)
        for path in ("rollouts", "devices", "audit", "tokens", "tenants", "tunnel"):
            self.assertEqual(self.status("origin: http://evil.example", path="/api/v1/" + path), 403)
        self.assertEqual(self.status(path="/api/v1/tasks/stolen"), 404, "a refused request has no effect")

    def test_its_own_page_and_programs_are_served(self):
        for headers in ((), ("origin: http://" + self.authority,),
                        ("sec-fetch-site: same-origin",), ("sec-fetch-site: none",),
                        ("origin: http://proxied.example", "sec-fetch-site: same-origin")):
            self.assertEqual(self.status(*headers), 200, headers)
        # The page itself holds no data: a link to it may stand anywhere.
        self.assertEqual(self.status("sec-fetch-site: cross-site", path="/"), 200)

    def test_the_scheme_belongs_to_the_origin(self):
        """A page of http://HOST:PORT anybody on the way could write; it is none of https://HOST:PORT. A trusted hop may end TLS."""
        bearer = ("authorization", "Bearer " + self.stack.admin_token)

        def ask(port, scheme, tls, **more):
            with Connection(port, tls=tls, **more) as connection:
                field = ("origin", f"{scheme}://localhost")
                return connection.reply(connection.headers(request("/api/v1/tasks", "GET", bearer, field)))[0]
        tls, h2c = self.stack.gateway.ports["tls"], self.stack.gateway.ports["h2c"]
        self.assertEqual((ask(tls, "https", True), ask(tls, "http", True)), (200, 403))
        self.assertEqual((ask(h2c, "http", False), ask(h2c, "https", False)), (200, 403))
        with Stack() as stack:
            stack.start_gateway("--set", "listen.trusted_hops=127.0.0.2")
            bearer = ("authorization", "Bearer " + stack.admin_token)
            port, hop = stack.gateway.ports["h2c"], {"source": "127.0.0.2"}
            self.assertEqual((ask(port, "https", False, **hop), ask(port, "http", False, **hop)), (200, 200))
            self.assertEqual(ask(port, "https", False), 403)

    def test_two_values_are_refused(self):
        """What a browser says of a page it says once: who sends two hopes that the other one is looked at."""
        own, evil = "http://localhost", "http://evil.example"
        pairs = ((("origin", own), ("origin", evil)), (("origin", evil), ("origin", own)),
                 (("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")),
                 (("sec-fetch-site", "none"), ("origin", own), ("sec-fetch-site", "same-origin")))
        bearer = ("authorization", "Bearer " + self.stack.admin_token)
        with Connection(self.stack.gateway.ports["h2c"]) as connection:
            def ask(path, *fields):
                return connection.reply(connection.headers(request(path, "GET", bearer, *fields)))[0]
            for path in ("/api/v1/tasks", "/metrics", "/"):
                for fields in pairs:
                    self.assertEqual(ask(path, *fields), 400, f"{path} {fields}")
                self.assertEqual(ask(path, ("origin", own), ("origin", own), ("sec-fetch-site", "none"), ("sec-fetch-site", "none")), 200)


class Figures(unittest.TestCase):
    """metrics.access: who reads /metrics without a token. Health is everybody's."""

    def statuses(self, *settings):
        """Of /metrics: from this machine, through a balancer, with a token, with a wrong one, for a page of another site."""
        with Stack() as stack:
            port = stack.start_gateway(*settings, "--set", "listen.trusted_hops=127.0.0.2").ports["h2c"]

            def ask(*fields, source=None, path="/metrics"):
                with Connection(port, source=source) as connection:
                    return connection.reply(connection.headers(request(path, "GET", *fields)))[0]
            hop = {"source": "127.0.0.2"}
            self.assertEqual((ask(path="/healthz", **hop), ask(path="/readyz", **hop)), (200, 200))
            viewer = stack.walle("token", "new", "--name", "prometheus", "--role", "viewer").stdout.strip()
            enrol = stack.walle("device", "enroll-token", "--name", "factory").stdout.strip()
            self.assertEqual(ask(("authorization", "Bearer " + enrol), **hop), 401)
            return (ask(), ask(**hop), ask(("authorization", "Bearer " + viewer), **hop), ask(("authorization", "Bearer x")),
                    ask(("sec-fetch-site", "cross-site")))

    def test_by_setting(self):
        self.assertEqual(self.statuses(), (200, 401, 200, 401, 403))
        self.assertEqual(self.statuses("--set", "metrics.access=loopback"), (200, 401, 200, 401, 403))
        self.assertEqual(self.statuses("--set", "metrics.access=token"), (401, 401, 200, 401, 403))
        self.assertEqual(self.statuses("--set", "metrics.access=open"), (200, 200, 200, 401, 200))

    def test_a_wrong_setting_is_told(self):
        with Stack() as stack:
            run = subprocess.run([program("walle-gateway"), "--dir", stack.path("gateway"), "--set", "metrics.access=all"],
                                 capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 2)
            self.assertIn("metrics.access: 'all' is not loopback, open or token", run.stderr)


class Secrets(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def refused(self, setting, path):
        gateway = subprocess.Popen([program("walle-gateway"), "--dir", self.stack.path("gateway"), "--h2c", "127.0.0.1:0", "--tls",
                                    "none", "--set", f"{setting}={path}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.stack.children.append(gateway)
        served = gateway.stdout.readline()
        if served:
            gateway.kill()
        _, said = gateway.communicate(timeout=60)
        self.assertEqual(served, "", f"{setting} = {path} is served")
        self.assertNotEqual(gateway.returncode, 0)
        self.assertIn(setting, said)
        return said

    def test_files_that_others_read_are_refused(self):
        for setting in ("admin.token_file", "ddi.token_file"):
            path = self.stack.secret("token", GOOD)
            for mode in (0o640, 0o604, 0o644, 0o620, 0o602, 0o610):
                os.chmod(path, mode)
                self.assertIn("chmod 600 " + path, self.refused(setting, path))

    def test_guessable_tokens_are_refused(self):
        for setting in ("admin.token_file", "ddi.token_file"):
            for token in ("s3cret", "password", GOOD[:31], "a" * 64, "abcabc" * 10, "correct-horse-battery", "0" * 32):
                self.assertIn("guessable", self.refused(setting, self.stack.secret("token", token)))
            self.assertIn("empty", self.refused(setting, self.stack.secret("token", "")))
            self.assertIn("longer", self.refused(setting, self.stack.secret("token", GOOD * 100)))
        self.assertIn("not a regular file", self.refused("admin.token_file", "/dev/null"))
        self.assertIn("No such file", self.refused("admin.token_file", self.stack.path("nothing")))

    def test_a_good_one_opens(self):
        for token in (GOOD, "qLJ0yAzS4dRb2p0bXcVnWA", "x" + GOOD + "\r"):
            self.stack.start_gateway("--set", "admin.token_file=" + self.stack.secret("token", token))
            self.stack.walle("task", "list", "--token", token.strip())
            self.assertIn("401", self.stack.walle("task", "list", check=False).stderr)
            self.assertEqual(self.stack.gateway.stop(), 0)

    def test_a_tls_key_that_others_read_is_refused(self):
        pem, key = self.stack.path("tls.pem"), self.stack.path("tls.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=gateway", "-keyout", key, "-out", pem], check=True, capture_output=True)
        settings = ("--set", "tls.certificate=" + pem, "--set", "tls.key=" + key)

        def said():
            run = subprocess.run([program("walle-gateway"), "--dir", self.stack.path("refused"), "--h2c", "none", "--tls", "127.0.0.1:0",
                                  *settings], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            return run.stderr
        for mode in (0o644, 0o604, 0o660, 0o640):
            os.chmod(key, mode)
            self.assertIn("tls.key: others may read it: chmod 600", said())
        os.chmod(key, 0o600)
        gateway = self.stack.start_gateway(*settings)
        # A reload with such a key changes nothing.
        os.chmod(key, 0o644)
        os.kill(gateway.pid, signal.SIGHUP)
        wait_until(lambda: "reload refused" in gateway.log_text(), what="the refusal")
        self.assertIn("others may read it", gateway.log_text())
        self.stack.walle("task", "list", "--gateway", gateway.tls_url, "--insecure")
        # Its own one, too.
        gateway.stop()
        own = self.stack.path("own")
        with Stack() as other:
            other.start_gateway().stop()
            os.rename(other.path("gateway"), own)
        os.chmod(os.path.join(own, "key.pem"), 0o644)
        run = subprocess.run([program("walle-gateway"), "--dir", own, "--h2c", "none", "--tls", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
        self.assertIn("key.pem: others may read it", run.stderr)

    def test_token_files_of_devices(self):
        """An enrolment token that others may read is refused by who would use it."""
        gateway = self.stack.start_gateway()
        token = self.stack.enroll_token
        device = [program("walle-device"), "--gateway", gateway.url, "--dir", self.stack.path("device"), "--id", "0000000000000001",
                  "--trust", "11" * 32, "--enroll-token", token, "--once"]
        fleet = [program("walle-fleet-sim"), "run", "--devices", "1", "--gateway", gateway.url, "--trust", "11" * 32, "--no-live",
                 "--duration", "1", "--out", self.stack.path("fleet"), "--enroll-token", token]
        watch = [*fleet[:-2], "--token-file", self.stack.secret("viewer.token", GOOD)]
        for mode in (0o644, 0o640, 0o602):
            os.chmod(token, mode)
            os.chmod(watch[-1], mode)
            for command in (device, fleet, watch):
                run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertNotEqual(run.returncode, 0, command)
                self.assertIn(f"others may read it: chmod 600 {watch[-1] if command is watch else token}", run.stdout + run.stderr)
        key = self.stack.secret("device.key", "x")
        os.chmod(key, 0o644)
        run = subprocess.run([*device[:-3], "--cert", key, "--cert-key", key], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=60)
        self.assertIn("--cert-key: " + key + ": others may read it: chmod 600", run.stderr)
        os.chmod(token, 0o600)
        self.assertEqual(subprocess.run(device, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode, 0)

    def test_a_signing_key_that_others_read_is_refused(self):
        self.stack.start_gateway()
        stages = [{"name": "full", "kind": "full", "min_sample": 1, "max_failure": 0.1}]
        self.stack.release("t", 1, "import walle\n", stages)
        os.chmod(self.stack.path("release.key"), 0o644)
        with self.assertRaisesRegex(AssertionError, "others may read it: chmod 600"):
            self.stack.release("t", 2, "import walle\n", stages)


if __name__ == "__main__":
    unittest.main()
