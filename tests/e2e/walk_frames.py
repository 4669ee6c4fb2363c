"""Run by gdb (test_walks.py): where a value goes on from a program's stack, which functions have it?

WALK_LEGS names legs, [number, from, file, to, taken, put, without]. When `to` of `file` is entered and `from` is among its callers,
but not `without`, a line of JSON is appended to WALK_OUT: the number, the functions from the one to the other, and what `taken` and
`put` are, which say what of it was taken up and what is put down. Only functions of the source tree count, also those that the
compiler put into their callers."""
import json
import os
import re

import gdb

TIMES_MAX = 200  # of one leg
SOURCE = os.path.realpath(os.environ["WALLE_SOURCE"])


def is_ours(file):
    """A file of the tree. Compilers are given a name from the build folder on; a cached object says of another one which it was."""
    return os.path.exists(os.path.join(SOURCE, re.sub(r"^(\.\./)+", "", file))) and not file.startswith(("/usr/", "./"))


def steps_to(start):
    """The product's functions on the stack from `start` down to here; None: it is not there."""
    found, frame = [], gdb.newest_frame()
    while frame is not None:
        symtab = frame.find_sal().symtab
        if symtab is not None and is_ours(symtab.filename):
            found.append([frame.name(), os.path.basename(symtab.filename)])
        if frame.name() == start:
            return found[::-1]
        frame = frame.older()
    return None


def value_of(where):
    """What `function: expression` is in the newest frame of that function, as a number; None: the compiler did not keep it."""
    function, expression = where.split(": ", 1)
    frame = gdb.newest_frame()
    while frame.name() != function:
        frame = frame.older()
    frame.select()
    try:
        return int(gdb.parse_and_eval(expression).cast(gdb.lookup_type("unsigned long")))
    except gdb.error:
        return None


class Leg(gdb.Breakpoint):
    def __init__(self, number, start, file, end, taken, put, without=None):
        super().__init__(end)  # in whatever file: of what is inlined gdb does not find the file's
        self.leg, self.start, self.end, self.without = number, start, [end, file], without
        self.taken, self.put, self.times = taken, put, 0

    def stop(self):
        found = steps_to(self.start)
        if found is not None and found[-1] == self.end and self.without not in [name for name, _ in found]:
            taken, put = value_of(self.taken), value_of(self.put)
            gdb.newest_frame().select()
            self.times += 1
            if self.times == TIMES_MAX:
                gdb.post_event(self.off)
            with open(os.environ["WALK_OUT"], "a", encoding="utf-8") as out:
                out.write(json.dumps([self.leg, found, taken, put]) + "\n")
        return False

    def off(self):
        self.enabled = False


for leg in json.loads(os.environ["WALK_LEGS"]):
    Leg(*leg)
