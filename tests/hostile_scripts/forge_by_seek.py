# Positions at which an addition wraps.
import io
for position in ((1 << 62) - 1, (1 << 32) - 1, (1 << 33) - 40, (1 << 61)):
    for stream in (io.BytesIO(), io.BytesIO(b"abc"), io.StringIO()):
        try:
            stream.seek(position)
            stream.write(b"x" * 64 if isinstance(stream, io.BytesIO) else "x" * 64)
        except (MemoryError, OSError):
            pass
