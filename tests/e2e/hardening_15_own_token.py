"""Point 15: from the first start on the API wants a token, from this machine too. The gateway makes one, `walle` of its user finds
it by itself, and it goes to nobody else: not to who listens where a gateway died, not to another machine, not by a path that
others could have laid."""
import glob
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import unittest

from raw_h2 import Connection, request
from walle_stack import SOURCE, Stack, program, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile import local_process  # noqa: E402
from hostile.target import Target  # noqa: E402

NOBODY = 65534


def notes():
    return os.path.join(os.environ["XDG_STATE_HOME"], "walle", "gateways")


class OwnToken(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.addCleanup(os.environ.__setitem__, "XDG_STATE_HOME", os.environ["XDG_STATE_HOME"])
        os.environ["XDG_STATE_HOME"] = self.stack.path("state")

    def list(self, url=None, *more, code=0):
        run = self.stack.walle("task", "list", *(("--gateway", url) if url else ()), *more, check=False)
        self.assertEqual(run.returncode, code, f"{url} {more}: {run.stdout}{run.stderr}")
        return run.stderr

    # ---- What the first start makes

    def test_the_first_start_makes_a_token(self):
        gateway = self.stack.start_gateway()
        path = self.stack.path("gateway", "admin.token")
        about = os.lstat(path)
        self.assertTrue(stat.S_ISREG(about.st_mode))
        self.assertEqual((stat.S_IMODE(about.st_mode), about.st_uid, about.st_nlink), (0o600, os.geteuid(), 1))
        self.assertRegex(self.stack.admin_token, r"^wat_[A-Za-z0-9_-]{43}$")  # 256 bits
        self.assertEqual(glob.glob(self.stack.path("gateway", "*.new")), [])
        first = self.stack.admin_token
        self.assertNotIn(first, gateway.log_text())
        self.list()
        gateway.stop()
        self.stack.start_gateway()
        self.assertEqual(self.stack.admin_token, first, "a start writes over nothing")
        self.list()
        # Who removes it gets another one, and the old one is worth nothing.
        self.stack.gateway.stop()
        os.unlink(path)
        self.stack.start_gateway()
        self.assertNotEqual(self.stack.admin_token, first)
        self.list()
        self.assertIn("401", self.list(None, "--token", first, code=4))

    def test_every_route_wants_a_token(self):
        gateway = self.stack.start_gateway()
        with open(os.path.join(SOURCE, "docs", "openapi.json"), encoding="utf-8") as file:
            routes = [(path, method) for path, methods in json.load(file)["paths"].items() for method in methods
                      if method in ("get", "put", "post", "delete", "patch")]
        asked = 0
        with Connection(gateway.ports["h2c"]) as clear, Connection(gateway.ports["tls"], tls=True) as tls:
            for path, method in routes:
                path = "/api/v1" + path.replace("{", "").replace("}", "")
                for connection in (clear, tls):
                    status = connection.reply(connection.headers(request(path, method.upper(), ("content-type", "application/json"))))[0]
                    self.assertEqual(status, 401, f"{method} {path}")
                    asked += 1
        self.assertGreater(asked, 80)

    def test_a_local_process_gets_nothing(self):
        gateway = self.stack.start_gateway()
        for target in (Target(h2c=gateway.ports["h2c"]), Target(tls=gateway.ports["tls"])):
            counts = local_process.attack(target, threading.Event(), rounds=1)
            tries = len(local_process.ROUTES) * len(local_process.DISGUISES)
            self.assertEqual(counts, {"tries": tries, "refused": tries, "passed": 0, "closed": 0})
        for path in ("/admin", "/debug", "/debug/pprof", "/config", "/console", "/api", "/api/", "/api/v2/tasks", "/.well-known/walle"):
            with Connection(gateway.ports["h2c"]) as connection:
                self.assertIn(connection.get(path)[0], (401, 404), path)
        self.assertEqual(json.loads(self.stack.walle("task", "list", "-o", "json").stdout)["items"], [])
        self.assertEqual(len(json.loads(self.stack.walle("token", "list", "-o", "json").stdout)["items"]), 1)  # the first enrolment token

    def test_a_race_for_its_place(self):
        """Somebody puts links where the token and its temporary file will be while the gateway starts, again and again."""
        folder, theirs = self.stack.path("gateway"), self.stack.secret("theirs", "untouched")
        names = [os.path.join(folder, name) for name in ("admin.token", "admin.token.new")]
        stop = threading.Event()

        def lay():
            while not stop.is_set():
                for name in names:
                    try:
                        os.symlink(theirs, name)
                    except OSError:
                        pass
                    try:
                        if os.path.islink(name):
                            os.unlink(name)
                    except OSError:
                        pass
        os.mkdir(folder, 0o700)
        racer = threading.Thread(target=lay)
        racer.start()
        try:
            for _ in range(12):
                self.started()  # or refuses: both are right
        finally:
            stop.set()
            racer.join()
        with open(theirs, encoding="ascii") as file:
            self.assertEqual(file.read(), "untouched\n")
        self.assertEqual(self.started(), "")
        self.assertEqual(stat.S_IMODE(os.lstat(names[0]).st_mode), 0o600)
        self.assertFalse(os.path.islink(names[0]))

    def test_it_is_not_made_when_there_is_another_administrator(self):
        self.stack.start_gateway()
        secret = self.stack.walle("token", "new", "--name", "ana", "--role", "admin").stdout.strip()
        self.stack.gateway.stop()
        os.unlink(self.stack.path("gateway", "admin.token"))
        self.stack.start_gateway()
        self.assertEqual(self.stack.admin_token, "")
        self.list(None, "--token", secret)
        self.assertIn("401", self.list(code=4))
        self.stack.gateway.stop()
        # A configured one is the operator's own business: nothing is made, and nothing noted.
        other = Stack()
        self.addCleanup(other.__exit__, None, None, None)
        other.start_gateway("--set", "admin.token_file=" + self.stack.secret("token", "0123456789abcdef" * 2))
        self.assertEqual(other.admin_token, "")
        self.assertEqual(os.listdir(notes()), [])

    def started(self):
        """What a gateway says that does not start; empty: it does."""
        gateway = subprocess.Popen([program("walle-gateway"), "--dir", self.stack.path("gateway"), "--h2c", "127.0.0.1:0", "--tls",
                                    "none"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.stack.children.append(gateway)
        served = gateway.stdout.readline()
        if served:
            gateway.kill()
        _, said = gateway.communicate(timeout=60)
        return "" if served else said

    def test_what_others_laid_in_its_place(self):
        folder, path = self.stack.path("gateway"), self.stack.path("gateway", "admin.token")
        theirs = self.stack.secret("theirs", "wat_" + "A1b2C3d4" * 5 + "xyz")

        def put(text, mode):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, mode)
        laid = [(lambda: os.symlink(theirs, path), "symbolic link"), (lambda: os.symlink(self.stack.path("nothing"), path), "symbolic link"),
                (lambda: os.mkfifo(path, 0o600), "not a regular file"), (lambda: os.mkdir(path), "not a regular file"),
                (lambda: put("wat_" + "A1b2C3d4" * 5 + "xyz", 0o644), "others may read it: chmod 600"),
                (lambda: put("wat_" + "A1b2C3d4" * 5 + "xyz", 0o620), "others may read it: chmod 600"),
                (lambda: put("secret", 0o600), "guessable"), (lambda: put("", 0o600), "empty")]
        if os.geteuid() == 0:
            laid.append((lambda: (put("wat_" + "A1b2C3d4" * 5 + "xyz", 0o600), os.chown(path, NOBODY, NOBODY)), "another user"))
        for lay, says in laid:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            lay()
            said = self.started()
            self.assertIn("admin.token", said)
            self.assertIn(says, said)
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        self.assertFalse(os.path.exists(self.stack.path("nothing")))
        for mode in (0o777, 0o770, 0o1777):
            os.chmod(folder, mode)
            self.assertIn("others may write there: chmod go-w", self.started())
        os.chmod(folder, 0o755)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
            self.assertIn("belongs to another user", self.started())
            os.chown(folder, 0, 0)
        self.assertEqual(self.started(), "")

    # ---- Who finds it

    def test_walle_of_this_user_finds_it(self):
        gateway = self.stack.start_gateway()
        self.assertEqual(sorted(os.listdir(notes())), sorted(f"127.0.0.1:{port}" for port in gateway.ports.values()))
        for name in os.listdir(notes()):
            path = os.path.join(notes(), name)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn(os.path.realpath(self.stack.path("gateway", "admin.token")), text)
            self.assertNotIn(self.stack.admin_token, text)
        self.assertEqual(stat.S_IMODE(os.stat(notes()).st_mode), 0o700)
        port = gateway.ports["h2c"]
        for url in (gateway.url, gateway.url + "/", f"http://localhost:{port}", f"http://127.1:{port}"):
            self.list(url)
        self.list(gateway.tls_url, "--insecure")
        self.list(gateway.tls_url, "--ca", self.stack.path("gateway", "cert.pem"))
        # An empty one given means none.
        self.assertIn("401", self.list(None, "--token", "", code=4))
        for url in (f"http://127.0.0.2:{port}", f"http://u@127.0.0.1:{port}", f"http://[::1]:{port}"):
            self.assertNotEqual(self.stack.walle("task", "list", "--gateway", url, check=False).returncode, 0)
        gateway.stop()
        self.assertEqual(os.listdir(notes()), [], "a gateway that ends takes its notes away")

    def test_another_user_does_not(self):
        if os.geteuid() != 0:
            self.skipTest("needs two users")
        gateway = self.stack.start_gateway()
        for folder in (self.stack.folder, os.environ["XDG_STATE_HOME"]):
            os.chmod(folder, 0o755)
        walle = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program("walle"), "task", "list", "--gateway", gateway.url]
        if not os.access("/usr/bin/setpriv", os.X_OK):
            self.skipTest("no setpriv")
        run = subprocess.run(walle, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn(self.stack.admin_token, run.stdout + run.stderr)

    # ---- Who does not get it

    def thief(self, address, port):
        """Listens and counts who comes; closes each connection."""
        server = socket.create_server((address, port))
        self.addCleanup(server.close)
        seen = []

        def run():
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                seen.append(peer)
                connection.close()
        threading.Thread(target=run, daemon=True).start()
        return seen

    def test_who_listens_where_a_gateway_died_is_told_nothing(self):
        gateway = self.stack.start_gateway()
        self.list()
        url, port, token = gateway.url, gateway.ports["h2c"], self.stack.admin_token
        gateway.kill(signal.SIGKILL)
        left = os.path.join(notes(), f"127.0.0.1:{port}")
        self.assertTrue(os.path.exists(left))
        with open(self.stack.path("thief.log"), "wb") as log:
            thief = self.stack.spawn_path("nghttpd", "-v", "--no-tls", "-a", "127.0.0.1", "-d", self.stack.folder, str(port), stdout=log)

        def told():
            with open(self.stack.path("thief.log"), encoding="utf-8", errors="replace") as log:
                return log.read()
        wait_until(lambda: self.stack.walle("task", "list", "--gateway", url, check=False).returncode != 3, what="the thief")
        wait_until(lambda: "/api/v1/tasks" in told(), what="the request")
        self.assertFalse(os.path.exists(left), "the note of a gateway that died goes")
        self.assertNotIn("wat_", told())
        self.stack.walle("task", "list", "--gateway", url, "--token", token, check=False)
        wait_until(lambda: token in told(), what="a token that an operator names")  # the thief would see it
        thief.kill()

    def test_a_name_is_followed_to_the_gateway_alone(self):
        """localhost is 127.0.0.1 first; who listens there on the port of a gateway on ::1 is somebody else."""
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(str(error))
        seen = None
        while seen is None:
            gateway = self.stack.spawn("walle-gateway", "--dir", self.stack.path("gateway"), "--h2c", "[::1]:0", "--tls", "none",
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.addCleanup(gateway.stdout.close)
            line = next(line for line in gateway.stdout if line.startswith("listening"))
            port = int(line.rpartition(":")[2])
            try:
                seen = self.thief("127.0.0.1", port)
            except OSError:  # somebody has that port there: another one
                gateway.terminate()
                self.assertEqual(gateway.wait(60), 0)
        self.list(f"http://[::1]:{port}")
        self.list(f"http://localhost:{port}")
        self.assertEqual(seen, [])
        # Without the gateway's word the name leads to the other one.
        self.stack.walle("task", "list", "--gateway", f"http://localhost:{port}", "--token", "", check=False)
        self.assertEqual(len(seen), 1)

    def test_notes_that_others_could_have_laid_are_refused(self):
        gateway = self.stack.start_gateway()
        path = os.path.join(notes(), f"127.0.0.1:{gateway.ports['h2c']}")
        self.list()
        for folder, mode in ((notes(), 0o770), (notes(), 0o702), (os.path.dirname(notes()), 0o777)):
            before = stat.S_IMODE(os.stat(folder).st_mode)
            os.chmod(folder, mode)
            self.assertIn("others may write there", self.list(code=4))
            os.chmod(folder, before)
        os.chmod(path, 0o640)
        self.assertIn("others may read it", self.list(code=4))
        os.chmod(path, 0o600)
        token = self.stack.path("gateway", "admin.token")
        os.chmod(token, 0o644)
        self.assertIn("others may read it: chmod 600", self.list(code=4))
        os.chmod(token, 0o600)
        os.rename(token, token + ".real")
        os.symlink(token + ".real", token)
        self.assertIn("symbolic link", self.list(code=4))
        os.unlink(token)
        os.rename(token + ".real", token)
        self.list()
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
        self.assertIn("symbolic link", self.list(code=4))
        os.unlink(path)
        os.rename(path + ".real", path)
        if os.geteuid() == 0:
            for what in (notes(), path, token):
                os.chown(what, NOBODY, NOBODY)
                self.assertIn("not used", self.list(code=4))
                os.chown(what, 0, 0)
        self.list()
        # A link in place of the folder, and notes nobody keeps locked.
        os.rename(notes(), notes() + ".real")
        os.symlink(notes() + ".real", notes())
        self.assertNotEqual(self.stack.walle("task", "list", check=False).returncode, 0)
        os.unlink(notes())
        os.rename(notes() + ".real", notes())
        self.list()

    def test_a_second_gateway_takes_the_notes_of_one_that_died(self):
        gateway = self.stack.start_gateway()
        gateway.kill(signal.SIGKILL)
        again = self.stack.restart_gateway()
        self.list()
        again.kill(signal.SIGKILL)
        other = self.stack.start_gateway()  # elsewhere: it sweeps
        self.list()
        self.assertEqual(sorted(os.listdir(notes())), sorted(f"127.0.0.1:{port}" for port in other.ports.values()))

    def test_a_gateway_without_a_home_still_serves(self):
        with open(self.stack.path("file"), "wb"):
            pass
        os.environ["XDG_STATE_HOME"] = self.stack.path("file", "state")
        gateway = self.stack.start_gateway()
        self.assertIn("walle needs --token here", gateway.log_text())
        self.list(None, "--token", self.stack.admin_token)
        self.assertIn("401", self.list(code=4))


if __name__ == "__main__":
    unittest.main()
