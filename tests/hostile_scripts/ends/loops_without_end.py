# Scripts that would go on for ever, and hold on to whatever stops them. Each stands behind a line "# ====" with its name
# and the end it comes to; tests/support/hostile_sections.h reads them.

# ==== nothing_at_all: budget
while True:
    pass

# ==== catches_the_deadline: budget
while True:
    try:
        while True:
            pass
    except BaseException:
        continue

# ==== catches_want_of_memory: budget
while True:
    try:
        a = [0]
        while True:
            a = a + a
    except MemoryError:
        pass

# ==== catches_depth: budget
def deeper():
    try:
        return deeper()
    except RuntimeError:
        return deeper()


while True:
    try:
        deeper()
    except RuntimeError:
        pass

# ==== finally_without_end: budget
try:
    raise ValueError
finally:
    while True:
        pass

# ==== exit_that_swallows: budget
class Door:
    def __enter__(self):
        return self

    def __exit__(self, *a):
        return True


while True:
    with Door():
        while True:
            pass

# ==== closed_generator: budget
def stubborn():
    while True:
        try:
            yield
        except GeneratorExit:
            while True:
                pass


g = stubborn()
next(g)
g.close()

# ==== generator_passes_on: budget
def forever():
    while True:
        yield 1


def through():
    while True:
        yield from forever()


for _ in through():
    pass

# ==== long_range: budget
for _ in range(1 << 60):
    pass

# ==== range_of_the_largest: budget
max(range(1 << 60))

# ==== equality_without_end: budget
class Never:
    def __eq__(self, other):
        while True:
            pass


[Never()].index(Never())

# ==== hash_without_end: budget
class Never:
    def __hash__(self):
        while True:
            pass


{Never(): 1}

# ==== length_without_end: budget
class Never:
    def __len__(self):
        while True:
            pass


len(Never())

# ==== truth_without_end: budget
class Never:
    def __bool__(self):
        while True:
            pass


not Never()

# ==== text_without_end: budget
class Never:
    def __str__(self):
        while True:
            pass


"{}".format(Never())

# ==== attribute_without_end: budget
class Never:
    def __getattr__(self, name):
        while True:
            pass


Never().anything

# ==== error_whose_text_does_not_end: budget
class Silent(Exception):
    def __str__(self):
        while True:
            pass


str(Silent())

# ==== sort_key_without_end: budget
def key(x):
    while True:
        pass


[2, 1].sort(key=key)

# ==== sorts_again_and_again: budget
a = list(range(3000))
while True:
    a.sort(key=lambda x: -x)
    a.reverse()

# ==== one_slot_for_all: budget
class Same:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


while True:
    d = {}
    for i in range(500):
        d[Same()] = i

# ==== pattern_steps_back: budget
import re
while True:
    re.match("(a|aa)+b", "a" * 30)

# ==== long_numbers_multiplied: budget
n = (1 << 60000) - 1
while True:
    n * n

# ==== power_of_long_numbers: budget
while True:
    pow(3, (1 << 4000) - 1, (1 << 4000) - 3)

# ==== digits_of_long_numbers: budget
n = 1 << 100000
while True:
    str(n)

# ==== reads_long_numbers: budget
s = "9" * 20000
while True:
    int(s)

# ==== collects_garbage: budget
import gc
while True:
    gc.collect()

# ==== prints_without_end: budget
while True:
    print("x" * 1000)

# ==== logs_without_end: budget
import walle
while True:
    walle.log("flood", "y" * 10, {"z": [1, 2, 3]})

# ==== results_without_end: budget
import walle
while True:
    walle.result("x" * 16000)

# ==== asks_the_store: budget
from walle import store
while True:
    store.put("k", "v")
    store.delete("k")
    store.clear()

# ==== asks_for_features: budget
from walle import data
while True:
    data.query("nothing", None)

# ==== asks_the_cloud: budget
from walle import cloud
while True:
    cloud.infer("big", {"x": [1.0]}, 600000, on_fail=None)

# ==== loads_what_is_not: budget
from walle import nn
while True:
    try:
        nn.load("gone.onnx")
    except OSError:
        pass

# ==== np_products: budget
from walle import np
a = np.ones((60, 60))
while True:
    a @ a

# ==== np_powers: budget
from walle import np
a = np.ones((12, 12)) / 12
while True:
    np.linalg.matrix_power(a, 1 << 30) if hasattr(np, "linalg") else np.power(a, a)

# ==== np_calls_back: budget
from walle import np
while True:
    np.array([[float(x) for x in range(50)] for _ in range(10)]).tolist()

# ==== cv_filters: budget
from walle import cv, np
a = np.zeros((100, 100), dtype="uint8")
while True:
    cv.GaussianBlur(a, (31, 31), 9)

# ==== cv_draws: budget
from walle import cv, np
a = np.zeros((100, 100), dtype="uint8")
while True:
    cv.circle(a, (50, 50), 2000, 255, -1)

# ==== cv_reads_and_writes: budget
from walle import cv, np
a = np.zeros((64, 64, 3), dtype="uint8")
while True:
    a = cv.imdecode(cv.imencode(".png", a)[1], cv.IMREAD_COLOR)

# ==== audio_spectra: budget
from walle import audio, np
x = np.zeros(2000)
while True:
    audio.spectrogram(x, 16000)

# ==== imports_without_end: budget
while True:
    try:
        import nowhere
    except ImportError:
        pass

# ==== calls_each_other: budget
def ping(n):
    return pong


def pong(n):
    return ping


f = ping
while True:
    f = f(0)

# ==== exceptions_chained: budget
# Where there is no room for an error with what it holds, there is one without: so this goes on.
last = None
while True:
    try:
        raise ValueError(last)
    except ValueError as error:
        last = error

# ==== sum_of_endless: budget
def zeros():
    while True:
        yield 0


sum(zeros())

# ==== any_of_endless: budget
def zeros():
    while True:
        yield 0


any(zeros())

# ==== looks_for_what_is_not: budget
def zeros():
    while True:
        yield 0


1 in zeros()

# ==== zip_of_endless: budget
def zeros():
    while True:
        yield 0


for _ in zip(zeros(), zeros()):
    pass

# ==== filter_lets_nothing: budget
def zeros():
    while True:
        yield 0


next(filter(None, zeros()))

# ==== np_sorts: budget
from walle import np
a = np.arange(2000) * 7919 % 2000
while True:
    np.sort(a)
    np.unique(a)

# ==== cv_many_times: budget
from walle import cv, np
while True:
    cv.dilate(np.zeros((100, 100), dtype="uint8"), np.ones((3, 3), dtype="uint8"), iterations=8)

# ==== throws_into_generator: budget
def g():
    while True:
        try:
            yield
        except ValueError:
            pass


it = g()
next(it)
while True:
    it.throw(ValueError)
