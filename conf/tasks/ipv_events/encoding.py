# A visit as 32 numbers, 128 bytes: what a recommender takes in place of the row. Each event is 16
# numbers (its kind, when, how deep, how far, which action); the last 32 of them, later ones weighing
# more, go through a fixed projection, the one of bench/ipv/ipv_encode.c.
from array import array

EVENTS = 32
WIDTH = 16
SIZE = 32
DECAY = 0.9
KINDS = ("enter", "scroll", "exposure", "click", "exit", "custom")
ACTIONS = ("favourite", "cart", "share", "review", "buy")


class Encoding:
    def __init__(self):
        self.steps = []

    def add(self, kind, after_ms, get):
        target = get("target", "")
        if len(self.steps) == EVENTS:
            self.steps.pop(0)
        self.steps.append((KINDS.index(kind), ACTIONS.index(target) if target in ACTIONS else None, after_ms / 60000,
                           get("depth", 0) / 100, get("dy", 0) / 2000, get("position", 0) / 48, get("visible_ms", 0) / 5000))

    def total(self):
        total = [0.0] * WIDTH
        weight = 1.0
        for kind, action, *numbers in reversed(self.steps):
            total[kind] += weight
            if action is not None:
                total[11 + action] += weight
            for i, number in enumerate(numbers, 6):
                total[i] += weight * number
            weight *= DECAY
        return total

    def finish(self):
        out = [0.0] * SIZE
        draw = 1
        for number in self.total():
            for j in range(SIZE):
                draw = (draw * 1664525 + 1013904223) & 0xFFFFFFFF
                out[j] += number * ((draw >> 8) / 8388608 - 1)
        return bytes(array("f", out))
