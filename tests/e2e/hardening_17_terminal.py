"""Point 17: nothing that a stranger wrote steers the operator's terminal, whichever program shows it and in whichever form.

A device has attributes, log lines and a failure that are made of control sequences; another operator's reasons are, too.
Every command that shows any of it is run, and its whole output looked at byte by byte."""
import json
import os
import struct
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

TITLE, CLEAR, C1, BIDI = "\x1b]0;owned\x07", "\x1b[2J", "\u009b31m", "\u202e\u200b\u00ad\ufeff"
EVIL = TITLE + CLEAR + C1 + BIDI + "\r\x08\x7f\u2066"
FORGED = "walle: all is well"
DEVICE = "00000000000000aa"
FAIL_VERIFY = 16  # PROTOCOL.md, section 10: of no rollout, what the device did not believe of the gateway
SCRIPT = f"import walle\nwalle.log({EVIL!r})\nraise ValueError({EVIL + chr(10) + FORGED!r})\n"
BAD = {*range(0x00, 0x09), *range(0x0b, 0x20), *range(0x7f, 0xa0), 0xad, 0x61c, *range(0x200b, 0x2010), *range(0x2028, 0x202f),
       *range(0x2060, 0x2070), 0xfeff}


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.stack.start_gateway("--set", "rollout.tick_ms=20", "--set", "log.level=debug")
        key = cls.stack.walle("key", "new", "--out", cls.stack.path("release.key"))
        cls.public = key.stdout.strip()
        cls.rollout = cls.stack.release("evil", 1, SCRIPT, [{"name": "full", "kind": "full", "min_sample": 1,
                                                             "max_failure": 0.1}],
                                        more=("--trust-unproven",))
        cls.stack.walle("rollout", "pause", cls.rollout, "--reason", EVIL + "\n" + FORGED, "--by", "ana" + CLEAR)
        cls.stack.walle("rollout", "resume", cls.rollout, "--reason", BIDI)
        cls.device = subprocess.run(
            [program("walle-device"), "--gateway", cls.stack.gateway.url, "--dir", cls.stack.path("evil-device"), "--id", DEVICE,
             "--trust", cls.public, "--once", "--verbose", "--attr", "os=android", "--attr", f"vendor={BIDI}sdoirdna", "--attr",
             f"model=pixel\u2066"], capture_output=True, timeout=60, check=False)
        if cls.device.returncode != 0:
            raise AssertionError(cls.device)
        wait_until(lambda: cls.value("rollout", "status", cls.rollout)["counts"]["failed"] == 1, what="the failure")
        said = ("disbelief " + EVIL + "\n" + FORGED).encode() + b"\xff\xe2\x80"
        cls.stack.post("/v1/report", int(DEVICE, 16), body=struct.pack("<BQIQB", 1, int(DEVICE, 16), 9, 1, 1) +
                       struct.pack("<BQQQBQB", FAIL_VERIFY, 0, 0, 0, 0, 0, len(said)) + said)

    @classmethod
    def value(cls, *arguments):
        return json.loads(cls.stack.walle(*arguments, "-o", "json", check=False).stdout)

    def clean(self, output, what):
        text = output.decode("utf-8")  # strictly: what is no UTF-8 is shown as text, too
        held = sorted({hex(ord(c)) for c in text if ord(c) in BAD})
        self.assertEqual(held, [], f"{what} shows control characters: {output!r}")
        for line in text.splitlines():
            self.assertFalse(line.startswith(FORGED), f"{what} lets a device write a line of its own: {output!r}")

    def run_clean(self, *command, environment=None):
        run = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                             env={**os.environ, "WALLE_GATEWAY": self.stack.gateway.url, **(environment or {})})
        self.clean(run.stdout, command)
        self.clean(run.stderr, command)
        return run

    def test_every_command_shows_it_as_text(self):
        commands = [("task", "list"), ("task", "get", "evil"), ("rollout", "list"), ("rollout", "status", self.rollout),
                    ("rollout", "explain", self.rollout), ("rollout", "log", self.rollout), ("rollout", "replay", self.rollout),
                    ("rollout", "status", self.rollout, "--watch", "--timeout", "5"), ("device", "list"), ("device", "get", DEVICE),
                    ("device", "why", DEVICE, "--task", "evil"), ("audit", "tail"), ("token", "list"), ("tenant", "list"),
                    ("tunnel", "stat"), ("rollout", "plan", "evil", "--version", "1.0.1")]
        seen = b""
        for command in commands:
            for form in ((), ("-o", "json")):
                run = self.run_clean(program("walle"), *command, *form)
                self.assertIn(run.returncode, (0, 1), (command, run.stderr))
                seen += run.stdout
        self.assertIn(b"disbelief", seen)
        for shown in (b"\\u001b[2J", b"\\u202e\\u200b\\u00ad\\ufeff", b"\\u009b31m"):  # it was there to be seen
            self.assertIn(shown, seen)

    def test_json_stays_json_and_says_the_same(self):
        device = self.value("device", "get", DEVICE)
        self.assertEqual(device["attrs"]["vendor"], BIDI + "sdoirdna")  # the wire has no C0 and C1 in attributes
        self.assertEqual(device["attrs"]["model"], "pixel\u2066")
        log = json.dumps(self.value("rollout", "log", self.rollout), ensure_ascii=False)
        self.assertIn(json.dumps(EVIL + "\n" + FORGED, ensure_ascii=False)[1:-1], log)

    def test_what_refuses_repeats_it_as_text(self):
        for arguments in (("task", "get", CLEAR), ("task" + CLEAR, "get"), ("task", "verify", CLEAR + "\n" + FORGED),
                          ("rollout", "status", BIDI + CLEAR), ("device", "get", "0" + CLEAR), ("task", "push", TITLE),
                          ("task", "list", "--limit", CLEAR), ("task", "list", "-g", "http://" + CLEAR), ("task", "list", "--" + CLEAR)):
            run = self.run_clean(program("walle"), *arguments)
            self.assertNotEqual(run.returncode, 0)

    def test_advice_has_lines_of_its_own(self):
        run = self.run_clean(program("walle"), "task", "list", "-g", "http://127.0.0.1:1")
        self.assertEqual(run.returncode, 3)
        self.assertIn(b"\n  is walle-gateway running there?", run.stderr)
        self.assertNotIn(b"\\u", run.stderr)

    def test_the_device_and_the_gateway_log_text(self):
        self.clean(self.device.stdout, "walle-device")
        self.clean(self.device.stderr, "walle-device")
        self.assertIn(b"\\u001b", self.device.stdout + self.device.stderr)
        with open(self.stack.gateway.log_path, "rb") as file:
            self.clean(file.read(), "walle-gateway")

    def test_the_other_programs_do_too(self):
        for name, *arguments in (("walle-device", "--dir", CLEAR, "--" + CLEAR), ("walle-fleet-sim", "run", CLEAR),
                                 ("walle-fleet-sim", "run", "--manifest", CLEAR, "--blobs", BIDI), ("walle-gateway", "--set", CLEAR),
                                 ("walle-gateway", "--config", TITLE), ("walle-store", "check", CLEAR), ("walle-store", CLEAR),
                                 ("walle-engine", "info", CLEAR), ("walle-engine", CLEAR)):
            run = self.run_clean(program(name), *arguments)
            self.assertNotEqual(run.returncode, 0, (name, arguments))

    def test_the_store_tool_dumps_text(self):
        self.stack.gateway.stop()
        tables = [line.split()[0] for line in self.run_clean(program("walle-store"), "dump", self.stack.gateway.folder)
                  .stdout.decode().splitlines()]
        for table in tables:
            self.run_clean(program("walle-store"), "dump", self.stack.gateway.folder, table)
        self.run_clean(program("walle-store"), "check", self.stack.gateway.folder)

    # The tests of a class run in the order of their names: the store is looked at last, by an own name.
    test_z_the_store_tool_dumps_text = test_the_store_tool_dumps_text
    del test_the_store_tool_dumps_text

    def test_the_console_shows_text(self):
        with open(os.path.join(SOURCE, "gateway/console/index.html"), encoding="utf-8") as file:
            page = file.read()
        for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "srcdoc", "javascript:"):
            self.assertNotIn(way, page)
        # Every text of an answer goes through one function, which shows what has an effect instead of a shape.
        self.assertIn("\\u2028-\\u202e", page)
        for line in page.splitlines():
            if "textContent" in line:
                self.assertRegex(line, r"textContent = (visible\(|\"live, \")")

    def test_a_model_shows_text(self):
        """A model's names come from whoever exported it."""
        name = (CLEAR + BIDI).encode()
        value = lambda n: bytes([0x0a, len(n)]) + n
        shape = b"\x12\x08\x0a\x06\x08\x01\x12\x02\x0a\x00"
        port = lambda n: value(n) + shape
        node = value(name) + bytes([0x12, len(name) + 1]) + name + b"y" + bytes([0x22, 4]) + b"Relu"
        field = lambda tag, content: bytes([tag, len(content)]) + content
        graph = field(0x0a, node) + field(0x12, CLEAR.encode()) + field(0x5a, port(name)) + field(0x62, port(name + b"y"))
        model = b"\x08\x08" + field(0x3a, graph) + field(0x42, b"\x10\x0d")
        path = self.stack.path("evil.onnx")
        with open(path, "wb") as file:
            file.write(model)
        self.run_clean(program("walle-engine"), "info", path)


if __name__ == "__main__":
    unittest.main()
