#!/usr/bin/env python3
"""The worked example: highlights in live streams, small models on devices, a big one in the cloud. Writes bench/out/highlights/report.html and bench/out/highlights.jsonl.

    highlights_bench.py [--build DIR] [--size test|usual|large|published] [--devices N] [--real N] [--threads N] [--seed N] [--out DIR] [--reuse] [--no-fleet]

Everything is made here: moments of streams that never were (bench/highlights/world.py says how they are drawn), networks
(networks.py), their weights by `walle-engine train`, the threshold by `walle fallback threshold`, and an hour of streamers
by `walle-fleet-sim` against a gateway that serves the big model too. Seeds of training, threshold and test differ.

highlights.sent           share of moments that go to the cloud (test moments)
highlights.accuracy       of both together; beside: the cloud alone
highlights.cloud_load     calls of the cloud that are spared
highlights.fleet.sent     the share in the fleet's hour
highlights.latency.p99    of a moment, end to end, over the modelled phones (the report has the published sizes too)
"""
import argparse
import json
import os
import shutil
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "highlights"))
import figures  # noqa: E402
import networks  # noqa: E402
import report  # noqa: E402
import world  # noqa: E402
from cloud import Cloud, write_repository  # noqa: E402
from fleet import AGENT, AGENT_MOMENTS, Fleet, write_hours, write_moments, write_task  # noqa: E402
from models import Engine  # noqa: E402

SOURCE = os.path.join(HERE, "..")
WITHIN = 0.01        # of the cloud's accuracy: what the threshold is chosen for
BARS = {"sent": 0.15, "within": -0.01, "cloud_load": 0.85, "device_ms": 150}
KEPT_REPLAYS = 5000  # records of replayed moments that are left beside the report
REAL_MOMENTS = 400   # the camera of the few holds so many

# plans of device and cloud; examples and epochs of each (pictures count `copies` times); moments of threshold and test; streamers that replay and run.
# `test` is for tests, sanitised programs among them: seconds of training, which find something in a world that is easier.
SIZES = {
    "test": {"plans": ("tiny", "small"), "examples": (500, 1200), "epochs": (6, 8), "batch": 8, "copies": 2, "world": world.EASY,
             "threshold": 1500, "test": 1500, "devices": 60, "real": 10},
    "usual": {"plans": ("tiny", "small"), "examples": (20000, 20000), "epochs": (3, 3), "copies": 3, "threshold": 25000, "test": 5000,
              "devices": 10000, "real": 100},
    "large": {"plans": ("small", "big"), "examples": (10000, 20000), "epochs": (8, 10), "threshold": 10000, "test": 10000,
              "devices": 10000, "real": 100},
    "published": {"plans": ("published", "published"), "examples": (10000, 20000), "epochs": (6, 10), "threshold": 10000,
                  "test": 10000, "devices": 10000, "real": 100},
}
SEED_TRAINING, SEED_THRESHOLD, SEED_TEST = 1, 2, 3


def say(words):
    print(words, flush=True)


class Example:
    def __init__(self, options):
        self.options, self.size = options, SIZES[options.size]
        self.bin = os.path.join(os.path.abspath(options.build), "bin")
        self.out = os.path.abspath(options.out)
        os.makedirs(os.path.join(self.out, "work"), exist_ok=True)
        self.engine = Engine(os.path.join(self.bin, "walle-engine"), os.path.join(self.out, "work"), options.threads, options.reuse)
        self.engine.batch = self.size.get("batch", self.engine.batch)
        self.engine.copies = self.size.get("copies", self.engine.copies)
        self.world = self.size.get("world", world.FULL)
        self.plans = [networks.PLANS[name] for name in self.size["plans"]]
        self.devices = self.size["devices"] if options.devices is None else options.devices
        self.real = min(self.size["real"] if options.real is None else options.real, self.devices)
        self.results = {"size": options.size, "seed": options.seed}

    def seed(self, which):
        return 1000 * self.options.seed + which

    def path(self, *names):
        return os.path.join(self.out, *names)

    def make(self, seed, count):
        return world.moments(seed, count, self.world, self.options.threads)

    def warning(self):
        """What is to be known of a size that does not measure the example; None of the others."""
        if self.options.size != "test":
            return None
        return ("The size 'test' only shows that the machinery works: its networks learnt for seconds, from an easier world ("
                f"{world.words(self.world)}). No figure here says how good the example is.")

    # ---- Models and threshold

    def train(self):
        """The cloud's networks learn from the moments of the device's, at some sizes from more."""
        names, seed = self.size["plans"], self.seed(SEED_TRAINING)
        say(f"training the networks of the device, {names[0]}, and of the cloud, {names[1]}")
        drawn = self.make(seed, 0 if all(map(self.engine.has, names)) else max(self.size["examples"]))
        plans = {name: (drawn.first(count), epochs) for name, count, epochs in zip(names, self.size["examples"], self.size["epochs"])}
        trained = self.engine.train_plans(plans, seed)
        self.weights = [trained[name] for name in names]

    def score(self, which, count):
        moments = self.make(self.seed(which), count)
        return moments, *(self.engine.classes(name, weights, moments) for name, weights in zip(self.size["plans"], self.weights))

    def choose(self, fleet):
        """The threshold, out of moments that neither model learnt from and the test does not have."""
        moments, device, cloud = self.score(SEED_THRESHOLD, self.size["threshold"])
        scores = self.path("scores.csv")
        figures.write_scores(scores, device, cloud, moments.answer)
        answer = fleet.walle("fallback", "threshold", scores, "--within", str(WITHIN), "--out", self.path("threshold.html"), "-o", "json",
                             codes=(0, 1))
        chosen = json.loads(answer)["chosen"]
        shown = chosen is not None
        if not shown:  # the scores do not show it: the share that is wanted is what is left to ask for
            answer = fleet.walle("fallback", "threshold", scores, "--share", str(BARS["sent"]), "-o", "json")
            chosen = json.loads(answer)["chosen"]
        self.threshold = chosen["threshold"]
        self.results["threshold"] = {"value": self.threshold, "shown": shown, "scores": len(moments)}
        say(f"threshold {self.threshold:.4f}, " + ("as the scores show" if shown else "the share wanted; the scores do not show one point"))

    def test(self):
        self.moments, self.device, self.cloud = self.score(SEED_TEST, self.size["test"])
        figures.write_scores(self.path("test.csv"), self.device, self.cloud, self.moments.answer)
        self.judged = figures.judged(self.device, self.cloud, self.moments.answer, self.threshold)
        self.results["test"] = self.judged
        say(f"sent {report.share(self.judged['sent'])}; right: " +
            "; ".join(f"{who} {report.share(interval)}" for who, interval in self.judged["accuracy"].items()) + "; highlights found: " +
            "; ".join(f"{who} {report.share(interval)}" for who, interval in self.judged["found"].items()))

    # ---- The fleet

    def play(self, fleet):
        pool = min(REAL_MOMENTS, len(self.moments))
        first = self.make(self.seed(SEED_TEST), pool)
        models = networks.parts_for_devices(self.plans[0], self.weights[0]) | {"camera.onnx": networks.camera(first)}
        write_task(os.path.join(SOURCE, "conf", "tasks", "highlights"), fleet.path("task"), models, self.threshold)
        fleet.release(fleet.path("task"))
        own, score = self.device.argmax(1), self.device.max(1)
        tiers = {"real": (self.real, 0, pool, None), "replay": (self.devices - self.real, self.real, len(own), (own, score))}
        for name, (count, begin, moments, scores) in tiers.items():
            if count == 0:
                continue
            say(f"{count} streamers, an hour each, {name}")
            began = time.monotonic()
            write_hours(fleet.path(name + ".jsonl"), self.seed(SEED_TEST) + begin, moments, scores)
            run = fleet.play(name, fleet.path(name + ".jsonl"), count, begin)
            task = run["behaviour"]["tasks"][0]
            self.results.setdefault("tiers", {})[name] = {"streamers": count, "runs": task["ran"],
                                                           "took_s": round(time.monotonic() - began, 1)}
        self.play_agent(fleet, score[:pool])
        self.sum_up(fleet.records(), own)

    def play_agent(self, fleet, score):
        """Half of its moments are sure, half are not, if there are so many."""
        order = np.argsort(score < self.threshold, kind="stable")
        numbers = np.concatenate([order[:AGENT_MOMENTS // 2], order[-AGENT_MOMENTS // 2:]])
        write_moments(fleet.path("agent.jsonl"), numbers)
        fleet.play_agent(fleet.path("agent.jsonl"))

    def sum_up(self, records, own):
        """What the fleet's records say: the share sent, and whether devices came to what was scored before."""
        devices, sent_moments, kept = set(), set(), []
        total = sent = lost = replays = 0
        self.ends = figures.Ends()
        for record in records:
            if record is None:
                lost += 1
                continue
            replays += record["replayed"]
            if not record["replayed"] or replays <= KEPT_REPLAYS:
                kept.append(record)
            if record["device"] == AGENT:
                continue
            total += 1
            devices.add(record["device"])
            self.ends.add(record)
            if record["by"] != "device":
                sent += 1
                sent_moments.add(record["moment"])
        with open(self.path("records.jsonl"), "w", encoding="ascii") as file:
            file.writelines(json.dumps(record) + "\n" for record in kept)
        self.sent_moments = sorted(sent_moments)
        real = [record for record in kept if not record["replayed"]]
        alone = [record for record in real if record["device"] == AGENT]
        differences = [abs(record["confidence"] - float(self.device[record["moment"]].max())) for record in real]
        self.results["fleet"] = {
            "streamers": len(devices), "moments": total, "lost": lost, "sent": figures.wilson(sent, max(total, 1)),
            "real": len(real), "largest_difference": max(differences, default=0),
            "same_answers": sum(record["own"] == own[record["moment"]] for record in real),
            "agent": {"moments": len(alone), "calls": self.calls_of(alone)},
            "calls": self.calls_of([record for record in real if record["device"] != AGENT])}
        say(f"fleet: {total} moments, {lost} lost, sent {report.share(self.results['fleet']['sent'])}; "
            f"{self.results['fleet']['same_answers']} of {len(real)} answers of devices as scored before; an agent's calls of the cloud: "
            f"{self.words(self.results['fleet']['agent']['calls'])}")

    def calls_of(self, records):
        """What devices' own calls of the cloud came to: answers as scored, others, and why there was none."""
        counts = {}
        for record in records:
            if record["by"] != "device":
                same = record["answer"] == self.cloud[record["moment"]].argmax()
                what = record["why"] if record["by"] != "cloud" else "answered as scored" if same else "answered otherwise"
                counts[what] = counts.get(what, 0) + 1
        return counts

    def ask_cloud(self, fleet):
        """Each moment that was sent, once, over HTTP: answers and times. Replayed moments end with these answers."""
        cloud = Cloud(fleet.ports["h2c"])
        answers = {}
        for number in self.sent_moments or range(20):
            answers[number] = int(cloud.classes(self.moments.frame[number], self.moments.sound[number]).argmax())
        cloud.close()
        with open(self.path("cloud.csv"), "w", encoding="ascii") as file:
            file.write("moment,answer\n" + "".join(f"{number},{answer}\n" for number, answer in answers.items()))
        total = self.results["fleet"]["moments"]
        self.results["fleet"]["right"] = figures.wilson(self.ends.right(answers, self.moments.answer), max(total, 1))
        different = sum(answer != self.cloud[number].argmax() for number, answer in answers.items())
        self.cloud_ms = cloud.took_ms
        self.results["cloud"] = {"calls": len(cloud.took_ms), "bytes_a_call": cloud.bytes // len(cloud.took_ms), "other_answers": different,
                                 "p50_ms": float(np.quantile(self.cloud_ms, 0.5)), "p99_ms": float(np.quantile(self.cloud_ms, 0.99))}

    # ---- Figures

    def times(self, fleet):
        """Of a moment by part: networks by their products and the phone, the rest measured here."""
        log = fleet.path("one.jsonl")
        with open(log, "w", encoding="ascii") as file:
            for name, attrs in (("frame", {"moment": 0, "answer": 1, "confidence": 0.999}), ("sound", {})):
                file.write(json.dumps({"kind": "custom", "name": name, "page": "live", "attrs": attrs}) + "\n")
        said = fleet.walle("task", "run", fleet.path("build"), "--events", log, "-o", "json")
        script_ms = max(run.get("duration_us", 0) for run in json.loads(said).get("runs", [{}])) / 1000
        shares = figures.phone_shares(os.path.join(SOURCE, "conf", "populations", "default.conf"))
        sent = self.judged["sent"][0]
        self.results["latency"] = {name: figures.latency(networks.PLANS[name], shares, script_ms, sent, self.cloud_ms)
                                   for name in {self.size["plans"][0], "published"}}

    def write(self):
        sent, load = self.judged["sent"][0], 1 - self.judged["sent"][0]
        accuracy = self.judged["accuracy"]
        latency = self.results["latency"]
        self.results["cloud_load_saved"] = load
        self.results["coverage"] = 1 / max(sent, 1e-9)
        self.results["bars"] = {"sent": sent <= BARS["sent"], "within": self.judged["within"][0] >= BARS["within"],
                                "cloud_load": load >= BARS["cloud_load"],
                                "device_ms": latency["published"]["device"]["most"] < BARS["device_ms"]}
        rows = [("highlights.sent", sent, None, None, "share", "lower"),
                ("highlights.accuracy", accuracy["both"][0], "cloud alone", accuracy["cloud"][0], "share", "higher"),
                ("highlights.cloud_load", load, None, None, "share", "higher"),
                ("highlights.fleet.sent", self.results["fleet"]["sent"][0], None, None, "share", "lower"),
                ("highlights.latency.p99", latency[self.size["plans"][0]]["all"]["p99"], None, None, "ms", "lower")]
        with open(os.path.join(os.path.dirname(self.out), "highlights.jsonl"), "a", encoding="ascii") as file:
            for bench, ours, peer, theirs, unit, better in rows:
                ratio = None if theirs is None else round(ours / theirs, 4)
                file.write(json.dumps({"bench": bench, "ours": round(ours, 4), "peer": peer, "theirs": theirs, "unit": unit, "ratio": ratio,
                                       "better": better, "size": self.options.size}) + "\n")
        self.write_result()
        with open(self.path("report.html"), "w", encoding="utf-8") as file:
            file.write(report.page(list(self.sections())))
        say("report: " + self.path("report.html"))

    def write_result(self):
        with open(self.path("result.json"), "w", encoding="ascii") as file:
            json.dump(self.results, file, indent=1, default=lambda value: value.item())  # of numpy

    def sections(self):
        judged, fleet = self.judged, self.results["fleet"]
        if self.warning():
            yield "", report.paragraph("Warning. " + self.warning())
        yield "", report.paragraph(
            "Small models on devices look at each moment of a live stream; where they are not sure, the big model in the cloud is asked. "
            "All data is synthetic: pictures and sounds are drawn by a program (bench/highlights/world.py), with how hard they are following "
            "from distributions that were fixed before. What holds here says how the parts work together, not how good models are on "
            "real streams.")
        names = {"sent": "at most 15 % sent", "within": "within a point of the cloud alone", "cloud_load": "cloud load saved, at least 85 %",
                 "device_ms": "on the device under 150 ms, published sizes, slowest phone"}
        yield "What was asked for", report.table(["bar", "met", "figure"], [
            (names["sent"], self.met("sent"), report.share(judged["sent"])),
            (names["within"], self.met("within"), "difference " + report.share(judged["within"])),
            (names["cloud_load"], self.met("cloud_load"), f"{100 * self.results['cloud_load_saved']:.2f} %"),
            (names["device_ms"], self.met("device_ms"), f"{self.results['latency']['published']['device']['most']:.1f} ms")])
        curve = []
        for cut in np.unique(np.quantile(self.device.max(1), np.linspace(0, 1, 41))):
            at = figures.judged(self.device, self.cloud, self.moments.answer, cut)
            curve.append((at["sent"][0], *at["accuracy"]["both"]))
        curve.append((1.0, *judged["accuracy"]["cloud"]))
        shown = self.results["threshold"]["shown"]
        yield "Accuracy over what is sent", report.trade_off(curve, (judged["sent"][0], judged["accuracy"]["both"][0]),
                                                           judged["accuracy"]["cloud"][0]) + report.paragraph(
            f"{judged['moments']} test moments, none of which was seen before; the threshold {self.threshold:.4f} was chosen on "
            f"{self.results['threshold']['scores']} others by walle fallback threshold" +
            (" --within 0.01." if shown else ": they do not show a point's nearness, so it is the one of a share of 15 %."))
        yield "Who is right", report.bars([(who, *(100 * value for value in judged["accuracy"][key])) for who, key in
                                          (("device alone", "device"), ("cloud alone", "cloud"), ("both", "both"))], "%", 100) + \
            report.table(["", "answers right", "highlights found and named"],
                         [(who, report.share(judged["accuracy"][key]), report.share(judged["found"][key])) for who, key in
                          (("device alone", "device"), ("cloud alone", "cloud"), ("both", "both"))])
        coverage = self.results["coverage"]
        yield "Cloud", report.bars([("calls, cloud alone", 100, None, None), ("calls, both", *(100 * value for value in judged["sent"]))], "%",
                                   100) + report.bars([("covered, cloud alone", 1, None, None), ("covered, both", coverage, None, None)],
                                                      "streamers", coverage) + report.paragraph(
            f"Calls saved: {100 * self.results['cloud_load_saved']:.1f} %. For the calls that the cloud alone needs for one streamer, "
            f"{coverage:.2f} streamers are covered; highlights found for each call: "
            f"{coverage * judged['found']['both'][0] / judged['found']['cloud'][0]:.2f} times as many. Both count calls "
            f"alone, not the tunnel and the release.") + report.paragraph(
            f"{self.results['cloud']['calls']} calls of the gateway's inference service, each of {self.results['cloud']['bytes_a_call']:,} "
            f"bytes: p50 {self.results['cloud']['p50_ms']:.2f} ms, p99 {self.results['cloud']['p99_ms']:.2f} ms on this machine, load "
            f"included; {self.results['cloud']['other_answers']} answers other than those scored before.")
        ends = (f"Sent: {report.share(fleet['sent'])}; right: {report.share(fleet['right'])}: a moment counts with the answer of its record, "
                "so a device's own where the cloud gave none; one that was replayed and sent, with the answer over HTTP.")
        yield "The fleet's hour", report.table(["tier", "streamers", "moments", "wall time"], [
            ({"real": "models run by the engine, moment by moment", "replay": "scores measured before are replayed"}[name],
             tier["streamers"], tier["runs"], f"{tier['took_s']} s") for name, tier in self.results["tiers"].items()]) + report.paragraph(
            f"{fleet['moments']} records of {fleet['streamers']} streamers came up the tunnel, {fleet['lost']} were declared lost. "
            f"{ends} Devices came to the scored answer in "
            f"{fleet['same_answers']} of {fleet['real']} moments, confidences at most {fleet['largest_difference']:.2g} apart. Moments repeat: "
            f"there are {judged['moments']} of them, so these intervals are of the playing, not of the models. "
            "Calls of the cloud by streamers that run the models, and what came of "
            f"them: {self.words(fleet['calls'])}. One agent, walle-device as it ships, ran {fleet['agent']['moments']} moments besides; its calls: "
            f"{self.words(fleet['agent']['calls'])}.")
        yield "Time of a moment", "".join(self.latencies())
        yield "Models", report.table(["plan", "part", "parameters", "million products", "trained"], list(self.model_rows()))

    @staticmethod
    def words(counts):
        return ", ".join(f"{count} {what}" for what, count in counts.items()) or "none"

    def met(self, bar):
        return "yes" if self.results["bars"][bar] else "no"

    def latencies(self):
        for name, latency in sorted(self.results["latency"].items(), reverse=True):
            yield report.paragraph(f"Networks of the size '{name}'; ms by part and phone:")
            parts = list(latency["parts"].values())[0]
            yield report.table(["phone", *parts], [(phone, *(f"{value:.2f}" for value in of.values())) for phone, of in latency["parts"].items()])
            rows = [(f"{words} {which}", latency[key][which], None, None) for words, key in
                    (("device", "device"), ("cloud, with the way", "cloud"), ("all moments", "all")) for which in ("p50", "p99")]
            yield report.bars(rows, "ms", max(value for _, value, _, _ in rows))
        yield report.paragraph(
            "Modelled: a phone does so many products a second (58 G, MNN's published MobileNetV2 on a Kirin 990; a third; a ninth; shares by "
            f"conf/populations/default.conf), pictures have {world.SIDE} pixels a side, the way to the cloud and back takes "
            f"{figures.ROUND_TRIP_MS} ms. Measured here: the script without its models, and the cloud's calls.")

    def model_rows(self):
        for name in dict.fromkeys((*self.size["plans"], "published")):
            for part in networks.PARTS:
                count, products = networks.parameters_and_products(part, networks.PLANS[name])
                seconds = self.engine.seconds.get((name, part))
                trained = f"{seconds:.0f} s" if seconds is not None else "earlier" if self.engine.has(name) else "no"
                yield name, part, f"{count:,}", f"{products / 1e6:.3f}", trained

    def run(self):
        began = time.monotonic()
        if self.warning():
            say("warning: " + self.warning())
        fleet = Fleet(self.options.build)
        try:
            self.train()
            self.choose(fleet)
            self.test()
            if self.options.no_fleet:
                self.write_result()
                return
            repository = fleet.path("models")
            write_repository(repository, self.plans[1], self.weights[1])
            fleet.begin(repository)
            self.play(fleet)
            self.ask_cloud(fleet)
            self.times(fleet)
        finally:
            fleet.close()
        self.results["took_s"] = round(time.monotonic() - began, 1)
        self.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", help="a build's folder (the one whose `walle` is in PATH)")
    parser.add_argument("--size", choices=SIZES, default="usual", help="of networks, training and fleet (usual)")
    parser.add_argument("--devices", type=int, help="streamers")
    parser.add_argument("--real", type=int, help="of those, how many run the models")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="networks that are trained, or blocks of moments drawn, at once (all cores)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "out", "highlights"), help="folder of the report")
    parser.add_argument("--reuse", action="store_true", help="do not train again what --out holds from the same size and seed")
    parser.add_argument("--no-fleet", action="store_true", help="end with the scores of the test (result.json); --reuse goes on from there")
    options = parser.parse_args()
    if options.build is None:
        found = shutil.which("walle")
        if found is None:
            parser.error("no `walle` in PATH: --build DIR")
        options.build = os.path.dirname(os.path.dirname(os.path.realpath(found)))
    Example(options).run()


if __name__ == "__main__":
    main()
