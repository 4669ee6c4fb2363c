"""Image classifiers at N x 3 x 224 x 224 as exporters write them: true architectures, seeded random weights."""
from graph_builder import GraphBuilder

BRANCH_GAIN = 0.3  # of a residual branch's last convolution: keeps a random network's activations level


def begin(name, batch, seed):
    g = GraphBuilder(name, seed)
    return g, g.input("image", [batch, 3, 224, 224])


def finish(g, x, width, batch):
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(g.dense(x, width, 1000), [batch, 1000], "logits")
    return g


def relu(g, x):
    return g.op("Relu", x)


def max_pool(g, x, pad=1, **more):
    return g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[pad] * 4, **more)


def resnet(name, blocks, bottleneck, batch, norm, seed):
    """He et al. 2016; the stride of a bottleneck sits in its 3x3 convolution (v1.5)."""
    g, x = begin(name, batch, seed)
    x = max_pool(g, relu(g, g.conv(x, 3, 64, 7, 2, norm=norm)))
    channels, expansion = 64, 4 if bottleneck else 1
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            skip = x
            if stride != 1 or channels != width * expansion:
                skip = g.conv(x, channels, width * expansion, 1, stride, norm=norm)
            if bottleneck:
                y = relu(g, g.conv(x, channels, width, 1, norm=norm))
                y = relu(g, g.conv(y, width, width, 3, stride, norm=norm))
                y = g.conv(y, width, width * expansion, 1, norm=norm, gain=BRANCH_GAIN)
            else:
                y = relu(g, g.conv(x, channels, width, 3, stride, norm=norm))
                y = g.conv(y, width, width, 3, norm=norm, gain=BRANCH_GAIN)
            x = relu(g, g.op("Add", y, skip))
            channels = width * expansion
    return finish(g, x, channels, batch)


def resnet18(batch, norm):
    return resnet("resnet18", [2, 2, 2, 2], False, batch, norm, 18)


def resnet50(batch, norm):
    return resnet("resnet50", [3, 4, 6, 3], True, batch, norm, 50)


def relu6(g, x):
    return g.op("Clip", x, g.scalar(0.0), g.scalar(6.0))


def mobilenetv2(batch, norm):
    """Sandler et al. 2018, width 1.0."""
    g, x = begin("mobilenetv2", batch, 2)
    x = relu6(g, g.conv(x, 3, 32, 3, 2, norm=norm))
    channels = 32
    for expand, width, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                         (6, 160, 3, 2), (6, 320, 1, 1)]:
        for index in range(count):
            step, hidden, y = stride if index == 0 else 1, channels * expand, x
            if expand != 1:
                y = relu6(g, g.conv(y, channels, hidden, 1, norm=norm))
            y = relu6(g, g.conv(y, hidden, hidden, 3, step, groups=hidden, norm=norm))
            y = g.conv(y, hidden, width, 1, norm=norm, gain=1.0)
            x = g.op("Add", x, y) if step == 1 and channels == width else y
            channels = width
    x = relu6(g, g.conv(x, channels, 1280, 1, norm=norm))
    return finish(g, x, 1280, batch)


def squeezenet1_1(batch, norm):
    """Iandola et al. 2016, the 1.1 variant; it has no normalisation."""
    g, x = begin("squeezenet1_1", batch, 11)
    x = max_pool(g, relu(g, g.conv(x, 3, 64, 3, 2, pad=0)), pad=0, ceil_mode=1)
    channels = 64
    for squeeze, expand, pool in [(16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True), (48, 192, False),
                                  (48, 192, False), (64, 256, False), (64, 256, False)]:
        s = relu(g, g.conv(x, channels, squeeze, 1))
        x = g.op("Concat", relu(g, g.conv(s, squeeze, expand, 1)), relu(g, g.conv(s, squeeze, expand, 3)), axis=1)
        channels = 2 * expand
        if pool:
            x = max_pool(g, x, pad=0, ceil_mode=1)
    x = relu(g, g.conv(x, 512, 1000, 1))
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(x, [batch, 1000], "logits")
    return g


def shuffle(g, x, channels, side):
    """Channel shuffle of two groups, as exporters write it."""
    x = g.op("Reshape", x, g.ints([-1, 2, channels // 2, side, side]))
    x = g.op("Transpose", x, perm=[0, 2, 1, 3, 4])
    return g.op("Reshape", x, g.ints([-1, channels, side, side]))


def shufflenetv2_x1_0(batch, norm):
    """Ma et al. 2018, 1.0x: 24-116-232-464-1024."""
    g, x = begin("shufflenetv2_x1_0", batch, 21)
    x = max_pool(g, relu(g, g.conv(x, 3, 24, 3, 2, norm=norm)))
    channels, side = 24, 56
    for width, count in [(116, 4), (232, 8), (464, 4)]:
        half = width // 2
        for index in range(count):
            if index == 0:
                left = g.conv(x, channels, channels, 3, 2, groups=channels, norm=norm)
                left = relu(g, g.conv(left, channels, half, 1, norm=norm))
                right, into, step = x, channels, 2
                side //= 2
            else:
                left, right = g.op("Split", x, g.ints([half, half]), outputs=2, axis=1)
                into, step = half, 1
            right = relu(g, g.conv(right, into, half, 1, norm=norm))
            right = g.conv(right, half, half, 3, step, groups=half, norm=norm)
            right = relu(g, g.conv(right, half, half, 1, norm=norm))
            x = shuffle(g, g.op("Concat", left, right, axis=1), width, side)
        channels = width
    x = relu(g, g.conv(x, channels, 1024, 1, norm=norm))
    return finish(g, x, 1024, batch)
