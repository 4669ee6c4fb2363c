# Item page views: behaviour events in, one scored feature row per page visit out.
#
# The events come from walle.input (a JSON list of events, see features.py) when the app gives
# them. Without input the task makes up a log of its own, drawn from the device id: the same device
# always sees the same log, so a result can be checked by anyone who knows the id. A made-up log is
# for rehearsals on virtual devices; the result says so in "source".
import walle
import features
import scoring

PAGES = 3
KINDS = ("favourite", "cart", "share", "review", "buy")


def rehearsal_log(device_id):
    # A linear congruential generator modulo 2^31: every product stays a small integer.
    x = int(device_id[8:16], 16) & 0x7FFFFFFF
    t = 0
    events = []
    for page in range(PAGES):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        item = 1000 + (x >> 8) % 9000
        events.append(["enter", t, page, item, None])
        for _ in range(4):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
            t += 200 + (x >> 12) % 4000
            choice = (x >> 5) & 7
            if choice < 3:
                events.append(["scroll", t, page, item, (x >> 9) % 101])
            elif choice < 6:
                events.append(["exposure", t, page, item, (x >> 9) % 40])
            else:
                events.append(["click", t, page, item, KINDS[(x >> 9) % 5]])
        t += 150
        events.append(["exit", t, page, item, None])
    return events


def run():
    events = walle.input
    source = "input"
    if events is None:
        events = rehearsal_log(walle.device["id"])
        source = "rehearsal"
    visits, dropped = features.collect(events)
    interested = 0
    limit = walle.config["interested_ppm"]
    model = scoring.Model(walle.config)
    for visit in visits:
        score = model.score(visit)
        visit["score_ppm"] = score
        if score >= limit:
            interested += 1
    walle.result(
        {
            "source": source,
            "events": len(events),
            "dropped": dropped,
            "interested": interested,
            "visits": visits,
        }
    )


run()
