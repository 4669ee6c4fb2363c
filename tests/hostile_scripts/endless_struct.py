# One call that never came back.
import struct
while True:
    try:
        struct.calcsize("4611686018427387905q")
    except OverflowError:
        pass
