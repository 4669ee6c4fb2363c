"""Random uses of walle.np, each one an expression that NumPy understands alike.

`case(name, random)` makes one use of one function. Operands are written out, so a case is a line that can be tried by
hand. `FUNCTIONS` has a maker for every name of the module: a test holds it to the module's table and to docs/NUMPY.md.
"""

REALS = ("float32", "float64")
WHOLES = ("uint8", "int32", "int64", "uint64")
TYPES = ("bool",) + WHOLES + REALS
SMALL = ("uint8", "int32", "int64")


def number_text(random, dtype, low, high):
    if dtype == "bool":
        return random.choice(("True", "False"))
    if dtype in WHOLES:
        return str(random.randint(0 if dtype.startswith("u") else int(low), int(high)))
    value = random.choice((random.uniform(low, high), random.uniform(low, high), float(random.randint(int(low), int(high)))))
    return repr(round(value, 4))


def shape_of(random, rank=None, empty=True):
    rank = random.choice((0, 1, 1, 2, 2, 3)) if rank is None else rank
    sizes = (1, 2, 3, 4, 5) + ((0,) if empty and random.random() < 0.15 else ())
    return tuple(random.choice(sizes) for _ in range(rank))


def array(random, dtypes=TYPES, shape=None, low=-9, high=9, specials=False):
    """An expression of an array: dense, every second element, backwards or transposed."""
    dtype = random.choice(dtypes)
    shape = shape_of(random) if shape is None else shape
    how = random.choice(("dense", "dense", "dense", "step", "back", "turned")) if shape else "dense"
    made = list(shape)
    suffix = ""
    if how == "step":
        made[-1] *= 2
        suffix = "[..., ::2]"
    elif how == "back":
        suffix = "[::-1]"
    elif how == "turned":
        made.reverse()
        suffix = ".T"
    count = 1
    for size in made:
        count *= size
    values = [number_text(random, dtype, low, high) for _ in range(count)]
    if specials and dtype in REALS and count and random.random() < 0.3:
        values[random.randrange(count)] = random.choice(("np.nan", "np.inf", "-np.inf"))
    return f"np.array([{', '.join(values)}], dtype='{dtype}').reshape({tuple(made)}){suffix}"


def operand(random, dtypes=TYPES, shape=None, low=-9, high=9, specials=True):
    """An array that fits `shape`, or a number."""
    roll = random.random()
    if roll < 0.2:
        return random.choice((str(random.randint(max(int(low), -9), int(high))), repr(round(random.uniform(low, high), 3)), "True"))
    shape = shape if shape is not None else shape_of(random)
    fitting = tuple(size if random.random() < 0.7 else 1 for size in shape)[random.randint(0, len(shape)) if roll < 0.4 else 0:]
    return array(random, dtypes, fitting, low, high, specials)


def unary(dtypes=TYPES, low=-9, high=9):
    return lambda name, random: f"np.{name}({array(random, dtypes, low=low, high=high, specials=True)})"


def binary(dtypes=TYPES, low=-9, high=9):
    def make(name, random):
        shape = shape_of(random)
        if random.random() < 0.05:  # shapes that do not fit
            return f"np.{name}({array(random, dtypes, (2, 3))}, {array(random, dtypes, (2,))})"
        return f"np.{name}({array(random, dtypes, shape, low, high, True)}, {operand(random, dtypes, shape, low, high)})"
    return make


def axis_text(random, rank, several=False):
    roll = random.random()
    if roll < 0.3:
        return "None"
    if roll < 0.36:
        return str(rank + 1)
    if several and rank > 1 and roll < 0.6:
        return str(tuple(random.sample(range(rank), 2)))
    return str(random.randint(-rank, max(rank - 1, 0)))


def reduction(dtypes=TYPES, several=True, keeps=True, high=9):
    def make(name, random):
        shape = shape_of(random, random.choice((1, 2, 3)))
        more = f", axis={axis_text(random, len(shape), several)}" if random.random() < 0.8 else ""
        more += ", keepdims=True" if keeps and random.random() < 0.3 else ""
        values = array(random, dtypes, shape, -high, high, True)
        return f"np.{name}({values}{more})" if random.random() < 0.7 or name in ("count_nonzero",) else f"{values}.{name}({more[2:]})"
    return make


def nan_reduction(dtypes=TYPES, several=True, more=""):
    """Of arrays with more NaN than others have, some rows of nothing else."""
    def make(name, random):
        shape = shape_of(random, random.choice((1, 2, 3)))
        values = array(random, dtypes, shape, -9, 9, True)
        if "float" in values and random.random() < 0.7:
            some = random.choice(("-1", "0", "2", "np.nan"))
            values = f"np.where({values} > {some}, {values}, np.nan)"
        axis = f", axis={axis_text(random, len(shape), several)}" if random.random() < 0.8 else ""
        return f"np.{name}({values}{axis}{random.choice(('', ', keepdims=True')) if several else ''}{more and random.choice(('', more))})"
    return make


def averages(_, random):
    shape = shape_of(random, 2, empty=False)
    weights = random.choice(("", f", weights={array(random, TYPES, shape, 1, 9)}", f", axis=0, weights={array(random, REALS, shape[:1], 1, 9)}",
                             f", axis=1, weights={array(random, TYPES, shape[1:], 1, 9)}", ", weights=[1, 2, 3, 4, 5, 6, 7]",
                             f", axis=-1, weights={array(random, ('int32',), shape, 0, 0)}"))
    axis = f", axis={axis_text(random, 2)}" if "axis" not in weights and random.random() < 0.6 else ""
    return f"np.average({array(random, TYPES, shape)}{axis}{weights}{random.choice(('', ', returned=True', ', keepdims=True'))})"


def lexsorts(_, random):
    shape = shape_of(random, random.choice((1, 1, 2)))
    keys = [array(random, TYPES, shape, 0, 3, True) for _ in range(random.randint(1, 3))]
    keys += [array(random, TYPES, (6,), 0, 3)] if random.random() < 0.1 else []
    return f"np.lexsort(({', '.join(keys)},){random.choice(('', ', axis=0', ', axis=-1', ', axis=2'))})"


def equals(_, random):
    left = array(random, TYPES, shape_of(random, 2), 0, 3, True)
    right = random.choice((left, f"np.array({left}, dtype='float64')", f"{left}.T", array(random, TYPES, (2, 2))))
    return f"np.array_equal({left}, {right}{random.choice(('', ', equal_nan=True'))})"


def grids(name, random):
    parts = ", ".join(array(random, TYPES, shape_of(random, random.choice((0, 1, 1, 2)))) for _ in range(random.randint(0, 3)))
    if name == "broadcast_arrays":
        shape = shape_of(random, 2)
        parts = ", ".join(operand(random, TYPES, shape) for _ in range(random.randint(0, 3)))
        return f"np.broadcast_arrays({parts})"
    more = random.choice(("indexing='ij'", "indexing='xy'", "sparse=True", "copy=False", "indexing='yx'"))
    return f"np.meshgrid({parts}{', ' if parts else ''}{more})"


def spread(name, random):
    more = f", ddof={random.choice((0, 1))}" if random.random() < 0.4 else ""
    return f"np.{name}({array(random, TYPES, shape_of(random, 2))}, axis={axis_text(random, 2)}{more})"


def running(name, random):
    shape = shape_of(random, random.choice((1, 2, 3)))
    return f"np.{name}({array(random, TYPES, shape, -3, 3)}, axis={axis_text(random, len(shape))})"


def text(template, **makers):
    def make(name, random):
        return template.format(name=name, **{key: maker(random) for key, maker in makers.items()})
    return make


def any_array(dtypes=TYPES, rank=None, low=-9, high=9):
    return lambda random: array(random, dtypes, None if rank is None else shape_of(random, rank), low, high)


def choice(*options):
    return lambda random: random.choice(options)


def joins(name, random):
    shape = list(shape_of(random, random.choice((1, 2, 3)), empty=False))
    axis = random.randrange(len(shape))
    parts = []
    for _ in range(random.randint(1, 3)):
        if name == "concatenate":
            shape[axis] = random.randint(0, 3)
        parts.append(array(random, TYPES, tuple(shape)))
    if random.random() < 0.1:
        parts.append(array(random, TYPES, (7, 7)))
    more = f", axis={axis}" if name in ("concatenate", "stack") else ""
    return f"np.{name}([{', '.join(parts)}]{more})"


def splits(name, random):
    least = {"vsplit": 2, "dsplit": 3}.get(name, 1)
    shape = tuple(random.choice((2, 4, 6)) for _ in range(random.randint(least, 3)))
    places = random.choice(("2", "[1, 3]", "[1, -1]", "[5, 2]", "3"))
    more = f", axis={random.randrange(len(shape))}" if name in ("split", "array_split") else ""
    return f"np.{name}({array(random, TYPES, shape)}, {places}{more})"


def reshapes(name, random):
    shape = random.choice(("(2, 6)", "(3, -1)", "12", "-1", "(2, 3, 2)", "(5, 3)", "(-1, -1)", "(1, 12, 1)"))
    return f"np.reshape({array(random, TYPES, (4, 3))}, {shape})"


def products(name, random):
    n, k, m = (random.randint(0 if random.random() < 0.1 else 1, 4) for _ in range(3))
    left, right = random.choice((((n, k), (k, m)), ((k,), (k, m)), ((n, k), (k,)), ((k,), (k,)), ((2, n, k), (k, m)),
                                 ((n, k), (2, k, m)), ((n, k), (k + 1, m))))
    if name in ("vdot", "inner"):
        left, right = random.choice((((k,), (k,)), ((n, k), (n, k)), ((k,), (k + 1,))))
    return f"np.{name}({array(random, TYPES, left)}, {array(random, TYPES, right)})"


def sorts(name, random):
    shape = shape_of(random, random.choice((1, 2, 3)))
    kind = ", kind='stable'" if name == "argsort" or random.random() < 0.3 else ""
    return f"np.{name}({array(random, TYPES, shape, specials=True)}, axis={axis_text(random, len(shape))}{kind})"


def index_text(random, size):
    return random.choice((
        str(random.randint(-size, size - 1) if size else 0), f"{random.randint(-5, 5)}:{random.randint(-5, 6)}", ":",
        f"::{random.choice((-2, -1, 2, 3))}", "None", f"[{', '.join(str(random.randint(-size, size - 1)) for _ in range(2))}]" if size else "[]",
        f"np.array([[{random.randint(0, size - 1)}, 0]])" if size else ":", str(size + random.choice((0, 2)))
        if random.random() < 0.1 else "..."))


def key_text(random, shape):
    if random.random() < 0.2:
        values = [random.choice(("True", "False")) for _ in range(shape[0])]
        return f"np.array([{', '.join(values)}], dtype='bool')"
    parts = [index_text(random, size) for size in shape[:random.randint(1, len(shape))]]
    seen, kept = False, []
    for part in parts:
        if part == "..." and seen:
            part = ":"
        seen = seen or part == "..."
        kept.append(part)
    return ", ".join(kept)


def indexing(_, random):
    shape = shape_of(random, random.choice((1, 2, 3)), empty=random.random() < 0.1)
    return f"{array(random, TYPES, shape)}[{key_text(random, shape)}]"


def assigning(_, random):
    shape = shape_of(random, random.choice((1, 2, 3)), empty=False)
    value = random.choice(("7", "1", array(random, TYPES, (1,), 0, 9), array(random, TYPES, shape[-1:], 0, 9)))
    return f"a = {array(random, TYPES, shape, 0, 9)}.copy(); a[{key_text(random, shape)}] = {value}; return a"


def operators(_, random):
    shape = shape_of(random)
    op = random.choice(("+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "**"))
    left, right = array(random, TYPES, shape, 0, 5), operand(random, TYPES, shape, 0, 5, False)
    if random.random() < 0.3 and right != "True":  # on the left that is 1: docs/NUMPY.md
        left, right = right, left
    return f"{left} {op} {right}"


def unary_operators(_, random):
    return f"{random.choice(('-', '~', 'abs', '+'))}({array(random, TYPES)})"


def in_place(_, random):
    shape = shape_of(random, random.choice((1, 2)))
    op = random.choice(("+=", "-=", "*=", "/=", "//="))
    return f"a = {array(random, TYPES, shape, 1, 5)}; a {op} {operand(random, TYPES, shape, 1, 5, False)}; return a"


FUNCTIONS = {}
for names, maker in (
        ("negative absolute abs sign square logical_not", unary()),
        ("invert bitwise_not", unary()),
        ("rint floor ceil trunc", unary(REALS)),
        ("sqrt log log2 log10", unary(low=0.1)),
        ("exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh cbrt", unary(low=-3, high=3)),
        ("log1p", unary(low=-0.9)), ("arccosh", unary(low=1)), ("reciprocal", unary(("float32", "float64"), 1, 5)),
        ("arcsin arccos arctanh", unary(("float32", "float64"), -0.99, 0.99)),
        ("isnan isinf isfinite signbit", unary(REALS)),
        ("add multiply minimum maximum fmin fmax subtract divide true_divide equal not_equal less less_equal greater greater_equal "
         "logical_and logical_or logical_xor", binary()),
        ("bitwise_and bitwise_or bitwise_xor", binary(("bool",) + WHOLES)), ("left_shift right_shift", binary(SMALL, 0, 4)),
        ("floor_divide remainder mod fmod", binary(("uint8", "int32", "int64", "float32", "float64"), 1, 9)),
        ("power", binary(("int32", "int64", "float32", "float64"), 0, 4)),
        ("arctan2 hypot copysign logaddexp logaddexp2", binary(REALS)),
        ("sum prod min max any all mean amin amax", reduction()), ("std var", spread), ("ptp", reduction(WHOLES + REALS)),
        ("argmin argmax", reduction(several=False)), ("count_nonzero", reduction(keeps=False)), ("cumsum cumprod", running),
        ("concatenate stack vstack hstack dstack column_stack row_stack", joins),
        ("split array_split hsplit vsplit dsplit", splits), ("reshape", reshapes),
        ("fabs positive sinc", unary()), ("fix", unary(REALS)), ("modf", unary(("uint8", "int32", "float32", "float64"))),
        ("divmod", binary(("uint8", "int32", "int64", "float32", "float64"), 1, 9)),
        ("float_power", binary(("uint8", "int32", "float32", "float64"), 0, 4)),
        ("nansum nanprod nanmean", nan_reduction(more=", dtype='float64'")), ("nanmin nanmax", nan_reduction()),
        ("nanvar nanstd", nan_reduction(more=", ddof=1")), ("nanargmin nanargmax", nan_reduction(several=False)),
        ("average", averages), ("lexsort", lexsorts), ("array_equal", equals), ("meshgrid broadcast_arrays", grids),
        ("dot matmul vdot inner", products), ("sort argsort", sorts)):
    for each in names.split():
        FUNCTIONS[each] = maker
FUNCTIONS["amin"] = FUNCTIONS["amax"] = lambda name, random: f"np.{name}({array(random, TYPES, shape_of(random, 2))}, axis={axis_text(random, 2, True)})"
ANY = any_array()
FUNCTIONS.update({
    "array": text("np.array({a}, dtype={d}, ndmin={n})", a=choice("[1, 2]", "[[1.5, 2], [3, True]]", "[]", "5", "[[], []]", "[True, False]",
                                                                  "(1, 2.5)", "[[1], [2, 3]]", "[1, [2]]", "range(4)", "[np.array([1, 2]), [3, 4]]"),
                  d=choice("None", "'float32'", "'int32'", "'bool'", "float", "int", "'nothing'"), n=choice("0", "2", "3")),
    "asarray": text("np.asarray({a}, dtype={d})", a=ANY, d=choice("None", "'float32'", "'int64'")),
    "zeros": text("np.{name}({s}, dtype={d})", s=choice("3", "(2, 3)", "()", "(0, 2)", "(-1,)"), d=choice("None", "'uint8'", "bool")),
    "ones": text("np.{name}({s}, dtype={d})", s=choice("3", "(2, 3)", "()", "(0, 2)"), d=choice("None", "'uint8'", "bool")),
    "empty": text("np.empty({s}, dtype={d}).shape", s=choice("3", "(2, 3)"), d=choice("None", "'uint8'")),
    "full": text("np.full({s}, {v}, dtype={d})", s=choice("3", "(2, 3)"), v=choice("7", "2.5", "True", "[1]"), d=choice("None", "'int32'")),
    "zeros_like": text("np.{name}({a})", a=ANY), "ones_like": text("np.{name}({a}, dtype={d})", a=ANY, d=choice("None", "'int32'")),
    "empty_like": text("np.empty_like({a}).shape", a=ANY), "full_like": text("np.full_like({a}, {v})", a=ANY, v=choice("1", "0")),
    "copy": text("np.copy({a})", a=ANY), "ndarray": text("isinstance({a}, np.ndarray)", a=any_array(rank=1)),
    "arange": text("np.arange({a})", a=choice("5", "2, 9", "1, 2, 0.3", "5, 1, -2", "0", "3.5", "9, 2", "1, 5, 0", "2, 8, 3, 'float32'")),
    "linspace": text("np.linspace({a})", a=choice("0, 1", "0, 1, 5", "5, 1, 7", "0, 10, 4, False", "2, 3, 1", "0, 1, 0", "0, 1, -1")),
    "eye": text("np.eye({a})", a=choice("3", "2, 4", "4, 2, 1", "3, k=-1", "3, k=5", "0", "2, 3, -5, 'int32'")),
    "transpose": text("np.transpose({a}, {x})", a=any_array(rank=3), x=choice("None", "(2, 0, 1)", "(0, 1)", "(0, 0, 1)", "(-1, 0, 1)")),
    "ravel": text("np.ravel({a})", a=ANY), "squeeze": text("np.squeeze({a}, {x})", a=any_array(rank=3), x=choice("None", "0", "1", "5")),
    "expand_dims": text("np.expand_dims({a}, {x})", a=any_array(rank=2), x=choice("0", "-1", "1", "(0, 2)", "(0, 0)", "7")),
    "swapaxes": text("np.swapaxes({a}, {x})", a=any_array(rank=3), x=choice("0, 1", "-1, 0", "1, 1", "0, 3")),
    "moveaxis": text("np.moveaxis({a}, {x})", a=any_array(rank=3), x=choice("0, 2", "-1, 0", "(0, 1), (1, 2)", "(0, 0), (1, 2)", "0, 4")),
    "broadcast_to": text("np.broadcast_to({a}, {x})", a=any_array(rank=1), x=choice("(2, 3)", "(3, 1)", "3", "(2, 1)")),
    "flip": text("np.flip({a}, {x})", a=any_array(rank=2), x=choice("None", "0", "1", "(0, 1)", "2")),
    "shape": text("np.shape({a})", a=ANY), "size": text("np.size({a})", a=ANY), "ndim": text("np.ndim({a})", a=ANY),
    "repeat": text("np.repeat({a}, {x})", a=any_array(rank=2), x=choice("2", "0", "3, 0", "2, axis=1", "-1", "2, 5")),
    "tile": text("np.tile({a}, {x})", a=ANY, x=choice("2", "(2, 1)", "(1, 2, 2)", "0", "(3,)")),
    "roll": text("np.roll({a}, {x})", a=any_array(rank=2), x=choice("1", "-3", "2, 0", "1, 1", "(1, 2), (0, 1)", "1, 7")),
    "pad": text("np.pad({a}, {x})", a=any_array(rank=2),
                x=choice("1", "(1, 2)", "((1, 0), (0, 2))", "1, mode='edge'", "2, 'reflect'", "3, 'wrap'", "1, constant_values=5", "-1")),
    "take": text("np.take({a}, {x})", a=any_array(rank=2), x=choice("[0]", "0", "[0, -1], 1", "[[0, 0]], axis=0", "[99]")),
    "nonzero": text("np.nonzero({a})", a=any_array(rank=2, low=-1, high=1)), "flatnonzero": text("np.flatnonzero({a})", a=any_array(low=-1, high=1)),
    "argwhere": text("np.argwhere({a})", a=any_array(rank=2, low=-1, high=1)),
    "where": text("np.where({c}, {x}, {y})", c=lambda r: array(r, TYPES, (2, 3), -1, 1), x=lambda r: operand(r, TYPES, (2, 3)),
                  y=lambda r: operand(r, TYPES, (2, 3))),
    "clip": text("np.clip({a}, {x})", a=any_array(("int32", "int64", "float32", "float64")), x=choice("-2, 3", "None, 2", "0, None", "None, None", "1.5, 4")),
    "unique": text("np.unique({a}{x})", a=any_array(low=0, high=3), x=choice("", ", True", ", return_inverse=True, return_counts=True")),
    "searchsorted": text("np.searchsorted(np.sort({a}), {v}{x})", a=any_array(REALS, 1), v=any_array(REALS, 1), x=choice("", ", side='right'")),
    "ldexp": text("np.ldexp({a}, {x})", a=any_array(("uint8", "int32", "int64", "float32", "float64"), 2),
                  x=choice("3", "-2", "[1]", "np.array([[2], [-3]], dtype='int64')", "True", "1.5", "np.array([1], dtype='uint64')", "[2000]")),
    "logspace": text("np.logspace({a})", a=choice("0, 1", "0, 1, 5", "5, 1, 7", "0, 3, 4, False", "2, 3, 1", "0, 1, 0", "0, 1, -1", "0, 8, 9, base=2",
                                                  "0, 3, 4, dtype='float32'", "0, 4, 5, base=2.0, dtype='int32'")),
    "geomspace": text("np.geomspace({a})", a=choice("1, 1000", "1, 1000, 4", "-2, -32, 5", "8, 1, 7", "1, 8, 3, False", "2, 3, 1", "1, 2, 0", "1, 2, -1",
                                                    "0, 3", "-1, 8, 3", "1, 8, 4, dtype='float32'")),
    "identity": text("np.identity({a})", a=choice("3", "0", "2, 'int32'", "1, dtype=bool", "-1")),
    "rollaxis": text("np.rollaxis({a}, {x})", a=any_array(rank=3), x=choice("2", "1, 3", "-1, 1", "0, 2", "0, -1", "0, 4", "3", "1, start=1")),
    "unravel_index": text("np.unravel_index({a}, {s})", s=choice("(2, 3)", "(3, 2, 2)", "7", "(0, 2)"),
                          a=choice("5", "[0, 5]", "[[1], [2]]", "12", "-1", "1.5", "np.array([3, 4], dtype='uint64')", "np.array([], dtype='int64')")),
    "msort": text("np.msort({a})", a=ANY), "asfarray": text("np.asfarray({a}{d})", a=ANY, d=choice("", ", 'float32'", ", dtype='int32'")),
    "asscalar": text("np.asscalar({a})", a=choice("np.array([5])", "np.array(2.5)", "np.array([[True]])", "np.array([1, 2])")),
    "repmat": text("np.repmat({a}, {x})", a=choice("[1, 2]", "[[1.5], [2]]", "7", "np.zeros((2, 2, 2))", "np.zeros((0, 2))"), x=choice("2, 3", "1, 1", "0, 2", "3, 0")),
    "outer": text("np.outer({a}, {b})", a=any_array(SMALL, 1), b=any_array(REALS, 1)),
    "atleast_1d": text("np.atleast_1d({a})", a=ANY), "atleast_2d": text("np.atleast_2d({a})", a=ANY), "atleast_3d": text("np.atleast_3d({a})", a=ANY),
})
for each in ("around", "round", "round_"):
    FUNCTIONS[each] = text("np.{name}({a}{x})", a=any_array(low=-99, high=99), x=choice("", ", 1", ", decimals=2", ", -1", ", 0"))
# What is no function of the module: indexing, operators, methods.
OTHERS = {
    "[]": indexing, "[]=": assigning, "operators": operators, "unary operators": unary_operators, "in place": in_place,
    "astype": text("{a}.astype({d})", a=any_array(low=0, high=9), d=choice("'float32'", "'int32'", "'uint8'", "bool", "int", "'uint64'")),
    "attributes": text("({a}).{x}", a=ANY, x=choice("shape", "size", "ndim", "T", "itemsize", "nbytes", "dtype == 'float32'")),
    "methods": text("({a}).{x}", a=any_array(rank=2), x=choice("flatten()", "round(1)", "ravel()", "reshape(-1)", "tolist()", "transpose()",
                                                               "transpose(1, 0)", "tobytes()", "item()", "copy()", "nonzero()", "len()")),
}


def parts():
    """What has a maker in np_cases_parts.py."""
    import np_cases_parts  # which uses this file
    return np_cases_parts.FUNCTIONS


def case(name, random):
    """One line of a function's body, which returns what is to be compared."""
    line = (FUNCTIONS.get(name) or OTHERS.get(name) or parts()[name])(name, random)
    return line if "return " in line else "return " + line
