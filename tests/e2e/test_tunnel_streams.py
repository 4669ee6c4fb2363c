#!/usr/bin/env python3
"""Tunnel streams of the real gateway: who may open one, what ends one, hostile peers, drain, restart."""
import json
import os
import struct
import subprocess
import time
import unittest

import raw_h2
from walle_stack import Stack, program, wait_until

TUNNEL = ("/v1/tunnel", "POST")
DEVICE = ("walle-device", "00000000000004d2")
UNKNOWN = ("--set", "tunnel.unknown_uploads=accept")  # tunnel_load and tunnel_devices send what no task declares


def load(stack, *arguments, wait=True, tls=True):
    port = stack.gateway.ports["tls" if tls else "h2c"]
    command = [program("tunnel_load"), f"127.0.0.1:{port}", *([] if tls else ["--clear"]), *map(str, arguments)]
    if not wait:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.children.append(child)
        return child
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def metric(stack, name):
    _, text = stack.api("/metrics")
    for line in text.splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    raise AssertionError(f"no {name} in /metrics")


class Tunnel(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def open_raw(self, connection, *more):
        stream = connection.headers(raw_h2.request(*TUNNEL, DEVICE, *more), flags=raw_h2.END_HEADERS)
        self.assertEqual(raw_h2.status_of(connection.wait(raw_h2.HEADERS, stream).payload), 200)
        return stream

    def test_batches_become_durable(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN)
        for tls in (True, False):
            run = load(self.stack, "--mode", "latency", "--count", 5, "--connections", 3, "--bytes", 3000, "--gap-ms", 1, "--gap-to-ms", 3, tls=tls)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(json.loads(run.stdout)["samples"], 15)
        self.assertEqual(metric(self.stack, "walle_tunnel_batches_total"), 2 * 3 * 25)
        self.assertEqual(metric(self.stack, "walle_tunnel_violations_total"), 0)
        self.assertGreater(sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(self.stack.path("gateway", "tunnel"))
                               for name in names), 2 * 3 * 25 * 3000)
        wait_until(lambda: metric(self.stack, "walle_tunnel_streams") == 0, what="streams to end with their connections")

    def test_who_may_open_one(self):
        self.stack.start_gateway("--set", "device.auth=required")
        run = load(self.stack, "--mode", "latency", "--count", 1)
        self.assertIn("status (401)", run.stderr)
        with raw_h2.Connection(self.stack.gateway.ports["h2c"]) as connection:
            self.assertEqual(connection.get("/v1/tunnel")[0], 405)
            stream = connection.headers(raw_h2.request(*TUNNEL))
            self.assertEqual(connection.reply(stream)[0], 400)
            stream = connection.headers(raw_h2.request(*TUNNEL, DEVICE, ("walle-credential", "wdt_nonsense")), flags=raw_h2.END_HEADERS)
            self.assertEqual(connection.reply(stream)[0], 401)  # its body is not waited for

    def test_a_revoked_device_loses_its_streams(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN, "--set", "tunnel.device_batches_per_s=100000")
        flood = load(self.stack, "--mode", "flood", "--devices", 4, "--connections", 2, "--seconds", 40, "--first-device", 1, wait=False)
        wait_until(lambda: metric(self.stack, "walle_tunnel_batches_total") > 100, what="batches")
        self.stack.walle("device", "revoke", "0000000000000003")
        _, errors = flood.communicate(timeout=120)
        self.assertIn("a stream ended", errors)
        run = load(self.stack, "--mode", "latency", "--count", 1, "--connections", 1, "--first-device", 3)
        self.assertIn("status (403)", run.stderr)

    def test_a_drain_tells_devices_and_ends(self):
        # It would wait for an hour: streams end because devices are told.
        self.stack.start_gateway("--workers", "1", *UNKNOWN, "--set", "tunnel.device_batches_per_s=100000", "--set",
                                 "timeouts.drain_ms=3600000")
        flood = load(self.stack, "--mode", "flood", "--devices", 4, "--connections", 2, "--seconds", 40, wait=False)
        wait_until(lambda: metric(self.stack, "walle_tunnel_batches_total") > 100, what="batches")
        self.assertEqual(self.stack.gateway.stop(), 0)
        _, errors = flood.communicate(timeout=120)
        self.assertIn("a frame of type (23)", errors)  # DRAIN

    def test_what_was_acknowledged_survives_a_kill(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN, "--set", "tunnel.device_batches_per_s=100000")
        flood = load(self.stack, "--mode", "flood", "--devices", 4, "--connections", 2, "--seconds", 40, wait=False)
        wait_until(lambda: metric(self.stack, "walle_tunnel_batches_total") > 500, what="batches")
        self.stack.gateway.kill()
        flood.communicate(timeout=120)
        self.stack.restart_gateway("--workers", "1", *UNKNOWN)
        self.assertGreaterEqual(metric(self.stack, "walle_tunnel_marks"), 4)
        run = load(self.stack, "--mode", "latency", "--count", 3, "--connections", 2, "--first-device", 100)
        self.assertEqual(run.returncode, 0, run.stderr)

    def devices(self, *arguments):
        port = self.stack.gateway.ports["tls"]
        return self.stack.spawn("tunnel_devices", f"127.0.0.1:{port}", *map(str, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_the_law_holds_for_real_devices_over_kills(self):
        """Device tunnels with their own stores; the gateway is killed while they talk, three times, and drained once."""
        self.stack.start_gateway("--workers", "2", *UNKNOWN)
        child = self.devices("--devices", 30, "--records", 150, "--seconds", 100, "--share", 12, "--seed", os.getpid())
        for number, graceful in enumerate((False, False, True, False)):
            wait_until(lambda: metric(self.stack, "walle_tunnel_batches_total") > 20, what="batches")
            time.sleep(0.1 * number)  # at another moment each time
            if graceful:
                self.assertEqual(self.stack.gateway.stop(), 0)
            else:
                self.stack.gateway.kill()
            self.stack.restart_gateway("--workers", "2", *UNKNOWN)
        out, errors = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 0, out + errors)
        told = json.loads(out)
        self.assertEqual(told["produced"], 30 * 150)
        self.assertEqual(told["durable"] + told["lost"], told["produced"])
        self.assertEqual((told["law_broken"], told["forks"], told["bad_frames"], told["rejects"]), (0, 0, 0, 0))
        self.assertEqual(metric(self.stack, "walle_tunnel_violations_total"), 0)

    def test_bulk_is_thinned_and_the_law_holds(self):
        """More than the gateway wants to have in memory: debug and behaviour records are sampled, the rest all comes."""
        self.stack.start_gateway("--workers", "2", *UNKNOWN, "--set", "tunnel.memory_bytes=16777216", "--set", "tunnel.thin_percent=1",
                                 "--set", "tunnel.commit_delay_us=5000", "--set", "tunnel.device_batches_per_s=100000")
        child = self.devices("--devices", 60, "--records", 400, "--bytes", 8000, "--seconds", 60, "--share", 12, "--seed", os.getpid())
        out, errors = child.communicate(timeout=90)
        self.assertEqual(child.returncode, 0, out + errors)
        told = json.loads(out)
        self.assertEqual(told["produced"], 60 * 400)
        self.assertEqual(told["durable"] + told["lost"], told["produced"])
        self.assertEqual((told["law_broken"], told["forks"], told["bad_frames"], told["rejects"]), (0, 0, 0, 0))
        self.assertGreater(metric(self.stack, "walle_tunnel_thinned_total"), 0)
        self.assertGreater(metric(self.stack, "walle_tunnel_sampled_records_total"), 0)
        self.assertGreater(metric(self.stack, "walle_tunnel_connections_new_total"), 0)
        self.assertEqual(metric(self.stack, "walle_tunnel_sent_away_total"), 0)

    def test_uploads_nobody_declared_are_refused(self):
        self.stack.start_gateway("--workers", "1")
        run = load(self.stack, "--mode", "latency", "--count", 5, "--connections", 2)
        self.assertIn("a frame of type (20)", run.stderr)  # REJECT
        self.assertEqual(metric(self.stack, "walle_tunnel_batches_total"), 0)
        self.assertGreater(metric(self.stack, "walle_tunnel_unknown_total"), 0)
        self.assertIn("declares no upload", self.stack.gateway.log_text())

    def test_hostile_peers(self):
        self.stack.start_gateway("--workers", "1", "--log", "debug")
        with raw_h2.Connection(self.stack.gateway.ports["h2c"]) as connection:
            for bytes_ in (b"\xff" * 64, b"\x02\x10\x00\x00" + b"x" * 16, b"\x01\xff\xff\xff", b"\x12\x00\x00\x00"):
                stream = self.open_raw(connection)
                connection.frame(raw_h2.DATA, 0, stream, bytes_)
                self.assertEqual(connection.wait(raw_h2.RST_STREAM, stream).error, raw_h2.PROTOCOL_ERROR)
            # A head that comes byte by byte, and its end before it is whole.
            stream = self.open_raw(connection)
            for byte in b"\x01\x20\x00\x00abc":
                connection.frame(raw_h2.DATA, 0, stream, bytes([byte]))
            connection.frame(raw_h2.DATA, raw_h2.END_STREAM, stream)
            self.assertTrue(connection.wait(raw_h2.DATA, stream).flags & raw_h2.END_STREAM)
            # The connection is as good as before.
            self.assertEqual(connection.get("/healthz")[0], 200)
        self.assertEqual(metric(self.stack, "walle_tunnel_violations_total"), 4)
        self.assertEqual(metric(self.stack, "walle_tunnel_memory_bytes"), 0)

    def test_many_that_open_and_go(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN)
        for _ in range(20):
            with raw_h2.Connection(self.stack.gateway.ports["h2c"]) as connection:
                for _ in range(20):
                    connection.headers(raw_h2.request(*TUNNEL, DEVICE, ("priority", "u=0, i")), flags=raw_h2.END_HEADERS)
                stream = self.open_raw(connection)
                connection.frame(raw_h2.RST_STREAM, 0, stream, struct.pack(">I", raw_h2.CANCEL))
                self.assertEqual(connection.get("/healthz")[0], 200)
        wait_until(lambda: metric(self.stack, "walle_tunnel_streams") == 0, what="all streams to be gone")


if __name__ == "__main__":
    unittest.main()
