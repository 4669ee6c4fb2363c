"""What some operators give, written down in numpy from the specification: those ONNX Runtime has no kernel for on processors,
or not for most types. ORACLES maps names to functions of the node and its inputs (None: left out); the outputs, in order."""
import numpy as np

ORACLES = {}


def oracle(*names):
    def add(function):
        for name in names:
            ORACLES[name] = function
        return function
    return add


@oracle("Det")
def det(node, x):
    return [np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)]


@oracle("BitShift")
def bit_shift(node, x, y):
    x, y = np.broadcast_arrays(x, y)
    bits = x.dtype.itemsize * 8
    y, gone = np.minimum(y, bits - 1).astype(x.dtype), y >= bits
    shifted = np.left_shift(x, y) if node.attributes["direction"] == "LEFT" else np.right_shift(x, y)
    return [np.where(gone, 0, shifted).astype(x.dtype)]


@oracle("Where")
def where(node, condition, x, y):
    return [np.where(condition, x, y)]


@oracle("Trilu")
def trilu(node, x, k=None):
    function = np.triu if node.attributes.get("upper", 1) else np.tril
    return [np.where(function(np.ones(x.shape, bool), 0 if k is None else int(k)), x, "" if x.dtype == object else np.zeros((), x.dtype))]


@oracle("SpaceToDepth")
def space_to_depth(node, x):
    b = node.attributes["blocksize"]
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return [y.reshape(n, c * b * b, h // b, w // b)]


@oracle("DepthToSpace")
def depth_to_space(node, x):
    b = node.attributes["blocksize"]
    n, c, h, w = x.shape
    if node.attributes.get("mode", "DCR") == "DCR":
        y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [y.reshape(n, c // (b * b), h * b, w * b)]


@oracle("StringNormalizer")
def string_normalizer(node, x):
    case = {"LOWER": str.lower, "UPPER": str.upper}.get(node.attributes.get("case_change_action", "NONE"), str)
    stops = node.attributes.get("stopwords", [])
    exact = node.attributes.get("is_case_sensitive", 0)
    left = []
    for text in x.ravel():
        known = text in stops if exact else text.lower() in [stop.lower() for stop in stops]
        if not known:
            left.append(case(text))
    y = np.array(left or [""], object)
    return [y.reshape((1, -1)) if x.ndim == 2 else y]


@oracle("MeanVarianceNormalization")
def mean_variance(node, x):
    axes = tuple(node.attributes.get("axes", [0, 2, 3]))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return [(centred / (np.sqrt((centred ** 2).mean(axes, keepdims=True)) + 1e-9)).astype(x.dtype)]


def parts(node, values, kinds):
    """The rate, the count, and lists of what there is of each kind."""
    each = (len(values) - 2) // kinds
    lists = [[v.astype(np.float64) for v in values[2 + i * each:2 + (i + 1) * each]] for i in range(kinds)]
    return float(values[0]), int(values[1]), lists


@oracle("Adagrad")
def adagrad(node, *values):
    a = node.attributes
    rate, count, (weights, gradients, sums) = parts(node, values, 3)
    rate = rate / (1 + count * a["decay_factor"])
    news, totals = [], []
    for w, g, h in zip(weights, gradients, sums):
        g = g + a["norm_coefficient"] * w
        totals.append(h + g * g)
        news.append(w - rate * g / (np.sqrt(totals[-1]) + a["epsilon"]))
    return [v.astype(np.float32) for v in news + totals]


@oracle("Momentum")
def momentum(node, *values):
    a = node.attributes
    rate, count, (weights, gradients, moments) = parts(node, values, 3)
    news, totals = [], []
    for w, g, v in zip(weights, gradients, moments):
        g = g + a["norm_coefficient"] * w
        beta = a["beta"] if count > 0 else 1
        totals.append(a["alpha"] * v + beta * g)
        news.append(w - rate * (g + a["alpha"] * totals[-1] if a["mode"] == "nesterov" else totals[-1]))
    return [v.astype(np.float32) for v in news + totals]


@oracle("Adam")
def adam(node, *values):
    a = node.attributes
    rate, count, (weights, gradients, firsts, seconds) = parts(node, values, 4)
    if count > 0:
        rate = rate * np.sqrt(1 - a["beta"] ** count) / (1 - a["alpha"] ** count)
    news, ones, twos = [], [], []
    for w, g, v, h in zip(weights, gradients, firsts, seconds):
        g = g + a["norm_coefficient"] * w
        ones.append(a["alpha"] * v + (1 - a["alpha"]) * g)
        twos.append(a["beta"] * h + (1 - a["beta"]) * g * g)
        news.append(w - rate * ones[-1] / (np.sqrt(twos[-1]) + a["epsilon"]))
    return [v.astype(np.float32) for v in news + ones + twos]


def expected(model, run):
    """What the only computing node of the model gives for this run, or None."""
    nodes = [node for node in model.nodes if node.op != "Constant"]
    if len(nodes) != 1 or nodes[0].op not in ORACLES or model.outputs != [o for o in nodes[0].outputs if o]:
        return None
    values = dict(model.constants)
    values.update(run)
    values.update({node.outputs[0]: node.attributes.get("value") for node in model.nodes if node.op == "Constant"})
    inputs = [values.get(name) if name else None for name in nodes[0].inputs]
    with np.errstate(all="ignore"):
        return [[value] for value in ORACLES[nodes[0].op](nodes[0], *inputs)]
