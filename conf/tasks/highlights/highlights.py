# Highlights of a live stream: a frame and the sound after it start the task. Four small models look
# and listen on the device; where they are sure, their answer stands, else the cloud's big model is
# asked. Without an answer from there the device's own stands.
#
# An answer is 0, no highlight, or 1 + the kind of the item that is shown. The threshold is the one
# that `walle fallback threshold` chose; `./bench/run highlights` puts it into a copy of task.json.
# The models that task.json names are made by it too, they are not here: see docs/HIGHLIGHTS.md.
import walle
from walle import cloud, data
from moment import Moment, weigh

BIG = "highlights-big"
RULE = walle.config["rule"]


# The cloud's answer, or None; and what became of it.
def ask(moment, score):
    wanted, why = cloud.decide(score, RULE, model=BIG)
    if not wanted:
        return None, why
    said = cloud.infer(BIG, {"frame": moment.frame, "sound": moment.sound}, RULE["deadline_ms"], None)
    return said["classes"].argmax() if said else None, cloud.why()


def judge(event):
    number = event["moment"]
    moment = None
    score = event.get("confidence")
    if score is None:
        moment = Moment(number)
        answer, score = weigh(moment)
    else:  # measured before, by the same models
        answer = event["answer"]
    result = {"moment": number, "own": answer, "confidence": score, "by": "device", "replayed": moment is None}
    if score < RULE["threshold"]:
        result["by"] = "cloud"
        if moment is not None:
            said, result["why"] = ask(moment, score)
            if said is None:
                result["by"] = "device, no answer"
            else:
                answer = said
    result["answer"] = answer
    return result


def run(events):
    for event in events:
        if event.name == "frame":
            walle.result(judge(event))
            return


run(data.events())
