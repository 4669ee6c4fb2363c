# A heavy task as tasks with models are: windows of a signal, scaled; a small network over them; what of a store of embeddings is
# nearest. `np` is walle.np on a device, NumPy beside it. bench/container/container_tasks.py runs it.
def windows(start, count, size):
    t = np.arange(start, start + count * size)
    return (np.sin(t * 0.05) + (t * 7919 % 101) / 101).reshape(count, size)


def scaled(w):
    mean, deviation = w.mean(axis=1).reshape(-1, 1), w.std(axis=1).reshape(-1, 1)
    return ((w - mean) / (deviation + 1e-6)).astype("float32")


def softmax(y):
    e = np.exp(y - y.max(axis=1).reshape(-1, 1))
    return e / e.sum(axis=1).reshape(-1, 1)


def weights(rows, columns, step):
    return np.sin(np.arange(rows * columns) * step).reshape(rows, columns).astype("float32")


first, second, store = weights(32, 24, 0.7), weights(24, 6, 1.3), weights(128, 24, 2.9)
length = np.sqrt((store * store).sum(axis=1))
classes, nearest, sure = [], [], 0
for batch in range(12):
    hidden = np.maximum(scaled(windows(batch * 640, 20, 32)) @ first, 0)
    p = softmax(hidden @ second)
    best = p.argmax(axis=1)
    classes.append(int(best.sum()))
    sure += int(np.count_nonzero(p.max(axis=1) > 0.5))
    near = store @ hidden.mean(axis=0) / length
    nearest.append(int(np.argsort(near)[-1]))
out = [classes, nearest, sure]
