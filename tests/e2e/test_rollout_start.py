"""`walle rollout start`: drawn up anew while another rollout of the task is made, and which release may follow it."""
import os
import socket
import subprocess
import threading
import time
import unittest

from walle_stack import Stack

TASK = "shop/score"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1}]
SCRIPT = "import walle\nwalle.result(1)\n"


class Gate:
    """In front of a gateway: the first request with a body is held until the gate opens."""

    def __init__(self, port):
        self.port, self.seen, self.open = port, threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.port))
                threading.Thread(target=self._copy, args=(server, client), daemon=True).start()
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
        except OSError:
            pass  # closed

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _forward(self, client, server):
        stream = client.makefile("rb")
        try:
            server.sendall(stream.read(24))  # the preface; then frames (RFC 9113 section 4.1)
            while len(head := stream.read(9)) == 9:
                frame = head + stream.read(int.from_bytes(head[:3], "big"))
                if head[3] == 1 and not head[4] & 1:  # HEADERS without END_STREAM: a body follows
                    self.seen.set()
                    self.open.wait(60)
                server.sendall(frame)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.open.set()
        self.listener.close()


class RolloutStart(unittest.TestCase):
    def test_another_rollout_comes_in_between(self):
        with Stack() as stack:
            stack.start_gateway()
            stack.release(TASK, 1, SCRIPT, STAGES)
            with open(os.path.join(stack.gateway.folder, "admin.token"), encoding="ascii") as file:
                token = file.read().strip()
            gate = Gate(stack.gateway.ports["h2c"])
            self.addCleanup(gate.close)
            child = stack.spawn("walle", "rollout", "start", TASK, "--accept-empty", "--gateway", gate.url, "--token", token,
                                "--build", stack.path("build1"), "--key",
                                stack.path("release.key"), "--stages", stack.path("stages.json"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
            self.assertTrue(gate.seen.wait(60))  # it has asked for the task, and what it drew up waits at the gate
            second = stack.release(TASK, 2, SCRIPT, STAGES)
            gate.open.set()
            said = []
            for line in child.stderr:
                said.append(line)
                if "drawn up anew" in line:
                    break
            self.assertIn("brings this version already", said[0], said)
            self.assertIn("drawn up anew", said[-1], said)
            out, more = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, more)
            third = out.split()[0]
            counters = {name: stack.api("/api/v1/rollouts/" + name)[1]["release_counter"] for name in (second, third)}
            self.assertGreater(counters[third], counters[second])

    def test_what_may_follow(self):
        with Stack() as stack:
            stack.start_gateway("--set", "rollout.tick_ms=50")
            full = [{**STAGES[0], "max_failure": 1}]

            def start(number, *more):
                rollout = stack.release(TASK, number, SCRIPT, full, more=("--trust-unproven", *more))
                view = stack.api("/api/v1/rollouts/" + rollout)[1]
                return rollout, view["release_counter"], view["floor"]

            def complete(rollout):
                device = stack.spawn("walle-device", "--gateway", stack.gateway.url, "--dir", stack.path("device"), "--id", "00000000000000f1",
                                     "--trust", stack.path("release.key.pub"), "--once", stdout=subprocess.DEVNULL)
                self.assertEqual(device.wait(60), 0)
                for _ in range(3000):
                    if stack.api("/api/v1/rollouts/" + rollout)[1]["state"] == "completed":
                        return
                    time.sleep(0.02)
                self.fail(f"rollout {rollout} did not complete")

            first = start(1)
            self.assertEqual(first[1:], (1, 0))  # nothing was released before
            complete(first[0])
            second = start(2)
            self.assertEqual(second[1:], (2, 1))  # the baseline
            complete(second[0])
            third = start(3, "--floor", "1.0.1")  # further back
            self.assertEqual(third[1:], (3, 1))
            fourth = start(4, "--floor", "1.0.4")  # not back at all
            self.assertEqual(fourth[1:], (4, 4))
            for version in ("1.0.3", "7.0.0"):  # open, and unknown
                with self.assertRaises(AssertionError) as caught:
                    start(10 + int(version[0]) + int(version[-1]), "--floor", version)
                self.assertIn("never released", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
