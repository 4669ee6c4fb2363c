"""Point 15: `walle console` logs a browser in without showing anybody the token. What stands in the link is good once, for a minute, at
one door; what it is exchanged for is the operator who asked, and ends with the operator's token."""
import json
import os
import pty
import re
import shutil
import stat
import subprocess
import unittest

from raw_h2 import DATA, END_HEADERS, END_STREAM, Connection, request
from walle_stack import Stack, program, wait_until

DOOR = "/api/v1/console/session"
JSON = ("content-type", "application/json")

# A tab of a browser as far as the page needs one: what its words say is done in turn, then it says what the page came to.
TAB = """
const words = process.argv.slice(2), nodes = {}, kept = {}, heard = {};
let asked = 0, loops = 0;
class Node {
  constructor() { this.style = {}; this.value = ""; this.textContent = ""; this.className = ""; this.heard = {}; }
  append() {}
  replaceChildren() {}
  addEventListener(name, work) { this.heard[name] = work; }
}
const document = { getElementById: (id) => nodes[id] ||= new Node(), createElement: () => new Node() };
const sessionStorage = { getItem: (name) => kept[name], setItem: (name, value) => { kept[name] = value; } };
const history = { replaceState: () => { location.hash = ""; } };
const location = { pathname: "/", hash: "" };
const addEventListener = (name, work) => { heard[name] = work; };
const later = globalThis.setTimeout;
const rest = () => new Promise((done) => later(done, 20));
const reply = (ok, status, body) => ({ ok, status, json: async () => body });
async function fetch(path, { method, headers }) {
  if (method) return headers.authorization === "Bearer fresh" ? reply(true, 200, { token: "good" }) : reply(false, 401, {});
  asked++;
  return headers.authorization === "Bearer good" ? reply(true, 200, { items: [], state: "sure" }) : reply(false, 401, { detail: "who?" });
}
async function act(word, first) {
  const [what, value] = word.split(" ");
  if (what === "link") {
    location.hash = "#code=" + value;
    if (!first) heard.hashchange();
  } else {
    document.getElementById("token").value = value;
    nodes.access.heard.submit({ preventDefault() {} });
  }
  await rest();
}
function page(setTimeout) {PAGE}
async function main() {
  const first = words.length > 0 && words[0].startsWith("link");
  if (first) await act(words.shift(), true);
  page(() => { loops++; });
  await rest();
  for (const word of words) await act(word, false);
  console.log(JSON.stringify({ note: nodes.note.textContent.split(",")[0], asked, loops }));
}
main();
"""


class Console(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.addCleanup(os.environ.__setitem__, "XDG_STATE_HOME", os.environ["XDG_STATE_HOME"])
        os.environ["XDG_STATE_HOME"] = self.stack.path("state")
        self.gateway = self.stack.start_gateway()

    def ask(self, path, method="GET", bearer=None, more=()):
        """Over TLS, as a browser does."""
        fields = (("authorization", "Bearer " + bearer),) if bearer else ()
        with Connection(self.gateway.ports["tls"], tls=True) as connection:
            status, body = connection.reply(connection.headers(request(path, method, JSON, *fields, *more)))
        try:
            return status, json.loads(body)
        except ValueError:
            return status, body

    def link(self, *arguments):
        run = self.stack.walle("console", *arguments)
        self.assertIn("good once, for 60 s", run.stderr)
        return run.stdout.strip()

    def code(self, *arguments):
        return self.link(*arguments).partition("#code=")[2]

    def session(self, *arguments):
        status, body = self.ask(DOOR, "POST", self.code(*arguments))
        self.assertEqual(status, 200, body)
        return body["token"]

    def test_the_link(self):
        link = self.link()
        self.assertRegex(link, r"^https://127\.0\.0\.1:\d+/#code=wlc_[A-Za-z0-9_-]{43}$")
        self.assertIn(f":{self.gateway.ports['tls']}/", link)
        self.assertNotIn(self.stack.admin_token, link)
        link = self.link("--gateway", self.gateway.tls_url + "/", "--insecure")
        self.assertTrue(link.startswith(self.gateway.tls_url + "/#code="))
        shown = json.loads(self.stack.walle("console", "open", "-o", "json").stdout)
        self.assertEqual(shown["expires_in_s"], 60)
        run = self.stack.walle("console", "--gateway", self.gateway.url, "--token", "x", check=False)
        self.assertIn("401", run.stderr)
        self.assertIn("console", self.stack.walle("console", "--help").stdout)
        self.assertIsNone(re.search(r"w[alc][tcs]_", self.gateway.log_text()))

    def test_a_code_is_good_once_and_at_one_door(self):
        code = self.code()
        for path, method in (("/api/v1/tasks", "GET"), ("/api/v1/whoami", "GET"), ("/api/v1/tokens", "POST"), ("/metrics", "GET"),
                             ("/api/v1/console/code", "POST")):
            self.assertEqual(self.ask(path, method, code)[0], 401, path)
        # A page of another site that guessed or stole it gets nothing, and does not use it up.
        self.assertEqual(self.ask(DOOR, "POST", code, (("origin", "http://evil.example"),))[0], 403)
        self.assertEqual(self.ask(DOOR, "POST", code, (("sec-fetch-site", "cross-site"),))[0], 403)
        self.assertEqual(self.ask(DOOR, "GET", code)[0], 405)
        status, body = self.ask(DOOR, "POST", code, (("sec-fetch-site", "same-origin"),))
        self.assertEqual((status, body["name"], body["role"], body["expires_in_s"]), (200, "admin", "admin", 43200))
        self.assertRegex(body["token"], r"^wcs_[A-Za-z0-9_-]{43}$")
        self.assertEqual(self.ask(DOOR, "POST", code)[0], 401, "a second time")
        for wrong in ("wlc_" + "A" * 43, "wlc_", body["token"]):
            self.assertEqual(self.ask(DOOR, "POST", wrong)[0], 401)
        self.assertEqual(self.ask(DOOR, "POST", self.stack.admin_token)[0], 400, "a token is no code")
        self.assertEqual(self.ask(DOOR, "POST")[0], 401)

    def test_a_session_is_who_asked(self):
        session = self.session()
        self.assertEqual(self.ask("/api/v1/whoami", bearer=session)[1]["name"], "admin")
        self.assertEqual(self.ask("/metrics", bearer=session)[0], 200)
        self.assertEqual(self.ask("/api/v1/console/code", "POST", session)[0], 400, "a session opens no other one")
        made = json.loads(self.stack.walle("token", "new", "--name", "vera", "--role", "viewer", "-o", "json").stdout)
        viewer = self.session("--token", made["secret"])
        self.assertEqual(self.ask("/api/v1/whoami", bearer=viewer)[1]["role"], "viewer")
        self.assertEqual(self.ask("/api/v1/tokens", bearer=viewer)[0], 403)
        self.stack.walle("token", "revoke", made["id"])
        self.assertEqual(self.ask("/api/v1/whoami", bearer=viewer)[0], 401, "it ends with the token")
        self.assertEqual(self.ask("/api/v1/whoami", bearer=session)[0], 200)
        self.gateway.stop()
        self.gateway = self.stack.restart_gateway()
        self.assertEqual(self.ask("/api/v1/whoami", bearer=session)[0], 401, "and with the gateway")

    def test_guessing_is_counted(self):
        self.assertIn(429, [self.ask(DOOR, "POST", f"wlc_{number:043d}")[0] for number in range(25)])
        self.assertEqual(self.ask(DOOR, "POST", self.code())[0], 200, "a good one passes all the same")

    def test_only_the_last_codes_are_kept(self):
        first = self.code()
        codes = [self.code() for _ in range(16)]
        self.assertEqual(self.ask(DOOR, "POST", first)[0], 401)
        self.assertEqual(self.ask(DOOR, "POST", codes[-1])[0], 200)

    def test_others_do_not_end_a_login(self):
        made = json.loads(self.stack.walle("token", "new", "--name", "vera", "--role", "viewer", "-o", "json").stdout)
        code, session = self.code(), self.session()
        for _ in range(20):
            self.assertEqual(self.ask("/api/v1/console/code", "POST", made["secret"])[0], 200)
        self.assertEqual(self.ask(DOOR, "POST", code)[0], 200, "a viewer's codes end no administrator's")
        self.assertEqual(self.ask("/api/v1/whoami", bearer=session)[0], 200)

    def test_a_token_of_a_session_ends(self):
        session = self.session()

        def make(bearer, **more):
            fields = (("authorization", "Bearer " + bearer), JSON)
            with Connection(self.gateway.ports["tls"], tls=True) as connection:
                stream = connection.headers(request("/api/v1/tokens", "POST", *fields), flags=END_HEADERS)
                connection.frame(DATA, END_STREAM, stream, json.dumps({"name": "x", "role": "viewer", **more}).encode())
                status, body = connection.reply(stream)
            return status, json.loads(body)
        for more in ({}, {"expires_in_s": 2592001}):
            status, body = make(session, **more)
            self.assertEqual(status, 400, body)
            self.assertIn("at most 2592000", body["detail"])
        status, body = make(session, expires_in_s=2592000)
        self.assertEqual(status, 201, body)
        self.assertGreater(body["expires_s"], 0)
        self.assertEqual(make(self.stack.admin_token)[0], 201, "a token makes what it likes")

    def test_no_command_shows_the_code(self):
        """The browser is started with the path of a page that its user alone reads: every user sees the words of a command."""
        bin_folder, words = self.stack.path("bin"), self.stack.path("words")
        os.mkdir(bin_folder)
        with open(os.path.join(bin_folder, "xdg-open"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho "$@" > {words}.new; mv {words}.new {words}\n')
        os.chmod(os.path.join(bin_folder, "xdg-open"), 0o755)
        env = {**os.environ, "PATH": bin_folder + ":" + os.environ["PATH"], "DISPLAY": ":0", "WALLE_GATEWAY": self.gateway.url}

        def walle(*more):
            ours, theirs = pty.openpty()
            run = subprocess.run([program("walle"), "console", *more], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
                                 env=env, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            os.close(theirs)
            link = os.read(ours, 4096).decode().strip()
            os.close(ours)
            return link
        link = walle()
        wait_until(lambda: os.path.exists(words), what="the browser")
        with open(words, encoding="utf-8") as file:
            path = file.read().strip()
        self.assertEqual(path, os.path.join(os.environ["XDG_STATE_HOME"], "walle", "console", "open.html"))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as file:
            self.assertIn(f"url={link}\"", file.read())
        # A link that somebody put in its place is replaced, not followed.
        os.unlink(path)
        os.symlink(self.stack.path("elsewhere"), path)
        walle()
        self.assertFalse(os.path.islink(path) or os.path.exists(self.stack.path("elsewhere")))
        os.unlink(words) if os.path.exists(words) else None
        os.unlink(path)
        walle("--no-open")
        self.assertFalse(os.path.exists(path))

    @unittest.skipUnless(shutil.which("node"), "runs the page's script in node")
    def test_the_page_comes_to_life(self):
        """With a link that is used up, a token that is typed and a fresh link in the same tab each make the page ask; and it asks in
        one loop."""
        script = re.search(r"<script>(.*)</script>", self.ask("/")[1].decode(), re.DOTALL).group(1)
        for words, wanted in ((["link used"], {"note": "this link was used or ran out: walle console prints another", "asked": 0, "loops": 0}),
                              (["link used", "type good"], {"note": "live", "asked": 4, "loops": 1}),
                              (["link used", "link fresh"], {"note": "live", "asked": 4, "loops": 1}),
                              (["link used", "type bad"], {"note": "401 who?", "asked": 4, "loops": 1}),
                              (["link used", "type bad", "type good", "link fresh"], {"note": "live", "asked": 12, "loops": 1}),
                              (["link fresh", "link used"], {"note": "live", "asked": 8, "loops": 1}),
                              ([], {"note": "401 who?", "asked": 4, "loops": 1})):
            run = subprocess.run(["node", "-", *words], input=TAB.replace("PAGE", script), capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(json.loads(run.stdout), wanted, words)

    def test_the_page_forgets_the_code(self):
        status, page = self.ask("/")
        self.assertEqual(status, 200)
        text = page.decode()
        self.assertIn('history.replaceState(null, "", location.pathname)', text)
        self.assertLess(text.index("history.replaceState"), text.index(DOOR))
        self.assertNotIn("localStorage", text)


if __name__ == "__main__":
    unittest.main()
