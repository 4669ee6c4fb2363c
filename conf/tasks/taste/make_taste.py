#!/usr/bin/python3
"""Makes the model of the task in this folder, and visits of made-up users to try it on.

    /usr/bin/python3 conf/tasks/taste/make_taste.py OUT [--users N] [--visits N] [--seed S]

OUT/task is a copy of the task's folder with its model and a few visits that a build tries it on, ready for `walle task build`;
OUT/userN.jsonl has the events of a user's visits, for `walle task run --events` and `walle-device --events`. All users act rather
on visits that were long and went far down the page, which the model knows; each has a kind of item and a price besides that he or
she acts on or never does, which it cannot know. The model is a layer of random features with a fitted layer behind it, so making
it takes a second, needs numpy and onnx alone, and gives the same bytes each time on one machine.
"""
import argparse
import json
import math
import os
import shutil

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
CATEGORIES = ("bags", "shoes", "lamps", "books", "chairs", "phones")
KINDS, WIDTH, HIDDEN = 4, 8, 24
LEARNT, TRIED, START_MS = 6000, 4, 1700000000000


def kind_of(category):
    total = 0
    for letter in category.encode():
        total = (total * 31 + letter) % 65521
    return total % KINDS


class User:
    """Likes a kind of item and dislikes another, and has a price above which little is bought."""

    def __init__(self, random):
        self.random = random
        kinds = sorted({kind_of(category) for category in CATEGORIES})
        self.likes, self.avoids = random.choice(kinds, 2, replace=False)
        self.price = math.exp(random.uniform(3, 6)) * 100

    def visit(self):
        random = self.random
        visit = {"category": str(random.choice(CATEGORIES)), "price_cents": int(math.exp(random.uniform(2, 7)) * 100),
                 "seconds": float(np.exp(random.normal(3, 1))), "depth": int(random.integers(0, 101)), "shows": int(random.integers(0, 18))}
        kind = kind_of(visit["category"])
        pull = 1.2 * (math.log(visit["seconds"]) - 3) + 2.5 * (visit["depth"] / 100 - 0.6)
        pull += 3.0 * (kind == self.likes) - 3.0 * (kind == self.avoids) - 1.5 * (visit["price_cents"] > self.price)
        visit["acted"] = int(random.random() < 1 / (1 + math.exp(-2 * pull)))
        return visit


def numbers(visit):
    kinds = [0.0] * KINDS
    kinds[kind_of(visit["category"])] = 1.0
    return [min(1.0, math.log(1 + int(visit["seconds"] * 1000) / 1000) / 6), min(1.0, visit["depth"] / 100), min(1.0, visit["shows"] / 20),
            min(1.0, math.log(1 + visit["price_cents"] / 100) / 10)] + kinds


def events_of(visits):
    """As an app records them; a visit a quarter of an hour."""
    for number, visit in enumerate(visits):
        at, item = START_MS + number * 900000, f"item-{number}"
        shared = {"page": "item_detail", "item": item}
        yield {**shared, "kind": "enter", "t": at, "attrs": {"category": visit["category"], "price_cents": visit["price_cents"]}}
        yield {**shared, "kind": "scroll", "t": at + 1, "attrs": {"depth": visit["depth"]}}
        for show in range(visit["shows"]):
            yield {**shared, "kind": "exposure", "t": at + 2 + show, "attrs": {}}
        end = at + max(100, int(visit["seconds"] * 1000))
        if visit["acted"]:
            yield {**shared, "kind": "click", "t": end - 1, "attrs": {"target": "cart"}}
        yield {**shared, "kind": "exit", "t": end, "attrs": {}}


def fitted(random, features, acted):
    """Logistic regression by Newton's way."""
    rows = np.hstack([features, np.ones((len(features), 1))])
    weights = np.zeros(rows.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (acted - chance) - 1e-2 * weights
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-2 * np.eye(rows.shape[1])
        weights = weights + np.linalg.solve(curve, slope)
    return weights


def model_of(random):
    """What many users have in common."""
    visits = [User(random).visit() for _ in range(LEARNT)]
    x = np.array([numbers(visit) for visit in visits])
    hidden = random.normal(0, 1.2, (WIDTH, HIDDEN))
    bias = random.uniform(-1, 1, HIDDEN)
    weights = fitted(random, np.maximum(x @ hidden + bias, 0), np.array([visit["acted"] for visit in visits]))
    values = {"encoder.weight": hidden, "encoder.bias": bias, "head.weight": weights[:-1, None], "head.bias": weights[-1:]}
    nodes = [helper.make_node("Gemm", ["x", "encoder.weight", "encoder.bias"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "head.weight", "head.bias"], ["y"])]
    graph = helper.make_graph(nodes, "taste", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def events_written(path, user, visits):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events_of([user.visit() for _ in range(visits)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", help="folder, made anew")
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--visits", type=int, default=60, help="of each user")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    task = os.path.join(args.out, "task")
    shutil.rmtree(task, ignore_errors=True)
    os.makedirs(task)
    for name in ("task.json", "taste.py", "look.py"):
        shutil.copy(os.path.join(HERE, name), task)
    onnx.save(model_of(random), os.path.join(task, "taste.onnx"))
    os.makedirs(os.path.join(task, "samples"))
    events_written(os.path.join(task, "samples", "visits.jsonl"), User(np.random.default_rng(24)), TRIED)
    for number in range(args.users):
        events_written(os.path.join(args.out, f"user{number}.jsonl"), User(random), args.visits)
    print(f"{task}: the task with its model; {args.users} users of {args.visits} visits beside it")


if __name__ == "__main__":
    main()
