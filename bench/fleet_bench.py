#!/usr/bin/env python3
"""A release to a whole virtual fleet over real sockets. Prints a table and appends JSON lines to bench/out/fleet.jsonl.

    fleet_bench.py --build DIR [--devices N] [--mode interval|hints|business] [--trust root|key] [--interval SECONDS] [--quick] [--keep DIR]

fleet.real.rate      devices a second from the offer to the first run of the version in the device's own VM, between 5 % and
                     95 % of the devices, in the full stage, with a root of trust; peer: the bar of 20,000.
fleet.real.pinned    the same with a key that is pinned (--trust key); peer: the bar of 5,000.
fleet.real.peak_mib  peak resident memory of gateway plus simulator; peer: the bar of 8,192 MiB.
fleet.business.extra_requests  check-ins and reports a device made by itself until it ran the version, pulls aside, in mode
                     `business`; peer: the bar of 0.

Every device runs the device runtime; one gateway with one worker, the simulator with two threads: a device costs the
simulator, which runs its task, more than it costs the gateway, so they share the cores. The rollout starts when every
device is online. Mode `interval` (the default, and what the figures are of): devices sleep between check-ins and hear of
the version at their next one, so a device costs memory only while it is awake and the interval sets the load; wakes beyond
what the machine can do wait, and their lag is reported. Mode `hints`: every device keeps a hint stream open and is told;
memory then grows by a stream and a folded runtime for every device. A hint says when to come, at the pace of the gateway,
--hint-rate: as shipped (20,000) no rate could be above that, so it is 20,500; the spread is the shipped one, none. (A spread
of 20 s, which was the default here, alone keeps the rate of 50,000 devices at 2,500 and of a million below 18,000.)
Devices share 16 connections, with hints 40: with one for each 1,000 or 500, as they have by default, a million would have 4
awake on each, and every request and hint would cost either side system calls of its own. They never enrolled and come from
as many addresses: the bound on records of such devices from one address is set to the fleet, or the reports of most would be
put off. Trust `key`: one public key is pinned. `root` (the default):
devices are born with a root, two of whose keys sign the release, and every offer comes with a director's answer for that
device alone, which the gateway signs and the device verifies for real. Mode `business`: 10,000 enrolled devices with a root, whose
apps ask their service for something --business times a minute through the gateway's proxy; nothing else brings the version. It ends
when every device ran it and the gateway has every report.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from enrolled import read_listeners

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
DEVICES, DEVICES_QUICK, DEVICES_BUSINESS = 1000000, 20000, 10000
HINT_RATE = 20500  # as shipped, 20,000, no rate can be above 20,000; more is more than two cores can do
INTERVAL_S = 45  # a fleet that came at 25,000 a second comes back like that, as fast as the machine can take it
RATE_BARS, MEMORY_BAR_MIB = {"root": 20000, "key": 5000}, 8192
COVERAGE = 0.99
# A device that listens costs more when it comes, a stream, a second check-in and metadata, than in the rollout.
ARRIVAL_RATES = {"interval": 25000, "hints": 8000}
CARRIERS, PER_CARRIER_LEAST, PER_CARRIER_MOST = 16, 1000, 60000  # connections that devices share; the last is the simulator's
CARRIERS_HINTS = 40  # so that a connection has 50,000 streams
STREAMS, STREAMS_MOST = 2048, 100000  # of a connection: what ships, and the most it may be set to
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 500, "min_dwell_s": 1, "max_failure": 0.02}]


def fail(text):
    raise SystemExit("fleet_bench: " + text)


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) / 1024


def cpu_s(pid):
    """(in the program, in the kernel for it)"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return tuple(int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:13])


def cpu_between(before, after, of):
    return {"user": round((after[0] - before[0]) * 1e6 / of, 1), "system": round((after[1] - before[1]) * 1e6 / of, 1)}


def written_bytes(pid):
    """What it gave to write(): files, for clear sockets are sent to. The file's other figure, write_bytes, counts a page
    that is written as everything the page cache keeps with it, 2 MB perhaps, and so says ten times what reaches the disk."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(re.search(r"^wchar: (\d+)", file.read(), re.M).group(1))


class Bench:
    def __init__(self, args):
        self.args = args
        self.bin = os.path.join(os.path.abspath(args.build), "bin")
        self.folder = os.path.abspath(args.keep) if args.keep else tempfile.mkdtemp(prefix="walle-bench-")
        self.out = os.path.join(self.folder, "fleet")
        self.children = []
        os.makedirs(self.folder, exist_ok=True)

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        if not self.args.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, core, name, *arguments, **more):
        pin = ["taskset", "-c", str(core)] if self.args.threads == 1 else []
        child = subprocess.Popen([*pin, os.path.join(self.bin, name), *arguments], **more)
        self.children.append(child)
        return child

    def walle(self, *arguments):
        run = subprocess.run([os.path.join(self.bin, "walle"), *arguments], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "WALLE_GATEWAY": self.url}, check=False)
        if run.returncode != 0:
            fail(f"walle {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout

    def start_gateway(self):
        log = open(os.path.join(self.folder, "gateway.log"), "wb")
        args = self.args
        self.gateway = self.start(0, "walle-gateway", "--dir", os.path.join(self.folder, "gateway"), "--workers", "1", "--tls",
                                  "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--log", "info",
                                  "--set", f"device.checkin_interval_s={args.interval if args.mode == 'interval' else 3600}",
                                  "--set", "rollout.tick_ms=200", "--set", f"device.hint_spread_ms={args.spread_ms}",
                                  "--set", f"device.hint_rate_per_s={args.hint_rate}",
                                  "--set", f"limits.streams={min(max(STREAMS, 2 * self.per_carrier()), STREAMS_MOST)}",
                                  "--set", f"device.unproven_records={args.devices}",
                                  "--set", f"device.unproven_per_address={args.devices}",
                                  "--set", "limits.connections=16384", stdout=subprocess.PIPE, stderr=log, text=True)
        ports = read_listeners(self.gateway)
        self.url = f"http://127.0.0.1:{ports['h2c']}"

    def make_trust(self):
        """(arguments of the fleet, private keys that sign the release)"""
        key = os.path.join(self.folder, "release.key")
        public_key = self.walle("key", "new", "--out", key).strip().splitlines()[-1]
        if self.args.trust == "key":
            return ["--trust", public_key], [key]
        root, other, members = (os.path.join(self.folder, name) for name in ("root.1", "lead.key", "member"))
        for path in (other, *(members + part for part in "abc")):
            self.walle("key", "new", "--out", path)
        self.walle("root", "init", "--out", root, "--key", members + "a", "--key", members + "b", "--member", members + "c.pub",
                   "--release", key + ".pub", "--release", other + ".pub")
        self.walle("root", "push", root)
        return ["--root", root], [key, other]

    def per_carrier(self):
        carriers = CARRIERS_HINTS if self.args.mode == "hints" else CARRIERS
        return self.args.per_carrier or min(max(self.args.devices // carriers, PER_CARRIER_LEAST), PER_CARRIER_MOST)

    def start_fleet(self, trust):
        args = self.args
        self.log_path = os.path.join(self.folder, "fleet.log")
        log = open(self.log_path, "wb")
        more = ["--awake", str(args.awake), *(["--hints"] if args.mode == "hints" else ["--checkin-interval", str(args.interval)])]
        more += ["--per-carrier", str(self.per_carrier())]
        self.fleet = self.start(1, "walle-fleet-sim", "run", "--devices", str(args.devices), "--gateway", self.url, *trust,
                                "--task", "ipv", "--seed", str(args.seed), "--arrival-rate", str(args.arrival_rate),
                                "--threads", str(args.threads), "--until-coverage", str(COVERAGE), "--request-timeout", "60000", "--no-live", "--out", self.out, *more,
                                stdout=log, stderr=subprocess.STDOUT)

    def progress(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return [line for line in file if "online" in line]

    def await_online(self):
        deadline = time.monotonic() + 60 + 4 * self.args.devices / self.args.arrival_rate
        while time.monotonic() < deadline:
            if self.fleet.poll() is not None:
                fail(f"the fleet ended early, exit {self.fleet.returncode}: see {self.log_path}")
            rows = [re.search(r"online (\d+)", line) for line in self.progress()]
            if rows and rows[-1] and int(rows[-1].group(1)) >= self.args.devices:
                return
            time.sleep(0.2)
        fail("the devices did not come online: " + "".join(self.progress()[-1:]))

    def start_rollout(self, build, keys):
        path = os.path.join(self.folder, "stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        signers = [part for key in keys for part in ("--key", key)]
        return json.loads(self.walle("rollout", "start", "ipv", "--build", build, *signers, "--stages", path, "--trust-unproven",
                                     "--accept-empty", "-o", "json"))["id"]

    def run(self):
        self.start_gateway()
        build = os.path.join(self.folder, "build")
        trust, keys = self.make_trust()
        self.walle("task", "build", os.path.join(ROOT, "conf/tasks/ipv"), "--out", build)
        self.walle("task", "push", build)
        began = time.monotonic()
        self.start_fleet(trust)
        self.await_online()
        online_s = time.monotonic() - began
        before = cpu_s(self.gateway.pid), cpu_s(self.fleet.pid), time.monotonic()
        written = written_bytes(self.gateway.pid)
        rollout = self.start_rollout(build, keys)
        gateway_mib = fleet_mib = 0.0
        after = before
        deadline = time.monotonic() + 900
        while self.fleet.poll() is None and time.monotonic() < deadline:
            try:
                fleet_mib = max(fleet_mib, peak_mib(self.fleet.pid))
                after = cpu_s(self.gateway.pid), cpu_s(self.fleet.pid), time.monotonic()
            except (AttributeError, FileNotFoundError, ProcessLookupError):
                pass  # it has just ended
            time.sleep(0.1)
        if self.fleet.poll() is None:
            fail("the version did not reach the fleet in 900 s: " + "".join(self.progress()[-1:]))
        if self.gateway.poll() is not None:
            fail(f"the gateway ended during the run, exit {self.gateway.returncode}")
        gateway_mib = peak_mib(self.gateway.pid)
        written = written_bytes(self.gateway.pid) - written
        status = json.loads(self.walle("rollout", "status", rollout, "-o", "json"))
        with open(os.path.join(self.out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        fleet_mib = max(fleet_mib, result["peak_rss_bytes"] / 1048576)
        wall = after[2] - before[2]
        return {"result": result, "counts": status["counts"], "online_s": round(online_s, 1), "gateway_mib": round(gateway_mib, 1),
                "fleet_mib": round(fleet_mib, 1), "gateway_cpu": round((sum(after[0]) - sum(before[0])) / wall, 3),
                "fleet_cpu": round((sum(after[1]) - sum(before[1])) / wall, 3), "written": written, "exit": self.fleet.returncode,
                "cpu_us_a_device": {"gateway": cpu_between(before[0], after[0], self.args.devices),
                                    "fleet": cpu_between(before[1], after[1], self.args.devices)}}


class Business(Bench):
    """Devices that ride on their apps' requests, and the service behind the gateway that these are for."""

    def start_gateway(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        log = open(os.path.join(self.folder, "gateway.log"), "wb")
        self.gateway = self.start(0, "walle-gateway", "--dir", os.path.join(self.folder, "gateway"), "--workers", "1", "--tls",
                                  "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--set", "rollout.tick_ms=200", "--upstream",
                                  f"http://127.0.0.1:{self.port}", stdout=subprocess.PIPE, stderr=log, text=True)
        self.url = f"http://127.0.0.1:{read_listeners(self.gateway)['h2c']}"

    def start_fleet(self, trust):
        args = self.args
        self.log_path = os.path.join(self.folder, "fleet.log")
        log = open(self.log_path, "wb")
        self.fleet = self.start(1, "walle-fleet-sim", "run", "--devices", str(args.devices), "--gateway", self.url, *trust,
                                "--task", "ipv", "--seed", str(args.seed), "--arrival-rate", "1000", "--threads", str(args.threads),
                                "--enroll-token", os.path.join(self.folder, "gateway", "enroll.token"), "--business", str(args.business),
                                "--upstream", str(self.port), "--until-stopped", "--no-live", "--out", self.out,
                                stdout=log, stderr=subprocess.STDOUT)

    def run(self):
        self.args.arrival_rate = 1000
        self.start_gateway()
        build = os.path.join(self.folder, "build")
        trust, keys = self.make_trust()
        self.walle("task", "build", os.path.join(ROOT, "conf/tasks/ipv"), "--out", build)
        self.walle("task", "push", build)
        self.start_fleet(trust)
        self.await_online()
        began = time.monotonic()
        rollout = self.start_rollout(build, keys)
        counts = {"succeeded": 0}
        while counts["succeeded"] < self.args.devices and time.monotonic() < began + 900:
            time.sleep(0.5)
            counts = json.loads(self.walle("rollout", "status", rollout, "-o", "json"))["counts"]
        took_s = time.monotonic() - began
        self.fleet.send_signal(signal.SIGTERM)
        self.fleet.wait(120)
        with open(os.path.join(self.out, "run.json"), encoding="utf-8") as file:
            return json.load(file), counts, took_s


def business(args):
    args.devices = args.devices or DEVICES_BUSINESS
    args.trust = "root"
    bench = Business(args)
    try:
        result, counts, took_s = bench.run()
    finally:
        bench.close()
    asked = result["requests"]
    ran = max(version["ran"] for version in result["versions"])
    extra = (asked["own_checkins"] + asked["own_reports"]) / args.devices
    keep([{"bench": "fleet.business.extra_requests", "ours": extra, "peer": "bar", "theirs": 0, "unit": "requests/device", "ratio": None,
           "better": "lower", "detail": {"devices": args.devices, "business_a_minute": args.business, "ran": ran, "gateway_succeeded":
                                         counts["succeeded"], "until_all_s": round(took_s, 1), "requests": asked, "passed": result["passed"],
                                         "business_us": result["latency_us"]["business"]}}])
    print(f"{args.devices} devices, {args.business} business requests a minute each: {ran} ran it, {counts['succeeded']} told so, after "
          f"{took_s:.0f} s; {asked['business']} business requests, {asked['rides']} check-ins and {asked['ride_reports']} reports rode; "
          f"of their own {asked['own_checkins']} and {asked['own_reports']}, and {asked['pulls']} pulls")
    return 0 if result["passed"] and ran == counts["succeeded"] == args.devices and extra == 0 else 1


def keep(lines):
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "fleet.jsonl"), "a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
            print(json.dumps(line))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--devices", type=int, default=0, help=f"virtual devices ({DEVICES})")
    parser.add_argument("--mode", choices=("interval", "hints", "business"), default="interval")
    parser.add_argument("--trust", choices=("root", "key"), default="root", help="what devices are born with")
    parser.add_argument("--interval", type=int, default=INTERVAL_S, help="check-in interval in seconds, mode interval")
    parser.add_argument("--spread-ms", type=int, default=0, help="spread of a hint, mode hints")
    parser.add_argument("--hint-rate", type=int, default=HINT_RATE, help="devices a second that hints may bring, mode hints")
    parser.add_argument("--per-carrier", type=int, default=0, help="devices that share a connection")
    parser.add_argument("--business", type=float, default=6, help="requests of each device's app a minute, mode business")
    parser.add_argument("--awake", type=int, default=4096, help="devices awake at once, with hints at work")
    parser.add_argument("--arrival-rate", type=int, default=0, help="devices a second that come online (25000, with hints 8000)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the simulator; 1: it and the gateway have a core each")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--quick", action="store_true", help=f"{DEVICES_QUICK} devices")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and keep it")
    args = parser.parse_args()
    if args.mode == "business":
        return business(args)
    args.devices = args.devices or (DEVICES_QUICK if args.quick else DEVICES)
    args.arrival_rate = args.arrival_rate or ARRIVAL_RATES[args.mode]
    bench = Bench(args)
    try:
        found = bench.run()
    finally:
        bench.close()
    result = found["result"]
    version = max(result["versions"], key=lambda item: item["ran"])
    total_mib = found["gateway_mib"] + found["fleet_mib"]
    latency = result["latency_us"]
    how = f"check-in every {args.interval} s" if args.mode == "interval" else f"hint streams, pace {args.hint_rate}/s, spread {args.spread_ms} ms"
    detail = {"devices": args.devices, "mode": how, "trust": args.trust, "online": result["totals"]["arrived"], "ran": version["ran"],
              "gateway_succeeded": found["counts"]["succeeded"], "online_s": found["online_s"], "passed": result["passed"],
              "oracles_broken": [item["name"] for item in result["oracles"] if not item["holds"]],
              "gateway_mib": found["gateway_mib"], "fleet_mib": found["fleet_mib"], "gateway_cpu": found["gateway_cpu"],
              "fleet_cpu": found["fleet_cpu"], "cpu_us_a_device": found["cpu_us_a_device"], "requests": result["requests"], "gateway_written_a_device": round(found["written"] / args.devices), "generator_lag_us": latency["generator_lag"],
              "checkin_from_intended_us": latency["checkin_from_intended"], "checkin_us": latency["checkin"],
              "offer_to_run_us": latency["offer_to_run"]}
    rate_bar = RATE_BARS[args.trust]
    lines = [{"bench": "fleet.real." + ("rate" if args.trust == "root" else "pinned"), "ours": round(result["rate"], 1), "peer": "bar",
              "theirs": rate_bar, "unit": "devices/s", "ratio": round(result["rate"] / rate_bar, 3), "better": "higher", "detail": detail},
             {"bench": "fleet.real.peak_mib", "ours": round(total_mib, 1), "peer": "bar", "theirs": MEMORY_BAR_MIB, "unit": "MiB",
              "ratio": round(total_mib / MEMORY_BAR_MIB, 3), "better": "lower", "detail": {"devices": args.devices, "mode": how, "trust": args.trust}}]
    keep(lines)
    print(f"peak memory {total_mib:.0f} MiB, bar {MEMORY_BAR_MIB}; rate {result['rate']:.0f} devices/s, bar {rate_bar}; CPU in the "
          f"rollout: gateway {found['gateway_cpu']:.2f} cores, fleet {found['fleet_cpu']:.2f} cores")
    print(f"{args.devices} devices, {how}: {version['ran']} ran it ({version['ran'] / args.devices:.2%}), "
          f"{result['rate']:.0f} devices/s, {total_mib:.0f} MiB (gateway {found['gateway_mib']:.0f}, fleet {found['fleet_mib']:.0f})")
    if not result["passed"] or version["ran"] < COVERAGE * args.devices:
        print("fleet_bench: the run did not pass: " + result["ended"], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
