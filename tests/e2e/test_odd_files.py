"""What stands in a program's own folder in place of a file: a pipe, a device, a folder, a link, nothing of what was written. The program
says which file it is and what it is, and never waits for it; what can be made again is made again."""
import os
import signal
import socket
import stat
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

TIMEOUT_S = 60  # only ends a hang
TRUST = ("--trust", "00" * 32)


class OddFiles(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def put(self, path, kind):
        """Puts something of another kind in the place of `path`."""
        if os.path.lexists(path):
            os.unlink(path)
        if kind == "pipe":
            os.mkfifo(path, 0o600)
        elif kind == "folder":
            os.mkdir(path)
        elif kind == "link":
            os.symlink(self.stack.path("elsewhere"), path)
        else:
            with open(path, "wb") as file:
                file.write(kind)
        return path

    def take_away(self, path):
        (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)

    # ---- Gateway

    def gateway_ends(self, *arguments):
        """A start that must fail: its error text."""
        run = subprocess.run([program("walle-gateway"), "--dir", self.stack.path("gateway"), "--h2c", "127.0.0.1:0", "--tls", "127.0.0.1:0",
                              *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        return run.stderr

    def first_start(self):
        self.stack.start_gateway()
        self.assertEqual(self.stack.gateway.stop(), 0)

    def test_files_of_a_gateway(self):
        self.first_start()
        for name in ("cert.pem", "key.pem", "ticket.key", "keys/director.key", "admin.token"):
            path = self.stack.path("gateway", *name.split("/"))
            with open(path, "rb") as file:
                kept = file.read()
            for kind, text in (("pipe", "a named pipe"), ("folder", "a folder")):
                with self.subTest(name=name, kind=kind):
                    self.put(path, kind)
                    said = self.gateway_ends()
                    self.assertIn(f"{path}: {text}, not a regular file", said)
                    self.take_away(path)
            self.put(path, kept)
            os.chmod(path, 0o600)
        self.assertIn("a device, not a regular file", self.gateway_ends("--set", "tls.client_ca=/dev/null"))
        self.first_start()

    def test_links_in_a_gateways_folder(self):
        """Nothing is made, emptied or replaced where a link leads, and a store that is away is not one that never was."""
        self.first_start()
        for name in ("gateway.lock", "store.mdb-lock", "tunnel/lock"):
            with self.subTest(name=name):
                path = self.stack.path("gateway", *name.split("/"))
                os.unlink(path)
                self.put(path, "link")
                self.assertIn(f"{name}: a symbolic link, not a regular file", self.gateway_ends())
                self.assertFalse(os.path.exists(self.stack.path("elsewhere")))
                self.take_away(path)
        kept = self.stack.path("elsewhere")
        os.mkdir(kept)
        self.put(os.path.join(kept, "letter"), b"kept")
        path = self.stack.path("gateway", "tmp")
        os.rename(path, path + ".before")
        self.put(path, "link")
        self.assertIn("gateway/tmp: a symbolic link, not a folder", self.gateway_ends())
        self.assertEqual(os.listdir(kept), ["letter"])
        self.take_away(path)
        os.rename(path + ".before", path)
        path = self.stack.path("gateway", "blobs")
        os.rename(path, path + ".before")
        self.put(path, "pipe")
        self.assertIn("gateway/blobs: Not a directory", self.gateway_ends())
        self.take_away(path)
        os.rename(path + ".before", path)
        path, away = self.stack.path("gateway", "store.mdb"), self.stack.path("away.mdb")
        os.rename(path, away)
        os.symlink(self.stack.path("no.mdb"), path)
        self.assertIn("gateway/store.mdb: a symbolic link that leads nowhere", self.gateway_ends())
        os.unlink(path)
        os.symlink(away, path)
        self.first_start()
        self.assertTrue(os.path.islink(path))

    def test_a_checkpoint_that_is_a_pipe(self):
        self.first_start()
        for name in ("checkpoint", "checkpoint.old", "checkpoint.new"):
            self.put(self.stack.path("gateway", "tunnel", name), "pipe")
        self.stack.start_gateway()
        self.assertIn("tunnel/checkpoint: a named pipe, not a regular file", self.stack.gateway.log_text())
        self.assertEqual(self.stack.gateway.stop(), 0)

    def test_keys_that_are_damaged(self):
        self.first_start()
        for role in ("timestamp", "snapshot", "director"):
            path = self.stack.path("gateway", "keys", role + ".key")
            with open(path, "rb") as file:
                kept = file.read()
            for damaged, text in ((bytes(32), "zeros"), (b"", "not 32 bytes"), (kept[:16], "not 32 bytes")):
                with self.subTest(role=role, text=text):
                    self.put(path, damaged)
                    os.chmod(path, 0o600)
                    said = self.gateway_ends()
                    self.assertIn(f"{path} is damaged ({text}): restore it from a copy, or remove it", said)
            self.put(path, kept)
            os.chmod(path, 0o600)
        self.first_start()

    def test_keys_that_the_root_does_not_name(self):
        self.stack.start_gateway()
        for name in ("a", "ci"):
            self.stack.walle("key", "new", "--out", self.stack.path(name + ".key"))
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("a.key"), "--release",
                         self.stack.path("ci.key.pub"))
        self.stack.walle("root", "push", self.stack.path("root.1"))
        self.assertEqual(self.stack.gateway.stop(), 0)
        self.assertNotIn("does not name", self.stack.gateway.log_text())
        path = self.stack.path("gateway", "keys", "snapshot.key")
        os.unlink(path)
        self.stack.start_gateway()
        log = self.stack.gateway.log_text()
        self.assertRegex(log, r"ERROR.*root 1 does not name this gateway's snapshot key \(" + path)
        self.assertNotIn("timestamp key", log)

    def test_where_tokens_are_is_said_at_each_start(self):
        # The first start makes the tokens, in a folder that is there, and fails: it cannot listen.
        os.mkdir(self.stack.path("gateway"), 0o700)
        self.gateway_ends("--set", "listen.h2c=192.0.2.1:1")
        self.first_start()
        log = self.stack.gateway.log_text()
        for name in ("enroll.token", "admin.token"):
            path = self.stack.path("gateway", name)
            self.assertIn("token is kept in " + path, log)
            with open(path, encoding="ascii") as file:
                self.assertNotIn(file.read().strip(), log)

    # ---- Arguments

    def refused(self, tool, *arguments, path):
        """With the file at `path` replaced by something of each kind: the program says which and what, and ends."""
        kept = None
        if os.path.lexists(path):
            with open(path, "rb") as file:
                kept = file.read()
        for kind, text in (("pipe", "a named pipe"), ("folder", "a folder"), ("device", "a device")):
            with self.subTest(command=" ".join(arguments[:2]), file=os.path.basename(path), kind=kind):
                if kind == "device":
                    if os.path.lexists(path):
                        os.unlink(path)
                    os.symlink("/dev/full", path)
                else:
                    self.put(path, kind)
                run = subprocess.run([program(tool), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                                     stdin=subprocess.DEVNULL)
                self.assertNotEqual(run.returncode, 0, run.stdout)
                self.assertIn(f"{path}: ", run.stderr)
                self.assertRegex(run.stderr, f"{text}, not a regular file|symbolic link")
                self.take_away(path)
        if kept is not None:
            self.put(path, kept)

    def test_files_that_walle_is_given(self):
        self.stack.start_gateway()
        gateway = ("--gateway", self.stack.gateway.url, "--ca", self.stack.path("gateway", "cert.pem"))
        source, built = self.stack.path("source"), self.stack.path("built")
        os.mkdir(source)
        self.put(os.path.join(source, "task.json"), b'{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}')
        self.put(os.path.join(source, "task.py"), b"import walle\nwalle.result(7)\n")
        self.stack.walle("task", "build", source, "--out", built)
        for name in ("task.json", "task.py"):
            path = os.path.join(source, name)
            self.refused("walle", "task", "build", source, "--out", built, path=path)
        manifest = os.path.join(built, "manifest")
        self.refused("walle", "task", "verify", built, path=manifest)
        self.refused("walle", "task", "run", built, path=manifest)
        self.refused("walle", "task", "push", built, *gateway, path=manifest)
        key = self.stack.path("some.key")
        self.refused("walle", "root", "init", "--out", self.stack.path("root.1"), "--key", key, "--release", key + ".pub", *gateway,
                     path=key)
        self.refused("walle", "root", "show", self.stack.path("root.2"), path=self.stack.path("root.2"))
        self.refused("walle", "rollout", "plan", "--stages", self.stack.path("stages.json"), path=self.stack.path("stages.json"))
        self.refused("walle", "rollout", "submit", self.stack.path("draft.json"), *gateway, path=self.stack.path("draft.json"))

    def test_files_that_other_programs_are_given(self):
        path = self.stack.path("gateway.conf")
        self.refused("walle-gateway", "--config", path, "--dir", self.stack.path("gateway"), path=path)
        path = self.stack.path("root.1")
        self.refused("walle-fleet-sim", "run", "--gateway", "https://127.0.0.1:1", "--root", path, path=path)
        self.refused("walle-device", "--gateway", "https://127.0.0.1:1", "--dir", self.stack.path("device"), "--root", path, path=path)
        self.refused("walle-device", "--gateway", "https://127.0.0.1:1", "--dir", self.stack.path("device"), "--trust", path, path=path)

    def test_certificates_that_programs_are_given(self):
        path, https = self.stack.path("some.pem"), "https://127.0.0.1:1"
        self.refused("walle", "task", "list", "--gateway", https, "--ca", path, path=path)
        device = ("--gateway", https, "--dir", self.stack.path("device"), *TRUST, "--id", "00000000000000ab", "--once")
        self.refused("walle-device", *device, "--ca", path, path=path)
        key = self.stack.path("cert.key")
        self.put(key, b"")
        os.chmod(key, 0o600)
        self.refused("walle-device", *device, "--insecure", "--cert", path, "--cert-key", key, path=path)

    def test_evidence_is_a_new_file(self):
        path, key = self.stack.path("evidence.json"), self.stack.path("release.key")
        self.stack.walle("key", "new", "--out", key)
        for kind in ("pipe", "folder", "link", b"kept"):
            with self.subTest(kind=kind):
                if kind == "link":
                    self.put(self.stack.path("elsewhere"), b"kept")
                self.put(path, kind)
                run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.stack.path("none"), "--devices", "10",
                                      "--evidence", path, "--evidence-key", key], capture_output=True, text=True, timeout=TIMEOUT_S,
                                     stdin=subprocess.DEVNULL)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertIn(f"--evidence: {path} is there already", run.stderr)
                self.take_away(path)

    def test_records_without_an_end(self):
        """Files with a hole of a tebibyte where lines of records are expected."""
        rows, hole, folder = self.stack.path("tunnel.csv"), self.stack.path("hole.jsonl"), self.stack.path("holes")
        self.put(rows, b"device,class,durable,queued,lost\n")
        self.put(hole, b"")
        os.truncate(hole, 1 << 40)
        long = self.put(self.stack.path("long.jsonl"), b"x" * (2 << 20))
        for path, text in ((hole, "line 1: no text"), (long, "line 1: longer than a record is")):
            run = subprocess.run([program("walle-fleet-sim"), "law", rows, path], capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f"{path}, {text}", run.stdout + run.stderr)
        os.mkdir(folder)
        os.rename(hole, os.path.join(folder, "hole.jsonl"))
        run = subprocess.run([program("walle"), "tunnel", "train", "--from", folder, "--out", self.stack.path("dict")], capture_output=True,
                             text=True, timeout=TIMEOUT_S)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("hole.jsonl: no text", run.stderr)

    # ---- Results

    def left_alone(self, tool, *arguments, path):
        """With something else in the place of the result at `path`: the program says what it is, and leaves it and where it leads."""
        kept = self.put(self.stack.path("elsewhere"), b"kept")
        for kind, text in (("pipe", "a named pipe that nobody reads"), ("folder", "a folder, not a regular file"),
                           ("link", "a symbolic link, not a regular file")):
            with self.subTest(command=" ".join(arguments[:2]), file=os.path.basename(path), kind=kind):
                self.put(path, kind)
                before = os.lstat(path)
                run = subprocess.run([program(tool), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                                     stdin=subprocess.DEVNULL)
                self.assertNotEqual(run.returncode, 0, run.stdout)
                self.assertRegex(run.stdout + run.stderr, f"{path}: ({text}|a named pipe, not a regular file)")
                after = os.lstat(path)
                self.assertEqual((after.st_ino, after.st_mode), (before.st_ino, before.st_mode))
                with open(kept, "rb") as file:
                    self.assertEqual(file.read(), b"kept")
                self.take_away(path)

    def test_results_of_walle(self):
        self.stack.start_gateway()
        gateway = ("--gateway", self.stack.gateway.url)
        key = self.stack.path("some.key")
        self.stack.walle("key", "new", "--out", key)
        os.environ["WALLE_TOKEN"] = self.stack.admin_token
        self.addCleanup(os.environ.pop, "WALLE_TOKEN")
        root = self.stack.path("root.1")
        init = ("root", "init", "--key", key, "--release", key + ".pub", *gateway, "--out")
        self.left_alone("walle", *init, root, path=root)
        self.stack.walle(*init, root)
        with open(root, "rb") as file:
            self.assertTrue(file.read().startswith(b"WLS1"))
        # Streams are what their names say: nothing takes their place.
        run = subprocess.run([program("walle"), *init, "/dev/stdout"], capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        self.assertEqual((run.returncode, run.stdout[:4]), (0, b"WLS1"), run.stderr)
        self.stack.walle(*init, "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.lstat("/dev/null").st_mode))
        self.assertIn("/dev/full: No space left on device", self.stack.walle(*init, "/dev/full", check=False).stderr)
        self.assertTrue(stat.S_ISCHR(os.lstat("/dev/full").st_mode))
        public = self.stack.path("other.key.pub")
        self.left_alone("walle", "key", "new", "--out", public.removesuffix(".pub"), path=public)
        self.assertFalse(os.path.exists(public.removesuffix(".pub")))
        rows = self.stack.path("rows.csv")
        self.left_alone("walle", "tunnel", "export", "--out", rows, *gateway, path=rows)
        self.left_alone("walle", "tunnel", "export", "--out", rows, *gateway, path=rows + ".next")
        run = self.stack.walle("tunnel", "export", "--out", "-", *gateway)  # standard output: no file of that name
        self.assertEqual((run.stdout, run.stderr, os.path.exists("-.next")), ("", "", False))
        run = self.stack.walle("tunnel", "export", "--out", "/dev/stdout", *gateway, check=False)
        self.assertIn("/dev/stdout: a symbolic link, not a regular file; --out - is standard output", run.stderr)
        source, built = self.stack.path("source"), self.stack.path("built")
        os.mkdir(source)
        self.put(os.path.join(source, "task.json"), b'{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}')
        self.put(os.path.join(source, "task.py"), b"import walle\nwalle.result(7)\n")
        for name in ("manifest", "build.json"):
            os.makedirs(built, exist_ok=True)
            self.left_alone("walle", "task", "build", source, "--out", built, path=os.path.join(built, name))
        self.stack.walle("task", "build", source, "--out", built)
        self.stack.walle("task", "push", built)
        draft = self.stack.path("draft.json")
        start = ("rollout", "start", "shop/score", "--build", built, "--key", key, "--accept-empty", "--guard", "0", *gateway, "--draft")
        self.left_alone("walle", *start, draft, path=draft)
        self.stack.walle(*start, draft)
        with open(draft, "rb") as file:
            self.assertIn(b"release", file.read())
        self.assertEqual([name for name in os.listdir(self.stack.folder) if name.endswith(".tmp")], [])

    def test_results_of_a_fleet(self):
        out, source, built = self.stack.path("fleet"), self.stack.path("source"), self.stack.path("built")
        os.mkdir(source)
        self.put(os.path.join(source, "task.json"), b'{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}')
        self.put(os.path.join(source, "task.py"), b"import walle\nwalle.result(7)\n")
        self.stack.walle("task", "build", source, "--out", built)
        os.mkdir(out)
        for name in ("run.json", "timeline.csv", "report.html"):
            self.left_alone("walle-fleet-sim", "simulate", "--task", built, "--devices", "10", "--no-live", "--out", out,
                            path=os.path.join(out, name))

    def test_printed_text_is_whole(self):
        source, built = self.stack.path("source"), self.stack.path("built")
        os.mkdir(source)
        self.put(os.path.join(source, "task.json"), b'{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}')
        self.put(os.path.join(source, "task.py"), b"import walle\nprint('before\\0behind')\nwalle.result(7)\n")
        self.stack.walle("task", "build", source, "--out", built)
        self.assertIn("behind", self.stack.walle("task", "run", built).stdout)

    def test_attributes_that_are_none(self):
        for text in ("os=" + "x" * 65, "Os=android", "a b=1", "os=a\nb", "n" * 33 + "=1"):
            with self.subTest(text=text):
                run = subprocess.run([program("walle-device"), "--gateway", "http://127.0.0.1:1", "--dir", self.stack.path("device"), *TRUST,
                                      "--id", "00000000000000ab", "--once", "--attr", "region=eu", "--attr", text], capture_output=True, text=True,
                                     timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn("--attr: '" + text.replace("\n", "\\u000a")[:20], run.stderr.replace("\n", "\\u000a"))

    # ---- Device

    def test_events_come_from_what_has_an_end(self):
        self.enrolled()
        for path, text in (("/dev/zero", "a device, not a regular file"), (self.stack.path("device"), "a folder, not a regular file"),
                           ("/proc/self/mem", "made up by the kernel, not a file of events"),
                           ("/proc/self/status", "made up by the kernel, not a file of events")):
            with self.subTest(path=path):
                run = self.device("--events", path)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn(f"{path}: {text}", run.stderr)
                self.assertNotIn(": line ", run.stderr)

    def test_a_file_of_no_events_does_not_fill_the_log(self):
        self.enrolled()
        bad, good = 20000, b'{"kind":"click","page":"item","item":"i-1"}\n'
        path = self.put(self.stack.path("events"), b"nonsense\n" * bad + good)
        run = self.events(path)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        said = [line for line in run.stderr.splitlines() if ": line " in line]
        self.assertGreaterEqual(len(said), 10)  # the first are told one by one
        self.assertLess(len(said), 100)
        self.assertIn(f"line 10: ", said[9])
        self.assertIn(f"{bad + 1} lines, 1 recorded, {bad} bad", run.stderr)

    def device(self, *arguments):
        return subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), *TRUST,
                               "--once", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)

    def enrolled(self):
        self.stack.start_gateway()
        run = self.device("--enroll-token", self.stack.enroll_token)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.stack.path("device", "credential")

    def test_a_root_of_another_gateway(self):
        """A device says which root it is born with, and is not silently given another."""
        self.stack.start_gateway()
        for name in ("mine", "theirs"):
            key = self.stack.path(name + ".key")
            self.stack.walle("key", "new", "--out", key)
            self.stack.walle("root", "init", "--key", key, "--release", key + ".pub", "--out", self.stack.path(name))

        def born(root):
            return subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--root",
                                   self.stack.path(root), "--id", "00000000000000ab", "--once"], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        first = born("mine")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stderr, r"born with root 1 \([0-9a-f]{16}\)")
        other = born("theirs")
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertRegex(other.stderr, r"--root is another root 1 \([0-9a-f]{16}\) than the one this device was born with \([0-9a-f]{16}\)")
        again = born("mine")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("born with", again.stderr)
        path = self.stack.path("device", "root.born")
        with open(path, "rb") as file:
            kept = file.read()
        for damage in (b"", kept[:20], kept[:10] + bytes([kept[10] ^ 1]) + kept[11:], kept[:-2], os.urandom(5000)):
            with self.subTest(damage=damage[:80]):
                with open(path, "wb") as file:
                    file.write(damage)
                run = born("mine")  # it is no other root, and written anew
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("born with root 1", run.stderr)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), kept)
        os.remove(path)
        os.symlink(self.stack.path("theirs"), path)
        run = born("mine")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("root.born: a symbolic link", run.stderr)

    def test_a_credential_of_another_kind(self):
        path = self.enrolled()
        for kind, text in (("pipe", "a named pipe"), ("folder", "a folder"), ("link", "a symbolic link")):
            with self.subTest(kind=kind):
                self.put(path, kind)
                run = self.device("--enroll-token", self.stack.enroll_token)
                self.assertEqual(run.returncode, 1)
                self.assertIn(f"{path}: {text}, not a regular file", run.stderr)
                self.take_away(path)

    def test_a_damaged_credential(self):
        path = self.enrolled()
        with open(path, "rb") as file:
            good = file.read()
        for damaged, text in ((b"", "it is empty"), (good[:len(good) // 2], "it holds no credential"), (bytes(len(good)), "it holds no")):
            with self.subTest(text=text):
                self.put(path, damaged)
                run = self.device()
                self.assertEqual(run.returncode, 1)
                self.assertIn(text, run.stderr)
                self.assertIn("--enroll-token FILE", run.stderr)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), damaged, "without a token nothing is changed")
                run = self.device("--enroll-token", self.stack.enroll_token)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("credential.damaged", run.stderr)
                with open(path + ".damaged", "rb") as file:
                    self.assertEqual(file.read(), damaged)
                self.assertEqual(self.device().returncode, 0, "and it is enrolled from then on")

    def test_the_lock_of_a_device_store(self):
        self.enrolled()
        path = self.stack.path("device", "pipeline", "lock.mdb")
        for kind, text in (("link", "a symbolic link"), ("folder", "a folder"), ("pipe", "a named pipe")):
            with self.subTest(kind=kind):
                self.put(path, kind)
                run = self.device()
                self.assertEqual(run.returncode, 1)
                self.assertIn(f"{path}: {text}, not a regular file", run.stderr)
                self.assertFalse(os.path.exists(self.stack.path("elsewhere")), "nothing is written where a link leads")
                self.take_away(path)
        self.assertEqual(self.device().returncode, 0)

    def test_folders_of_a_device(self):
        """Something else in the place of a folder with what the device knows: named, not followed, and left as it is."""
        self.enrolled()
        for name in ("state", "pipeline"):
            path = self.stack.path("device", name)
            os.rename(path, path + ".kept")
            for kind, text in (("pipe", "a named pipe"), ("link", "a symbolic link"), ("socket", "a socket"), (b"x", "a file")):
                with self.subTest(name=name, kind=kind):
                    if kind == "link":
                        os.symlink(path + ".kept", path)
                    elif kind == "socket":
                        with socket.socket(socket.AF_UNIX) as made:
                            made.bind(path)
                    else:
                        self.put(path, kind)
                    run = self.device()
                    self.assertEqual(run.returncode, 1, run.stdout)
                    self.assertRegex(run.stderr, rf"device/(pipeline: cannot open the store: )?{name}: {text}, not a folder\n")
                    self.assertNotIn("--isolation", run.stderr)
                    self.take_away(path)
            os.rename(path + ".kept", path)
        self.assertEqual(self.device().returncode, 0)

    def test_events_and_features_of_another_kind(self):
        """The store of a device's pipeline: set aside and made anew in its place, not where a link leads."""
        self.enrolled()
        path = self.stack.path("device", "pipeline", "data.mdb")
        for kind, text in (("link", "a symbolic link"), ("pipe", "a named pipe"), ("folder", "a folder")):
            with self.subTest(kind=kind):
                self.put(path, kind)
                run = self.device()
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertRegex(run.stderr, rf"stored events and features: damaged \(.*data\.mdb: {text}, not a regular file\); set aside")
                self.assertFalse(os.path.exists(self.stack.path("elsewhere")))
                self.assertTrue(os.path.isfile(path) and not os.path.islink(path))

    def events(self, path, *more, stdin=subprocess.DEVNULL):
        return subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), *TRUST,
                               "--once", "--events", path, *more], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=stdin)

    def test_a_pipe_of_others_is_left_as_it_was(self):
        """Standard input is shared with whoever gave it: nothing is set for them."""
        self.enrolled()
        read_end, write_end = os.pipe()
        with os.fdopen(read_end) as pipe:
            os.write(write_end, b'{"kind":"click","page":"item","item":"i-1"}\n')
            os.close(write_end)
            run = self.events("-", stdin=pipe)
            self.assertIn("1 lines, 1 recorded", run.stderr)
            self.assertTrue(os.get_blocking(read_end))

    def test_events_without_an_end(self):
        """A line has a bound, and what goes on for ever without an end of line is no file of events."""
        self.enrolled()
        path = self.stack.path("events.jsonl")
        good = b'{"kind":"click","page":"item","item":"i-1"}\n'
        self.put(path, good + b"x" * 20000 + b"\n" + good)
        run = self.events(path)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("line 2: longer than 16384 bytes; skipped", run.stderr)
        self.assertEqual(run.stderr.count(": line "), 1, run.stderr)
        self.put(path, good)
        os.truncate(path, 1 << 40)
        run = self.events(path)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("line 2: longer than 16384 bytes; skipped", run.stderr)
        self.assertIn(f"line 2: no end within 1048576 bytes: {path} holds no lines of events", run.stderr)

    def test_events_of_which_none_is_good(self):
        self.enrolled()
        path = self.stack.path("events.jsonl")
        self.put(path, b"nonsense\n" * 3)
        run = self.events(path)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(f"{path}: none of its 3 lines is an event, nothing was recorded", run.stderr)
        self.put(path, b"nonsense\n" + b'{"kind":"click","page":"item","item":"i-1"}\n')
        self.assertEqual(self.events(path).returncode, 0)
        self.put(path, b"")  # no event is no fault
        self.assertEqual(self.events(path).returncode, 0)

    def test_events_of_a_pipe(self):
        """Waited for until somebody writes, and read until all who did have closed it."""
        self.enrolled()
        path = self.put(self.stack.path("events"), "pipe")
        with open(self.stack.path("device.log"), "w+", encoding="utf-8") as log:
            child = self.stack.spawn("walle-device", "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), *TRUST, "--once",
                                     "--events", path, stderr=log)

            def said():
                with open(log.name, encoding="utf-8") as file:
                    return file.read()

            wait_until(lambda: f"{path}: waiting for somebody to write to it" in said(), what="the wait")
            with open(path, "wb") as file:
                file.write(b'{"kind":"click","page":"item","item":"i-1"}\nnonsense\n')
            self.assertEqual(child.wait(TIMEOUT_S), 0)
            self.assertIn("line 2: ", said())
            self.assertEqual(said().count("waiting for"), 1)

    def test_certificates_without_an_end(self):
        """What the kernel makes up has no size and may be read for ever; what holds more than certificates do is not read."""
        large = self.put(self.stack.path("large.pem"), b"")
        os.truncate(large, 1 << 40)
        https, device = "https://127.0.0.1:1", ("--dir", self.stack.path("device"), *TRUST, "--id", "00000000000000ab", "--once")
        self.first_start()
        for path, text in (("/proc/kmsg", "it is empty"), (large, "more than 4194304 bytes")):
            for command in (("walle", "task", "list", "--gateway", https, "--ca", path), ("walle-device", "--gateway", https, *device, "--ca", path)):
                run = subprocess.run([program(command[0]), *command[1:]], capture_output=True, text=True, timeout=TIMEOUT_S,
                                     stdin=subprocess.DEVNULL)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(f"{path}: {text}", run.stderr)
            self.assertIn(f"{path}: {text}", self.gateway_ends("--set", "tls.client_ca=" + path))

    def test_the_record_that_is_a_pipe(self):
        """It is damage like any other: said, set aside, and the device goes on."""
        self.enrolled()
        for name in ("even", "odd", "new"):
            path = self.stack.path("device", "state", name)
            with self.subTest(name=name):
                self.put(path, "pipe")
                run = self.device()
                self.assertEqual(run.returncode, 0, run.stderr)

    def test_content_that_is_a_pipe(self):
        """A blob of another kind is content that is not there: brought again, not waited for."""
        self.stack.start_gateway()
        self.stack.release("shop/score", 1, "import walle\nwalle.result(7)\n",
                           [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}])
        trust = ("--trust", self.stack.path("release.key.pub"))
        command = [program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), *trust, "--once",
                   "--enroll-token", self.stack.enroll_token]
        self.assertIn(" ran ", subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout)
        folder = self.stack.path("device", "blobs")
        for name in os.listdir(folder):
            self.put(os.path.join(folder, name), "pipe")
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


    def test_content_that_is_a_folder(self):
        """Set aside and said, and brought again; a folder of content that is a link is not followed."""
        self.stack.start_gateway()
        self.stack.release("shop/score", 1, "import walle\nwalle.result(7)\n",
                           [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}])
        command = [program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--trust",
                   self.stack.path("release.key.pub"), "--once", "--enroll-token", self.stack.enroll_token]

        def once():
            run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run

        self.assertIn(" ran ", once().stdout)
        blobs = self.stack.path("device", "blobs")
        names = os.listdir(blobs)
        for inside in (False, True):
            for name in names:
                path = self.put(os.path.join(blobs, name), "folder")
                if inside:
                    self.put(os.path.join(path, "kept"), b"something")
            with self.subTest(inside=inside):
                run = once()
                self.assertIn("set aside as" if inside else "removed", run.stderr)
                once()
                for name in names:
                    self.assertTrue(os.path.isfile(os.path.join(blobs, name)), name)
        self.assertTrue(os.path.isfile(os.path.join(blobs, names[0] + ".aside", "kept")))
        elsewhere = self.stack.path("elsewhere")
        os.mkdir(elsewhere)
        os.rename(blobs, blobs + ".before")
        os.symlink(elsewhere, blobs)
        run = once()
        self.assertIn("blobs: not what belongs there; set aside as blobs.aside", run.stderr)
        self.assertEqual(os.listdir(elsewhere), [], "nothing is written where the link leads")
        self.assertTrue(os.path.islink(blobs + ".aside"))
        once()
        self.assertTrue(all(os.path.isfile(os.path.join(blobs, name)) for name in names))


if __name__ == "__main__":
    unittest.main()
