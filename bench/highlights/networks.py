"""The networks of the worked example: what is trained, and what is made of it for devices and for the cloud.

Four small ones run on a device: a one-stage detector of items (fully convolutional: a class at every cell, no anchors), a
MobileNet that says which item it is, a MobileNet that finds faces, and a GRU that hears a voice. The big model of the cloud
has the same parts, wider and deeper, in one graph: picture and sound in, a probability for each class out.

`PLANS` holds the sizes. Nothing is normalised by batches, so that a network is the same in training and afterwards.
"""
import os
import sys
from collections import namedtuple

import numpy as np
from onnx import TensorProto, helper

import world

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from graph_builder import GraphBuilder  # noqa: E402  pylint: disable=wrong-import-position

# look: how many pixels, both ways, are one to the detectors. detect: channels at strides 2, 4 and 8, then of each further
# layer. recognise, face: channels of the first layer and of each block. voice: the width of the GRU.
Plan = namedtuple("Plan", "look detect recognise face voice")
PARTS = ("detect", "recognise", "face", "voice")
PLANS = {
    "tiny": Plan(2, (8, 16, 24, 24), (16, 32, 48, 64, 64, 64), (8, 16, 24, 24), 12),
    "small": Plan(1, (12, 24, 40, 40), (24, 48, 64, 96, 128, 128), (8, 16, 32, 32), 42),
    "big": Plan(1, (24, 48, 96, 96, 96), (32, 64, 128, 192, 192), (16, 32, 64, 64), 64),
    # As many parameters as the published models have: 8.15 M, 10.87 M, 2.06 M, 8 K.
    "published": Plan(1, (64, 128, 256, 496, 496, 496, 496), (32, 128, 256, 512, 512, 1024, 1024, 2504, 2504),
                      (32, 64, 128, 256, 512, 512, 512, 512, 512, 512, 512, 512), 42),
}


class Network(GraphBuilder):
    """A graph whose parameters are random, or those that were trained: `trained` in the order they are asked for."""

    def __init__(self, name, seed=0, trained=None):
        super().__init__(name, seed)
        self.trained = None if trained is None else list(trained)
        self.parameter_names = []
        self.products = 0  # multiplications for one example

    def normal(self, shape, scale, hint="weight"):
        name = super().normal(shape, scale, hint) if self.trained is None else self.weight(self.trained.pop(0), hint)
        self.parameter_names.append(name)
        return name

    def layer(self, x, side, channels_in, channels_out, kernel=3, stride=1, groups=1):
        """Convolution and ReLU; returns the result and its side."""
        side = (side + stride - 1) // stride
        self.products += side * side * channels_out * channels_in // groups * kernel * kernel
        return self.op("Relu", self.conv(x, channels_in, channels_out, kernel, stride, groups=groups)), side

    def scores(self, x, side, channels_in, channels_out):
        self.products += side * side * channels_in * channels_out
        return self.conv(x, channels_in, channels_out, 1, gain=0.1)

    def fully(self, x, width_in, width_out):
        self.products += width_in * width_out
        return self.dense(x, width_in, width_out)


def seen(g, picture, look=1):
    """What a network sees of a picture of any light: mean 0, variance 1, `look` pixels of it both ways averaged."""
    x = picture
    if look > 1:
        x = g.op("AveragePool", x, kernel_shape=[look, look], strides=[look, look])
    x = g.op("Sub", x, g.op("ReduceMean", x, axes=[1, 2, 3], keepdims=1))
    power = g.op("ReduceMean", g.op("Mul", x, x), axes=[1, 2, 3], keepdims=1)
    return g.op("Div", x, g.op("Sqrt", g.op("Add", power, g.scalar(16.0))))


def place_scores(g, x, side, channels, kinds):
    """Scores of "nothing" and of each place: class of size, row and column, flattened. One of them is right, so they sum up to one."""
    places = g.op("Flatten", g.scores(x, side, channels, kinds), axis=1)
    nothing = g.fully(g.op("Flatten", g.op("GlobalAveragePool", x), axis=1), channels, 1)
    return g.op("Concat", nothing, places, axis=1)


def strides_to_grid(look):
    """Of the first layers: together, and with what `look` averages, world.STRIDE."""
    return (2,) * int(np.log2(world.STRIDE // look))


def add_detect(g, frame, plan):
    x, side, before = seen(g, g.op("Cast", frame, to=TensorProto.FLOAT), plan.look), world.SIDE // plan.look, 3
    strides = strides_to_grid(plan.look)
    for i, after in enumerate(plan.detect):
        x, side = g.layer(x, side, before, after, stride=strides[i] if i < len(strides) else 1)
        before = after
    return place_scores(g, x, side, before, world.SIZES)


def add_blocks(g, x, side, channels, strides):
    """MobileNet: a convolution, then blocks of a depthwise and a pointwise one."""
    before = 3
    for i, after in enumerate(channels):
        stride = strides[i] if i < len(strides) else 1
        if i == 0:
            x, side = g.layer(x, side, before, after, stride=stride)
        else:
            x, side = g.layer(x, side, before, before, stride=stride, groups=before)
            x, side = g.layer(x, side, before, after, kernel=1)
        before = after
    return x, side, before


def add_recognise(g, crop, plan):
    x, _, width = add_blocks(g, seen(g, crop), world.CROP, plan.recognise, (2, 1, 2, 1, 2))
    return g.fully(g.op("Flatten", g.op("GlobalAveragePool", x), axis=1), width, world.KINDS)


def add_face(g, frame, plan):
    x = seen(g, g.op("Cast", frame, to=TensorProto.FLOAT), plan.look)
    x, side, width = add_blocks(g, x, world.SIDE // plan.look, plan.face, strides_to_grid(plan.look))
    return place_scores(g, x, side, width, 1)


def add_voice(g, sound, plan):
    width = plan.voice
    x = g.op("Mul", g.op("Sub", g.op("Cast", sound, to=TensorProto.FLOAT), g.scalar(40.0)), g.scalar(1 / 24))
    x = g.op("Transpose", x, perm=[1, 0, 2])
    gates = [g.normal((1, 3 * width, world.BANDS), world.BANDS ** -0.5), g.normal((1, 3 * width, width), width ** -0.5),
             g.normal((1, 6 * width), 0.02)]
    g.count += 1
    last = f"gru_{g.count}"
    g.nodes.append(helper.make_node("GRU", [x, *gates], ["", last], name=last, hidden_size=width))
    g.products += world.FRAMES * 3 * width * (world.BANDS + width)
    return g.fully(g.op("Squeeze", last, g.ints([0])), width, 2)


ADD = {"detect": add_detect, "recognise": add_recognise, "face": add_face, "voice": add_voice}
INPUTS = {"detect": ("frame", TensorProto.UINT8, (3, world.SIDE, world.SIDE)),
          "recognise": ("crop", TensorProto.FLOAT, (3, world.CROP, world.CROP)),
          "face": ("frame", TensorProto.UINT8, (3, world.SIDE, world.SIDE)),
          "voice": ("sound", TensorProto.UINT8, (world.FRAMES, world.BANDS))}


def trainable(part, plan, seed):
    """The network of a part with scores as its output, for the trainer; any number of examples."""
    g = Network(part, seed)
    name, dtype, shape = INPUTS[part]
    scores = ADD[part](g, g.input(name, ["n", *shape], dtype), plan)
    g.output(scores, None, "scores")
    return g


def trained_weights(part, plan, path):
    """Of a file of weights, in the order in which the network asks for them."""
    values = np.load(path)
    return [values[name] for name in trainable(part, plan, 0).parameter_names]


# ---- What is made of them

def best_place(g, scores):
    """The place (class of size, row and column) that is likeliest, and the chance that something is anywhere."""
    chances = g.op("Softmax", scores, axis=1)
    nothing = g.op("Slice", chances, g.ints([0]), g.ints([1]), g.ints([1]))
    found = g.op("Slice", chances, g.ints([1]), g.ints([2 ** 31]), g.ints([1]))
    return g.op("ArgMax", found, axis=1, keepdims=0), g.op("Sub", g.scalar(1.0), g.op("Squeeze", nothing, g.ints([1])))


def cut_out(g, frame, place, count):
    """What is at each place, scaled to what the recogniser takes."""
    rois = g.op("Gather", g.weight(world.boxes(), "boxes"), place, axis=0)
    return g.op("RoiAlign", g.op("Cast", frame, to=TensorProto.FLOAT), rois, g.ints(np.arange(count)), output_height=world.CROP,
                output_width=world.CROP, sampling_ratio=2, spatial_scale=1.0)


def second(g, scores):
    """The probability of the second of two classes."""
    return g.op("Squeeze", g.op("Slice", g.op("Softmax", scores, axis=1), g.ints([1]), g.ints([2]), g.ints([1])), g.ints([1]))


def parts_for_devices(plan, weights):
    """The models of the task, one moment at a time: {file name: model}."""
    models = {}
    frame_shape = [1, *INPUTS["detect"][2]]

    def begin(part):
        return Network(part, 0, weights[part])

    g = begin("detect")
    frame = g.input("frame", frame_shape, TensorProto.UINT8)
    place, chance = best_place(g, add_detect(g, frame, plan))
    g.output(place, [1], "place", TensorProto.INT64)
    g.output(chance, [1], "chance")
    models["detect.onnx"] = g.model()
    g = begin("recognise")
    frame = g.input("frame", frame_shape, TensorProto.UINT8)
    place = g.input("place", [1], TensorProto.INT64)
    g.output(g.op("Softmax", add_recognise(g, cut_out(g, frame, place, 1), plan), axis=1), [1, world.KINDS], "kinds")
    models["recognise.onnx"] = g.model()
    g = begin("face")
    frame = g.input("frame", frame_shape, TensorProto.UINT8)
    g.output(best_place(g, add_face(g, frame, plan))[1], [1], "chance")
    models["face.onnx"] = g.model()
    g = begin("voice")
    sound = g.input("sound", [1, *INPUTS["voice"][2]], TensorProto.UINT8)
    g.output(second(g, add_voice(g, sound, plan)), [1], "chance")
    models["voice.onnx"] = g.model()
    return models


def whole(plan, weights, count):
    """All parts in one graph, for `count` moments at once: frame, sound -> probabilities of the classes."""
    g = Network("highlights", 0, [array for part in PARTS for array in weights[part]])
    frame = g.input("frame", [count, *INPUTS["detect"][2]], TensorProto.UINT8)
    sound = g.input("sound", [count, *INPUTS["voice"][2]], TensorProto.UINT8)
    place, item = best_place(g, add_detect(g, frame, plan))
    kinds = g.op("Softmax", add_recognise(g, cut_out(g, frame, place, count), plan), axis=1)
    face = best_place(g, add_face(g, frame, plan))[1]
    voice = second(g, add_voice(g, sound, plan))
    is_one = g.op("Reshape", g.op("Mul", g.op("Mul", item, face), voice), g.ints([count, 1]))
    classes = g.op("Concat", g.op("Sub", g.scalar(1.0), is_one), g.op("Mul", kinds, is_one), axis=1)
    g.output(classes, [count, world.CLASSES], "classes")
    return g.model()


def crops(count):
    """frame, place -> crop: what the recogniser is trained on is cut out as on a device."""
    g = Network("crops")
    frame = g.input("frame", [count, *INPUTS["detect"][2]], TensorProto.UINT8)
    place = g.input("place", [count], TensorProto.INT64)
    g.output(cut_out(g, frame, place, count), [count, *INPUTS["recognise"][2]], "crop")
    return g.model()


def camera(moments):
    """A stand-in for camera and microphone: number -> frame, sound, out of what the model holds."""
    g = Network("camera")
    number = g.input("number", [1], TensorProto.INT64)
    for name, values in (("frame", moments.frame), ("sound", moments.sound)):
        g.output(g.op("Gather", g.weight(values, name + "s"), number, axis=0), [1, *values.shape[1:]], name, TensorProto.UINT8)
    return g.model()


def parameters_and_products(part, plan):
    g = trainable(part, plan, 0)
    return g.parameters(), g.products


if __name__ == "__main__":
    for plan_name, each in PLANS.items():
        for part_name in PARTS:
            count_, products = parameters_and_products(part_name, each)
            print(f"{plan_name:10s} {part_name:10s} {count_:10,d} parameters {products / 1e6:9.3f} M products")
