"""Who tries wrong tokens locks out nobody: from the very address that is being limited, an operator's token works and a
device enrols, with the shipped programs."""
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from hostile import bad_tokens, target  # noqa: E402
from walle_stack import Stack  # noqa: E402

ADMIN = "kTq1pR0mVz8Yd2hXw5uNc7LsAe4BfGi3Jo6QrStUvWx"


class BadTokens(unittest.TestCase):
    def test_good_tokens_pass(self):
        with Stack() as stack:
            with open(os.open(stack.path("admin.token"), os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(ADMIN + "\n")
            gateway = stack.start_gateway("--set", "admin.token_file=" + stack.path("admin.token"))
            enrol = stack.walle("token", "new", "--name", "factory", "--role", "enrol", "--token", ADMIN).stdout.strip()
            counts = bad_tokens.attack(target.Target(h2c=gateway.ports["h2c"]), threading.Event(), rounds=1)
            self.assertEqual((counts["passed"], counts["closed"]), (0, 0), counts)
            self.assertGreater(counts["refused"], 0)
            self.assertGreater(counts["limited"], 0)  # the address has no tries left

            stack.walle("task", "list", "--token", ADMIN)
            run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-o", os.devnull, "-w", "%{http_code}", "-X", "POST",
                                  "-H", f"authorization: Bearer {enrol}", gateway.url + "/v1/enroll"],
                                 capture_output=True, text=True, timeout=90, check=True)
            self.assertEqual(run.stdout, "201")


if __name__ == "__main__":
    unittest.main()
