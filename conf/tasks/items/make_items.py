#!/usr/bin/python3
"""Makes the models of the task in this folder, and frames to try it on.

    /usr/bin/python3 conf/tasks/items/make_items.py OUT [--frames N] [--seed S]

OUT/task is a copy of the task's folder with its models and a frame that a build tries it on, ready for `walle task
build`; OUT/frames has N JPEG files, and OUT/frames.json what is on each. The world is made up: bright discs, boxes,
signs and rings, each kind with a range of colours, on a noisy gray ground. Both models are small and fitted in closed
form (a layer of random features, ridge regression behind it), so making them takes seconds, needs numpy, cv2 and onnx
alone, and gives the same bytes each time on one machine.
"""
import argparse
import json
import os
import shutil

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = open(os.path.join(HERE, "labels.txt"), encoding="utf-8").read().split()
WIDTH, HEIGHT, CELL, SIDE = 128, 96, 8, 24
ROWS, COLUMNS = HEIGHT // CELL, WIDTH // CELL
REACH = 2            # cells around one that the detector looks at
HIDDEN, NAMED = 64, 160
LEARNT = 500         # frames that models are fitted on
NEAR = 0.6           # of a cell: a middle so near to a cell's makes it right
COLOURS = {"disc": (40, 40, 230), "box": (50, 210, 60), "sign": (230, 80, 40), "ring": (30, 210, 230)}  # BGR


# ---- The world

def item_drawn(random, frame, kind, x, y, size):
    colour = tuple(int(c) for c in np.clip(np.array(COLOURS[kind]) + random.integers(-25, 26, 3), 0, 255))
    half, middle = size / 2, (int(x), int(y))
    if kind == "disc":
        cv2.circle(frame, middle, int(half), colour, -1, cv2.LINE_AA)
    elif kind == "ring":
        cv2.circle(frame, middle, int(half * 0.8), colour, max(2, int(half * 0.35)), cv2.LINE_AA)
    elif kind == "box":
        cv2.rectangle(frame, (int(x - half), int(y - half)), (int(x + half), int(y + half)), colour, -1)
    else:
        corners = np.array([[x, y - half], [x - half, y + half], [x + half, y + half]], np.int32)
        cv2.fillPoly(frame, [corners], colour, cv2.LINE_AA)


def frame_drawn(random):
    """A frame, and what is on it: (kind, x, y, size)."""
    gray = random.uniform(60, 190)
    frame = np.clip(random.normal(gray, 12, (HEIGHT, WIDTH, 1)) + random.normal(0, 4, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
    items = []
    for _ in range(random.integers(0, 4)):
        size = random.uniform(18, 34)
        x, y = random.uniform(size / 2, WIDTH - size / 2), random.uniform(size / 2, HEIGHT - size / 2)
        if all(np.hypot(x - other[1], y - other[2]) > (size + other[3]) * 0.75 for other in items):
            kind = KINDS[random.integers(len(KINDS))]
            item_drawn(random, frame, kind, x, y, size)
            items.append((kind, x, y, size))
    return frame, items


# ---- Fitting

def ridge(features, targets, strength):
    features = np.concatenate([features, np.ones((len(features), 1))], 1)
    square = features.T @ features + strength * np.eye(features.shape[1])
    weights = np.linalg.solve(square, features.T @ targets)
    return weights[:-1].T, weights[-1]


OPPONENTS = np.array([[1, -1, 0], [-1, 1, 0], [1, 0, -1], [-1, 0, 1], [0, 1, -1], [0, -1, 1]], np.float64)


def planes(frame):
    """How much colours stand out, a number a cell for each pair: what the model's first layers give."""
    x = np.maximum(np.einsum("pc,hwc->phw", OPPONENTS, frame / 255.0), 0)
    return x.reshape(6, ROWS, CELL, COLUMNS, CELL).mean((2, 4))


def patches(x):
    padded = np.pad(x, ((0, 0), (REACH, REACH), (REACH, REACH)))
    span = 2 * REACH + 1
    rows = [padded[:, r:r + span, c:c + span].ravel() for r in range(ROWS) for c in range(COLUMNS)]
    return np.array(rows)


def answers(items):
    """Of each cell: is a middle here, and where from here, how large."""
    is_one, places = np.zeros(ROWS * COLUMNS), np.zeros((ROWS * COLUMNS, 4))
    for _, x, y, size in items:
        for cell in range(ROWS * COLUMNS):
            dx, dy = x / CELL - (cell % COLUMNS + 0.5), y / CELL - (cell // COLUMNS + 0.5)
            if np.hypot(dx, dy) < NEAR:
                is_one[cell], places[cell] = 1, (dx, dy, size / CELL, size / CELL)
    return is_one, places


def detector_fitted(random, frames):
    inner = random.normal(0, 1, (HIDDEN, 6 * (2 * REACH + 1) ** 2))
    bias = random.normal(0, 0.3, HIDDEN)
    seen, is_one, places = [], [], []
    for frame, items in frames:
        ones, where = answers(items)
        rows = np.flatnonzero(ones)  # all that is something, and some of the rest
        rows = np.concatenate([rows, random.permutation(ROWS * COLUMNS)[:60]])
        seen.append(np.maximum(patches(planes(frame))[rows] @ inner.T + bias, 0))
        is_one.append(ones[rows])
        places.append(where[rows])
    seen, is_one, places = np.concatenate(seen), np.concatenate(is_one), np.concatenate(places)
    right = is_one > 0
    return inner, bias, ridge(seen, is_one[:, None], 1e-2), ridge(seen[right], places[right], 1e-2)


def cut_out(frame, x, y, size):
    """As crop_resize_normalize cuts it, of whole pixels within the frame."""
    left, top = max(0, int(x - size / 2)), max(0, int(y - size / 2))
    part = frame[top:min(HEIGHT, int(y + size / 2)), left:min(WIDTH, int(x + size / 2))]
    return (cv2.resize(part, (SIDE, SIDE)) / 255.0).transpose(2, 0, 1).ravel()


def classifier_fitted(random, frames):
    seen, kinds = [], []
    for frame, items in frames:
        for kind, x, y, size in items:
            for _ in range(3):  # as a detector sees it: not quite there
                dx, dy = random.normal(0, 2, 2)
                seen.append(cut_out(frame, x + dx, y + dy, size * random.uniform(0.85, 1.15)))
                kinds.append(np.eye(len(KINDS))[KINDS.index(kind)])
    inner = random.normal(0, 1 / SIDE, (NAMED, 3 * SIDE * SIDE))
    bias = random.normal(0, 0.3, NAMED)
    return inner, bias, ridge(np.maximum(np.array(seen) @ inner.T + bias, 0), np.array(kinds), 1e-1)


# ---- Models

def model_saved(path, nodes, inputs, outputs, weights):
    made = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in group.items()] for group in (inputs, outputs)]
    graph = helper.make_graph(nodes, "items", *ports, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="make_items")
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def detector_saved(path, fitted):
    inner, bias, (score, score_bias), (place, place_bias) = fitted
    span = 2 * REACH + 1
    nodes = [helper.make_node("Conv", ["frame", "opponents"], ["apart"]),
             helper.make_node("Relu", ["apart"], ["stands_out"]),
             helper.make_node("AveragePool", ["stands_out"], ["cells"], kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
             helper.make_node("Conv", ["cells", "inner", "inner_bias"], ["wide"], pads=[REACH] * 4),
             helper.make_node("Relu", ["wide"], ["hidden"]),
             helper.make_node("Conv", ["hidden", "score", "score_bias"], ["scores"]),
             helper.make_node("Conv", ["hidden", "place", "place_bias"], ["places"])]
    model_saved(path, nodes, {"frame": [1, 3, HEIGHT, WIDTH]}, {"scores": [1, 1, ROWS, COLUMNS], "places": [1, 4, ROWS, COLUMNS]},
                {"opponents": OPPONENTS.reshape(6, 3, 1, 1), "inner": inner.reshape(HIDDEN, 6, span, span), "inner_bias": bias,
                 "score": score.reshape(1, HIDDEN, 1, 1), "score_bias": score_bias,
                 "place": place.reshape(4, HIDDEN, 1, 1), "place_bias": place_bias})


def classifier_saved(path, fitted):
    inner, bias, (kinds, kinds_bias) = fitted
    nodes = [helper.make_node("Flatten", ["item"], ["flat"]),
             helper.make_node("Gemm", ["flat", "inner", "inner_bias"], ["wide"], transB=1),
             helper.make_node("Relu", ["wide"], ["hidden"]),
             helper.make_node("Gemm", ["hidden", "kinds", "kinds_bias"], ["said"], transB=1, alpha=8.0, beta=8.0),
             helper.make_node("Softmax", ["said"], ["chances"], axis=1)]
    model_saved(path, nodes, {"item": [1, 3, SIDE, SIDE]}, {"chances": [1, len(KINDS)]},
                {"inner": inner, "inner_bias": bias, "kinds": kinds, "kinds_bias": kinds_bias})


def main():
    parser = argparse.ArgumentParser(description="Makes the models of the task `items`, and frames to try it on.")
    parser.add_argument("out", help="folder for task/, frames/ and frames.json")
    parser.add_argument("--frames", type=int, default=16, help="to try it on (16)")
    parser.add_argument("--seed", type=int, default=1, help="of the frames to try (1); models have their own")
    given = parser.parse_args()
    learnt = np.random.default_rng(20)
    frames = [frame_drawn(learnt) for _ in range(LEARNT)]
    task, shown = os.path.join(given.out, "task"), os.path.join(given.out, "frames")
    shutil.copytree(HERE, task, dirs_exist_ok=True, ignore=shutil.ignore_patterns("make_items.py", "__pycache__"))
    os.makedirs(shown, exist_ok=True)
    detector_saved(os.path.join(task, "detect.onnx"), detector_fitted(learnt, frames))
    classifier_saved(os.path.join(task, "classify.onnx"), classifier_fitted(learnt, frames))
    os.makedirs(os.path.join(task, "samples"), exist_ok=True)
    cv2.imwrite(os.path.join(task, "samples", "frame.jpg"), frame_drawn(np.random.default_rng(22))[0], [cv2.IMWRITE_JPEG_QUALITY, 92])
    tried, truth = np.random.default_rng([given.seed, 21]), {}
    for number in range(given.frames):
        frame, items = frame_drawn(tried)
        name = f"frame{number:04d}.jpg"
        cv2.imwrite(os.path.join(shown, name), frame, [cv2.IMWRITE_JPEG_QUALITY, 92])
        truth[name] = [{"kind": kind, "box": [round(x - size / 2, 1), round(y - size / 2, 1), round(size, 1), round(size, 1)]} for kind, x, y, size in items]
    with open(os.path.join(given.out, "frames.json"), "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)


if __name__ == "__main__":
    main()
