"""Uses of walle.cv that move, resize and warp pixels, at sizes around those of its loops: odd widths, every number of channels,
rows that lie apart, every border. Each is an expression that OpenCV understands alike; which there are does not depend on chance.
"""
WIDTHS = (1, 7, 31, 33)
BORDERS = ("CONSTANT", "REPLICATE", "REFLECT", "WRAP", "REFLECT_101")
WAYS = ("NEAREST", "LINEAR", "CUBIC")


def images(rows=7):
    """Of each width, number of channels and of uint8 and float32: dense, every other row, and cut out."""
    for number, width in enumerate(WIDTHS):
        for channels in (1, 2, 3, 4):
            for dtype in ("uint8", "float32"):
                wide = width + 3 if (number + channels) % 3 == 0 else width
                full = (rows * 2, wide) + ((channels,) if channels > 1 else ())
                cut = f"[::2, 1:{width + 1}]" if wide > width else "[::2]" if channels % 2 else f"[:{rows}]"
                yield width, channels, f"im({full}, '{dtype}', {width * 5 + channels}){cut}"


def resized():
    for width, _, text in images():
        for how in (*WAYS, "AREA"):
            for size in ((width * 2 + 1, 3), (max(1, width // 2), 9)):
                yield "resize", f"cv.resize({text}, {size}, interpolation=cv.INTER_{how})"
    for width, _, text in images(12):
        for across, down in ((2, 2), (3, 2), (1, 4)):
            if width // across > 0 and "uint8" in text:
                whole = f"({text})[:, :{width // across * across}]"
                for how in ("LINEAR", "AREA"):
                    yield "resize", f"cv.resize({whole}, ({width // across}, {12 // down}), interpolation=cv.INTER_{how})"


def warped():
    turn = "cv.getRotationMatrix2D((5, 3), 17, 0.8)"
    tilt = "np.array([[0.9, 0.1, 0.3], [-0.1, 1.0, 0.5], [0.002, 0.001, 1.0]])"
    for number, (width, _, text) in enumerate(images()):
        for way, how in enumerate(WAYS):
            border = BORDERS[(number + way * 2) % 5]
            ending = f"flags=cv.INTER_{how}, borderMode=cv.BORDER_{border}, borderValue=(9, 77, 3, 200))"
            yield "warpAffine", f"cv.warpAffine({text}, {turn}, ({width + 4}, 5), {ending}"
            yield "warpPerspective", f"cv.warpPerspective({text}, {tilt}, ({width + 4}, 5), {ending}"
            places = f"(im((6, 33), 'float32', {number}) + 0.9) * {width / 2}, im((6, 33), 'float32', {number + 50}) * 4 + 3"
            yield "remap", f"cv.remap({text}, {places}, cv.INTER_{how}, borderMode=cv.BORDER_{border})"


def moved():
    for number, (_, _, text) in enumerate(images(3)):
        for code in (-1, 0, 1):
            yield "flip", f"cv.flip({text}, {code})"
            yield "rotate", f"cv.rotate({text}, {code + 1})"
        for border in BORDERS:
            sides = f"{number % 3}, {number % 2 + 1}, {number % 5}, {(number + 2) % 6}"
            yield "copyMakeBorder", f"cv.copyMakeBorder({text}, {sides}, cv.BORDER_{border}, value=(9, 77, 3, 200))"


def cases():
    """(name, line) of each use."""
    return [(name, "return " + text) for make in (resized, warped, moved) for name, text in make()]
