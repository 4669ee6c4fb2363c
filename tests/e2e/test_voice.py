#!/usr/bin/env python3
"""The task worth copying that listens (conf/tasks/voice): its model and clips are made, at three rates; it says when somebody speaks in
`walle task run`, in the agent, both ways, and in the simulator, and beeps, knocks and noise are none."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import wave

from walle_stack import SOURCE, Stack, program, wait_until

MAKER = os.path.join(SOURCE, "conf", "tasks", "voice", "make_voice.py")
CLIPS, DEVICES, TASK, STEP_S = 12, 60, "voice", 0.01
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
STAGES = [{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 8, "min_dwell_s": 1, "max_failure": 0.05},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 20, "min_dwell_s": 1, "max_failure": 0.05}]


class Voice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix="walle-voice-")
        cls.addClassCleanup(shutil.rmtree, cls.made)
        subprocess.run([sys.executable, MAKER, cls.made, "--clips", str(CLIPS)], check=True, timeout=300,
                       env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        cls.clips = os.path.join(cls.made, "clips")
        with open(os.path.join(cls.made, "clips.json"), encoding="utf-8") as file:
            cls.truth = json.load(file)

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.build = self.stack.path("build")
        self.stack.walle("task", "build", os.path.join(self.made, "task"), "--out", self.build)

    def result(self, name):
        return json.loads(self.stack.walle("task", "run", self.build, "-o", "json", "--give", "microphone=" + os.path.join(self.clips, name)).stdout)[
            "result"]

    def test_when_somebody_speaks(self):
        """Of the hundredths of a second of all clips at least nine of ten are said right, of speech and of all else alike."""
        right, there, rates = {True: 0, False: 0}, {True: 0, False: 0}, set()
        for name, spoken in self.truth.items():
            with wave.open(os.path.join(self.clips, name)) as clip:
                seconds = clip.getnframes() / clip.getframerate()
                rates.add(clip.getframerate())
            result = self.result(name)
            self.assertAlmostEqual(result["seconds"], seconds, delta=0.02)
            for step in range(int(seconds / STEP_S)):
                is_said, is_true = (any(first <= step * STEP_S < last for first, last in pieces) for pieces in (result["speech"], spoken))
                right[is_true] += is_said == is_true
                there[is_true] += 1
        print({("speech" if kind else "else"): round(right[kind] / there[kind], 3) for kind in right}, flush=True)
        self.assertEqual(rates, {8000, 16000, 44100})
        for kind, count in there.items():
            self.assertGreater(count, 200)
            self.assertGreater(right[kind], 0.9 * count, (kind, right, there))

    def test_without_a_clip(self):
        run = json.loads(self.stack.walle("task", "run", self.build, "-o", "json").stdout)
        self.assertEqual(run["result"], {"seconds": 0, "speech": []})
        damaged = self.stack.path("no.wav")
        with open(damaged, "wb") as file:
            file.write(b"RIFFxxxxWAVEno")
        run = subprocess.run([program("walle"), "task", "run", self.build, "--give", "microphone=" + damaged], capture_output=True, text=True,
                             timeout=200, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stdout, r"(?s)ValueError: .*sound.py:\d+")

    def release(self, stages):
        key, path = self.stack.path("key"), self.stack.path("stages.json")
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        public = self.stack.walle("key", "new", "--out", key).stdout.strip().splitlines()[-1]
        self.stack.walle("task", "push", self.build)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages, file)
        return public, lambda: json.loads(self.stack.walle("rollout", "start", TASK, "--build", self.build, "--key", key, "--stages", path, "-o",
                                                           "json").stdout)["id"]

    def test_in_the_agent(self):
        clip = os.path.join(self.clips, "clip0002.wav")
        wanted = self.result("clip0002.wav")
        self.assertGreater(len(wanted["speech"]), 0)
        public, start = self.release(FULL)
        start()
        for number, isolation in enumerate(("process", "thread"), 1):
            output = self.stack.path(isolation + ".out")
            with open(output, "w", encoding="utf-8") as out, open(self.stack.path(isolation + ".log"), "w", encoding="utf-8") as log:
                device = self.stack.spawn(
                    "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca",
                    os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", self.stack.path(isolation), "--id", f"{number:016x}", "--trust",
                    public, "--checkin-interval", "1", "--isolation", isolation, "--give", "microphone=" + clip, stdout=out, stderr=log)

            def told(path=output):
                with open(path, encoding="utf-8") as file:
                    return re.findall(rf"^task {TASK} [0-9a-f]{{64}} (\w+) \d+ us (.*)$", file.read(), re.M)
            outcome, result = wait_until(told, timeout_s=120, what="a run")[0]
            self.assertEqual((outcome, json.loads(result)), ("ran", wanted), isolation)
            device.terminate()
            self.assertEqual(device.wait(60), 0)

    def test_in_a_fleet_in_stages(self):
        public, start = self.release(STAGES)
        with open(self.stack.path("fleet.log"), "w+", encoding="utf-8") as log:
            fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--trust", public,
                                     "--enroll-token", os.path.join(self.stack.gateway.folder, "enroll.token"), "--task", TASK, "--checkin-interval",
                                     "1", "--give", "microphone=" + self.clips, "--until-coverage", "100%", "--duration", "150", "--no-live", "--out",
                                     self.stack.path("fleet"), stdout=log, stderr=log)
            rollout = start()
            self.assertEqual(fleet.wait(200), 0, log.seek(0) or log.read())
        status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
        self.assertEqual((status, state["counts"]["succeeded"], state["counts"]["failed"]), (200, DEVICES, 0), state)
        self.assertIn(" advance ", self.stack.walle("rollout", "log", rollout).stdout)  # from the first stage to the next

    def test_in_the_simulate_stage(self):
        out = self.stack.path("sim")
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.build, "--devices", str(DEVICES), "--behaviour", "none", "--give",
                              "microphone=" + self.clips, "--no-live", "--threads", "2", "--out", out], capture_output=True, text=True, timeout=300,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0), run.stdout)


if __name__ == "__main__":
    unittest.main()
