#!/usr/bin/env python3
"""The device library in an app of somebody else: installed, found by pkg-config and by CMake, from C11 and C++17; the example enrols
at a real gateway, runs what is released, and what its user taps on starts a task."""
import json
import os
import shlex
import subprocess
import tempfile
import unittest

from page_commands import free_ports
from walle_stack import SOURCE, Stack, wait_until

BUILD = os.path.dirname(os.environ["WALLE_BIN"])
SANITIZE = [f"-fsanitize={os.environ['WALLE_SANITIZE']}"] if os.environ.get("WALLE_SANITIZE") else []
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
LANGUAGES = {"c11": ["cc", "-std=c11"], "c++17": ["c++", "-std=c++17"]}
EXAMPLE, RIDE_EXAMPLE = (os.path.join(SOURCE, "device", "examples", name) for name in ("app_example.c", "ride_example.c"))
# An app with ports of its own begins so: with the runtime alone.
CORE = """#include "device/device.h"
#include "device/port.h"
#include "pipeline/record/record.h"
#include <cstdio>
int main()
{
    dev_config config = {};
    config.device_id = 1;
    config.trusted_key_count = 1;
    base_str text = BASE_STR("ok");
    bool found = base_str_equal(text, base_str_of(base_status_text(BASE_OK)));
    std::printf("%s %d\\n", dev_runtime_bytes(&config) > 0 ? "runtime" : "none", found);
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(walle-device 0.1 REQUIRED)
add_executable(app EXAMPLE)
target_link_libraries(app walle::device)
add_executable(core core.cc)
target_compile_features(core PRIVATE cxx_std_17)
target_link_libraries(core walle::device-core)
message(STATUS "runner ${WALLE_TASK_RUNNER}")
"""
SCRIPT = """import walle
from walle import data
events = data.events()
walle.result("tapped " + events[0].item if len(events) > 0 else "at rest")
"""
FULL = '[{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]'


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="walle-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.prefix = folder.name, os.path.join(folder.name, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def path(cls, name, text=None):
        path = os.path.join(cls.folder, name)
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    @classmethod
    def pkg_config(cls, *words):
        for folder, _, files in os.walk(cls.prefix):
            if "walle-device.pc" in files:
                return shlex.split(run("pkg-config", *words, env={**os.environ, "PKG_CONFIG_PATH": folder}))
        raise AssertionError("no walle-device.pc was installed")

    def test_every_header_stands_alone_in_both_languages(self):
        include = os.path.join(self.prefix, "include", "walle")
        headers = [os.path.relpath(os.path.join(folder, name), include) for folder, _, names in os.walk(include) for name in names]
        self.assertLessEqual({"device/device.h", "device/port.h", "pipeline/record/record.h", "posix/posix_port.h"}, set(headers))
        for header in headers:
            for language, compiler in LANGUAGES.items():
                with self.subTest(header=header, language=language):
                    run(*compiler, *STRICT, "-I" + include, "-fsyntax-only", "-x", "c" if language == "c11" else "c++", "-",
                        input=f'#include "{header}"\n#include "{header}"\n')

    def test_every_program(self):
        names = ("walle", "walle-device", "walle-engine", "walle-fleet-sim", "walle-gateway", "walle-infer", "walle-store", "walle-task-runner")
        self.assertEqual(sorted(os.listdir(os.path.join(self.prefix, "bin"))), sorted(names))

    def test_no_path_of_the_machine(self):
        """What ships says nothing of where it was built: every file is compiled so, foreign ones too, and one library is looked at."""
        out = self.path("release")
        run("cmake", "-S", SOURCE, "-B", out, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1 -g", "-DWALLE_TESTS=OFF")
        with open(os.path.join(out, "compile_commands.json"), encoding="utf-8") as file:
            self.assertEqual([one["file"] for one in json.load(file) if f"-ffile-prefix-map={SOURCE}/=" not in one["command"]], [])
        run("cmake", "--build", out, "--target", "walle-policy")
        with open(os.path.join(out, "lib", "libwalle-policy.a"), "rb") as file:
            bytes_ = file.read()
        self.assertIn(b"policy/bucket.c", bytes_)
        for path in (SOURCE, out):
            self.assertNotIn(path.encode(), bytes_)

    def test_pkg_config(self):
        core = self.path("core.cc", CORE)
        run(*LANGUAGES["c++17"], *STRICT, *SANITIZE, core, "-o", self.path("core"), *self.pkg_config("--cflags", "--libs", "walle-device-core"))
        self.assertEqual(run(self.path("core")), "runtime 1\n")
        run(*LANGUAGES["c11"], *STRICT, *SANITIZE, EXAMPLE, "-o", self.path("app"), *self.pkg_config("--cflags", "--libs", "walle-device"))
        (runner,) = self.pkg_config("--variable=task_runner", "walle-device")
        self.assertTrue(os.access(runner, os.X_OK), runner)
        run(*LANGUAGES["c11"], *STRICT, *SANITIZE, RIDE_EXAMPLE, "-o", self.path("ride"), *self.pkg_config("--cflags", "--libs", "walle-device"))
        self.play(self.path("app"))
        self.refuses(self.path("ride"))

    def test_the_example_in_another_language_and_with_a_file(self):
        """It is C++ as well, and says so when its standard input cannot be waited for."""
        include = os.path.join(self.prefix, "include", "walle")
        run("c++", "-std=c++20", "-Wall", "-Werror", "-pedantic", "-I" + include, "-fsyntax-only", "-x", "c++", EXAMPLE)
        run(*LANGUAGES["c11"], *STRICT, *SANITIZE, EXAMPLE, "-o", self.path("filed"), *self.pkg_config("--cflags", "--libs", "walle-device"))
        with Stack() as stack, open(EXAMPLE, "rb") as taps:
            stack.start_gateway("--workers", "1")
            with open(stack.enroll_token, encoding="ascii") as file:
                token = file.read().split()[0]
            ended = subprocess.run([self.path("filed"), "127.0.0.1", str(stack.gateway.ports["tls"]), stack.path("gateway", "cert.pem"),
                                    stack.path("app"), "ab" * 32], stdin=taps, capture_output=True, text=True, timeout=60,
                                   env={**os.environ, "WALLE_ENROLL_TOKEN": token, "ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertIn("app_example: needs HOST PORT CA.pem FOLDER RELEASE_KEY, tty or pipe", ended.stderr)

    def test_the_example_is_short(self):
        with open(EXAMPLE, encoding="ascii") as file:
            self.assertLessEqual(len(file.readlines()), 60)

    def test_cmake(self):
        self.path("project/CMakeLists.txt", PROJECT.replace("EXAMPLE", EXAMPLE))
        self.path("project/core.cc", CORE)
        out = self.path("project/build")
        said = run("cmake", "-S", self.path("project"), "-B", out, "-DCMAKE_PREFIX_PATH=" + self.prefix)
        self.assertIn(os.path.join(self.prefix, "bin", "walle-task-runner"), said)
        run("cmake", "--build", out)
        self.assertEqual(run(os.path.join(out, "core")), "runtime 1\n")
        self.play(os.path.join(out, "app"))

    def refuses(self, app):
        """Each wrong argument, and a gateway that is not there, by what and where."""
        port, key, pem = str(free_ports(1)[0]), "ab" * 32, self.path("no.pem", "no certificate")
        good = ["127.0.0.1", port, pem, self.path("nobody"), key]
        for words, token, said in ((good[:4], None, "takes five or six arguments"), ([*good[:1], "https", *good[2:]], None, "no port: https"),
                                   ([*good[:1], "70000", *good[2:]], None, "no port: 70000"),
                                   ([*good[:4], "abc"], None, "no public key of 64 hex digits: abc"), (good, None, "not enrolled yet, and there is no enrolment token"),
                                   (good, "wet_" + "A" * 43, "no.pem"),
                                   ([*good[:2], self.certificate(), *good[3:]], "wet_" + "A" * 43, f"enrolment: no answer of 127.0.0.1:{port}: ")):
            with self.subTest(words=words):
                env = {name: value for name, value in os.environ.items() if name != "WALLE_ENROLL_TOKEN"}
                ended = subprocess.run([app, *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                                       env={**env, "ASAN_OPTIONS": "detect_leaks=0", **({"WALLE_ENROLL_TOKEN": token} if token else {})})
                self.assertEqual(ended.returncode, 1, ended.stderr)
                self.assertRegex(ended.stderr, r"^ride_example: ")
                self.assertIn(said, ended.stderr)

    def certificate(self):
        with Stack() as stack:
            stack.start_gateway()
            with open(stack.path("gateway", "cert.pem"), encoding="ascii") as file:
                return self.path("some.pem", file.read())

    def play(self, app):
        """The app against a gateway: enrolled, given a task, tapped."""
        with Stack() as stack:
            stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100", "--set", "device.checkin_interval_s=1")
            key = stack.walle("key", "new", "--out", stack.path("key")).stdout.strip().splitlines()[-1]
            self.path("source/task.py", SCRIPT)
            self.path("source/task.json", '{"name": "taps", "version": "1.0.0", "entry": "task", "files": ["task.py"],'
                                          ' "triggers": ["click(home)"], "events": {"take": "matched"}}')
            stack.walle("task", "build", self.path("source"), "--out", stack.path("build"))
            stack.walle("task", "push", stack.path("build"))
            stack.walle("rollout", "start", "taps", "--build", stack.path("build"), "--key", stack.path("key"), "--stages",
                        self.path("stages.json", FULL))
            with open(stack.enroll_token, encoding="ascii") as file:
                token = file.read().split()[0]
            with open(stack.path("app.out"), "wb") as out:
                child = subprocess.Popen([app, "127.0.0.1", str(stack.gateway.ports["tls"]), stack.path("gateway", "cert.pem"),
                                          stack.path("app"), key], stdin=subprocess.PIPE, stdout=out, stderr=out,
                                         env={**os.environ, "WALLE_ENROLL_TOKEN": token, "ASAN_OPTIONS": "detect_leaks=0"})
            stack.children.append(child)

            def said():
                with open(stack.path("app.out"), encoding="utf-8") as file:
                    return file.read()
            wait_until(lambda: "taps ran \"at rest\"" in said() or child.poll() is not None, what="a first run")
            child.stdin.write(b"item-7\n")
            child.stdin.flush()
            wait_until(lambda: "taps ran \"tapped item-7\"" in said() or child.poll() is not None, what="a run that a tap started")
            self.assertIsNone(child.poll(), said())
            child.stdin.close()
            self.assertEqual(child.wait(60), 0, said())


if __name__ == "__main__":
    unittest.main()
