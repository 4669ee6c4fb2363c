# Elements that are addresses: any object out of eight bytes, and any memory as text.
from array import array
import struct
for make in (lambda: struct.unpack("O", b"AAAAAAAA"), lambda: struct.unpack("S", b"AAAAAAAA"),
             lambda: array("O", b"AAAAAAAA")[0], lambda: array("S", b"AAAAAAAA")[0]):
    try:
        print(make())
    except ValueError:
        pass
