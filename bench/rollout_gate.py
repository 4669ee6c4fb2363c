"""The quality of the gate, by simulation (part `gate` of rollout_bench.py).

A rollout goes over a fleet of 100,000 devices in stages of 1 %, 5 %, 20 % and 100 %. Devices check in every five minutes, a
tenth are switched off, installations take a minute in the median, and every device may go away for reasons of its own. The
failure rate before the update differs between rollouts: 0.1 % to 2 %. Scenarios: healthy; the update adds 0.5, 1, 5 or 20
points of failure; it crashes on one slice (3 % of the fleet, 60 % fail); it silently kills 5 % of the devices.

Rules. Ours: the gateway's own tally, blocks, silence and policy (bench/gate_ours.c), with the rule `logrank`, alpha 5 % for a rollout,
and ten devices of control for each updated one (--control). The rule `threshold` of the same stages is played beside it. hawkBit,
AWS IoT Jobs, Argo Rollouts: our implementations of their documented rules (gate_rules.h). Each rival gets the setting of its grid that
exposes fewest devices (geometric mean over the scenarios, so it knows the faults beforehand) among those that stop no more healthy
rollouts than ours do; AWS may combine two criteria. Then again with 5 % false stops allowed to the rivals (and ours as before):
`generous`. The part succeeds when ours keeps to alpha and exposes fewest in eight of nine comparisons at equal false stops.

With --base every rollout has the same failure rate before the update and the rivals' settings are made for it: their best
case, which needs an operator who knows the rate of every task.

Exposed: devices that were given the update while it is bad for their kind (on the bad slice: those of the slice), until the
rule stopped it; when it never does, all of them. hawkBit's pause lets the running group finish, as it documents.
"""
import concurrent.futures
import json
import math
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICES = 100000
HEALTHY_RUNS, FAULTY_RUNS, CHUNK = 1000, 200, 25
FALSE_STOPS_MAX = 0.05
SLICES_ALPHA = 0.005  # a tenth of alpha
OURS, PLAIN = "logrank", "threshold"
RIVALS = ("hawkbit", "aws", "argo")
FEWEST_AT_LEAST = 8 / 9  # share of the comparisons in which ours exposes fewest, with as many false stops
LABELS = {"ours": "ours", PLAIN: "ours, threshold", "hawkbit": "hawkBit", "aws": "AWS IoT Jobs", "argo": "Argo Rollouts"}
COLOURS = {"ours": "#1b7f5c", PLAIN: "#8fc4b0", "hawkbit": "#b4552d", "aws": "#c79a1e", "argo": "#5a6fb0"}
STOPPED = "stopped"


class Outcome:
    """Where one rollout ended under one rule."""
    __slots__ = ("end", "at_s", "exposed", "harmed", "quarantined", "found")

    def __init__(self, fields):
        self.end, self.at_s, self.exposed = fields[0], float(fields[1]), int(fields[2])
        self.harmed, self.quarantined, self.found = int(fields[3]), int(fields[4]), fields[6] == "1"

    def caught(self):
        return self.end == STOPPED or self.quarantined > 0


def play(command, scenario, first, runs):
    binary, *base = command
    text = subprocess.run([binary, scenario, str(first), str(runs), str(DEVICES), "all", *base], capture_output=True, text=True,
                          check=True).stdout
    return [line.split() for line in text.splitlines()]


def simulate(args, scenario, runs, counts):
    """{rule: [per run: [Outcome per setting]]}; settings left out of the output equal the one before."""
    command = [os.path.join(os.path.abspath(args.build), "bin", "gate_sim"), str(args.base or 0), str(args.control or 0)]
    found = {rule: [[None] * count for _ in range(runs)] for rule, count in counts.items()}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = [pool.submit(play, command, scenario, first, min(CHUNK, runs - first)) for first in range(0, runs, CHUNK)]
        for job in jobs:
            for rule, run, setting, *rest in job.result():
                found[rule][int(run)][int(setting)] = Outcome(rest)
    for rule in found:
        for row in found[rule]:
            for i in range(1, len(row)):
                row[i] = row[i] or row[i - 1]
    return found


def earlier(a, b):
    """Of two criteria in force at once, the one that acts first."""
    return min(a, b, key=lambda outcome: (not outcome.caught(), outcome.at_s))


class Setting:
    """A setting of a rival: one of its grid, or two AWS criteria at once."""

    def __init__(self, rule, indices, names):
        self.rule, self.indices = rule, indices
        self.text = "; ".join(names[rule][i] for i in indices)

    def outcome(self, row):
        first = row[self.indices[0]]
        return first if len(self.indices) == 1 else earlier(first, row[self.indices[1]])


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def candidates(rule, healthy, names, allowed):
    """Settings that stop at most `allowed` of the healthy rollouts."""
    stops = [frozenset(run for run, row in enumerate(healthy) if row[i].caught()) for i in range(len(names[rule]))]
    singles = [i for i in range(len(stops)) if len(stops[i]) <= allowed]
    found = [Setting(rule, (i,), names) for i in singles]
    if rule == "aws":
        found += [Setting(rule, (i, j), names) for i in singles for j in singles if i < j and len(stops[i] | stops[j]) <= allowed]
    return found


def tune(rule, data, names, allowed):
    """The candidate with the least geometric mean of devices exposed, over a sample of the faulty runs."""
    best, best_score = None, math.inf
    for setting in candidates(rule, data["healthy"][rule], names, allowed):
        score = 0.0
        for scenario, found in data.items():
            if scenario != "healthy":
                score += math.log(1 + mean(setting.outcome(row).exposed for row in found[rule][:40]))
                if score >= best_score:
                    break
        if score < best_score:
            best, best_score = setting, score
    return best


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def summary(outcomes):
    caught = [outcome for outcome in outcomes if outcome.caught()]
    times = [outcome.at_s for outcome in caught]
    return {"runs": len(outcomes), "caught": len(caught) / len(outcomes),
            "held": mean(not outcome.caught() and outcome.end == "held" for outcome in outcomes),
            "delay_s_p50": percentile(times, 0.5) if times else None, "delay_s_p90": percentile(times, 0.9) if times else None,
            "exposed": mean(outcome.exposed for outcome in outcomes), "exposed_p90": percentile([o.exposed for o in outcomes], 0.9),
            "harmed_share": mean(outcome.harmed for outcome in outcomes) / DEVICES}


def summaries(data, settings):
    table = {}
    for scenario, found in data.items():
        table[scenario] = {name: summary([row[0] for row in found[rule]]) for name, rule in (("ours", OURS), (PLAIN, PLAIN))}
        for rule, setting in settings.items():
            table[scenario][rule] = summary([setting.outcome(row) for row in found[rule]])
    return table


def print_table(title, table, settings):
    print(title)
    for rule, setting in settings.items():
        print(f"  {LABELS[rule]}: {setting.text if setting else 'no setting stops so few healthy rollouts'}")
    print(f"  {'scenario':10} {'rule':14} {'caught':>7} {'held':>6} {'delay p50':>10} {'p90':>8} {'exposed':>9} {'p90':>8} {'harmed':>8}")
    for scenario, rules in table.items():
        for rule, row in rules.items():
            delay = [f"{row[key]:.0f} s" if row[key] is not None else "-" for key in ("delay_s_p50", "delay_s_p90")]
            print(f"  {scenario:10} {LABELS[rule]:14} {row['caught']:7.1%} {row['held']:6.1%} {delay[0]:>10} {delay[1]:>8} "
                  f"{row['exposed']:9.0f} {row['exposed_p90']:8.0f} {row['harmed_share']:8.3%}")


def plot(table, path):
    """Devices exposed, one group of bars for each scenario, on a logarithmic scale."""
    scenarios = [name for name in table if name != "healthy"]
    width, height, left, top, bar = 900, 380, 60, 50, 24
    group = (width - left - 20) / len(scenarios)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<text x="{left}" y="20" font-size="14">Devices exposed to a bad update before the gate stops it (mean)</text>']
    base = height - 50
    scale = (base - top) / 5
    for power in range(6):
        y = base - power * scale
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{10 ** power:,}</text>')
    for g, scenario in enumerate(scenarios):
        for b, (rule, row) in enumerate(table[scenario].items()):
            tall = max(1, math.log10(max(1, row["exposed"])) * scale)
            x = left + g * group + 8 + b * (bar + 2)
            out.append(f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{bar}" height="{tall:.1f}" fill="{COLOURS[rule]}">'
                       f'<title>{scenario}, {LABELS[rule]}: {row["exposed"]:.0f}</title></rect>')
        out.append(f'<text x="{left + (g + 0.45) * group:.1f}" y="{base + 18}" text-anchor="middle">{scenario}</text>')
    for b, rule in enumerate(LABELS):
        out.append(f'<rect x="{left + b * 150}" y="{height - 20}" width="12" height="12" fill="{COLOURS[rule]}"/>'
                   f'<text x="{left + b * 150 + 18}" y="{height - 10}">{LABELS[rule]}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n</svg>\n")


def lines_of(table, generous, settings, args):
    for scenario, rules in table.items():
        for rule in (PLAIN, *settings):
            ours, theirs = rules["ours"], rules[rule]
            what, unit = ("caught", "false stops") if scenario == "healthy" else ("exposed", "devices exposed")
            peer = LABELS[rule] + (", the same stages" if rule == PLAIN else ", documented rule")
            yield {"bench": f"gate.{scenario}.{rule}", "ours": round(ours[what], 4), "peer": peer,
                   "theirs": round(theirs[what], 4), "unit": unit, "ratio": round(ours[what] / theirs[what], 4) if theirs[what] else None,
                   "better": "lower", "detail": {"base": args.base or "0.001..0.02", "control": args.control or "standard", "ours": ours,
                                                 "setting": settings[rule].text if rule in settings else "", "theirs": theirs,
                                                 "theirs_at_5_percent_false_stops": generous[scenario].get(rule)}}


def slice_lines(data):
    """Segments held where nothing is wrong with any, and where one is."""
    def share(what, scenario, rule):
        return round(mean(getattr(row[0], what) > 0 for row in data[scenario][rule]), 4)
    healthy = share("quarantined", "healthy", OURS)
    yield {"bench": "gate.slices.false", "ours": healthy, "peer": "their part of alpha", "theirs": SLICES_ALPHA,
           "unit": "share of healthy rollouts with a segment held", "ratio": round(healthy / SLICES_ALPHA, 4),
           "better": "lower", "detail": {"runs": len(data["healthy"][OURS])}}
    stopped = round(mean(row[0].end == STOPPED for row in data["slice"][OURS]), 4)
    yield {"bench": "gate.slices.found", "ours": share("found", "slice", OURS), "peer": LABELS[PLAIN], "theirs": share("found", "slice", PLAIN),
           "unit": "share of rollouts in which the bad segment is held", "ratio": None, "better": "higher",
           "detail": {"runs": len(data["slice"][OURS]), "stopped": stopped}}


def fewest(table, settings):
    """In how many of how many comparisons ours exposes fewer devices than a rival."""
    pairs = [(rules["ours"]["exposed"], rules[rule]["exposed"]) for name, rules in table.items() if name != "healthy" for rule in settings]
    return sum(ours < theirs for ours, theirs in pairs), len(pairs)


def run(args):
    binary = os.path.join(os.path.abspath(args.build), "bin", "gate_sim")
    names = {rule: [] for rule in RIVALS}
    scenarios = []
    for line in subprocess.run([binary, "names"], capture_output=True, text=True, check=True).stdout.splitlines():
        kind, first, *rest = line.split(" ", 3)
        if kind == "name":
            names[first].append(rest[1])
        else:
            scenarios.append(first)
    counts = {OURS: 1, PLAIN: 1, **{rule: len(names[rule]) for rule in RIVALS}}
    share = 10 if args.quick else 1
    runs = {name: (HEALTHY_RUNS if name == "healthy" else FAULTY_RUNS) // share for name in scenarios}
    print(f"seeds 1..{max(runs.values())}, {DEVICES} devices, runs {runs}", flush=True)
    data = {}
    for name in scenarios:
        data[name] = simulate(args, name, runs[name], counts)
    false_stops = sum(row[0].caught() for row in data["healthy"][OURS])
    print(f"false stops of ours: {false_stops} of {runs['healthy']}")
    tables, chosen = [], []
    for allowed in (false_stops, int(FALSE_STOPS_MAX * runs["healthy"])):
        tuned = {rule: tune(rule, data, names, allowed) for rule in RIVALS}
        settings = {rule: setting for rule, setting in tuned.items() if setting}
        tables.append(summaries(data, settings))
        chosen.append(settings)
        print_table(f"rivals tuned to at most {allowed} false stops of {runs['healthy']} healthy rollouts:", tables[-1], tuned)
    os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
    plot(tables[0], os.path.join(HERE, "out", "rollout_gate.svg"))
    with open(os.path.join(HERE, "out", "rollout.jsonl"), "a", encoding="utf-8") as file:
        for line in (*lines_of(tables[0], tables[1], chosen[0], args), *slice_lines(data)):
            file.write(json.dumps(line) + "\n")
    counted = [fewest(table, settings) for table, settings in zip(tables, chosen)]
    for (fewer, all_of_them), allowed in zip(counted, ("as few", "5 %")):
        print(f"with {allowed} false stops of theirs ours exposes fewer devices in {fewer} of {all_of_them} comparisons")
    print("plot: bench/out/rollout_gate.svg")
    fewer, all_of_them = counted[0]
    return 1 if fewer < FEWEST_AT_LEAST * all_of_them or false_stops > FALSE_STOPS_MAX * runs["healthy"] else 0
