"""The same seed gives the same run whatever the program was built with: every build of these sources that is at hand plays it, and
the digests are one. `./test` has two of them, the sanitizers' builds; a release build that is up to date joins in."""
import json
import os
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import BIN, SOURCE, Stack

NAME = "walle-fleet-sim"


def sources():
    for part in ("fleet-sim", "device", "gateway", "policy", "engine"):
        for folder, _, names in os.walk(os.path.join(SOURCE, part)):
            yield from (os.path.join(folder, name) for name in names if name.endswith((".c", ".h")))


def builds():
    """Folders of builds whose program is younger than every source that it could be of."""
    newest = max(map(os.path.getmtime, sources()))
    root = os.path.join(SOURCE, "build")
    programs = {os.path.join(root, name): os.path.join(root, name, "bin", NAME) for name in sorted(os.listdir(root))}
    return [folder for folder, path in programs.items() if os.path.exists(path) and os.path.getmtime(path) > newest]


class FleetBuilds(unittest.TestCase):
    def test_every_build_plays_the_same_run(self):
        own = os.path.dirname(os.path.abspath(BIN))
        others = [folder for folder in builds() if os.path.abspath(folder) != own]
        if not others and os.environ.get("WALLE_SANITIZE") != "thread":  # ./test has built another one before that
            self.skipTest("no other build of these sources is there")
        self.assertTrue(others)
        with Stack() as stack:
            folder = FleetFolder(stack)
            folder.release("1.0.0")
            folder.stop()
            digests = {}
            for build in [own, *others]:
                out = stack.path("out-" + os.path.basename(build))
                run = subprocess.run([os.path.join(build, "bin", NAME), "run", *folder.words(), "--devices", "300", "--duration", "900",
                                      "--fault", "process:kill @ 10%", "--fault", "network:delay 3000 @ 20%", "--fault",
                                      "storage:torn @ 20%", "--real-every", "20", "--no-live", "--out", out],
                                     capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
                self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr)
                with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                    result = json.load(file)
                self.assertGreater(result["totals"]["crashes"], 0)
                digests[os.path.basename(build)] = (result["virtual"]["digest"], result["totals"], result["latency_us"])
            print("one digest:", *digests, flush=True)
            for name, found in digests.items():
                self.assertEqual(found, digests[os.path.basename(own)], name)


if __name__ == "__main__":
    unittest.main()
