#!/usr/bin/env python3
"""What hostile clients cost a healthy one. Prints a table and writes JSON lines to bench/out/attack.jsonl.

    attack_bench.py --build DIR [--quick] [--only NAME] [--no-peers]

Every attack of tests/hostile that is a client of the gateway runs against the shipped program with its shipped
settings (one worker; an upstream behind it) while a healthy client sends 500 requests a second at even times; latency
counts from the time meant. Healthy devices are enrolled and show their credentials. Calm and attacked rounds alternate.

attack.NAME.p50, .p99   latency beside the attack (ours) and without it (theirs); bar for p50: 2
attack.NAME.memory      growth of the gateway's resident memory and of the machine's socket memory (both ends of each
                        connection are on it) in bytes; theirs: the budget of the overload manager
attack.NAME.nginx,      where the same bytes mean the same to them: how often p50 grows beside the attack, ours and theirs.
       .h2o             Peers: one worker, settings as packaged. They answer the gateway's paths with 404, so what an
                        attack on replies costs them is less

Server on core 0, healthy client and attack on core 1, the attack at low priority.
"""
import argparse
import importlib
import json
import os
import pkgutil
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(HERE), "tests")
sys.path[:0] = [TESTS, os.path.join(TESTS, "e2e")]
RATE, CONNECTIONS, STREAMS, DEVICES = 500, 10, 8, 100
PROFILE = "AQAAAAAAAAAAAAABAA"  # holds no task
BAR_P50 = 2.0
GATEWAY_POINTS = range(5, 13)  # docs/SECURITY.md: what one client may do to a gateway
ON_PEERS = {  # attacks that are plain HTTP/2: the path that peers serve, so that theirs is the same work
    "hpack_references": "/file", "silent_readers": "/file", "handshakes": "/file", "slow_proxied_bodies": "/up/file",
}
PROXIED = ("slow_proxied_bodies",)
RAMP_S = 2  # an attack is under way before anything is counted


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def resident(pid):
    """Resident bytes of the process and of its children."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        own = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return own + sum(resident(int(child)) for child in children.read().split())


def sockets():
    """Bytes the kernel holds for TCP sockets of this machine."""
    with open("/proc/net/sockstat", encoding="ascii") as file:
        return int(re.search(r"^TCP:.* mem (\d+)", file.read(), re.M).group(1)) * os.sysconf("SC_PAGE_SIZE")


class Server:
    """A running server: ports, process, the path healthy clients ask for."""

    def __init__(self, name, child, h2c, tls):
        self.name, self.child, self.h2c, self.tls = name, child, h2c, tls
        self.credentials = None

    def url(self, path):
        return f"http://127.0.0.1:{self.h2c}{path}"


class Bench:
    def __init__(self, build, quick, peers):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.quick, self.peers = quick, peers
        self.folder = tempfile.mkdtemp(prefix="walle-bench-")
        self.children, self.lines, self.served = [], [], 0
        self.www = self.path("www")
        os.makedirs(os.path.join(self.www, "up"))
        for name in ("file", "up/file"):
            with open(os.path.join(self.www, name), "w", encoding="ascii") as file:
                file.write("a" * 100)
        self.profiles = self.path("profiles")
        with open(self.profiles, "w", encoding="ascii") as file:
            file.write(PROFILE + "\n")
        self.upstream = self.start_upstream()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def close(self):
        for child in self.children:
            child.kill()
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, arguments, core=0, nice=0, **more):
        child = subprocess.Popen(["nice", "-n", str(nice), "taskset", "-c", str(core), *arguments], **more)
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

    def await_port(self, port):
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit("bench: a peer did not start")

    # ---- Servers

    def nginx_conf(self, name, server, http=""):
        folder = self.path(name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
worker_rlimit_nofile 19000; events {{ worker_connections 18000; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; {http} {server} }}
""")
        return ["nginx", "-c", path, "-p", folder]

    def start_upstream(self):
        port = free_port()
        self.start(self.nginx_conf("upstream", f"server {{ listen 127.0.0.1:{port}; root {self.www}; keepalive_requests 1000000; }}"),
                   core=1, stderr=subprocess.DEVNULL)
        self.await_port(port)
        return port

    def gateway(self):
        self.served += 1
        data = self.path(f"gateway{self.served}")
        child = self.start([os.path.join(self.bin, "walle-gateway"), "--dir", data, "--workers", "1", "--tls", "127.0.0.1:0", "--h2c",
                            "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{self.upstream}", "--log", "error"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ports = {}
        while len(ports) < 2:
            line = child.stdout.readline()
            if not line:
                raise SystemExit("bench: the gateway did not start")
            found = re.match(r"listening (\w+) [\d.]+:(\d+)", line)
            if found:
                ports[found.group(1)] = int(found.group(2))
        server = Server("gateway", child, ports["h2c"], ports["tls"])
        server.credentials = self.enrol(server, os.path.join(data, "enroll.token"))
        return server

    def enrol(self, server, token_path):
        """A file with DEVICES lines of id and credential, from the token the gateway made at its first start."""
        with open(token_path, encoding="ascii") as file:
            token = file.readline().strip()
        answers = self.path("enrolment")
        lines = []
        for _ in range(DEVICES):
            subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-f", "-X", "POST", "-H", f"authorization: Bearer {token}", "-o",
                            answers, server.url("/v1/enroll")], check=True)
            with open(answers, "rb") as file:  # u8 version, u64 id, text8 credential (device/wire/enrolment.h)
                answer = file.read()
            number, size = struct.unpack_from("<QB", answer, 1)
            lines.append(f"{number:016x} {answer[10:10 + size].decode('ascii')}\n")
        path = self.path(f"credentials{self.served}")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(lines)
        return path

    def certificate(self):
        keys = self.path("key.pem"), self.path("cert.pem")
        if not os.path.exists(keys[0]):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-keyout", keys[0], "-out", keys[1]], check=True, stderr=subprocess.DEVNULL)
        return keys

    def nginx(self):
        h2c, tls = free_port(), free_port()
        key, certificate = self.certificate()
        upstream = f"upstream up {{ server 127.0.0.1:{self.upstream}; keepalive 64; }}"
        place = f"location /up/ {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ''; }}"
        server = (f"{upstream} server {{ listen 127.0.0.1:{h2c} http2; listen 127.0.0.1:{tls} ssl http2; ssl_certificate {certificate}; "
                  f"ssl_certificate_key {key}; ssl_protocols TLSv1.3; root {self.www}; {place} }}")
        child = self.start(self.nginx_conf("nginx", server), stderr=subprocess.DEVNULL)
        self.await_port(h2c)
        return Server("nginx", child, h2c, tls)

    def h2o(self):
        h2c, tls = free_port(), free_port()
        key, certificate = self.certificate()
        path = self.path("h2o.conf")
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""num-threads: 1
listen: {{host: 127.0.0.1, port: {h2c}}}
listen: {{host: 127.0.0.1, port: {tls}, ssl: {{certificate-file: {certificate}, key-file: {key}, minimum-version: TLSv1.2}}}}
user: root
hosts:
  default:
    paths:
      /up: {{proxy.reverse.url: "http://127.0.0.1:{self.upstream}/up", proxy.timeout.keepalive: 60000}}
      /: {{file.dir: {self.www}}}
""")
        child = self.start(["h2o", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_port(h2c)
        return Server("h2o", child, h2c, tls)

    # ---- Measures

    def healthy(self, server, path, seconds):
        options = ["-r", str(RATE), "-c", str(CONNECTIONS), "-m", str(STREAMS), "-w", "1", "-t", str(seconds), "-P", self.profiles]
        if server.credentials is not None:
            options += ["-C", server.credentials]
        if path != "/v1/checkin":
            options += ["-X", "GET"]
        run = subprocess.run(["nice", "-n", "-5", "taskset", "-c", "1", os.path.join(self.bin, "walle-load"), *options, server.url(path)],
                             stdout=subprocess.PIPE, text=True, check=False)  # lost connections are in what it says
        return json.loads(run.stdout.splitlines()[-1])

    def attack(self, server, name, seconds):
        environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{os.path.join(TESTS, 'e2e')}", "PYTHONDONTWRITEBYTECODE": "1"}
        return self.start([sys.executable, "-m", "hostile", name, "--h2c", str(server.h2c), "--tls", str(server.tls), "--seconds",
                           str(seconds)], core=1, nice=10, stdout=subprocess.PIPE, text=True, env=environment)

    def beside(self, server, name, path):
        """(calm, attacked, bytes grown, what the attack says), rounds alternating."""
        rounds, seconds = (1, 4) if self.quick else (3, 10)
        calm, attacked, grown, said = [], [], 0, {}
        for _ in range(rounds):
            calm.append(self.healthy(server, path, seconds))
            before = resident(server.child.pid) + sockets()
            child = self.attack(server, name, RAMP_S + seconds + 3)
            time.sleep(RAMP_S)
            attacked.append(self.healthy(server, path, seconds))
            grown = max(grown, resident(server.child.pid) + sockets() - before)
            said = self.end_attack(child)
            if server.child.poll() is not None:
                raise SystemExit(f"bench: {server.name} ended under {name}")
        return calm, attacked, grown, said

    def end_attack(self, child):
        text = child.communicate(timeout=120)[0]
        self.children.remove(child)
        if child.returncode != 0 or not text.strip():
            raise SystemExit(f"bench: the attack ended with {child.returncode}")
        return json.loads(text.splitlines()[-1])

    def say(self, bench, ours, peer, theirs, unit, **more):
        ratio = round(ours / theirs, 3) if theirs else None
        line = {"bench": bench, "ours": ours, "peer": peer, "theirs": theirs, "unit": unit, "ratio": ratio, "better": "lower", **more}
        self.lines.append(line)
        print(f"{bench:36} {ours:>14,.1f} {unit:8} {peer:>12} {theirs:>14,.1f}   ratio {ratio if ratio is not None else '-'}"
              f"  {more.get('note', '')}", flush=True)

    def growth(self, calm, attacked, key="p50_us"):
        return statistics.median(one[key] for one in attacked) / max(1, statistics.median(one[key] for one in calm))

    def budget(self, server):
        """What the gateway may hold in all, as its own page of figures says."""
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", server.url("/metrics")], capture_output=True, text=True, check=True)
        found = re.search(r"^walle_overload_limit_bytes (\d+)", run.stdout, re.M)
        return int(found.group(1)) if found else 0

    def measure(self, name):
        own_path = "/up/file" if name in PROXIED else "/v1/checkin"
        server = self.gateway()
        calm, attacked, grown, said = self.beside(server, name, own_path)
        lost = sum(one["connections_lost"] + one["unanswered"] + one["resets"] + one["status_other"] for one in attacked)
        for key, label in (("p50_us", "p50"), ("p99_us", "p99")):
            values = [one[key] for one in attacked]
            spread = (max(values) - min(values)) / max(1, statistics.median(values)) * 100
            self.say(f"attack.{name}.{label}", statistics.median(values), "no attack", statistics.median(one[key] for one in calm), "us",
                     spread=round(spread), lost=lost, note=f"spread {spread:.0f} %, {lost} healthy requests lost", said=said)
        self.say(f"attack.{name}.memory", grown, "budget", self.budget(server), "bytes")
        ours = self.growth(calm, attacked)
        self.stop(server.child)
        if name in ON_PEERS and self.peers:
            for make in (self.nginx, self.h2o):
                peer = make()
                calm, attacked, grown, _ = self.beside(peer, name, ON_PEERS[name])
                lost = sum(one["connections_lost"] + one["unanswered"] + one["resets"] + one["status_other"] for one in attacked)
                self.say(f"attack.{name}.{peer.name}", ours, peer.name, self.growth(calm, attacked), "times", memory=grown, lost=lost,
                         note=f"theirs grew by {grown >> 20} MiB, {lost} healthy requests lost")
                self.stop(peer.child)


def attacks():
    """Names of the attacks on a gateway, by point."""
    import hostile
    found = []
    for module in pkgutil.iter_modules(hostile.__path__):
        if module.name in ("__main__", "target"):
            continue
        point = importlib.import_module("hostile." + module.name).POINT
        if point in GATEWAY_POINTS:
            found.append((point, module.name))
    return [name for _, name in sorted(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--only", default="", help="attacks whose names begin so")
    parser.add_argument("--no-peers", action="store_true", help="without nginx and h2o")
    options = parser.parse_args()
    bench = Bench(options.build, options.quick, not options.no_peers)
    try:
        for name in attacks():
            if name.startswith(options.only):
                bench.measure(name)
    finally:
        bench.close()
    out = os.path.join(HERE, "out")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "attack.jsonl"), "a", encoding="utf-8") as file:
        for line in bench.lines:
            file.write(json.dumps(line) + "\n")
    over = [line["bench"] for line in bench.lines if line["bench"].endswith(".p50") and line["ratio"] > BAR_P50]
    print(f"over the bar of {BAR_P50}: {', '.join(over) if over else 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
