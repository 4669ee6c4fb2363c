# One visit of an item's page, from enter to exit, as one feature row. Fields are those of
# bench/ipv/ipv_feature.h; only whole numbers, so that a row can be compared with any other
# implementation's.

ACTIONS = ("favourite", "cart", "share", "review", "buy")
LETTERS = {"enter": "e", "scroll": "s", "exposure": "x", "click": "c", "exit": "q", "custom": "u"}
IDLE_MS = 10000
ITEMS_MAX = 64
ITEMS_OUT = 16
CLICKS_OUT = 6
SEQUENCE_OUT = 48
TEXT_BYTES = 24


def cut(text):
    if len(text) * 4 <= TEXT_BYTES:
        return text
    raw = text.encode()
    size = len(raw)
    if size <= TEXT_BYTES:
        return text
    size = TEXT_BYTES
    while raw[size] & 0xC0 == 0x80:
        size -= 1
    return raw[:size].decode()


def third(at, size):
    part = at * 3 // size
    return 0 if part < 0 else 2 if part > 2 else part


class Visit:
    def __init__(self, seq, wall_ms, mono_us, item, get):
        self.enter_us = mono_us
        self.last_us = mono_us
        self.row = {
            "v": 1,
            "item": cut(item),
            "category": cut(get("category", "")),
            "shop": cut(get("shop", "")),
            "price_cents": get("price_cents", 0),
            "source": cut(get("source", "")),
            "query": cut(get("query", "")),
            "app": cut(get("app", "")),
            "net": cut(get("net", "")),
            "from": cut(get("from_spm", "")),
            "enter_seq": seq,
            "enter_ms": wall_ms,
            "hour": wall_ms // 3600000 % 24,
        }
        self.gaps = [0] * 10
        self.stay = [0] * 10
        self.active = 0
        self.depth = 0
        self.direction = 0
        self.max_pct = self.down = self.up = self.turns = self.fastest = self.scrolls = 0
        self.shows = self.seen_ms = self.max_position = 0
        self.items = {}
        self.order = []
        self.actions = {name: [0, 0] for name in ACTIONS}
        self.clicks = []
        self.zones = [0] * 9
        self.perf = [0, 0]
        self.letters = ["e"]
        self.events = 1

    def add(self, kind, mono_us, get):
        gap = (mono_us - self.last_us) // 1000 if mono_us > self.last_us else 0
        self.last_us = mono_us
        self.active += gap if gap < IDLE_MS else IDLE_MS
        place = 0
        while place < 9 and gap >= 128 << place:
            place += 1
        self.gaps[place] += 1
        tenth = self.depth // 10
        self.stay[tenth if tenth < 10 else 9] += gap
        self.events += 1
        if self.events <= SEQUENCE_OUT:
            self.letters.append(LETTERS[kind])
        if kind == "scroll":
            self.scroll(get("dy", 0), get("depth", 0), get("took_ms", 0))
        elif kind == "exposure":
            self.exposure(mono_us, get)
        elif kind == "click":
            self.click(mono_us, get)
        elif kind == "custom":
            self.perf[0] += 1
            self.perf[1] += get("took_ms", 0)

    def scroll(self, dy, depth, took_ms):
        self.scrolls += 1
        direction = -1 if dy < 0 else 1
        if direction == -self.direction:
            self.turns += 1
        self.direction = direction
        if dy < 0:
            dy = -dy
            self.up += dy
        else:
            self.down += dy
        self.depth = depth
        if depth > self.max_pct:
            self.max_pct = depth
        speed = dy * 1000 // took_ms if took_ms > 0 else 0
        if speed > self.fastest:
            self.fastest = speed

    def after_ms(self, mono_us):
        return (mono_us - self.enter_us) // 1000 if mono_us > self.enter_us else 0

    def exposure(self, mono_us, get):
        item = cut(get("target_item", ""))
        position = get("position", 0)
        visible = get("visible_ms", 0)
        self.shows += 1
        self.seen_ms += visible
        if position > self.max_position:
            self.max_position = position
        seen = self.items.get(item)
        if seen is None:
            if len(self.order) == ITEMS_MAX:
                return
            seen = {"id": item, "position": position, "at_ms": self.after_ms(mono_us), "visible_ms": 0, "shows": 0,
                    "clicks": 0}
            self.items[item] = seen
            self.order.append(seen)
        seen["visible_ms"] += visible
        seen["shows"] += 1

    def click(self, mono_us, get):
        target = get("target", "")
        after = self.after_ms(mono_us)
        action = self.actions.get(target)
        if action is not None:
            if action[0] == 0:
                action[1] = after
            action[0] += 1
        self.zones[third(get("y", 0), 2400) * 3 + third(get("x", 0), 1080)] += 1
        self.clicks.append([cut(target), after])
        if len(self.clicks) > CLICKS_OUT:
            self.clicks.pop(0)
        seen = self.items.get(cut(get("target_item", "")))
        if seen is not None:
            seen["clicks"] += 1

    def finish(self):
        row = self.row
        row["events"] = self.events
        row["dwell_ms"] = self.after_ms(self.last_us)
        row["active_ms"] = self.active
        row["gaps"] = self.gaps
        row["scroll"] = {"n": self.scrolls, "max_pct": self.max_pct, "end_pct": self.depth, "down_px": self.down,
                         "up_px": self.up, "turns": self.turns, "fastest": self.fastest}
        row["stay_ms"] = self.stay
        row["exposure"] = {"n": self.shows, "distinct": len(self.order), "seen_ms": self.seen_ms,
                           "max_position": self.max_position, "items": self.order[:ITEMS_OUT]}
        row["actions"] = self.actions
        row["clicks"] = self.clicks
        row["zones"] = self.zones
        row["perf_ms"] = self.perf
        row["sequence"] = "".join(self.letters)
        return row
