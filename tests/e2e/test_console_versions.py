"""The console says in plain words, with units, what a version's manifest declares: each word of task.json that a manifest has, and one that
the page does not know as it is. The page's own script, run in node against a real gateway."""
import json
import os
import unittest

from test_console_models import PAGE, Console

ALL = {"heap_kib": 2048, "time_ms": 2500, "every_s": 900, "config": {"a": 1}, "priority": 0, "deadline_ms": 60000,
       "triggers": ["enter(item) * exit(item) page"], "events": {"take": "time", "seconds": 7200, "most": 1000, "attributes": ["price", "item"]},
       "uploads": [{"name": "spent", "class": "realtime", "version": 3}, {"name": "raw"}], "result": "spent",
       "store": {"quota_kib": 16, "keep": "version"},
       "leaves": {"errors": "place", "uploads": {"spent": {"fields": {"item": {"type": "string", "max": 64}, "n": {"type": "integer"}},
                                                           "max_bytes": 2048, "per_day": 10}},
                  "infer": {"ranker": {"inputs": {"x": {"dtype": "FP32", "max_elements": 4096}}, "max_bytes": 20000, "per_day": 1000}}}}
SAID = ["starts with task", "its script has 2 MiB of memory", "a run takes 2.5 s at most", "runs every 15 min",
        "priority 0: goes first, and waits for none of a lower one", "a run is to be over within 60 s of when it is due",
        "starts when behaviour matches: enter(item) * exit(item) page",
        "a run gets all events of the last 2 h, the newest 1,000; of events it wants item, price",
        "may send: spent (realtime, schema version 3), raw (behaviour, schema version 1)", "its result is sent as spent",
        "may keep 16 KiB on the device, each version for itself",
        "leaves with spent: item (string, 64 at most), n (integer); 2 KiB at most, 10 a day at most",
        "may ask model ranker in the cloud with x (FP32, 4,096 elements at most); 19.5 KiB at most, 1,000 a day at most",
        "of a failure its place alone is told, not its words"]


class ConsoleVersions(Console):
    def push(self, version, **words):
        source, build = self.stack.path("source"), self.stack.path("build")
        os.makedirs(source, exist_ok=True)
        for name, text in (("task.json", json.dumps({"name": "shop/spent", "version": version, "entry": "task", "files": ["task.py"], **words})),
                           ("task.py", "import walle\nwalle.result({'n': 1, 'item': 'a'})\n")):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        self.stack.walle("rollout", "start", "shop/spent", "--build", build, "--key", self.stack.path("key"))
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            return json.load(file)["manifest"]

    def setUp(self):
        super().setUp()
        self.stack.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("key"))

    def test_every_word(self):
        manifest = self.push("1.2.0", **ALL)
        version = self.look("1.2.0")["version"]
        self.assertIn("shop/spent 1.2.0 | 1 file, ", version)
        for text in SAID:
            self.assertIn(text, version.split(" | "))
        self.assertNotIn("undefined", version)
        self.assertEqual(len(version.split(" | ")), 3 + len(SAID), version)
        said = self.stack.api(f"/api/v1/tasks/shop%2Fspent/versions/{manifest}")[1]["declares"]
        self.assertEqual({key: said[key] for key in ("heap_kib", "time_ms", "every_s", "priority", "deadline_ms", "triggers", "store", "result")},
                         {key: ALL[key] for key in ("heap_kib", "time_ms", "every_s", "priority", "deadline_ms", "triggers", "store", "result")})
        self.assertEqual(said["events"], {**ALL["events"], "attributes": ["item", "price"]})
        self.assertEqual(said["uploads"], [{"name": "spent", "class": "realtime", "version": 3}, {"name": "raw", "class": "behaviour", "version": 1}])

    def test_two_at_once_and_what_is_not_said(self):
        """What holds where a manifest says nothing is said, too."""
        self.push("1.0.0", at_once=2, triggers=["enter(item)"], leaves={})
        version = self.look("1.0.0")["version"].split(" | ")
        for text in ("2 of its runs may go at once", "its script has 256 KiB of memory", "a run takes 1 s at most", "nothing leaves the device",
                     "a run gets the events that matched its trigger"):
            self.assertIn(text, version)

    def test_a_version_that_says_nothing(self):
        self.push("1.0.0")
        version = self.look("1.0.0")["version"].split(" | ")
        for text in ("runs once, when it is new on a device",
                     "what leaves the device is not declared: uploads go as they are, and no model in the cloud is called"):
            self.assertIn(text, version)

    def test_a_word_that_the_page_does_not_know(self):
        """As it is: a gateway may be newer than a page that lies in a browser."""
        self.assertIn("fetch", PAGE)
        page = PAGE.replace("const fetch = (path, options) => ask(url + path, options);", """
const fetch = async (path, options) => {
  const reply = await ask(url + path, options);
  if (!path.includes("/versions/")) return reply;
  const body = await reply.json();
  Object.assign(body.declares, { constructor: 1, "moon_phase": { full: true }, triggers: 7, priority: 9 });
  return { ok: true, status: 200, json: async () => body };
};""")
        self.push("1.0.0")
        version = self.look("1.0.0", page=page)["version"].split(" | ")
        for text in ("constructor: 1", 'moon_phase: {"full":true}', "triggers: 7", "priority 9"):
            self.assertIn(text, version)


if __name__ == "__main__":
    unittest.main(verbosity=2)
