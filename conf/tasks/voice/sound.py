# What the model hears: of every 10 ms how loud each of 24 mel bands is, beside what the bands have in
# the mean of the clip, and the same of a while before and after. make_voice.py does it in NumPy.
from walle import audio, np

RATE, HOP, BANDS = 16000, 160, 24
AROUND = (-12, -8, -4, 0, 4, 8, 12)  # pieces of 10 ms


# A WAV file's samples at RATE, its channels as one.
def heard(wav):
    samples, rate = audio.wav_decode(wav)
    if samples.ndim > 1:
        samples = samples.mean(axis=1)
    return samples if rate == RATE else audio.resample_poly(samples, RATE, rate)


# pieces x (bands x AROUND)
def numbers(signal):
    loud = audio.power_to_db(audio.melspectrogram(signal, RATE, hop_length=HOP, n_mels=BANDS)).T
    loud = (loud - loud.mean(axis=0)) / 15
    places = np.arange(len(loud))
    return np.hstack([loud[np.clip(places + step, 0, len(loud) - 1)] for step in AROUND]).astype("float32")
