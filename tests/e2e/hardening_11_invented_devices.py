"""Made-up devices leave nothing in the shipped gateway but as many records as the budgets allow, and those end; whoever
enrolled stays."""
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import raw_device  # noqa: E402
from hostile import invented_devices, target  # noqa: E402
from walle_stack import Stack, program, wait_until  # noqa: E402

COUNT, BUDGET = 4000, 300


class InventedDevices(unittest.TestCase):
    def attack(self, gateway, **more):
        return invented_devices.attack(target.Target(h2c=gateway.ports["h2c"]), threading.Event(), COUNT, **more)

    def test_checkins_and_hints_leave_nothing(self):
        with Stack() as stack:
            gateway = stack.start_gateway()
            counts = self.attack(gateway, reports=False)
            self.assertEqual((counts["checkins"], counts["refused"], counts["closed"]), (COUNT, 0, 0), counts)
            # The answers came; what they would leave is flushed by the time the next device has enrolled and been seen.
            token = stack.walle("token", "new", "--name", "factory", "--role", "enrol").stdout.strip()
            stack.secret("enrol.token", token)
            subprocess.run([program("walle-device"), "--gateway", gateway.url, "--dir", stack.path("device"), "--trust",
                            "11" * 32, "--enroll-token", stack.path("enrol.token"), "--once"], check=True, timeout=60,
                           stderr=subprocess.DEVNULL)
            seen = wait_until(lambda: (now := raw_device.metrics(gateway.ports["h2c"]))["walle_devices"] >= 1 and now)
            self.assertEqual(seen["walle_devices"], 1, "strangers have records")
            self.assertEqual(seen["walle_devices_unproven"], 0)
            self.assertEqual(seen["walle_checkins_total"], COUNT + 1)
            self.assertEqual(gateway.stop(), 0)
            seen = raw_device.metrics(stack.start_gateway().ports["h2c"])
            self.assertEqual(seen["walle_devices"], 1)

    def test_reports_are_budgeted_and_end(self):
        with Stack() as stack:
            settings = ["--set", f"device.unproven_per_address={BUDGET}", "--set", "device.unproven_expire_s=86400"]
            gateway = stack.start_gateway(*settings)
            counts = self.attack(gateway)
            self.assertEqual(counts["refused"], COUNT - BUDGET)
            seen = raw_device.metrics(gateway.ports["h2c"])
            self.assertEqual(seen["walle_devices_unproven"], BUDGET)
            self.assertEqual(seen["walle_devices_unproven_refused_total"], COUNT - BUDGET)
            self.assertEqual(gateway.stop(), 0)
            # They are of another time: nobody hears of them any more.
            gateway = stack.start_gateway(*settings[:2], "--set", "device.unproven_expire_s=1")
            wait_until(lambda: raw_device.metrics(gateway.ports["h2c"])["walle_devices_expired_total"] == BUDGET,
                       what="the records' end")
            self.assertEqual(raw_device.metrics(gateway.ports["h2c"])["walle_devices"], 0)
            self.assertEqual(gateway.stop(), 0)
            seen = raw_device.metrics(stack.start_gateway(*settings).ports["h2c"])
            self.assertEqual(seen["walle_devices"], 0)


if __name__ == "__main__":
    unittest.main()
