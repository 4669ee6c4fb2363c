"""A gateway and what talks to it in a scratch folder, for benchmarks; all of it ends with close()."""
import os
import shutil
import subprocess
import tempfile

from enrolled import read_listeners


class BenchStack:
    def __init__(self, build):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.folder = tempfile.mkdtemp(prefix="walle-bench-")
        self.children = []
        self.ports, self.url = {}, ""

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, name, *arguments, **more):
        child = subprocess.Popen([os.path.join(self.bin, name), *arguments], **more)
        self.children.append(child)
        return child

    def start_gateway(self, *arguments):
        """On free ports: self.ports["tls"], self.ports["h2c"], and self.url in clear text."""
        gateway = self.start("walle-gateway", "--dir", self.path("gateway"), "--tls", "127.0.0.1:0", "--h2c", "127.0.0.1:0", *arguments,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.ports = read_listeners(gateway)
        self.url = f"http://127.0.0.1:{self.ports['h2c']}"

    def bearer(self):
        """The header that shows the administrator's token, as curl wants it."""
        with open(self.path("gateway", "admin.token"), encoding="ascii") as file:
            return "authorization: Bearer " + file.read().strip()

    def walle(self, *arguments):
        run = subprocess.run([os.path.join(self.bin, "walle"), *arguments], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "WALLE_GATEWAY": self.url}, check=False)
        if run.returncode != 0:
            raise SystemExit(f"bench: walle {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout
