"""An hour of live streams in the fleet simulator, through what ships: a released task, the device's pipeline and VM, the tunnel.

Two tiers. A few streamers run the models on every moment, in the engine, from pixels. The many replay: their events carry
what the same models came to for that moment, so their scripts do all but the models. The records of both are exported from
the gateway's log; a moment stands for itself wherever it is played.
"""
import json
import os
import shutil
import subprocess

import numpy as np
import onnx

from bench_stack import BenchStack

HOUR_MS = 3600 * 1000
MOMENTS_AN_HOUR = 60  # of a streamer, on average: candidates, a frame and the sound after it
HOURS = 200           # different hours that are played
AGENT = "00000000000a9e47"  # the id of the one real agent
AGENT_MOMENTS = 12    # that it is given at once: 16 starts wait on a device
BEGIN_MS = 1800000000000
STAGES = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]


def write_hours(path, seed, count, scores=None):
    """A log of hours of streams as `walle-device --events` takes it. scores: (answers, confidences) to replay; None: none."""
    random = np.random.default_rng([seed, 3600])
    with open(path, "w", encoding="ascii") as out:
        for hour in range(HOURS):
            at = BEGIN_MS + hour * 24 * HOUR_MS
            times = np.sort(random.integers(1000, HOUR_MS - 2000, random.poisson(MOMENTS_AN_HOUR)))
            times += 2000 * np.arange(len(times))  # apart, so that a sound belongs to its frame
            lines = [{"kind": "enter", "page": "live", "t": at}]
            for time_ms in times:
                number = int(random.integers(count))
                attributes = {"moment": number}
                if scores is not None:
                    attributes |= {"answer": int(scores[0][number]), "confidence": round(float(scores[1][number]), 6)}
                for name, after, attrs in (("frame", 0, attributes), ("sound", 1000, None)):
                    line = {"kind": "custom", "name": name, "page": "live", "t": int(at + time_ms + after)}
                    lines.append(line if attrs is None else line | {"attrs": attrs})
            lines.append({"kind": "exit", "page": "live", "t": at + 2 * HOUR_MS})
            out.writelines(json.dumps(line) + "\n" for line in lines)


def write_moments(path, numbers):
    """A log of these moments, to be run."""
    with open(path, "w", encoding="ascii") as out:
        for i, number in enumerate(numbers):
            at = BEGIN_MS + 10000 * i
            for line in ({"name": "frame", "t": at, "attrs": {"moment": int(number)}}, {"name": "sound", "t": at + 1000}):
                out.write(json.dumps({"kind": "custom", "page": "live"} | line) + "\n")


def write_task(source, folder, models, threshold):
    """conf/tasks/highlights with its models and the threshold that was chosen."""
    shutil.copytree(source, folder)
    for name, model in models.items():
        onnx.save(model, os.path.join(folder, name))
    with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
        task = json.load(file)
    task["config"]["rule"]["threshold"] = threshold
    with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
        json.dump(task, file, indent=2)


class Fleet(BenchStack):
    def walle(self, *arguments, codes=(0,)):
        """What the operator's command prints; other exit codes end the run."""
        run = subprocess.run([os.path.join(self.bin, "walle"), *arguments], capture_output=True, text=True, check=False,
                             env={**os.environ, "WALLE_GATEWAY": self.url})
        if run.returncode not in codes:
            raise SystemExit(f"highlights: walle {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout

    def begin(self, repository, *settings):
        """A gateway that serves the big model too."""
        self.repository = repository
        self.start_gateway("--set", f"infer.models={repository}", "--set", "rollout.tick_ms=100", *settings)
        self.key = self.walle("key", "new", "--out", self.path("key")).strip().splitlines()[-1]

    def release(self, task):
        self.walle("task", "build", task, "--out", self.path("build"))
        self.walle("task", "push", self.path("build"))
        with open(self.path("stages.json"), "w", encoding="ascii") as file:
            json.dump(STAGES, file)
        self.walle("rollout", "start", "highlights", "--build", self.path("build"), "--key", self.path("key"), "--stages",
                   self.path("stages.json"), "--accept-empty")

    def play(self, name, log, devices, first):
        """Streamers, an hour each; returns the run's report as JSON. What they ask of the cloud the engine computes here."""
        out = self.path(name)
        run = subprocess.run([os.path.join(self.bin, "walle-fleet-sim"), "run", "--gateway", f"https://127.0.0.1:{self.ports['tls']}",
                              "--trust", self.key, "--enroll-token", self.path("gateway", "enroll.token"), "--devices", str(devices),
                              "--first-device", str(first), "--behaviour", log, "--sessions", "1", "--session-every", "1",
                              "--checkin-interval", "2", "--cloud-models", self.repository, "--no-live", "--out", out], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"highlights: the fleet: {run.stdout[-3000:]}{run.stderr}")
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def play_agent(self, log):
        """The agent as it ships, twice: it brings the task, then plays the log."""
        words = ["--gateway", f"https://127.0.0.1:{self.ports['tls']}", "--ca", self.path("gateway", "cert.pem"), "--dir", self.path("agent"),
                 "--id", AGENT, "--trust", self.key, "--enroll-token", self.path("gateway", "enroll.token"), "--once"]
        for more in ([], ["--events", log]):
            run = subprocess.run([os.path.join(self.bin, "walle-device"), *words, *more], capture_output=True, text=True, check=False)
            if run.returncode != 0:
                raise SystemExit(f"highlights: walle-device: {run.stdout}{run.stderr}")

    def records(self):
        """What came up the tunnel, record by record; None for one that is declared lost."""
        path = self.path("records.jsonl")
        self.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                if "lost" not in entry:
                    yield entry["record"] | {"device": entry["device"]}
                    continue
                for _ in range(entry["lost"]):
                    yield None
