"""The engines that the differential test compares, each in a process of its own that takes models one after another.

Ours      diff_worker, by frames over its standard streams
Ort       ONNX Runtime through the C interface of the library its npm package bundles, by pickles to this file run as a
          program (a model may end that process: division of integers by zero does). The numbers are places in the
          library's table of functions, which only ever grows at its end.

Both answer run(...) with a list of outcomes: an Outcome has a status ("ok", "error", "unsteady", "crash", "hang"), a text,
and outputs: one entry per graph output, an array, or a list of arrays for a sequence, or None for an empty optional.
"""
import collections
import ctypes
import os
import pickle
import select
import struct
import subprocess
import sys
import time

import numpy as np

DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 8: np.object_,
          9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64, 15: np.complex128}
NUMBERS = {np.dtype(value): key for key, value in DTYPES.items()}
ANSWER_S = 60  # a frame that takes longer is a hang
Outcome = collections.namedtuple("Outcome", "status text outputs")


def crashed(text):
    return Outcome("crash", text, None)


class Process:
    """A child process that answers frames: four bytes of length, then the bytes."""

    def __init__(self, command, environment=None):
        self.command = command
        self.environment = environment
        self.process = None
        self.errors = None

    def start(self):
        self.errors = open(f"/tmp/diff-{os.getpid()}-{id(self)}.err", "w+b")
        os.unlink(self.errors.name)
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=self.environment)

    def read(self, size, deadline):
        parts = []
        while size > 0:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ask(self, frame):
        """The answer; or ("crash"|"hang", text) when there is none."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(struct.pack("<I", len(frame)) + frame)
            self.process.stdin.flush()
            deadline = time.monotonic() + ANSWER_S
            size, = struct.unpack("<I", self.read(4, deadline))
            return self.read(size, deadline)
        except TimeoutError:
            self.process.kill()
            self.close()
            return "hang", f"no answer in {ANSWER_S} s"
        except (EOFError, BrokenPipeError):
            code, text = self.close()
            return "crash", f"exit {code}: {text}"

    def close(self):
        """Ends the process; its exit code and what it wrote to its standard error."""
        if self.process is None:
            return 0, ""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        self.process.stdout.close()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.errors.close()
        self.process = None
        return code, text[-6000:]


# ---- ours ----------------------------------------------------------------------------------------------------------

class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form="I"):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def bytes(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def array(self):
        dtype, rank = self.number(), self.number()
        dims = [self.number("q") for _ in range(rank)]
        data = self.bytes(self.number("Q"))
        if dtype == 8:
            inner, texts = Cursor(data), []
            while inner.at < len(data):
                texts.append(inner.bytes(inner.number()).decode(errors="replace"))
            array = np.empty(len(texts), object)
            array[:] = texts
            return array.reshape(dims)
        if dtype == 16:
            return np.frombuffer(data, np.uint16).reshape(dims)
        return np.frombuffer(data, DTYPES[dtype]).reshape(dims)


def pack_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def pack_array(array):
    if array.dtype == object:
        data = b"".join(pack_text(text) for text in array.ravel())
    else:
        data = np.ascontiguousarray(array).tobytes()
    head = struct.pack("<II", NUMBERS[array.dtype], array.ndim)
    return head + struct.pack(f"<{array.ndim}qQ", *array.shape, len(data)) + data


def pack_runs(runs):
    parts = [struct.pack("<I", len(runs))]
    for run in runs:
        parts.append(struct.pack("<I", len(run)))
        for name, value in run.items():
            items = value if isinstance(value, list) else [value]
            parts.append(pack_text(name) + struct.pack("<II", isinstance(value, list), len(items)))
            parts += [pack_array(item) for item in items]
    return b"".join(parts)


class Ours:
    def __init__(self, program):
        environment = dict(os.environ, WALLE_ENGINE_CACHE="", ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1",
                           UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
        self.process = Process([program], environment)

    def run(self, model, runs, configs):
        """A list per configuration of an Outcome per run."""
        frame = pack_text(model) + struct.pack("<I", len(configs)) + b"".join(map(pack_text, configs)) + pack_runs(runs)
        answer = self.process.ask(frame)
        if isinstance(answer, tuple):
            return [[Outcome(answer[0], answer[1], None)] * len(runs)] * len(configs)
        return self.parse(Cursor(answer), len(runs), len(configs))

    @staticmethod
    def parse(cursor, run_count, config_count):
        status, text = cursor.number("i"), cursor.bytes(cursor.number()).decode(errors="replace")
        if status != 0:
            return [[Outcome("error", text, None)] * run_count] * config_count
        results, first = [], {}
        for _ in range(config_count):
            results.append([])
            for run in range(run_count):
                status, text = cursor.number("i"), cursor.bytes(cursor.number()).decode(errors="replace")
                if status == 0:
                    outputs = []
                    for _ in range(cursor.number()):
                        items = [cursor.array() for _ in range(cursor.number())]
                        outputs.append(items)
                    outcome = Outcome("ok", "", outputs)
                    first.setdefault(run, outcome)
                elif status == 100:
                    outcome = first[run]
                else:
                    outcome = Outcome("unsteady" if status == 101 else "error", text, None)
                results[-1].append(outcome)
        return results

    def close(self):
        return self.process.close()


# ---- ONNX Runtime --------------------------------------------------------------------------------------------------

ERROR_CODE, ERROR_MESSAGE, CREATE_ENV, SESSION_FROM_ARRAY, RUN, CREATE_OPTIONS = 1, 2, 3, 8, 9, 10
SET_OPTIMIZATION, SET_THREADS, OUTPUT_COUNT, OUTPUT_NAME = 23, 24, 31, 37
CREATE_TENSOR, CREATE_TENSOR_WITH_DATA, IS_TENSOR, TENSOR_DATA, FILL_STRINGS = 48, 49, 50, 51, 52
STRINGS_LENGTH, STRINGS_CONTENT, ELEMENT_TYPE, DIMS_COUNT, DIMS, ELEMENT_COUNT, TENSOR_SHAPE = 53, 54, 60, 61, 62, 64, 65
VALUE_TYPE, CPU_MEMORY, DEFAULT_ALLOCATOR, GET_VALUE, VALUE_COUNT, CREATE_VALUE = 67, 69, 78, 80, 81, 82
RELEASE_STATUS, RELEASE_SESSION, RELEASE_VALUE, RELEASE_SHAPE = 93, 95, 96, 99
API_VERSION = 13
VALUE_TENSOR, VALUE_SEQUENCE = 1, 2


class OrtError(Exception):
    pass


class OrtLibrary:
    def __init__(self, path, level):
        library = ctypes.CDLL(path)
        library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(library.OrtGetApiBase()[0])
        self.table = ctypes.cast(get_api(API_VERSION), ctypes.POINTER(ctypes.c_void_p))
        self.functions = {}
        self.env = self.make(CREATE_ENV, 4, b"diff")
        self.options = self.make(CREATE_OPTIONS)
        self.call(SET_OPTIMIZATION, self.options, level)
        self.call(SET_THREADS, self.options, 1)
        self.memory = self.make(CPU_MEMORY, 0, 0)
        self.allocator = self.make(DEFAULT_ALLOCATOR)

    def raw(self, index, *arguments):
        if index not in self.functions:
            self.functions[index] = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.table[index])
        converted = [ctypes.c_void_p(value) if isinstance(value, int) else value for value in arguments]
        return self.functions[index](*converted)

    def call(self, index, *arguments):
        status = self.raw(index, *arguments)
        if status:
            get = ctypes.cast(self.table[ERROR_MESSAGE], ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p))
            text = get(status).decode(errors="replace")
            code = ctypes.cast(self.table[ERROR_CODE], ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p))(status)
            self.raw(RELEASE_STATUS, status)
            raise OrtError(f"[{code}] {text}")

    def make(self, index, *arguments):
        out = (ctypes.c_void_p * 1)()
        self.call(index, *arguments, out)
        return out[0]

    def tensor(self, array, keep):
        dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        dtype = NUMBERS[array.dtype]
        if dtype == 8:
            value = self.make(CREATE_TENSOR, self.allocator, dims, array.ndim, dtype)
            texts = (ctypes.c_char_p * max(1, array.size))(*[str(t).encode() for t in array.ravel()])
            self.call(FILL_STRINGS, value, texts, array.size)
            return value
        data = np.ascontiguousarray(array)
        keep.append(data)
        return self.make(CREATE_TENSOR_WITH_DATA, self.memory, data.ctypes.data, data.nbytes, dims, array.ndim, dtype)

    def value(self, value, keep):
        if not isinstance(value, list):
            return self.tensor(value, keep)
        items = [self.tensor(item, keep) for item in value]
        return self.make(CREATE_VALUE, (ctypes.c_void_p * max(1, len(items)))(*items), len(items), VALUE_SEQUENCE)

    def number(self, index, value):
        out = (ctypes.c_int64 * 1)()
        self.call(index, value, out)
        return out[0]

    def array(self, value):
        shape = self.make(TENSOR_SHAPE, value)
        dtype = self.number(ELEMENT_TYPE, shape) & 0xffffffff
        rank = self.number(DIMS_COUNT, shape)
        dims = (ctypes.c_int64 * max(1, rank))()
        self.call(DIMS, shape, dims, rank)
        count = self.number(ELEMENT_COUNT, shape)
        self.raw(RELEASE_SHAPE, shape)
        dims = tuple(dims[:rank])
        if dtype == 8:
            return self.texts(value, count).reshape(dims)
        if dtype == 16:
            return np.zeros(dims, np.uint16)
        size = count * np.dtype(DTYPES[dtype]).itemsize
        data = ctypes.string_at(self.make(TENSOR_DATA, value), size) if size else b""
        return np.frombuffer(data, DTYPES[dtype]).reshape(dims)

    def texts(self, value, count):
        length = self.number(STRINGS_LENGTH, value)
        data = ctypes.create_string_buffer(max(1, length))
        offsets = (ctypes.c_size_t * (count + 1))()
        self.call(STRINGS_CONTENT, value, data, length, offsets, count)
        offsets[count] = length
        array = np.empty(count, object)
        array[:] = [data.raw[offsets[i]:offsets[i + 1]].decode(errors="replace") for i in range(count)]
        return array

    def output(self, value):
        if not value:
            return []
        kind = self.number(VALUE_TYPE, value) & 0xffffffff
        if kind == VALUE_TENSOR:
            return [self.array(value)]
        if kind != VALUE_SEQUENCE:
            return []
        items = []
        for i in range(self.number(VALUE_COUNT, value)):
            item = self.make(GET_VALUE, value, i, self.allocator)
            items.append(self.array(item))
            self.raw(RELEASE_VALUE, item)
        return items

    def outcomes(self, model, runs):
        try:
            session = self.make(SESSION_FROM_ARRAY, self.env, model, len(model), self.options)
        except OrtError as error:
            return [("error", str(error), None)] * len(runs)
        names = []
        for i in range(self.number(OUTPUT_COUNT, session)):
            names.append(ctypes.string_at(self.make(OUTPUT_NAME, session, i, self.allocator)))
        results = [self.outcome(session, names, run) for run in runs]
        self.raw(RELEASE_SESSION, session)
        return results

    def outcome(self, session, names, run):
        keep, values = [], []
        outputs = (ctypes.c_void_p * max(1, len(names)))()
        try:
            values = [self.value(value, keep) for value in run.values()]
            input_names = (ctypes.c_char_p * max(1, len(run)))(*[name.encode() for name in run])
            output_names = (ctypes.c_char_p * max(1, len(names)))(*names)
            self.call(RUN, session, None, input_names, (ctypes.c_void_p * max(1, len(values)))(*values), len(values),
                      output_names, len(names), outputs)
            result = ("ok", "", [self.output(value) for value in outputs])
        except OrtError as error:
            result = ("error", str(error), None)
        for value in list(outputs) + values:
            if value:
                self.raw(RELEASE_VALUE, value)
        return result


class Ort:
    def __init__(self, library, level=0):
        self.process = Process([sys.executable, os.path.abspath(__file__), library, str(level)])

    def run(self, model, runs):
        answer = self.process.ask(pickle.dumps((model, runs)))
        if isinstance(answer, tuple):
            return [Outcome(answer[0], answer[1], None)] * len(runs)
        return [Outcome(*one) for one in pickle.loads(answer)]

    def close(self):
        return self.process.close()


def serve(library, level):
    ort = OrtLibrary(library, level)
    while True:
        head = sys.stdin.buffer.read(4)
        if len(head) < 4:
            return
        size, = struct.unpack("<I", head)
        model, runs = pickle.loads(sys.stdin.buffer.read(size))
        answer = pickle.dumps(ort.outcomes(model, runs))
        sys.stdout.buffer.write(struct.pack("<I", len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
