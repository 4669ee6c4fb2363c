# What this user likes: a model that all users begin with says how likely it is that a visit of an
# item's page ends in a favourite, the cart or a purchase, and its last layer is fitted to this
# user's own visits, here. What was learned and the last visits stay on the device; reported is how
# well a visit was foreseen before it was learned from, and how many there were.
#
# The model that task.json names is not here: make_taste.py makes it, and visits to try. See
# docs/TASTE.md.
import walle
from walle import data, nn, store
import look

CONFIG = walle.config


# What an earlier run came to; of another version's model it cannot be gone on from.
def resume(trainer):
    try:
        return trainer.load("head")
    except ValueError:
        return False


# The same steps for all that is kept, so that a new visit does not push out the others.
def learn(trainer, visits, times):
    inputs = [visit[:-1] for visit in visits]
    targets = [visit[-1:] for visit in visits]
    for _ in range(times):
        trainer.step(inputs, targets)


def run():
    visit = look.last_visit(data.events())
    if visit is None:
        return
    example = visit.numbers() + [visit.acted]
    kept = store.get("visits", [])
    trainer = nn.Trainer(nn.load("taste.onnx"), loss="bce", lr=CONFIG["rate"], train=["head.*"])
    if not resume(trainer) and kept:
        learn(trainer, kept, CONFIG["steps"] * len(kept))  # a new model: what is kept is learned at once
    loss = trainer.evaluate([example[:-1]], [example[-1:]])
    kept = (kept + [example])[-CONFIG["visits"]:]
    learn(trainer, kept, CONFIG["steps"])
    trainer.save("head")
    seen = store.get("seen", 0) + 1
    store.put("seen", seen)
    store.put("visits", kept)
    walle.result({"loss": round(loss, 4), "visits": seen})


run()
