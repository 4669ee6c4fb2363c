# Boxes, and which of those that lie over one another stay.


class Box:
    def __init__(self, x, y, width, height, score):
        self.x, self.y, self.width, self.height, self.score = x, y, width, height, score  # x, y: the middle

    def scaled(self, across, down):
        return Box(self.x * across, self.y * down, self.width * across, self.height * down, self.score)

    # Cut to a frame; None: nothing is left.
    def within(self, columns, rows):
        left, right = max(0, self.x - self.width / 2), min(columns, self.x + self.width / 2)
        top, bottom = max(0, self.y - self.height / 2), min(rows, self.y + self.height / 2)
        if right - left < 2 or bottom - top < 2:
            return None
        return Box((left + right) / 2, (top + bottom) / 2, right - left, bottom - top, self.score)

    # Whole pixels: left, top, width, height.
    def rect(self):
        return (int(self.x - self.width / 2), int(self.y - self.height / 2), int(self.width), int(self.height))

    # What two have in common, as a part of what both cover.
    def overlap(self, other):
        across = min(self.x + self.width / 2, other.x + other.width / 2) - max(self.x - self.width / 2, other.x - other.width / 2)
        down = min(self.y + self.height / 2, other.y + other.height / 2) - max(self.y - self.height / 2, other.y - other.height / 2)
        if across <= 0 or down <= 0:
            return 0
        return across * down / (self.width * self.height + other.width * other.height - across * down)


# Non-maximum suppression: the likeliest stays, and none that overlaps it by more than `overlap`.
def kept(boxes, overlap, most):
    stay = []
    for box in sorted(boxes, key=lambda box: -box.score):
        if len(stay) < most and all(box.overlap(other) <= overlap for other in stay):
            stay.append(box)
    return stay
