#!/usr/bin/env python3
"""The device library in an app of somebody else: installed, found by pkg-config and by CMake, from C11 and C++17; the example enrols
at a real gateway, runs what is released, and what its user taps on starts a task."""
import os
import shlex
import subprocess
import tempfile
import unittest

from walle_stack import SOURCE, Stack, wait_until

BUILD = os.path.dirname(os.environ["WALLE_BIN"])
SANITIZE = [f"-fsanitize={os.environ['WALLE_SANITIZE']}"] if os.environ.get("WALLE_SANITIZE") else []
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
LANGUAGES = {"c11": ["cc", "-std=c11"], "c++17": ["c++", "-std=c++17"]}
EXAMPLE = os.path.join(SOURCE, "device", "examples", "app_example.c")
# An app with ports of its own begins so: with the runtime alone.
CORE = """#include "device/device.h"
#include "device/port.h"
#include "pipeline/record.h"
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
        self.assertLessEqual({"device/device.h", "device/port.h", "pipeline/record.h", "posix/posix_port.h"}, set(headers))
        for header in headers:
            for language, compiler in LANGUAGES.items():
                with self.subTest(header=header, language=language):
                    run(*compiler, *STRICT, "-I" + include, "-fsyntax-only", "-x", "c" if language == "c11" else "c++", "-",
                        input=f'#include "{header}"\n#include "{header}"\n')

    def test_every_program(self):
        names = ("walle", "walle-device", "walle-engine", "walle-fleet-sim", "walle-gateway", "walle-store", "walle-task-runner")
        self.assertEqual(sorted(os.listdir(os.path.join(self.prefix, "bin"))), sorted(names))

    def test_pkg_config(self):
        core = self.path("core.cc", CORE)
        run(*LANGUAGES["c++17"], *STRICT, *SANITIZE, core, "-o", self.path("core"), *self.pkg_config("--cflags", "--libs", "walle-device-core"))
        self.assertEqual(run(self.path("core")), "runtime 1\n")
        run(*LANGUAGES["c11"], *STRICT, *SANITIZE, EXAMPLE, "-o", self.path("app"), *self.pkg_config("--cflags", "--libs", "walle-device"))
        (runner,) = self.pkg_config("--variable=task_runner", "walle-device")
        self.assertTrue(os.access(runner, os.X_OK), runner)
        self.play(self.path("app"))

    def test_cmake(self):
        self.path("project/CMakeLists.txt", PROJECT.replace("EXAMPLE", EXAMPLE))
        self.path("project/core.cc", CORE)
        out = self.path("project/build")
        said = run("cmake", "-S", self.path("project"), "-B", out, "-DCMAKE_PREFIX_PATH=" + self.prefix)
        self.assertIn(os.path.join(self.prefix, "bin", "walle-task-runner"), said)
        run("cmake", "--build", out)
        self.assertEqual(run(os.path.join(out, "core")), "runtime 1\n")
        self.play(os.path.join(out, "app"))

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
