#!/usr/bin/env python3
"""A root that does not name the keys a gateway signs with: refused by role and key, served only with a reason, and said wherever the
gateway says how it is."""
import unittest

from walle_stack import Stack

ROLES = ("timestamp", "snapshot", "director")


class RootKeys(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        other = Stack()
        self.addCleanup(other.__exit__, None, None, None)
        other.start_gateway()
        self.stack.start_gateway()
        path = self.stack.path
        self.stack.walle("key", "new", "--out", path("a.key"))
        for stack, name in ((other, "other.1"), (self.stack, "own.1")):
            stack.walle("root", "init", "--out", path(name), "--key", path("a.key"), "--release", path("a.key.pub"))
        other.walle("root", "rotate", path("own.1"), "--out", path("other.2"), "--key", path("a.key"))

    def push(self, name, *more):
        run = self.stack.walle("root", "push", self.stack.path(name), *more, check=False)
        return run.returncode, run.stdout, run.stderr

    def trust(self):
        return self.stack.api("/api/v1/trust")[1]

    def ready(self):
        return self.stack.api("/readyz")[1]

    def unnamed(self):
        return [line for line in self.stack.api("/metrics")[1].splitlines() if line.startswith("walle_root_keys_unnamed ")]

    def said(self):
        return self.stack.gateway.log_text().count("does not name this gateway's")

    def test_a_root_of_another_gateway(self):
        code, out, err = self.push("other.1")
        self.assertEqual((code, out), (4, ""), err)
        for role in ROLES:
            self.assertIn(f"{role} {self.trust()[role + '_key'][:16]}", err)
        self.assertIn("walle root init or root rotate", err)
        self.assertIn("--accept-keys --reason", err)
        self.assertEqual(self.trust()["root_version"], 0, "nothing is served")
        self.assertEqual((self.ready(), self.unnamed(), self.said()), ("ready\n", ["walle_root_keys_unnamed 0"], 0))
        self.assertEqual(self.push("own.1"), (0, "root 1 is served\n", ""))
        self.assertEqual(self.push("other.2")[0], 4, "nor as a successor")
        self.assertEqual(self.trust()["root_version"], 1)
        self.assertEqual(self.push("own.1"), (0, "root 1 is served\n", ""))

    def test_numbers_say_what_they_may_be(self):
        """A number that cannot be is refused with those that can, before anything is asked of the gateway."""
        path = self.stack.path
        self.stack.walle("key", "new", "--out", path("b.key"))
        init = ("root", "init", "--out", path("never.1"), "--key", path("a.key"), "--release", path("a.key.pub"))
        two = ("--release", path("b.key.pub"))
        for command, words in (((*init, "--expires", "0"), "--expires takes a whole number from 1 to 3650, not '0'"),
                               ((*init, "--expires", "3651"), "--expires takes a whole number from 1 to 3650, not '3651'"),
                               ((*init, "--threshold", "0"), "--threshold can be 1 only, the number of root keys, not '0'"),
                               ((*init, "--threshold", "2"), "--threshold can be 1 only, the number of root keys, not '2'"),
                               ((*init, *two, "--narrow", "3"), "--narrow takes a whole number from 1 to 2, the number of release keys, not '3'"),
                               ((*init, *two, "--narrow", "2", "--wide", "1"), "--wide can be 2 only, the number of release keys, not '1'"),
                               ((*init, *two, "--wide", "0"), "--wide takes a whole number from 1 to 2, the number of release keys, not '0'"),
                               ((*init[:6], "--narrow", "1"), "--release FILE is missing: who may sign releases"),
                               ((*init, "--lease", "99999999"), "--lease takes a whole number from 0 to 2592000"),
                               (("token", "new", "--name", "a", "--role", "viewer", "--expires", "0"), "--expires takes a whole number from 1 to 3650"),
                               (("rollout", "start", "shop/none", "--version", "1", "--key", path("a.key"), "--expires", "0"),
                                "--expires takes a whole number from 1 to 3650, not '0'")):
            run = self.stack.walle(*command, check=False)
            self.assertEqual((run.returncode, run.stdout), (2, ""), command)
            self.assertIn(words, run.stderr)

    def test_a_root_is_not_written_over_and_the_served_one_comes_back(self):
        path = self.stack.path
        init = ("root", "init", "--out", path("own.1"), "--key", path("a.key"), "--release", path("a.key.pub"))
        with open(path("own.1"), "rb") as file:
            before = file.read()
        run = self.stack.walle(*init, check=False)
        self.assertEqual((run.returncode, run.stderr), (5, f"walle: {path('own.1')} exists already and is not replaced: name another file\n"))
        run = self.stack.walle("root", "show", "--served", check=False)
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("serves no root (walle root push FILE hands it one)", run.stderr)
        self.assertEqual(self.push("own.1")[0], 0)
        shown = self.stack.walle("root", "show", path("own.1")).stdout
        self.assertEqual(self.stack.walle("root", "show", "--served").stdout, shown)
        self.assertEqual(self.stack.walle("root", "show", "--served", "--out", path("back.1")).stdout, shown)
        for name in ("own.1", "back.1"):
            with open(path(name), "rb") as file:
                self.assertEqual(file.read(), before)
        for words, said in ((("--served", "--out", path("own.1")), "exists already"), ((), "a FILE, or --served"),
                            ((path("own.1"), "--served"), "a FILE, or --served"), ((path("own.1"), "--out", path("x")), "--out goes with --served")):
            run = self.stack.walle("root", "show", *words, check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(said, run.stderr)

    def test_one_that_is_wanted(self):
        code, _, err = self.push("other.1", "--accept-keys")
        self.assertEqual(code, 2, err)
        self.assertIn("--accept-keys needs --reason", err)
        self.assertEqual(self.stack.api("/api/v1/trust/root?accept_keys=true", "PUT")[0], 400)
        self.assertEqual(self.stack.api("/api/v1/trust/root?limit=3", "PUT")[0], 400)
        code, out, err = self.push("other.1", "--accept-keys", "--reason", "keys come at 5 & noon")
        self.assertEqual((code, out), (0, "root 1 is served\n"), err)
        self.assertIn("does not name this gateway's keys", err)
        self.assertIn("keys come at 5 & noon", self.stack.walle("audit", "tail", "--limit", "20", "-o", "json").stdout)
        for again in (False, True):
            if again:
                self.assertEqual(self.stack.gateway.stop(), 0)
                self.stack.restart_gateway()
            self.assertIn("; the root does not name this gateway's keys", self.ready())
            self.assertEqual(self.unnamed(), ["walle_root_keys_unnamed 3"])
            self.assertEqual(self.said(), 6 if again else 3, "a line for each role, once a start")
        self.assertIn("does not name this gateway's keys", self.push("other.1")[2], "not even when it is there")


if __name__ == "__main__":
    unittest.main()
