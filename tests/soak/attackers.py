"""All attacks of tests/hostile at once, each in a process of its own and at a small share of its rate; one after the other leads for a
while with more. Each process lives for some seconds and is started anew, so connections come and go."""
import json
import os
import pkgutil
import subprocess
import sys

from walle_stack import SOURCE

import hostile

SHARE = {  # of an attack's own rate beside all others, on one or two cores of which the gateway has its part
    "bad_tokens": 0.02, "chosen_ids": 0.01, "handshakes": 0.006, "hpack_references": 0.1, "invented_devices": 0.01,
    "invented_reports": 0.02, "local_process": 0.05, "silent_readers": 0.1, "slow_proxied_bodies": 1.0, "unauthorised_uploads": 0.01,
}
SHARE_ELSE = 0.02
LEAD = 5.0  # times its share, at most all of it
LIFE_S = (15, 45)
LIFE_LONG_S = (45, 120)  # of those whose point is that nothing happens: past the gateway's deadlines
LONG = ("silent_readers", "slow_proxied_bodies")


def names():
    return sorted(module.name for module in pkgutil.iter_modules(hostile.__path__) if module.name not in ("__main__", "target"))


class Attackers:
    """Owned by the soak's thread: turn() now and then."""

    def __init__(self, ports, folder, draw, findings):
        self.ports, self.folder, self.draw, self.findings = ports, folder, draw, findings
        self.names = names()
        self.children = {}  # name -> process
        self.counts = {name: {} for name in self.names}
        self.starts = {name: 0 for name in self.names}
        self.failed = {}  # name -> ends with an error
        self.leader = None

    def lead(self, leader):
        self.leader = leader
        child = self.children.get(leader)
        if child is not None:
            child.terminate()  # and is started anew with its new share

    def turn(self):
        for name in self.names:
            child = self.children.get(name)
            if child is not None and child.poll() is not None:
                self.collect(name, child)
                child = None
            if child is None:
                self.children[name] = self.start(name)

    def start(self, name):
        share = SHARE.get(name, SHARE_ELSE)
        if name == self.leader:
            share = min(1.0, share * LEAD)
        self.starts[name] += 1
        tests = os.path.join(SOURCE, "tests")
        with open(os.path.join(self.folder, f"attack-{name}.log"), "ab") as log:
            return subprocess.Popen(
                ["nice", "-n", "10", sys.executable, "-m", "hostile", name, "--h2c", str(self.ports["h2c"]), "--tls", str(self.ports["tls"]),
                 "--seconds", f"{self.draw.uniform(*(LIFE_LONG_S if name in LONG else LIFE_S)):.1f}", "--share", str(share), "--seed",
                 str(self.draw.randrange(1 << 31))], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONPATH": tests, "PYTHONDONTWRITEBYTECODE": "1"})

    def collect(self, name, child):
        text = child.communicate()[0]
        if child.returncode != 0 or not text.strip():
            self.failed[name] = self.failed.get(name, 0) + 1
            return
        counts = json.loads(text.splitlines()[-1])
        self.findings.expect(counts.get("passed", 0) == 0, f"{name} was let in: {json.dumps(counts)}")
        for key, value in counts.items():
            if isinstance(value, int) and key != "point":
                self.counts[name][key] = self.counts[name].get(key, 0) + value

    def stop(self):
        for child in self.children.values():
            child.terminate()
        for name, child in self.children.items():
            try:
                self.collect(name, child)
            except (subprocess.TimeoutExpired, ValueError):
                child.kill()
        self.children = {}
