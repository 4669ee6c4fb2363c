"""Identical versions through real sockets: how often a rollout that changes nothing is stopped (part `sockets` of rollout_bench.py).

A gateway and a fleet of virtual devices, as they ship. Version 2 is the script of version 1, and of both one run in a hundred
fails. What is heard of when depends on the outcome:

    late    successes are heard of 8 s after failures
    early   failures are heard of 8 s after successes
    tail    successes are late by times with a heavy tail, 1 to 30 s

Every rollout has a gateway, a fleet and a seed of its own; its gray stage has 40 % of the devices, and with the rules that
compare as many as control. It is stopped when the gateway takes it back, ever, until everybody's window is over.

Every rollout is a line of bench/out/rollout_sockets.jsonl, with the build that played it. The part succeeds when `logrank` stopped no
more than one in 30 rollouts, and in no cell certainly (95 %) more than alpha.

gate.null.sockets.CELL   share of the rollouts stopped with the rule `logrank`; peer: alpha
gate.null.sockets.CELL.RULE   the same with other rules (--rules)
"""
import concurrent.futures
import json
import os
import subprocess
import time

from bench_stack import BenchStack
from rollout_null import build_of, interval

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TASK = "same"
DEVICES, RUNS, RUNS_QUICK = 1000, 20, 2
FAILING = 0.01
LATE_MS = 8000
TAIL = (("3%", 30000), ("10%", 15000), ("30%", 5000), ("100%", 1000))  # share of those left, how late
INTERVAL_S = 5
WINDOW_S = 45
ALPHA, MAX_FAILURE, MAX_RISE = 0.05, 0.05, 0.05
PERCENT = 40
DEADLINE_S = 600
RULES = ("logrank", "threshold", "sequential")
RUNS_PER_STOP = 30


# What devices do with both versions, as the simulator's rules: how a run fails, how late successes are; and how long a run may take.
CELLS = {"late": ("exception", [("100%", LATE_MS)], 1000), "early": ("hang", [], LATE_MS), "tail": ("exception", TAIL, 1000)}


class Null(BenchStack):
    """One rollout of an identical version."""

    def __init__(self, build, cell, rule, seed, devices=DEVICES, failing=FAILING, alpha=ALPHA, max_failure=MAX_FAILURE,
                 window_s=WINDOW_S):
        super().__init__(build)
        how, late, self.time_ms = CELLS[cell]
        self.bad = [f"all => {how} @ {failing} each", *(f"all => slow {ms} @ {share} each" for share, ms in late)]
        self.rule, self.seed, self.devices, self.alpha, self.max_failure, self.window_s = rule, seed, devices, alpha, max_failure, window_s

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return self.path(name)

    def api(self, path):
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-H", self.bearer(), self.url + path], capture_output=True, text=True,
                             timeout=120, check=True)
        return json.loads(run.stdout)

    def release(self, version, stages):
        """Builds the script under this version and starts its rollout."""
        source, build = self.path("source" + version), self.path("build" + version)
        os.mkdir(source)
        self.write(os.path.join(source, "task.py"), "import walle\nwalle.result(1)\n")
        self.write(os.path.join(source, "task.json"),
                   {"name": TASK, "version": version, "entry": "task", "time_ms": self.time_ms, "files": ["task.py"]})
        self.walle("task", "build", source, "--out", build)
        self.walle("task", "push", build)
        return json.loads(self.walle("rollout", "start", TASK, "--build", build, "--key", self.path("key"), "--stages",
                                     self.write(f"stages{version}.json", stages), "--accept-empty", "--accept-power", "-o",
                                     "json"))["id"]

    def start_fleet(self, public_key):
        bad = [word for rule in self.bad for word in ("--bad", rule)]
        with open(self.path("fleet.log"), "wb") as log:
            self.start("walle-fleet-sim", "run", "--devices", str(self.devices), "--seed", str(self.seed), "--gateway", self.url,
                       "--enroll-token", self.path("gateway", "enroll.token"), "--trust", public_key, "--task", TASK, "--checkin-interval",
                       str(INTERVAL_S), "--per-carrier", "250", "--real-every", "0", "--bad-version", "*", *bad, "--no-live", "--out",
                       self.path("fleet"), stdout=log, stderr=subprocess.STDOUT)

    def until(self, rollout, test, what):
        """The rollout's view, once the test holds of it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            view = self.api("/api/v1/rollouts/" + rollout)
            if test(view):
                return view
            if time.monotonic() > deadline:
                raise RuntimeError(f"rollout_sockets: {what} not within {DEADLINE_S} s: {json.dumps(view['counts'])}")
            time.sleep(0.25)

    def stages(self):
        gray = {"name": "gray", "kind": "gray", "percent": PERCENT, "min_sample": 50, "max_failure": self.max_failure, "rule": self.rule,
                "execution_timeout_s": self.window_s}
        if self.rule != "threshold":
            gray.update(alpha=self.alpha, max_rise=MAX_RISE, control=PERCENT)
        if self.rule == "logrank":
            gray["window_s"] = self.window_s
        return [gray, {"name": "full", "kind": "full", "min_sample": 1000000, "max_failure": 1}]

    def is_over(self, view, seen):
        """Stopped, gone on, or everybody's window is over and nobody new came for as long as all check in twice."""
        if view["state"] in ("rolling_back", "rolled_back") or view["stage"]["name"] != "gray":
            return True
        counts, trial = view["counts"], view["trial"]
        under_way = counts["under_way"] + (sum(trial[cohort]["under_way"] for cohort in ("updated", "control")) if trial else 0)
        if counts["offered"] != seen.get("offered") or under_way > 0 or counts["offered"] == 0:
            seen.update(offered=counts["offered"], since=time.monotonic())
        return time.monotonic() > seen["since"] + self.window_s + 2 * INTERVAL_S

    def play(self):
        """How the rollout of version 2 ended."""
        self.start_gateway("--workers", "1", "--set", "rollout.tick_ms=200", "--set", f"device.checkin_interval_s={INTERVAL_S}")
        public_key = self.walle("key", "new", "--out", self.path("key")).strip().splitlines()[-1]
        self.start_fleet(public_key)
        first = self.release("1.0.0", [{"name": "full", "kind": "full", "min_sample": self.devices, "max_failure": 1, "guard_s": 0}])
        self.until(first, lambda view: view["state"] == "completed", "version 1 on every device")
        second, seen = self.release("2.0.0", self.stages()), {}
        view = self.until(second, lambda view: self.is_over(view, seen), "the end of the windows")
        stopped = view["state"] in ("rolling_back", "rolled_back")
        return {"seed": self.seed, "stopped": stopped, "passed": not stopped and view["stage"]["name"] != "gray", "reason": view["reason"],
                "counts": view["counts"], "trial": view["trial"], "quarantine": view["quarantine"]}


def play(*arguments, **options):
    null = Null(*arguments, **options)
    try:
        return null.play()
    finally:
        null.close()


def line_of(cell, rule, ends):
    stopped = [end for end in ends if end["stopped"]]
    share = len(stopped) / len(ends)
    low, high = interval(len(stopped), len(ends))
    return {"bench": f"gate.null.sockets.{cell}" + ("" if rule == "logrank" else "." + rule), "ours": round(share, 4), "peer": "alpha",
            "theirs": ALPHA, "unit": "share stopped", "ratio": round(share / ALPHA, 4), "better": "lower",
            "detail": {"rule": rule, "runs": len(ends), "low": round(low, 4), "high": round(high, 4),
                       "passed": sum(end["passed"] for end in ends),
                       "held": sum(bool(end["quarantine"]) for end in ends),
                       "stops": [{key: end[key] for key in ("seed", "reason", "counts", "trial")} for end in stopped]}}


def run(args):
    """The part of rollout_bench.py; 0 when `logrank` stopped no more than alpha allows."""
    runs = RUNS_QUICK if args.quick else RUNS
    devices = args.devices or DEVICES
    rules = args.rules.split(",")
    jobs = [(cell, rule, seed) for rule in rules for cell in CELLS for seed in range(1, runs + 1)]
    print(f"{devices} devices, seeds 1..{runs}, {args.jobs} rollouts at once", flush=True)
    out = os.path.join(ROOT, "bench", "out")
    os.makedirs(out, exist_ok=True)
    build = build_of(os.path.join(os.path.abspath(args.build), "bin", "walle-gateway"))
    ends = {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        played = {pool.submit(play, args.build, *job, devices=devices): job for job in jobs}
        for done in concurrent.futures.as_completed(played):
            cell, rule, _ = played[done]
            ends.setdefault((cell, rule), []).append(done.result())
            with open(os.path.join(out, "rollout_sockets.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps({"build": build, "cell": cell, "rule": rule, "devices": devices, **done.result()}) + "\n")
    lines = [line_of(cell, rule, ends[cell, rule]) for rule in rules for cell in CELLS]
    with open(os.path.join(out, "rollout.jsonl"), "a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{'bench':<36}{'runs':>6}{'stopped':>9}{'95 %':>18}{'passed':>8}{'held':>6}")
    for line in lines:
        detail = line["detail"]
        print(f"{line['bench']:<36}{detail['runs']:>6}{len(detail['stops']):>9}{detail['low']:>9.1%}{detail['high']:>9.1%}"
              f"{detail['passed']:>8}{detail['held']:>6}")
    ours = [line["detail"] for line in lines if line["detail"]["rule"] == "logrank"]
    stopped, all_of_them = (sum(of) for of in zip(*((len(detail["stops"]), detail["runs"]) for detail in ours))) if ours else (0, 0)
    certain = any(detail["low"] > ALPHA for detail in ours)
    return 1 if certain or stopped * RUNS_PER_STOP > all_of_them else 0
