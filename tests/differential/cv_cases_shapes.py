"""Random uses of walle.cv's functions about shapes, drawing and geometry, beside those of cv_cases.py, which has the table."""


def size(random, low=1, high=12):
    return random.randint(low, high)


def maybe(random, *texts):
    return "".join(", " + text for text in texts if random.random() < 0.4)


def points(random, low=1, high=9, reach=30, real=None):
    """An array of distinct points, in one of the shapes that are points; seldom one that is not."""
    count = random.randint(low, high)
    seen = []
    while len(seen) < count:
        one = [random.randint(-3, reach), random.randint(-3, reach)]
        if one not in seen:
            seen.append(one)
    real = random.random() < 0.3 if real is None else real
    if real:
        seen = [[x + random.randint(0, 7) / 8, y + random.randint(0, 7) / 8] for x, y in seen]
    roll = random.random()
    shape = f".reshape(1, {count}, 2)" if roll < 0.2 else f".reshape({count}, 1, 2)" if roll < 0.5 else ".reshape(-1, 1)" if roll < 0.53 else ""
    return f"np.array({seen}, dtype='{'float32' if real else 'int32'}'){shape}"


def mask(random, high=14):
    """Of blots: a pixel in one of `part` is empty."""
    shape = (size(random, 1, high), size(random, 1, high))
    text = f"(im({shape}, 'uint8', {random.randint(0, 999)}) // {random.choice((90, 128, 160, 60))})"
    return text + random.choice(("", "", "[::2]", "[:, 1:]" if shape[1] > 1 else "", "[::-1]"))


def contour_area(random):
    return f"cv.contourArea({points(random)}{maybe(random, 'oriented=True')})"


def bounding_rect(random):
    return f"cv.boundingRect({points(random) if random.random() < 0.6 else mask(random)})"


def convex_hull(random):
    return f"cv.convexHull({points(random, high=14)}{maybe(random, 'clockwise=True', 'returnPoints=False')})"


def min_area_rect(random):
    return f"(lambda r: np.array([r[0][0], r[0][1], r[1][0], r[1][1], r[2]]))(cv.minAreaRect({points(random)}))"


def box_points(random):
    numbers = [round(random.uniform(-9, 30), 2) for _ in range(5)]
    return f"cv.boxPoints((({numbers[0]}, {numbers[1]}), ({abs(numbers[2])}, {abs(numbers[3])}), {numbers[4] * 5}))"


def find_contours(random):
    mode = random.choice(("EXTERNAL", "LIST", "CCOMP", "TREE"))
    method = random.choice(("NONE", "SIMPLE"))
    return f"cv.findContours({mask(random, 24)}, cv.RETR_{mode}, cv.CHAIN_APPROX_{method}{maybe(random, 'offset=(3, -2)')})"


def components(random):
    return f"cv.connectedComponentsWithStats({mask(random, 24)}{maybe(random, f'connectivity={random.choice((4, 8))}')})"


def canvas(random):
    deep = random.choice((1, 3, 3, 4))
    dtype = random.choice(("uint8", "uint8", "float32", "int32"))
    side = 30 if dtype == "uint8" else 15  # a result has 16 KiB
    shape = (size(random, 4, side), size(random, 4, side)) + ((deep,) if deep > 1 else ())
    return f"im({shape}, '{dtype}', {random.randint(0, 99)})"


def wide_canvas(random):
    """That holds whole what `polygons` and `mask` give."""
    return f"im((36, 38{random.choice(('', ', 3'))}), 'uint8', {random.randint(0, 99)})"


def color(random):
    return random.choice((str(random.randint(0, 255)), f"({', '.join(str(random.randint(0, 255)) for _ in range(random.choice((3, 4))))})"))


def place(random, high=34):
    return f"({random.randint(-8, high)}, {random.randint(-8, high)})"


def stroke(random, kinds=("8", "4")):
    return maybe(random, f"thickness={random.choice((1, 2, 3, 4, 5, 9))}") + maybe(random, f"lineType={random.choice(kinds)}")


def line(random):
    if random.random() < 0.2:
        return f"cv.line({canvas(random)}, {place(random, 250)}, {place(random, 250)}, {color(random)}{stroke(random)}, shift=3)"
    return f"cv.line({canvas(random)}, {place(random)}, {place(random)}, {color(random)}{stroke(random)})"


def arrowed_line(random):
    text = stroke(random).replace("lineType", "line_type")
    return f"cv.arrowedLine({canvas(random)}, {place(random)}, {place(random)}, {color(random)}{text}{maybe(random, 'tipLength=0.3')})"


def filled(random):
    return ", thickness=-1" if random.random() < 0.4 else stroke(random)


def rectangle(random):
    if random.random() < 0.2:
        return f"cv.rectangle({canvas(random)}, ({size(random)}, {size(random)}, {size(random, 0)}, {size(random)}), {color(random)}{filled(random)})"
    return f"cv.rectangle({canvas(random)}, {place(random)}, {place(random)}, {color(random)}{filled(random)})"


def circle(random):
    return f"cv.circle({canvas(random)}, {place(random)}, {random.randint(0, 25)}, {color(random)}{filled(random)})"


def polygons(random, low=1):
    return f"[{', '.join(points(random, low, 8, 28, real=random.random() < 0.01) for _ in range(random.randint(1, 3)))}]"


def outlines(random):
    """Polygons as they come: sides cross one another and leave the image, corners stand twice, one may be all there is."""
    low, high = random.choice(((0, 14), (0, 29), (-25, 60), (-9, 36), (-900, 1200)))
    shapes = []
    for _ in range(random.choice((1, 1, 2, 3))):
        corners = [[random.randint(low, high), random.randint(low, high)] for _ in range(random.choice((1, 2, 3, 3, 4, 5, 7, 12)))]
        shape = f".reshape({len(corners)}, 1, 2)" if random.random() < 0.5 else ""
        shapes.append(f"np.array({corners}, dtype='int32'){shape}")
    return f"[{', '.join(shapes)}]"


def ground(random):
    return random.choice((canvas, wide_canvas))(random)


def moved(random):
    return maybe(random, f"offset=({random.randint(-9, 9)}, {random.randint(-9, 9)})")


def fill_poly(random):
    shapes = outlines(random) if random.random() < 0.8 else polygons(random)
    return f"cv.fillPoly({ground(random)}, {shapes}, {color(random)}{maybe(random, f'lineType={random.choice((4, 8))}', 'shift=0')}{moved(random)})"


def draw_contours(random):
    style = ", thickness=-1" + maybe(random, f"lineType={random.choice((4, 8))}") if random.random() < 0.6 else filled(random)
    which = random.choice((-1, 0, 0))
    if random.random() < 0.6:
        shapes = outlines(random) if random.random() < 0.8 else polygons(random)
        return f"cv.drawContours({ground(random)}, {shapes}, {which}, {color(random)}{style}{moved(random)})"
    found = f"cv.findContours({mask(random, 24)}, cv.RETR_{random.choice(('CCOMP', 'TREE'))}, cv.CHAIN_APPROX_SIMPLE)"
    given = f"hierarchy=f[1]{maybe(random, f'maxLevel={random.randint(0, 3)}')}{moved(random)}"
    return f"(lambda f: cv.drawContours({ground(random)}, f[0], {which}, {color(random)}{style}, {given}))({found})"


def picture(random, dtypes=("uint8",), channels=(1, 3), low=1, wide=()):
    """`wide`: widths, one of which an image may have."""
    deep = random.choice(channels)
    shape = (size(random, low), random.choice((size(random, low), *wide))) + ((deep,) if deep > 1 else ())
    text = f"im({shape}, '{random.choice(dtypes)}', {random.randint(0, 999)})"
    return text + random.choice(("", "", "[::2]", "[::-1]", "[:, 1:]" if shape[1] > 1 else ""))


WIDE = (7, 31, 33)  # around a vector of the loops behind filters
BORDERS = ("REPLICATE", "REFLECT", "REFLECT_101", "WRAP")


def pyr_down(random):
    return f"cv.pyrDown({picture(random, ('uint8', 'float32', 'float64'), (1, 2, 3, 4), 3, WIDE)}{maybe(random, f'borderType=cv.BORDER_{random.choice(BORDERS)}')})"


def pyr_up(random):
    # A result of numbers of 64 bits is large: of few channels and columns.
    kinds = (("uint8", (1, 2, 3, 4), (1, 7, 31)), ("float32", (1, 3), (7,)), ("float64", (1, 2), ()))
    dtype, channels, wide = random.choice(kinds)
    return f"cv.pyrUp({picture(random, (dtype,), channels, 1, wide)})"


def bilateral(random):
    text = picture(random, ("uint8", "float32"), low=2, wide=WIDE)
    border = f"borderType=cv.BORDER_{random.choice(BORDERS[:3])}"
    return f"cv.bilateralFilter({text}, {random.choice((-1, 1, 3, 5, 7))}, {random.choice((0.3, 20, 75))}, {random.choice((1, 2, 3.5))}{maybe(random, border)})"


def gabor(random):
    given = ", ".join(str(round(random.uniform(low, high), 2)) for low, high in ((0.5, 4), (0, 3), (2, 9), (0.3, 1.5)))
    return f"cv.getGaborKernel(({size(random, -1)}, {size(random, -1)}), {given}{maybe(random, 'psi=0.4', 'ktype=cv.CV_32F')})"


def spatial_gradient(random):
    return f"cv.spatialGradient({picture(random, channels=(1, 1, 1, 3), wide=(1, *WIDE))}{maybe(random, f'borderType=cv.BORDER_{random.choice(BORDERS[:3])}')})"


def rect_sub_pix(random):
    text = picture(random, ("uint8", "float32"), low=3)
    center = f"({round(random.uniform(-1, 9), 2)}, {round(random.uniform(-1, 9), 2)})"
    return f"cv.getRectSubPix({text}, ({size(random, 1, 6)}, {size(random, 1, 6)}), {center}{maybe(random, 'patchType=cv.CV_32F')})"


def convert_maps(random):
    shape = (size(random), size(random))
    one, two = (f"im({shape}, 'float32', {random.randint(0, 99)}) * 20" for _ in range(2))
    if random.random() < 0.3:
        return f"cv.convertMaps(*cv.convertMaps({one}, {two}, cv.CV_16SC2), cv.{random.choice(('CV_32FC1', 'CV_32FC2'))})"
    if random.random() < 0.3:
        return f"cv.convertMaps(im({(*shape, 2)}, 'float32', 7) * 9, None, cv.CV_16SC2)"
    return f"cv.convertMaps({one}, {two}, cv.{random.choice(('CV_16SC2', 'CV_16SC2', 'CV_32FC2'))}{maybe(random, 'nninterpolation=True')})"


def blend_linear(random):
    shape, deep, dtype = (size(random), size(random)), random.choice(((), (3,))), random.choice(("uint8", "float32"))
    images = ", ".join(f"im({shape + deep}, '{dtype}', {random.randint(0, 99)})" for _ in range(2))
    weights = ", ".join(f"(im({shape}, 'float32', {random.randint(0, 99)}) + 1)" for _ in range(2))
    return f"cv.blendLinear({images}, {weights})"


def numbers(random, rows, columns, dtype="float64"):
    made = [[round(random.uniform(-3, 3), 2) + (4 if i == k else 0) for k in range(columns)] for i in range(rows)]
    return made, f"np.array({made}, dtype='{dtype}')"


def solve(random):
    count, dtype = random.randint(1, 6), random.choice(("float64", "float32"))
    how = random.choice(("LU", "LU", "QR", "SVD", "CHOLESKY"))
    rows = count + (random.randint(0, 3) if how in ("QR", "SVD") else 0)
    made, text = numbers(random, rows, count, dtype)
    if how == "CHOLESKY":
        made = [[sum(made[k][i] * made[k][j] for k in range(count)) for j in range(count)] for i in range(count)]
        text = f"np.array({made}, dtype='{dtype}')"
    return f"cv.solve({text}, {numbers(random, rows, random.randint(1, 2), dtype)[1]}, flags=cv.DECOMP_{how})"


def rodrigues(random):
    vector = [round(random.uniform(-1.5, 1.5), 3) for _ in range(3)]
    given = f"np.array({random.choice((vector, [vector], [[x] for x in vector], [0, 0, 0]))}, dtype='{random.choice(('float64', 'float64', 'float32'))}')"
    return f"cv.Rodrigues({given})" if random.random() < 0.5 else f"cv.Rodrigues(cv.Rodrigues({given})[0])"


def solve_pnp(random):
    count = random.randint(6, 14)
    flat = random.random() < 0.4
    given = [[round(random.uniform(-2, 2), 3), round(random.uniform(-2, 2), 3), 0 if flat else round(random.uniform(-2, 2), 3)] for _ in range(count)]
    vector = [round(random.uniform(-0.6, 0.6), 3) for _ in range(3)]
    shift = [round(random.uniform(-1, 1), 3), round(random.uniform(-1, 1), 3), round(random.uniform(7, 12), 3)]
    lens = random.choice(("None", "np.array([0.05, -0.01, 0.002, 0.001])", "np.array([[0.05, -0.01, 0.002, 0.001, 0.003]])"))
    # What is seen is made with a straight lens: the pose is of the least squares, not an exact one.
    return (f"(lambda p, r, k, t: cv.solvePnP(p, np.array(np.matmul(p, np.transpose(r)) + t).astype('float64')[:, :2] "
            f"/ (np.matmul(p, np.transpose(r)) + t)[:, 2:] * 500 + 240, k, {lens}))"
            f"(np.array({given}, dtype='float64'), cv.Rodrigues(np.array({vector}))[0], np.array([[500, 0, 240], [0, 500, 240], [0, 0, 1.0]]), "
            f"np.array({shift}))")


FUNCTIONS = {
    "pyrDown": pyr_down, "pyrUp": pyr_up, "bilateralFilter": bilateral, "getGaborKernel": gabor, "spatialGradient": spatial_gradient,
    "getRectSubPix": rect_sub_pix, "convertMaps": convert_maps, "blendLinear": blend_linear, "solve": solve, "Rodrigues": rodrigues,
    "solvePnP": solve_pnp,
    "contourArea": contour_area, "boundingRect": bounding_rect, "convexHull": convex_hull, "minAreaRect": min_area_rect,
    "boxPoints": box_points, "findContours": find_contours, "connectedComponentsWithStats": components, "line": line,
    "arrowedLine": arrowed_line, "rectangle": rectangle, "circle": circle, "fillPoly": fill_poly, "drawContours": draw_contours,
}
