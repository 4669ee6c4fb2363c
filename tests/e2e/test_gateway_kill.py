"""kill -9 of the gateway at random moments of a rollout: what was acknowledged is neither lost nor counted twice.

A fleet of virtual devices (the real runtime over real sockets) takes a version in stages while the gateway is killed 20 times and started
again on the same folder. The fleet's own ledger is the truth the gateway's counters are compared with.
"""
import json
import os
import random
import signal
import subprocess
import time
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

DEVICES = 400
KILLS = 20
STAGES = [
    {"name": "gray 5 %", "kind": "gray", "percent": 5, "min_sample": 5, "min_dwell_s": 3, "max_failure": 0.05},
    {"name": "gray 30 %", "kind": "gray", "percent": 30, "min_sample": 40, "min_dwell_s": 4, "max_failure": 0.05},
    {"name": "full", "kind": "full", "percent": 100, "min_sample": 200, "min_dwell_s": 1, "max_failure": 0.05},
]


class GatewayKill(unittest.TestCase):
    def test_killed_during_a_rollout(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}")
        self.draw = random.Random(seed)
        with Stack() as stack:
            stack.start_gateway("--set", "rollout.tick_ms=100")
            public_key = stack.walle("key", "new", "--out", stack.path("key")).stdout.strip().splitlines()[-1]
            build = stack.path("build")
            stack.walle("task", "build", os.path.join(SOURCE, "conf/tasks/ipv"), "--out", build)
            stack.walle("task", "push", build)
            fleet = self.start_fleet(stack, public_key)
            rollout = self.start_rollout(stack, build)
            self.kill_and_restart(stack, rollout)
            final = wait_until(lambda: self.finished(stack, rollout), timeout_s=180, what="all devices counted")
            ledger = self.stop_fleet(stack, fleet)
            self.compare(final, ledger)
            self.assertEqual(stack.gateway.stop(), 0)
            check = subprocess.run([program("walle-store"), "check", stack.path("gateway")], capture_output=True, text=True)
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def start_fleet(self, stack, public_key):
        log = open(stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        return stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", stack.gateway.url, "--enroll-token", stack.enroll_token, "--trust", public_key,
                           "--per-carrier", "50", "--checkin-interval", "5", "--hints", "--task", "ipv", "--until-stopped", "--no-live", "--out",
                           stack.path("fleet"), stdout=log, stderr=subprocess.STDOUT)

    def start_rollout(self, stack, build):
        path = stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        run = stack.walle("rollout", "start", "ipv", "--build", build, "--key", stack.path("key"), "--stages", path, "-o", "json")
        return json.loads(run.stdout)["id"]

    def kill_and_restart(self, stack, rollout):
        stages_seen = set()
        for _ in range(KILLS):
            time.sleep(self.draw.uniform(0.05, 0.7))  # the moment of the kill: any will do
            stack.gateway.kill(signal.SIGKILL)
            stack.restart_gateway("--set", "rollout.tick_ms=100")
            status, state = stack.api(f"/api/v1/rollouts/{rollout}")
            self.assertEqual(status, 200)
            self.assertIn(state["state"], ("running", "completed"))
            stages_seen.add(state["stage"]["index"])
        print(f"stages seen after restarts: {sorted(stages_seen)}")

    @staticmethod
    def finished(stack, rollout):
        status, state = stack.api(f"/api/v1/rollouts/{rollout}")
        done = status == 200 and state["state"] == "completed" and state["counts"]["succeeded"] >= DEVICES
        return state if done else None

    def stop_fleet(self, stack, fleet):
        fleet.send_signal(signal.SIGTERM)
        code = fleet.wait(60)
        with open(stack.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.assertEqual(code, 0, text[-3000:])
        with open(stack.path("fleet", "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def compare(self, final, ledger):
        version = next(v for v in ledger["versions"] if v["manifest"] == final["manifest"])
        counts = final["counts"]
        for gateway_name, ledger_name in (("downloaded", "downloaded"), ("activated", "activated"), ("succeeded", "ran")):
            self.assertEqual(counts[gateway_name], version[ledger_name], f"{gateway_name}: gateway {counts}, ledger {version}")
        self.assertEqual(version["ran"], DEVICES)
        self.assertEqual(counts["failed"], 0)
        by_stage = sum(stage["counts"]["succeeded"] for stage in final["stages"])
        self.assertEqual(by_stage, DEVICES, "each device counts in one stage")


if __name__ == "__main__":
    unittest.main()
