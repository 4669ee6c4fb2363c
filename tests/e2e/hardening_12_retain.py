"""The disk has a bound that strangers cannot use up: the segment log has one without being told, and near a full disk
strangers are refused first, then devices, and operators last; all of it said in log and metrics."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import raw_device  # noqa: E402
from walle_stack import Stack, wait_until  # noqa: E402


def free_bytes(path):
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


class Retain(unittest.TestCase):
    def enrolled(self, stack):
        """Header of a device that enrolled."""
        token = stack.walle("token", "new", "--name", "factory", "--role", "enrol").stdout.strip()
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-X", "POST", "-H", f"authorization: Bearer {token}",
                              "-H", "walle-device: " + raw_device.hexa(7), stack.gateway.url + "/v1/enroll"],
                             capture_output=True, timeout=90, check=True)
        return "walle-credential", re.search(rb"wdt_[A-Za-z0-9_-]{43}", run.stdout).group().decode()

    def report(self, stack, device, *headers):
        with raw_device.Requests(stack.gateway.ports["h2c"]) as requests:
            return list(requests.settle([requests.report(device, *headers)]).values())

    def level(self, stack):
        return raw_device.metrics(stack.gateway.ports["h2c"])["walle_disk_level"]

    def test_the_log_has_a_bound(self):
        with Stack() as stack:
            gateway = stack.start_gateway()
            seen = raw_device.metrics(gateway.ports["h2c"])
            self.assertGreater(seen["walle_tunnel_log_retain_bytes"], 0)
            self.assertLess(seen["walle_tunnel_log_retain_bytes"], seen["walle_disk_free_bytes"])
            self.assertEqual(seen["walle_tunnel_unproven_day_bytes"] // 2**20, seen["walle_tunnel_log_retain_bytes"] // 10 // 2**20)
            self.assertEqual(seen["walle_disk_level"], 0)
            self.assertIn("the segment log may have", gateway.log_text())

    def test_strangers_then_devices_then_operators(self):
        with Stack() as stack:
            stack.start_gateway()
            credential = self.enrolled(stack)
            self.assertEqual(self.report(stack, 1), [204])
            self.assertEqual(self.report(stack, 7, credential), [204])
            self.assertEqual(stack.gateway.stop(), 0)

            near = free_bytes(stack.folder) * 3 // 4  # there is more than that, and less than twice of it
            stack.start_gateway("--set", f"disk.keep_free_bytes={near}")
            wait_until(lambda: self.level(stack) == 1, what="the level of strangers")
            self.assertEqual(self.report(stack, 2), [503])
            self.assertEqual(self.report(stack, 8, credential), [401])  # its credential is device 7's
            with raw_device.Requests(stack.gateway.ports["h2c"]) as requests:
                streams = [requests.report(7, credential, seq=2), requests.checkin(3, raw_device.profile())]
                self.assertEqual(sorted(requests.settle(streams).values()), [204, 204])
            self.assertIn("what unproven devices send is refused", stack.gateway.log_text())
            self.assertEqual(stack.gateway.stop(), 0)

            stack.start_gateway("--set", f"disk.keep_free_bytes={near * 4}")
            wait_until(lambda: self.level(stack) == 2, what="the level of devices")
            with raw_device.Requests(stack.gateway.ports["h2c"]) as requests:
                self.assertEqual(list(requests.settle([requests.report(7, credential, seq=3)]).values()), [503])
            stack.walle("token", "new", "--name", "ana", "--role", "viewer")  # operators still change things
            seen = raw_device.metrics(stack.gateway.ports["h2c"])
            self.assertEqual(seen["walle_disk_refused_total"], 1)
            self.assertIn("what devices send is refused", stack.gateway.log_text())


if __name__ == "__main__":
    unittest.main()
