# What a class inherits from a native type is used before it is made, and as what it is not.
import json
import struct
import sys

types = [list, tuple, str, bytes, bytearray, dict, set, frozenset, int, bool, float, type, object, slice, range, zip, map, filter,
         enumerate, reversed, memoryview, property, staticmethod, classmethod, super, BaseException, ValueError, SystemExit,
         StopIteration, OSError, KeyError, MemoryError]
for name in ("io", "collections", "array", "re"):
    try:
        module = __import__(name)
    except ImportError:
        continue
    types += [getattr(module, member) for member in dir(module) if isinstance(getattr(module, member), type)]


def leave(s):
    raise s


def unpack(s):
    a, b = s


def each(s):
    yield from s


def catch(s):
    try:
        raise ValueError
    except s:
        pass


def within(s):
    with s:
        pass


uses = [len, iter, next, list, tuple, dict, set, bytes, bytearray, memoryview, str, repr, hash, bool, int, float, abs, round, sum, max,
        sorted, any, zip, enumerate, reversed, range, ord, chr, bin, id, callable, print, sys.exit, type, leave, unpack, catch, within,
        dict.fromkeys, lambda s: list(each(s)), lambda s: s(), lambda s: s(s), lambda s: s + s, lambda s: (1,) + s, lambda s: s + "a",
        lambda s: "a" + s, lambda s: b"a" + s, lambda s: [] + s, lambda s: s * 3, lambda s: 3 * s, lambda s: -s, lambda s: ~s,
        lambda s: s == s, lambda s: s == (1,), lambda s: "a" == s, lambda s: s < s, lambda s: (1,) < s, lambda s: s | s,
        lambda s: {1} - s, lambda s: s in "a", lambda s: "a" in s, lambda s: s[0], lambda s: s[0:1], lambda s: "ab"[s:s], lambda s: [1][s],
        lambda s: {s: s}, lambda s: "%s" % s, lambda s: "%d" % s, lambda s: "{}".format(s), lambda s: "".join(s),
        lambda s: "".join([s]), lambda s: b"".join(s), lambda s: b"".join([s]), lambda s: "a".replace(s, s), lambda s: "a".split(s),
        lambda s: b"a".find(s), lambda s: str(s, "utf8"), lambda s: bytes(s, "utf8"), lambda s: int(s, 10), lambda s: int("1", s),
        lambda s: [].extend(s), lambda s: {}.update(s), lambda s: set().update(s), lambda s: bytearray(3).extend(s),
        lambda s: bytearray(b"abc")[0:1] == s, lambda s: isinstance(1, s), lambda s: issubclass(s, int), lambda s: type("a", (s,), {}),
        lambda s: type("a", s, {}), lambda s: type(s, (), {}), lambda s: getattr(s, s), lambda s: s.args, lambda s: s.value,
        lambda s: s.x, lambda s: s.append(1), lambda s: s.read(), lambda s: s.__init__(), lambda s: (lambda *a: a)(*s),
        json.load, json.dumps, lambda s: json.dump([1], s), lambda s: print(1, file=s), lambda s: struct.unpack("i", s),
        lambda s: struct.pack_into("i", s, 0, 1), lambda s: (lambda **a: a)(**s), lambda s: min([s, s], key=s), lambda s: sorted([1, 2], key=s), lambda s: pow(2, s, s)]


def attempt(use, value):
    try:
        use(value)
    except BaseException as error:
        try:
            repr(error)
            error.args
            error.value
        except BaseException:
            pass


for base in types:
    for use in uses:
        try:
            attempt(type("Early", (base,), {"__init__": lambda self, *a: use(self)}), 1)
        except BaseException:
            pass
    try:
        Late = type("Late", (base,), {})
    except BaseException:
        continue
    for arguments in ((), (1,), ("ab",), ([1, 2],), (b"ab",), ("b", [1, 2]), ((), 3), (int,), (len, [1]), (None,)):
        try:
            late = Late(*arguments)
        except BaseException:
            continue
        for use in uses:
            attempt(use, late)
