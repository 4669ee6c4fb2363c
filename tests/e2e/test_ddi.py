"""hawkBit's device API: a client of our own with curl, and SWUpdate where it is installed."""
import hashlib
import json
import os
import shutil
import subprocess
import unittest

from walle_stack import Stack, wait_until

TASK, TOKEN = "ddi/firmware", "a-gateway-token-of-updaters"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 2, "min_dwell_s": 0, "max_failure": 0.5}]
BASE = "/default/controller/v1/"


def cpio(folder, names):
    """An archive of the "new CRC" format, as SWUpdate wants it."""
    out = b""
    for number, name in enumerate((*names, "TRAILER!!!")):
        data = b""
        if name in names:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
        fields = (number, 0o100644, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, sum(data) & 0xffffffff)
        out += b"070702" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return out


class Ddi(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.secret("token", TOKEN)
        self.gateway = self.stack.start_gateway("--set", f"ddi.token_file={self.stack.path('token')}", "--set", "rollout.tick_ms=50")
        self.versions = 0

    def release(self, content, target=None):
        self.versions += 1
        return self.stack.release(TASK, self.versions, "import walle\n", STAGES, ("image.swu", content), target)

    def call(self, path, method="GET", body=None, token="GatewayToken " + TOKEN):
        command = ["curl", "-sS", "--http2-prior-knowledge", "-X", method, "-w", "\n%{http_code}", "--max-time", "30"]
        if token:
            command += ["-H", f"authorization: {token}"]
        if body is not None:
            command += ["-H", "content-type: application/json", "--data-binary", json.dumps(body)]
        url = path if path.startswith("http") else self.gateway.url + path
        run = subprocess.run([*command, url], capture_output=True, text=True, timeout=60, check=True)
        text, _, status = run.stdout.rpartition("\n")
        return int(status), (json.loads(text) if text.startswith("{") else text)

    def links(self, device):
        status, answer = self.call(BASE + device)
        self.assertEqual(status, 200)
        self.assertRegex(answer["config"]["polling"]["sleep"], r"^\d\d:\d\d:\d\d$")
        return answer["_links"]

    def feedback(self, href, execution, finished, detail="done"):
        action = href.rsplit("/", 1)[1]
        return self.call(href + "/feedback", "POST", {"id": action, "time": "20261121T000000", "status": {
            "execution": execution, "result": {"finished": finished, "progress": {}}, "details": [detail, "more"]}})[0]

    def counts(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]

    def wait_count(self, rollout, name, value):
        wait_until(lambda: self.counts(rollout)[name] == value, what=f"{name} to be {value}: {self.counts(rollout)}")

    def test_deployment_flow(self):
        self.assertEqual(list(self.links("cam-01")), ["configData"])
        self.assertEqual(self.call(BASE + "cam-01/configData", "PUT", {"mode": "merge", "data": {
            "HwRevision": "1.2", "ram_mb": "512", "secure": "true"}})[0], 200)
        self.assertEqual(self.links("cam-01"), {})
        content = b"firmware image " * 1000
        rollout = self.release(content, 'hwrevision == "1.2" && ram_mb >= 512 && secure')
        href = wait_until(lambda: self.links("cam-01").get("deploymentBase"), what="a deployment")["href"]
        self.assertEqual(self.links("cam-02").get("deploymentBase"), None)  # not targeted
        status, answer = self.call(href)
        self.assertEqual((status, answer["id"]), (200, href.rsplit("/", 1)[1]))
        chunk = answer["deployment"]["chunks"][0]
        self.assertEqual((chunk["name"], chunk["version"]), (TASK, "1.0.1"))
        artifact = next(one for one in chunk["artifacts"] if one["filename"] == "image.swu")
        self.assertEqual(artifact["size"], len(content))
        for name in ("sha1", "md5", "sha256"):
            self.assertEqual(artifact["hashes"][name], hashlib.new(name, content).hexdigest())
        self.assertEqual(self.call(artifact["_links"]["download-http"]["href"])[1], content.decode())
        self.wait_count(rollout, "offered", 1)
        self.assertEqual(self.feedback(href, "proceeding", "none"), 200)
        self.assertEqual(self.feedback(href, "downloaded", "none"), 200)
        self.wait_count(rollout, "downloaded", 1)
        self.assertEqual(self.feedback(href, "closed", "success"), 200)
        self.assertEqual(self.feedback(href, "closed", "success"), 200)  # said twice, counted once
        self.wait_count(rollout, "succeeded", 1)
        self.assertEqual(self.links("cam-01"), {})
        devices = self.stack.api("/api/v1/devices")[1]["items"]
        self.assertEqual({device["attrs"]["controller_id"] for device in devices}, {"cam-01", "cam-02"})

    def test_failure_counts_and_rolls_back(self):
        rollout = self.release(b"one")
        hrefs = {}
        for device in ("a", "b"):
            hrefs[device] = wait_until(lambda name=device: self.links(name).get("deploymentBase"), what="a deployment")["href"]
        self.assertEqual(self.feedback(hrefs["a"], "closed", "success"), 200)
        self.assertEqual(self.feedback(hrefs["b"], "closed", "failure", "flash is full"), 200)
        self.wait_count(rollout, "failed", 1)
        self.assertEqual(self.links("b").get("deploymentBase"), None)  # it failed there: not offered again
        view = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]
        self.assertEqual([one["detail"] for one in view["fingerprints"]], ["flash is full"])

    def test_withdrawn_offer_is_cancelled(self):
        rollout = self.release(b"one")
        href = wait_until(lambda: self.links("x").get("deploymentBase"), what="a deployment")["href"]
        self.wait_count(rollout, "offered", 1)
        self.stack.walle("rollout", "abort", rollout, "--reason", "wrong image")
        cancel = wait_until(lambda: self.links("x").get("cancelAction"), what="the cancellation")["href"]
        self.assertEqual(cancel.rsplit("/", 1)[1], href.rsplit("/", 1)[1])
        self.assertEqual(self.call(cancel)[1]["cancelAction"]["stopId"], cancel.rsplit("/", 1)[1])
        self.assertEqual(self.call(href)[0], 404)
        self.assertEqual(self.feedback(cancel, "closed", "success"), 200)
        wait_until(lambda: self.links("x") == {} or list(self.links("x")) == ["configData"], what="the end")

    def test_a_revoked_client_is_told_so(self):
        self.links("gone")
        devices = wait_until(lambda: self.stack.api("/api/v1/devices")[1]["items"], what="the device")
        self.stack.walle("device", "revoke", devices[0]["id"])
        status, answer = self.call(BASE + "gone")
        self.assertEqual((status, answer["detail"]), (403, "this device was revoked, or speaks for itself"))

    def test_refusals(self):
        for path in ("x", "x/configData", "x/deploymentBase/1"):
            self.assertEqual(self.call(BASE + path, token=None)[0], 401)
            self.assertEqual(self.call(BASE + path, token="GatewayToken wrong")[0], 401)
            self.assertEqual(self.call(BASE + path, token="TargetToken " + TOKEN)[0], 401)
        for path, status in (("x/deploymentBase/1", 404), ("x/cancelAction/1", 404), ("x/deploymentBase/none", 400),
                             ("x/deploymentBase/99999999999", 400), ("no$such", 400), ("x" * 65, 400), ("x/y", 404),
                             ("x/deploymentBase/1/feedback/z/z", 404)):
            self.assertEqual(self.call(BASE + path)[0], status, path)
        self.assertEqual(self.call("/other/controller/v1/x")[0], 404)
        self.assertEqual(self.call(BASE + "x", "POST", {})[0], 405)
        put = BASE + "x/configData"
        for body in ({}, {"data": 1}, {"data": {"a": 1}}, {"data": {"bad name": "x"}}, {"data": {"a": "x" * 65}},
                     {"mode": "remove", "data": {}}, {"data": {f"a{i}": "x" for i in range(33)}}):
            self.assertEqual(self.call(put, "PUT", body)[0], 400, body)
        self.assertEqual(self.call(BASE + "x/deploymentBase/1/feedback", "POST", {"status": {}})[0], 400)
        self.assertEqual(self.call(BASE + "x/deploymentBase/1/feedback", "POST", {"status": {"execution": "closed"}})[0], 404)

    def swupdate(self, folder, more=""):
        return self.stack.spawn(
            shutil.which("swupdate"), "-v", "-k", os.path.join(folder, "cert.pem"), "-H", "board:1.0", "-M", "-m", "-u",
            f"-t default -u {self.gateway.tls_url} -i swu-1 -x -p 1 -g {TOKEN} {more}",
            stdout=open(self.stack.path("swupdate.log"), "wb"), stderr=subprocess.STDOUT, cwd=self.stack.folder,
            env={**os.environ, "TMPDIR": self.stack.folder})

    def log(self):
        with open(self.stack.path("swupdate.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    @unittest.skipUnless(shutil.which("swupdate"), "SWUpdate is not installed")
    def test_swupdate_installs_a_release(self):
        folder = self.stack.path("swu")
        os.mkdir(folder)
        out = self.stack.path("installed.bin")
        payload = os.urandom(50000)
        with open(os.path.join(folder, "payload.bin"), "wb") as file:
            file.write(payload)
        with open(os.path.join(folder, "sw-description"), "w", encoding="utf-8") as file:
            file.write('software = { version = "1.0.1"; hardware-compatibility: [ "1.0" ]; files: ( { filename = "payload.bin"; '
                       f'path = "{out}"; sha256 = "{hashlib.sha256(payload).hexdigest()}"; }} ); }};')
        run = lambda *command: subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
            "-subj", "/CN=release", "-addext", "extendedKeyUsage=emailProtection", "-addext", "keyUsage=digitalSignature")
        run("openssl", "cms", "-sign", "-in", "sw-description", "-out", "sw-description.sig", "-signer", "cert.pem", "-inkey",
            "key.pem", "-outform", "DER", "-nosmimecap", "-binary")
        rollout = self.release(cpio(folder, ("sw-description", "sw-description.sig", "payload.bin")))
        # It installs, "reboots", and tells after that whether the new software works.
        client = self.swupdate(folder)
        wait_until(lambda: "executing post-update actions" in self.log(), what="the installation: " + self.log())
        client.kill()
        client.wait()
        self.assertEqual(self.counts(rollout)["succeeded"], 0)
        client = self.swupdate(folder, "-c 2")
        wait_until(lambda: self.counts(rollout)["succeeded"] == 1, what="SWUpdate's success: " + self.log())
        with open(out, "rb") as file:
            self.assertEqual(file.read(), payload)
        self.assertIsNone(client.poll())


if __name__ == "__main__":
    unittest.main()
