"""walle.audio beside SciPy: uses of every function in the device's own script VM and in CPython.

Where SciPy has the function the values are SciPy's; what it does not have (mel filters, mfcc, what is made of pieces of a
signal) is worked out here from the definition in docs/AUDIO.md with NumPy and SciPy. That page states how far a result of
each function may be off, and TOLERANCES says the same. Signals are made of a seed: `WALLE_AUDIO_SEED` is another.
"""
import base64
import io
import json
import math
import os
import random
import re
import struct
import subprocess
import tempfile
import unittest
import warnings

import numpy
import scipy.fft
import scipy.io.wavfile
import scipy.signal

from walle_stack import SOURCE, program

SEED = int(os.environ.get("WALLE_AUDIO_SEED", "1"))
# Of the largest value of a result in float64: how far any value may be off. A float32 result may be off by 1e-6 of it.
TOLERANCES = {"wav_decode": 0, "wav_encode": 0, "frames": 0, "preemphasis": 1e-15, "zero_crossing_rate": 1e-15,
              "hann": 1e-14, "hamming": 1e-14, "blackman": 1e-14, "hz_to_mel": 1e-13, "mel_to_hz": 1e-13, "mel": 1e-11, "rms": 1e-13,
              "dct": 1e-13, "stft": 1e-13, "istft": 1e-12, "spectrogram": 1e-12, "resample_poly": 1e-12, "melspectrogram": 1e-11,
              "power_to_db": 1e-13, "mfcc": 1e-10}
NARROW = 1e-6

ENTRY = """import walle, cases
from binascii import hexlify, a2b_base64
from walle import np, audio
def show(x):
    if isinstance(x, np.ndarray):
        return {'dtype': x.dtype, 'shape': list(x.shape), 'bytes': hexlify(x.tobytes()).decode()}
    if isinstance(x, bytes):
        return {'raw': hexlify(x).decode()}
    return [show(y) for y in x] if isinstance(x, tuple) else x
def signal(s):
    if 'raw' in s:
        return a2b_base64(s['raw'])
    return cases.array(s)
try:
    x = signal(walle.input['signal'])
    y = show(cases.CASES[walle.input['case']](x))
    text = repr(y)
    at = walle.input['at']
    walle.result([len(text), text[at:at + 12000]])
except (ValueError, TypeError) as e:
    walle.result(['error', type(e).__name__, str(e)])
"""
HEAD = """from array import array as items
from binascii import a2b_base64
from walle import np, audio
def array(s):
    code = {'float32': 'f', 'float64': 'd', 'int32': 'i'}[s['dtype']]
    return np.array(items(code, a2b_base64(s['bytes']))).reshape(s['shape'])
"""


def sound(count, dtype="float64", seed=0):
    chance = numpy.random.default_rng(SEED * 1000 + seed)
    at = numpy.arange(count)
    wave = 0.5 * numpy.sin(at * 0.11) + 0.2 * numpy.sin(at * 0.9 + 1) + 0.1 * chance.standard_normal(count)
    return wave.astype(dtype)


def stft_of(x, *args, **named):
    f, t, z = scipy.signal.stft(numpy.asarray(x, "float64"), *args, **named)
    return f, t, numpy.stack([z.real, z.imag], axis=-1)


def mel_of(hz, htk=False):
    hz = numpy.asarray(hz, "float64")
    if htk:
        return 2595 * numpy.log10(1 + hz / 700)
    with numpy.errstate(divide="ignore"):
        return numpy.where(hz < 1000, 3 * hz / 200, 15 + 27 * numpy.log(numpy.maximum(hz, 1) / 1000) / numpy.log(6.4))


def hz_of(mel, htk=False):
    mel = numpy.asarray(mel, "float64")
    if htk:
        return 700 * (10 ** (mel / 2595) - 1)
    return numpy.where(mel < 15, 200 * mel / 3, 1000 * 6.4 ** ((mel - 15) / 27))


def filters_of(sr, n_fft, n_mels=128, fmin=0.0, fmax=None, htk=False, norm="slaney"):
    edges = hz_of(numpy.linspace(mel_of(fmin, htk), mel_of(sr / 2 if fmax is None else fmax, htk), n_mels + 2), htk)
    rows = []
    for low, middle, high in zip(edges, edges[1:], edges[2:]):
        row = numpy.interp(numpy.fft.rfftfreq(n_fft, 1 / sr), [low, middle, high], [0, 1, 0])
        rows.append(row * (2 / (high - low) if norm else 1))
    return numpy.array(rows)


def melspectrogram_of(y, sr, n_fft=512, hop_length=160, n_mels=40, **named):
    padded = numpy.pad(numpy.asarray(y, "float64"), n_fft // 2 + n_fft)[n_fft:]
    window = scipy.signal.get_window("hann", n_fft)
    pieces = [padded[at * hop_length:at * hop_length + n_fft] * window for at in range(len(y) // hop_length + 1)]
    return filters_of(sr, n_fft, n_mels, **named) @ (numpy.abs(numpy.fft.rfft(pieces, axis=1)) ** 2).T


def decibels_of(s, ref=1.0, amin=1e-10, top_db=80.0):
    made = 10 * numpy.log10(numpy.maximum(numpy.asarray(s, "float64"), amin)) - 10 * numpy.log10(max(abs(ref), amin))
    return made if top_db is None else numpy.maximum(made, made.max() - top_db)


def mfcc_of(y, sr, n_mfcc=13, top_db=80.0, **named):
    loud = decibels_of(melspectrogram_of(y, sr, **named), top_db=top_db)
    return scipy.fft.dct(loud, axis=0, type=2, norm="ortho")[:n_mfcc]


def frames_of(x, frame_length=512, hop_length=160):
    return numpy.lib.stride_tricks.sliding_window_view(x, frame_length)[::hop_length]


def crossings_of(x, *args):
    negative = frames_of(x, *args) < 0
    return (negative[:, 1:] != negative[:, :-1]).sum(axis=1) / negative.shape[1]


class Theirs:
    """The names of walle.audio, of SciPy."""
    hann = staticmethod(scipy.signal.windows.hann)
    hamming = staticmethod(scipy.signal.windows.hamming)
    blackman = staticmethod(scipy.signal.windows.blackman)
    stft = staticmethod(stft_of)
    resample_poly = staticmethod(lambda x, up, down: scipy.signal.resample_poly(numpy.asarray(x, "float64"), up, down))
    mel = staticmethod(filters_of)
    hz_to_mel = staticmethod(mel_of)
    mel_to_hz = staticmethod(hz_of)
    melspectrogram = staticmethod(melspectrogram_of)
    power_to_db = staticmethod(decibels_of)
    mfcc = staticmethod(mfcc_of)
    frames = staticmethod(frames_of)
    zero_crossing_rate = staticmethod(crossings_of)
    dct = staticmethod(lambda x, norm=None: scipy.fft.dct(numpy.asarray(x, "float64"), norm=norm))
    rms = staticmethod(lambda x, *args: numpy.sqrt((numpy.asarray(frames_of(x, *args), "float64") ** 2).mean(axis=1)))
    preemphasis = staticmethod(lambda x, coef=0.97: scipy.signal.lfilter([1, -coef], [1], numpy.asarray(x, "float64")))

    @staticmethod
    def spectrogram(x, fs=1.0, window=("tukey", 0.25), **named):
        return scipy.signal.spectrogram(numpy.asarray(x, "float64"), fs, window, **named)

    @staticmethod
    def istft(z, *args, **named):
        z = numpy.asarray(z, "float64")
        return scipy.signal.istft(z[..., 0] + 1j * z[..., 1], *args, **named)


SHORT, LONG = sound(300), sound(1000)
# function, expression of x (and np, audio), x
CASES = [
    *[(name, f"audio.{name}({size})", SHORT) for name in ("hann", "hamming", "blackman") for size in (0, 1, 2, 7, 400)],
    *[(name, f"audio.{name}({size}, sym=False)", SHORT) for name in ("hann", "hamming", "blackman") for size in (1, 2, 9, 64)],
    ("stft", "audio.stft(x)", SHORT), ("stft", "audio.stft(x, 16000, nperseg=64)", SHORT), ("stft", "audio.stft(x)", sound(100)),
    ("stft", "audio.stft(x, fs=8000.0, window='hamming', nperseg=50, noverlap=40)", SHORT),
    ("stft", "audio.stft(x, window='boxcar', nperseg=31, noverlap=0, nfft=67)", SHORT),
    ("stft", "audio.stft(x, nperseg=32, boundary=None, padded=False)", SHORT), ("stft", "audio.stft(x, nperseg=1)", SHORT[:20]),
    ("stft", "audio.stft(x, nperseg=33, boundary=None)", SHORT), ("stft", "audio.stft(x, nperseg=64, nfft=128, padded=False)", SHORT),
    ("stft", "audio.stft(x, window=np.array([1.0, 2.0, 3.0, 2.0]), nperseg=4)", SHORT[:40]),
    ("stft", "audio.stft(x, nperseg=64)", sound(300, "float32")), ("stft", "audio.stft(x[::-2], nperseg=40)", SHORT),
    *[("stft", f"audio.stft(x, nperseg={size}, noverlap=0, padded=False)", LONG[:size]) for size in
      (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 25, 49, 61, 64, 67, 74, 97, 122, 127, 131, 134, 169, 251, 360, 500, 509, 512)],
    ("istft", "audio.istft(audio.stft(x, nperseg=64)[2], nperseg=64)", SHORT), ("istft", "audio.istft(audio.stft(x)[2])", LONG[:700]),
    ("istft", "audio.istft(audio.stft(x, nperseg=33)[2], nperseg=33)", SHORT),
    ("istft", "audio.istft(audio.stft(x, 8000, 'hamming', 50, 40)[2], 8000, 'hamming', 50, 40)", SHORT),
    ("istft", "audio.istft(audio.stft(x, nperseg=32, nfft=80)[2], nperseg=32, nfft=80)", SHORT),
    ("istft", "audio.istft(audio.stft(x, nperseg=32, boundary=None)[2], nperseg=32, boundary=False)", SHORT),
    ("istft", "audio.istft(audio.stft(x, nperseg=64)[2], nperseg=64)", sound(300, "float32")),
    ("spectrogram", "audio.spectrogram(x)", LONG[:800]), ("spectrogram", "audio.spectrogram(x, 16000, nperseg=65)", SHORT),
    ("spectrogram", "audio.spectrogram(x, 16000, 'hann', nperseg=64, noverlap=32, detrend=False, scaling='spectrum')", SHORT),
    ("spectrogram", "audio.spectrogram(x, 8000, 'blackman', nperseg=60, nfft=90, mode='magnitude')", SHORT),
    ("spectrogram", "audio.spectrogram(x, nperseg=64)", sound(300, "float32")),
    *[("resample_poly", f"audio.resample_poly(x, {up}, {down})", x) for up, down in
      ((1, 1), (2, 2), (2, 1), (1, 2), (3, 2), (2, 3), (160, 441), (441, 160), (7, 100), (100, 7), (4, 6)) for x in
      (SHORT[:60], SHORT[:1], sound(50, "float32"))],
    ("mel", "audio.mel(2000, 64)", SHORT), ("mel", "audio.mel(16000, 100, 20, htk=True)", SHORT),
    ("mel", "audio.mel(8000, 64, n_mels=20, fmin=60.0, fmax=3800.0, norm=None)", SHORT), ("mel", "audio.mel(16000, 75, 10)", SHORT),
    *[(name, f"audio.{name}(np.array({values}), htk={htk})", SHORT) for htk in (False, True) for name, values in
      (("hz_to_mel", "[0.0, 60.0, 999.0, 1000.0, 4000.0, 20000.0]"), ("mel_to_hz", "[0.0, 1.0, 14.9, 15.0, 40.0, 61.0]"))],
    ("hz_to_mel", "audio.hz_to_mel(440.0)", SHORT),
    ("melspectrogram", "audio.melspectrogram(x, 16000)", LONG),
    ("melspectrogram", "audio.melspectrogram(x, 8000, n_fft=200, hop_length=80, n_mels=24, htk=True, norm=None)", SHORT),
    ("melspectrogram", "audio.melspectrogram(x, 16000, n_fft=128, n_mels=10)", sound(700, "float32")),
    ("power_to_db", "audio.power_to_db(x * x)", SHORT), ("power_to_db", "audio.power_to_db(x * x, ref=0.3, amin=1e-5, top_db=None)", SHORT),
    ("power_to_db", "audio.power_to_db(x * x, top_db=10)", SHORT),
    ("mfcc", "audio.mfcc(x, 16000)", LONG), ("mfcc", "audio.mfcc(x, 16000, n_mfcc=20, n_fft=400, n_mels=26, htk=True)", LONG),
    ("mfcc", "audio.mfcc(x, 8000, fmin=20.0, fmax=4000.0, top_db=None, n_fft=256)", SHORT),
    *[("dct", f"audio.dct(x[:{size}]{more})", SHORT) for size in (1, 2, 3, 8, 13, 40, 67, 200) for more in ("", ", norm='ortho'")],
    ("dct", "audio.dct(x.reshape(20, 15), norm='ortho')", SHORT), ("dct", "audio.dct(x)", sound(40, "float32")),
    ("preemphasis", "audio.preemphasis(x)", SHORT), ("preemphasis", "audio.preemphasis(x, coef=0.5)", LONG[:600:2].copy()),
    ("preemphasis", "audio.preemphasis(x)", sound(40, "float32")),
    ("frames", "audio.frames(x, 100, 50)", SHORT), ("frames", "audio.frames(x, 300)", SHORT), ("frames", "audio.frames(x[::2], 7, 9)", SHORT[:60]),
    ("rms", "audio.rms(x)", LONG), ("rms", "audio.rms(x, 100, 30)", SHORT), ("rms", "audio.rms(x, 64, 32)", sound(200, "float32")),
    ("zero_crossing_rate", "audio.zero_crossing_rate(x)", LONG), ("zero_crossing_rate", "audio.zero_crossing_rate(x, 50, 10)", SHORT),
    ("zero_crossing_rate", "audio.zero_crossing_rate(x, 257, 3)", numpy.rint(2 * SHORT)),
]
REFUSED = [
    ("audio.stft(x.reshape(2, 150))", "ValueError", "walle.audio: x has 2 dimensions, not 1"),
    ("audio.stft(x[:0])", "ValueError", "walle.audio: x is empty"),
    ("audio.stft(x, nperseg=8, noverlap=8)", "ValueError", "walle.audio: noverlap is not below nperseg"),
    ("audio.stft(x, nperseg=8, nfft=7)", "ValueError", "walle.audio: nfft is below nperseg"),
    ("audio.stft(x, fs=0)", "ValueError", "walle.audio: fs is a finite number above 0"),
    ("audio.stft(x, window='kaiser')", "ValueError", "walle.audio: no window 'kaiser': hann, hamming, blackman, tukey, boxcar"),
    ("audio.stft(x, window=[1.0, -1.0])", "ValueError", "walle.audio: the window's sum is 0"),
    ("audio.stft(x, boundary='even')", "ValueError", "walle.audio: boundary is 'zeros' or None"),
    ("audio.stft('x')", "TypeError", "walle.np: no array of a str"),
    ("audio.istft(x)", "ValueError", "walle.audio: Zxx is [frequencies, pieces, 2], as stft gives it, and not empty"),
    ("audio.istft(np.zeros((5, 2, 2)), nfft=10)", "ValueError", "walle.audio: 5 frequencies are not those of nfft 10"),
    ("audio.resample_poly(x, 0, 1)", "ValueError", "walle.audio: up is 0; it is from 1 to 16777216"),
    ("audio.mel(16000, 512, fmin=9000)", "ValueError", "walle.audio: fmin is at least 0 and below fmax"),
    ("audio.mfcc(x, 16000, n_mfcc=41)", "ValueError", "walle.audio: n_mfcc is 41; it is from 1 to 40"),
    ("audio.frames(x, 301)", "ValueError", "walle.audio: frame_length is 301; it is from 1 to 300"),
    ("audio.dct(np.zeros((3, 0)))", "ValueError", "walle.audio: dct of rows without elements"),
    ("audio.wav_encode(np.arange(3), 8000)", "TypeError", "walle.audio: samples are float32 or float64"),
    ("audio.wav_encode(np.array([0.5, np.nan]), 8000)", "ValueError", "walle.audio: sample 1 is not a number"),
    ("audio.wav_encode(x, 8000, 'pcm12')", "ValueError", "walle.audio: no format 'pcm12': pcm8, pcm16, pcm24, pcm32, float32"),
    ("audio.wav_decode(b'RIFX' + bytes(40))", "ValueError", "walle.audio: no WAV file: it does not begin with RIFF and WAVE"),
]


def given(x):
    if isinstance(x, bytes):
        return {"raw": base64.b64encode(x).decode()}
    return {"dtype": x.dtype.name, "shape": list(x.shape), "bytes": base64.b64encode(x.tobytes()).decode()}


def compare(ours, theirs, name, narrow=False):
    """None, or what is different."""
    if isinstance(theirs, tuple):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{len(ours)} results, not {len(theirs)}"
        return next((text for text in (compare(a, b, name, narrow) for a, b in zip(ours, theirs)) if text), None)
    wanted = numpy.asarray(theirs)
    if isinstance(ours, dict):
        made = numpy.frombuffer(bytes.fromhex(ours["bytes"]), ours["dtype"]).reshape(ours["shape"])
    else:
        made = numpy.asarray(ours)
    if made.shape != wanted.shape:
        return f"shape {made.shape}, not {wanted.shape}"
    if made.size == 0:
        return None
    off = numpy.abs(made.astype("float64") - wanted).max() / max(numpy.abs(wanted).max(), 1e-300)
    allowed = max(NARROW if narrow else 0, TOLERANCES[name])
    return None if off <= allowed else f"off by {off} of the largest value, not {allowed}"


class Audio(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="walle-audio-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def build(self, lines):
        folder = os.path.join(self.folder, "audio")
        os.mkdir(folder)
        for name, text in (("entry", ENTRY), ("cases", HEAD + "CASES = [\n" + "".join(f"lambda x: {line},\n" for line in lines) + "]\n")):
            with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as out:
                out.write(text)
        task = {"name": "audio", "version": "1.0.0", "entry": "entry", "files": ["entry.py", "cases.py"], "time_ms": 60000,
                "heap_kib": 16384}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as out:
            json.dump(task, out)
        run = subprocess.run([program("walle"), "task", "build", folder, "--out", folder + ".build"], capture_output=True, text=True,
                             timeout=600)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.task = folder + ".build"

    def of_device(self, case, x):
        """What the device shows of a case; in pieces, as a result has 16 KiB."""
        path = os.path.join(self.folder, "input.json")
        text = ""
        while True:
            with open(path, "w", encoding="utf-8") as out:
                json.dump({"case": case, "signal": given(x), "at": len(text)}, out)
            run = subprocess.run([program("walle"), "task", "run", self.task, "--input", path, "-o", "json"], capture_output=True,
                                 text=True, timeout=300)
            answer = json.loads(run.stdout)
            self.assertEqual((run.returncode, answer["end"]), (0, "finished"), f"{case}: {run.stdout[:2000]} {run.stderr}")
            if answer["result"][0] == "error":
                return answer["result"]
            text += answer["result"][1]
            if len(text) >= answer["result"][0]:
                return eval(text, {"inf": math.inf, "nan": math.nan})  # noqa: S307

    def test_every_function_comes_to_what_scipy_says(self):
        print(f"seed {SEED}")
        self.build([line for _, line, _ in CASES])
        differ = []
        for at, (name, line, x) in enumerate(CASES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = eval(line, {"x": x, "np": numpy, "audio": Theirs})  # noqa: S307
            ours = self.of_device(at, x)
            text = f"raised {ours}" if ours and isinstance(ours, list) and ours[0] == "error" else compare(
                ours, wanted, name, x.dtype == numpy.float32)
            kinds = {one["dtype"] for one in (ours[-1:] if isinstance(ours, list) else [ours]) if isinstance(one, dict)}
            if not text and x.dtype == numpy.float32 and "x" in line and kinds != {"float32"}:
                text = f"of {kinds}"
            if text:
                differ.append(f"{line} of {x.shape} {x.dtype}\n    {text}")
        self.assertEqual(differ, [], f"{len(differ)} of {len(CASES)}:\n" + "\n".join(differ))
        self.assertEqual({name for name, _, _ in CASES} | {"wav_decode", "wav_encode"}, set(TOLERANCES))

    def test_a_difference_is_seen(self):
        shown = given(SHORT)
        shown["bytes"] = SHORT.tobytes().hex()
        self.assertIsNone(compare(shown, SHORT, "rms"))
        for other in (SHORT * (1 + 1e-11), SHORT[:-1], SHORT.reshape(2, 150), (SHORT, SHORT)):
            self.assertIsNotNone(compare(shown, other, "rms"))

    def test_what_is_refused_says_why(self):
        self.build([line for line, _, _ in REFUSED])
        for at, (line, kind, text) in enumerate(REFUSED):
            self.assertEqual(self.of_device(at, SHORT), ["error", kind, text], line)

    def test_wav_files_are_read_as_scipy_reads_them(self):
        self.build(["audio.wav_decode(x)", "audio.wav_decode(x, 'float64')"])
        chance = numpy.random.default_rng(SEED)
        scales = {"uint8": 128, "int16": 2**15, "int32": 2**31, "float32": 1}
        for kind, scale in scales.items():
            for shape in ((57,), (30, 2), (9, 5), (0,)):
                if kind == "float32":
                    samples = chance.standard_normal(shape).astype(kind)
                else:
                    info = numpy.iinfo(kind)
                    samples = chance.integers(info.min, info.max, shape, kind, endpoint=True)
                out = io.BytesIO()
                scipy.io.wavfile.write(out, 16000, samples)
                wanted = (samples.astype("float64") - (128 if kind == "uint8" else 0)) / scale
                shown, rate = self.of_device(1, out.getvalue())
                self.assertEqual(rate, 16000)
                self.assertIsNone(compare(shown, wanted, "wav_decode"), f"{kind} {shape}")
                shown, rate = self.of_device(0, out.getvalue())
                self.assertEqual(shown["dtype"], "float32")
                self.assertIsNone(compare(shown, wanted.astype("float32"), "wav_decode"), f"{kind} {shape}")

    def test_wav_files_are_written_so_that_scipy_reads_them(self):
        forms = {"pcm8": 8, "pcm16": 16, "pcm24": 24, "pcm32": 32, "float32": 0}
        self.build([f"audio.wav_encode(x, 22050, format='{form}')" for form in forms])
        x = numpy.concatenate([sound(61), [1.0, -1.0, 2.5, -3.0, 0.0, 0.5 / 128, 1.5 / 128]])
        for at, (form, bits) in enumerate(forms.items()):
            for given_x in (x, x[:66].reshape(33, 2), x[:63].reshape(21, 3), x[:0]):
                made = bytes.fromhex(self.of_device(at, given_x)["raw"])
                self.assertEqual(len(made) % 2, 0)
                self.assertEqual(struct.unpack_from("<I", made, 4)[0], len(made) - 8)
                if given_x.size == 0:
                    continue
                rate, samples = scipy.io.wavfile.read(io.BytesIO(made))
                self.assertEqual((rate, samples.shape), (22050, given_x.shape))
                if not bits:
                    self.assertTrue(numpy.array_equal(samples, given_x.astype("float32")))
                    continue
                top = 2.0 ** (bits - 1)
                wanted = numpy.clip(numpy.rint(given_x * top), -top, top - 1).astype("int64")
                shift = 8 if bits == 24 else 0  # SciPy shows 24 bits as the upper ones of 32
                self.assertTrue(numpy.array_equal((samples.astype("int64") - (128 if bits == 8 else 0)) >> shift, wanted), form)

    def test_damaged_wav_files_are_refused_or_read(self):
        """No bytes end the run otherwise than with a ValueError or with samples."""
        self.build(["audio.wav_decode(x)"])
        out = io.BytesIO()
        scipy.io.wavfile.write(out, 8000, (SHORT[:20] * 1000).astype("int16"))
        whole = out.getvalue()
        chance = random.Random(SEED)
        for _ in range(40):
            damaged = bytearray(whole[:chance.choice((len(whole), chance.randint(0, len(whole))))])
            for _ in range(chance.randint(0, 3)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 255, chance.randint(0, 255)))
            shown = self.of_device(0, bytes(damaged))
            self.assertTrue(shown[0] != "error" or (shown[1] == "ValueError" and shown[2].startswith("walle.audio: ")), shown)

    def test_the_page_says_what_there_is(self):
        self.build(["tuple(n for n in dir(audio) if n[:2] != '__')"])
        table = set(self.of_device(0, SHORT))
        with open(os.path.join(SOURCE, "docs", "AUDIO.md"), encoding="utf-8") as page:
            rows = dict(re.findall(r"^\| `(\w+)\([^`]*` \|[^\n]*\| (\S+) \|$", page.read(), re.M))
        self.assertEqual(set(rows), table)
        self.assertEqual({name: float(off) for name, off in rows.items()}, {name: float(off) for name, off in TOLERANCES.items()})


if __name__ == "__main__":
    unittest.main()
