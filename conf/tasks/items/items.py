# Items on a frame: the app hands a picture over as "camera"; a detector says where something is, what
# lies over one another is taken once, and each is cut out and named by a classifier.
#
# The models that task.json names are not here: make_items.py makes them, and frames to try. See
# docs/ITEMS.md.
import walle
from walle import cv, data, nn
from boxes import Box, kept

CONFIG = walle.config
WIDTH, HEIGHT = 128, 96  # what the detector sees
CELL = 8                 # pixels of a cell of its answer, each way
SIDE = 24                # what the classifier sees


# Boxes in the frame's own pixels, the likeliest first.
def detect(frame, least):
    rows, columns = frame.shape[0], frame.shape[1]
    x = cv.crop_resize_normalize(frame, (WIDTH, HEIGHT), scale=1 / 255)
    scores, places = nn.load("detect.onnx")(x)
    scores, places = scores.tolist()[0][0], places.tolist()[0]
    found = []
    for row in range(len(scores)):
        for column in range(len(scores[0])):
            score = scores[row][column]
            if score >= least:
                dx, dy, wide, high = [places[k][row][column] for k in range(4)]
                box = Box((column + 0.5 + dx) * CELL, (row + 0.5 + dy) * CELL, wide * CELL, high * CELL, score)
                found.append(box.scaled(columns / WIDTH, rows / HEIGHT).within(columns, rows))
    return kept([box for box in found if box], CONFIG["overlap"], CONFIG["most"])


def classify(frame, box, labels):
    x = cv.crop_resize_normalize(frame, (SIDE, SIDE), rect=box.rect(), scale=1 / 255)
    chances = nn.load("classify.onnx")(x)
    best = chances.argmax()
    return {"kind": labels[best], "sure": round(chances.tolist()[0][best], 3), "score": round(box.score, 3), "box": box.rect()}


def run():
    least = CONFIG["least"]
    for event in data.events():
        least = event.get("least", least)
    if "camera" not in walle.blobs():
        walle.result({"frame": None, "items": []})  # the app has none for this run
        return
    frame = cv.imdecode(walle.blob("camera"), cv.IMREAD_COLOR)
    labels = walle.file("labels.txt").decode().split()
    items = [classify(frame, box, labels) for box in detect(frame, least)]
    walle.result({"frame": [frame.shape[1], frame.shape[0]], "items": items})


run()
