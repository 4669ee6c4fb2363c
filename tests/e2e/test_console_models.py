"""The console shows the models that its gateway serves, with what is in the store and what is released: the page's own script, run in
node against a real gateway."""
import json
import os
import shutil
import subprocess
import time
import unittest

from test_inference import relu_model, save
from test_model_release import other_model
from walle_stack import Stack

# A page as far as its script needs one: what it was filled with is read as text, node by node. Words behind the token are the texts of
# buttons that are pressed, one after the other.
PAGE = """
const [url, token, ...presses] = process.argv.slice(2), nodes = {};
class Node {
  constructor() { this.style = {}; this.value = ""; this.textContent = ""; this.className = ""; this.children = []; this.heard = {}; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.children = more; }
  addEventListener(name, work) { this.heard[name] = work; }
  all() { return [this, ...this.children.flatMap((child) => child.all())]; }
  text() { return [this.textContent, ...this.children.map((child) => child.text())].filter((text) => text).join(" | "); }
}
const document = { getElementById: (id) => nodes[id] ||= new Node(), createElement: () => new Node() };
const sessionStorage = { getItem: () => token, setItem() {} };
const history = { replaceState() {} };
const location = { pathname: "/", hash: "" };
const addEventListener = () => {};
const ask = globalThis.fetch;
const fetch = (path, options) => ask(url + path, options);
async function done() {
  for (const text of presses) {
    const button = Object.values(nodes).flatMap((node) => node.all()).find((node) => node.textContent === text && node.heard.click);
    await button.heard.click();
  }
  const said = { models: nodes.models.text(), note: nodes.note.textContent.split(",")[0], version: nodes.version?.text() };
  console.log(JSON.stringify(said));
  process.exit(0);
}
function page(setTimeout) {SCRIPT}
page(done); // it asks again: it has shown what there is
"""


@unittest.skipUnless(shutil.which("node"), "runs the page's script in node")
class Console(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def look(self, *presses, page=PAGE):
        html = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", self.stack.gateway.url + "/"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        script = html.split("<script>")[1].split("</script>")[0]
        run = subprocess.run(["node", "-", self.stack.gateway.url, self.stack.admin_token, *presses], input=page.replace("SCRIPT", script), capture_output=True,
                             text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)


class ConsoleModels(Console):
    def setUp(self):
        super().setUp()
        os.mkdir(self.stack.path("models"))
        save(relu_model(), self.stack.path("models"), "relu", "1")

    def test_models_and_their_releases(self):
        self.stack.start_gateway("--set", f"infer.models={self.stack.path('models')}")
        seen = self.look()
        self.assertEqual(seen["note"], "live")
        self.assertIn("relu | 1 | 1 | – | –", seen["models"])
        path = self.stack.path("other.onnx")
        with open(path, "wb") as file:
            file.write(other_model().SerializeToString())
        self.stack.walle("model", "push", "relu", path, "--version", "2")
        self.stack.walle("model", "release", "relu", "--version", "2")
        until = time.monotonic() + 60
        while "differ: " not in (models := self.look()["models"]) and time.monotonic() < until:
            pass # the questions are asked at the release's next step
        for text in ("relu | 1 | 1, 2 | 2 | ", "running", "version 2 beside 1, stage 1 of ", "10 % of the others' calls run twice", "differ: ",
                     "last: start"):
            self.assertIn(text, models)

    def test_a_gateway_without_models(self):
        self.stack.start_gateway()
        seen = self.look()
        self.assertEqual(seen["note"], "live", "the rest of the page goes on")
        self.assertEqual(seen["models"], "none")


if __name__ == "__main__":
    unittest.main(verbosity=2)
