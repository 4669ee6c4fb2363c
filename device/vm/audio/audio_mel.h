// walle.audio: mel scales and banks of filters, as mfcc and melspectrogram share them.
#ifndef DEV_AUDIO_MEL_H
#define DEV_AUDIO_MEL_H

#include "vm/audio/audio.h"

// Triangles over the frequencies of a transform: number i rises from edges[i] to edges[i + 1] and
// falls to edges[i + 2].
struct audio_mel {
    double rate;
    size_t size;   // of the transform
    size_t count;  // of triangles
    double *edges; // count + 2, in Hz
    bool is_area;  // each of the same area (Slaney's norm), not of the same height
};

// What calls say of a bank, in the order of their arguments.
struct audio_mel_call {
    mp_obj_t sr;
    mp_obj_t n_fft;
    mp_obj_t n_mels;
    mp_obj_t fmin;
    mp_obj_t fmax; // None: half the rate
    mp_obj_t norm; // 'slaney' or None
    bool is_htk;
};

struct audio_mel dev_audio_mel(const struct audio_mel_call *call); // raises ValueError
// The triangle's height at frequency `at` of the transform, 0 to size / 2.
double dev_audio_mel_at(const struct audio_mel *mel, size_t which, size_t at);

#endif
