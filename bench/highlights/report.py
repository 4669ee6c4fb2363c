"""The report of the worked example: one HTML file with its plots in it."""
import html

INK, GRID_COLOUR, OURS, OTHER, THIRD = "#222", "#ddd", "#1769aa", "#c05a1a", "#5c8a3a"
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 60, 40


def svg(parts, width=WIDTH, height=HEIGHT):
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" font-family="sans-serif" font-size="12" fill="{INK}">'
            + "".join(parts) + "</svg>")


def text(x, y, words, anchor="start", **more):
    extra = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def axes(low, high, label):
    """The frame of a plot of shares, and what places a value."""
    def place(x, y):
        return LEFT + x * (WIDTH - LEFT - 20), HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - BOTTOM - 20)
    parts = []
    for i in range(6):
        y = low + (high - low) * i / 5
        at = place(0, y)[1]
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - 20}" y2="{at:.1f}" stroke="{GRID_COLOUR}"/>')
        parts.append(text(LEFT - 6, at + 4, f"{100 * y:.1f}", "end"))
    for i in range(6):
        parts.append(text(place(i / 5, low)[0], HEIGHT - BOTTOM + 16, f"{20 * i} %", "middle"))
    parts.append(text(WIDTH / 2, HEIGHT - 6, label, "middle"))
    return parts, place


def trade_off(curve, chosen, cloud):
    """Accuracy over the share that is sent; curve: (sent, accuracy, low, high) by rising share."""
    low = min(min(point[2] for point in curve), cloud - 0.02)
    high = min(max(max(point[3] for point in curve), cloud) + 0.01, 1.0)
    parts, place = axes(low, high, "share of moments sent to the cloud; accuracy of both together, %")
    band = [place(sent, top) for sent, _, _, top in curve] + [place(sent, least) for sent, _, least, _ in reversed(curve)]
    parts.append(f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in band)}" fill="{OURS}" opacity="0.15"/>')
    line = " ".join("%.1f,%.1f" % place(sent, accuracy) for sent, accuracy, _, _ in curve)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{OURS}" stroke-width="2"/>')
    for level, words, dash in ((cloud, "cloud alone", "4 3"), (cloud - 0.01, "one point below", "1 3")):
        (x1, y), (x2, _) = place(0, level), place(1, level)
        parts.append(f'<line x1="{x1}" y1="{y:.1f}" x2="{x2}" y2="{y:.1f}" stroke="{OTHER}" stroke-dasharray="{dash}"/>')
        parts.append(text(x2 - 4, y - 4, words, "end"))
    x, y = place(*chosen)
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{OURS}"/>', text(x + 8, y + 16, "chosen")]
    return svg(parts)


def bars(rows, unit, most):
    """Horizontal bars: (label, value, low, high), the last two None without an interval."""
    parts, height = [], 30 * len(rows) + 20
    for i, (label, value, low, high) in enumerate(rows):
        y = 10 + 30 * i
        scale = (WIDTH - 260) / most
        parts.append(text(170, y + 15, label, "end"))
        parts.append(f'<rect x="180" y="{y}" width="{max(value * scale, 1):.1f}" height="20" fill="{(OURS, OTHER, THIRD)[i % 3]}"/>')
        if low is not None:
            parts.append(f'<line x1="{180 + low * scale:.1f}" y1="{y + 10}" x2="{180 + high * scale:.1f}" y2="{y + 10}" '
                         f'stroke="{INK}" stroke-width="2"/>')
        parts.append(text(186 + max(value, high or 0) * scale, y + 15, f"{value:.4g} {unit}"))
    return svg(parts, height=height)


def table(head, rows):
    cells = "".join(f"<th>{html.escape(word)}</th>" for word in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{lines}</table>"


def share(interval):
    middle, low, high = interval
    return f"{100 * middle:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


STYLE = ("body{font:15px/1.5 sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse}"
         "td,th{border:1px solid #ccc;padding:3px 8px;text-align:left;font-size:13px}h1{font-size:24px}h2{font-size:18px}")


def page(sections):
    """sections: (heading, HTML); texts are escaped by who makes them."""
    body = "".join((f"<h2>{html.escape(heading)}</h2>" if heading else "") + inner for heading, inner in sections)
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Highlights in live streams</title><style>{STYLE}</style>'
            f"<h1>Highlights in live streams</h1>{body}</html>\n")


def paragraph(words):
    return f"<p>{html.escape(words)}</p>"
