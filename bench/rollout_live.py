"""Release, abort, undo and kill against 100,000 virtual devices that are online: how long until they have it, how long until they
stopped.

Every device runs the device runtime in walle-fleet-sim and keeps a hint stream open to a real gateway over real sockets. The
rollout has one stage for everybody. Times count from the operator's command to the gateway's durable counts, polled every
20 ms: `activated` for the release, `on_version` for the ways back. Used by rollout_bench.py.

    rollout.t50_s, .t90_s, .t99_s   from start to 50, 90 and 99 % of the devices activated; peers, computed from their documented
                                    limits and not run: the least that hawkBit and AWS IoT Jobs can take
    rollout.abort_s                 from the abort of an open rollout to the last device stopped (100 %)
    rollout.undo_s                  the same from the undo of one whose last stage is over
    rollout.kill_s                  the same from the kill of an open one
"""
import json
import os
import re
import subprocess
import time

from bench_stack import BenchStack

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEVICES, DEVICES_QUICK = 100000, 10000
SHARES = (("t50_s", 0.5), ("t90_s", 0.9), ("t99_s", 0.99))
# Computed, not measured: what the rivals need at least, with downloads, starts and answers that take no time. hawkBit: devices
# poll every 300 s (its default), evenly spread, so a share of them hears within that share of 300 s. AWS IoT Jobs: 1,000 job
# executions a minute are the most that a job's rollout configuration may start.
POLL_S, AWS_PER_MINUTE = 300, 1000
HAWKBIT, AWS = f"hawkBit, computed: polls every {POLL_S} s", f"AWS IoT Jobs, computed: {AWS_PER_MINUTE} a minute"
BACK, BACK_BAR_S = ("abort_s", "undo_s", "kill_s"), 5
DEADLINE_S = 240
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1000000000, "min_dwell_s": 0, "max_failure": 0.5}]


class Live(BenchStack):
    def __init__(self, build, devices):
        super().__init__(build)
        self.devices = devices

    def start_fleet(self, public_key):
        with open(self.path("fleet.log"), "wb") as log:
            self.start("walle-fleet-sim", "run", "--devices", str(self.devices), "--gateway", self.url, "--trust", public_key,
                       "--task", "ipv", "--hints", "--arrival-rate", "20000", "--duration", "3600", "--request-timeout", "60000",
                       "--real-every", "0", "--no-live", "--out", self.path("fleet"), stdout=log, stderr=subprocess.STDOUT)

    def streams(self):
        """Open hint streams."""
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", self.url + "/metrics"], capture_output=True, text=True,
                             timeout=30, check=True)
        return int(re.search(r"^walle_hint_streams (\d+)$", run.stdout, re.M).group(1))

    def counts(self, rollout):
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-H", self.bearer(), f"{self.url}/api/v1/rollouts/{rollout}"],
                             capture_output=True, text=True, timeout=30, check=True)
        return json.loads(run.stdout)["counts"]

    def until(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                with open(self.path("fleet.log"), encoding="utf-8", errors="replace") as file:
                    raise SystemExit(f"rollout_bench: {what} not within {DEADLINE_S} s\n" + file.read()[-600:])
            time.sleep(0.02)
        return time.monotonic()

    def run(self):
        self.start_gateway("--workers", "1", "--set", "device.checkin_interval_s=3600", "--set", "limits.connections=16384",
                           "--set", "device.hint_rate_per_s=0", "--set", "rollout.tick_ms=100")
        key = self.path("release.key")
        public_key = self.walle("key", "new", "--out", key).strip().splitlines()[-1]
        self.walle("task", "build", os.path.join(ROOT, "conf/tasks/ipv"), "--out", self.path("build"))
        self.walle("task", "push", self.path("build"))
        with open(self.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        self.start_fleet(public_key)
        self.until(lambda: self.streams() >= self.devices, f"{self.devices} hint streams")
        times = {}
        rollout = self.release(key, times)
        times["abort_s"] = self.back(rollout, "abort")
        rollout = self.release(key, {})
        self.command(rollout, "promote")
        times["undo_s"] = self.back(rollout, "undo")
        times["kill_s"] = self.back(self.release(key, {}), "kill")
        return times

    def command(self, rollout, name):
        """The moment before it."""
        began = time.monotonic()
        subprocess.run(["curl", "-sS", "--fail-with-body", "--http2-prior-knowledge", "--json", '{"reason": "measured"}', "-H",
                        self.bearer(), f"{self.url}/api/v1/rollouts/{rollout}/{name}"], timeout=60, check=True, stdout=subprocess.DEVNULL)
        return began

    def release(self, key, times):
        """A rollout that everybody has; `times` gets how long each share took."""
        rollout = json.loads(self.walle("rollout", "start", "ipv", "--build", self.path("build"), "--key", key, "--stages",
                                        self.path("stages.json"), "--trust-unproven", "--accept-empty", "--no-start", "-o", "json"))["id"]
        began = self.command(rollout, "start")
        for name, share in SHARES:
            reached = lambda wanted=share: self.counts(rollout)["activated"] >= wanted * self.devices
            times[name] = self.until(reached, f"{share:.0%} of the devices") - began
        self.until(lambda: self.counts(rollout)["activated"] >= self.devices, "all devices")
        return rollout

    def back(self, rollout, name):
        """Seconds from the command until nobody has it."""
        began = self.command(rollout, name)
        return self.until(lambda: self.counts(rollout)["on_version"] == 0, f"the {name}") - began


def peers(devices):
    """Per name: [(peer, seconds)]; of the release what is computed for the rivals, of the ways back the bar."""
    aws_s = devices / AWS_PER_MINUTE * 60
    return {**{name: [(HAWKBIT, share * POLL_S), (AWS, share * aws_s)] for name, share in SHARES},
            **{name: [("bar", BACK_BAR_S)] for name in BACK}}


def run(args):
    """The part of rollout_bench.py; 0 when each way back reached everybody in time."""
    count = args.devices or (DEVICES_QUICK if args.quick else DEVICES)
    live = Live(args.build, count)
    try:
        times = live.run()
    finally:
        live.close()
    lines = [{"bench": f"rollout.{name}", "ours": round(times[name], 3), "peer": peer, "theirs": theirs, "unit": "s",
              "ratio": round(times[name] / theirs, 4), "better": "lower", "detail": {"devices": count}}
             for name, rivals in peers(count).items() for peer, theirs in rivals]
    os.makedirs(os.path.join(ROOT, "bench", "out"), exist_ok=True)
    with open(os.path.join(ROOT, "bench", "out", "rollout.jsonl"), "a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    print(f"{count} devices online, from the operator's command")
    print(f"{'bench':<18}{'ours':>10}{'theirs':>10}{'ratio':>9}   peer")
    for line in lines:
        print(f"{line['bench']:<18}{line['ours']:>10.2f}{line['theirs']:>10.1f}{line['ratio']:>9.4f}   {line['peer']}")
    return 0 if max(times[name] for name in BACK) <= BACK_BAR_S else 1
