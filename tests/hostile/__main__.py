"""Runs one attack for a while: see the package's text."""
import argparse
import importlib
import json
import os
import pkgutil
import signal
import sys
import threading

from .target import Target


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(os.path.dirname(folder), "e2e"))  # raw_h2
    names = sorted(module.name for module in pkgutil.iter_modules([folder]) if module.name not in ("__main__", "target"))
    parser = argparse.ArgumentParser(prog="hostile", description="Runs one attack against a gateway on this machine.")
    parser.add_argument("name", choices=names)
    parser.add_argument("--h2c", type=int, help="port of clear HTTP/2 on 127.0.0.1")
    parser.add_argument("--tls", type=int, help="port of TLS on 127.0.0.1")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--share", type=float, default=1.0, help="of the attack's own rate")
    parser.add_argument("--seed", type=int, default=0, help="of what the attack invents")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    timer = threading.Timer(options.seconds, stop.set)
    timer.daemon = True
    timer.start()
    module = importlib.import_module("." + options.name, __package__)
    counts = module.attack(Target(options.h2c, options.tls, options.share, options.seed), stop)
    print(json.dumps({"attack": options.name, "point": module.POINT, **counts}))


main()
