# Item page views from behaviour events: started when an item's page closes, with the events of that
# visit, and gives one feature row, or nothing when the page was left without being entered.
#
# walle.input is the page-level sequence: a list of objects with kind, seq, item, wall_ms, mono_us
# and the attributes the task asks for (task.json).
import walle
from visit import Visit


def run(events):
    visit = None
    for event in events:
        kind = event["kind"]
        if kind == "enter":
            visit = Visit(event["seq"], event["wall_ms"], event["mono_us"], event["item"], event.get)
        elif visit is not None:
            visit.add(kind, event["mono_us"], event.get)
            if kind == "exit":
                return visit.finish()
    return None


row = run(walle.input or ())
if row is not None:
    walle.result(row)
