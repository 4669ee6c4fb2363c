"""Ids that collide in an unkeyed table, against the shipped gateway: no look-up is long, neither while they come nor when
a restart reads their records again."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from hostile import chosen_ids, target  # noqa: E402
from raw_device import metrics  # noqa: E402
from walle_stack import Stack  # noqa: E402

COUNT = 5000


class ChosenIds(unittest.TestCase):
    def test_no_look_up_is_long(self):
        with Stack() as stack:
            gateway = stack.start_gateway()
            counts = chosen_ids.attack(target.Target(h2c=gateway.ports["h2c"]), threading.Event(), COUNT)
            self.assertEqual((counts["reports"], counts["checkins"], counts["refused"]), (COUNT, COUNT, 0))
            seen = metrics(gateway.ports["h2c"])
            self.assertEqual(seen["walle_devices"], COUNT)
            self.assertEqual(seen["walle_table_probes_long_total"], 0)
            self.assertEqual(gateway.stop(), 0)
            seen = metrics(stack.start_gateway().ports["h2c"])
            self.assertEqual(seen["walle_devices"], COUNT)
            self.assertEqual(seen["walle_table_probes_long_total"], 0)


if __name__ == "__main__":
    unittest.main()
