"""The wall where an agent finds little: as a user without rights, where user namespaces are refused, under low limits, and where
the kernel does not let a process filter its calls. It goes up, seen from outside in the run's process, or the agent says what is
missing and does not start; it never runs a task without it."""
import ctypes
import json
import os
import platform
import re
import resource
import shutil
import struct
import subprocess
import threading
import unittest

from hardening_04_wall_agent import running_child
from test_device_agent import STAGES, TASK
from walle_stack import Stack, program, wait_until

NOBODY = 65534
CPU_HARD_S = 30  # below the 60 s of the task's own time
LOOP = "import walle\nif walle.config['loop']:\n    while True:\n        pass\nwalle.result('good')\n"
CALLS = {"x86_64": {"seccomp": 317, "prctl": 157, "unshare": 272, "setns": 308, "clone": 56, "clone3": 435},
         "aarch64": {"seccomp": 277, "prctl": 167, "unshare": 97, "setns": 268, "clone": 220, "clone3": 435}}.get(platform.machine())
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CLONE_NEWUSER = 0x10000000
ALLOW, ERRNO = 0x7fff0000, 0x00050000
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06  # BPF: a word of the call, ==, any bit, the answer


def program_of(rules):
    """BPF for (call, errno, argument, test, value) rules; argument None: the call whatever its arguments are."""
    out = []
    for call, errno, argument, test, value in rules:
        body = [(RETURN, 0, 0, ERRNO | errno)]
        if argument is not None:
            body = [(LOAD, 0, 0, 16 + 8 * argument), (test, 0, 1, value)] + body
        out += [(LOAD, 0, 0, 0), (EQUAL, 0, len(body), call)] + body
    return out + [(RETURN, 0, 0, ALLOW)]


def outer_filter(rules):
    """What a container's runtime does before it starts a program: for subprocess's preexec_fn."""
    code = b"".join(struct.pack("=HBBI", *one) for one in program_of(rules))
    holder = ctypes.create_string_buffer(code)
    packed = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(holder)))
    libc = ctypes.CDLL(None, use_errno=True)

    def install(_held=(holder, packed)):
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, packed, 0, 0):
            raise OSError(ctypes.get_errno(), "the outer filter")
    return install


def no_namespaces():
    return outer_filter([(CALLS["unshare"], 1, None, 0, 0), (CALLS["setns"], 1, None, 0, 0),
                         (CALLS["clone3"], 38, None, 0, 0), (CALLS["clone"], 1, 0, SET, CLONE_NEWUSER)])


def no_seccomp(errno):
    return outer_filter([(CALLS["seccomp"], errno, None, 0, 0), (CALLS["prctl"], errno, 0, EQUAL, PR_SET_SECCOMP)])


def low_limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_HARD_S, CPU_HARD_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


class Places(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))

    def agent(self, name, as_nobody, before=None, more=()):
        """A command and options for the agent, in a folder of its own that its user may read and write."""
        folder = self.stack.path(name)
        os.mkdir(folder)
        shutil.copy(os.path.join(self.stack.gateway.folder, "cert.pem"), folder)
        shutil.copy(self.stack.enroll_token, folder)
        shutil.copy(self.stack.path("release.key.pub"), folder)
        options = {}
        if before is not None:
            options["preexec_fn"] = before
        if as_nobody:
            os.chmod(self.stack.folder, 0o711)
            for one in ("walle-device", "walle-task-runner"):  # the build may lie where nobody looks
                shutil.copy(program(one), folder)
            for one in [folder] + [os.path.join(folder, file) for file in os.listdir(folder)]:
                os.chown(one, NOBODY, NOBODY)
            options.update(user=NOBODY, group=NOBODY, extra_groups=[])
        command = [os.path.join(folder, "walle-device") if as_nobody else program("walle-device"), "--gateway",
                   self.stack.gateway.tls_url, "--ca", os.path.join(folder, "cert.pem"), "--enroll-token",
                   os.path.join(folder, "enroll.token"), "--dir", os.path.join(folder, "data"), "--id", name.encode().hex()[:16].zfill(16), "--trust",
                   os.path.join(folder, "release.key.pub"), *more]
        return command, options

    def release_loop(self, number, loop):
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        task = {"name": TASK, "version": f"1.0.{number}", "entry": "task", "files": ["task.py"], "time_ms": 60000,
                "config": {"loop": loop}}
        for name, text in (("task.json", json.dumps(task)), ("task.py", LOOP), ("../stages.json", json.dumps(STAGES))):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                         self.stack.path("stages.json"))

    def wall_goes_up(self, name, as_nobody, before):
        """A task runs, and its process is behind the wall while it does."""
        command, options = self.agent(name, as_nobody, before, ("--hints", "--checkin-interval", "86400"))
        self.release_loop(1, False)
        device = self.stack.spawn_path(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(device.stdout), daemon=True)
        reader.start()

        def said(pattern):
            return any(re.search(pattern, line) for line in list(lines)) or device.poll() is not None
        wait_until(lambda: said(r"ran .*good|fail_"), 60, f"a run in {lines}")
        self.assertTrue(any(re.search(r"ran .*good", line) for line in lines), lines)
        self.release_loop(2, True)
        child = wait_until(lambda: running_child(device.pid), 60, f"the task's process at work in {lines}")
        with open(f"/proc/{child}/status", encoding="utf-8") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual((status["Seccomp"].strip(), status["NoNewPrivs"].strip()), ("2", "1"))
        self.assertEqual(status["Uid"].split()[0], str(NOBODY if as_nobody else os.getuid()))
        device.terminate()
        self.assertEqual(device.wait(60), 0)
        reader.join()
        device.stdout.close()

    def refuses(self, name, before, words, as_nobody=False):
        command, options = self.agent(name, as_nobody, before, ("--once",))
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stderr, words)
        self.assertNotIn("task ", run.stdout)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become nobody")
    def test_a_user_without_rights(self):
        self.wall_goes_up("nobody", True, None)

    @unittest.skipUnless(CALLS, "call numbers of another processor")
    def test_no_user_namespaces(self):
        self.wall_goes_up("namespaces", os.getuid() == 0, no_namespaces())

    @unittest.skipUnless(os.getuid() == 0, "needs root to become nobody")
    def test_limits_that_are_low_already(self):
        self.wall_goes_up("limits", True, low_limits)

    @unittest.skipUnless(CALLS, "call numbers of another processor")
    def test_no_seccomp(self):
        self.release_loop(1, False)
        for errno in (1, 38):  # EPERM, ENOSYS
            with self.subTest(errno):
                self.refuses(f"seccomp{errno}", no_seccomp(errno), r"walle-task-runner: .*seccomp.*--isolation thread")

    def test_no_descriptors(self):
        self.release_loop(1, False)
        for most in range(5, 18, 3):
            with self.subTest(most):
                self.refuses(f"descriptors{most}", lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
                             r"file descriptors are too few")

    @unittest.skipUnless(os.getuid() == 0, "needs root to become nobody")
    def test_no_processes(self):
        self.release_loop(1, False)
        self.refuses("threads", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)), r"task worker: ", True)
        self.refuses("processes", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (2, 2)),
                     r"task worker: |walle-task-runner: no process for the task: ", True)


if __name__ == "__main__":
    unittest.main()
