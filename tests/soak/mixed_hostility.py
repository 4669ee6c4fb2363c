#!/usr/bin/env python3
"""Mixed hostility: all attacks at once beside a fleet that takes releases, an hour or as long as asked.

    python3 tests/soak/mixed_hostility.py --minutes 60 [--build asan] [--devices 5000] [--seed N] [--out out/mixed_hostility.json]

The shipped gateway with its shipped settings (clear and TLS, an upstream behind it) serves proven virtual devices, which take
releases in stages: a good one, then bad ones, which must go back, each with a good one behind it, which must complete; their users' records come
up the tunnel. Beside them, all the time: every attack of tests/hostile at a bounded rate (attackers.py), real agents that are
given every hostile script as a release (script_agents.py), and a healthy client that must be answered (healthy_probe.py).
Now and then the gateway is killed and started again, and now and then its wall clock is 300 days ahead for a while.

A finding is: a sanitizer's word, an end nobody asked for, an answer that does not come, a 5xx for the healthy client, memory
beyond the bound, a rollout that does not end as it must, and any difference between what devices know and what the gateway
counts. Exit status 1 when there is one. All draws come from one seed, which is printed.
"""
import argparse
import contextlib
import glob
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [path for path in (TESTS, os.path.join(TESTS, "e2e"), os.path.join(TESTS, "soak")) if path not in sys.path]

TASK, SEEN = "shop/price", "shop/seen"
FLEET = 'os in ["android", "ios", "harmony"]'
GOOD, BAD = "good", "bad"
BAD_MAX = 8             # versions that walle-fleet-sim can be told are bad
BAD_RULE = "all => exception @ 60%"
LATE_S, LATE_QUICK_S = 600, 150  # until a rollout is as it must be; it only ends a hang
STOP_S = 300            # for a program to end
LEAD_S = 20             # an attack leads
DAY_S = 86400
CLOCK_S = 120           # until the gateway has seen that its clock is wrong, or right again
AHEAD_S = 10            # and it stays wrong
RESIDENT_MAX = {"asan": 3 << 30}  # of the gateway's process; sanitizers double what is allocated and keep what was freed
RESIDENT_MAX_PLAIN = 768 << 20  # the sum of the budgets of bodies and tunnel, and half again
LOG_MAX = 64 << 20      # bytes of the gateway's log in an hour
SEEN_SCRIPT = """import walle
from walle import data
events = data.events()
if len(events) > 0:
    walle.result({"events": len(events), "item": events[0].item or ""})
"""
SEEN_TASK = {"name": SEEN, "version": "1.0.0", "entry": "seen", "files": ["seen.py"], "triggers": ["exit(item_detail)"],
             "events": {"take": "visit", "attributes": ["price"]},
             "uploads": [{"name": "seen", "class": "behaviour", "schema": {"type": "object"}}], "result": "seen"}
STAYS_ZERO = ("walle_table_probes_long_total", "walle_tunnel_probes_long_total", "walle_store_damaged_total", "walle_records_corrupt_total",
              "walle_devices_dropped_total", "walle_store_failed_groups_total")


def ports_of(gateway):
    return dict(gateway.ports)


def differences(kind, state, row, devices, last):
    """What the gateway says of a rollout that is not what happened on the devices. `row`: the version in the fleet's ledger. Versions that
    devices came back to from a bad one have run there more than once: of these every device counts once."""
    wanted = {"state": "rolled_back" if kind == BAD else "completed", "failed": row.get("failed"),
              "succeeded": row.get("ran") if kind == BAD else devices}
    if kind == GOOD:
        wanted["failed"] = 0
    if last:
        wanted.update(downloaded=row.get("downloaded"), activated=row.get("activated"))
    found = {key: state["state"] if key == "state" else state["counts"][key] for key in wanted}
    said = [f"{key} is {found[key]}, on devices {wanted[key]}" for key in wanted if found[key] != wanted[key]]
    if last and row.get("current") != devices:
        said.append(f"{row.get('current')} of {devices} devices are on the last version")
    return said


class Soak:
    """One run; everything is owned by the thread that calls run()."""

    def __init__(self, options):
        from findings import Findings
        self.options, self.draw = options, random.Random(options.seed)
        print(f"seed {options.seed}", flush=True)
        self.findings = Findings()
        self.quick = options.minutes < 5
        self.devices = options.devices
        self.began = time.monotonic()
        self.ends = self.began + options.minutes * 60
        kills = 1 if self.quick else max(2, int(options.minutes // 20))
        self.kills = sorted(self.began + options.minutes * 60 * (k + self.draw.uniform(0.2, 0.8)) / kills for k in range(kills))
        self.jumps = [self.began + options.minutes * 60 * part for part in ((0.5,) if self.quick else (0.3, 0.7))]
        self.killed, self.jumped, self.resident_most, self.versions = 0, 0, 0, []
        self.due = {"minute": 0.0, "script": 0.0, "lead": 0.0, "look": 0.0}
        self.latencies = []
        self.lines = []

    # ---- Programs

    def start(self, stack):
        from attackers import Attackers
        from echo_upstream import Upstream
        from hardening_14_clocks import SHIM, Clock
        from healthy_probe import Probe
        from script_agents import Agents
        self.stack = stack
        self.upstream = Upstream()
        admin = secrets.token_hex(32)  # without one, whoever is on this machine is an administrator, and no attack a stranger's
        os.environ["WALLE_TOKEN"] = admin  # of walle, and of Stack.api
        self.arguments = ["--upstream", self.upstream.url, "--set", "admin.token_file=" + stack.secret("admin.token", admin)]
        if self.quick:
            self.arguments += ["--set", "device.checkin_interval_s=10"]
        self.clock = Clock(stack.path("gateway.clock")) if os.path.exists(SHIM) else None  # .ci/build asan wrong_clock
        if self.clock is None:
            print("no clock that jumps: .ci/build asan makes", SHIM, flush=True)
            self.jumps = []
        with self.worn():
            stack.start_gateway(*self.arguments)
        self.trust = stack.walle("key", "new", "--out", stack.path("release.key")).stdout.strip().splitlines()[-1]
        self.probe = Probe(ports_of(stack.gateway), stack.enroll_token, self.findings)
        self.prepare()
        self.viewer = stack.secret("viewer.token", stack.walle("token", "new", "--name", "fleet", "--role", "viewer").stdout.strip())
        self.fleet = self.start_fleet()
        self.begin(SEEN, stack.path("seen.build"), [{"name": "full", "kind": "full", "min_sample": 1}])
        self.attackers = Attackers(ports_of(stack.gateway), stack.folder, self.draw, self.findings)
        self.agents = Agents(stack, self.findings, stack.path("release.key"), self.options.seed % 1000000 * 1000)
        self.probe.start()

    def prepare(self):
        """All versions are built first: the fleet is told which are bad."""
        path = self.stack.path
        os.mkdir(path("seen"))
        for name, text in (("task.json", json.dumps(SEEN_TASK)), ("seen.py", SEEN_SCRIPT)):
            with open(path("seen", name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", path("seen"), "--out", path("seen.build"))
        self.stack.walle("task", "push", path("seen.build"))
        for number in range(2 * BAD_MAX + 1):
            source, build = path(f"version{number}"), path(f"version{number}.build")
            os.mkdir(source)
            for name, text in (("task.json", json.dumps({"name": TASK, "version": f"1.0.{number}", "entry": "price", "files": ["price.py"]})),
                               ("price.py", f"import walle\nwalle.result({number})\n")):
                with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.stack.walle("task", "build", source, "--out", build)
            with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
                self.versions.append({"kind": BAD if number % 2 else GOOD, "build": build, "manifest": json.load(file)["manifest"]})

    def start_fleet(self):
        bad = [word for version in self.versions if version["kind"] == BAD for word in ("--bad-version", version["manifest"])]
        every = 20 if self.quick else 300
        with open(self.stack.path("fleet.log"), "wb") as log:
            return self.stack.spawn(
                "walle-fleet-sim", "run", "--devices", str(self.devices), "--gateway", self.stack.gateway.url, "--enroll-token",
                self.stack.enroll_token, "--trust", self.trust, "--task", TASK, "--hints", "--per-carrier", "500", "--seed",
                str(self.options.seed), "--bad", BAD_RULE, *bad, "--behaviour", "ipv", "--session-every", str(every), "--arrival-rate", "1000",
                "--token-file", self.viewer, "--until-stopped", "--no-live", "--out", self.stack.path("fleet"), stdout=log, stderr=subprocess.STDOUT)

    def begin(self, task, build, stages, *more):
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        run = self.stack.walle("rollout", "start", task, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                               self.stack.path("stages.json"), "--target", FLEET, *more, "-o", "json")
        return json.loads(run.stdout)["id"]

    # ---- What goes on beside the releases

    def is_due(self, name, every_s):
        now = time.monotonic()
        if now < self.due[name]:
            return False
        self.due[name] = now + every_s
        return True

    def turn(self):
        """One round of everything beside the rollouts; about half a second."""
        time.sleep(0.5)
        if self.stack.gateway.process.poll() is not None:
            self.findings.add(f"the gateway ended with {self.stack.gateway.process.returncode}: {self.stack.gateway.log_text()[-1500:]}")
            self.restart()
        if self.fleet.poll() is not None and not self.fleet_over:
            self.fleet_over = True
            self.findings.add(f"the fleet ended with {self.fleet.returncode}: {self.fleet_log()[-1500:]}")
        if self.kills and time.monotonic() >= self.kills[0]:
            self.kills.pop(0)
            self.kill()
        if self.jumps and time.monotonic() >= self.jumps[0]:
            self.jumps.pop(0)
            self.jump()
        self.attackers.turn()
        if self.is_due("lead", LEAD_S):
            self.attackers.lead(self.draw.choice(self.attackers.names))
        if self.is_due("script", 5 if self.quick else 12):
            self.agents.release()
        if self.is_due("look", 5):
            self.look()
        if self.is_due("minute", 60):
            self.say()

    fleet_over = False

    def worn(self):
        return self.clock.worn() if self.clock else contextlib.nullcontext()

    def jump(self):
        """A wall clock that is wrong for a while: nothing is released meanwhile, everybody is served, and all is well afterwards."""
        print(f"clock 300 days ahead at {self.seconds():.0f} s", flush=True)
        self.jumped += 1
        for moved_s, state in ((300 * DAY_S, "ahead"), (0, "sure")):
            self.clock.move(moved_s)
            deadline = time.monotonic() + CLOCK_S
            while self.stack.api("/api/v1/clock")[1].get("state") != state:
                if time.monotonic() > deadline:
                    self.findings.add(f"the gateway's clock is not {state} after {CLOCK_S} s")
                    break
                time.sleep(0.5)
                self.attackers.turn()
            if moved_s:
                time.sleep(AHEAD_S)

    def kill(self):
        self.probe.down = True
        self.stack.gateway.kill(signal.SIGKILL)
        self.killed += 1
        print(f"gateway killed at {self.seconds():.0f} s", flush=True)
        self.restart()

    def restart(self):
        self.probe.down = True
        with self.worn():
            self.stack.restart_gateway(*self.arguments)
        time.sleep(2)  # requests that were under way when it ended have failed by then
        self.probe.down = False

    def look(self):
        """Memory, and figures that never rise."""
        from healthy_probe import resident
        used = resident(self.stack.gateway.pid)
        self.resident_most = max(self.resident_most, used)
        most = RESIDENT_MAX.get(self.options.build, RESIDENT_MAX_PLAIN)
        self.findings.expect(used <= most, f"the gateway's resident memory is beyond {most >> 20} MiB")
        text = self.stack.api("/metrics")[1]
        self.metrics = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.M)}
        for name in STAYS_ZERO:
            self.findings.expect(self.metrics.get(name, 0) == 0, f"{name} is {self.metrics.get(name)}")
        self.agents.turn()

    def seconds(self):
        return time.monotonic() - self.began

    def say(self):
        from healthy_probe import quantiles
        taken = self.probe.taken()
        self.latencies += taken
        p50, most = quantiles(taken)
        metrics = self.metrics
        line = {"at_s": round(self.seconds()), "rollout": self.doing, "resident_mib": self.resident_most >> 20, "healthy_p50_ms": p50,
                "healthy_max_ms": most, "requests": metrics.get("walle_requests_total"), "checkins": metrics.get("walle_checkins_total"),
                "outcomes": metrics.get("walle_outcomes_total"), "tunnel_batches": metrics.get("walle_tunnel_batches_total"),
                "unproven": metrics.get("walle_devices_unproven"), "scripts": self.agents.reported, "findings": len(self.findings)}
        self.lines.append(line)
        print(" ".join(f"{key} {value}" for key, value in line.items()), flush=True)
        self.findings.scan(self.stack.gateway.log_path)

    doing = "starting"
    metrics = {}

    # ---- Releases

    def until(self, what, test):
        """Goes on with everything until test() holds; what does not come is a finding."""
        late_s = LATE_QUICK_S if self.quick else LATE_S
        deadline = time.monotonic() + late_s
        while not test():
            if time.monotonic() > deadline:
                self.findings.add(f"{what}: not in {late_s} s")
                return False
            self.turn()
        return True

    def state(self, version):
        return self.stack.api(f"/api/v1/rollouts/{version['rollout']}")[1]

    def stages(self, dwell_s):
        # Chance says who is in a stage: once it was 6 devices of 300.
        return [{"name": "gray 5 %", "kind": "gray", "percent": 5, "min_sample": self.devices // 100, "min_dwell_s": dwell_s, "max_failure": 0.1},
                {"name": "gray 30 %", "kind": "gray", "percent": 30, "min_sample": self.devices // 8, "min_dwell_s": dwell_s, "max_failure": 0.05},
                {"name": "full", "kind": "full", "min_sample": self.devices // 2, "min_dwell_s": dwell_s, "max_failure": 0.05}]

    def release(self, number, dwell_s):
        version = self.versions[number]
        self.doing = f"1.0.{number}/{version['kind']}"
        self.stack.walle("task", "push", version["build"])
        version["rollout"] = self.begin(TASK, version["build"], self.stages(dwell_s))
        if version["kind"] == BAD:
            self.until(f"rollback of 1.0.{number}", lambda: self.state(version)["state"] == "rolled_back")
        else:
            self.until(f"completion of 1.0.{number} by {self.devices} devices", lambda: self.state(version)["state"] == "completed" and
                       self.state(version)["counts"]["succeeded"] >= self.devices)
        version["state"] = self.state(version)["state"]

    def cycles(self):
        """Good, then bad and good by turns until the time is over; always a good one last."""
        cycle_s = self.options.minutes * 60 / BAD_MAX
        dwell_s = 2 if self.quick else round(cycle_s / 6)  # releases are under way most of the time
        self.release(0, dwell_s)
        number = 1
        while number < 2 * BAD_MAX and (number == 1 or time.monotonic() + cycle_s / 2 < self.ends):
            due = time.monotonic() + (0 if self.quick else cycle_s)
            self.release(number, dwell_s)
            self.release(number + 1, dwell_s)
            while time.monotonic() < min(due, self.ends):
                self.turn()
            number += 2
        self.doing = "waiting"
        while time.monotonic() < self.ends or self.kills or self.jumps:
            self.turn()

    # ---- The account

    def fleet_log(self):
        with open(self.stack.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def finish(self):
        self.until("what agents report", lambda: not self.agents.pending)
        self.say()
        self.attackers.stop()
        self.probe.stop()
        self.agents.stop()
        self.latencies += self.probe.taken()
        self.ledger = self.stop_fleet()
        if self.ledger:
            self.compare()
            self.compare_tunnel()
        status = None
        try:
            status = self.stack.gateway.stop(STOP_S)
        except subprocess.TimeoutExpired:
            self.stack.gateway.kill()
        self.findings.expect(status == 0, f"the gateway's end is {status}: {self.stack.gateway.log_text()[-1500:]}")
        self.findings.scan(self.stack.gateway.log_path)
        self.findings.expect(os.path.getsize(self.stack.gateway.log_path) <= LOG_MAX, "the gateway's log has more than 64 MiB")
        check = subprocess.run([os.path.join(self.bin, "walle-store"), "check", self.stack.path("gateway")], capture_output=True, text=True,
                               timeout=STOP_S)
        self.findings.expect(check.returncode == 0, f"walle-store check: {check.stdout[-500:]}{check.stderr[-500:]}")

    def stop_fleet(self):
        if self.fleet.poll() is None:
            self.fleet.send_signal(signal.SIGTERM)
        try:
            code = self.fleet.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.findings.add("the fleet does not end")
            return None
        # All bad versions are named beforehand, and not all are released in the time. That is said last, where nothing else is amiss.
        unused = any(version["kind"] == BAD and "rollout" not in version for version in self.versions)
        unused = unused and "FAILED: --bad-version" in self.fleet_log().strip().splitlines()[-1]
        self.findings.expect(code == (1 if unused else 0), f"the fleet's end is {code}: {self.fleet_log()[-1500:]}")
        path = self.stack.path("fleet", "run.json")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def compare(self):
        """What happened on the devices against what the gateway counted."""
        rows = {row["manifest"]: row for row in self.ledger["versions"]}
        released = [version for version in self.versions if "rollout" in version]
        for version in released:
            state, row = self.state(version), rows.get(version["manifest"], {})
            name = f"rollout {version['rollout']} ({version['kind']})"
            for said in differences(version["kind"], state, row, self.devices, version is released[-1]):
                self.findings.add(f"{name}: {said}")
            replay = self.stack.walle("rollout", "replay", version["rollout"], check=False)
            self.findings.expect(" 0 differ" in replay.stdout, f"{name}: replay: {replay.stdout[-300:]}{replay.stderr[-300:]}")
            version["counts"] = {key: state["counts"][key] for key in ("succeeded", "failed", "unproven_completed", "unproven_failed")}
        for oracle in self.ledger["oracles"]:
            self.findings.expect(oracle["holds"], f"oracle {oracle['name']}: {oracle['violations']} violations")
        enrolled = self.ledger["totals"]["enrolled"]
        self.findings.expect(enrolled >= self.devices, f"{enrolled} of {self.devices} devices enrolled")

    def compare_tunnel(self):
        records = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", records, timeout_s=STOP_S)
        law = subprocess.run([os.path.join(self.bin, "walle-fleet-sim"), "law", self.stack.path("fleet", "tunnel.csv"), records],
                             capture_output=True, text=True, timeout=STOP_S)
        self.findings.expect(law.returncode == 0 and "other devices" not in law.stdout, f"records of the tunnel: {law.stdout[-800:]}{law.stderr[-300:]}")
        self.tunnel = law.stdout.strip().splitlines()[-1:] or [""]

    def result(self):
        from healthy_probe import quantiles
        p50, most = quantiles(self.latencies)
        return {
            "passed": len(self.findings) == 0, "findings": self.findings.items, "seed": self.options.seed, "minutes": self.options.minutes,
            "build": self.options.build, "devices": self.devices, "seconds": round(self.seconds()), "kills": self.killed, "jumps": self.jumped,
            "resident_most_mib": self.resident_most >> 20,
            "rollouts": [{key: version.get(key) for key in ("kind", "rollout", "state", "counts")} for version in self.versions if "rollout" in version],
            "tunnel": getattr(self, "tunnel", None), "fleet": self.ledger["totals"] if self.ledger else None,
            "healthy": {"answers": self.probe.statuses, "p50_ms": p50, "max_ms": most, "failed_while_down": self.probe.failed_down},
            "attacks": {name: {"starts": self.attackers.starts[name], "failed": self.attackers.failed.get(name, 0), **self.attackers.counts[name]}
                        for name in self.attackers.names},
            "scripts": {"released": self.agents.released, "reported": self.agents.reported, "not_built": self.agents.not_built, "ends": self.agents.ends},
            "minutes_told": self.lines,
        }

    ledger = None

    def keep(self):
        """Logs and ledgers, beside the result."""
        folder = os.path.splitext(self.options.out)[0]
        os.makedirs(folder, exist_ok=True)
        for pattern in ("*.log", "agent*.out", "fleet/*", "records.jsonl"):
            for path in glob.glob(self.stack.path(pattern)):
                shutil.copy(path, folder)

    def run(self):
        from walle_stack import BIN, Stack
        self.bin = BIN
        with Stack() as stack:
            try:
                self.start(stack)
                self.cycles()
                self.finish()
            except (AssertionError, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
                self.findings.add(f"the run broke off: {type(error).__name__} {error}"[:2000])
                self.findings.scan(stack.path("gateway.log"))
                raise
            finally:
                if hasattr(self, "attackers"):
                    self.attackers.stop()
                self.upstream.close()
                self.keep()
            return self.result()


def options_of(words=None):
    parser = argparse.ArgumentParser(description="All attacks at once beside a fleet that takes releases.")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--build", default="asan", help="preset whose programs run")
    parser.add_argument("--devices", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--out", default="out/mixed_hostility.json")
    return parser.parse_args(words)


def main():
    options = options_of()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing it started stays behind
    source = os.path.dirname(TESTS)
    os.environ.setdefault("WALLE_BIN", os.path.join(source, "build", options.build, "bin"))
    os.environ.setdefault("WALLE_SOURCE", source)
    result = Soak(options).run()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(json.dumps({key: value for key, value in result.items() if key != "minutes_told"}, indent=1))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
