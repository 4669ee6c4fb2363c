# Scripts that give functions what they do not take, and bytes that are a lie. Each stands behind a line "# ====" with its
# name and the end it comes to; tests/support/hostile_sections.h reads them.

# ==== result_of_an_object: TypeError
import walle
walle.result(object())

# ==== result_that_floods: ValueError
import walle
walle.result("x" * 20000)

# ==== result_not_a_number: ValueError
import walle
walle.result(float("nan"))

# ==== result_with_keys_of_numbers: TypeError
import walle
walle.result({1: 2})

# ==== file_of_a_number: TypeError
import walle
walle.file(7)

# ==== file_outside: OSError
import walle
walle.file("../../etc/passwd")

# ==== blob_that_nobody_gave: OSError
import walle
walle.blob("camera" * 1000)

# ==== model_that_is_not: OSError
from walle import nn
nn.load("/etc/passwd")

# ==== tensor_of_a_huge_shape: ValueError
from walle import nn
nn.tensor([0.0], shape=(1 << 20, 1 << 20, 1 << 20))

# ==== tensor_of_text: TypeError
from walle import nn
nn.tensor("text")

# ==== trainer_of_nothing: TypeError
from walle import nn
nn.Trainer(None)

# ==== features_flood: ValueError
from walle import data
for i in range(1000):
    data.store("f", "k%d" % i, i)

# ==== uploads_flood: ValueError
from walle import data
for i in range(1000):
    data.upload("u", "x" * 10000)

# ==== store_flood: ValueError
from walle import store
for i in range(100000):
    store.put("k%d" % i, "x" * 1000)

# ==== feature_with_a_bad_name: ValueError
from walle import data
data.store("../../f", "k", 1)

# ==== query_of_a_huge_span: ValueError
from walle import data
data.query("f", "k", -1, 1 << 80)

# ==== expression_of_depth: ValueError
from walle import data
data.Filter(data.events(), "(" * 5000 + "1" + ")" * 5000)

# ==== window_of_no_size: ValueError
from walle import data
data.TimeWindow(data.events(), -5)

# ==== cloud_without_leave: OSError
from walle import cloud
cloud.infer("big", {"x": [1.0]})

# ==== cloud_with_nonsense: TypeError
from walle import cloud
cloud.infer(3, 4, 5)

# ==== np_shape_below_zero: ValueError
from walle import np
np.zeros((-5, 3))

# ==== np_shapes_apart: ValueError
from walle import np
np.zeros(3) + np.zeros(4)

# ==== np_place_beyond: IndexError
from walle import np
np.zeros(3)[1 << 62]

# ==== np_axis_beyond: ValueError
from walle import np
np.zeros((2, 2)).sum(axis=1 << 40)

# ==== np_type_that_is_not: TypeError
from walle import np
np.zeros(3, dtype="object")

# ==== cv_bytes_that_are_none: ValueError
from walle import cv
cv.imdecode(b"\xff\xd8\xff" + b"\x00" * 100, cv.IMREAD_COLOR)

# ==== cv_wrong_channels: ValueError
from walle import cv, np
cv.cvtColor(np.zeros((4, 4), dtype="uint8"), cv.COLOR_BGR2HSV)

# ==== cv_even_kernel: ValueError
from walle import cv, np
cv.GaussianBlur(np.zeros((4, 4), dtype="uint8"), (4, 4), 1)

# ==== cv_points_outside: ValueError
from walle import cv, np
cv.line(np.zeros((4, 4), dtype="uint8"), (1 << 40, 0), (0, 1 << 40), 1)

# ==== audio_file_that_lies: ValueError
import struct
from walle import audio
audio.wav_decode(b"RIFF" + struct.pack("<I", 0xffffffff) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 65535, 8000, 0, 0, 0))

# ==== audio_rate_of_nothing: ValueError
from walle import audio, np
audio.resample_poly(np.zeros(10), 0, 0)

# ==== audio_banks_of_nothing: ValueError
from walle import audio
audio.mel(0, -1, 0)

# ==== struct_of_too_few: ValueError
import struct
struct.unpack("1000q", b"x")

# ==== struct_of_addresses: ValueError
import struct
struct.pack("P", 0x41414141)

# ==== array_of_objects: ValueError
from array import array
array("O", [1])

# ==== json_cut: ValueError
import json
json.loads('{"a": [1, 2, {"b": "')

# ==== json_of_depth: ValueError
import json
json.loads("[" * 100)

# ==== pattern_that_is_none: ValueError
import re
re.compile("(((")

# ==== numbers_from_text: ValueError
int("f" * 1000, 10)

# ==== shift_below_zero: ValueError
1 << -1

# ==== divides_by_nothing: ZeroDivisionError
(1 << 4000) // 0

# ==== real_too_large: OverflowError
float(1 << 200000) * 1
int(float("inf"))

# ==== changes_under_iteration: RuntimeError
import heapq


class Lies:
    def __init__(self, heap):
        self.heap = heap

    def __lt__(self, other):
        self.heap.clear()
        return True


heap = []
heap += [Lies(heap) for _ in range(50)]
heapq.heapify(heap)

# ==== dict_changes_in_lookup: RuntimeError
class Key:
    def __init__(self, d):
        self.d = d

    def __hash__(self):
        return 5

    def __eq__(self, other):
        self.d.clear()
        for i in range(64):
            self.d[i] = i
        return False


d = {}
for _ in range(8):
    d[Key(d)] = 1

# ==== order_that_is_a_lie: RuntimeError
class Mad:
    def __lt__(self, other):
        raise RuntimeError("no order")


sorted([Mad() for _ in range(100)])

# ==== generator_in_itself: ValueError
def g():
    yield next(it)


it = g()
next(it)

# ==== raises_what_is_none: TypeError
raise 5

# ==== raises_past_every_handler: KeyboardInterrupt
try:
    raise KeyboardInterrupt
except Exception:
    pass

# ==== leaves_with_a_code: SystemExit
import sys
sys.exit(5)

# ==== raises_the_end_of_a_loop: StopIteration
raise StopIteration

# ==== error_with_a_long_text: ValueError
raise ValueError("\x1b[2J" * 20000)

# ==== error_whose_text_fails: Bad
class Bad(Exception):
    def __str__(self):
        raise Bad


raise Bad

# ==== compiles: NameError
exec("1")

# ==== opens: NameError
open("/etc/passwd")

# ==== imports_the_system: ImportError
import os

# ==== imports_sockets: ImportError
import socket

# ==== imports_what_cannot_be: ImportError
__import__("../" * 20 + "etc/passwd")

# ==== reaches_for_modules: AttributeError
import sys
sys.modules

# ==== reaches_for_frames: AttributeError
def f():
    pass


f.__code__.co_code

# ==== writes_into_bytes: TypeError
b"abc"[0] = 1

# ==== view_beyond_its_bytes: IndexError
memoryview(b"abc")[1 << 40]

# ==== names_that_are_none: NameError
globals().clear()
walle

# ==== unpacks_too_many: ValueError
a, *b, c = ()

# ==== cv_kernel_without_measure: ValueError
from walle import cv
cv.getStructuringElement(cv.MORPH_RECT, (4001, 4001))

# ==== tensor_of_a_range: TypeError
from walle import nn
nn.tensor(range(10000000))

# ==== np_shape_that_wraps: memory
from walle import np
np.zeros((1 << 31, 1 << 31, 1 << 31))

# ==== cv_png_that_lies: memory
import struct
from walle import cv


def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ 0xedb88320 if c & 1 else c >> 1
    return c ^ 0xffffffff


def chunk(data):
    return struct.pack(">I", len(data) - 4) + data + struct.pack(">I", crc(data))


head = b"IHDR" + struct.pack(">IIBBBBB", 30000, 30000, 8, 6, 0, 0, 0)
body = b"IDAT" + bytes([0x78, 0x9c, 0x63, 0, 0, 0, 1, 0, 1])
cv.imdecode(b"\x89PNG\r\n\x1a\n" + chunk(head) + chunk(body), cv.IMREAD_COLOR)

# ==== cv_jpeg_that_lies: memory
import struct
from walle import cv, np
jpeg = bytearray(bytes(cv.imencode(".jpg", np.zeros((8, 8, 3), dtype="uint8"))[1].tolist()))
at = jpeg.find(b"\xff\xc0")
struct.pack_into(">HH", jpeg, at + 5, 32000, 32000)
cv.imdecode(bytes(jpeg), cv.IMREAD_COLOR)

# ==== cv_jpeg_beyond_all: ValueError
import struct
from walle import cv, np
jpeg = bytearray(bytes(cv.imencode(".jpg", np.zeros((8, 8, 3), dtype="uint8"))[1].tolist()))
at = jpeg.find(b"\xff\xc0")
struct.pack_into(">HH", jpeg, at + 5, 65000, 65000)
cv.imdecode(bytes(jpeg), cv.IMREAD_COLOR)

# ==== format_looks_inside: NotImplementedError
"{0.__class__}".format(1)

# ==== format_of_nothing: IndexError
"{99}".format(1)

# ==== error_with_a_long_name: EEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEE
raise type("E" * 200, (Exception,), {})("named")

# ==== takes_the_builtins_away: KeyError
import builtins
builtins.len = None
builtins.print = builtins.range = builtins.__import__ = lambda *a: 1 // 0
del builtins.sorted

# ==== array_of_itself: ValueError
from walle import np
a = []
a.append(a)
np.array(a)

# ==== cv_iterations_without_end: ValueError
from walle import cv, np
cv.dilate(np.zeros((100, 100), dtype="uint8"), np.ones((3, 3), dtype="uint8"), iterations=1 << 30)

# ==== super_of_nothing: TypeError
super().__init__()
