"""What the differential test does not compare with ONNX Runtime, with the reasons.

A rule is a reason and a function of the model (its only node, or its last) and the finding. Rules are as narrow as they can
be; the operators of NOT_FINITE are compared with finite numbers alone, those of WRAPPING with small whole numbers alone.
"""
import numpy as np

# The specification does not say what a comparison with NaN gives, ONNX Runtime's kernels differ among themselves, and sums
# made by interpolation or by running totals turn infinities into NaN in other places than the formulas do.
NOT_FINITE = {"ReduceMin", "ReduceMax", "MaxPool", "GlobalMaxPool", "MaxUnpool", "ArgMax", "ArgMin", "TopK", "Hardmax", "Unique", "MaxRoiPool",
              "RoiAlign", "Resize", "Upsample", "GridSample", "LRN", "InstanceNormalization", "LayerNormalization", "BatchNormalization",
              "MeanVarianceNormalization", "LpNormalization", "DynamicQuantizeLinear", "QuantizeLinear", "DFT", "STFT", "Conv",
              "ConvTranspose", "MatMul", "Gemm", "Einsum", "Softmax", "LogSoftmax", "ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceSum",
              "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceLogSum", "CumSum", "LpPool", "GlobalLpPool", "AveragePool",
              "GlobalAveragePool", "RNN", "LSTM", "GRU", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "Det", "ScatterElements",
              "ScatterND", "OneHot", "NonMaxSuppression", "Cast", "CastLike", "Max", "Min"}
# Whole numbers that overflow: ONNX Runtime adds some of them in floating point, and its casts saturate.
WRAPPING = {"ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Einsum",
            "MatMul", "Gemm", "CumSum", "Pow", "Mean", "Resize", "Upsample", "Mod", "Shrink"}

# Operators of opsets above 17, which no model here has: e2e/firsthour_01_onnx.py compares them with numpy.
LATER = {"AffineGrid", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CenterCropPad", "Col2Im", "DeformConv", "Gelu",
         "GroupNormalization", "Mish", "StringConcat", "StringSplit"}

WINDOWS = {"BlackmanWindow", "HammingWindow", "HannWindow"}
DOMAINS = {"Log", "Sqrt", "Acosh", "Acos", "Asin", "Atanh", "Div", "Reciprocal", "Pow", "ReduceLogSum", "Tan", "Exp", "Mod"}


def values(model):
    arrays = [v for group in [model.inputs, model.constants] + model.more_runs for v in group.values()]
    for node in all_nodes(model.nodes):
        arrays += list(node.attributes.values())
        for value in node.attributes.values():
            arrays += list(getattr(value, "constants", {}).values())
    return [v for v in arrays if isinstance(v, np.ndarray)]


def has_not_finite(model):
    """Among what is given, or what is computed on the way."""
    made = getattr(model, "values", {})
    arrays = values(model) + [made[n] for node in model.nodes for n in node.outputs if isinstance(made.get(n), np.ndarray)]
    return any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in arrays)


def has_large(model):
    return any(v.dtype.kind in "iu" and np.abs(v.astype(np.float64)).max(initial=0) > 1000 for v in values(model))


def may_leave(model):
    """Whether operators with a narrow domain feed others: with other inputs they may give what is not finite."""
    return len(model.nodes) > 1 and bool(ops(model) & DOMAINS)


def all_nodes(nodes):
    """Those of bodies included."""
    for node in nodes:
        yield node
        for value in node.attributes.values():
            if hasattr(value, "nodes"):
                yield from all_nodes(value.nodes)


def ops(model):
    return {node.op for node in all_nodes(model.nodes)}


def first(model, op):
    return next((node for node in all_nodes(model.nodes) if node.op == op), None)


def clip_without_bound(model, finding):
    return "Clip" in ops(model) and "e+38" in finding.text


def unpool_to_a_shape(model, finding):
    return any(node.op == "MaxUnpool" and len(node.inputs) > 2 for node in all_nodes(model.nodes))


def wide_transposed(model, finding):
    node = first(model, "ConvTranspose")
    return node is not None and finding.kind == "shape" and str(node.attributes.get("auto_pad", "")).startswith("SAME")


def integer_logs(model, finding):
    return bool(ops(model) & {"ReduceLogSum", "ReduceLogSumExp", "ReduceL2"}) and "int" in finding.text


def float32_windows(model, finding):
    return bool(ops(model) & WINDOWS) and (len(model.nodes) > 1 or "float64" in finding.text)


def empty_reduction(model, finding):
    return any(v.size == 0 for v in values(model)) and any(op.startswith("Reduce") for op in ops(model))


def statistics_in_place(model, finding):
    node = first(model, "BatchNormalization")
    return node is not None and len(node.outputs) > 1 and model.opset >= 14


def dilated_same(model, finding):
    return any("Pool" in n.op and "dilations" in n.attributes and
                                           str(n.attributes.get("auto_pad", "")).startswith("SAME") for n in all_nodes(model.nodes))


def pieces_without_dimension(model, finding):
    return any(node.op == "SplitToSequence" and len(node.inputs) > 1 and node.attributes.get("keepdims") == 0
               for node in all_nodes(model.nodes))


def blocks_of_text(model, finding):
    return "Gather" in ops(model) and "of object" in finding.text


def power_to_whole(model, finding):
    return "Pow" in ops(model) and (" of int" in finding.text or has_not_finite(model))


def negative_pads(model, finding):
    for node in all_nodes(model.nodes):
        if str(node.attributes.get("auto_pad", "")).startswith("SAME") and "Pool" in node.op:
            reach = [(k - 1) * d + 1 for k, d in zip(node.attributes["kernel_shape"], node.attributes.get("dilations", [1] * 9))]
            if any(s > r for s, r in zip(node.attributes.get("strides", []), reach)):
                return True
    return False


def casts_outside(model, finding):
    return bool(ops(model) & {"Cast", "CastLike"}) and "of uint" in finding.text


def coordinates(model):
    return {node.attributes.get("coordinate_transformation_mode") for node in all_nodes(model.nodes)}


def half_pixels_of_one(model, finding):
    return "tf_half_pixel_for_nn" in coordinates(model) and "nearest" not in str([n.attributes for n in all_nodes(model.nodes)])


def corners_of_parts(model, finding):
    return "align_corners" in coordinates(model)


def overflowing_powers(model, finding):
    return bool(ops(model) & {"LpPool", "GlobalLpPool", "ReduceL2", "ReduceSumSquare"}) and "wanted inf" in finding.text


def overflowing_products(model, finding):
    return bool(ops(model) & {"ReduceProd", "Erf"}) and " of " in finding.text and "int" in finding.text


def window_past_input(model, finding):
    return finding.kind == "refused" and "the window of" in finding.text


def crop_outside(model, finding):
    return "tf_crop_and_resize" in coordinates(model)


def no_variance(model, finding):
    return "MeanVarianceNormalization" in ops(model) and "wanted nan" in finding.text


def no_norm(model, finding):
    return "LpNormalization" in ops(model) and "got nan" in finding.text


def loops_without_trips(model, finding):
    return finding.kind == "shape" and ": (0," in finding.text and bool(ops(model) & {"Loop", "Scan", "SequenceMap"})


def whole_interpolation(model, finding):
    return bool(ops(model) & {"Resize", "Upsample"}) and "int" in finding.text


def endless_cells(model, finding):
    return bool(ops(model) & {"RNN", "LSTM", "GRU"}) and ("nan" in finding.text or "inf" in finding.text)


def softplus_cells(model, finding):
    return any("Softplus" in n.attributes.get("activations", []) for n in all_nodes(model.nodes))


def window_of_one(model, finding):
    return bool(ops(model) & WINDOWS) and "wanted nan" in finding.text


def long_conditions(model, finding):
    return "Compress" in ops(model) and finding.kind == "refused" and "condition must" in finding.text


def empty_products(model, finding):
    return bool(ops(model) & {"MatMul", "Gemm", "Einsum"}) and any(v.size == 0 for v in values(model))


def joins_nothing(model, finding):
    return finding.kind == "refused" and "cannot be joined" in finding.text and any(0 in v.shape for v in values(model))


def losses_that_do_not_fit(model, finding):
    return finding.kind == "refused" and ("do not fit" in finding.text or "weights" in finding.text or "do not suit" in finding.text)


EXCEPTIONS = [
    (lambda m, f: bool(ops(m) & NOT_FINITE) and (has_not_finite(m) or may_leave(m) and bool(m.more_runs)), "not finite: see above"),
    (lambda m, f: bool(ops(m) & WRAPPING) and has_large(m), "overflow: see above"),
    (clip_without_bound, "a bound left out bounds nothing (function body of Clip-13); there it is the largest number, so infinities change"),
    (unpool_to_a_shape, "indices count in the inferred shape, as the ONNX project's test_maxunpool_export_with_output_shape has it"),
    (wide_transposed, "SAME gives input times stride; where that is more than the window reaches, it leaves the rest out"),
    (integer_logs, "logarithms and roots of whole numbers are rounded part by part there"),
    (float32_windows, "computes windows of doubles in float32"),
    (empty_reduction, "reductions of tensors without elements keep reduced dimensions"),
    (lambda m, f: "Sign" in ops(m) and "got nan" in f.text, "the sign of NaN is zero there, NaN here, as in numpy"),
    (statistics_in_place, "running statistics are written over the initializers they came from"),
    (dilated_same, "SAME pads poolings as if they were not dilated"),
    (pieces_without_dimension, "keepdims counts there even where split is given"),
    (blocks_of_text, "copies only the first text of each block"),
    (power_to_whole, "infinity as a whole number is open; a square root of minus infinity is NaN here"),
    (negative_pads, "SAME where strides pass the window: pads become negative there, zero here"),
    (casts_outside, "casts of negative numbers to types without sign are open"),
    (crop_outside, "takes no notice of the region for the output's size, nor of what lies outside along axes that keep their size"),
    (overflowing_powers, "adds powers in float32; here in float64"),
    (overflowing_products, "products of whole numbers saturate there; the error function of whole numbers is open"),
    (half_pixels_of_one, "leaves axes alone whose scale is 1, which these coordinates move"),
    (corners_of_parts, "rounds the length that scales give down before corners are aligned; the ONNX project's test data do not"),
    (window_past_input, "a window larger than its input gives nothing there, an error here"),
    (no_variance, "computes E(x^2) - E(x)^2, which may be below zero where all elements are alike"),
    (no_norm, "zeros have the norm zero; divided by it they are NaN here, zero there; the specification is silent"),
    (loops_without_trips, "infers the other dimensions of what a loop of no trips stacks; here they are 0 unless declared"),
    (whole_interpolation, "interpolated whole numbers are cut off: the last bit decides"),
    (endless_cells, "cells without bounds grow past float32"),
    (softplus_cells, "Softplus overflows in recurrent cells there"),
    (window_of_one, "a symmetric window of one element is 0/0 there, 1 here"),
    (long_conditions, "takes conditions longer than the axis"),
    (empty_products, "products over nothing are left unwritten there; they are zero"),
    (joins_nothing, "takes inputs without elements whatever their other dimensions"),
    (losses_that_do_not_fit, "does not check that targets have the scores' shape, and reads past them"),
]


# Between our own configurations: padding times infinity is NaN only where the padding is multiplied, and the transforms of
# a fast convolution spread an infinity over their tile.
OWN_NOT_FINITE = {"Conv", "ConvTranspose"}


def excepted(model, finding):
    if finding.kind == "config":
        if "error" in finding.text and "is outside" in finding.text:
            return True  # an index out of bounds for a value that nobody needs: it is computed only where values are kept
        cast = bool(ops(model) & {"Cast", "CastLike"}) and " of int" in finding.text  # NaN as a whole number is open
        if "nan" in finding.text and "ReduceProd" in ops(model):
            return True  # infinity times zero, or not, by the order of the factors
        if len(model.nodes) > 1 and "nan" in finding.text and ops(model) & DOMAINS:
            return True  # on the edge of a domain the last bit decides
        return (bool(ops(model) & OWN_NOT_FINITE) or cast) and (has_not_finite(model) or bool(model.more_runs) and cast)
    return any(matches(model, finding) for matches, _ in EXCEPTIONS)
