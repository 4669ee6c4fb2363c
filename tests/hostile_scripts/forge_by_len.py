# __len__ says one, __iter__ gives many: room was made for one.
from array import array


class Liar:
    def __len__(self):
        return 1

    def __iter__(self):
        return iter(range(100, 200))


def count(*args, **more):
    return len(args)


for make in (bytearray, bytes, list, tuple, set, lambda x: array("q", x), lambda x: count(*x), dict.fromkeys):
    make(Liar())
