"""Random uses of walle.cv, each one an expression that OpenCV understands alike.

`case(name, random)` makes one use of one function. `im(shape, dtype, seed)` is an image that both sides make alike; views of
it are cut, stepped or turned. `FUNCTIONS` has a maker for every name that OpenCV has, too: a test holds it to the module's
table and to docs/CV.md. Shapes, drawing and geometry are in cv_cases_shapes.py.
"""
import cv_cases_shapes

# Made on both sides: what the device and CPython compute alike, in whole numbers.
MAKER = """
def im(shape, dtype, seed):
    n = 1
    for s in shape:
        n *= s
    v = (np.arange(n, dtype='int64') * (seed * 2 + 7919) + (np.arange(n, dtype='int64') // 7) * seed * 31) % 1009
    if dtype == 'uint8':
        return (v % 256).astype('uint8').reshape(shape)
    if dtype == 'int32':
        return (v - 500).astype('int32').reshape(shape)
    return (v.astype(dtype) / 504 - 1).reshape(shape)
"""


def size(random, low=1, high=12):
    return random.randint(low, high)


def image(random, dtypes=("uint8",), channels=(1, 3), shape=None, bad=True):
    """An image, or a view of a larger one; seldom an empty one or one of another type, which is refused."""
    rows, columns = shape or (size(random), size(random))
    deep = random.choice(channels)
    dtype = random.choice(dtypes)
    roll = random.random() if bad else 1
    if roll < 0.03:
        rows = 0
    elif roll < 0.05:
        dtype = "bool"
        return f"(im(({rows}, {columns}), 'uint8', 3) > 100)"
    how = random.choice(("dense", "dense", "rows", "cut", "back", "step"))
    full = [rows * 2 if how == "rows" else rows, columns + 3 if how == "cut" else columns * 2 if how == "step" else columns]
    suffix = {"dense": "", "rows": "[::2]", "cut": "[:, 2:-1]", "back": "[::-1]", "step": "[:, ::2]"}[how]
    full += [deep] if deep > 1 else []
    return f"im({tuple(full)}, '{dtype}', {random.randint(0, 999)}){suffix}"


def long_shape(random):
    """Rows and columns; of two in five rows that are as long as some vectors of a processor, and a rest."""
    return (size(random), size(random)) if random.random() < 0.6 else (size(random, 1, 3), random.choice((1, 7, 16, 31, 33, 49, 65)))


def rows_image(random, dtypes=("uint8",), channels=(1, 2, 3, 4)):
    """One whose rows are shorter and longer than the vectors of the loops behind filters, and no multiple of them."""
    if random.random() < 0.3:
        return image(random, dtypes)
    return image(random, dtypes, channels, (size(random, 1, 6), random.choice((1, 7, 31, 33, 45))))


def pair(random, dtypes, channels=(1, 2, 3, 4)):
    """Two images of one size, seldom of two."""
    shape = long_shape(random)
    other = shape if random.random() < 0.95 else (shape[0] + 1, shape[1])
    deep = (random.choice(channels),)
    dtype = (random.choice(dtypes),)
    return image(random, dtype, deep, shape), image(random, dtype, deep, other, bad=False)


def scalar(random, high=255):
    return random.choice((str(random.randint(0, high)), f"({', '.join(str(random.randint(0, high)) for _ in range(4))})"))


def border(random, wrap=False):
    names = ["BORDER_CONSTANT", "BORDER_REPLICATE", "BORDER_REFLECT", "BORDER_REFLECT_101", "BORDER_DEFAULT"]
    return "cv." + random.choice(names + (["BORDER_WRAP"] if wrap else []))


def maybe(random, *texts):
    """Some of the named arguments."""
    return "".join(", " + text for text in texts if random.random() < 0.4)


def mask(random, shape):
    return f"im({shape}, 'uint8', {random.randint(0, 99)}) // 128"


FLOATS = ("float32", "float64")
COMMON = ("uint8", "float32")
ALL = ("uint8", "int32", "float32", "float64")


def add_weighted(random):
    one, other = pair(random, ALL)
    given = [round(random.uniform(-2, 2), 2) for _ in range(3)]
    return f"cv.addWeighted({one}, {given[0]}, {other}, {given[1]}, {given[2] * 20})"


def bits(name):
    def make(random):
        if random.random() < 0.3:
            shape, deep = long_shape(random), (random.choice((1, 2, 3, 4)),)
            one, other = image(random, ("uint8",), deep, shape, bad=False), image(random, ("uint8",), deep, shape, bad=False)
            return f"cv.{name}({one}, {other}, mask={mask(random, shape)})"
        one, other = pair(random, ("uint8", "int32"))
        return f"cv.{name}({one}, {other})"
    return make


def bits_not(random):
    return f"cv.bitwise_not({image(random, ('uint8', 'int32'), shape=long_shape(random))})"


def copy_to(random):
    shape = long_shape(random)
    return f"cv.copyTo({image(random, ALL, (1, 2, 3, 4), shape)}, {mask(random, shape)})"


def mean(random):
    shape = long_shape(random)
    return f"cv.mean({image(random, ALL, (1, 2, 3, 4), shape)}{maybe(random, 'mask=' + mask(random, shape))})"


def normalize(random):
    norm = random.choice(("cv.NORM_MINMAX, -1", "cv.NORM_INF, -1", "cv.NORM_L1, cv.CV_32F", "cv.NORM_L2, cv.CV_32F", "cv.NORM_MINMAX, cv.CV_32F"))
    return f"cv.normalize({image(random, COMMON, shape=long_shape(random))}, None, {random.randint(0, 9)}, {random.randint(10, 255)}, {norm})"


WHOLE_CODES = {1: "GRAY2BGR GRAY2BGRA", 4: "BGRA2BGR RGBA2BGR BGRA2RGBA BGRA2GRAY RGBA2GRAY",
               3: "BGR2BGRA BGR2RGBA BGR2RGB BGR2GRAY RGB2GRAY BGR2YCrCb RGB2YCrCb YCrCb2BGR YCrCb2RGB BGR2HSV RGB2HSV HSV2BGR HSV2RGB "
                  "BGR2HLS RGB2HLS HLS2BGR HLS2RGB BGR2HSV_FULL RGB2HSV_FULL HSV2BGR_FULL HSV2RGB_FULL BGR2YUV RGB2YUV YUV2BGR YUV2RGB"}
CAMERA_CODES = "RGB_NV12 BGR_NV12 RGB_NV21 BGR_NV21 RGB_YV12 BGR_YV12 RGB_I420 BGR_I420".split()


def cvt_color(random):
    roll = random.random()
    if roll < 0.2:
        shape = (random.randint(1, 5) * 6, random.randint(1, 6) * 2)
        return f"cv.cvtColor({image(random, shape=shape, channels=(1,))}, cv.COLOR_YUV2{random.choice(CAMERA_CODES)})"
    deep = random.choice((1, 3, 3, 3, 3, 4))
    code = random.choice(WHOLE_CODES[deep].split())
    deep = deep if random.random() < 0.95 else 2
    # Hues of float32 are degrees: made of what is between 0 and 1 in front of it.
    if "HSV2" in code or "HLS2" in code:
        return f"cv.cvtColor({image(random, channels=(deep,), shape=long_shape(random))}, cv.COLOR_{code})"
    text = image(random, COMMON, (deep,), long_shape(random))
    return f"cv.cvtColor({text if 'float32' not in text else f'(({text}) + 1) / 2'}, cv.COLOR_{code})"


def two_plane(random):
    rows, columns = size(random, 1, 6) * 2, size(random, 1, 6) * 2
    code = random.choice(CAMERA_CODES[:4])
    return (f"cv.cvtColorTwoPlane({image(random, channels=(1,), shape=(rows, columns))}, "
            f"im(({rows // 2}, {columns // 2}, 2), 'uint8', 5), cv.COLOR_YUV2{code})")


def deriv_kernels(random):
    return f"cv.getDerivKernels({random.randint(0, 2)}, {random.randint(0, 2)}, {random.choice((-1, 3, 5, 7))}{maybe(random, 'normalize=True')})"


def gaussian_kernel(random):
    return f"cv.getGaussianKernel({random.choice((1, 3, 5, 7, 9, 11, 4))}, {random.choice((-1, 0, 0.8, 1.5, 3))}{maybe(random, 'ktype=cv.CV_32F')})"


def element(random):
    return (f"cv.getStructuringElement(cv.MORPH_{random.choice(('RECT', 'CROSS', 'ELLIPSE'))}, "
            f"({size(random, 1, 9)}, {size(random, 1, 9)}))")


def threshold(random):
    kind = random.choice(("BINARY", "BINARY_INV", "TRUNC", "TOZERO", "TOZERO_INV"))
    if random.random() < 0.2:
        return f"cv.threshold({image(random, channels=(1,), shape=long_shape(random))}, 0, 255, cv.THRESH_{kind} | cv.THRESH_OTSU)"
    text = image(random, ("uint8", *FLOATS), (1, 2, 3, 4), long_shape(random))
    at = round(random.uniform(-0.5, 0.5), 3) if "float" in text else round(random.uniform(-5, 260), 1)
    return f"cv.threshold({text}, {at}, {random.choice((200, 255, 0.5, 1))}, cv.THRESH_{kind})"


def adaptive(random):
    return (f"cv.adaptiveThreshold({image(random, channels=(1,), shape=long_shape(random))}, {random.choice((255, 100))}, "
            f"cv.ADAPTIVE_THRESH_{random.choice(('MEAN_C', 'GAUSSIAN_C'))}, cv.THRESH_{random.choice(('BINARY', 'BINARY_INV'))}, "
            f"{random.choice((3, 5, 7, 4))}, {random.choice((0, 2, -3, 4.5))})")


def equalize(random):
    return f"cv.equalizeHist({image(random, channels=(1, 1, 1, 3), shape=long_shape(random))})"


def hist(random):
    deep = random.choice((1, 3))
    shape = long_shape(random)
    where = random.choice(("None", "None", mask(random, shape)))
    return (f"cv.calcHist([{image(random, COMMON, (deep,), shape)}], [{random.randrange(deep)}], {where}, [{random.choice((8, 16, 256))}], "
            f"[0, {random.choice((256, 200))}])")


def integral(random):
    return f"cv.integral({image(random, ('uint8', *FLOATS), (1, 2, 3, 4), long_shape(random))})"


def shape_kernel(random):
    if random.random() < 0.2:
        return "None"
    return element(random).replace("9", "3") if random.random() < 0.6 else f"im(({size(random, 1, 4)}, {size(random, 1, 4)}), 'uint8', 9) // 100"


def morph(name):
    def make(random):
        return (f"cv.{name}({rows_image(random, ('uint8', *FLOATS))}, {shape_kernel(random)}"
                f"{maybe(random, f'iterations={random.randint(1, 3)}', f'borderType={border(random)}')})")
    return make


def morphology(random):
    op = random.choice("ERODE DILATE OPEN CLOSE GRADIENT TOPHAT BLACKHAT".split())
    return (f"cv.morphologyEx({rows_image(random, COMMON)}, cv.MORPH_{op}, {shape_kernel(random)}"
            f"{maybe(random, 'iterations=2', f'borderType={border(random)}')})")


def make_border(random):
    sides = ", ".join(str(random.randint(0, 5)) for _ in range(4))
    # Around an image without pixels OpenCV looks for one to repeat without end.
    return f"cv.copyMakeBorder({image(random, ALL, bad=False)}, {sides}, {border(random, True)}{maybe(random, 'value=' + scalar(random))})"


def flip(random):
    return f"cv.flip({image(random, ALL)}, {random.choice((-1, 0, 1))})"


def rotate(random):
    return f"cv.rotate({image(random, ALL)}, {random.choice((0, 1, 2))})"


def joined(name, along):
    def make(random):
        deep, dtype = (random.choice((1, 3)),), (random.choice(ALL),)
        sizes = [[size(random), size(random)] for _ in range(random.randint(1, 3))]
        for one in sizes:
            one[1 - along] = sizes[0][1 - along] + (random.random() < 0.04)
        return f"cv.{name}([{', '.join(image(random, dtype, deep, tuple(one), bad=False) for one in sizes)}])"
    return make


def merge(random):
    shape, dtype = (size(random), size(random)), (random.choice(ALL),)
    return f"cv.merge([{', '.join(image(random, dtype, (1, 1, 2), shape, bad=False) for _ in range(random.randint(1, 4)))}])"


def split(random):
    return f"cv.split({image(random, ALL, (1, 2, 3, 4))})"


def resize(random):
    how = "cv.INTER_" + random.choice(("NEAREST", "LINEAR", "LINEAR", "CUBIC", "AREA"))
    text = image(random, ("uint8", "uint8", *FLOATS), shape=(size(random, 1, 24), size(random, 1, 24)))
    if random.random() < 0.25:
        return f"cv.resize({text}, None, fx={random.choice((0.5, 2, 1.5, 0.7))}, fy={random.choice((0.5, 2, 1.25))}, interpolation={how})"
    return f"cv.resize({text}, ({size(random, 1, 20)}, {size(random, 1, 20)}), interpolation={how})"


def side(random):
    """Of a box: seldom one of so many places that its sums need more than 16 bits."""
    return random.choice((1, 2, 3, 4, 5, 6, 9, 17, 20))


def blur(random):
    return f"cv.blur({rows_image(random, ('uint8', *FLOATS))}, ({side(random)}, {side(random)}){maybe(random, f'borderType={border(random)}')})"


def depth(random, text):
    return random.choice(("-1", "cv.CV_32F", "cv.CV_64F")) if "float" not in text else random.choice(("-1", "cv.CV_64F"))


def narrow(random, text):
    """OpenCV filters float32 to float32 only, where the kernel is no product; walle.cv to float64, too."""
    return "-1" if "float32" in text else depth(random, text)


def box(name):
    def make(random):
        text = rows_image(random, ("uint8", *FLOATS))
        given = depth(random, text)
        return (f"cv.{name}({text}, {given}, ({side(random)}, {side(random)})"
                f"{maybe(random, 'normalize=False', f'borderType={border(random)}')})")
    return make


def gaussian(random):
    sizes = random.choice(("(3, 3)", "(5, 3)", "(7, 7)", "(0, 0)", "(9, 5)", "(4, 4)"))
    return f"cv.GaussianBlur({rows_image(random, COMMON)}, {sizes}, {random.choice((0.8, 1.5, 2.2))}{maybe(random, 'sigmaY=1.1', f'borderType={border(random)}')})"


def filter_2d(random):
    text = rows_image(random, ("uint8", *FLOATS))
    kernel = f"(im(({size(random, 1, 5)}, {size(random, 1, 5)}), 'float32', {random.randint(0, 99)}) / 4)"
    return f"cv.filter2D({text}, {narrow(random, text)}, {kernel}{maybe(random, 'delta=3', f'borderType={border(random)}')})"


def sep_filter(random):
    text = rows_image(random, ("uint8", *FLOATS))
    sides = [f"(im(({size(random, 1, 5)}, 1), 'float32', {random.randint(0, 99)}) / 2)" for _ in range(2)]
    return f"cv.sepFilter2D({text}, {depth(random, text)}, {sides[0]}, {sides[1]}{maybe(random, f'borderType={border(random)}')})"


def sobel(random):
    text = rows_image(random, ("uint8", *FLOATS))
    orders = random.choice(("1, 0", "0, 1", "1, 1", "2, 0", "0, 2", "0, 0"))
    given = random.choice((depth(random, text), "cv.CV_16S")) if "uint8" in text else depth(random, text)
    return f"cv.Sobel({text}, {given}, {orders}{maybe(random, f'ksize={random.choice((3, 5, 7))}', f'borderType={border(random)}')})"


def scharr(random):
    text = rows_image(random, ("uint8", *FLOATS))
    return f"cv.Scharr({text}, {depth(random, text)}, {random.choice(('1, 0', '0, 1'))}{maybe(random, 'scale=0.5')})"


def laplacian(random):
    text = rows_image(random, ("uint8", *FLOATS))
    return f"cv.Laplacian({text}, {narrow(random, text)}{maybe(random, f'ksize={random.choice((1, 3, 5))}', 'delta=2')})"


def points(random, count):
    corners = [(0, 0), (9, 1), (1, 8), (10, 9)][:count]
    return [[x + round(random.uniform(-2, 2), 2), y + round(random.uniform(-2, 2), 2)] for x, y in corners]


def points_text(random, count):
    return f"np.array({points(random, count)}, dtype='float32')"


def affine_transform(random):
    return f"cv.getAffineTransform({points_text(random, 3)}, {points_text(random, 3)})"


def perspective_transform(random):
    return f"cv.getPerspectiveTransform({points_text(random, 4)}, {points_text(random, 4)})"


def rotation(random):
    return f"cv.getRotationMatrix2D(({random.randint(0, 9)}, {random.randint(0, 9)}), {random.randint(-180, 180)}, {random.choice((0.5, 1, 2))})"


def inverted(random):
    return f"cv.invertAffineTransform({rotation(random)})"


def warp(name, matrix):
    def make(random):
        how = "cv.INTER_" + random.choice(("NEAREST", "LINEAR", "LINEAR", "CUBIC")) + random.choice(("", " | cv.WARP_INVERSE_MAP"))
        value = f"borderValue={scalar(random)}"
        return (f"cv.{name}({image(random, COMMON)}, {matrix(random)}, ({size(random, 1, 40)}, {size(random, 1, 24)}), flags={how}"
                f"{maybe(random, f'borderMode={border(random, True)}', value)})")
    return make


def remap(random):
    shape = (size(random), size(random))
    maps = [f"im({shape}, 'float32', {random.randint(0, 99)}) * 12 + 5" for _ in range(2)]
    how = "cv.INTER_" + random.choice(("NEAREST", "LINEAR", "CUBIC"))
    return f"cv.remap({image(random, COMMON)}, {maps[0]}, {maps[1]}, {how}{maybe(random, f'borderMode={border(random, True)}')})"


def decoded(random):
    """Files of OpenCV's own making are in test_cv_differential; these are what the device itself writes."""
    kind = random.choice(("'.png'", "'.jpg'", "'.jpg', ...", "'.png', ..."))
    text = image(random, channels=(1, 3), bad=False)
    params = "" if "..." not in kind else ", [cv.IMWRITE_JPEG_QUALITY, 60, cv.IMWRITE_PNG_COMPRESSION, 3]"
    return f"cv.imdecode(cv.imencode({kind.split(',')[0]}, {text}{params})[1], cv.IMREAD_{random.choice(('COLOR', 'GRAYSCALE', 'UNCHANGED'))})"


def encoded(random):
    return f"cv.imencode('.jpg', {image(random, channels=(1, 3), bad=False)}, [cv.IMWRITE_JPEG_QUALITY, {random.randint(1, 100)}])"


FUNCTIONS = {
    "addWeighted": add_weighted, "bitwise_and": bits("bitwise_and"), "bitwise_or": bits("bitwise_or"), "bitwise_xor": bits("bitwise_xor"),
    "bitwise_not": bits_not, "copyTo": copy_to, "mean": mean, "normalize": normalize, "cvtColor": cvt_color, "cvtColorTwoPlane": two_plane,
    "getDerivKernels": deriv_kernels, "getGaussianKernel": gaussian_kernel, "getStructuringElement": element, "threshold": threshold,
    "adaptiveThreshold": adaptive, "equalizeHist": equalize, "calcHist": hist, "integral": integral, "dilate": morph("dilate"),
    "erode": morph("erode"), "morphologyEx": morphology, "copyMakeBorder": make_border, "flip": flip, "rotate": rotate,
    "hconcat": joined("hconcat", 1), "vconcat": joined("vconcat", 0), "merge": merge, "split": split, "resize": resize, "blur": blur,
    "boxFilter": box("boxFilter"), "sqrBoxFilter": box("sqrBoxFilter"), "GaussianBlur": gaussian, "filter2D": filter_2d,
    "sepFilter2D": sep_filter, "Sobel": sobel, "Scharr": scharr, "Laplacian": laplacian, "getAffineTransform": affine_transform,
    "getPerspectiveTransform": perspective_transform, "getRotationMatrix2D": rotation, "invertAffineTransform": inverted,
    "warpAffine": warp("warpAffine", rotation), "warpPerspective": warp("warpPerspective", perspective_transform), "remap": remap,
    "imdecode": decoded, "imencode": encoded, **cv_cases_shapes.FUNCTIONS,
}


def case(name, random):
    return "return " + FUNCTIONS[name](random)
