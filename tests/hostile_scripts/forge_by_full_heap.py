# Tables that cannot grow, for there is no memory left, and are used all the same.
from collections import OrderedDict


def fill():
    held = None
    for size in (65536, 4096, 512, 64, 1):
        try:
            while True:
                held = [bytearray(size), held]
        except MemoryError:
            pass
    return held


table, ordered, members = {}, OrderedDict(), set()
for put in (ordered.setdefault, table.setdefault, members.add):
    for i in range(5):
        put(i)
    held = fill()
    for i in range(100, 200):
        try:
            put(i)
        except MemoryError:
            pass
    while held:
        rest = held[-1]
        held.clear()
        held = rest
    print(len(ordered), len(table), len(members))
