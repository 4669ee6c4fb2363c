# Scripts that go deeper than the stack of a run. Each stands behind a line "# ====" with its name and the end it comes
# to; tests/support/hostile_sections.h reads them.

# ==== calls_itself: stack
def f():
    return f()


f()

# ==== calls_itself_with_state: stack
def f(a, b, c, *d, **e):
    return f(a, b, c, *d, **e) + 1


f(1, 2, 3, 4, x=5)

# ==== calls_by_each_other: stack
def f(n):
    return g(n)


def g(n):
    return f(n)


f(0)

# ==== calls_by_key: stack
def f(x):
    return sorted([x, x], key=f)


f(1)

# ==== calls_by_map: stack
def f(x):
    return list(map(f, [x]))


f(1)

# ==== calls_by_pattern: stack
import re


def f(m):
    return re.sub("a", f, "a")


f(None)

# ==== calls_by_text: stack
class A:
    def __str__(self):
        return "%s" % self


str(A())

# ==== calls_by_repr: stack
class A:
    def __repr__(self):
        return repr([self])


repr(A())

# ==== calls_by_attribute: stack
class A:
    def __getattr__(self, name):
        return getattr(self, name + "x")


A().a

# ==== calls_by_item: stack
class A:
    def __getitem__(self, i):
        return self[i + 1]


A()[0]

# ==== calls_by_sum: stack
class A:
    def __add__(self, other):
        return self + other


A() + A()

# ==== calls_by_equality: stack
class A:
    def __eq__(self, other):
        return self == other


A() == A()

# ==== calls_by_generator: stack
def g():
    yield from g()


next(g())

# ==== calls_by_property: stack
class A:
    @property
    def x(self):
        return self.x


A().x

# ==== calls_by_making: stack
class A:
    def __init__(self):
        A()


A()

# ==== calls_by_door: stack
class A:
    def __enter__(self):
        with self:
            pass

    def __exit__(self, *a):
        pass


with A():
    pass

# ==== calls_in_handler: stack
def f():
    try:
        raise ValueError
    except ValueError:
        f()


f()

# ==== calls_in_finally: stack
def f():
    try:
        return 1
    finally:
        f()


f()

# ==== list_in_list_shown: stack
a = []
for _ in range(3000):
    a = [a]
repr(a)

# ==== list_of_itself_compared: stack
a, b = [], []
a.append(a)
b.append(b)
a == b

# ==== tuple_in_tuple_hashed: stack
t = ()
for _ in range(3000):
    t = (t,)
hash(t)

# ==== json_of_itself: stack
import json
a = []
a.append(a)
json.dumps(a)

# ==== result_of_itself: stack
import walle
d = {}
d["d"] = d
walle.result(d)

# ==== pattern_of_groups: stack
import re
re.compile("(" * 2000 + ")" * 2000)
re.match("(" * 2000 + ")" * 2000, "")

# ==== stored_of_itself: stack
from walle import data
a = []
a.append(a)
data.store("deep", "k", a)

# ==== map_of_map: stack
m = [1]
for _ in range(3500):
    m = map(str, m)
list(m)
