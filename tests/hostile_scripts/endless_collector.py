# Wide nodes in a chain, each below the one before it: each was one more pass of the collector over the whole heap.
import gc
node = None
while True:
    try:
        for _ in range(100):
            node = [[j] for j in range(70)] + [node]
        gc.collect()
    except MemoryError:
        gc.collect()
