"""Random rollouts with real programs: a gateway and a dozen walle-device agents, half of them born with a root, half with a pinned key.

A seed draws 150 calls: rollouts are started, commanded and killed, devices check in, change what they say of themselves, and are killed with
-9, and so is the gateway. After every check-in a device runs what docs/RELEASES.md says of the rollouts that were acknowledged: the rules are
written here once more, in Python, from the page alone. WALLE_SEED gives another seed, WALLE_CALLS another number.
"""
import json
import os
import random
import re
import signal
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

import raw_device
from walle_stack import Stack, program

SEED = int(os.environ.get("WALLE_SEED", "1"))
CALLS = int(os.environ.get("WALLE_CALLS", "150"))
DEVICES = 12
VERSIONS = 4
TASKS = ("shop/score", "ads/pick")
SYSTEMS = ("a", "b", "c")
WAKES = 4  # in which a device comes to what it should run: metadata, offer, content
OPEN_MAX = 6  # of the 8 a task may have
TARGETS = ((None, lambda a: True), ('os == "a"', lambda a: a["os"] == "a"), ('os != "c"', lambda a: a["os"] != "c"),
           ("ring < 2", lambda a: a["ring"] < 2))
# Of a ladder's stages: kind, percent, whom it is for. No gate decides: operators alone move a rollout.
LADDERS = ((("full", 100, None),), (("gray", 50, None),), (("gray", 30, None), ("full", 100, None)),
           (("beta", 100, 'os == "b"'), ("gray", 40, None), ("full", 100, None)))
AUDIENCES = {None: lambda a: True, 'os == "b"': lambda a: a["os"] == "b"}


class Rollout:
    """What was acknowledged of one rollout."""

    def __init__(self, view, task, version, ladder, target, priority):
        self.id, self.task, self.version, self.ladder = view["id"], task, version, ladder
        self.target, self.priority = target, priority
        self.salt, self.counter, self.floor = int(view["salt"], 16), view["release_counter"], view["floor"]
        self.state, self.stage = "running", 0

    def closed(self):
        return self.state in ("completed", "rolled_back")

    def allows(self, command):
        return {"pause": self.state == "running", "resume": self.state == "paused", "promote": self.state == "running",
                "abort": not self.closed(), "undo": self.state == "completed"}[command]

    def follow(self, command):
        if command == "promote" and self.stage + 1 < len(self.ladder):
            self.stage += 1
        else:
            self.state = {"pause": "paused", "resume": "running", "promote": "completed"}.get(command, "rolled_back")

    def targets(self, device):
        return TARGETS[self.target][1](device.attrs)

    def bucket(self, device):
        return raw_device.bucket(device.number, self.salt)

    def inside(self, device):
        return any(self.bucket(device) < percent * 100 for _, percent, _ in self.ladder[:self.stage + 1])

    def lets_in(self, device):
        return self.targets(device) and any(self.bucket(device) < percent * 100 and AUDIENCES[who](device.attrs)
                                            for _, percent, who in self.ladder[:self.stage + 1])


class Device:
    def __init__(self, number):
        self.number, self.id, self.rooted = raw_device.mix(number), f"{raw_device.mix(number):016x}", number % 2 == 0
        self.attrs = {"os": SYSTEMS[number % 3], "ring": number % 4}
        self.has, self.floor = dict.fromkeys(TASKS), dict.fromkeys(TASKS, 0)
        self.by = dict.fromkeys(TASKS)  # the approval by which it has that


def rules(claims, device, has, by, floor):
    """(rollout, rule) of docs/RELEASES.md; (None, "none"): nothing."""
    def may(rollout):
        return rollout.counter >= floor
    opened = sorted((r for r in claims if not r.closed()), key=lambda r: (-r.priority, r.counter))
    followed = next((r for r in opened if r.targets(device)), None)
    if followed and followed.lets_in(device) and may(followed):
        if followed.state == "running":
            return followed, "followed"
        if followed.version == has:
            return followed, "paused"
    for rollout in opened:
        if rollout.version == has and rollout.lets_in(device) and may(rollout):
            return rollout, "stays"
    for rollout in sorted((r for r in claims if r.closed()), key=lambda r: -r.counter):
        if rollout.lets_in(device) and may(rollout):
            return rollout, "baseline"
    for rollout in claims:
        if rollout.version == has and rollout.counter == by and rollout.inside(device) and may(rollout):
            return rollout, "keeps"
    return None, "none"


class RandomRollouts(unittest.TestCase):
    def test_random_rollouts(self):
        print(f"seed {SEED}, {CALLS} calls")
        self.draw = random.Random(SEED)
        self.rollouts, self.killed, self.done, self.whys = [], set(), [], 0
        self.devices = [Device(number) for number in range(DEVICES)]
        with Stack() as stack:
            self.stack = stack
            self.prepare()
            for call in range(CALLS):
                self.call = call
                self.step()
            self.check_all()
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda rollout: stack.walle("rollout", "replay", rollout.id), self.rollouts))
            stack.walle("audit", "verify")
            self.assertGreater(self.whys, 0)
            self.assertEqual(stack.gateway.stop(), 0)
            check = subprocess.run([program("walle-store"), "check", stack.path("gateway")], capture_output=True, text=True)
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def prepare(self):
        stack = self.stack
        stack.start_gateway()
        for name in ("root.key", "release.key"):
            stack.walle("key", "new", "--out", stack.path(name))
        stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("root.key"), "--release",
                    stack.path("release.key.pub"))
        stack.walle("root", "push", stack.path("root.1"))
        self.manifests, self.version_ids = {}, {}
        for task in TASKS:
            for version in range(VERSIONS):
                source, build = stack.path(f"source {task[:3]} {version}"), self.build_of(task, version)
                os.mkdir(source)
                with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
                    json.dump({"name": task, "version": f"1.0.{version}", "entry": "task", "files": ["task.py"]}, file)
                with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
                    file.write(f"import walle\nwalle.result({version})\n")
                stack.walle("task", "build", source, "--out", build)
                stack.walle("task", "push", build)
                with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
                    self.manifests[json.load(file)["manifest"]] = (task, version)

    def build_of(self, task, version):
        return self.stack.path(f"build {task[:3]} {version}")

    # ---- Calls

    def step(self):
        drawn = self.draw.random()
        if drawn < 0.16:
            self.start()
        elif drawn < 0.46:
            self.command()
        elif drawn < 0.49:
            self.kill()
        elif drawn < 0.55:
            self.note("gateway killed")
            self.stack.gateway.kill(signal.SIGKILL)
            self.stack.restart_gateway()
        elif drawn < 0.60:
            device = self.draw.choice(self.devices)
            device.attrs = {"os": self.draw.choice(SYSTEMS), "ring": self.draw.randrange(4)}
            self.note(f"device {device.id} says {device.attrs}")
            self.check(device)
        elif drawn < 0.68:
            self.killed_device(self.draw.choice(self.devices))
        elif drawn < 0.98:
            self.check(self.draw.choice(self.devices))
        else:
            self.check_all()

    def note(self, text):
        self.done.append(f"{self.call}: {text}")

    def start(self):
        task, version = self.draw.choice(TASKS), self.draw.randrange(VERSIONS)
        ladder, target, priority = self.draw.choice(LADDERS), self.draw.randrange(len(TARGETS)), self.draw.choice((0, 0, 10))
        if sum(r.task == task and not r.closed() for r in self.rollouts) >= OPEN_MAX:
            return
        stages = [{"name": f"s{i}", "kind": kind, "percent": percent, "min_sample": 1000000, "max_failure": 1, "no_data_s": 0,
                   **({"audience": who} if who else {})} for i, (kind, percent, who) in enumerate(ladder)]
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        expression = TARGETS[target][0]
        run = self.stack.walle("rollout", "start", task, "--build", self.build_of(task, version), "--key", self.stack.path("release.key"),
                               "--stages", self.stack.path("stages.json"), "--priority", str(priority), "--accept-power",
                               *(("--target", expression) if expression else ()), "-o", "json", check=False)
        self.note(f"start of {task} {version}, {ladder}, {expression}, priority {priority}: {run.stdout.strip() or run.stderr.strip()}"[:300])
        if (task, version) in self.killed:
            self.assertEqual(run.returncode, 4, self.told())
            return
        if run.returncode == 4 and "open rollouts" in run.stderr:
            return  # what goes back counts as open until all that can be reached went
        self.assertEqual(run.returncode, 0, self.told())
        status, view = self.stack.api(f"/api/v1/rollouts/{json.loads(run.stdout)['id']}")
        self.assertEqual((status, view["state"]), (200, "running"), self.told())
        self.version_ids[(task, version)] = view["version_id"]
        self.rollouts.append(Rollout(view, task, version, ladder, target, priority))

    def command(self):
        if not self.rollouts:
            return
        command = self.draw.choice(("pause", "resume", "promote", "promote", "promote", "abort", "undo"))
        fit = [r for r in self.rollouts if r.allows(command)] or self.rollouts
        rollout = self.draw.choice(fit)
        allowed = rollout.allows(command)
        status, _ = self.stack.api(f"/api/v1/rollouts/{rollout.id}/{command}", "POST", {"reason": "drawn"})
        self.note(f"{command} of {rollout.id} ({rollout.task} {rollout.version}): {status}")
        self.assertEqual(status, 200 if allowed else 409, self.told())
        if allowed:
            rollout.follow(command)

    def kill(self):
        task, version = self.draw.choice(TASKS), self.draw.randrange(VERSIONS)
        manifest = next(m for m, what in self.manifests.items() if what == (task, version))
        if len(self.killed) == VERSIONS:
            return
        status, _ = self.stack.api("/api/v1/kills", "POST", {"manifest": manifest, "reason": "leaks"})
        self.note(f"kill of {task} {version}: {status}")
        self.assertIn(status, (200, 201), self.told())
        self.killed.add((task, version))
        for rollout in self.rollouts:
            if (rollout.task, rollout.version) == (task, version) and not rollout.closed():
                rollout.state = "rolled_back"

    # ---- Devices

    def arguments(self, device):
        stack = self.stack
        trust = ("--root", stack.path("root.1")) if device.rooted else ("--trust", stack.path("release.key.pub"))
        return [program("walle-device"), "--gateway", stack.gateway.url, "--enroll-token", stack.enroll_token, "--dir",
                stack.path("device" + device.id), "--id", device.id, *trust, "--attr", f"os={device.attrs['os']}", "--attr",
                f"ring={device.attrs['ring']}", "--once"]

    def wake(self, device):
        """What the device says it runs, by task."""
        run = subprocess.run(self.arguments(device), capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr + self.told())
        said = dict(re.findall(r"^state (\S+) active ([0-9a-f]{64})", run.stdout + run.stderr, re.M))
        has = {task: self.manifests.get(said.get(task, ""), (task, None)) for task in TASKS}
        for task in TASKS:
            self.assertEqual(has[task][0], task, self.told())
        return {task: has[task][1] for task in TASKS}

    def killed_device(self, device):
        child = subprocess.Popen(self.arguments(device), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(self.draw.uniform(0.005, 0.3))  # the moment of the kill: any will do
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self.note(f"device {device.id} killed")
        self.check(device)

    def desired(self, device, task):
        claims = [r for r in self.rollouts if r.task == task and r.state != "rolled_back" and (task, r.version) not in self.killed]
        has, by, floor = device.has[task], device.by[task], device.floor[task]
        rollout, rule = rules(claims, device, has, by, 0)
        if rollout and rollout.version != has and floor > 0:
            rollout, rule = rules(claims, device, has, by, floor)
        return rollout, rule

    def check(self, device):
        """It checks in, and runs what it should."""
        should = {task: self.desired(device, task) for task in TASKS}
        versions = {task: rollout.version if rollout else None for task, (rollout, _) in should.items()}
        has = None
        for _ in range(WAKES):
            has = self.wake(device)
            if has == versions:
                break
        rules_of = {task: (rollout.id if rollout else None, rule) for task, (rollout, rule) in should.items()}
        self.assertEqual(has, versions, f"device {device.id} ({device.attrs}, {'root' if device.rooted else 'pinned'}), had {device.has}, "
                                        f"floors {device.floor}: {rules_of}" + self.told())
        for task, (rollout, _) in should.items():
            if rollout and device.has[task] != rollout.version:
                device.by[task] = rollout.counter
                device.floor[task] = max(device.floor[task], rollout.floor)
            device.has[task] = versions[task]
        task = TASKS[self.call % len(TASKS)]
        self.check_why(device, task, *should[task])

    def check_why(self, device, task, rollout, rule):
        """Where the gateway knows what decides, it says the same."""
        version_id = self.version_ids[(task, rollout.version)] if rollout else None
        status, why = self.stack.api(f"/api/v1/devices/{device.id}/why?task={self.stack.quoted(task)}")
        has_id = self.version_ids[(task, device.has[task])] if device.has[task] is not None else None
        if status == 200 and why["has_version_id"] == has_id and why["floor"] == device.floor[task]:
            self.whys += 1
            self.assertEqual(why["should_version_id"], version_id, f"{device.id}, {task}, {rule}: {why['why']}" + self.told())

    def check_all(self):
        self.note("all devices")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.check, self.devices))

    def told(self):
        return "\n".join(["", f"seed {SEED}:", *self.done])


if __name__ == "__main__":
    unittest.main(verbosity=2)
