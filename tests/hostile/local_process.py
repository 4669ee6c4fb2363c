"""A process of the gateway's machine, of whichever user, without a token: every route, as itself, as a page of another site, under
another name, as somebody behind a proxy, and with tokens and cookies that it made up."""
import raw_device
import raw_h2

POINT = 15
RATE = 2000  # requests a second at most
ROUTES = (("GET", "tasks"), ("POST", "tasks"), ("GET", "tasks/t"), ("POST", "tasks/t/versions"), ("GET", "tasks/t/versions"),
          ("PUT", "blobs/" + "00" * 32), ("PUT", "exclusive"), ("PUT", "exclusive/" + "00" * 32), ("GET", "exclusive/" + "00" * 32),
          ("GET", "rollouts"), ("POST", "rollouts"), ("POST", "rollouts/preview"), ("POST", "rollouts/cost"),
          *(("POST", "rollouts/00000000000000aa/" + verb) for verb in ("simulation", "start", "pause", "resume", "promote", "abort",
                                                                     "approve", "undo", "lift", "kill")),
          ("GET", "rollouts/00000000000000aa/log"), ("GET", "tunnel"), ("GET", "tunnel/records"), ("GET", "trust"), ("PUT", "trust/root"),
          ("POST", "kills"), ("GET", "devices"), ("GET", "devices/00000000000000aa"), ("GET", "devices/00000000000000aa/why"),
          ("PUT", "devices/00000000000000aa/user"), ("POST", "devices/00000000000000aa/revoke"), ("POST", "devices/00000000000000aa/reset"),
          ("POST", "tokens"), ("GET", "tokens"), ("GET", "tokens/00000000000000aa"), ("POST", "tokens/00000000000000aa/revoke"),
          ("POST", "tenants"), ("GET", "tenants"), ("GET", "whoami"), ("GET", "audit"), ("GET", "openapi.json"),
          ("GET", "admin"), ("GET", "debug"), ("GET", "config"), ("GET", ""))
DISGUISES = ((), (("origin", "http://localhost"),), (("origin", "http://evil.example"),), (("sec-fetch-site", "same-origin"),),
             (("sec-fetch-site", "cross-site"),), (("origin", "http://localhost"), ("origin", "http://evil.example")),
             (("host", "localhost"),), (("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1"), ("forwarded", "for=127.0.0.1")),
             (("walle-tenant", "default"),), (("cookie", "walle-session=admin; token=admin"),), (("authorization", "Bearer "),),
             (("authorization", "Bearer admin"),), (("authorization", "Basic YWRtaW46YWRtaW4="),),
             (("authorization", "Bearer wat_" + "A" * 43), ("authorization", "Bearer wat_" + "B" * 43)))
REFUSALS = (400, 401, 403, 421, 429)


def attack(target, stop, rounds=None):
    """Until stopped, or so many rounds of every route in every disguise."""
    counts = {"tries": 0, "refused": 0, "passed": 0, "closed": 0}
    pace = raw_device.Pace(RATE * target.share, stop)
    done = 0
    while not stop.is_set() and (rounds is None or done < rounds):
        for disguise in DISGUISES:
            pace.wait(len(ROUTES))
            try:
                with raw_device.Requests(target.h2c or target.tls, target.h2c is None) as requests:
                    streams = [requests.send("/api/v1/" + path, method, (("content-type", "application/json"), *disguise))
                               for method, path in ROUTES]
                    answers = requests.settle(streams)
            except (raw_h2.Closed, OSError):
                counts["closed"] += 1
                continue
            counts["tries"] += len(streams)
            for status in answers.values():
                counts["refused" if status in REFUSALS else "passed"] += 1
        done += 1
    return counts
