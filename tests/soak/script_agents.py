"""Real walle-device agents that are given hostile scripts, one release after the other: those written by hand, each as a task of its own,
and made ones. Whatever a script does, the agent reports how it ended, takes the next release, and ends in order."""
import json
import os
import re
import subprocess
import sys
import threading
import time

from walle_stack import SOURCE, program

AGENTS = 4
TASKS_EACH = 7  # an agent keeps 8
REPORT_S = 300  # from a release to the word of its agent, restarts of the gateway among them
SCRIPTS = os.path.join(SOURCE, "tests", "hostile_scripts")
STAGES = [{"name": "lab", "kind": "full", "min_sample": 1, "max_failure": 1}]


def by_hand():
    return sorted(name[:-3] for name in os.listdir(SCRIPTS) if name.endswith(".py") and name != "generate.py")


class Agents:
    """Owned by the soak's thread: turn() now and then."""

    def __init__(self, stack, findings, key, first_made):
        self.stack, self.findings, self.key = stack, findings, key
        self.hand = by_hand()
        assert len(self.hand) < AGENTS * TASKS_EACH, "more scripts than an agent has places"
        self.number, self.made = 0, first_made
        self.pending = {}  # rollout -> (name, when)
        self.released, self.reported, self.not_built, self.ends = 0, 0, 0, {}
        self.logs = [[] for _ in range(AGENTS)]
        self.agents = [self.start(i) for i in range(AGENTS)]

    def start(self, i):
        gateway = self.stack.gateway
        where = ("--gateway", gateway.tls_url, "--ca", os.path.join(gateway.folder, "cert.pem")) if i % 2 else ("--gateway", gateway.url)
        log = open(self.stack.path(f"agent{i}.log"), "ab")
        child = self.stack.spawn("walle-device", *where, "--enroll-token", self.stack.enroll_token, "--dir", self.stack.path(f"agent{i}"),
                                 "--id", f"{0xa9e0_0000_0000_0000 + i:016x}", "--attr", f"lab=agent{i}", "--trust", self.key + ".pub", "--hints",
                                 stdout=subprocess.PIPE, stderr=log, text=True, errors="replace")
        log.close()
        threading.Thread(target=self._read, args=(child.stdout, i), daemon=True).start()
        return child

    def _read(self, stream, i):
        with stream, open(self.stack.path(f"agent{i}.out"), "a", encoding="utf-8") as kept:
            for line in stream:
                kept.write(line)
                ended = re.search(r"\b(fail_\w+|ran)\b", line)
                if ended:
                    self.ends[ended.group(1)] = self.ends.get(ended.group(1), 0) + 1
                if "died of SIG" in line and "SIGKILL" not in line:  # SIGKILL: its time or memory was over
                    self.findings.add(f"a task's process {line.strip()[:300]}")

    def next_script(self):
        """(slot, name, text): those written by hand first, then made ones; then anew."""
        slots = AGENTS * TASKS_EACH
        slot = self.number % slots
        self.number += 1
        if slot < len(self.hand):
            with open(os.path.join(SCRIPTS, self.hand[slot] + ".py"), encoding="utf-8") as file:
                return slot, self.hand[slot], file.read()
        self.made += 1
        text = subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.join(SCRIPTS, "generate.py"), str(self.made)], check=True,
                              capture_output=True, text=True).stdout
        return slot, f"made{slot}", text + f"# {self.made}\n"

    def release(self):
        slot, name, text = self.next_script()
        source, build = self.stack.path(f"script{self.number}"), self.stack.path(f"script{self.number}.build")
        os.mkdir(source)
        task = {"name": "hostile/" + name.replace("_", "-"), "version": f"1.0.{self.number}", "entry": "attack", "files": ["attack.py"],
                "time_ms": 500, "heap_kib": 256}
        for path, content in (("task.json", json.dumps(task)), ("attack.py", text + f"# {self.number}\n"), ("../lab.json", json.dumps(STAGES))):
            with open(os.path.join(source, path), "w", encoding="utf-8") as file:
                file.write(content)
        run = subprocess.run([program("walle"), "task", "build", source, "--out", build], capture_output=True, text=True, timeout=120,
                             errors="replace")
        if run.returncode != 0:
            self.not_built += 1
            self.findings.expect(run.returncode in (1, 2) and "Sanitizer" not in run.stderr and "runtime error" not in run.stderr,
                                 f"walle task build of {name} ({self.made}): exit {run.returncode}: {run.stderr[:600]}")
            return
        self.stack.walle("task", "push", build)
        run = self.stack.walle("rollout", "start", task["name"], "--build", build, "--key", self.key, "--stages", self.stack.path("lab.json"),
                               "--target", f'lab == "agent{slot % AGENTS}"')
        self.pending[re.match(r"[0-9a-f]{16}", run.stdout).group(0)] = (name, time.monotonic())
        self.released += 1

    def turn(self):
        """What was reported of the releases; an agent that ended or says nothing is a finding."""
        for i, child in enumerate(self.agents):
            if child.poll() is not None:
                self.findings.add(f"agent {i} ended with {child.returncode}")
                self.agents[i] = self.start(i)
        for rollout, (name, since) in list(self.pending.items()):
            state = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]
            counts = state["counts"]
            if counts["succeeded"] + counts["failed"] + counts.get("timed_out", 0) > 0:
                self.reported += 1
                del self.pending[rollout]
            elif time.monotonic() - since > REPORT_S:
                self.findings.add(f"nothing was reported of {name}: {json.dumps(counts)}")
                del self.pending[rollout]

    def stop(self):
        for i, child in enumerate(self.agents):
            child.terminate()
            try:
                status = child.wait(60)
                self.findings.expect(status == 0, f"agent {i} ended with {status}")
            except subprocess.TimeoutExpired:
                self.findings.add(f"agent {i} does not end")
            self.findings.scan(self.stack.path(f"agent{i}.log"))
