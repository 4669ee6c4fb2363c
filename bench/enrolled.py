"""Devices that enrolled at a gateway, for benchmarks whose load must prove itself."""
import os
import struct
import subprocess


def read_listeners(child):
    """{"tls": port, "h2c": port} of a walle-gateway that was started on free ports; it also says which tokens it made."""
    ports = {}
    while len(ports) < 2:
        line = child.stdout.readline()
        if not line:
            raise SystemExit("bench: the gateway did not start")
        words = line.split()
        if words[0] == "listening" and words[1] in ("tls", "h2c"):
            ports[words[1]] = int(words[2].rpartition(":")[2])
    return ports


def enrol(tls_port, data, count, path):
    """Writes `path`, `count` lines of id and credential for `walle-load -C`, with the token that the gateway made at its first
    start in its folder `data`. Over TLS: curl 7.88 cannot send a second request in clear HTTP/2."""
    with open(os.path.join(data, "enroll.token"), encoding="ascii") as file:
        token = file.readline().strip()
    answers = path + ".answers"
    os.makedirs(answers)
    subprocess.run(["curl", "-sSf", "--parallel", "-X", "POST", "--cacert", os.path.join(data, "cert.pem"), "-H",
                    f"authorization: Bearer {token}", "-o", os.path.join(answers, "#1"),
                    f"https://localhost:{tls_port}/v1/enroll?[1-{count}]"], check=True, stderr=subprocess.DEVNULL)
    with open(path, "w", encoding="ascii") as out:
        for name in os.listdir(answers):
            with open(os.path.join(answers, name), "rb") as file:  # u8 version, u64 id, text8 credential (device/wire/enrolment.h)
                answer = file.read()
            device, size = struct.unpack_from("<QB", answer, 1)
            out.write(f"{device:016x} {answer[10:10 + size].decode('ascii')}\n")
            os.unlink(file.name)
    os.rmdir(answers)
