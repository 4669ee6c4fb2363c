"""Made-up moments of live streams: a picture and a second of sound each, with what is right for them.

Everything is synthetic and drawn from (seed, number of the moment) alone. How hard a moment is, is not chosen: it follows
from the distributions below, which are the same for training, for the choice of the threshold and for the test; only the
seeds differ.

    what                         distribution
    an item is shown             7 of 10 moments; one of 8 kinds: 4 outlines, each plain or striped
    its size, place, turn        diameter 0.36 to 0.62 of the side, anywhere inside, turned by N(0, 0.25): somebody holds it
    what covers it               in 15 of 100 a bar over 0.15 to 0.35 of its diameter
    things around                0 to 2 bars and ellipses of any colour, at least three times as long as wide: no item is so
    a face is there              8 of 10; diameter 0.26 to 0.40 of the side, nine tenths of the two radii or more from the item
    light                        gain exp(N(0, 0.3)), cast per channel exp(N(0, 0.1))
    how bad the stream is        b = u ** 4, u from 0 to 1: most are good, few are bad
    blur, grain                  a Gaussian, sigma 0.3 + 1.2 b pixels; N(0, 0.01 + 0.09 b)
    somebody speaks              8 of 10: harmonics of 90 to 260 Hz, syllables 3 to 6 a second, over noise at -3 to 15 dB
    else                         noise alone, or (half of it) a steady tone with its harmonics, as music has

A moment is a highlight where an item is shown, a face is there and somebody speaks; its class is then 1 + the item's kind,
else 0.

`EASY` narrows some of these, and says to what; the size `test` alone draws from it, as its training takes seconds.
"""
import copy
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor

import numpy as np

SIDE = 48            # pixels, both ways
KINDS = 8            # of items
CLASSES = 1 + KINDS  # 0: no highlight
FRAMES, BANDS = 16, 20  # of a second of sound: steps in time, bands
STRIDE = 8           # pixels of a cell of the detectors
GRID = SIDE // STRIDE
SIZES = 2            # classes of size a detector tells apart: below and above the middle
SIZE_EDGE = 0.48     # of the side
BOXES = (0.62, 0.85)  # side of the crop for each class of size, of the picture's
BLOCK = 250          # moments that a process draws at once
CROP = 24            # pixels of what the recogniser gets

# What the table above says of kinds, covered items, things around, diameters, how bad a stream is (most), voice over noise.
World = namedtuple("World", "kinds covered around diameter bad voice_db")
FULL = World(tuple(range(KINDS)), 0.15, 2, (0.36, 0.62), 1.0, (-3, 15))
EASY = World((0, 3), 0.0, 0, (0.40, 0.62), 0.2, (9, 15))


def words(world):
    """What differs from the full world, for a report."""
    kinds, least, most = len(world.kinds), *world.diameter
    return (f"{kinds} of {KINDS} kinds of items, {100 * world.covered:.0f} % of them covered, at most {world.around} things around, diameters "
            f"{least:.2f} to {most:.2f}, streams bad to {world.bad}, voices {world.voice_db[0]} to "
            f"{world.voice_db[1]} dB over noise")


Y, X = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)


def turned(cx, cy, angle):
    """Coordinates around a centre, turned."""
    dx, dy = X - cx, Y - cy
    return dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)


def soft(distance):
    """Coverage of a pixel whose signed distance (inside negative) to an outline is given."""
    return np.clip(0.5 - distance, 0, 1)


def outline(shape, u, v, r):
    if shape == 0:  # disc
        return np.hypot(u, v) - r
    if shape == 1:  # square
        return np.maximum(abs(u), abs(v)) - 0.85 * r
    if shape == 2:  # triangle
        return np.maximum(v - 0.6 * r, np.maximum(0.866 * u - 0.5 * v, -0.866 * u - 0.5 * v) - 0.6 * r)
    arm = 0.36 * r  # cross
    return np.minimum(np.maximum(abs(u) - r, abs(v) - arm), np.maximum(abs(v) - r, abs(u) - arm))


def colour(random):
    return random.uniform(0.1, 0.95, 3).astype(np.float32)


def away_from(random, other, least=0.35):
    while True:
        drawn = colour(random)
        if abs(drawn - other).max() >= least:
            return drawn


def paint(picture, mask, tint):
    picture += mask[None] * (tint[:, None, None] - picture)


def draw_clutter(random, picture, background, most):
    for _ in range(random.integers(0, 1 + most)):
        u, v = turned(*random.uniform(0, SIDE, 2), random.uniform(0, np.pi))
        long = random.uniform(0.12, 0.35) * SIDE
        wide = max(long / random.uniform(3, 8), 1)
        if random.random() < 0.5:
            mask = soft((np.hypot(u / long, v / wide) - 1) * wide)
        else:
            mask = soft(np.maximum(abs(u) - long, abs(v) - wide))
        paint(picture, mask, away_from(random, background, 0.2))


def places(random, world):
    """Of an item and a face: radius and middle, apart from each other."""
    while True:
        radii = random.uniform(*world.diameter) * SIDE / 2, random.uniform(0.26, 0.40) * SIDE / 2
        item, face = (random.uniform(r, SIDE - r, 2) for r in radii)
        if np.hypot(*(item - face)) >= 0.9 * sum(radii):
            return (radii[0], *item), (radii[1], *face)


def draw_item(random, picture, kind, background, place, covered):
    r, cx, cy = place
    u, v = turned(cx, cy, random.normal(0, 0.25))
    tint = away_from(random, background)
    mask = soft(outline(kind % 4, u, v, r))
    paint(picture, mask, tint)
    if kind >= 4:
        paint(picture, mask * (np.sin(u * 2 * np.pi / (0.8 * r)) > 0), away_from(random, tint))
    if random.random() < covered:
        share = random.uniform(0.15, 0.35)
        u, v = turned(cx, cy, random.uniform(0, 2 * np.pi))
        paint(picture, soft(np.maximum(abs(u - random.uniform(-r, r) * (1 - share)) - share * r, abs(v) - 1.3 * r)), colour(random))


def draw_face(random, picture, place):
    r, cx, cy = place
    u, v = turned(cx, cy, random.normal(0, 0.25))
    skin = np.array([0.85, 0.65, 0.5], np.float32) * random.uniform(0.5, 1.1)
    paint(picture, soft((np.hypot(u / 0.82, v) - r)), skin)
    dark = skin * 0.25
    for side in (-1, 1):
        paint(picture, soft(np.hypot(u - side * 0.35 * r, v + 0.25 * r) - 0.16 * r), dark)
    paint(picture, soft(np.maximum(abs(u) - 0.4 * r, abs(v - 0.45 * r) - 0.1 * r)), dark)


def blurred(picture, sigma):
    taps = np.arange(-3, 4)
    kernel = np.exp(-taps ** 2 / (2 * sigma ** 2))
    kernel /= kernel.sum()
    for axis in (1, 2):
        padded = np.pad(picture, [(3, 3) if i == axis else (0, 0) for i in range(3)], mode="edge")
        picture = sum(k * np.take(padded, np.arange(SIDE) + i, axis) for i, k in enumerate(kernel))
    return picture


def lit(random, picture, world):
    bad = world.bad * random.random() ** 4
    picture = blurred(picture, 0.3 + 1.2 * bad)
    picture = picture * np.exp(random.normal(0, 0.3)) * np.exp(random.normal(0, 0.1, 3))[:, None, None]
    picture = picture + random.normal(0, 0.01 + 0.09 * bad, picture.shape)
    return np.clip(picture * 255, 0, 255).astype(np.uint8)


def draw_sound(random, speaks, over_db):
    """Energies of bands, FRAMES x BANDS, as bytes: 16 for each factor of ten above the quietest."""
    centres = 80 * 2 ** (np.arange(BANDS) * 0.3)
    noise = random.gamma(2, 0.5, (FRAMES, BANDS)) * 10 ** random.uniform(-0.3, 0.3, BANDS)
    voice = np.zeros((FRAMES, BANDS))
    if speaks or random.random() < 0.5:
        pitch = random.uniform(90, 260)
        tilt = random.uniform(0.5, 1.5)
        t = np.arange(FRAMES) / FRAMES
        rate, phase, sway = random.uniform(3, 6), random.uniform(0, 2 * np.pi), random.uniform(0.8, 1.2)
        loud = np.clip(np.sin(2 * np.pi * rate * t + phase), 0, 1) if speaks else np.full(FRAMES, 0.5)
        pitches = pitch * (1 + 0.15 * np.sin(2 * np.pi * sway * t) * speaks)
        harmonics = np.arange(1, 9)
        away = np.log2(centres / (pitches[:, None] * harmonics)[..., None])  # octaves, by step, harmonic and band
        voice = loud[:, None] * (harmonics[:, None] ** -tilt * np.exp(-(away / 0.25) ** 2)).sum(1)
        voice *= noise.mean() / max(voice.mean(), 1e-9) * 10 ** (random.uniform(*over_db) / 10)
    return np.clip(32 * np.log10(1 + 10 * (noise + voice)), 0, 255).astype(np.uint8)


CELL_Y, CELL_X = (np.mgrid[0:GRID, 0:GRID] + 0.5) * STRIDE


def cells_near(cx, cy):
    """The cells whose middle is near a point: what a detector is to name. The nearest always is."""
    away = np.hypot(CELL_X - cx, CELL_Y - cy)
    return away <= max(0.75 * STRIDE, away.min())


class Moments:
    """`count` moments of a seed: what devices see, and what is right."""

    def __init__(self, seed, count, first=0, world=FULL):
        self.world = world
        self.frame = np.zeros((count, 3, SIDE, SIDE), np.uint8)
        self.sound = np.zeros((count, FRAMES, BANDS), np.uint8)
        self.kind = np.full(count, -1)  # of the item; -1: none
        self.item_map = np.zeros((count, GRID, GRID), np.int64)  # 0, or 1 + class of size, at cells near the middle
        self.face_map = np.zeros((count, GRID, GRID), np.int64)
        self.face = np.zeros(count, np.int64)
        self.voice = np.zeros(count, np.int64)
        for i in range(count):
            self.make(i, np.random.default_rng([seed, first + i]))
        self.answer = np.where((self.kind >= 0) & (self.face > 0) & (self.voice > 0), 1 + self.kind, 0)

    def make(self, i, random):
        background = colour(random)
        picture = np.ones((3, SIDE, SIDE), np.float32) * background[:, None, None]
        picture += (random.normal(0, 0.12) * (X / SIDE - 0.5) + random.normal(0, 0.12) * (Y / SIDE - 0.5))[None]
        draw_clutter(random, picture, background, self.world.around)
        item, face = places(random, self.world)
        if random.random() < 0.8:
            self.face[i] = 1
            draw_face(random, picture, face)
            self.face_map[i][cells_near(*face[1:])] = 1
        if random.random() < 0.7:
            self.kind[i] = self.world.kinds[random.integers(len(self.world.kinds))]
            draw_item(random, picture, self.kind[i], background, item, self.world.covered)
            self.item_map[i][cells_near(*item[1:])] = 1 + (item[0] >= SIZE_EDGE * SIDE / 2)
        self.frame[i] = lit(random, picture, self.world)
        self.voice[i] = random.random() < 0.8
        self.sound[i] = draw_sound(random, self.voice[i], self.world.voice_db)

    def first(self, count):
        """The first so many of them."""
        some = copy.copy(self)
        for name, value in self.arrays():
            setattr(some, name, value[:count])
        return some

    def arrays(self):
        return [(name, value) for name, value in vars(self).items() if isinstance(value, np.ndarray)]

    def __len__(self):
        return len(self.answer)


def moments(seed, count, world, jobs):
    """Moments(seed, count), drawn by so many processes."""
    starts = range(0, count, BLOCK)
    if count == 0:
        return Moments(seed, 0, world=world)
    with ProcessPoolExecutor(jobs) as pool:
        blocks = list(pool.map(Moments, [seed] * len(starts), [min(BLOCK, count - first) for first in starts], starts, [world] * len(starts)))
    drawn = blocks[0]
    for name, _ in drawn.arrays():
        setattr(drawn, name, np.concatenate([getattr(block, name) for block in blocks]))
    return drawn


def box_of(place):
    """Corners x1 y1 x2 y2 in pixels of what is cut out for a place: class of size, row and column, flattened."""
    size, cell = divmod(place, GRID * GRID)
    row, column = divmod(cell, GRID)
    half = BOXES[size] * SIDE / 2
    cx, cy = (min(max((at + 0.5) * STRIDE, half), SIDE - half) for at in (column, row))  # inside the picture
    return cx - half, cy - half, cx + half, cy + half


def boxes():
    return np.array([box_of(place) for place in range(SIZES * GRID * GRID)], np.float32)
