#!/usr/bin/env python3
"""The release curve of 7 and 19 minutes on 22,000,000 virtual devices, in virtual time. Appends JSON lines to bench/out/fleet.jsonl.

    fleet_virtual_bench.py --build DIR [--devices N] [--threads T] [--scenario FILE] [--quick] [--keep DIR]

fleet.virtual.wall_s         seconds on this machine from the start of the program to its end; peer: the bar of 1,140, as long as
                             the release takes.
fleet.virtual.peak_mib       peak memory: resident, or resident of its own plus the gateway's files, which lie in memory; peer: the
                             bar of 12,288 MiB.
fleet.virtual.dormant_bytes  memory a device while nearly all of the fleet is dormant, gateway state included: what the run has when
                             the last one is online, less what one of 10,000 has; peer: the bar of 200 B.

The scenario is conf/scenarios/walle-19m.conf: 7 parts of 22 are online at minute 7, all at minute 19. Devices are born with a root,
two of whose keys sign the release; each runs the device runtime, and the gateway is its core as it ships. It fails where the run
does not pass, or where its curve is half a point and more below either point of the ideal one.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from enrolled import read_listeners

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
DEVICES, DEVICES_QUICK, DEVICES_BASE = 22000000, 200000, 10000
WALL_BAR_S, MEMORY_BAR_MIB, DORMANT_BAR = 1140, 12288, 200
SHORT_MAX = 0.5  # points below the ideal curve
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 500, "min_dwell_s": 1, "max_failure": 0.02}]


def fail(text):
    raise SystemExit("fleet_virtual_bench: " + text)


class Sampler:
    """Memory of the program's own and of the gateway's files, which it keeps in /dev/shm and has open."""

    def __init__(self, pid):
        self.pid = pid
        self.peak = 0
        self.last = 0

    def files(self):
        found = {}
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            path = os.readlink(f"/proc/{self.pid}/fd/{name}")
            if path.startswith("/dev/shm/walle-virtual-"):
                found[path] = os.stat(path).st_blocks * 512
        return sum(found.values())

    def look(self):
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
                own = re.search(r"^RssAnon:\s+(\d+) kB", file.read(), re.M)
            if own:
                self.last = int(own.group(1)) * 1024 + self.files()
                self.peak = max(self.peak, self.last)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended


class Bench:
    def __init__(self, args):
        self.args = args
        self.bin = os.path.join(os.path.abspath(args.build), "bin")
        self.folder = os.path.abspath(args.keep) if args.keep else tempfile.mkdtemp(prefix="walle-bench-")
        os.makedirs(self.folder, exist_ok=True)

    def close(self):
        if not self.args.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def walle(self, *arguments):
        run = subprocess.run([os.path.join(self.bin, "walle"), *arguments], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "WALLE_GATEWAY": self.url}, check=False)
        if run.returncode != 0:
            fail(f"walle {' '.join(arguments)}: {run.stdout}{run.stderr}")

    def release(self):
        """A folder of a gateway with a root and a rollout to everybody; the gateway does not run any more."""
        with open(self.path("gateway.log"), "wb") as log, open(self.path("stages.json"), "w", encoding="utf-8") as stages:
            json.dump(STAGES, stages)
            gateway = subprocess.Popen([os.path.join(self.bin, "walle-gateway"), "--dir", self.path("gateway"), "--tls", "127.0.0.1:0",
                                        "--h2c", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            self.url = f"http://127.0.0.1:{read_listeners(gateway)['h2c']}"
            for name in ("a", "b", "ci", "lead"):
                self.walle("key", "new", "--out", self.path(name + ".key"))
            self.walle("root", "init", "--out", self.path("root.1"), "--key", self.path("a.key"), "--key", self.path("b.key"),
                       "--release", self.path("ci.key.pub"), "--release", self.path("lead.key.pub"))
            self.walle("root", "push", self.path("root.1"))
            self.walle("task", "build", os.path.join(ROOT, "conf/tasks/ipv"), "--out", self.path("build"))
            self.walle("task", "push", self.path("build"))
            self.walle("rollout", "start", "ipv", "--build", self.path("build"), "--stages", self.path("stages.json"), "--key",
                       self.path("ci.key"), "--key", self.path("lead.key"), "--trust-unproven", "--accept-empty")
        finally:
            gateway.terminate()
            gateway.wait(60)

    def play(self, devices):
        """(run.json, seconds, peak bytes, bytes when the last device was online)"""
        out = self.path(f"out-{devices}")
        more = ["--threads", str(self.args.threads)] if self.args.threads > 1 else []
        began = time.monotonic()
        run = subprocess.Popen([os.path.join(self.bin, "walle-fleet-sim"), "run", "--scenario", self.args.scenario, "--virtual",
                                self.path("gateway"), "--root", self.path("root.1"), "--task", "ipv", "--devices", str(devices),
                                "--no-live", "--out", out, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        sampler = Sampler(run.pid)
        with open(out + ".log", "w", encoding="utf-8") as log:
            for line in run.stdout:
                log.write(line)
                if re.match(r"\d+ s: online", line):
                    sampler.look()
        run.wait()
        took_s = time.monotonic() - began
        if run.returncode not in (0, 1):
            with open(out + ".log", encoding="utf-8") as log:
                fail(f"the run of {devices} devices, exit {run.returncode}: {log.read()[-2000:]}")
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        return result, took_s, max(sampler.peak, result["peak_rss_bytes"]), sampler.last


def keep(lines):
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "fleet.jsonl"), "a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
            print(json.dumps(line))


def row(name, ours, bar, unit, detail):
    return {"bench": "fleet.virtual." + name, "ours": ours, "peer": "bar", "theirs": bar, "unit": unit,
            "ratio": round(ours / bar, 3), "better": "lower", "detail": detail}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--devices", type=int, default=0, help=f"virtual devices ({DEVICES})")
    parser.add_argument("--threads", type=int, default=1, help="threads of the simulator")
    parser.add_argument("--scenario", default=os.path.join(ROOT, "conf", "scenarios", "walle-19m.conf"))
    parser.add_argument("--quick", action="store_true", help=f"{DEVICES_QUICK} devices")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and keep it")
    args = parser.parse_args()
    devices = args.devices or (DEVICES_QUICK if args.quick else DEVICES)
    if devices < 2 * DEVICES_BASE:
        fail(f"--devices {devices}: at least {2 * DEVICES_BASE}, for what a device costs is told by comparing")
    bench = Bench(args)
    try:
        bench.release()
        _, _, _, base = bench.play(DEVICES_BASE)
        result, took_s, peak, last = bench.play(devices)
    finally:
        bench.close()
    ideal = result["delay_over_ideal"]
    version = max(result["versions"], key=lambda item: item["ran"], default={"ran": 0})
    detail = {"devices": devices, "threads": args.threads, "scenario": os.path.basename(args.scenario), "passed": result["passed"],
              "ran": version["ran"], "virtual_s": result["duration_s"], "loop_s": round(result["virtual"]["took_s"], 1),
              "us_a_device": round(took_s * 1e6 / devices, 2), "digest": result["virtual"]["digest"], "delay_over_ideal": ideal,
              "oracles_broken": [item["name"] for item in result["oracles"] if not item["holds"]]}
    keep([row("wall_s", round(took_s, 1), WALL_BAR_S, "s", detail),
          row("peak_mib", round(peak / 1048576, 1), MEMORY_BAR_MIB, "MiB", {"devices": devices}),
          row("dormant_bytes", round((last - base) / (devices - DEVICES_BASE), 1), DORMANT_BAR, "B",
              {"devices": devices, "as_the_run_says": result["virtual"].get("dormant_bytes")})])
    for point in ideal["at_points"] if ideal else []:
        print(f"at {point['ideal_s']:.0f} s {point['ran']:.0f} of {point['devices']:.0f} devices had run it, "
              f"{point['short_points']:.3f} points short of the ideal")
    for share in ideal["at_shares"] if ideal else []:
        print(f"{share['share']:.0%} of the fleet: " + ("not reached" if share["delay_s"] is None else
                                                        f"{share['delay_s']:.2f} s later than the ideal"))
    print(f"{devices} devices: {took_s:.0f} s of wall time, {peak / 1048576:.0f} MiB at peak, "
          f"{(last - base) / (devices - DEVICES_BASE):.0f} B a device")
    if not result["passed"] or not ideal or any(point["short_points"] > SHORT_MAX for point in ideal["at_points"]):
        print("fleet_virtual_bench: the run did not reach the curve: " + result["ended"], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
