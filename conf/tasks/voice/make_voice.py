#!/usr/bin/python3
"""Makes the model of the task in this folder, and clips to try it on.

    /usr/bin/python3 conf/tasks/voice/make_voice.py OUT [--clips N] [--seed S]

OUT/task is a copy of the task's folder with its model and a clip that a build tries it on, ready for `walle task build`;
OUT/clips has N WAV files at three rates, and OUT/clips.json when somebody speaks in each. The voices are made up: pulses at a
pitch that drifts, through resonances that change with every syllable, hisses between them; so are the noise, hum, beeps and
knocks around. The model is a layer of random features with a fitted layer behind it, so making it takes seconds, needs numpy,
scipy and onnx alone, and gives the same bytes each time on one machine.
"""
import argparse
import json
import os
import shutil
import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy.signal import lfilter, resample_poly

HERE = os.path.dirname(os.path.abspath(__file__))
RATE, HOP, BANDS, PIECE = 16000, 160, 24, 512
AROUND = (-12, -8, -4, 0, 4, 8, 12)
HIDDEN, LEARNT, RATES = 128, 80, (16000, 8000, 44100)
FORMANTS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410), (490, 1350, 1690))


# ---- The world

def resonance(signal, frequency, width):
    radius = np.exp(-np.pi * width / RATE)
    turn = 2 * radius * np.cos(2 * np.pi * frequency / RATE)
    return lfilter([1 - radius], [1, -turn, radius * radius], signal)


def syllable(random, pitch):
    """A vowel, with a hiss before it at times."""
    size = int(random.uniform(0.09, 0.26) * RATE)
    at = np.arange(size) / RATE
    phase = np.cumsum(pitch * (1 + 0.15 * np.sin(2 * np.pi * random.uniform(1, 3) * at + random.uniform(0, 6)))) / RATE
    pulses = np.diff(np.floor(phase), prepend=0) * 8 + random.normal(0, 0.03, size)
    vowel = sum(resonance(pulses, frequency * random.uniform(0.9, 1.1), 60 + 40 * k) / (1 + k)
                for k, frequency in enumerate(FORMANTS[random.integers(len(FORMANTS))]))
    vowel *= np.sin(np.pi * np.linspace(0, 1, size)) ** 0.5
    if random.random() < 0.4:
        hiss = lfilter([1, -0.95], [1], random.normal(0, 0.25, int(random.uniform(0.03, 0.09) * RATE)))
        vowel = np.concatenate([hiss * np.hanning(len(hiss)) * np.abs(vowel).max(), vowel])
    return vowel / (np.abs(vowel).max() + 1e-9)


def utterance(random):
    pitch = random.uniform(90, 260)
    parts = []
    for _ in range(random.integers(3, 9)):
        parts += [syllable(random, pitch * random.uniform(0.9, 1.15)) * random.uniform(0.5, 1), np.zeros(int(random.uniform(0.01, 0.07) * RATE))]
    return np.concatenate(parts[:-1])


def surroundings(random, size):
    at = np.arange(size) / RATE
    noise = lfilter([1], [1, -random.uniform(0.3, 0.95)], random.normal(0, 1, size))
    around = noise / noise.std() * random.uniform(0.5, 1) + random.uniform(0, 0.5) * np.sin(2 * np.pi * 50 * at)
    for _ in range(random.integers(0, 3)):  # beeps
        begin, long = random.integers(0, size), int(random.uniform(0.1, 0.8) * RATE)
        tone = np.sin(2 * np.pi * random.uniform(300, 3000) * at[begin:begin + long]) * random.uniform(1, 6)
        around[begin:begin + long] += tone
    for _ in range(random.integers(0, 5)):  # knocks
        begin = random.integers(0, size)
        knock = random.normal(0, random.uniform(2, 12), size - begin) * np.exp(-at[:size - begin] * 60)
        around[begin:] += knock
    return around


def clip(random):
    """Samples, and [from, to] in seconds of each utterance."""
    size = int(random.uniform(3, 5) * RATE)
    signal, spoken = np.zeros(size), []
    at = int(random.uniform(0.2, 1) * RATE)
    while True:
        said = utterance(random)
        if at + len(said) > size - RATE // 5:
            break
        signal[at:at + len(said)] += said
        spoken.append([at / RATE, (at + len(said)) / RATE])
        at += len(said) + int(random.uniform(0.5, 1.2) * RATE)
    loud = signal[signal != 0].std() if spoken else 0.2
    signal = signal + surroundings(random, size) * loud * 10 ** (-random.uniform(8, 22) / 20)
    return signal / np.abs(signal).max() * random.uniform(0.2, 0.9), spoken


# ---- What the model hears, as sound.py has it

def mel_of(frequency):
    return np.where(frequency < 1000, frequency * 3 / 200, 15 + 27 * np.log(np.maximum(frequency, 1e-9) / 1000) / np.log(6.4))


def hertz_of(mel):
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) / 27 * np.log(6.4)))


def bank():
    edges = hertz_of(np.linspace(0, mel_of(RATE / 2), BANDS + 2))
    bins = np.linspace(0, RATE / 2, PIECE // 2 + 1)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def numbers(signal, filters):
    padded = np.pad(signal, PIECE // 2)
    window = np.hanning(PIECE + 1)[:-1]
    pieces = np.lib.stride_tricks.sliding_window_view(padded, PIECE)[::HOP][:1 + len(signal) // HOP]
    power = np.abs(np.fft.rfft(pieces * window)) ** 2 @ filters.T
    loud = 10 * np.log10(np.maximum(power, 1e-10))
    loud = np.maximum(loud, loud.max() - 80)
    loud = (loud - loud.mean(axis=0)) / 15
    places = np.arange(len(loud))
    return np.hstack([loud[np.clip(places + step, 0, len(loud) - 1)] for step in AROUND])


def targets(spoken, count):
    middles = np.arange(count) * HOP / RATE
    return np.array([any(first <= at <= last for first, last in spoken) for at in middles], np.float64)


def fitted(features, wanted):
    """Logistic regression by Newton's way."""
    rows = np.hstack([features, np.ones((len(features), 1))])
    weights = np.zeros(rows.shape[1])
    for _ in range(8):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(rows.shape[1])
        weights = weights + np.linalg.solve(curve, rows.T @ (wanted - chance) - weights)
    return weights


def model_of(random):
    filters = bank()
    clips = [clip(random) for _ in range(LEARNT)]
    x = [numbers(signal, filters) for signal, _ in clips]
    wanted = np.concatenate([targets(spoken, len(rows)) for (_, spoken), rows in zip(clips, x)])
    x = np.vstack(x)
    hidden = random.normal(0, 1.5 / np.sqrt(x.shape[1]), (x.shape[1], HIDDEN))
    bias = random.uniform(-0.5, 0.5, HIDDEN)
    weights = fitted(np.maximum(x @ hidden + bias, 0), wanted)
    values = {"w": hidden, "b": bias, "v": weights[:-1, None], "c": weights[-1:]}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "v", "c"], ["s"]), helper.make_node("Sigmoid", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "voice", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["pieces", x.shape[1]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["pieces", 1])],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def written(path, signal, rate):
    if rate != RATE:
        signal = resample_poly(signal, rate, RATE)
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.clip(signal * 32767, -32768, 32767).astype("<i2").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", help="folder, made anew")
    parser.add_argument("--clips", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    task, clips = os.path.join(args.out, "task"), os.path.join(args.out, "clips")
    for folder in (task, clips):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    for name in ("task.json", "voice.py", "sound.py"):
        shutil.copy(os.path.join(HERE, name), task)
    onnx.save(model_of(random), os.path.join(task, "voice.onnx"))
    os.makedirs(os.path.join(task, "samples"))
    written(os.path.join(task, "samples", "clip.wav"), clip(np.random.default_rng(23))[0], RATE)
    truth = {}
    for number in range(args.clips):
        signal, spoken = clip(random)
        name = f"clip{number:04d}.wav"
        written(os.path.join(clips, name), signal, RATES[number % len(RATES)])
        truth[name] = [[round(at, 2) for at in pair] for pair in spoken]
    with open(os.path.join(args.out, "clips.json"), "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)
    print(f"{task}: the task with its model; {args.clips} clips beside it")


if __name__ == "__main__":
    main()
