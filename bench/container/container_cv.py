"""What container_bench.py measures of walle.cv: uses by group, and the images that they are of.

container.cv.GROUP.WxH   processor time of one call in the device's script VM on an image of W x H pixels; peer: the same text in
                         CPython with OpenCV on one thread, Debian's, which chooses AVX2 where the processor has it. Each side decodes
                         the PNG that it encoded itself: OpenCV's is larger by two fifths.
container.cv.all.WxH     geometric mean of the groups' ratios; bar: 1.5.
"""
import cv2

SIZES = ("160x120", "640x480")
BAR = 1.5
PEER = f"OpenCV {cv2.__version__}"
# Smooth and with edges, as pictures are: what a codec and a filter meet. `c` has a few hundred shapes.
OPERANDS = """    rows = np.arange(H).reshape(H, 1)
    columns = np.arange(W).reshape(1, W)
    g = (128 + 60 * np.sin(rows / 9.0) + 60 * np.cos(columns / 13.0)).astype('uint8')
    c = ((rows // 12 * 5 + columns // 10 * 3) % 7 < 2).astype('uint8') * 255
    im = cv.merge([g, cv.flip(g, 1), c // 2 + g // 2])
    f = im.astype('float32')
    e = np.ones((3, 3), 'uint8')
    turn = cv.getRotationMatrix2D((W / 2, H / 2), 17, 0.9)
    tilt = np.array([[0.9, 0.1, 3.0], [-0.1, 1.0, 5.0], [0.0002, 0.0001, 1.0]])
    jpg = cv.imencode('.jpg', im)[1]
    png = cv.imencode('.png', im)[1]
    shapes = cv.findContours(c, cv.RETR_LIST, cv.CHAIN_APPROX_SIMPLE)[0]
    points = np.concatenate(shapes)
    r = im.copy()
"""
# By group: expressions. A statement has the array that it changes behind `;`.
GROUPS = {
    "codec": ("cv.imdecode(jpg, cv.IMREAD_COLOR)", "cv.imdecode(png, cv.IMREAD_COLOR)", "cv.imdecode(jpg, cv.IMREAD_GRAYSCALE)",
              "s = cv.imencode('.jpg', im)[1]; np.array([len(s)])"),
    "colour": ("cv.cvtColor(im, cv.COLOR_BGR2GRAY)", "cv.cvtColor(im, cv.COLOR_BGR2HSV)", "cv.cvtColor(im, cv.COLOR_BGR2YUV)",
               "cv.cvtColor(im, cv.COLOR_BGR2RGB)"),
    "resize": ("cv.resize(im, (224, 224))", "cv.resize(im, (W // 2, H // 2), interpolation=cv.INTER_AREA)",
               "cv.resize(g, (W * 2, H * 2), interpolation=cv.INTER_CUBIC)", "cv.resize(im, (W // 3, H // 3), interpolation=cv.INTER_NEAREST)",
               "cv.pyrDown(im)"),
    "warp": ("cv.warpAffine(im, turn, (W, H))", "cv.warpPerspective(im, tilt, (W, H))", "cv.rotate(im, cv.ROTATE_90_CLOCKWISE)",
             "cv.flip(im, 1)", "cv.copyMakeBorder(im, 4, 4, 4, 4, cv.BORDER_REFLECT_101)"),
    "filter": ("cv.blur(im, (5, 5))", "cv.GaussianBlur(im, (5, 5), 0)", "cv.GaussianBlur(f, (7, 7), 1.5)", "cv.Sobel(g, cv.CV_32F, 1, 0)",
               "cv.Laplacian(g, cv.CV_32F)", "cv.filter2D(g, -1, np.ones((5, 5)) / 25)", "cv.bilateralFilter(g, 5, 30, 5)"),
    "morphology": ("cv.dilate(c, e)", "cv.erode(im, e)", "cv.morphologyEx(c, cv.MORPH_OPEN, e)"),
    "levels": ("cv.threshold(g, 100, 255, cv.THRESH_BINARY)[1]", "cv.threshold(g, 0, 255, cv.THRESH_BINARY + cv.THRESH_OTSU)[1]",
               "cv.adaptiveThreshold(g, 255, cv.ADAPTIVE_THRESH_MEAN_C, cv.THRESH_BINARY, 11, 2)", "cv.equalizeHist(g)",
               "cv.calcHist([g], [0], None, [32], [0, 256])", "cv.integral(g)"),
    "arithmetic": ("cv.addWeighted(im, 0.3, r, 0.7, 4)", "cv.bitwise_and(im, r)", "cv.normalize(g, None, 0, 255, cv.NORM_MINMAX)",
                   "np.array(cv.mean(im))", "cv.split(im)[1]", "cv.merge([g, g, c])"),
    "shapes": ("s = cv.findContours(c, cv.RETR_LIST, cv.CHAIN_APPROX_SIMPLE)[0]; np.concatenate(s)", "cv.connectedComponentsWithStats(c)[1]",
               "cv.convexHull(points)", "np.array(cv.minAreaRect(points)[1])", "np.array([cv.contourArea(s) for s in shapes])"),
    "drawing": ("cv.line(r, (2, 3), (W - 4, H - 9), (9, 8, 7)); r", "cv.circle(r, (W // 2, H // 2), H // 3, (1, 2, 3), 2); r",
                "cv.rectangle(r, (5, 5), (W // 2, H // 2), (7, 8, 9), cv.FILLED); r", "cv.fillPoly(r, [points], (4, 5, 6)); r",
                "cv.drawContours(r, shapes, -1, (4, 4, 4)); r"),
}


def setup(size):
    """Lines that make what the uses of `size` are of."""
    width, height = (int(part) for part in size.split("x"))
    return f"    W = {width}\n    H = {height}\n{OPERANDS}"


def prepare():
    """OpenCV, on one thread."""
    cv2.setNumThreads(1)
    return cv2
