"""TLS handshakes, each on a new connection, some at a time: a handshake costs a server more than a client that throws its answer
away. A stranger's: it sends a ClientHello, reads what comes and goes."""
import contextlib
import socket
import ssl
import time

POINT = 12
PER_S = 5000  # at most; more than ten times what an address may
GROUP = 16  # at once


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


def shake_many(port, first, count):
    """How many of so many connections were answered."""
    with contextlib.ExitStack() as stack:
        open_ones = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 2))
                sock.sendall(first)
                open_ones.append(sock)
        answered = 0
        for sock in open_ones:
            with contextlib.suppress(OSError):
                answered += len(sock.recv(65536)) > 0
        return answered


def attack(target, stop, per_s=PER_S):
    counts = {"tried": 0, "answered": 0, "refused": 0}
    first, began = hello(), time.monotonic()
    while not stop.is_set():
        answered = shake_many(target.tls, first, GROUP)
        counts["tried"] += GROUP
        counts["answered"] += answered
        counts["refused"] += GROUP - answered
        stop.wait(max(0.0, counts["tried"] / (per_s * target.share) - (time.monotonic() - began)))
    return counts
