"""Devices that somebody makes up: check-ins and hint streams with ids and attributes never seen before, and reports, which
begin records as far as the budgets go."""
import random

import raw_device
import raw_h2

POINT = 11
RATE = 20000  # requests a second at most
GROUP = 200
HINTS = 20  # of a connection


def attack(target, stop, count=None, reports=True):
    """Until stopped, or `count` devices were made up."""
    counts = {"checkins": 0, "reports": 0, "hints": 0, "refused": 0, "closed": 0}
    draw = random.Random(target.seed)
    pace = raw_device.Pace(RATE * target.share, stop)
    done = 0
    while not stop.is_set() and (count is None or done < count):
        try:
            with raw_device.Requests(target.h2c or target.tls, tls=target.h2c is None) as requests:
                for _ in range(HINTS):
                    requests.send("/v1/push", "GET", (("walle-device", raw_device.hexa(draw.getrandbits(64))),
                                                      ("walle-profile", raw_device.profile(made_up=f"h{draw.getrandbits(40)}"))))
                    counts["hints"] += 1
                for _ in range(20):
                    if stop.is_set() or (count is not None and done >= count):
                        break
                    pace.wait(2 * GROUP)
                    streams = []
                    for _ in range(GROUP):
                        device = draw.getrandbits(64)
                        streams.append(requests.checkin(device, raw_device.profile(made_up=f"m{device % 100000}")))
                        if reports:
                            streams.append(requests.report(device))
                            counts["reports"] += 1
                    counts["checkins"] += GROUP
                    done += GROUP
                    answers = requests.settle(streams)
                    counts["refused"] += sum(status not in (200, 204) for status in answers.values())
        except (raw_h2.Closed, OSError):
            counts["closed"] += 1
            stop.wait(0.1)
    return counts
