"""A healthy client beside the attacks: an enrolled device that opens a connection, checks in, asks the upstream for something, and goes.
It is answered, and in time; while the gateway is down it may fail."""
import os
import statistics
import struct
import threading
import time

import raw_device
import raw_h2

PAUSE_S = 0.5
HANG_S = 60  # without an answer


class Probe:
    """A thread of its own from start() to stop()."""

    def __init__(self, ports, token_path, findings):
        self.ports, self.findings = ports, findings
        self.device = 0x5eed_0000_0000_0001
        self.stopping = threading.Event()
        self.down = True  # the gateway is being started: whatever comes is right
        self.lock = threading.Lock()
        self.statuses, self.latency_ms, self.failed_down = {}, [], 0
        with open(token_path, encoding="ascii") as file:
            self.token = file.readline().strip()
        self.credential = self.enrol()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def enrol(self):
        with raw_h2.Connection(self.ports["h2c"]) as connection:
            stream = connection.headers(raw_h2.request("/v1/enroll", "POST", ("walle-device", raw_device.hexa(self.device)),
                                                       ("authorization", "Bearer " + self.token)))
            _, body = connection.reply(stream)
        _, number, size = struct.unpack_from("<BQB", body)
        assert number == self.device, body
        return body[10:10 + size].decode("ascii")

    def start(self):
        self.down = False
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join(2 * HANG_S)
        self.findings.expect(not self.thread.is_alive(), "the healthy client waits for ever")

    def taken(self):
        """Latencies in milliseconds since the last call."""
        with self.lock:
            found, self.latency_ms = self.latency_ms, []
        return found

    def _run(self):
        turn = 0
        while not self.stopping.wait(PAUSE_S):
            turn += 1
            was_down = self.down
            began = time.monotonic()
            try:
                self._visit(tls=turn % 2 == 0)
            except (OSError, raw_h2.Closed, AssertionError) as error:
                if was_down or self.down:
                    self.failed_down += 1
                else:
                    self.findings.add(f"the healthy client got no answer: {type(error).__name__} {error}")
            with self.lock:
                self.latency_ms.append((time.monotonic() - began) * 1000)

    def _visit(self, tls):
        proof = ("walle-credential", self.credential)
        with raw_h2.Connection(self.ports["tls" if tls else "h2c"], tls=tls, timeout_s=HANG_S) as connection:
            for wanted, path, method, headers in (
                    ((200, 204), "/v1/checkin", "POST", (("walle-device", raw_device.hexa(self.device)),
                                                         ("walle-profile", raw_device.profile(lab="probe")), proof)),
                    ((200,), "/echo", "GET", (("walle-device", raw_device.hexa(self.device)), proof)),
                    ((200,), "/healthz", "GET", ())):
                status, _ = connection.reply(connection.headers(raw_h2.request(path, method, *headers)))
                self.statuses[f"{path} {status}"] = self.statuses.get(f"{path} {status}", 0) + 1
                if status not in wanted and not self.down:
                    self.findings.add(f"the healthy client got {status} at {path}")


def quantiles(values):
    """(median, most) of what may be empty."""
    return (round(statistics.median(values), 1), round(max(values), 1)) if values else (None, None)


def resident(pid):
    """Resident bytes of a process, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
