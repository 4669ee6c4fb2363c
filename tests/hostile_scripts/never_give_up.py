# Handlers and generators that swallow everything.
def again():
    while True:
        try:
            while True:
                yield 1
        except BaseException:
            pass
        finally:
            while True:
                pass


while True:
    try:
        for x in again():
            raise KeyboardInterrupt
    except BaseException:
        continue
