# Depth of every kind: each needs C stack.
import json
import re
import walle


def nested(wrap, start=()):
    x = start
    for _ in range(4000):
        x = wrap(x)
    return x


for use in (lambda: repr(nested(lambda x: [x])), lambda: nested(lambda x: (x,)) == nested(lambda x: (x,)),
            lambda: hash(nested(lambda x: (x,))), lambda: walle.result(nested(lambda x: [x], [])),
            lambda: json.dumps(nested(lambda x: {"a": x}, {})), lambda: json.loads("[" * 4000),
            lambda: re.compile("(" * 4000), lambda: re.match("(a*)*" * 20, "a" * 3000),
            lambda: list(nested(lambda x: map(str, x), [1])), lambda: isinstance(1, nested(lambda x: (x,)))):
    try:
        use()
    except (RuntimeError, ValueError, TypeError, MemoryError):
        pass
