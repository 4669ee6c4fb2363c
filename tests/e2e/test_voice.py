#!/usr/bin/env python3
"""The task worth copying that listens (conf/tasks/voice): its model and clips are made, at three rates; it says when somebody speaks in
`walle task run`, in the agent, both ways, and in the simulator, and beeps, knocks and noise are none."""
import json
import os
import subprocess
import unittest
import wave

from task_example import TaskExample
from walle_stack import program

CLIPS, STEP_S = 12, 0.01


class Voice(TaskExample):
    TASK, MADE = "voice", ("--clips", CLIPS)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clips, cls.truth = os.path.join(cls.made, "clips"), cls.made_json("clips.json")

    def setUp(self):
        super().setUp()
        self.build = self.built(self.task)

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

    def test_in_the_agent(self):
        wanted = self.result("clip0002.wav")
        self.assertGreater(len(wanted["speech"]), 0)
        self.runs_in_agents(self.build, wanted, "--give", "microphone=" + os.path.join(self.clips, "clip0002.wav"))

    def test_in_a_fleet_in_stages(self):
        """What each device hears is what `walle task run` hears."""
        build, results = self.judged("microphone", self.clips)
        self.assertGreater(results, CLIPS / 2)
        self.passes_in_a_fleet(build, "--give", "microphone=" + self.clips)

    def test_in_the_simulate_stage(self):
        self.passes_in_the_simulator(self.build, "--behaviour", "none", "--give", "microphone=" + self.clips)


if __name__ == "__main__":
    unittest.main()
