#!/usr/bin/env python3
"""What hostile clients cost a healthy one. Prints a table and writes JSON lines to bench/out/attack.jsonl.

    attack_bench.py --build DIR [--quick] [--rounds 3] [--seconds 10] [--only NAME] [--no-peers]

Every attack of tests/hostile that is a client of the gateway runs against the shipped program with its shipped
settings (one worker; an upstream behind it) while a healthy client sends 500 requests a second at even times; latency
counts from the time meant. Healthy devices are enrolled and show their credentials; the attack is a stranger's, so the
operators' API has a token. Calm and attacked rounds alternate.

attack.NAME.p50, .p99   latency beside the attack (ours) and without it (theirs); bar for p50: 2
attack.NAME.memory      growth of the gateway's resident memory and of the machine's socket memory (both ends of each
                        connection are on it) in bytes, each at its peak; theirs: the budget that docs/SECURITY.md states for
                        the attack
attack.NAME.nginx,      how often p50 grows beside the attack, ours and theirs; what the healthy client asks a peer for is a
       .h2o             small file, or the upstream's file through it
attack.NAME.nginx.memory, .h2o.memory   growth of memory, ours and theirs

The attack invents other things in each round. Its clients wait for answers, so every server gets the load that it answers: what
that was is in the rows (`said`, of the last round). `invented_checkins` is check-ins alone, each of another device, by walle-load.

Peers answer the attack's paths as the gateway does: the same page at /, /healthz, /echo by way of the upstream, 401 without
the right token at /api/ and /v1/enroll. They run with one worker and the settings in PEER_SETTINGS. What meets no part of a
peer (tables of devices, HTTP/1.1 on the clear port) has no row for it.

Server on core 0, healthy client and attack on core 1. Server and healthy client go first (round robin real time where that
is allowed and never interrupted, else nice -20), then the attack, then whatever else the machine does: so a machine that is not idle measures them nearly alone.
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
import subprocess
import sys
import tempfile
import threading
import time

from enrolled import enrol, read_listeners

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(HERE), "tests")
sys.path[:0] = [TESTS, os.path.join(TESTS, "e2e")]
RATE, CONNECTIONS, STREAMS, DEVICES = 500, 10, 8, 100
PROFILE = "AQAAAAAAAAAAAAABAA"  # holds no task
BAR_P50 = 2.0
GATEWAY_POINTS = range(5, 13)  # docs/SECURITY.md: what one client may do to a gateway
INVENTED = "invented_checkins"  # by walle-load
INVENTED_IDS, INVENTED_CONNECTIONS, INVENTED_STREAMS = 2000000, 4, 8  # of a round
ON_GATEWAY_ALONE = ("chosen_ids", "invented_devices", INVENTED,  # peers have no table of devices,
                    "one_byte_chunks", "pipelined_gets")  # and speak HTTP/2 alone on a clear port
PROXIED = ("slow_proxied_bodies", "reset_proxied_requests")
BUDGET_MIB = {  # docs/SECURITY.md, "What an attack may cost"; of the shipped settings and these attacks
    "hpack_references": 32, "chosen_ids": 32, "unauthorised_uploads": 64, "bad_tokens": 16, "slow_proxied_bodies": 64,
    "reset_proxied_requests": 32, "silent_readers": 256, "invented_devices": 32, INVENTED: 32, "handshakes": 64, "one_byte_chunks": 128,
    "pipelined_gets": 512,
}
PEER_SETTINGS = {
    "nginx": "sndbuf 256k, send and body timeouts 30 s, resets what timed out, TLS session cache 10m, 128 streams a connection",
    "h2o": "http2 idle timeout 30 s, request bodies up to 256 MiB, 100 streams a connection",
}
TOKEN = "0123456789abcdef" * 4
RAMP_S = 2  # an attack is under way before anything is counted


def real_time_is_whole():
    """Real time is allowed, and the kernel takes no part of each second from it: else who is busy all the time stands still for a while."""
    with open("/proc/sys/kernel/sched_rt_runtime_us", encoding="ascii") as file:
        whole = int(file.read()) == -1
    return whole and subprocess.run(["chrt", "--rr", "1", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def family(pid):
    """The process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [pid, *(one for child in children.read().split() for one in family(int(child)))]


def resident(pid, field):
    """Resident bytes of the process and of its children: VmRSS now, VmHWM at their peaks."""
    total = 0
    for one in family(pid):
        with open(f"/proc/{one}/status", encoding="ascii") as status:
            total += int(re.search(field + r":\s+(\d+) kB", status.read()).group(1)) * 1024
    return total


def sockets():
    """Bytes the kernel holds for TCP sockets of this machine."""
    with open("/proc/net/sockstat", encoding="ascii") as file:
        return int(re.search(r"^TCP:.* mem (\d+)", file.read(), re.M).group(1)) * os.sysconf("SC_PAGE_SIZE")


class Growth:
    """How far memory grows from here on: `peak()` is (process, sockets)."""

    EVERY_S = 0.05  # sockets are looked at

    def __init__(self, pid):
        for one in family(pid):
            with open(f"/proc/{one}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the peak is what there is now
        self.pid = pid
        self.before = resident(pid, "VmRSS"), sockets()
        self.sockets_most = self.before[1]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while not self.stopping.wait(self.EVERY_S):
            self.sockets_most = max(self.sockets_most, sockets())

    def peak(self):
        self.stopping.set()
        self.thread.join()
        return resident(self.pid, "VmHWM") - self.before[0], self.sockets_most - self.before[1]


class Server:
    """A running server: its ports and process."""

    def __init__(self, name, child, h2c, tls):
        self.name, self.child, self.h2c, self.tls = name, child, h2c, tls
        self.credentials = None

    def url(self, path):
        return f"http://127.0.0.1:{self.h2c}{path}"


class Bench:
    def __init__(self, options):
        self.bin = os.path.join(os.path.abspath(options.build), "bin")
        self.peers = not options.no_peers
        self.first = ["chrt", "--rr", "1"] if real_time_is_whole() else ["nice", "-n", "-20"]
        self.rounds, self.seconds = (1, 4) if options.quick else (options.rounds, options.seconds)
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
        self.admin = self.path("admin.token")
        with open(os.open(self.admin, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        self.upstream = self.start_upstream()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def close(self):
        for child in self.children:
            child.kill()
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, arguments, core=0, before=None, **more):
        child = subprocess.Popen([*(self.first if before is None else before), "taskset", "-c", str(core), *arguments], **more)
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

    def nginx_conf(self, name, server):
        folder = self.path(name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
worker_rlimit_nofile 19000; events {{ worker_connections 18000; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000; {server} }}
""")
        return ["nginx", "-c", path, "-p", folder]

    def start_upstream(self):
        port = free_port()
        self.start(self.nginx_conf("upstream", f"server {{ listen 127.0.0.1:{port}; root {self.www}; }}"),
                   core=1, stderr=subprocess.DEVNULL)
        self.await_port(port)
        return port

    def gateway(self):
        self.served += 1
        data = self.path(f"gateway{self.served}")
        child = self.start([os.path.join(self.bin, "walle-gateway"), "--dir", data, "--workers", "1", "--tls", "127.0.0.1:0", "--h2c",
                            "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{self.upstream}", "--log", "error", "--set",
                            "admin.token_file=" + self.admin],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ports = read_listeners(child)
        server = Server("gateway", child, ports["h2c"], ports["tls"])
        server.credentials = self.path(f"credentials{self.served}")
        enrol(server.tls, data, DEVICES, server.credentials)
        for name, path in (("index.html", "/"), ("healthz", "/healthz")):  # peers serve the same
            subprocess.run(["curl", "-sSf", "--http2-prior-knowledge", "-o", os.path.join(self.www, name), server.url(path)], check=True)
        return server

    def certificate(self):
        keys = self.path("key.pem"), self.path("cert.pem")
        if not os.path.exists(keys[0]):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-keyout", keys[0], "-out", keys[1]], check=True, stderr=subprocess.DEVNULL)
        return keys

    def nginx(self):
        h2c, tls = free_port(), free_port()
        key, certificate = self.certificate()
        proxy = "proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection '';"
        guarded = f"auth_basic own; auth_basic_user_file {self.admin}; dav_methods PUT; client_max_body_size 256m;"
        server = (f"upstream up {{ server 127.0.0.1:{self.upstream}; keepalive 64; }} "
                  f"send_timeout 30s; client_body_timeout 30s; reset_timedout_connection on; ssl_session_cache shared:S:10m; "
                  f"server {{ listen 127.0.0.1:{h2c} http2 sndbuf=256k; listen 127.0.0.1:{tls} ssl http2 sndbuf=256k; "
                  f"ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; root {self.www}; "
                  f"location /up/ {{ {proxy} }} location /echo {{ {proxy} }} location /api/ {{ {guarded} }} location /v1/enroll {{ {guarded} }} }}")
        child = self.start(self.nginx_conf("nginx", server), stderr=subprocess.DEVNULL)
        self.await_port(h2c)
        return Server("nginx", child, h2c, tls)

    def h2o(self):
        h2c, tls = free_port(), free_port()
        key, certificate = self.certificate()
        path = self.path("h2o.conf")
        upstream = f"http://127.0.0.1:{self.upstream}"
        guarded = (f"""{{mruby.handler: 'Proc.new {{|env| env["HTTP_AUTHORIZATION"] == "Bearer {TOKEN}" ? [399, {{}}, []] : """
                   """[401, {"www-authenticate" => "Bearer"}, []] }'}""")
        with open(path, "w", encoding="utf-8") as conf:
            conf.write(f"""num-threads: 1
http2-idle-timeout: 30
limit-request-body: 268435456
listen: {{host: 127.0.0.1, port: {h2c}}}
listen: {{host: 127.0.0.1, port: {tls}, ssl: {{certificate-file: {certificate}, key-file: {key}, minimum-version: TLSv1.2}}}}
user: root
hosts:
  default:
    paths:
      /up: {{proxy.reverse.url: "{upstream}/up", proxy.timeout.keepalive: 60000}}
      /echo: {{proxy.reverse.url: "{upstream}/echo", proxy.timeout.keepalive: 60000}}
      /api: {guarded}
      /v1/enroll: {guarded}
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
        run = subprocess.run([*self.first, "taskset", "-c", "1", os.path.join(self.bin, "walle-load"), *options, server.url(path)],
                             stdout=subprocess.PIPE, text=True, check=False)  # lost connections are in what it says
        return json.loads(run.stdout.splitlines()[-1])

    def attack(self, server, name, seconds, turn):
        """Starts an attack; in another turn it invents other things."""
        environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{os.path.join(TESTS, 'e2e')}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "hostile", name, "--h2c", str(server.h2c), "--tls", str(server.tls), "--seconds", str(seconds),
                   "--seed", str(turn)]
        if name == INVENTED:
            command = [os.path.join(self.bin, "walle-load"), "-w", "0", "-t", str(seconds), "-D", str(INVENTED_IDS), "-F",
                       str((turn + 1) << 40), "-c", str(INVENTED_CONNECTIONS), "-m", str(INVENTED_STREAMS), "-P", self.profiles,
                       server.url("/v1/checkin")]
        return self.start(command, core=1, before=["nice", "-n", "-5"], stdout=subprocess.PIPE, text=True, env=environment)

    def beside(self, server, name, path):
        """(calm, attacked, bytes grown in process and sockets, what the attack says), rounds alternating."""
        calm, attacked, grown, said = [], [], (0, 0), {}
        for turn in range(self.rounds):
            calm.append(self.healthy(server, path, self.seconds))
            growth = Growth(server.child.pid)
            child = self.attack(server, name, RAMP_S + self.seconds + 3, turn)
            time.sleep(RAMP_S)
            attacked.append(self.healthy(server, path, self.seconds))
            grown = max(grown, growth.peak(), key=sum)
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

    @staticmethod
    def lost(attacked):
        """Healthy requests without their answer, by what became of them."""
        kinds = ("connections_lost", "unanswered", "resets", "status_other")
        return {kind: sum(one[kind] for one in attacked) for kind in kinds if any(one[kind] for one in attacked)}

    def measure(self, name):
        server = self.gateway()
        calm, attacked, grown, said = self.beside(server, name, "/up/file" if name in PROXIED else "/v1/checkin")
        lost = self.lost(attacked)
        for key, label in (("p50_us", "p50"), ("p99_us", "p99")):
            values = [one[key] for one in attacked]
            spread = (max(values) - min(values)) / max(1, statistics.median(values)) * 100
            self.say(f"attack.{name}.{label}", statistics.median(values), "no attack", statistics.median(one[key] for one in calm), "us",
                     spread=round(spread), lost=lost, note=f"spread {spread:.0f} %, {sum(lost.values())} healthy requests lost; {brief(said)}", said=said)
        self.say(f"attack.{name}.memory", sum(grown), "budget", BUDGET_MIB[name] << 20, "bytes", process=grown[0], sockets=grown[1])
        ours = self.growth(calm, attacked)
        self.stop(server.child)
        if name not in ON_GATEWAY_ALONE and self.peers:
            for make in (self.nginx, self.h2o):
                self.measure_peer(name, make(), ours, grown)

    def measure_peer(self, name, peer, ours, ours_grown):
        calm, attacked, grown, said = self.beside(peer, name, "/up/file" if name in PROXIED else "/file")
        lost = self.lost(attacked)
        p50 = [statistics.median(one["p50_us"] for one in rounds) for rounds in (calm, attacked)]
        self.say(f"attack.{name}.{peer.name}", ours, peer.name, self.growth(calm, attacked), "times", lost=lost, their_p50_us=p50,
                 settings=PEER_SETTINGS[peer.name], said=said,
                 note=f"theirs {p50[0]:,.0f} to {p50[1]:,.0f} us, {sum(lost.values())} healthy requests lost; load as it answers: {brief(said)}")
        self.say(f"attack.{name}.{peer.name}.memory", sum(ours_grown), peer.name, sum(grown), "bytes", process=grown[0], sockets=grown[1])
        self.stop(peer.child)


def brief(said):
    """What an attack says of itself, in a line."""
    return ", ".join(f"{value:,} {key}" for key, value in said.items() if isinstance(value, int) and value and key not in ("point", "p50_us", "p99_us", "max_us"))


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
    return [name for _, name in sorted([*found, (11, INVENTED)])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--only", default="", help="attacks whose names begin so")
    parser.add_argument("--no-peers", action="store_true", help="without nginx and h2o")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of a round")
    options = parser.parse_args()
    names = [name for name in attacks() if name.startswith(options.only)]
    if not names:
        parser.error(f"--only {options.only}: the attacks are {', '.join(attacks())}")
    bench = Bench(options)
    try:
        for name in names:
            bench.measure(name)
    finally:
        bench.close()
    out = os.path.join(HERE, "out")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "attack.jsonl"), "a", encoding="utf-8") as file:
        for line in bench.lines:
            file.write(json.dumps(line) + "\n")
    over = [line["bench"] for line in bench.lines if line["bench"].endswith(".p50") and line["ratio"] > BAR_P50]
    over += [line["bench"] for line in bench.lines if line["peer"] == "budget" and line["ratio"] > 1]
    print(f"over the bar of {BAR_P50}, or over a budget of memory: {', '.join(over) if over else 'none'}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
