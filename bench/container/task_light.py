# A light task: a few lines of arithmetic and a small loop. bench/container/container_tasks.py runs it.
weights = {"view": 1, "cart": 3, "buy": 9}
score, seen = 0, {}
for i in range(40):
    kind = ("view", "view", "cart", "buy")[i % 4]
    seen[kind] = seen.get(kind, 0) + 1
    score += weights[kind] * (40 - i)
out = [score, seen["view"], score * 100 // 40]
