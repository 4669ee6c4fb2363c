# The item-page-view feature: all events of one page visit, from enter to exit, as one row.
#
# An event is [kind, time_ms, page, item, value]:
#   enter                 the page of `item` opened
#   scroll    value = how far down the page the user got, in percent
#   exposure  value = position of a related item that came into view
#   click     value = what was pressed: favourite, cart, share, review, buy
#   exit                  the page closed: the row is complete
# Events of a page that was never entered, of a kind not known, or out of time order are dropped and
# counted. A visit without exit stays open and gives no row.

CLICKS = ("favourite", "cart", "share", "review", "buy")


def collect(events):
    open_visits = {}
    rows = []
    dropped = 0
    for kind, time_ms, page, item, value in events:
        if kind == "enter":
            open_visits[page] = begin(time_ms, page, item)
            continue
        row = open_visits.get(page)
        if row is None or row["item"] != item or time_ms < row["last_ms"]:
            dropped += 1
            continue
        row["last_ms"] = time_ms
        if kind == "scroll":
            if value > row["depth"]:
                row["depth"] = value
        elif kind == "exposure":
            row["exposures"] += 1
        elif kind == "click" and value in CLICKS:
            row[value] += 1
        elif kind == "exit":
            rows.append(finish(row))
            del open_visits[page]
        else:
            dropped += 1
    return rows, dropped


def begin(time_ms, page, item):
    return {
        "page": page,
        "item": item,
        "enter_ms": time_ms,
        "last_ms": time_ms,
        "depth": 0,
        "exposures": 0,
        "favourite": 0,
        "cart": 0,
        "share": 0,
        "review": 0,
        "buy": 0,
    }


def finish(row):
    row["dwell_ms"] = row["last_ms"] - row["enter_ms"]
    del row["last_ms"]
    return row
