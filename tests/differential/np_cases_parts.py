"""Random uses of walle.np.linalg, walle.np.fft and walle.np.random, for np_cases.py: makers by name, as `linalg.norm`.

Where NumPy's own result is one of several (signs of vectors), a case gives what they are of. Complex numbers are pairs of
reals on the device: `spectrum(f, x, ...)` calls a function with pairs in both (test_np_differential.py defines it for
NumPy). Of random numbers every bit is compared.
"""
import np_cases

REALS = np_cases.REALS
NUMBERS = ("int32", "int64", "float32", "float64")


def stack_of(random):
    return random.choice(((), (), (), (2,), (0,), (2, 1)))


def regular(random, size=None, dtypes=NUMBERS, front=None):
    """A square matrix whose diagonal is large: far from singular."""
    size = random.randint(0 if random.random() < 0.1 else 1, 5) if size is None else size
    front = stack_of(random) if front is None else front
    return f"({np_cases.array(random, dtypes, (*front, size, size), -3, 3)} + np.eye({size}, dtype='int32') * {random.choice((20, -25))})"


def singular(random):
    return random.choice(("np.zeros((2, 2))", "np.array([[1, 2], [2, 4]])", "np.array([[[1.0, 0], [0, 2]], [[0, 0], [0, 0]]])",
                          "np.ones(3)", "np.ones((2, 3))", "5", "np.ones((3, 3), dtype='float32')"))


def squares(name, random):
    return f"np.{name}({singular(random) if random.random() < 0.15 else regular(random)})"


def solves(_, random):
    size = random.randint(1, 4)
    a = singular(random) if random.random() < 0.1 else regular(random, size)
    shape = random.choice(((size,), (size, 2), (2, size, 1), (size, 0), (size + 1, 1)))
    return f"np.linalg.solve({a}, {np_cases.array(random, NUMBERS, shape)})"


def definite(name, random):
    size = random.randint(1, 5)
    if random.random() < 0.15:
        return f"np.{name}({random.choice(('np.array([[1, 2], [2, 1]])', 'np.ones(3)', 'np.ones((2, 3))', 'np.zeros((2, 2))'))})"
    return f"a = {regular(random, size, NUMBERS)}; return np.{name}(a @ np.swapaxes(a, -1, -2))"


def matrix(random, dtypes=NUMBERS):
    front = stack_of(random)
    rows, columns = random.randint(1, 6), random.randint(1, 6)
    low, high = ((-1, 1) if random.random() < 0.2 else (-9, 9))  # of small whole numbers many are of a lower rank
    return np_cases.array(random, dtypes, (*front, rows, columns), low, high)


def factors_qr(_, random):
    mode = random.choice(("reduced", "complete"))
    if random.random() < 0.3:
        return f"np.linalg.qr({matrix(random)}, mode='{random.choice(('r', 'nothing'))}').shape"
    return (f"a = {matrix(random)}; q, r = np.linalg.qr(a, '{mode}'); "
            "return [q.shape, r.shape, q.dtype == r.dtype, np.swapaxes(q, -1, -2) @ q, q @ r, "
            "(np.abs(r) * (np.arange(r.shape[-2]).reshape((-1, 1)) > np.arange(r.shape[-1]))).sum()]")


def factors_svd(_, random):
    if random.random() < 0.3:
        return f"np.linalg.svd({random.choice((matrix(random), 'np.ones(3)'))}, compute_uv=False)"
    full = random.choice(("True", "False"))
    return (f"a = {matrix(random)}; u, s, v = np.linalg.svd(a, full_matrices={full}); k = s.shape[-1]; "
            "return [u.shape, v.shape, s, (u[..., :k] * s[..., None, :]) @ v[..., :k, :], np.swapaxes(u, -1, -2) @ u, "
            "v @ np.swapaxes(v, -1, -2)]")


def eigens(_, random):
    size = random.randint(1, 5)
    front = random.choice(((), (2,)))
    half = random.choice(("", ", 'U'", ", UPLO='L'", ", 'x'"))
    return (f"a = {np_cases.array(random, NUMBERS, (*front, size, size))}; w, v = np.linalg.eigh(a{half}); "
            "return [w, (v * w[..., None, :]) @ np.swapaxes(v, -1, -2), np.swapaxes(v, -1, -2) @ v]")


def eigenvalues(_, random):
    return f"np.linalg.eigvalsh({np_cases.array(random, NUMBERS, random.choice(((3, 3), (2, 4, 4), (1, 1), (2, 3), (0, 2, 2))))})"


def inverses(_, random):
    shape = random.choice(((3, 2), (2, 4), (4, 4), (0, 3), (2, 3, 2)))
    return f"a = {np_cases.array(random, NUMBERS, shape)}; return [np.linalg.pinv(a, 1e-4), np.linalg.pinv(a, rcond=0.3).shape]"


def least_squares(_, random):
    rows, columns = random.randint(1, 6), random.randint(1, 4)
    b = np_cases.array(random, NUMBERS, random.choice(((rows,), (rows, 2), (rows, 1), (rows + 1,))))
    return f"x, left, rank, s = np.linalg.lstsq({np_cases.array(random, NUMBERS, (rows, columns))}, {b}, rcond=1e-4); return [x, left, int(rank), s]"


def norms(_, random):
    rank = random.choice((0, 1, 1, 2, 2, 3))
    shape = np_cases.shape_of(random, rank)
    order = random.choice(("None", "1", "2", "-1", "-2", "0", "3", "0.5", "np.inf", "-np.inf", "'fro'", "'nuc'", "'nothing'"))
    axis = random.choice(("None", str(random.randint(-rank, max(rank - 1, 0))), "(0, 1)", "(-1, 0)", "(0, 0)", "7"))
    x = np_cases.array(random, NUMBERS, shape, 1, 9) if random.random() < 0.5 else np_cases.array(random, np_cases.TYPES, shape, 1, 9)
    return f"np.linalg.norm({x}, {order}, axis={axis}, keepdims={random.choice(('True', 'False'))})"


def ranks(_, random):
    return f"np.linalg.matrix_rank({random.choice((matrix(random), singular(random)))}{random.choice(('', '', ', tol=2.0'))})"


def powers(_, random):
    a = singular(random) if random.random() < 0.15 else regular(random, random.randint(1, 3), front=random.choice(((), (2,))))
    return f"np.linalg.matrix_power({a}, {random.choice(('0', '1', '2', '3', '5', '-1', '-2'))})"


# --- transforms

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)


def more_of(random, norm=True):
    more = random.choice(("", "", f", {random.choice(LENGTHS)}", ", 0" if random.random() < 0.2 else ", n=5"))
    more += random.choice(("", "", ", axis=0", ", axis=5" if random.random() < 0.2 else ", axis=-1"))
    return more + (random.choice(("", "", ", norm='ortho'", ", norm='forward'", ", norm='backward'", ", norm='x'"
                                  if random.random() < 0.2 else "")) if norm else "")


def signal(random):
    return np_cases.array(random, np_cases.TYPES, random.choice(((random.choice(LENGTHS),), (random.choice(LENGTHS), 2),
                                                                 (2, random.choice(LENGTHS)), (0, 4))))


def complex_signal(random):
    return np_cases.array(random, REALS, (*random.choice(((random.choice(LENGTHS),), (2, random.choice(LENGTHS)))), 2))


def transforms(name, random):
    if name == "fft.rfft" or (name == "fft.fft" and random.random() < 0.5):
        return f"np.{name}({signal(random)}{more_of(random)})"
    return f"spectrum(np.{name}, {complex_signal(random)}{more_of(random)})"


def transforms_of_two(name, random):
    more = random.choice(("", ", (3, 5)", ", axes=(1, 0)", ", s=(2, 2), axes=(-1, 0)", ", norm='ortho'", ", axes=(0, 7)"))
    x = np_cases.array(random, REALS, (random.choice(LENGTHS[:8]), random.choice(LENGTHS[:8]), 2))
    return f"np.fft.fft2({x}[..., 0]{more})" if name == "fft.fft2" and random.random() < 0.5 else f"spectrum(np.{name}, {x}{more})"


def frequencies(name, random):
    return f"np.{name}({random.choice(('8', '7', '1', '9, 0.1', '4, d=2', '0', '2.5', '10, 0'))})"


def shifts(name, random):
    if random.random() < 0.3:
        return f"spectrum(np.{name}, {complex_signal(random)})"
    return f"np.{name}({np_cases.array(random, np_cases.TYPES, np_cases.shape_of(random, 2))}{random.choice(('', ', 0', ', axes=(0, 1)', ', axes=-1', ', 5'))})"


# --- random numbers

def seed_text(random):
    return random.choice((str(random.randint(0, 2**32 - 1)), "0", "4294967295", f"[{random.randint(0, 99)}, 7, {random.randint(0, 2**32 - 1)}]",
                          "np.array([5])", "np.arange(700)"))


def seeds(_, random):
    wrong = ("-1", "4294967296", "2 ** 63", "1.5", "[]", "[[1, 2]]", "[-1]", "[2 ** 40]", "[1.5, 2]")
    given = random.choice(wrong) if random.random() < 0.4 else seed_text(random)
    return f"np.random.seed({given}); return [np.random.random(), np.random.random(700)[690:], np.random.randn()]"


def after_seed(*calls):
    """Two of the calls one after the other, behind a seed: what one leaves behind is seen in the next."""
    def make(_, random):
        lines = [random.choice(calls) for _ in range(2)]
        return f"np.random.seed({seed_text(random)}); return [{', '.join(lines)}, np.random.random()]"
    return make


def whole_numbers(_, random):
    bounds = random.choice(("7", "0, 10", "-5, 5", "0, 2 ** 31 - 1", "-2 ** 62, 2 ** 62", "3, 4", "2.7", "0, 256", "0, 2", "1, 200", "5, 5", "5, 2",
                            "0, 2 ** 32", "0, 2 ** 33", "2 ** 63, 2 ** 64 - 1", "-2 ** 63, 2 ** 63 - 1", "0, 2 ** 63", "-1", "250, 300"))
    size = random.choice(("", ", size=5", ", size=(2, 3)", ", size=0", ", size=33"))
    dtype = random.choice(("", "", ", dtype='int32'", ", dtype='uint8'", ", dtype='bool'", ", dtype='uint64'", ", dtype=int", ", dtype='float32'"))
    return f"np.random.seed({seed_text(random)}); return [np.random.randint({bounds}{size}{dtype}), np.random.random()]"


def shuffles(_, random):
    x = random.choice((np_cases.array(random, np_cases.TYPES, np_cases.shape_of(random, random.choice((1, 2, 3)))), "np.arange(50)", "[1, 2, 3, 'a', 5]",
                       "np.array(5)", "(1, 2)", "[]"))
    return f"np.random.seed({seed_text(random)}); x = {x}; np.random.shuffle(x); return [x if isinstance(x, np.ndarray) else str(x), np.random.random()]"


def permutations(_, random):
    x = random.choice((np_cases.array(random, np_cases.TYPES, np_cases.shape_of(random, random.choice((1, 2)))), "10", "0", "[3, 4, 5]", "2.5"))
    return f"np.random.seed({seed_text(random)}); return [np.random.permutation({x}), np.random.random()]"


def choices(_, random):
    a = random.choice(("5", "np.array([1.5, 2.5, 3, 4, 9])", "[7, 8, 9, 10, 11]", "0", "np.ones((2, 2))", "2.5"))
    size = random.choice(("", ", 3", ", (2, 2)", ", 5", ", 9", ", 0"))
    replace = random.choice(("", ", replace=False"))
    p = random.choice(("", "", ", p=[0.1, 0.2, 0.3, 0.15, 0.25]", ", p=[0.5, 0, 0.25, 0.25, 0]", ", p=[0.5, 0.5]", ", p=[0.5, 0.7, -0.2, 0, 0]",
                       ", p=[0.1, 0.1, 0.1, 0.1, 0.1]"))
    return f"np.random.seed({seed_text(random)}); return [np.random.choice({a}{size}{replace}{p}), np.random.random()]"


SIZES = ("", "5", "(2, 3)", "()", "0", "(0, 2)", "-1")
FUNCTIONS = {
    "linalg.LinAlgError": lambda _, random: "issubclass(np.linalg.LinAlgError, Exception)",
    "linalg.cholesky": definite, "linalg.det": squares, "linalg.eigh": eigens, "linalg.eigvalsh": eigenvalues, "linalg.inv": squares,
    "linalg.lstsq": least_squares, "linalg.matrix_power": powers, "linalg.matrix_rank": ranks, "linalg.norm": norms, "linalg.pinv": inverses,
    "linalg.qr": factors_qr, "linalg.slogdet": squares, "linalg.solve": solves, "linalg.svd": factors_svd,
    "fft.fft": transforms, "fft.ifft": transforms, "fft.rfft": transforms, "fft.irfft": transforms, "fft.fft2": transforms_of_two,
    "fft.ifft2": transforms_of_two, "fft.fftfreq": frequencies, "fft.rfftfreq": frequencies, "fft.fftshift": shifts, "fft.ifftshift": shifts,
    "random.seed": seeds, "random.randint": whole_numbers, "random.shuffle": shuffles, "random.permutation": permutations, "random.choice": choices,
    "random.rand": after_seed("np.random.rand()", "np.random.rand(3)", "np.random.rand(2, 3)", "np.random.rand(0)"),
    "random.randn": after_seed("np.random.randn()", "np.random.randn(3)", "np.random.randn(2, 5)"),
    "random.random": after_seed(*(f"np.random.random({size})" for size in SIZES)),
    "random.random_sample": after_seed(*(f"np.random.random_sample({size})" for size in SIZES)),
    "random.standard_normal": after_seed(*(f"np.random.standard_normal({size})" for size in SIZES)),
    "random.uniform": after_seed("np.random.uniform()", "np.random.uniform(2, 5, 4)", "np.random.uniform([1, 2], [3, 4])", "np.random.uniform(5, 1, (2, 2))",
                                 "np.random.uniform([1, 2], 9, (3, 2))", "np.random.uniform(np.inf)", "np.random.uniform(size=3, high=2)"),
    "random.normal": after_seed("np.random.normal()", "np.random.normal(5, 2, 3)", "np.random.normal([1, 2, 3], 0.5)", "np.random.normal(0, -1)",
                                "np.random.normal(np.zeros((2, 1)), [1, 2])", "np.random.normal(size=(2, 2))"),
    "random.exponential": after_seed("np.random.exponential()", "np.random.exponential(3, 4)", "np.random.exponential([1, 2])", "np.random.exponential(-1)"),
}
