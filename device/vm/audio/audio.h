// walle.audio, sound for scripts: what the files of the module share. A signal is an array of
// walle.np of one dimension; samples are reals from -1 to 1. Names, defaults and values are SciPy's
// where it has the function (docs/AUDIO.md says what each is compared with).
//
// Computed is in double precision; a result is float32 where the signal is, else float64. All of it
// runs on the VM's thread, within the run's budget. Raised are TypeError, ValueError and
// MemoryError.
#ifndef DEV_AUDIO_H
#define DEV_AUDIO_H

#include "vm/np/np.h"

// A signal that a script gave. It is read in pieces, in whatever type and steps it lies.
struct audio_signal {
    const struct np_array *array;
    np_loop *read;     // to float64
    size_t count;      // samples
    enum np_type type; // of results
};

// Elements gone through in small pieces and not paid for yet.
static inline void dev_audio_owe(size_t *owed, size_t elements)
{
    *owed += elements;
    if (*owed >= NP_CHUNK) {
        size_t paid = *owed;
        *owed = 0;
        dev_np_pay(paid);
    }
}

// --- audio_signal.c
// Raises ValueError where it has not one dimension or no samples. `name` is the argument's.
struct audio_signal dev_audio_signal(mp_obj_t values, const char *name);
// Copies `count` samples from index `from` on; those are there.
void dev_audio_read(const struct audio_signal *signal, size_t from, size_t count, double *to);
// Writes doubles to elements of an array of this type, `step` bytes apart.
struct audio_row {
    enum np_type type;
    uint8_t *at;
    int64_t step;
};
void dev_audio_write(const struct audio_row *row, const double *from, size_t stride, size_t count);
double *dev_audio_doubles(size_t count); // zeros of the script's heap; raises MemoryError
// Whole numbers of a call; raise ValueError outside of the range, with the argument's name.
size_t dev_audio_size(mp_obj_t value, const char *name, size_t least, size_t most);
double dev_audio_positive(mp_obj_t value, const char *name); // a finite number above 0
#define DEV_AUDIO_MOST ((size_t)1 << 31)                     // of sizes that a call names

// --- audio_window.c
enum audio_window { AUDIO_BOXCAR, AUDIO_HANN, AUDIO_HAMMING, AUDIO_BLACKMAN, AUDIO_TUKEY };
// Writes the window's `count` values; periodic ones leave out the last of count + 1.
void dev_audio_window(enum audio_window which, bool is_periodic, size_t count, double *out);
enum audio_window dev_audio_window_named(mp_obj_t name); // raises ValueError

// --- audio_frames.c: short pieces of a signal, one behind another, each times a window
struct audio_frames {
    size_t length; // samples of a piece
    size_t step;   // from one to the next
    size_t size;   // of the transform
    size_t count;  // pieces
    size_t ahead;  // zeros in front of the signal
    double middle; // samples from the signal's beginning to the middle of the first piece
    const double *window;
    double window_sum;
    double window_squares;
};

// What a call says of them; mp_const_none where it says nothing.
struct audio_framing {
    mp_obj_t window; // a name or `nperseg` numbers
    mp_obj_t nperseg;
    mp_obj_t noverlap;
    mp_obj_t nfft;
    uint32_t overlap_part; // 1 / of a piece overlaps where noverlap is not said
    bool has_boundary;     // zeros around the signal, half a piece
    bool is_padded;        // zeros behind it, so that the last piece is whole
};

// Of a signal of `samples`; raises ValueError.
struct audio_frames dev_audio_frames(const struct audio_framing *framing, size_t samples);
// Reads piece `index`, with zeros where there is no signal, without the window.
void dev_audio_frame(const struct audio_frames *frames, const struct audio_signal *signal,
                     size_t index, double *out);
// Arrays of the transform's frequencies, and of when the middle of each piece is.
struct np_array *dev_audio_frequencies(size_t size, double rate);
struct np_array *dev_audio_times(const struct audio_frames *frames, double rate);

// --- the functions that the module's table names
extern const mp_obj_fun_builtin_var_t dev_audio_wav_decode_obj, dev_audio_wav_encode_obj,
    dev_audio_hann_obj, dev_audio_hamming_obj, dev_audio_blackman_obj, dev_audio_resample_obj,
    dev_audio_stft_obj, dev_audio_istft_obj, dev_audio_spectrogram_obj, dev_audio_mel_obj,
    dev_audio_melspectrogram_obj, dev_audio_mfcc_obj, dev_audio_dct_obj, dev_audio_power_to_db_obj,
    dev_audio_hz_to_mel_obj, dev_audio_mel_to_hz_obj, dev_audio_preemphasis_obj,
    dev_audio_frames_obj, dev_audio_rms_obj, dev_audio_zero_crossing_rate_obj;

#endif
