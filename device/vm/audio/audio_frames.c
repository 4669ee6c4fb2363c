// Pieces of a signal: how many, where each begins, which window. Sizes and errors are those of
// scipy.signal.stft: a piece is no longer than the signal, the next begins before it ends, and the
// transform is no shorter. Called by audio_stft.c and audio_mfcc.c, on the VM's thread.
#include "vm/audio/audio.h"

#define PIECE_DEFAULT 256 // samples, where a call does not say

static size_t size_or(mp_obj_t value, const char *name, size_t least, size_t otherwise)
{
    return value == mp_const_none ? otherwise : dev_audio_size(value, name, least, DEV_AUDIO_MOST);
}

static const double *window_of(const struct audio_framing *framing, struct audio_frames *frames,
                               size_t samples)
{
    double *window;
    if (mp_obj_is_str(framing->window)) {
        enum audio_window which = dev_audio_window_named(framing->window);
        frames->length = size_or(framing->nperseg, "nperseg", 1, PIECE_DEFAULT);
        frames->length = frames->length < samples ? frames->length : samples;
        window = dev_audio_doubles(frames->length);
        dev_audio_window(which, true, frames->length, window);
        return window;
    }
    struct audio_signal given = dev_audio_signal(framing->window, "window");
    frames->length = given.count;
    if (size_or(framing->nperseg, "nperseg", 1, given.count) != given.count) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.audio: nperseg is not how many numbers the window has"));
    }
    if (given.count > samples) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: the window is longer than the signal"));
    }
    window = dev_audio_doubles(given.count);
    dev_audio_read(&given, 0, given.count, window);
    dev_np_pay(given.count);
    return window;
}

struct audio_frames dev_audio_frames(const struct audio_framing *framing, size_t samples)
{
    struct audio_frames frames = {.count = 1};
    frames.window = window_of(framing, &frames, samples);
    size_t overlap =
        size_or(framing->noverlap, "noverlap", 0, frames.length / framing->overlap_part);
    if (overlap >= frames.length) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: noverlap is not below nperseg"));
    }
    frames.size = size_or(framing->nfft, "nfft", 1, frames.length);
    if (frames.size < frames.length) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: nfft is below nperseg"));
    }
    frames.step = frames.length - overlap;
    frames.ahead = framing->has_boundary ? frames.length / 2 : 0;
    frames.middle = framing->has_boundary ? 0 : (double)frames.length / 2;
    size_t whole = samples + 2 * frames.ahead;
    if (framing->is_padded && (whole - frames.length) % frames.step != 0) {
        whole += frames.step - (whole - frames.length) % frames.step;
    }
    frames.count = (whole - frames.length) / frames.step + 1;
    for (size_t i = 0; i < frames.length; i++) {
        frames.window_sum += frames.window[i];
        frames.window_squares += frames.window[i] * frames.window[i];
    }
    dev_np_pay(frames.length);
    return frames;
}

void dev_audio_frame(const struct audio_frames *frames, const struct audio_signal *signal,
                     size_t index, double *out)
{
    size_t begin = index * frames->step; // counted from the zeros in front
    size_t end = begin + frames->length;
    size_t behind = frames->ahead + signal->count;
    size_t first = begin > frames->ahead ? begin : frames->ahead;
    size_t last = end < behind ? end : behind;
    first = first < end ? first : end;
    last = last > first ? last : first;
    for (size_t i = begin; i < first; i++) {
        out[i - begin] = 0;
    }
    if (last > first) {
        dev_audio_read(signal, first - frames->ahead, last - first, out + (first - begin));
    }
    for (size_t i = last; i < end; i++) {
        out[i - begin] = 0;
    }
}

struct np_array *dev_audio_frequencies(size_t size, double rate)
{
    int64_t count = (int64_t)(size / 2 + 1);
    struct np_array *made = dev_np_new(NP_F64, 1, &count);
    double *to = (double *)(void *)made->data;
    for (int64_t i = 0; i < count; i++) {
        to[i] = (double)i * (rate / (double)size);
    }
    dev_np_pay((size_t)count);
    return made;
}

struct np_array *dev_audio_times(const struct audio_frames *frames, double rate)
{
    int64_t count = (int64_t)frames->count;
    struct np_array *made = dev_np_new(NP_F64, 1, &count);
    double *to = (double *)(void *)made->data;
    for (int64_t i = 0; i < count; i++) {
        to[i] = (frames->middle + (double)i * (double)frames->step) / rate;
    }
    dev_np_pay((size_t)count);
    return made;
}
