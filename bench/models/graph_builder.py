"""A small builder of ONNX graphs with seeded random weights: what the model scripts are written in."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class GraphBuilder:
    """Nodes are added in order; every method returns the name of its result."""

    def __init__(self, name, seed, opset=13):
        self.name, self.opset = name, opset
        self.random = np.random.default_rng(seed)
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.count = 0

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, shape, name, dtype=TensorProto.FLOAT):
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"output_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def weight(self, array, hint="weight"):
        self.count += 1
        name = f"{hint}_{self.count}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def normal(self, shape, scale, hint="weight"):
        return self.weight((self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)), hint)

    def ints(self, values):
        return self.weight(np.array(values, dtype=np.int64), "ints")

    def scalar(self, value):
        return self.weight(np.array(value, dtype=np.float32), "scalar")

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        results = [f"{kind.lower()}_{self.count}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name=f"{kind}_{self.count}", **attributes))
        return results[0] if outputs == 1 else results

    def conv(self, x, channels_in, channels_out, kernel, stride=1, pad=None, groups=1, norm="folded", gain=2.0):
        """norm: 'folded' (a bias) or 'batch' (BatchNormalization behind). gain: variance of output over input."""
        pad = kernel // 2 if pad is None else pad
        fan = channels_in // groups * kernel * kernel
        w = self.normal((channels_out, channels_in // groups, kernel, kernel), np.sqrt(gain / fan), "conv_weight")
        inputs = [x, w]
        if norm != "batch":
            inputs.append(self.normal((channels_out,), 0.05, "conv_bias"))
        y = self.op("Conv", *inputs, kernel_shape=[kernel, kernel], strides=[stride, stride],
                    pads=[pad, pad, pad, pad], group=groups)
        if norm == "batch":
            uniform = self.random.uniform
            y = self.op("BatchNormalization", y,
                        self.weight(uniform(0.8, 1.2, channels_out).astype(np.float32), "bn_scale"),
                        self.normal((channels_out,), 0.05, "bn_bias"), self.normal((channels_out,), 0.05, "bn_mean"),
                        self.weight(uniform(0.8, 1.2, channels_out).astype(np.float32), "bn_var"), epsilon=1e-5)
        return y

    def dense(self, x, width_in, width_out, gain=1.0):
        """Gemm with a transposed weight, as exporters write it."""
        w = self.normal((width_out, width_in), np.sqrt(gain / width_in), "dense_weight")
        return self.op("Gemm", x, w, self.normal((width_out,), 0.02, "dense_bias"), transB=1)

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, producer_name="walle-bench-models",
                                  opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 7
        return model

    def parameters(self):
        return sum(int(np.prod(t.dims)) for t in self.initializers if t.data_type == TensorProto.FLOAT)
