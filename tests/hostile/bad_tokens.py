"""Wrong tokens, at the operator API and at enrolment, from several addresses of this machine."""
import raw_device
import raw_h2

POINT = 8
RATE = 2000  # tries a second at most
GROUP = 40
ADDRESSES = ["127.0.0.1"] + [f"127.9.0.{i}" for i in range(2, 10)]
BAD = "A" * 43


def attack(target, stop, rounds=None):
    """Until stopped, or so many rounds of GROUP tries of each kind from each address."""
    counts = {"tries": 0, "refused": 0, "limited": 0, "passed": 0, "closed": 0}
    pace = raw_device.Pace(RATE * target.share, stop)
    done = 0
    while not stop.is_set() and (rounds is None or done < rounds):
        for address in ADDRESSES:
            pace.wait(2 * GROUP)
            try:
                with raw_device.Requests(target.h2c or target.tls, target.h2c is None, address) as requests:
                    streams = [requests.send("/api/v1/tasks", "GET", (("authorization", "Bearer wat_" + BAD),))
                               for _ in range(GROUP)]
                    streams += [requests.send("/v1/enroll", "POST", (("authorization", "Bearer wet_" + BAD),))
                                for _ in range(GROUP)]
                    answers = requests.settle(streams)
            except (raw_h2.Closed, OSError):
                counts["closed"] += 1
                continue
            counts["tries"] += len(streams)
            for status in answers.values():
                counts["refused" if status == 401 else "limited" if status == 429 else "passed"] += 1
        done += 1
    return counts
