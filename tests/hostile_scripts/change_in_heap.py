# A heap is emptied by the comparison of its items.
import heapq


class Item:
    def __lt__(self, other):
        del heap[:]
        heap.clear()
        return True


for _ in range(30):
    heap = [Item() for i in range(40)]
    for use in (lambda: heapq.heapify(heap), lambda: heapq.heappush(heap, Item()), lambda: heapq.heappop(heap)):
        try:
            use()
        except (RuntimeError, IndexError):
            pass
