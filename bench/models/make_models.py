#!/usr/bin/env python3
"""Makes the benchmark's ONNX models: true architectures, seeded random weights.

    make_models.py FOLDER [MODEL ...] [--batch N|INTEGER] [--norm folded|batch]

Writes FOLDER/MODEL.onnx for each model (all seven when none is named) unless it is already there.
--batch N (the letter) leaves the batch dimension symbolic. --norm batch keeps BatchNormalization nodes.
"""
import argparse
import os
import sys

try:
    import numpy as np
    import onnx
except ImportError as lacks:
    sys.exit(f"make_models: {lacks}; .ci/setup installs it for /usr/bin/python3")

import text_models
import vision_models

MODELS = {name: getattr(module, name) for module, names in (
    (vision_models, ("resnet18", "resnet50", "mobilenetv2", "squeezenet1_1", "shufflenetv2_x1_0")),
    (text_models, ("bert_squad", "din"))) for name in names}


def make(name, batch, norm):
    """The builder of one model."""
    return MODELS[name](batch, norm)


def inputs_of(model, batch, seed):
    """Fresh random inputs of a model (path or ModelProto) as {name: array}."""
    graph = (onnx.load(model, load_external_data=False) if isinstance(model, str) else model).graph
    random = np.random.default_rng(seed)
    tables = {"input_ids": 30522, "segment_ids": 2, "input_mask": 2, "item": 10000, "past_items": 10000,
              "category": 1000, "past_categories": 1000, "user": 5000}
    made = {}
    for value in graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else batch for d in tensor.shape.dim]
        if tensor.elem_type == onnx.TensorProto.INT64:
            made[value.name] = random.integers(0, tables[value.name], shape, dtype=np.int64)
        elif value.name.endswith("mask"):
            made[value.name] = (random.random(shape) < 0.8).astype(np.float32)
        else:
            made[value.name] = random.standard_normal(shape, dtype=np.float32)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", default="1")
    parser.add_argument("--norm", choices=("folded", "batch"), default="folded")
    options = parser.parse_intermixed_args()
    batch = int(options.batch) if options.batch.isdigit() else options.batch
    for name in options.models or MODELS:
        if name not in MODELS:
            sys.exit(f"make_models: no model '{name}'; there are: {', '.join(MODELS)}")
        path = os.path.join(options.folder, name + ".onnx")
        if os.path.exists(path):
            continue
        os.makedirs(options.folder, exist_ok=True)
        builder = make(name, batch, options.norm)
        onnx.save(builder.model(), path + ".part")
        os.replace(path + ".part", path)
        print(f"{path}: {builder.parameters():,} parameters, {len(builder.nodes)} nodes")


if __name__ == "__main__":
    main()
