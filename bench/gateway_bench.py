#!/usr/bin/env python3
"""Benchmarks of the gateway against nghttpd, h2o and nginx. Prints a table and writes JSON lines to bench/out/gateway.jsonl.

    gateway_bench.py --build DIR [--quick] [--only NAME]

gateway.checkin.h2c, .tls  check-ins a second of one worker, 300 active tasks, every request with one of 1,000,000
                           devices and a profile of its own, strangers all: they have no records; peer: nghttpd, one worker, an empty file, the
                           same request headers. Rounds alternate; medians; the spread is (max - min) / median.
                           Peer h2o the same: one thread, without etags and its server header, no access log.
gateway.proven.h2c, .tls   the same of 20,000 devices that enrolled, each request with its device's credential.
gateway.offer.h2c, .tls    check-ins that bring an offer: the same devices lack one of their tasks and say which they have, and each is
                           answered with the offer of it, again and again; peers: a file of as many bytes. That a device was offered
                           it is stored with the first, before the count.
gateway.idle.h2c, .tls     growth of resident memory per connection, 9,000 connections after one request each; peer: nginx.
gateway.hint               growth per open hint stream, 200,000 on 200 connections, of devices not seen before (strangers:
                           they have no records), on an empty store; peer: the bar of 1,536 bytes.
gateway.hint.ms            from a publish (a rollout for everybody starts) to 99 % of them told; peer: the bar of 2,000 ms.

Server on core 0, generator on core 1. `ratio` is ours / theirs.
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from enrolled import enrol, read_listeners

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS, DEVICES, ENROLLED = 300, 1000000, 20000
IDLE_CONNECTIONS = 9000
HINT_CONNECTIONS, HINT_STREAMS = 200, 1000
HINT_BAR_BYTES, HINT_BAR_MS = 1536, 2000
HINT_ROLLOUT = "000000000000be7c"
SETTLE_S = 6  # idle memory is given back after three seconds


class Bench:
    def __init__(self, build, quick):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.quick = quick
        self.folder = tempfile.mkdtemp(prefix="walle-bench-")
        self.profiles = os.path.join(self.folder, "profiles.txt")
        self.lacking = os.path.join(self.folder, "lacking.txt")
        self.children = []
        self.lines = []

    def program(self, name):
        return os.path.join(self.bin, name)

    def start(self, arguments, core=0, **more):
        child = subprocess.Popen(["taskset", "-c", str(core), *arguments], **more)
        self.children.append(child)
        return child

    def stop(self, child):
        child.terminate()
        child.wait(60)
        self.children.remove(child)

    def close(self):
        for child in self.children:
            child.kill()
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Servers

    def fill(self):
        """Data directory with the tasks; devices come in through check-ins."""
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        subprocess.run([self.program("walle-gateway-fill"), data, str(TASKS), self.profiles, self.lacking], check=True)
        return data

    def gateway(self, data):
        child = self.start([self.program("walle-gateway"), "--dir", data, "--workers", "1", "--tls", "127.0.0.1:0", "--h2c",
                            "127.0.0.1:0", "--log", "error", "--set", "limits.handshakes_per_s=0", "--set", f"device.enroll_rate_per_s={ENROLLED}"],
                           stdout=subprocess.PIPE, text=True)
        ports = read_listeners(child)
        return child, f"http://127.0.0.1:{ports['h2c']}", f"https://127.0.0.1:{ports['tls']}"

    def files(self, size=0):
        root = os.path.join(self.folder, f"www{size}")
        os.makedirs(root, exist_ok=True)
        with open(os.path.join(root, "file"), "w", encoding="ascii") as file:
            file.write("a" * size)
        return root

    def await_port(self, port):
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit("the peer did not start")

    def nghttpd(self, data, tls, size=0):
        port = free_port()
        keys = [os.path.join(data, "key.pem"), os.path.join(data, "cert.pem")] if tls else []
        child = self.start(["nghttpd", "-n", "1", "-d", self.files(size), *([] if tls else ["--no-tls"]), str(port), *keys],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_port(port)
        return child, f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    def h2o(self, data, tls, size=0):
        port = free_port()
        path = os.path.join(self.folder, "h2o.conf")
        keys = f", ssl: {{certificate-file: {data}/cert.pem, key-file: {data}/key.pem, minimum-version: TLSv1.3}}" if tls else ""
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""num-threads: 1
max-connections: 4096
send-server-name: OFF
user: root
listen: {{host: 127.0.0.1, port: {port}{keys}}}
hosts:
  default:
    paths:
      /: {{file.dir: {self.files(size)}, file.etag: OFF, file.send-gzip: OFF}}
""")
        child = self.start(["h2o", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_port(port)
        return child, f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    def nginx(self, data, tls):
        port = free_port()
        folder = os.path.join(self.folder, "nginx")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "nginx.conf")
        keys = f"ssl_certificate {data}/cert.pem; ssl_certificate_key {data}/key.pem; ssl_protocols TLSv1.3;" if tls else ""
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
worker_rlimit_nofile 19000;
events {{ worker_connections 18000; }}
http {{ access_log off; keepalive_timeout 600s; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
server {{ listen 127.0.0.1:{port} {'ssl ' if tls else ''}http2; root {self.files()}; {keys} }} }}
""")
        child = self.start(["nginx", "-c", path, "-p", folder], stderr=subprocess.DEVNULL)
        self.await_port(port)
        return child, f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    # ---- Measures

    def load(self, url, *arguments):
        out = subprocess.run(["taskset", "-c", "1", self.program("walle-load"), *map(str, arguments), url], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return json.loads(out.splitlines()[-1])

    def say(self, bench, ours, peer, theirs, unit, better, **more):
        line = {"bench": bench, "ours": ours, "peer": peer, "theirs": theirs, "unit": unit,
                "ratio": round(ours / theirs, 3) if theirs else None, "better": better, **more}
        self.lines.append(line)
        print(f"{bench:22} {ours:>12,.0f} {unit:18} {peer:>10} {theirs:>12,.0f}   ratio {line['ratio']:.2f} ({better} is better)"
              f"  {more.get('note', '')}", flush=True)

    def strangers(self, url):
        """Every one of them has come once."""
        result = self.load(url, "-n", DEVICES, "-D", DEVICES, "-P", self.profiles)
        if result["status_204"] != DEVICES:
            raise SystemExit(f"devices could not check in: {result}")
        return "-D", DEVICES

    def enrolled(self, url, https, data):
        path = os.path.join(self.folder, "credentials")
        enrol(int(https.rpartition(":")[2]), data, ENROLLED, path)
        result = self.load(url, "-n", ENROLLED, "-C", path, "-P", self.profiles)
        if result["status_204"] != ENROLLED:
            raise SystemExit(f"devices could not check in: {result}")
        return "-C", path

    def checkin(self, data, url, name, devices):
        """Rounds of ours and of each peer by turns: the same requests, and files of the size of our answers."""
        tls, offered = name.endswith("tls"), name.startswith("gateway.offer")
        rounds, seconds = (3, 1) if self.quick else (7, 3)
        common = (*devices, "-P", self.lacking if offered else self.profiles, "-c", 50, "-m", 20, "-w", 1, "-t", seconds)
        size = self.offer_bytes(url, devices) if offered else 0
        makers = {"nghttpd": self.nghttpd, "h2o": self.h2o}
        started = {peer: make(data, tls, size) for peer, make in makers.items()}
        rates, wrong = {peer: [] for peer in ("walle", *started)}, 0
        for _ in range(rounds):
            result = self.load(url + "/v1/checkin", *common)
            wrong += result["status_204" if offered else "status_200"] + result["status_other"] + result["resets"]
            rates["walle"].append(result["rate"])
            for peer, (_, peer_url) in started.items():
                result = self.load(peer_url + "/file", *common, "-X", "GET")
                wrong += result["status_204"] + result["status_other"] + result["resets"]
                rates[peer].append(result["rate"])
        for child, _ in started.values():
            self.stop(child)
        if wrong:
            raise SystemExit(f"{name}: {wrong} unexpected replies")
        for peer in started:
            self.say(name, statistics.median(rates["walle"]), peer, statistics.median(rates[peer]), "requests/s", "higher",
                     note=f"spread {spread(rates['walle'])} / {spread(rates[peer])}, answers of {size if offered else 0} / {size} bytes")

    def offer_bytes(self, url, devices):
        """What an offer's answer has; every device was offered it once then."""
        result = self.load(url + "/v1/checkin", *devices, "-P", self.lacking, "-n", ENROLLED)
        if result["status_200"] != ENROLLED:
            raise SystemExit(f"devices got no offer: {result}")
        return round(result["body_bytes"] / ENROLLED)

    def idle_bytes(self, child, url, path):
        """Growth of resident memory per connection."""
        self.load(url + path, "-c", 10, "-m", 1, "-n", 10, "-X", "GET")  # first requests make what is shared
        before = rss(child.pid)
        load = self.start([self.program("walle-load"), "--idle", "-c", str(IDLE_CONNECTIONS), "-m", "1", "-X", "GET", url + path],
                          core=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if load.stdout.readline() != "ready\n":
            raise SystemExit("not every connection was answered")
        time.sleep(SETTLE_S)
        after = rss(child.pid)
        load.stdin.close()
        result = json.loads(load.stdout.readline())
        load.wait()
        self.children.remove(load)
        if result["connections_lost"] or result["requests"] < IDLE_CONNECTIONS:
            raise SystemExit(f"{result}")
        return (after - before) / IDLE_CONNECTIONS

    def idle(self, data, tls):
        child, h2c, https = self.gateway(data)
        ours = self.idle_bytes(child, https if tls else h2c, "/healthz")
        self.stop(child)
        peer, url = self.nginx(data, tls)
        theirs = self.idle_bytes(peer, url, "/file")
        self.stop(peer)
        self.say("gateway.idle." + ("tls" if tls else "h2c"), ours, "nginx", theirs, "bytes/connection", "lower")

    def open_hints(self, url):
        """walle-load with every hint stream open."""
        load = self.start([self.program("walle-load"), "--hints", "-c", str(HINT_CONNECTIONS), "-m", str(HINT_STREAMS), "-X",
                           "GET", "-D", str(HINT_CONNECTIONS * HINT_STREAMS), "-F", str(10 * DEVICES), "-P", self.profiles,
                           url + "/v1/push"], core=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if load.stdout.readline() != "ready\n":
            raise SystemExit("not every hint stream was opened")
        return load

    def hint_memory(self):
        """On an empty store: a store of a million devices leaves free heap behind that would hide the growth."""
        child, url, _ = self.gateway(os.path.join(self.folder, "empty"))
        before = rss(child.pid)
        load = self.open_hints(url)
        time.sleep(SETTLE_S)
        each = (rss(child.pid) - before) / (HINT_CONNECTIONS * HINT_STREAMS)
        self.stop(load)
        self.stop(child)
        self.say("gateway.hint", each, "bar", HINT_BAR_BYTES, "bytes/stream", "lower")

    def hint(self, data):
        self.hint_memory()
        child, url, _ = self.gateway(data)
        load = self.open_hints(url)
        began = time.monotonic()
        with open(os.path.join(data, "admin.token"), encoding="ascii") as file:
            token = file.read().strip()
        done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-X", "POST", "-H", "content-type: application/json",
                               "-H", f"authorization: Bearer {token}", "-d", "{}", "-w", "%{http_code}", f"{url}/api/v1/rollouts/{HINT_ROLLOUT}/start"],
                              capture_output=True, text=True, check=True).stdout
        result = load.stdout.readline()
        took_ms = (time.monotonic() - began) * 1000
        load.wait()
        self.children.remove(load)
        if not done.endswith("200") or json.loads(result)["hints"] * 100 < HINT_CONNECTIONS * HINT_STREAMS * 99:
            raise SystemExit(f"{done} {result}")
        self.stop(child)
        self.say("gateway.hint.ms", took_ms, "bar", HINT_BAR_MS, "ms to 99 %", "lower")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def rss(pid):
    """Resident bytes of the process and its children (nginx without a master has none)."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024


def spread(values):
    return f"{(max(values) - min(values)) / statistics.median(values) * 100:.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", default="", help="names that begin so")
    options = parser.parse_args()
    names = [name for name in ("gateway.checkin.h2c", "gateway.checkin.tls", "gateway.proven.h2c", "gateway.proven.tls",
                               "gateway.offer.h2c", "gateway.offer.tls", "gateway.idle.h2c", "gateway.idle.tls", "gateway.hint") if name.startswith(options.only)]
    if not names:
        parser.error(f"--only {options.only}: no name begins so")
    bench = Bench(options.build, options.quick)
    try:
        data = bench.fill()
        child, h2c, https = bench.gateway(data)  # makes the certificate, too
        strangers = [name for name in names if name.startswith("gateway.checkin")]
        enrolled = [name for name in names if name.startswith(("gateway.proven", "gateway.offer"))]
        for rows, devices in ((strangers, lambda: bench.strangers(h2c + "/v1/checkin")),
                              (enrolled, lambda: bench.enrolled(h2c + "/v1/checkin", https, data))):
            known = devices() if rows else None
            for name in rows:
                bench.checkin(data, https if name.endswith("tls") else h2c, name, known)
        bench.stop(child)
        for name in names:
            if name.startswith("gateway.idle"):
                bench.idle(data, name.endswith("tls"))
        if "gateway.hint" in names:
            bench.hint(data)
    finally:
        bench.close()
    out = os.path.join(HERE, "out")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "gateway.jsonl"), "a", encoding="utf-8") as file:
        for line in bench.lines:
            file.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
