#!/usr/bin/env python3
"""How many devices there are, by an attribute: the API's numbers, the command's lines, and what of other tenants is not counted."""
import json
import unittest

import raw_device
from walle_stack import Stack, wait_until

FLEET = [{"os": "android", "model": f"phone-{i % 13}", "channel": "stable"} for i in range(26)] + [{"os": "ios"}] * 4 + [{}]
raw_device.CODES.update({"channel": 2, "model": 4})
SIX = ["os", "model", "app_version", "os_version", "region", "channel"]


class DeviceCount(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway()

    def come(self):
        """The fleet enrols, for strangers have no record, and checks in."""
        credentials = self.stack.enrol(range(1, len(FLEET) + 1))
        for number, attrs in enumerate(FLEET, 1):
            status, body = self.stack.post("/v1/checkin", number, ("walle-credential", credentials[number]),
                                           ("walle-profile", raw_device.profile(**attrs)))
            self.assertIn(status, (200, 204), body)
        wait_until(lambda: self.counted()["devices"] == len(FLEET), what="all to be known")

    def counted(self, query=""):
        status, answer = self.stack.api("/api/v1/devices/count" + query)
        self.assertEqual(status, 200, answer)
        return answer

    def test_by_each_attribute(self):
        self.assertEqual(self.counted(), {"devices": 0, "by": {name: {"values": [], "other": 0, "without": 0} for name in SIX}})
        self.come()
        answer = self.counted()
        self.assertEqual((answer["devices"], list(answer["by"])), (31, SIX))
        self.assertEqual(answer["by"]["os"], {"values": [{"value": "android", "devices": 26}, {"value": "ios", "devices": 4}], "other": 0, "without": 1})
        models = answer["by"]["model"]
        self.assertEqual([item["devices"] for item in models["values"]], [2] * 10)
        self.assertEqual((models["other"], models["without"]), (6, 5))
        self.assertEqual(answer["by"]["region"], {"values": [], "other": 0, "without": 31})
        self.assertEqual(self.counted("?by=channel"), {"devices": 31, "by": {"channel": answer["by"]["channel"]}})
        self.assertEqual(self.counted("?by="), answer)

    def test_what_is_refused(self):
        for query, said in (("?by=colour", "query: by (ATTRIBUTE) is 'colour', none of os model app_version os_version region channel"), ("?by=" + "x" * 400, "too long"),
                            ("?by=%zz", "badly escaped"), ("?limit=5", "query: unknown parameter")):
            status, answer = self.stack.api("/api/v1/devices/count" + query)
            self.assertEqual((status, said in answer["detail"]), (400, True), answer)
        self.assertEqual(self.stack.api("/api/v1/devices/count", "POST", {})[0], 405)

    def test_the_command(self):
        self.come()
        said = self.stack.walle("device", "count", "os").stdout.splitlines()
        self.assertEqual([line.split() for line in said],
                         [["31", "devices"], ["os", "android", "26", "83.87", "%"], ["os", "ios", "4", "12.90", "%"], ["os", "(not", "told)", "1", "3.23", "%"]])
        self.assertEqual(json.loads(self.stack.walle("device", "count", "-o", "json").stdout), self.counted())
        run = self.stack.walle("device", "count", "colour", check=False)
        self.assertEqual((run.returncode, "none of os model" in run.stderr), (4, True), run.stderr)

    def test_another_tenant_is_not_counted(self):
        self.come()
        self.stack.walle("tenant", "new", "acme")
        run = self.stack.walle("device", "count", "-o", "json", "--tenant", "acme")
        self.assertEqual(json.loads(run.stdout)["devices"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
