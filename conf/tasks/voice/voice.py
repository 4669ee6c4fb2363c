# When somebody speaks: the app hands a clip over as "microphone", a WAV file; a model says of every
# 10 ms how likely it is speech, and what is near one another becomes one piece.
#
# The model that task.json names is not here: make_voice.py makes it, and clips to try. See
# docs/VOICE.md.
import walle
from walle import nn
import sound

CONFIG = walle.config
STEP_S = sound.HOP / sound.RATE


# Pieces [from, to] in steps: gaps are closed, and what is left alone and short goes.
def pieces_of(chances):
    pieces = []
    for step in range(len(chances)):
        if chances[step] < CONFIG["likely"]:
            continue
        if pieces and (step - pieces[-1][1]) * STEP_S <= CONFIG["gap_s"]:
            pieces[-1][1] = step
        else:
            pieces.append([step, step])
    return [piece for piece in pieces if (piece[1] - piece[0] + 1) * STEP_S >= CONFIG["least_s"]]


def run():
    if "microphone" not in walle.blobs():
        walle.result({"seconds": 0, "speech": []})  # the app has none for this run
        return
    signal = sound.heard(walle.blob("microphone"))
    chances = nn.load("voice.onnx")(sound.numbers(signal)).reshape(-1).tolist()
    speech = [[round(first * STEP_S, 2), round((last + 1) * STEP_S, 2)] for first, last in pieces_of(chances)]
    walle.result({"seconds": round(len(signal) / sound.RATE, 2), "speech": speech})


run()
