#!/usr/bin/env python3
"""Programs say which version they are, whether their settings are good, what was probably meant; the gateway's log has every decision, refusal,
login and act of trust once, in fields."""
import json
import os
import re
import shutil
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
PROGRAMS = ("walle", "walle-gateway", "walle-device", "walle-task-runner", "walle-fleet-sim", "walle-engine", "walle-store")


def run(name, *arguments, **options):
    return subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **options)


class Words(unittest.TestCase):
    def test_every_program_says_its_version(self):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"project\(walle VERSION (\S+)", file.read()).group(1)
        for name in PROGRAMS:
            with self.subTest(name=name):
                said = run(name, "--version")
                self.assertEqual((said.returncode, said.stdout), (0, f"{name} {version}\n"), said.stderr)

    def test_settings_are_checked_and_nothing_is_started(self):
        with Stack() as stack:
            def check(text, *more):
                path = stack.secret("gateway.conf", text)
                return run("walle-gateway", "--dir", stack.path("none"), "--config", path, "--check-config", *more)
            said = check("workers = 1\n")
            self.assertEqual((said.returncode, said.stdout), (0, "the settings are good\n"), said.stderr)
            for text, words in (("workers = many\n", "gateway.conf:1: "), ("tls.certificate = /nosuch.pem\ntls.key = /nosuch.key\n", "/nosuch.pem"),
                                ("tls.certificate = /nosuch.pem\n", "must be set together"), ("listen.hosts = not/a/name\n", "not/a/name"),
                                ("admin.token_file = /nosuch\n", "admin.token_file: "), ("listen.tls = none\nlisten.h2c = none\n", "both"),
                                ("workerz = 1\n", "unknown setting 'workerz': did you mean workers?")):
                said = check(text)
                self.assertEqual((said.returncode, said.stdout), (2, ""), text)
                self.assertIn(words, said.stderr)
            for text, words in (("workers = 1\n\ntls.certificate = /nosuch.pem\ntls.key = /nosuch.key\n", ":3: tls.certificate: /nosuch.pem: No such file"),
                                ("tls.certificate = /nosuch.pem\n", ":1: tls.certificate: tls.certificate and tls.key must be set together"),
                                ("\ndevice.auth = both\n", ":2: device.auth: 'both' is not"), ("\nlisten.h2c = 0.0.0.0:1\n", ":2: listen.h2c: "),
                                ("\n\nadmin.token_file = /nosuch\n", ":3: admin.token_file: /nosuch")):
                self.assertIn("gateway.conf" + words, check(text).stderr)
            folder = stack.path(*["a folder with a long name"] * 8)
            os.makedirs(folder)
            path = os.path.join(folder, "gateway.conf")  # beyond what the text of an error has room for
            with open(path, "w", encoding="utf-8") as file:
                file.write("\ndevice.auth = both\n")
            said = run("walle-gateway", "--dir", stack.path("none"), "--config", path, "--check-config")
            self.assertEqual(said.stderr, f"{path}:2: device.auth: 'both' is not optional or required\n")
            said = check("tls.client_ca = /nosuch.ca\n", "--set", "tls.client_ca=/other.ca")
            self.assertRegex(said.stderr, r"^command line: tls\.client_ca: /other\.ca: ")
            self.assertIn("did you mean listen.hosts?", check("", "--set", "listen.host=a").stderr)
            self.assertFalse(os.path.exists(stack.path("none")), "no data folder was made")

    def test_a_start_that_is_refused_leaves_no_folder(self):
        with Stack() as stack:
            gateway = stack.start_gateway()
            taken, new = f"127.0.0.1:{gateway.ports['h2c']}", stack.path("new")
            for words, said in ((("--tls", "none", "--h2c", taken), f"listen.h2c: {taken}: another process listens there"),
                                (("--tls", taken, "--h2c", "none"), f"listen.tls: {taken}: another process listens there"),
                                (("--tls", "127.0.0.1:9", "--h2c", "127.0.0.1:9"), "listen.h2c: 127.0.0.1:9 is the port of listen.tls too"),
                                (("--tls", "0.0.0.0:9", "--h2c", "localhost:9"), "listen.h2c: localhost:9 is the port of listen.tls too"),
                                (("--tls", "[::]:9", "--h2c", "127.0.0.1:9"), "listen.h2c: 127.0.0.1:9 is the port of listen.tls too"),
                                (("--tls", "none", "--h2c", "127.0.0.1:0", "--set", "admin.token_file=/nosuch"), "admin.token_file: /nosuch: No such"),
                                (("--tls", "none", "--h2c", "127.0.0.1:0", "--set", "ddi.token_file=/nosuch"), "ddi.token_file: /nosuch: No such")):
                with self.subTest(words=words):
                    refused = run("walle-gateway", "--dir", new, *words)
                    self.assertEqual(refused.returncode, 1, refused.stderr)
                    self.assertIn("command line: " + said, refused.stderr)
                    self.assertFalse(os.path.exists(new))

    def test_a_check_finds_what_a_start_would_refuse(self):
        with Stack() as stack:
            gateway = stack.start_gateway()
            whole, other, text = stack.path("gateway"), stack.path("other"), stack.secret("words.pem", "no certificate")
            pem = [os.path.join(whole, name) for name in ("cert.pem", "key.pem")]
            ports = ["--h2c", f"127.0.0.1:{gateway.ports['h2c']}", "--tls", f"127.0.0.1:{gateway.ports['tls']}"]

            def check(folder, *more):
                return run("walle-gateway", "--dir", folder, "--check-config", *more)

            said = check(whole, *ports)
            self.assertEqual((said.returncode, said.stdout), (0, "the settings are good\n"), "whoever runs with them: " + said.stderr)
            self.assertEqual(gateway.stop(), 0)
            shutil.copytree(whole, other)
            os.remove(os.path.join(other, "cert.pem"))
            held = sorted(os.listdir(other))
            self.assertEqual(check(other).returncode, 0, "what a start makes need not be there")
            self.assertEqual(sorted(os.listdir(other)), held, "and is not made")
            with open(os.path.join(other, "keys", "director.key"), "wb") as file:
                file.write(b"short")
            open_folder = stack.path("open")
            os.mkdir(open_folder)
            os.chmod(open_folder, 0o777)
            for folder, words, text_said in (
                    (whole, ("--h2c", "0.0.0.0"), "listen.h2c: '0.0.0.0' is not ADDR:PORT"),
                    (whole, ("--h2c", "0.0.0.0:8080"), "loopback addresses only"),
                    (whole, ("--tls", "foo"), "listen.tls: 'foo' is not ADDR:PORT"),
                    (whole, ("--tls", "127.0.0.1:65536"), "listen.tls: "),
                    (whole, ("--upstream", "shop"), "proxy.upstream: 'shop' is not http://HOST:PORT"),
                    (whole, ("--upstream", "http://no.such.host.invalid:80"), "proxy.upstream: 'http://no.such.host.invalid:80': "),
                    (whole, ("--set", "rollout.evidence_keys=abc"), "rollout.evidence_keys"),
                    (whole, ("--set", "listen.proxy_protocol=maybe"), "neither on nor off"),
                    (whole, ("--set", "listen.trusted_hops=1.2.3"), "listen.trusted_hops: "),
                    (whole, ("--set", f"tls.certificate={text}", "--set", f"tls.key={pem[1]}"), "words.pem: not a PEM certificate chain"),
                    (whole, ("--set", f"tls.certificate={pem[0]}", "--set", f"tls.key={text}"), "words.pem: not a PEM private key"),
                    (whole, ("--set", f"tls.client_ca={text}"), "words.pem: not PEM certificates"),
                    (other, (), "director.key is damaged"),
                    (open_folder, (), "others may write there"),
                    (text, (), "Not a directory"),
                    (stack.path("a", "b"), (), "cannot be made")):
                with self.subTest(words=words, folder=folder):
                    said = check(folder, *words)
                    self.assertEqual((said.returncode, said.stdout), (2, ""), said.stderr)
                    self.assertIn(text_said, said.stderr)
                    start = run("walle-gateway", "--dir", folder, "--tls", "127.0.0.1:0", "--h2c", "127.0.0.1:0", *words)
                    self.assertIn(text_said.split(": ")[-1] if text_said != "cannot be made" else "No such file", start.stderr, "so does a start")
            self.assertEqual(sorted(os.listdir(open_folder)), [], "nothing is made")

    def test_every_program_says_which_option_was_meant(self):
        for words, meant in ((("walle-gateway", "--upsteam", "http://127.0.0.1:1"), "--upstream"), (("walle-device", "--gatway=x"), "--gateway"),
                             (("walle-device", "--gateway", "--odd", "--dri", "x"), "--dir"), (("walle-fleet-sim", "run", "--devcies", "3"), "--devices"),
                             (("walle-fleet-sim", "simulate", "--taks", "x"), "--task"), (("walle-engine", "bench", "--thraeds", "2", "x"), "--threads"),
                             (("walle-store", "--hlep"), "--help"), (("walle-gateway", "--qqqqqqqqqq"), None)):
            with self.subTest(words=words):
                said = run(*words)
                self.assertEqual((said.returncode, said.stdout), (2, ""), said.stderr)
                wrong = next(word for word in words[1:] if word.startswith("--") and word not in ("--gateway", "--odd")).split("=")[0]
                self.assertIn(f"{words[0]}", said.stderr)
                self.assertIn(f"no option '{wrong}'" + (f"; did you mean {meant}?" if meant else "\n"), said.stderr)

    def test_programs_of_commands_say_which_was_meant(self):
        for words, meant in ((("walle-store", "chek", "x"), "check"), (("walle-store", "comapct", "x", "y"), "compact"), (("walle-store", "zzzzzzzz"), None),
                             (("walle-engine", "chek", "x"), "check"), (("walle-engine", "zzzzzzzz"), None)):
            with self.subTest(words=words):
                said = run(*words)
                self.assertEqual((said.returncode, said.stdout), (2, ""), said.stderr)
                self.assertIn(f"{words[0]}: no command '{words[1]}'" + (f"; did you mean {meant}?\n" if meant else "\n"), said.stderr)

    def test_an_option_says_what_it_is_for_here(self):
        for words, right, wrong in ((("tunnel", "tail"), "Only of this device", "script"), (("audit", "tail"), "With --follow", "--watch"),
                                    (("release", "kill"), "audit log", "Why; kept in the rollout's"), (("root", "init"), "a majority", "replay with"),
                                    (("rollout", "replay"), "share to replay with", "Root keys"), (("token", "new"), "(ever)", "(90)"),
                                    (("rollout", "start"), "(90)", "(ever)"), (("device", "enroll-token"), "What the token is called", "Whose the"),
                                    (("clock", "accept"), "kept in the audit log", "rollout's"), (("rollout", "list"), "Only rollouts of", "explain")):
            said = " ".join(run("walle", *words, "--help").stdout.split())
            with self.subTest(words=words):
                self.assertIn(right, said)
                self.assertNotIn(wrong, said)

    def test_times_are_dates(self):
        with Stack() as stack:
            stack.start_gateway()
            stack.walle("key", "new", "--out", stack.path("a.key"))
            stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("a.key"), "--release", stack.path("a.key.pub"))
            stack.walle("token", "new", "--name", "vera", "--role", "viewer", "--expires", "3")
            date = r"20\d\d-\d\d-\d\dT\d\d:\d\d"
            self.assertRegex(stack.walle("root", "show", stack.path("root.1")).stdout, rf"expires {date}Z,")
            self.assertRegex(stack.walle("token", "list").stdout, rf"expires {date}Z")
            self.assertRegex(stack.walle("clock", "show").stdout, rf"wall clock {date}:\d\dZ, the gateway goes by {date}:\d\dZ, signs by {date}:\d\dZ\n")

    def test_options_and_commands_that_are_nearly_right(self):
        for words, meant in ((("rollout", "list", "--limmit", "3"), "--limit"), (("rollout", "start", "x", "--min-smaple=3"), "--min-sample"),
                             (("rolout", "list"), "walle rollout"), (("rollout", "lst"), "walle rollout list")):
            said = run("walle", *words)
            self.assertEqual(said.returncode, 2, said.stdout)
            self.assertIn(f"did you mean {meant}" if meant.startswith("--") else f"did you mean '{meant}'", said.stderr)
        said = run("walle", "rollout", "list", "--qqqqqqqqqq")
        self.assertEqual((said.returncode, "did you mean" in said.stderr), (2, False), said.stderr)
        self.assertIn("no option '--qqqqqqqqqq'", said.stderr)
        self.assertEqual(run("walle", "rollout", "pause", "00c0", "--reason", "--odd words", "--gateway", "http://127.0.0.1:1").returncode, 3,
                         "what belongs to an option is none itself")


class Log(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_hasty_gateway()

    def lines(self, *words):
        return [line for line in self.stack.gateway.log_text().splitlines() if all(word in line for word in words)]

    def once(self, *words):
        found = wait_until(lambda: self.lines(*words), what=f"a line with {words}")
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_fields_that_are_nearly_right(self):
        status, body = self.stack.api("/api/v1/tasks", "POST", {"nmae": "shop"})
        self.assertEqual((status, body["detail"]), (400, "nmae: unknown field, did you mean name?"))
        status, body = self.stack.api("/api/v1/tasks", "POST", {"zzzzzzzz": "shop"})
        self.assertEqual((status, body["detail"]), (400, "zzzzzzzz: unknown field"))

    def test_what_people_do_and_are_refused(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.assertEqual(self.lines("blobs are missing"), [], "a push asks so what to send")
        path = f"path=/api/v1/rollouts/{rollout}"
        self.assertRegex(self.once("path=/api/v1/rollouts ", "method=POST"), r'INFO api: request=[0-9a-f]{16} actor="admin" role=admin tenant=default '
                         r"method=POST path=/api/v1/rollouts outcome=done status=201$")
        self.once(path + "/start ", "outcome=done")
        self.stack.walle("rollout", "pause", rollout)
        self.once(path + "/pause ", "outcome=done")
        viewer = self.stack.walle("token", "new", "--name", "vera", "--role", "viewer").stdout.strip()
        self.assertEqual(self.stack.walle("rollout", "abort", rollout, "--reason", "enough", "--token", viewer, check=False).returncode, 4)
        self.assertRegex(self.once(path + "/abort "), r'WARN api: .* actor="vera" role=viewer .* outcome=refused status=403 detail="')
        self.assertEqual(self.stack.walle("rollout", "abort", rollout, "--reason", "enough", "--token", "wat_" + "A" * 43, check=False).returncode, 4)
        self.assertRegex(self.once(path + "/abort ", 'actor=""'), r"role=none .* outcome=refused status=401")
        self.assertNotIn(viewer, self.stack.gateway.log_text())

    def test_an_event_field_that_there_is_not(self):
        self.stack.release("shop/score", 1, SCRIPT, FULL)
        events = self.stack.secret("events.jsonl", '{"time": 1}')
        said = self.stack.walle("task", "run", self.stack.path("build1"), "--events", events, check=False).stderr
        self.assertIn('"time" is no field of an event (kind name page item instance t attrs)', said)

    def test_a_share_and_a_bucket_add_up(self):
        """Why a device runs what it runs: its bucket and the stage's share in the same measure."""
        self.stack.enrol([7])
        for number, share in ((1, 0.01), (2, 100)):
            rollout = self.stack.release("shop/score", number, SCRIPT, [{**FULL[0], "kind": "gray", "percent": share}])
            self.stack.post("/v1/checkin", 7)
            why = ("device", "why", f"{7:016x}", "--task", "shop/score")
            item = json.loads(self.stack.walle(*why, "-o", "json").stdout)["rollouts"][0]
            self.assertEqual((item["rollout"], item["max_bucket"]), (rollout, share * 100))
            said = self.stack.walle(*why).stdout
            self.assertIn(f"(bucket {item['bucket'] / 100:.2f} %, stage full takes devices below {share} %)", said)
            self.stack.walle("rollout", "abort", rollout, "--reason", "the next one")

    def test_a_compact_copy_goes_into_an_empty_folder(self):
        into = self.stack.path("copy")
        os.mkdir(into)
        self.stack.secret("copy/notes", "mine")
        self.stack.gateway.stop()
        compact = ("walle-store", "compact", self.stack.gateway.folder, into)
        said = run(*compact)
        self.assertEqual((said.returncode, os.listdir(into)), (1, ["notes"]), said.stdout)
        self.assertIn(f"{into} is not empty, it has notes: compact writes into an empty folder", said.stderr)
        os.remove(os.path.join(into, "notes"))
        self.assertEqual(run(*compact).returncode, 0)
        said = run(*compact[:3], self.stack.path("nowhere"))
        self.assertEqual(said.returncode, 1)
        self.assertIn("nowhere: No such file or directory (compact writes into an empty folder)", said.stderr)

    def test_an_approval_that_nothing_waits_for(self):
        """Nobody is sent for another person who could not approve either."""
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        said = self.stack.walle("rollout", "approve", rollout, check=False)
        self.assertEqual(said.returncode, 4)
        self.assertIn("approve: nothing of it waits for an approval, which would be another person's than admin, who made it", said.stderr)

    def test_logins(self):
        link = self.stack.walle("console", "--no-open").stdout
        code = re.search(r"wlc_[A-Za-z0-9_-]+", link).group(0)
        self.once("path=/api/v1/console/code ", "outcome=done")
        for count in (1, 2):
            subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-H", "authorization: Bearer " + code, "--json", "{}",
                            self.stack.gateway.url + "/api/v1/console/session"], capture_output=True, timeout=60, check=True)
            self.once("path=/api/v1/console/session ", "outcome=done", 'actor="admin"')
        self.once("path=/api/v1/console/session ", "outcome=refused", "status=401")
        self.assertIsNone(re.search(r"w[alc][tcs]_", self.stack.gateway.log_text()))

    def test_trust_and_decisions(self):
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("release.key"), "--release",
                         self.stack.path("release.key.pub"))
        self.stack.walle("root", "push", self.stack.path("root.1"))
        self.once("path=/api/v1/trust/root ", "outcome=done")
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        manifest = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["manifest"]
        self.stack.walle("release", "kill", manifest, "--reason", "leaks")
        self.once("path=/api/v1/kills ", "outcome=done")
        self.assertRegex(self.once(f"rollout {rollout} is rolled_back"), r'INFO rollouts: shop/score: .*; action=\w+ stage="full" verdict=\w+ '
                         r"reason=rollback_complete failure_ratio=0\.000000 held=0$")
        log = json.loads(self.stack.walle("rollout", "log", rollout, "-o", "json").stdout)["items"]
        decisions = [item for item in log if item["kind"] in ("decision", "kill")]
        self.assertEqual(len(self.lines("rollouts: ", f"rollout {rollout} is ")), len(decisions), decisions)


if __name__ == "__main__":
    unittest.main()
