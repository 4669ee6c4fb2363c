"""Trains the networks of the worked example with `walle-engine train` and scores moments with `walle-engine run`."""
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
import time

import numpy as np
import onnx

import networks
import world

BATCH = 16
TIMES = {"recognise": 2}  # as many epochs as the other parts
COPIES = 2   # of each picture, in training, unless a size says otherwise
CHUNK = 500  # moments scored at once
RATES = {"detect": 3e-3, "recognise": 4e-3, "face": 3e-3, "voice": 4e-3}


class Engine:
    def __init__(self, program, folder, threads, reuse=False):
        self.program, self.folder, self.threads = program, folder, threads  # so many programs at once, of one thread each
        self.reuse = reuse  # weights that lie there, of the same options as the caller says
        self.batch, self.copies = BATCH, COPIES
        self.seconds = {}  # of training, by plan and part

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *arguments):
        run = subprocess.run([self.program, *arguments, "--threads", "1"], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"highlights: walle-engine {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout

    def run(self, model, inputs):
        """Outputs by name."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            given, said = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
            np.savez(given, **inputs)
            self.call("run", model, "--input", given, "--output", said)
            with np.load(said) as out:
                return {name: out[name] for name in out}

    def in_chunks(self, function, *arrays):
        """Of CHUNK examples at a time; the last chunk is filled up with what is there."""
        count = len(arrays[0])
        chunks = [np.minimum(np.arange(first, first + CHUNK), count - 1) for first in range(0, count, CHUNK)]
        with ThreadPoolExecutor(self.threads) as pool:
            return np.concatenate(list(pool.map(lambda rows: function(*(array[rows] for array in arrays)), chunks)))[:count]

    # ---- Training

    def train(self, name, part, examples, epochs, seed):
        """Weights of a part of the plan `name`, in the network's order."""
        plan = networks.PLANS[name]
        model, weights = self.path(f"{name}.{part}.onnx"), self.path(f"{name}.{part}.npz")
        if self.has(name):
            return networks.trained_weights(part, plan, weights)
        inputs, target = examples
        onnx.save(networks.trainable(part, plan, seed).model(), model)
        inputs_file, target_file = self.path(f"{name}.{part}.x.npy"), self.path(f"{name}.{part}.y.npy")
        np.save(inputs_file, inputs)
        np.save(target_file, target)
        began = time.monotonic()
        said = self.call("train", model, "--input", f"{networks.INPUTS[part][0]}={inputs_file}", "--target", target_file,
                         "--output", weights, "--epochs", str(epochs * TIMES.get(part, 1)), "--batch", str(self.batch), "--rate", str(RATES[part]), "--decay",
                         "--seed", str(seed))
        self.seconds[name, part] = time.monotonic() - began
        print(f"  {name} {part}: {len(target)} examples, {said.splitlines()[-1]}, {self.seconds[name, part]:.0f} s in all", flush=True)
        return networks.trained_weights(part, plan, weights)

    def examples(self, moments, seed):
        """Of each part: what it is shown, and what is right. Pictures come COPIES times, mirrored as chance has it; for items, which
        have any colour, colours are exchanged and turned to their opposites besides."""
        random = np.random.default_rng([seed, 77])
        frames, item_map = np.concatenate([moments.frame] * self.copies), np.concatenate([moments.item_map] * self.copies)
        kind, (faces, face_map) = np.concatenate([moments.kind] * self.copies), (frames.copy(), np.concatenate([moments.face_map] * self.copies))
        for i in range(len(moments), len(frames)):
            mirrored = 1 - 2 * random.integers(2)
            faces[i], face_map[i], item_map[i] = (array[i, ..., ::mirrored].copy() for array in (faces, face_map, item_map))
            frames[i] = faces[i][random.permutation(3)]
            if random.random() < 0.5:
                frames[i] = 255 - frames[i]
        is_item = kind >= 0
        crops = self.crops(frames[is_item], self.near_places(item_map[is_item], random))
        return {"detect": (frames, place_shares(item_map, world.SIZES)), "face": (faces, place_shares(face_map, 1)), "voice": (moments.sound, moments.voice),
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
        return self.in_chunks(lambda frame, place: self.run(self.path("crops.onnx"), {"frame": frame, "place": place})["crop"], frames, places)

    def has(self, name):
        """Are there weights of all parts of a plan, which need not be trained again?"""
        return self.reuse and all(os.path.exists(self.path(f"{name}.{part}.npz")) for part in networks.PARTS)

    def train_plans(self, plans, seed):
        """plans: {name: (moments, epochs)}. Weights by plan and part; the longest trainings begin first."""
        made = {}  # by how many moments: plans that learn from as many learn from the same
        for name, (moments, _) in plans.items():
            if not self.has(name) and len(moments) not in made:
                made[len(moments)] = self.examples(moments, seed)
        examples = {name: made.get(len(moments), {}) for name, (moments, _) in plans.items()}
        work = [(name, part) for name in reversed(plans) for part in networks.PARTS]
        with ThreadPoolExecutor(self.threads) as pool:
            weights = list(pool.map(lambda of: self.train(*of, examples[of[0]].get(of[1]), plans[of[0]][1], seed), work))
        return {name: {part: found for (of, part), found in zip(work, weights) if of == name} for name in plans}

    # ---- Scores

    def classes(self, name, weights, moments):
        """Probabilities of the classes, moment by moment, by the networks of a plan together."""
        model = self.path(f"{name}.whole.onnx")
        onnx.save(networks.whole(networks.PLANS[name], weights, CHUNK), model)
        return self.in_chunks(lambda frame, sound: self.run(model, {"frame": frame, "sound": sound})["classes"], moments.frame, moments.sound)


def place_shares(maps, kinds):
    """What is right for scores of "nothing" and of places: 1 in all, shared by the cells that are near."""
    shares = np.concatenate([(maps == kind).reshape(len(maps), -1) for kind in range(1, 1 + kinds)], axis=1).astype(np.float32)
    shares /= np.maximum(shares.sum(1, keepdims=True), 1)
    return np.concatenate([1 - shares.sum(1, keepdims=True), shares], axis=1)
