"""The list of attacks: a real walle-device against a real walle-gateway, and where the row says so the gateway is the
attacker (evil_gateway.py), who holds whatever keys the row gives him. Every attack is refused with its own code, which the
device logs and reports; nothing of it runs.

What is not here: kill -9 at every write is test_device_kill.py and tests/unit/device/test_device_kill_points.c.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import evil_gateway as evil
from evil_gateway import Evil, Key
from walle_stack import Stack, program

TASK, OTHER = "shop/score", "shop/other"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
OPEN = [{**FULL[0], "min_sample": 100000, "max_failure": 1}]  # stays open, whatever is reported
SIGNATURE, HASH, ROLLBACK, STAGE, TARGET, EXPIRED = 200, 201, 202, 203, 204, 205
THRESHOLD, ROOT, FRESHNESS, DIRECTOR, FROZEN, MIXED, KILLED, LEASE = 207, 208, 209, 210, 211, 212, 213, 214
TOO_LARGE = 102
REFUSED = []  # (attack, code), for the count at the end


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.gateway = cls.stack.start_gateway("--set", "rollout.tick_ms=50")
        path = cls.stack.path
        for name in ("a", "b", "c", "ci", "cj", "thief"):
            cls.stack.walle("key", "new", "--out", path(name + ".key"))
        cls.key = {name: Key(path(name + ".key"), cls.stack.folder) for name in ("a", "b", "c", "ci", "cj", "thief")}
        for name in ("timestamp", "snapshot", "director"):
            cls.key[name] = Key(path("gateway", "keys", name + ".key"), cls.stack.folder)
        cls.stack.walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--key", path("b.key"),
                        "--member", path("c.key.pub"), "--release", path("ci.key.pub"), "--release", path("cj.key.pub"),
                        "--lease", "0")
        cls.stack.walle("root", "push", path("root.1"))
        cls.evil = Evil(cls.stack)
        cls.number = 0
        cls.v0 = cls.release(TASK, 0)
        cls.run_device("00000000000000aa", hook=None)  # the first stage wants one device that ran it
        cls.wait_completed(cls.v0)
        cls.old = cls.answer_of("00000000000000ab")  # what a new device is told now
        for number in (11, 12, 1, 2):  # of baselines, the four newest may be a way back
            rollout = cls.release(TASK, number)
            cls.run_device("00000000000000aa", hook=None)
            cls.wait_completed(rollout)
        cls.middle = cls.answer_of("00000000000000ac")
        cls.v3 = cls.release(TASK, 3, stages=OPEN)  # open, at all devices

    @classmethod
    def tearDownClass(cls):
        print(f"{len(REFUSED)} of {cls.expected} attacks refused:", flush=True)
        for name, code in REFUSED:
            print(f"  {name}: {code}", flush=True)

    expected = 0

    # ---- Helpers

    @classmethod
    def build(cls, task, number, extra=()):
        source, build = cls.stack.path(f"source-{cls.number}"), cls.stack.path(f"build-{cls.number}")
        cls.number += 1
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": task, "version": f"1.0.{number}", "entry": "task", "files": ["task.py", *extra]}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(f"import walle\nwalle.result({{'version': {number}}})\n")
        for name in extra:
            with open(os.path.join(source, name), "wb") as file:
                file.write(os.urandom(300000))
        cls.stack.walle("task", "build", source, "--out", build)
        cls.stack.walle("task", "push", build)
        return build

    @classmethod
    def release(cls, task, number, keys=("ci", "cj"), stages=None, extra=()):
        build = cls.build(task, number, extra)
        path = cls.stack.path(f"stages-{cls.number}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages or FULL, file)
        arguments = [part for key in keys for part in ("--key", cls.stack.path(key + ".key"))]
        run = cls.stack.walle("rollout", "start", task, "--build", build, "--stages", path, "--trust-unproven", *arguments)
        return re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    @classmethod
    def wait_completed(cls, rollout):
        for _ in range(3000):
            state = cls.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"]
            if state == "completed":
                return
            time.sleep(0.02)
        raise AssertionError(f"rollout {rollout} is {state}")

    @classmethod
    def run_device(cls, device, hook, *arguments, root="root.1", url=None, timeout_s=90, attrs=("os=android",)):
        """One device with a folder of its own, until it has nothing left to do. (standard output, log)."""
        cls.evil.hook = hook
        cls.evil.reports.clear()
        cls.evil.requests.clear()
        command = [program("walle-device"), "--gateway", url or cls.evil.url, "--dir", cls.stack.path("device-" + device),
                   "--id", device, "--root", cls.stack.path(root), "--retry-base", "50", "--once", "-v", *arguments]
        command += [part for attr in attrs for part in ("--attr", attr)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        cls.evil.hook = None
        assert run.returncode == 0, run.stderr
        return run.stdout, run.stderr

    @classmethod
    def answer_of(cls, device):
        """A copy of the envelopes that the gateway answers this device's first check-in with."""
        taken = []

        def hook(request, forward):
            if request.path != "/v1/checkin":
                return None
            status, _, body = forward()
            if status == 200:
                taken[:] = evil.open_offers(body)
            return 204, b""
        cls.run_device(device, hook)
        return list(taken)

    def answers(self, change):
        """A hook that gives every answer with offers to change(request, envelopes)."""
        def hook(request, forward):
            if request.path != "/v1/checkin":
                return None
            status, _, body = forward()
            if status != 200:
                return status, body
            return 200, evil.offers(change(request, evil.open_offers(body)))
        return hook

    def redirect(self, request, fields, **changes):
        """The director's answer signed anew with the gateway's own key, among four to others."""
        fields = {**fields, "nonce": request.nonce, "order": request.order, **changes}
        leaves = [evil.director({**fields, "device": 0xd00d + i, "nonce": os.urandom(32)}) for i in range(4)]
        leaves.insert(2, evil.director(fields))
        return self.key["director"].tree(leaves, 2)

    def parts(self, items):
        """(director's fields, release envelope, release fields) of an answer with one offer."""
        director = evil.open_director(evil.director_of(items[0]))
        return director, items[1], evil.open_release(evil.open_envelope(items[1])[1])

    def refused(self, attack, code, name, output, log, ran=()):
        """The device reported the code, logged its name, and ran nothing but `ran`."""
        type(self).expected += 1
        codes = [outcome["code"] for outcome in self.evil.reports]
        self.assertIn(code, codes, f"{attack}: {self.evil.reports}\n{log}")
        self.assertIn(name, log, attack)
        self.assertEqual(re.findall(r"^task .* ran .*'?\"version\":(\d+)", output, re.M), [str(n) for n in ran], attack)
        REFUSED.append((attack, code))

    def task_id(self, items):
        return evil.open_director(evil.director_of(items[0]))["entries"][0][0]

    # ---- Arbitrary code

    def test_01_flipped_bits(self):
        for number, at in enumerate((6, 20, 40, -1, -70, -100)):
            def change(_, items, at=at):
                item = bytearray(items[1])
                item[at] ^= 1 << number
                return [items[0], bytes(item)]
            device = f"00000000000001{number:02x}"
            output, log = self.run_device(device, self.answers(change))
            self.assertNotIn(" ran ", output)
            self.assertIn("offer refused", log)
            if at in (20, -1):
                self.refused(f"arbitrary code: bit flipped at {at}", THRESHOLD if at == -1 else SIGNATURE,
                             "(THRESHOLD)" if at == -1 else "(SIGNATURE)", output, log)

    def test_02_wrong_key(self):
        def change(_, items):
            payload = evil.open_envelope(items[1])[1]
            return [items[0], self.key["thief"].envelope(evil.RELEASE, payload)]
        output, log = self.run_device("0000000000000200", self.answers(change))
        self.refused("arbitrary code: signed by a stranger", SIGNATURE, "(SIGNATURE)", output, log)

    def test_03_too_few_signers(self):
        def change(_, items):
            payload = evil.open_envelope(items[1])[1]
            return [items[0], self.key["ci"].envelope(evil.RELEASE, payload, self.key["thief"])]
        output, log = self.run_device("0000000000000300", self.answers(change))
        self.refused("arbitrary code: one of two signers", THRESHOLD, "(THRESHOLD)", output, log)

    def test_04_one_signer_twice(self):
        def change(_, items):
            payload = evil.open_envelope(items[1])[1]
            one = self.key["ci"].sign(evil.RELEASE, payload)
            return [items[0], evil.envelope(evil.RELEASE, payload, [one, one])]
        output, log = self.run_device("0000000000000400", self.answers(change))
        self.assertNotIn(" ran ", output)
        self.assertIn("offer refused: invalid value (INVALID)", log)  # nothing in it can be named in a report
        type(self).expected += 1
        REFUSED.append(("arbitrary code: one signer twice", "INVALID, logged"))

    def test_0a_two_people_sign_apart(self):
        """What an attacker cannot do, two people can: the draft goes from one to the other."""
        draft = self.stack.path("draft.json")
        stages = self.stack.path("draft-stages.json")
        with open(stages, "w", encoding="utf-8") as file:
            json.dump(OPEN, file)
        build = self.build("shop/draft", 7)
        self.stack.walle("rollout", "start", "shop/draft", "--build", build, "--stages", stages, "--key",
                         self.stack.path("ci.key"), "--draft", draft)
        self.stack.walle("task", "sign", draft, "--key", self.stack.path("cj.key"))
        run = self.stack.walle("rollout", "submit", draft)
        rollout = re.match(r"[0-9a-f]{16}", run.stdout).group(0)
        self.addCleanup(self.stack.walle, "rollout", "abort", rollout, "--reason", "enough")
        output, log = self.run_device("00000000000000d7", None)
        self.assertIn('"version":7', output, log)
        self.assertNotEqual(self.stack.walle("task", "sign", stages, "--key", self.stack.path("cj.key"),
                                             check=False).returncode, 0)

    # ---- Rollback, fast-forward, freeze

    def test_05_rollback(self):
        output, _ = self.run_device("0000000000000500", None)
        self.assertIn('"version":3', output)
        director, statement, fields = self.parts(self.old)  # version 0, validly signed, and the director's key is stolen

        def hook(request, _):
            if request.path != "/v1/checkin":
                return None
            named = self.redirect(request, director, device=0x500, timestamp=0, entries=[
                (director["entries"][0][0], fields["counter"], fields["manifest_bytes"], fields["manifest"])])
            return 200, evil.offers([named, statement])
        output, log = self.run_device("0000000000000500", hook)
        self.refused("rollback: an order to a version below the floor", ROLLBACK, "(ROLLBACK)", output, log)
        self.assertRegex(output, r"state shop/score active [0-9a-f]{64} previous")

    def timestamp_hook(self, change, apart=False):
        """Changes the timestamp and signs it with the stolen key, where it comes with the snapshot; `apart`: as a gateway would
        that does not know that question."""
        def sign(stamp):
            fields = evil.open_timestamp(evil.open_envelope(stamp)[1])
            change(fields)
            return self.key["timestamp"].envelope(evil.TIMESTAMP, evil.timestamp(fields))

        def hook(request, forward):
            if request.path == "/v1/meta/timestamp":
                return 200, sign(forward()[2])
            if not request.path.startswith(evil.NEXT):
                return None
            if apart:
                return 404, b""
            stamp, snapshot = evil.open_next(forward()[2])
            return 200, evil.next_answer(sign(stamp), snapshot)
        return hook

    def test_06_frozen(self):
        def change(fields):
            fields["issued_s"] = int(time.time()) - 3600
            fields["expires_s"] = int(time.time()) - 60
        for apart in (False, True):
            output, log = self.run_device(f"000000000000060{apart:d}", self.timestamp_hook(change, apart))
            self.refused("freeze: a timestamp that ran out" + ", asked for apart" * apart, FROZEN, "(FROZEN)", output, log)

    def test_07_timestamp_goes_back(self):
        for apart in (False, True):
            self.run_device(f"000000000000070{apart:d}", None)
        fresh = self.release(OTHER, 1, stages=OPEN)  # makes the gateway sign a newer timestamp
        self.addCleanup(self.stack.walle, "rollout", "abort", fresh, "--reason", "enough")

        def change(fields):
            fields["version"] = 1
        for apart in (True, False):
            output, log = self.run_device(f"000000000000070{apart:d}", self.timestamp_hook(change, apart))
            self.refused("rollback: an older timestamp" + ", asked for apart" * apart, ROLLBACK, "(ROLLBACK)", output, log)
        why = self.stack.walle("device", "why", "0000000000000700", "--task", OTHER).stdout
        self.assertRegex(why, r"it refused what the gateway told it, \d+ s ago, and asks again at each check-in: timestamp: ")

    # ---- Mix and match, extraneous dependency

    def test_08_mix_and_match(self):
        director, statement, fields = self.parts(self.old)

        def change(request, _):
            named = self.redirect(request, director, device=0x800, timestamp=1, entries=[
                (director["entries"][0][0], fields["counter"], fields["manifest_bytes"], fields["manifest"])])
            return [named, statement]
        output, log = self.run_device("0000000000000800", self.answers(change))
        self.refused("mix and match: a version that is not released any more", MIXED, "(MIXED)", output, log)

    def test_09_substituted_resource(self):
        manifests = set()

        def hook(request, forward):
            if not request.path.startswith("/v1/blob/"):
                return None
            if apart and request.path.endswith("/files"):
                return 404, b""
            status, _, body = forward()
            if request.path.endswith("/files"):  # the manifest, and behind it another's content
                size = next(n for n in range(len(body)) if hashlib.sha256(body[:n]).hexdigest() in request.path)
                return status, body[:size] + bytes(len(body) - size)
            if not manifests:  # the manifest comes first; what it names is another's content
                manifests.add(request.path)
            if (apart and request.path in manifests) or status != 200:
                return status, body
            return 200, bytes(len(body))
        for apart in (False, True):
            output, log = self.run_device(f"000000000000090{apart:d}", hook)
            self.refused("extraneous dependency: other content under a signed name" + ", asked for apart" * apart, HASH, "(HASH)",
                         output, log)

    # ---- Endless and slow answers

    def test_10_endless_metadata(self):
        def endless():
            for _ in range(100000):
                yield bytes(4096)

        def hook(request, _):
            return (200, endless()) if request.path.startswith(evil.NEXT) else None
        output, log = self.run_device("0000000000000a00", hook)
        self.refused("endless data: metadata without end", TOO_LARGE, "(TOO_LARGE)", output, log)

        def apart(request, _):
            if request.path.startswith(evil.NEXT):
                return 404, b""
            return (200, endless()) if request.path == "/v1/meta/timestamp" else None
        output, log = self.run_device("0000000000000a01", apart)
        self.refused("endless data: a timestamp without end", TOO_LARGE, "(TOO_LARGE)", output, log)

    def test_10a_endless_snapshot(self):
        """Behind a true timestamp: it is cut at the signed length, and the true one is asked for."""
        served = []

        def endless(stamp):
            yield evil.next_answer(stamp, b"")
            for _ in range(100000):
                served.append(1)
                yield bytes(4096)

        def hook(request, forward):
            return (200, endless(evil.open_next(forward()[2])[0])) if request.path.startswith(evil.NEXT) else None
        output, log = self.run_device("0000000000000a02", hook)
        self.assertIn('"version":3', output, log)
        self.assertLess(len(served), 5000)
        type(self).expected += 1
        REFUSED.append(("endless data: a snapshot without end", "cut at the signed length"))

    # ---- Metadata that comes with the answer to a check-in

    def brought_hook(self, change, fetched=False):
        """Answers that bring metadata are change(offers, timestamp's envelope, snapshot's envelope); and a list of them. `fetched`:
        who asks for it is given the same."""
        def hook(request, forward):
            if fetched and request.path.startswith(evil.NEXT):
                return 200, evil.split_metadata(change(evil.offers([]), *evil.open_next(forward()[2])))[1]
            if request.path != "/v1/checkin":
                return None
            status, _, body = forward()
            front, brought = evil.split_metadata(body) if status == 200 else (body, b"")
            if not brought:
                return status, body
            brings.append(1)
            return 200, change(front, *evil.open_next(brought))
        brings = []
        return hook, brings

    def run_brought(self, device, change, fetched=False):
        """(output, log, what metadata it asked for) of a device whose every answer with metadata is changed."""
        hook, brings = self.brought_hook(change, fetched)
        self.evil.brings = True
        self.addCleanup(setattr, self.evil, "brings", False)
        output, log = self.run_device(device, hook)
        self.assertTrue(brings, log)
        return output, log, [request.path for request in self.evil.requests if request.path.startswith("/v1/meta/")]

    def test_10b_metadata_is_brought(self):
        """No attack: what comes with the answer is asked for by nobody."""
        output, log, asked = self.run_brought("0000000000000b20", lambda front, stamp, snapshot: evil.with_metadata(
            front, evil.next_answer(stamp, snapshot)))
        self.assertIn('"version":3', output, log)
        self.assertEqual(asked, [])

    def test_10c_brought_lies_are_refused(self):
        def signed(change):
            def lie(front, stamp, snapshot):
                fields = evil.open_timestamp(evil.open_envelope(stamp)[1])
                change(fields)
                stamp = self.key["timestamp"].envelope(evil.TIMESTAMP, evil.timestamp(fields))
                return evil.with_metadata(front, evil.next_answer(stamp, snapshot))
            return lie

        def frozen(fields):
            fields["issued_s"], fields["expires_s"] = int(time.time()) - 3600, int(time.time()) - 60
        rows = (("a timestamp that ran out", signed(frozen), FROZEN, "(FROZEN)"),
                ("a flipped bit of the timestamp", lambda front, stamp, snapshot: evil.with_metadata(
                    front, evil.next_answer(stamp[:-1] + bytes([stamp[-1] ^ 1]), snapshot)), SIGNATURE, "(SIGNATURE)"),
                ("a timestamp longer than the buffer", lambda front, *_: evil.with_metadata(
                    front, bytes([2, 255, 255]) + bytes(8189)), TOO_LARGE, "(TOO_LARGE)"))
        for i, (attack, lie, code, name) in enumerate(rows):
            output, log, _ = self.run_brought(f"0000000000000b3{i}", lie, fetched=True)
            self.refused("with a check-in's answer: " + attack, code, name, output, log)

    def test_10d_brought_rollback(self):
        self.run_device("0000000000000b40", None)
        fresh = self.release(OTHER, 5, stages=OPEN)  # makes the gateway sign a newer timestamp
        self.addCleanup(self.stack.walle, "rollout", "abort", fresh, "--reason", "enough")

        def older(front, stamp, snapshot):
            fields = evil.open_timestamp(evil.open_envelope(stamp)[1]) | {"version": 1}
            stamp = self.key["timestamp"].envelope(evil.TIMESTAMP, evil.timestamp(fields))
            return evil.with_metadata(front, evil.next_answer(stamp, snapshot))
        output, log, asked = self.run_brought("0000000000000b40", older)
        self.assertIn("/v1/meta/timestamp", asked, log)  # a worker might have been behind: it asks, and gets the true one
        self.assertRegex(output, r"state shop/score active [0-9a-f]{64}", log)
        type(self).expected += 1
        REFUSED.append(("with a check-in's answer: an older timestamp", "asked for instead"))

    def test_10e_what_cannot_be_used_is_asked_for(self):
        """Other bytes for a snapshot, none, or an answer that is none: the device has the version in the end, by what it asked for."""
        rows = (("another snapshot", lambda front, stamp, snapshot: evil.with_metadata(
                    front, evil.next_answer(stamp, snapshot[:-1] + bytes([snapshot[-1] ^ 1])))),
                ("no snapshot", lambda front, stamp, _: evil.with_metadata(front, evil.next_answer(stamp, b""))),
                ("a snapshot without end", lambda front, stamp, _: evil.with_metadata(
                    front, evil.next_answer(stamp, bytes(8189 - len(stamp))))))
        for i, (attack, lie) in enumerate(rows):
            output, log, asked = self.run_brought(f"0000000000000b5{i}", lie)
            self.assertIn('"version":3', output, attack + log)
            self.assertTrue(asked, attack)
            type(self).expected += 1
            REFUSED.append(("with a check-in's answer: " + attack, "asked for instead"))

    def test_10f_an_answer_that_lies_about_its_size(self):
        """It is none: the device follows nothing by it and asks again."""
        rows = (("more than comes", lambda front, stamp, snapshot: evil.with_metadata(
                    front, evil.next_answer(stamp, snapshot), size=4000)),
                ("less than comes", lambda front, stamp, snapshot: evil.with_metadata(
                    front, evil.next_answer(stamp, snapshot), size=100)),
                ("none", lambda front, *_: evil.with_metadata(front, b"")),
                ("over the limit", lambda front, *_: evil.with_metadata(front, bytes(20000))))
        for i, (attack, lie) in enumerate(rows):
            times = []

            def once(*parts, lie=lie, times=times):
                times.append(1)
                return lie(*parts) if len(times) == 1 else evil.with_metadata(parts[0], evil.next_answer(*parts[1:]))
            output, log, _ = self.run_brought(f"0000000000000b6{i}", once)
            self.assertIn('"version":3', output, attack + log)
            checkins = [request for request in self.evil.requests if request.path == "/v1/checkin"]
            self.assertGreater(len(checkins), 1, attack)
            type(self).expected += 1
            REFUSED.append(("with a check-in's answer: a size that says " + attack, "not taken"))

    def test_11_endless_content(self):
        served = []

        def endless():
            for _ in range(100000):
                served.append(1)
                yield bytes(4096)

        def hook(request, _):
            if request.path.startswith("/v1/blob/") and len(served) == 0:
                return 200, endless()
            return None
        output, _ = self.run_device("0000000000000b00", hook)
        self.assertIn('"version":3', output)  # it went away from the drain, and came back for the real one
        self.assertLess(len(served), 5000)
        type(self).expected += 1
        REFUSED.append(("endless data: content without end", "cut at the signed length"))

    def test_12_slow_retrieval(self):
        slow, whole = [], []

        def drip(body):
            for at in range(len(body)):
                yield body[at:at + 1]
                time.sleep(0.2)
            whole.append(len(body))

        def hook(request, forward):
            if not request.path.startswith("/v1/blob/") or len(slow) >= 2:
                return None
            slow.append(request.path)
            return 200, drip(forward()[2])
        output, _ = self.run_device("0000000000000c00", hook, "--request-timeout", "1000")
        self.assertIn('"version":3', output)
        self.assertEqual(len(slow), 2)  # each was left after a second, although bytes kept coming
        self.assertEqual(whole, [])
        type(self).expected += 1
        REFUSED.append(("slow retrieval: five bytes a second", "left after the timeout"))

    # ---- Wrong target, replay

    def test_13_answer_for_another_device(self):
        other = self.answer_of("0000000000000d0a")
        output, log = self.run_device("0000000000000d00", self.answers(lambda _, items: other))
        self.refused("wrong target: the answer to another device", TARGET, "(TARGET)", output, log)

    def test_14_replayed_answer(self):
        taken = self.answer_of("0000000000000e00")
        output, log = self.run_device("0000000000000e00", self.answers(lambda _, items: taken))
        self.refused("director replay: an answer taken earlier", FRESHNESS, "(FRESHNESS)", output, log)

    def test_15_no_director(self):
        output, log = self.run_device("0000000000000f00", self.answers(lambda _, items: items[1:]))
        self.refused("eavesdropper: a statement without the director", DIRECTOR, "(DIRECTOR)", output, log)

    # ---- Answers that share a signature

    def shared(self, device, forge):
        """The director's answer is among four to others, and forge(leaves, head's signature) is what the device gets."""
        def change(request, items):
            fields = {**evil.open_director(evil.director_of(items[0])), "nonce": request.nonce, "order": request.order}
            leaves = [evil.director({**fields, "device": 0xd00d + i, "nonce": os.urandom(32)}) for i in range(4)]
            leaves.insert(2, evil.director(fields))
            return [forge(leaves, [self.key["director"].sign(evil.ANSWER, evil.tree_head(leaves))]), *items[1:]]
        return self.run_device(device, self.answers(change))

    def test_15_shared_signatures(self):
        def forged(size, index, path_of, leaf_of=lambda leaves: leaves[2], kind=evil.ANSWER):
            return lambda leaves, signed: evil.envelope(kind, evil.answer(size, index, path_of(leaves), leaf_of(leaves)), signed)

        def path(leaves):
            return evil.tree_path(leaves, 2)

        def bent(leaves):
            first, *others = path(leaves)
            return [bytes([first[0] ^ 1]) + first[1:], *others]

        def inside(leaves):
            return evil.tree_root(leaves[2:3]) + evil.tree_root(leaves[3:4])

        attacks = (
            ("at another place of the tree", SIGNATURE, "SIGNATURE", forged(5, 1, path)),
            ("on another's path", SIGNATURE, "SIGNATURE", forged(5, 1, lambda leaves: evil.tree_path(leaves, 1))),
            ("a bit of its path flipped", SIGNATURE, "SIGNATURE", forged(5, 2, bent)),
            ("in a larger tree than was signed", SIGNATURE, "SIGNATURE", forged(6, 2, path)),
            ("in a smaller one", SIGNATURE, "SIGNATURE", forged(4, 2, lambda leaves: path(leaves)[:2])),
            ("alone under the signature of many", SIGNATURE, "SIGNATURE", forged(1, 0, lambda leaves: [])),
            ("a node in a leaf's place", SIGNATURE, "SIGNATURE",
             forged(5, 1, lambda leaves: [evil.tree_root(leaves[0:2]), evil.tree_root(leaves[4:])], inside)),
            ("as one that was signed alone", SIGNATURE, "SIGNATURE",
             lambda leaves, signed: evil.envelope(evil.DIRECTOR, leaves[2], signed)),
            ("in a stranger's tree", SIGNATURE, "SIGNATURE", lambda leaves, _: self.key["thief"].tree(leaves, 2)),
            ("its neighbour's, from the same tree", TARGET, "TARGET", lambda leaves, _: self.key["director"].tree(leaves, 3)),
        )
        for number, (name, code, text, forge) in enumerate(attacks):
            output, log = self.shared(f"000000000000f5{number:02x}", forge)
            self.refused(f"shared signature: {name}", code, f"({text})", output, log)
        broken = (("a place behind the last", "INVALID", forged(5, 5, path)), ("no leaf at all", "INVALID", forged(0, 0, path)),
                  ("more leaves than a tree has", "INVALID", forged(257, 2, path)),
                  ("a path that is cut", "TRUNCATED", lambda leaves, signed: evil.envelope(
                      evil.ANSWER, evil.answer(5, 2, path(leaves), b"")[:60], signed)))
        for number, (name, text, forge) in enumerate(broken):
            output, log = self.shared(f"000000000000f6{number:02x}", forge)
            self.assertIn(f"({text})", log, name)
            self.assertNotIn(" ran ", output, name)
            type(self).expected += 1
            REFUSED.append((f"shared signature: {name}", f"{text}, logged"))
        output, log = self.shared("000000000000f700", lambda leaves, _: self.key["director"].tree(leaves, 2))
        self.assertIn('"version":3', output, log)  # one that nobody bent

    # ---- Compromise of a party

    def unknown(self, items, *signers):
        """A statement for content nobody released, and its fields."""
        _, _, fields = self.parts(items)
        fields = {**fields, "manifest": os.urandom(32), "counter": fields["counter"] + 10}
        return self.key[signers[0]].envelope(evil.RELEASE, evil.release(fields), *[self.key[n] for n in signers[1:]]), fields

    def test_16_gateway_names_unknown_content(self):
        def change(request, items):
            director, _, _ = self.parts(items)
            statement, fields = self.unknown(items, "thief", "director")
            named = self.redirect(request, director, entries=[
                (director["entries"][0][0], fields["counter"], fields["manifest_bytes"], fields["manifest"])])
            return [named, statement]
        output, log = self.run_device("0000000000001000", self.answers(change))
        self.refused("gateway compromise: content that no release key signed", SIGNATURE, "(SIGNATURE)", output, log)

    def test_17_gateway_names_other_content(self):
        def change(request, items):
            director, statement, fields = self.parts(items)
            named = self.redirect(request, director, entries=[
                (director["entries"][0][0], fields["counter"], fields["manifest_bytes"], os.urandom(32))])
            return [named, statement]
        output, log = self.run_device("0000000000001100", self.answers(change))
        self.refused("gateway compromise: director and release disagree", DIRECTOR, "(DIRECTOR)", output, log)

    def test_18_release_keys_stolen(self):
        output, log = self.run_device("0000000000001200", self.answers(
            lambda _, items: [items[0], self.unknown(items, "ci", "cj")[0]]))
        self.refused("key compromise: both release keys, without the director", DIRECTOR, "(DIRECTOR)", output, log)

        def change(request, items):
            director, _, _ = self.parts(items)
            statement, fields = self.unknown(items, "ci", "cj")
            named = self.redirect(request, director, entries=[
                (director["entries"][0][0], fields["counter"], fields["manifest_bytes"], fields["manifest"])])
            return [named, statement]
        output, log = self.run_device("0000000000001201", self.answers(change))
        self.refused("key compromise: release keys and director's, without the snapshot's", MIXED, "(MIXED)", output, log)

    def test_19_stage_skipped(self):
        stages = [{"name": "gray", "kind": "gray", "percent": 0.01, "min_sample": 100000, "max_failure": 1}]
        stages += OPEN
        task = "shop/gray"
        rollout = self.release(task, 1, stages=stages)
        self.addCleanup(self.stack.walle, "rollout", "abort", rollout, "--reason", "enough")
        listed = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]
        statement = self.gray_statement(task, rollout, listed)

        def hook(request, _):  # the stolen gateway offers the 0.01 % statement to everybody
            if request.path != "/v1/checkin":
                return None
            fields = evil.open_release(evil.open_envelope(statement)[1])
            director = {"device": 0x1300, "issued_s": int(time.time()), "timestamp": 1, "lease_s": 900, "entries": [
                (fnv(task), fields["counter"], fields["manifest_bytes"], fields["manifest"])]}
            return 200, evil.offers([self.redirect(request, director), statement])
        output, log = self.run_device("0000000000001300", hook)
        self.refused("stage skipping: a 0.01 % release for every device", STAGE, "(STAGE)", output, log)

    def gray_statement(self, task, rollout, listed):
        """The statement as a thief of the gateway finds it: signed by one release key, which is enough for 0.01 %."""
        fields = {"kind": evil.INSTALL_FLOOR, "task": task, "counter": listed["release_counter"], "floor": listed["floor"], "manifest": bytes.fromhex(listed["manifest"]),
                  "manifest_bytes": self.stack.api(f"/api/v1/tasks/{Stack.quoted(task)}/versions/{listed['manifest']}")[1][
                      "manifest_bytes"], "rollout": int(rollout, 16), "salt": int(listed["salt"], 16), "max_bucket": 1,
                  "stage": 2, "issued_s": int(time.time()), "expires_s": int(time.time()) + 86400}
        return self.key["ci"].envelope(evil.RELEASE, evil.release(fields))

    def test_20_beta_for_everybody(self):
        def change(request, items):  # one release key and the gateway are stolen: stage beta needs one signature
            director, _, fields = self.parts(items)
            fields = {**fields, "stage": 1}
            return [self.redirect(request, director), self.key["ci"].envelope(evil.RELEASE, evil.release(fields))]
        output, log = self.run_device("0000000000001400", self.answers(change))
        self.refused("stage skipping: a beta release for a device of no beta channel", THRESHOLD, "(THRESHOLD)", output, log)

    # ---- Bad links and mirrors

    def test_21_partial_bundle(self):
        cut = []

        def hook(request, forward):
            if not request.path.startswith("/v1/blob/") or len(cut) >= 2:
                return None
            status, _, body = forward()
            if status != 200 or len(body) < 2:
                return None
            cut.append(request.path)

            def half():
                yield body[:len(body) // 2]
                raise OSError("the line is dead")
            return 200, half()
        output, _ = self.run_device("0000000000001500", hook)
        self.assertEqual(len(cut), 2)
        self.assertEqual(output.count(" ran "), 1)
        self.assertIn('"version":3', output)
        type(self).expected += 1
        REFUSED.append(("partial bundle: content cut twice", "nothing ran before it was whole"))

    def test_22_poisoned_mirror(self):
        mirror = Evil(self.stack)
        mirror.hook = lambda request, forward: (200, os.urandom(max(len(forward()[2]), 1)))
        output, log = self.run_device("0000000000001600", None, "--mirror", mirror.url)
        self.assertGreater(len(mirror.requests), 0)
        self.assertIn('"version":3', output)  # the gateway's own copy was the next one asked for
        self.assertNotIn("refused metadata 1", log)
        type(self).expected += 1
        REFUSED.append(("mirror poisoning: one mirror of two lies", "not sealed, the next source serves"))

    # ---- Orders: the director's key is stolen, or only its old answers are

    def give(self, device, items, entries, **changes):
        """A hook that answers check-ins with these envelopes behind a director's answer that names `entries`."""
        def hook(request, _):
            if request.path != "/v1/checkin":
                return None
            fields = {"device": int(device, 16), "issued_s": int(time.time()), "timestamp": 0, "lease_s": 0, "entries": entries}
            return 200, evil.offers([self.redirect(request, fields, **changes), *items])
        return hook

    @staticmethod
    def named(task, fields):
        return fnv(task), fields["counter"], fields["manifest_bytes"], fields["manifest"]

    def settle(self, device):
        """A device as the true gateway wants it; the version it holds, as it says."""
        output, log = self.run_device(device, None)
        held = self.active(output)
        self.assertEqual(held, self.stack.api(f"/api/v1/rollouts/{self.v3}")[1]["manifest"], log)
        return held

    def active(self, output, task=TASK):
        found = re.search(rf"^state {task} active ([0-9a-f]{{64}})", output, re.M)
        return found.group(1) if found and int(found.group(1), 16) != 0 else None

    def stands(self, device, hook, attack, code, name):
        held = self.settle(device)
        output, log = self.run_device(device, hook)
        self.refused(attack, code, name, output, log)
        self.assertEqual(self.active(output), held, attack)

    def test_23_order_repeated_or_skipped(self):
        _, statement, fields = self.parts(self.middle)
        for number, off in enumerate((-1, 1, 1 << 40)):
            def hook(request, forward, off=off):
                return self.give(device, [statement], [self.named(TASK, fields)], order=(request.order + off) % (1 << 64))(request, forward)
            device = f"00000000000017{number:02x}"
            self.stands(device, hook, f"orders: {off:+d} beside the next one", FRESHNESS, "(FRESHNESS)")

    def test_24_order_of_another_task(self):
        _, statement, fields = self.parts(self.middle)
        self.addCleanup(self.stack.walle, "rollout", "abort", self.release(OTHER, 4, stages=OPEN), "--reason", "enough")
        self.stands("0000000000001800", self.give("0000000000001800", [statement], [self.named(OTHER, fields)]),
                    "orders: the entry names another task", DIRECTOR, "(DIRECTOR)")

    def test_25_one_counter_two_contents(self):
        """The release keys are stolen as well, and sign something else under a counter that is known."""
        _, _, fields = self.parts(self.middle)
        held = self.stack.api(f"/api/v1/rollouts/{self.v3}")[1]
        fields = {**fields, "counter": held["release_counter"], "floor": 0, "manifest": os.urandom(32)}
        statement = self.key["ci"].envelope(evil.RELEASE, evil.release(fields), self.key["cj"])
        self.stands("0000000000001900", self.give("0000000000001900", [statement], [self.named(TASK, fields)]),
                    "orders: other content under the active version's counter", ROLLBACK, "(ROLLBACK)")

    def test_25_statements_of_before(self):
        """The release keys are stolen and sign what once led back or ended a task; nobody follows it. A release without a floor is an approval."""
        device = "0000000000001910"
        _, _, fields = self.parts(self.middle)
        held = self.settle(device)
        for kind in (evil.REVERT, evil.REMOVE):
            statement = self.key["ci"].envelope(evil.RELEASE, evil.release({**fields, "kind": kind, "counter": 1000}), self.key["cj"])
            output, log = self.run_device(device, self.give(device, [statement], [self.named(TASK, {**fields, "counter": 1000})]))
            self.assertIn(f"release of kind {kind}: not known", log)
            self.assertEqual(self.active(output), held, log)
        statement = self.key["ci"].envelope(evil.RELEASE, evil.release({**fields, "kind": evil.INSTALL}), self.key["cj"])
        output, log = self.run_device(device, self.give(device, [statement], [self.named(TASK, fields)]))
        self.assertEqual(self.active(output), fields["manifest"].hex(), log)
        self.assertEqual(self.settle(device), held)

    def test_26_approval_that_ran_out(self):
        _, _, fields = self.parts(self.middle)
        fields = {**fields, "counter": 1000, "floor": 0, "issued_s": int(time.time()) - 7200, "expires_s": int(time.time()) - 3600}
        statement = self.key["ci"].envelope(evil.RELEASE, evil.release(fields), self.key["cj"])
        self.stands("0000000000001a00", self.give("0000000000001a00", [statement], [self.named(TASK, fields)]),
                    "orders: a newest approval that ran out", EXPIRED, "(EXPIRED)")

    def test_27_stop_without_the_director(self):
        self.stands("0000000000001b00", self.give("0000000000001b00", [evil.stop(fnv(TASK))], []),
                    "orders: a STOP that the director does not name", DIRECTOR, "(DIRECTOR)")
        self.stands("0000000000001b01", self.give("0000000000001b01", [evil.stop(fnv(TASK))], [(fnv(OTHER), 0, 0, bytes(32))]),
                    "orders: a STOP of another task", DIRECTOR, "(DIRECTOR)")

        def alone(request, _):
            return (200, evil.offers([evil.stop(fnv(TASK))])) if request.path == "/v1/checkin" else None
        self.stands("0000000000001b02", alone, "orders: a STOP from anybody", DIRECTOR, "(DIRECTOR)")
        taken = []

        def take(request, forward):  # the director's STOP for this device, as it was said once
            answer = self.give("0000000000001b03", [evil.stop(fnv(TASK))], [(fnv(TASK), 0, 0, bytes(32))])(request, forward)
            if answer is not None and not taken:
                taken.append(answer)
                return 204, b""
            return taken[0] if answer is not None else None
        self.settle("0000000000001b03")
        self.run_device("0000000000001b03", take)
        self.stands("0000000000001b03", take, "orders: a STOP said earlier", FRESHNESS, "(FRESHNESS)")

    def test_28_killed_version(self):
        task = "shop/killed"
        rollout = self.release(task, 1, stages=OPEN)
        taken = self.answer_of("00000000000000ad")
        items = [item for item in taken[1:] if evil.open_release(evil.open_envelope(item)[1])["task"] == task]
        fields = evil.open_release(evil.open_envelope(items[0])[1])
        self.stack.walle("rollout", "kill", rollout, "--reason", "a fault")
        status, _ = self.stack.api("/api/v1/kills", "POST", {"manifest": fields["manifest"].hex(), "reason": "a fault", "by": "ana"})
        self.assertIn(status, (200, 201))
        self.settle("0000000000001c00")  # and knows of the kill
        output, log = self.run_device("0000000000001c00", self.give("0000000000001c00", items, [self.named(task, fields)]))
        self.refused("orders: a version that was killed", KILLED, "(KILLED)", output, log)

    def test_29_what_a_stolen_director_can_do(self):
        """Back to an approved version that is not below the floor, or nothing; and the true gateway has the device again."""
        device = "0000000000001d00"
        held = self.settle(device)
        _, statement, fields = self.parts(self.middle)
        output, log = self.run_device(device, self.give(device, [statement], [self.named(TASK, fields)]))
        self.assertEqual(self.active(output), fields["manifest"].hex(), log)
        self.assertEqual([r["rollout"] for r in self.evil.reports if r["kind"] == 4], [int(self.v3, 16)])
        self.assertEqual(self.settle(device), held)
        copy = self.stack.path("copy-" + device)
        shutil.copytree(self.stack.path("device-" + device), copy)
        output, log = self.run_device(device, self.give(device, [evil.stop(fnv(TASK))], [(fnv(TASK), 0, 0, bytes(32))]))
        self.assertIsNone(self.active(output), log)
        self.assertEqual([r["kind"] for r in self.evil.reports if r["task"] == fnv(TASK)], [6])
        self.assertEqual(self.settle(device), held)
        shutil.rmtree(self.stack.path("device-" + device))  # a device restored from a copy is behind in its orders
        os.rename(copy, self.stack.path("device-" + device))
        output, log = self.run_device(device, self.give(device, [statement], [self.named(TASK, fields)]))
        self.assertEqual(self.active(output), fields["manifest"].hex(), log)
        self.assertEqual(self.settle(device), held)

    # ---- Lost keys. Last: it changes the root for good.

    @staticmethod
    def root_hook(content, apart):
        """Says that this is root 2, whichever way it is asked for."""
        def hook(request, _):
            if apart and request.path.startswith(evil.NEXT):
                return 404, b""
            return (200, content) if request.path == "/v1/meta/root/2" or request.path.startswith(evil.NEXT + "2/") else None
        return hook

    def test_30_one_root_key_stolen(self):
        path = self.stack.path
        stolen = json.loads(self.stack.walle("root", "show", path("root.1"), "-o", "json").stdout)
        self.assertEqual(stolen["roles"]["root"]["threshold"], 2)
        self.stack.walle("root", "rotate", path("root.1"), "--out", path("root.evil"), "--key", path("a.key"),
                         "--key", path("thief.key"), "--member", path("thief.key.pub"), "--threshold", "1",
                         "--release", path("thief.key.pub"))
        with open(path("root.evil"), "rb") as file:
            content = file.read()

        for apart in (False, True):
            output, log = self.run_device(f"0000000000001e0{apart:d}", self.root_hook(content, apart))
            self.refused("key compromise: one of three root keys" + ", asked for apart" * apart, THRESHOLD, "root refused", output,
                         log)

    def test_31_root_version_skipped(self):
        path = self.stack.path
        self.stack.walle("root", "rotate", path("root.1"), "--out", path("root.skip2"), "--key", path("a.key"), "--key",
                         path("b.key"))
        self.stack.walle("root", "rotate", path("root.skip2"), "--out", path("root.skip3"), "--key", path("a.key"), "--key",
                         path("b.key"))
        with open(path("root.skip3"), "rb") as file:
            content = file.read()

        for apart in (False, True):
            output, log = self.run_device(f"0000000000001f0{apart:d}", self.root_hook(content, apart))
            self.refused("rollback: a root that is not the next" + ", asked for apart" * apart, ROOT, "(ROOT)", output, log)

    def test_32_keys_lost_and_rotated_twice(self):
        path = self.stack.path
        self.run_device("0000000000002000", None)  # knows root 1, and is offline while two more come
        def fast_forward(fields):
            fields["version"] = 2 ** 53 - 1
            fields["issued_s"] = int(time.time()) + 10 * 86400
            fields["expires_s"] = int(time.time()) + 300 * 86400
        fresh = self.release(OTHER, 2, stages=OPEN)
        self.run_device("0000000000002000", self.timestamp_hook(fast_forward))
        later = self.release("shop/third", 1, stages=OPEN)
        for rollout in (fresh, later):
            self.addCleanup(self.stack.walle, "rollout", "abort", rollout, "--reason", "enough")
        output, log = self.run_device("0000000000002000", None)
        self.assertRegex(log, r"\((ROLLBACK|MIXED)\)")  # the attack works: the real timestamps look old to this device
        self.assertNotIn(" ran ", output)

        # Key a is lost: c takes its place. ci is stolen: ck takes its place. The online keys are drawn anew.
        for name in ("c", "d", "ck"):
            if name != "c":
                self.stack.walle("key", "new", "--out", path(name + ".key"))
        stopped = self.gateway.stop()
        self.assertEqual(stopped, 0)
        for name in ("timestamp", "snapshot", "director"):
            os.rename(path("gateway", "keys", name + ".key"), path("gateway", "keys", name + ".old"))
        type(self).gateway = self.stack.restart_gateway("--set", "rollout.tick_ms=50")
        self.stack.walle("root", "rotate", path("root.1"), "--out", path("root.2"), "--key", path("b.key"), "--key",
                         path("c.key"), "--member", path("b.key.pub"), "--member", path("c.key.pub"), "--member",
                         path("d.key.pub"), "--release", path("ck.key.pub"), "--release", path("cj.key.pub"))
        self.stack.walle("root", "push", path("root.2"))
        self.stack.walle("root", "rotate", path("root.2"), "--out", path("root.3"), "--key", path("c.key"), "--key",
                         path("d.key"))
        self.stack.walle("root", "push", path("root.3"))
        with self.assertRaisesRegex(AssertionError, "signed by 1 of the 2 release keys that root 3 asks for"):
            self.release("shop/late", 1, keys=("ci", "cj"), stages=OPEN)

        def change(_, items):  # a stolen gateway takes it
            def steal(item):
                payload = evil.open_envelope(item)[1]
                late = evil.open_release(payload)["task"] == "shop/late"
                return self.key["ci"].envelope(evil.RELEASE, payload, self.key["cj"]) if late else item
            return [items[0], *map(steal, items[1:])]
        old = self.release("shop/late", 2, keys=("ck", "cj"), stages=OPEN)
        output, log = self.run_device("0000000000002000", self.answers(change))
        self.refused("key compromise: a release key that was replaced", THRESHOLD, "(THRESHOLD)", output, log)
        self.stack.walle("rollout", "abort", old, "--reason", "signed by a stolen key")
        for _ in range(3000):
            if self.stack.api(f"/api/v1/rollouts/{old}")[1]["state"] == "rolled_back":
                break
            time.sleep(0.02)
        self.release("shop/late", 3, keys=("ck", "cj"), stages=OPEN)
        output, log = self.run_device("0000000000002000", None)
        self.assertIn('"version":3', output, log)  # two roots on, and nothing of the forged future is left
        type(self).expected += 1
        REFUSED.append(("fast-forward: version 2^53 - 1 by a stolen timestamp key", "forgotten with the key"))


def fnv(task):
    """Task id as the device's own answer names it: asked from the gateway."""
    status, view = Attacks.stack.api(f"/api/v1/tasks/{Stack.quoted(task)}")
    assert status == 200
    return int(view["id"], 16)


if __name__ == "__main__":
    unittest.main()
