"""Trains the networks of the worked example with `walle-engine train` and scores moments with `walle-engine run`."""
import os
import subprocess
import time

import numpy as np
import onnx

import networks
import world

BATCH = 16
TIMES = {"recognise": 2}  # as many epochs as the other parts
COPIES = 4   # of each picture, in training, unless a size says otherwise
CHUNK = 250  # moments scored at once
RATES = {"detect": 3e-3, "recognise": 4e-3, "face": 3e-3, "voice": 4e-3}


class Engine:
    def __init__(self, program, folder, threads, reuse=False):
        self.program, self.folder, self.threads = program, folder, threads
        self.reuse = reuse  # weights that lie there, of the same options as the caller says
        self.batch, self.copies = BATCH, COPIES
        self.seconds = {}  # of training, by plan and part

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *arguments):
        run = subprocess.run([self.program, *arguments, "--threads", str(self.threads)], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"highlights: walle-engine {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout

    def run(self, model, inputs):
        """Outputs by name."""
        np.savez(self.path("in.npz"), **inputs)
        self.call("run", model, "--input", self.path("in.npz"), "--output", self.path("out.npz"))
        with np.load(self.path("out.npz")) as out:
            return {name: out[name] for name in out}

    # ---- Training

    def train(self, name, part, examples, epochs, seed):
        """Weights of a part of the plan `name`, in the network's order."""
        plan = networks.PLANS[name]
        model, weights = self.path(f"{name}.{part}.onnx"), self.path(f"{name}.{part}.npz")
        if self.has(name):
            return networks.trained_weights(part, plan, weights)
        inputs, target = examples
        onnx.save(networks.trainable(part, plan, seed).model(), model)
        np.save(self.path("x.npy"), inputs)
        np.save(self.path("y.npy"), target)
        began = time.monotonic()
        said = self.call("train", model, "--input", f"{networks.INPUTS[part][0]}={self.path('x.npy')}", "--target", self.path("y.npy"),
                         "--output", weights, "--epochs", str(epochs * TIMES.get(part, 1)), "--batch", str(self.batch), "--rate", str(RATES[part]), "--decay",
                         "--seed", str(seed))
        self.seconds[name, part] = time.monotonic() - began
        print(f"  {name} {part}: {len(target)} examples, {said.splitlines()[-1]}, {self.seconds[name, part]:.0f} s in all", flush=True)
        return networks.trained_weights(part, plan, weights)

    def examples(self, moments, seed):
        """Of each part: what it is shown, and what is right. Pictures come COPIES times, each time turned, mirrored and with its
        colours exchanged as chance has it: items have any colour and angle. Faces are upright and skin is skin: those are mirrored."""
        random = np.random.default_rng([seed, 77])
        frames, item_map = np.concatenate([moments.frame] * self.copies), np.concatenate([moments.item_map] * self.copies)
        kind, (faces, face_map) = np.concatenate([moments.kind] * self.copies), (frames.copy(), np.concatenate([moments.face_map] * self.copies))
        for i in range(len(moments), len(frames)):
            turns, mirrored, colours = random.integers(4), random.integers(2), random.permutation(3)
            frames[i] = turned(frames[i][colours], turns, mirrored)
            item_map[i] = turned(item_map[i], turns, mirrored)
            faces[i], face_map[i] = turned(faces[i], 0, mirrored), turned(face_map[i], 0, mirrored)
        is_item = kind >= 0
        crops = self.crops(frames[is_item], self.near_places(item_map[is_item], random))
        return {"detect": (frames, item_map), "face": (faces, face_map), "voice": (moments.sound, moments.voice),
                "recognise": (crops, kind[is_item])}

    @staticmethod
    def near_places(maps, random):
        """Where items are, by any cell near their middle, and one in ten times of the other size: a detector is not exact."""
        places = []
        for grid in maps:
            row, column = random.choice(np.argwhere(grid > 0))
            size = grid[row, column] - 1
            if random.random() < 0.1:
                size = 1 - size
            places.append((size * world.GRID + row) * world.GRID + column)
        return np.array(places, np.int64)

    def crops(self, frames, places):
        onnx.save(networks.crops(CHUNK), self.path("crops.onnx"))
        return in_chunks(lambda frame, place: self.run(self.path("crops.onnx"), {"frame": frame, "place": place})["crop"], frames, places)

    def has(self, name):
        """Are there weights of all parts of a plan, which need not be trained again?"""
        return self.reuse and all(os.path.exists(self.path(f"{name}.{part}.npz")) for part in networks.PARTS)

    def train_plan(self, name, examples, epochs, seed):
        return {part: self.train(name, part, examples.get(part), epochs, seed) for part in networks.PARTS}

    # ---- Scores

    def classes(self, name, weights, moments):
        """Probabilities of the classes, moment by moment, by the networks of a plan together."""
        model = self.path(f"{name}.whole.onnx")
        onnx.save(networks.whole(networks.PLANS[name], weights, CHUNK), model)
        return in_chunks(lambda frame, sound: self.run(model, {"frame": frame, "sound": sound})["classes"], moments.frame, moments.sound)


def turned(array, turns, mirrored):
    """By quarters of a turn over the last two dimensions, and mirrored."""
    array = np.rot90(array, turns, (-2, -1))
    return array[..., ::-1] if mirrored else array


def in_chunks(function, *arrays):
    """Of CHUNK examples at a time; the last chunk is filled up with what is there."""
    out, count = [], len(arrays[0])
    for first in range(0, count, CHUNK):
        rows = np.minimum(np.arange(first, first + CHUNK), count - 1)
        out.append(function(*(array[rows] for array in arrays)))
    return np.concatenate(out)[:count]
