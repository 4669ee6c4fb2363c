#!/usr/bin/env python3
"""Benchmarks of the tunnel over real TLS sockets. Prints a table and appends JSON lines to bench/out/tunnel.jsonl.

    tunnel_bench.py --build DIR [--quick] [--only NAME] [--seed N]

tunnel.p90_3k, .p99_30k   ms from the call that sends a batch to its durable acknowledgement, warm connections, pauses of 0.2 to
                          0.5 s between two, over a link of 25 ms each way with 1 % of the packets lost (each way). The link joins
                          two network namespaces (link_emulator), so the TCP is the kernel's own; needs root. Bars: round trip
                          + 10 ms for 90 % at 3 KB, 250 ms for 99 % at 30 KB. `detail` has p50, p90, p99 at 0.5, 3 and 30 KB.
tunnel.phone.p90_3k, .phone.p99_30k   the same with the kernel of a phone on the device's side, ours and the peers': none has the option
                          of a least time before data is sent again (TCP_RTO_MIN_US, Linux 6.16); the servers have it.
tunnel.own.p90_3k, .own.p99_30k   ours beside the peers with the sockets that they make themselves (both set TCP_NODELAY).
tunnel.loopback_30k       the same without the link: p99, every acknowledgement behind an fdatasync. Bar: 3 ms. Peer `disk`: a write of
                          30 KB and an fdatasync, nothing else; the other peers do not sync. Peer `tmpfs`, here and below: ourselves with the log in memory,
                          which tells what the disk costs.
tunnel.ingest             durable batches of 1 KB a second, the whole gateway (one worker, its writer, everything) on one core,
                          400 devices on 8 connections. Bar: 50,000. `detail` has them by the server's CPU seconds too, which a
                          busy machine does not change.

tunnel.idle               growth of the gateway's resident memory per open, idle tunnel stream, 20,000 on 20 connections. Bar:
                          1,536 bytes.

Peers in the same run, same payloads, same link, TLS, turns taken: NATS JetStream with file storage (publish with
acknowledgement; it syncs every two minutes, not before it acknowledges) and mosquitto with QoS 1 and persistence on (it
writes its store now and then). Their sockets, on both sides, get the options that ours have (tunnel_sockets.h): TCP_NODELAY, buffers, unsent
data, user timeout, least retransmission time, keepalive, BBR begun anew after a pause, acknowledgements at once. `ratio` is ours / theirs.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES, SIZES_PHONE = (500, 3000, 30000), (3000, 30000)
OURS, PHONE, OWN = "ours", "phone", "own"  # options of the peers' sockets; PHONE: of ours, too
LINK_RUNS = {"walle": ((OURS, SIZES), (PHONE, SIZES_PHONE)), "tmpfs": ((OURS, SIZES_PHONE), (PHONE, SIZES_PHONE))}
LINK_RUNS_PEER = ((OWN, SIZES_PHONE), (OURS, SIZES), (PHONE, SIZES_PHONE))
DELAY_US, LOSS_PPM = 25000, 10000
NAMES = ("walle-bench-a", "walle-bench-b")
ADDRESSES = ("10.201.77.1", "10.201.77.2")
BAR_P90_OVER_RTT_MS, BAR_P99_MS, BAR_LOOPBACK_MS, BAR_INGEST, BAR_IDLE_BYTES = 10, 250, 3, 50000, 1536


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def urgent(yes):
    """Latency rows run in the real-time class where that is permitted, all servers and clients alike: what else the machine does
    then costs them no turn."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO if yes else os.SCHED_OTHER, os.sched_param(10 if yes else 0))
    except (OSError, AttributeError):
        pass


class Link:
    """Two namespaces and what joins them."""

    def __init__(self, program, seed, loss_ppm=LOSS_PPM):
        self.remove()
        for name in NAMES:
            run("ip", "netns", "add", name)
        self.process = subprocess.Popen([program, *NAMES, "--delay-us", str(DELAY_US), "--loss-ppm", str(loss_ppm), "--seed", str(seed)],
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise OSError("the link emulator did not start")
        for name, address in zip(NAMES, ADDRESSES):
            for device in ("lo", "link0"):
                run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "-n", name, "addr", "add", address + "/24", "dev", "link0")

    @staticmethod
    def remove():
        for name in NAMES:
            run("ip", "netns", "del", name, check=False)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        told = self.process.communicate()[0].strip()
        self.remove()
        return json.loads(told)

    def rtt_ms(self, port):
        """Median of TCP handshakes: what the link itself takes."""
        text = ("import socket,time,statistics\nt=[]\nfor i in range(15):\n b=time.perf_counter()\n"
                f" s=socket.create_connection(('{ADDRESSES[1]}',{port}))\n t.append(time.perf_counter()-b)\n s.close()\n"
                "print(statistics.median(t)*1000)")
        return float(run("ip", "netns", "exec", NAMES[0], sys.executable, "-c", text).stdout)


class Bench:
    def __init__(self, args):
        self.bin = os.path.join(os.path.abspath(args.build), "bin")
        self.quick = args.quick
        self.folder = tempfile.mkdtemp(prefix="walle-tunnel-")
        self.children = []
        self.lines = []
        self.memory = tempfile.mkdtemp(prefix="walle-tunnel-", dir="/dev/shm") if os.path.isdir("/dev/shm") else None
        self.certificate = os.path.join(self.folder, "cert.pem")
        self.key = os.path.join(self.folder, "key.pem")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,IP:" + ADDRESSES[1], "-keyout", self.key, "-out", self.certificate)

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for folder in (self.folder, self.memory):
            if folder:
                shutil.rmtree(folder, ignore_errors=True)

    def program(self, name):
        return os.path.join(self.bin, name)

    def start(self, prefix, *command):
        child = subprocess.Popen([*prefix, *command], stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.folder, "log"), "ab"))
        self.children.append(child)
        return child

    def stop(self, child):
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self.children.remove(child)

    def serve(self, what, host, prefix):
        """Starts a server; returns (child, port)."""
        port = free_port()
        store = tempfile.mkdtemp(prefix=what + "-", dir=self.memory if what == "tmpfs" else self.folder)
        if what in ("walle", "tmpfs"):
            child = self.start(prefix, self.program("walle-gateway"), "--dir", store, "--workers", "1", "--tls", f"{host}:{port}",
                               "--h2c", "none", "--log", "warn", "--set", "tunnel.device_batches_per_s=1000000",
                               "--set", "tunnel.unproven_percent=100", "--set", "tunnel.unknown_uploads=accept",
                               "--set", "tls.certificate=" + self.certificate, "--set", "tls.key=" + self.key)
        elif what == "nats":
            path = os.path.join(store, "nats.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'listen: "{host}:{port}"\njetstream {{ store_dir: "{store}" }}\n'
                           f'tls {{ cert_file: "{self.certificate}", key_file: "{self.key}" }}\n')
            child = self.start(prefix, "nats-server", "-c", path)
        else:
            path = os.path.join(store, "mosquitto.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"user root\nlistener {port} {host}\nallow_anonymous true\ncertfile {self.certificate}\nkeyfile {self.key}\n"
                           f"persistence true\npersistence_location {store}/\nmax_inflight_messages 0\nmax_queued_messages 200000\n"
                           "set_tcp_nodelay true\nlog_type error\n")
            child = self.start(prefix, "mosquitto", "-c", path)
        return child, port

    def tune_peer(self, what, child):
        """A peer's listening sockets get the options that ours have: connections take them over."""
        if what in ("walle", "tmpfs"):
            return
        told = run(self.program("tunnel_tune"), str(child.pid), check=False)
        if told.returncode != 0:
            raise SystemExit("tunnel_bench: the options of the peer's sockets could not be set (root is needed)")

    def wait_for(self, prefix, host, port):
        text = f"import socket\nsocket.create_connection(('{host}',{port}),5).close()"
        for _ in range(200):
            if subprocess.run([*prefix, sys.executable, "-c", text], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit(f"tunnel_bench: nobody listens on {host}:{port}")

    def load(self, what, prefix, host, port, pid, mode, size, connections, count, gap, seconds, devices=400, sockets=OURS):
        if what in ("walle", "tmpfs"):
            command = [self.program("tunnel_load"), f"{host}:{port}", "--mode", mode, "--bytes", str(size), "--connections", str(connections),
                       "--count", str(count), "--gap-ms", str(gap[0]), "--gap-to-ms", str(gap[1]), "--seconds", str(seconds),
                       "--pid", str(pid), "--devices", str(devices), *(["--phone"] if sockets == PHONE else [])]
        else:
            command = [self.program("tunnel_" + what), host, str(port), self.certificate, mode, str(size), str(connections), str(count),
                       str(gap[0]), str(gap[1]), str(seconds), str(pid), sockets]
        out = subprocess.run([*prefix, *command], stdout=subprocess.PIPE, text=True, check=False, timeout=seconds + 120)
        if out.returncode != 0:
            raise SystemExit(f"tunnel_bench: {' '.join(command)} failed")
        return json.loads(out.stdout)

    def add(self, bench, ours, peer, theirs, unit, better, **detail):
        self.lines.append({"bench": bench, "ours": round(ours, 3), "peer": peer, "theirs": round(theirs, 3), "unit": unit,
                           "ratio": round(ours / theirs, 4) if theirs else None, "better": better, **detail})

    def peers(self):
        return [name for name, server in (("nats", "nats-server"), ("mosquitto", "mosquitto"))
                if os.path.exists(self.program("tunnel_" + name)) and shutil.which(server, path=os.environ["PATH"] + ":/usr/sbin")]

    # ---- Rows

    def over_link(self, seed):
        try:
            link = Link(self.program("link_emulator"), seed)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"tunnel_bench: no network namespaces here (root, CAP_NET_ADMIN and /dev/net/tun are needed): {error}; "
                  "rows tunnel.p90_3k, tunnel.p99_30k and the like are left out", file=sys.stderr)
            Link.remove()
            return
        inside = [["ip", "netns", "exec", name] for name in NAMES]
        connections, count = (16, 20) if self.quick else (24, 100)
        table, rtt_ms = {}, None
        try:
            for what in ["walle", *self.peers(), *self.without_disk()]:
                for sockets, sizes in LINK_RUNS.get(what, LINK_RUNS_PEER):
                    server, port = self.serve(what, ADDRESSES[1], inside[1])
                    self.wait_for(inside[0], ADDRESSES[1], port)
                    if sockets != OWN:
                        self.tune_peer(what, server)
                    rtt_ms = rtt_ms or link.rtt_ms(port)
                    for size in sizes:
                        table[what, sockets, size] = self.load(what, inside[0], ADDRESSES[1], port, server.pid, "latency", size, connections,
                                                               count, (200, 500), 300, sockets=sockets)
                    self.stop(server)
        finally:
            told = link.close()
        detail = {f"{what}_{sockets}_{size}": {key: got[key] for key in ("samples", "p50_ms", "p90_ms", "p99_ms", "max_ms")}
                  for (what, sockets, size), got in table.items()}
        congestion = run("cat", "/proc/sys/net/ipv4/tcp_congestion_control").stdout.strip()
        print(f"link: round trip {rtt_ms:.1f} ms, lost {told['lost']} of {told['passed']} packets, seed {told['seed']}, {congestion}")
        print("%-12s %-8s %8s %10s %10s %10s %10s" % ("over link", "sockets", "bytes", "p50 ms", "p90 ms", "p99 ms", "max ms"))
        for (what, sockets, size), got in table.items():
            print("%-12s %-8s %8d %10.1f %10.1f %10.1f %10.1f" % (what, sockets, size, got["p50_ms"], got["p90_ms"], got["p99_ms"], got["max_ms"]))
        for prefix, sockets in (("tunnel.", OURS), ("tunnel.own.", OWN), ("tunnel.phone.", PHONE)):
            for name, size, key, bar in (("p90_3k", 3000, "p90_ms", rtt_ms + BAR_P90_OVER_RTT_MS), ("p99_30k", 30000, "p99_ms", BAR_P99_MS)):
                mine = PHONE if sockets == PHONE else OURS
                theirs = {"bar": bar, **{peer: table[peer, sockets, size][key] for peer in self.peers()}}
                if sockets != OWN and self.memory:
                    theirs["tmpfs"] = table["tmpfs", sockets, size][key]
                for peer, ms in theirs.items():
                    self.add(prefix + name, table["walle", mine, size][key], peer, ms, "ms", "lower",
                             **({"rtt_ms": rtt_ms, "seed": told["seed"], "detail": detail} if peer == "bar" else {}))

    def disk(self, size, count):
        """What the disk alone takes: appending `size` bytes and fdatasync, one after the other. Same keys as a load."""
        took = []
        with open(os.path.join(self.folder, "probe"), "ab", buffering=0) as file:
            began = time.perf_counter()
            for _ in range(count):
                before = time.perf_counter()
                file.write(bytes(size))
                os.fdatasync(file.fileno())
                took.append((time.perf_counter() - before) * 1000)
                time.sleep(0.003)
        took.sort()
        return {"samples": count, "p50_ms": took[count // 2], "p90_ms": took[count * 9 // 10], "p99_ms": took[count * 99 // 100],
                "max_ms": took[-1], "seconds": time.perf_counter() - began}

    def without_disk(self):
        return ("tmpfs",) if self.memory else ()

    def rounds(self, name, one, key, bar, unit, better, more=()):
        results = {what: [] for what in ["walle", *self.peers(), *more]}
        for _ in range(1 if self.quick else 3):
            for what in results:
                results[what].append(one(what))
        middle = {what: statistics.median(key(got) for got in all_of) for what, all_of in results.items()}
        spread = {what: (max(map(key, all_of)) - min(map(key, all_of))) / middle[what] for what, all_of in results.items()}
        self.add(name, middle["walle"], "bar", bar, unit, better, spread=spread, detail=results)
        for peer in [*self.peers(), *more]:
            self.add(name, middle["walle"], peer, middle[peer], unit, better, spread=spread)

    def loopback(self):
        def one(what):
            if what == "disk":
                return self.disk(30200, 200 if self.quick else 800)
            server, port = self.serve(what, "127.0.0.1", [])
            self.wait_for([], "127.0.0.1", port)
            self.tune_peer(what, server)
            got = self.load(what, [], "127.0.0.1", port, server.pid, "latency", 30000, 4, 100 if self.quick else 500, (5, 20), 120)
            self.stop(server)
            return got
        self.rounds("tunnel.loopback_30k", one, lambda got: got["p99_ms"], BAR_LOOPBACK_MS, "ms", "lower", more=("disk", *self.without_disk()))

    def ingest(self):
        def one(what):
            server, port = self.serve(what, "127.0.0.1", ["taskset", "-c", "0"])
            self.wait_for([], "127.0.0.1", port)
            self.tune_peer(what, server)
            got = self.load(what, ["taskset", "-c", "1"], "127.0.0.1", port, server.pid, "flood", 1000, 8, 0, (0, 0), 3 if self.quick else 6)
            self.stop(server)
            got["per_cpu_s"] = round(got["done"] / max(got["server_cpu_s"], 0.01))
            return got
        self.rounds("tunnel.ingest", one, lambda got: got["per_s"], BAR_INGEST, "batches/s on one core", "higher", more=self.without_disk())
        for line in self.lines:
            if line["bench"] == "tunnel.ingest" and line["peer"] == "bar":
                for what, all_of in line["detail"].items():
                    print("ingest %-10s %9.0f a second, %9.0f a CPU second of the server" % (
                        what, statistics.median(got["per_s"] for got in all_of), statistics.median(got["per_cpu_s"] for got in all_of)))

    def idle(self):
        server, port = self.serve("walle", "127.0.0.1", [])
        self.wait_for([], "127.0.0.1", port)
        got = self.load("walle", [], "127.0.0.1", port, server.pid, "idle", 1000, 20, 0, (0, 0), 1, devices=20000)
        self.stop(server)
        self.add("tunnel.idle", got["each"], "bar", BAR_IDLE_BYTES, "bytes per stream", "lower", detail=got)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", required=True, help="build folder, as build/release")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument("--seed", type=int, default=1, help="of what the link loses")
    args = parser.parse_args()
    rows = "tunnel.p90_3k tunnel.p99_30k tunnel.own.p90_3k tunnel.own.p99_30k tunnel.phone.p90_3k tunnel.phone.p99_30k tunnel.loopback_30k tunnel.ingest tunnel.idle"
    if args.only and not any(args.only in name for name in rows.split()):
        parser.error(f"--only {args.only}: the rows are {rows}")
    print(f"seed {args.seed}")
    bench = Bench(args)
    try:
        over_link = [name for name in rows.split() if name.endswith((".p90_3k", ".p99_30k"))]
        for names, row, latency in ((over_link, lambda: bench.over_link(args.seed), True),
                                    (("tunnel.loopback_30k",), bench.loopback, True), (("tunnel.ingest",), bench.ingest, False),
                                    (("tunnel.idle",), bench.idle, False)):
            if not args.only or any(args.only in name for name in names):
                urgent(latency)
                row()
    finally:
        bench.close()
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    with open(os.path.join(HERE, "out", "tunnel.jsonl"), "a", encoding="utf-8") as file:
        for line in bench.lines:
            file.write(json.dumps(line) + "\n")
            print(json.dumps({key: value for key, value in line.items() if key != "detail"}))
    print("%-22s %-11s %12s %12s %9s" % ("", "peer", "ours", "theirs", "ratio"))
    for line in bench.lines:
        print("%-22s %-11s %12.2f %12.2f %9s  %s" % (line["bench"], line["peer"], line["ours"], line["theirs"], line["ratio"], line["unit"]))


if __name__ == "__main__":
    main()
