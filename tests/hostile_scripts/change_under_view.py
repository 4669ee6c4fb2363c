# A buffer moves while a view, an iterator and a stream look at it.
import gc
import io
for _ in range(30):
    buffer = bytearray(16)
    view, steps, stream = memoryview(buffer), iter(buffer), io.BytesIO(buffer)
    for i in range(40):
        buffer.extend(bytes(40))
        buffer[0:0] = buffer
        if len(buffer) > 3000:
            break
    gc.collect()
    rest = [bytes(16) for i in range(40)]
    view[0:4] = b"abcd"
    bytes(view), next(steps), stream.read(4)
