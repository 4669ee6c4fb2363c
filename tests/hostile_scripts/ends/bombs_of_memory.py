# Scripts that want more memory than a run has, by every way there is. Each stands behind a line "# ====" with its name
# and the end it comes to; tests/support/hostile_sections.h reads them.

# ==== list_doubles: memory
a = [1]
while True:
    a = a + a

# ==== list_appends: memory
a = []
while True:
    a.append(a[:])
    a.append(0)

# ==== bytes_double: memory
b = b"x"
while True:
    b += b

# ==== text_at_once: memory
"x" * 1000000000

# ==== bytearray_of_a_terabyte: memory
bytearray(1 << 40)

# ==== dict_grows: memory
d, i = {}, 0
while True:
    d[i] = i
    i += 1

# ==== set_grows: memory
s, i = set(), 0
while True:
    s.add((i, i))
    i += 1

# ==== tuples_in_tuples: memory
t = ()
while True:
    t = (t, t)

# ==== closures_in_closures: memory
def wrap(f):
    return lambda: f


f = None
while True:
    f = wrap(f)

# ==== generators_kept: memory
def count():
    x = yield
    yield x


kept = []
while True:
    g = count()
    next(g)
    kept.append(g)

# ==== classes_kept: memory
base = object
kept = []
while True:
    kept.append(type("C", (base,), {"x": bytearray(64)}))

# ==== instances_with_attributes: memory
class Bag:
    pass


bag, i = Bag(), 0
while True:
    setattr(bag, "n%d" % i, i)
    i += 1

# ==== names_without_end: memory
i = 0
while True:
    globals()["a_name_of_some_length_%d" % i] = i
    i += 1

# ==== shift_to_the_left: memory
1 << 100000000

# ==== numbers_double: memory
n = 3
while True:
    n = n << n.bit_length() if hasattr(n, "bit_length") else n << 5000

# ==== join_of_references: memory
",".join(["x" * 1000] * 2000)

# ==== percent_width: memory
"%900000000d" % 1

# ==== braces_width: memory
"{:>900000000}".format(1)

# ==== replace_that_grows: memory
("a" * 1000).replace("a", "b" * 1000)

# ==== split_into_many: memory
("a " * 50000).split()

# ==== json_written: memory
import json
json.dumps(["x" * 1000] * 2000)

# ==== json_read: memory
import json
json.loads("[" + "[]," * 20000 + "0]")

# ==== pattern_substitutes: memory
import re
re.sub("a", "b" * 2000, "a" * 2000)

# ==== array_of_reals: memory
from array import array
array("d", range(10000000))

# ==== deque_with_room: memory
from collections import deque
deque((), 1 << 28)

# ==== struct_of_a_gap: memory
import struct
struct.pack("60000000s", b"")

# ==== stream_in_memory: memory
import io
stream = io.BytesIO()
while True:
    stream.write(b"0123456789" * 100)

# ==== hex_of_hex: memory
import binascii
b = b"x"
while True:
    b = binascii.hexlify(b)

# ==== sorted_range: memory
sorted(range(1000000000))

# ==== arguments_by_place: memory
def take(*a):
    return a


take(*range(1000000))

# ==== arguments_by_name: memory
def take(**a):
    return a


n = 1
while True:
    take(**{"a%d" % i: i for i in range(n)})
    n *= 2

# ==== heap_queue: memory
import heapq
heap, i = [], 0
while True:
    heapq.heappush(heap, (i * 7919 % 1000, i))
    i += 1

# ==== np_zeros: memory
from walle import np
np.zeros((1 << 14, 1 << 14))

# ==== np_broadcast: memory
from walle import np
np.zeros((1000, 1)) + np.zeros((1, 1000))

# ==== np_tile_of_a_view: memory
from walle import np
np.tile(np.zeros(10), 1000000)

# ==== np_joins: memory
from walle import np
a = np.zeros(16)
while True:
    a = np.concatenate([a, a])

# ==== np_border: memory
from walle import np
np.pad(np.zeros(4), 30000000)

# ==== np_outer: memory
from walle import np
np.outer(np.zeros(2000), np.zeros(2000))

# ==== np_one_of_many: memory
from walle import np
np.arange(1e8)

# ==== np_view_copied: memory
from walle import np
np.broadcast_to(np.zeros(1), (100000, 100000)).copy()

# ==== cv_resize: memory
from walle import cv, np
cv.resize(np.zeros((4, 4, 3), dtype="uint8"), (20000, 20000))

# ==== cv_border: memory
from walle import cv, np
cv.copyMakeBorder(np.zeros((4, 4), dtype="uint8"), 9999, 9999, 9999, 9999, cv.BORDER_CONSTANT)

# ==== cv_joins: memory
from walle import cv, np
a = np.zeros((4, 4, 3), dtype="uint8")
while True:
    a = cv.hconcat([a, a])

# ==== cv_pyramid: memory
from walle import cv, np
a = np.zeros((8, 8), dtype="uint8")
while True:
    a = cv.pyrUp(a)

# ==== audio_other_rate: memory
from walle import audio, np
audio.resample_poly(np.zeros(1000), 1000, 1)

# ==== audio_pieces_copied: memory
from walle import audio, np
audio.frames(np.zeros(4000), 2000, 1).copy()

# ==== audio_file_doubles: memory
from walle import audio, np
x = np.zeros(64)
while True:
    x = np.concatenate([x, audio.wav_decode(audio.wav_encode(x, 8000))[0]])

# ==== store_reads_back: memory
from walle import store
kept = []
store.put("a", "x" * 10000)
while True:
    kept.append(store.get("a"))

# ==== text_stream_in_memory: memory
import io
stream = io.StringIO()
while True:
    stream.write("0123456789" * 10)

# ==== list_of_endless: memory
def zeros():
    while True:
        yield 0


list(zeros())

# ==== tensors_kept: memory
from walle import nn
kept = []
while True:
    kept.append(nn.tensor([1.0] * 1000))

# ==== iterates_what_grows: memory
a = [1]
for x in a:
    a.append(x)

# ==== strings_of_parts: memory
s = "0123456789" * 1000
kept = []
while True:
    kept.append(s[1:-1] + "x")
