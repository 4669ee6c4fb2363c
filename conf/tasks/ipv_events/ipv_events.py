# Item page views from behaviour events: started when an item's page closes, with the events of that
# visit, and gives one feature row and its encoding, or nothing when the page was left without being
# entered.
#
# The events are the page-level sequence, with the attributes task.json asks for.
import walle
from walle import data
from encoding import Encoding
from visit import Visit


def run(events):
    visit = None
    for event in events:
        kind = event.kind
        if kind == "enter":
            visit = Visit(event.seq, event.time, event.mono_us, event.item or "", event.get)
            encoding = Encoding()
        elif visit is not None:
            visit.add(kind, event.mono_us, event.get)
        if visit is not None:
            encoding.add(kind, visit.after_ms(event.mono_us), event.get)
            if kind == "exit":
                walle.result(visit.finish())
                data.upload("ipv_encoding", encoding.finish())
                return


run(data.events())
