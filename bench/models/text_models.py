"""BERT-SQuAD and DIN as their exporters write them: true architectures, seeded random weights."""
import numpy as np
from onnx import TensorProto

from graph_builder import GraphBuilder

INT64 = TensorProto.INT64
# Of an attention block's output: random attention averages over the tokens, and at full gain twelve layers of it
# leave every token with the same values.
MIXING_GAIN = 0.1


def layer_norm(g, x, width):
    """The form TensorFlow's batch_normalization takes when exported."""
    mean = g.op("ReduceMean", x, axes=[-1], keepdims=1)
    centred = g.op("Sub", x, mean)
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[-1], keepdims=1)
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, g.scalar(1e-12))))
    scale = g.op("Mul", inverse, g.weight(g.random.uniform(0.8, 1.2, width).astype(np.float32), "gamma"))
    shift = g.op("Sub", g.normal((width,), 0.05, "beta"), g.op("Mul", mean, scale))
    return g.op("Add", g.op("Mul", x, scale), shift)


def gelu_tanh(g, x):
    cubic = g.op("Mul", g.op("Pow", x, g.scalar(3.0)), g.scalar(0.044715))
    inner = g.op("Mul", g.op("Add", x, cubic), g.scalar(float(np.sqrt(2 / np.pi))))
    return g.op("Mul", x, g.op("Mul", g.op("Add", g.op("Tanh", inner), g.scalar(1.0)), g.scalar(0.5)))


def product(g, x, rows, columns, gain=1.0):
    y = g.op("MatMul", x, g.normal((rows, columns), np.sqrt(gain / rows), "kernel"))
    return g.op("Add", y, g.normal((columns,), 0.02, "bias"))


def bert_squad(batch, _norm, layers=12, width=768, heads=12, hidden=3072, length=256, words=30522):
    """Devlin et al. 2018 with the SQuAD head: opset 10, tanh-GELU, two-dimensional products."""
    g = GraphBuilder("bert_squad", 12, opset=10)
    ids = g.input("input_ids", [batch, length], INT64)
    mask = g.input("input_mask", [batch, length], INT64)
    segments = g.input("segment_ids", [batch, length], INT64)
    x = g.op("Gather", g.normal((words, width), 0.5, "words"), ids, axis=0)
    kinds = g.op("OneHot", g.op("Reshape", segments, g.ints([-1])), g.weight(np.array(2, np.int64)),
                 g.weight(np.array([0, 1], np.float32)))
    kinds = g.op("MatMul", kinds, g.normal((2, width), 0.5, "kinds"))
    x = g.op("Add", x, g.op("Reshape", kinds, g.ints([-1, length, width])))
    x = g.op("Add", x, g.normal((1, length, width), 0.2, "positions"))
    x = layer_norm(g, x, width)
    open_mask = g.op("Cast", g.op("Unsqueeze", mask, axes=[1, 2]), to=TensorProto.FLOAT)
    closed = g.op("Mul", g.op("Sub", g.scalar(1.0), open_mask), g.scalar(-10000.0))
    x = g.op("Reshape", x, g.ints([-1, width]))
    size = width // heads
    for _ in range(layers):
        def split(y, perm):
            return g.op("Transpose", g.op("Reshape", y, g.ints([-1, length, heads, size])), perm=perm)
        query = split(product(g, x, width, width), [0, 2, 1, 3])
        key = split(product(g, x, width, width), [0, 2, 3, 1])
        value = split(product(g, x, width, width), [0, 2, 1, 3])
        scores = g.op("Mul", g.op("MatMul", query, key), g.scalar(1.0 / np.sqrt(size)))
        weights = g.op("Softmax", g.op("Add", scores, closed), axis=3)
        y = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        y = product(g, g.op("Reshape", y, g.ints([-1, width])), width, width, MIXING_GAIN)
        x = layer_norm(g, g.op("Add", y, x), width)
        y = product(g, gelu_tanh(g, product(g, x, width, hidden)), hidden, width)
        x = layer_norm(g, g.op("Add", y, x), width)
    logits = g.op("Reshape", product(g, x, width, 2), g.ints([-1, length, 2]))
    start, end = g.op("Split", g.op("Transpose", logits, perm=[2, 0, 1]), outputs=2, axis=0)
    g.output(g.op("Squeeze", start, axes=[0]), [batch, length], "start_logits")
    g.output(g.op("Squeeze", end, axes=[0]), [batch, length], "end_logits")
    return g


def dice(g, x, width):
    """Zhou et al. 2018: a PReLU whose switch is the normalised input."""
    normal = g.op("BatchNormalization", x, g.weight(np.ones(width, np.float32)), g.weight(np.zeros(width, np.float32)),
                  g.normal((width,), 0.05, "mean"), g.weight(g.random.uniform(0.8, 1.2, width).astype(np.float32)),
                  epsilon=1e-8)
    gate = g.op("Sigmoid", normal)
    rest = g.op("Mul", g.op("Sub", g.scalar(1.0), gate), g.normal((width,), 0.1, "alpha"))
    return g.op("Add", g.op("Mul", gate, x), g.op("Mul", rest, x))


def din(batch, _norm, length=100, items=10000, kinds=1000, users=5000):
    """Deep Interest Network: behaviours of 16 + 16 values, attention 80-40-1, top 200-80-2 with Dice."""
    g = GraphBuilder("din", 7)
    user = g.input("user", [batch], INT64)
    item, kind = g.input("item", [batch], INT64), g.input("category", [batch], INT64)
    past_items, past_kinds = g.input("past_items", [batch, length], INT64), g.input("past_categories", [batch, length],
                                                                                   INT64)
    mask = g.input("past_mask", [batch, length])
    item_table, kind_table = g.normal((items, 16), 0.3, "items"), g.normal((kinds, 16), 0.3, "categories")

    def embed(i, k):
        return g.op("Concat", g.op("Gather", item_table, i, axis=0), g.op("Gather", kind_table, k, axis=0), axis=-1)
    query, past = embed(item, kind), embed(past_items, past_kinds)
    wide = g.op("Unsqueeze", query, g.ints([1]))
    wide = g.op("Expand", wide, g.ints([1, length, 32]))
    joint = g.op("Concat", wide, past, g.op("Sub", wide, past), g.op("Mul", wide, past), axis=-1)
    y = g.op("Sigmoid", product(g, joint, 128, 80, 4.0))
    y = g.op("Sigmoid", product(g, y, 80, 40, 4.0))
    scores = g.op("Squeeze", product(g, y, 40, 1), g.ints([2]))
    scores = g.op("Mul", scores, mask)
    interest = g.op("Squeeze", g.op("MatMul", g.op("Unsqueeze", scores, g.ints([1])), past), g.ints([1]))
    profile = g.op("Gather", g.normal((users, 16), 0.3, "users"), user, axis=0)
    y = g.op("Concat", profile, query, interest, g.op("Mul", query, interest), axis=-1)
    y = dice(g, g.dense(y, 112, 200, 2.0), 200)
    y = dice(g, g.dense(y, 200, 80, 2.0), 80)
    g.output(g.op("Softmax", g.dense(y, 80, 2), axis=-1), [batch, 2], "probabilities")
    return g
