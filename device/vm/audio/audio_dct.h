// walle.audio: the discrete cosine transform, as mfcc uses it, too.
#ifndef DEV_AUDIO_DCT_H
#define DEV_AUDIO_DCT_H

#include "vm/np/np_fourier.h"

// Type 2 of rows of one length, by a Fourier transform of that size.
struct audio_dct {
    struct np_fourier fourier;
    double *pairs; // `size`
    double *turns; // `size` pairs: e to the power of -i pi k / (2 size)
    bool is_ortho;
};

void dev_audio_dct_make(struct audio_dct *dct, size_t size, bool is_ortho);
// From a row to another; may be the same.
void dev_audio_dct(struct audio_dct *dct, const double *from, double *to);
// None: false, 'ortho': true; raises ValueError.
bool dev_audio_is_ortho(mp_obj_t norm);

#endif
