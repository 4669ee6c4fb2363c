// Short-time spectra: stft, its inverse, and spectrogram, with the values and scales of
// scipy.signal's. A complex number is two elements of a last dimension, real and imaginary part.
// Called by scripts, on the VM's thread; each piece of the signal is paid for as it is transformed.
#include "vm/audio/audio.h"
#include "vm/np/np_fourier.h"

#include <math.h>
#include <string.h>

// Rows of a result [frequency, piece, parts]: one column is written at a time.
struct columns {
    struct np_array *made;
    size_t frequencies;
    size_t pieces;
    size_t parts;
};

static struct columns columns_new(enum np_type type, const struct audio_frames *frames,
                                  size_t parts)
{
    struct columns columns = {NULL, frames->size / 2 + 1, frames->count, parts};
    const int64_t dims[] = {(int64_t)columns.frequencies, (int64_t)columns.pieces, (int64_t)parts};
    columns.made = dev_np_new(type, parts > 1 ? 3 : 2, dims);
    return columns;
}

// Writes `parts` numbers of each frequency.
static void column_write(const struct columns *columns, size_t piece, const double *from)
{
    int64_t item = (int64_t)dev_np_item(columns->made->type);
    int64_t step = (int64_t)(columns->pieces * columns->parts) * item;
    for (size_t part = 0; part < columns->parts; part++) {
        uint8_t *at = columns->made->data + (int64_t)(piece * columns->parts + part) * item;
        const struct audio_row row = {columns->made->type, at, step};
        dev_audio_write(&row, from + part, columns->parts, columns->frequencies);
    }
}

static mp_obj_t three(struct np_array *frequencies, struct np_array *times, struct np_array *values)
{
    mp_obj_t items[] = {MP_OBJ_FROM_PTR(frequencies), MP_OBJ_FROM_PTR(times),
                        MP_OBJ_FROM_PTR(values)};
    return mp_obj_new_tuple(3, items);
}

static bool is_set(mp_obj_t value, const char *name, const char *only)
{
    if (value == mp_const_none || value == mp_const_false) {
        return false;
    }
    if (value != mp_const_true &&
        (!mp_obj_is_str(value) || strcmp(mp_obj_str_get_str(value), only) != 0)) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.audio: %s is '%s' or None"),
                          name, only);
    }
    return true;
}

// Room for one piece and its spectrum, and what is done to each.
struct transform {
    const struct audio_frames *frames;
    double scale;     // of the spectrum
    bool is_levelled; // less its mean
    struct np_fourier_real real;
    double *values; // frames.size
    double *pairs;  // size / 2 + 1
    size_t owed;
};

static void transform_make(struct transform *transform, const struct audio_frames *frames,
                           double scale, bool is_levelled)
{
    transform->frames = frames;
    transform->scale = scale;
    transform->is_levelled = is_levelled;
    dev_np_fourier_real_make(&transform->real, frames->size);
    transform->values = dev_audio_doubles(frames->size);
    transform->pairs = dev_audio_doubles((frames->size / 2 + 1) * 2);
    transform->owed = 0;
}

// The spectrum of piece `index`, times the window and the scale.
static void piece_transform(struct transform *transform, const struct audio_signal *signal,
                            size_t index)
{
    const struct audio_frames *frames = transform->frames;
    double *values = transform->values;
    double mean = 0;
    dev_audio_frame(frames, signal, index, values);
    for (size_t i = 0; transform->is_levelled && i < frames->length; i++) {
        mean += values[i];
    }
    mean /= (double)frames->length;
    for (size_t i = 0; i < frames->length; i++) {
        values[i] = (values[i] - mean) * frames->window[i] * transform->scale;
    }
    for (size_t i = frames->length; i < frames->size; i++) {
        values[i] = 0;
    }
    dev_np_fourier_real(&transform->real, values, transform->pairs);
    dev_audio_owe(&transform->owed, frames->length * 4 + frames->size * 2);
}

// What is left to pay for.
static void transform_end(const struct transform *transform)
{
    dev_np_pay(transform->owed + transform->real.fourier.owed);
}

static void no_sum(const struct audio_frames *frames)
{
    if (frames->window_sum == 0 || frames->window_squares == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: the window's sum is 0"));
    }
}

// stft(x, fs=1.0, window='hann', nperseg=256, noverlap=None, nfft=None, boundary='zeros',
// padded=True): (f, t, Z)
static mp_obj_t stft(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, FS, WINDOW, NPERSEG, NOVERLAP, NFFT, BOUNDARY, PADDED, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_fs, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_window, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_hann)}},
        {MP_QSTR_nperseg, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_noverlap, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_nfft, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_boundary, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_zeros)}},
        {MP_QSTR_padded, MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct audio_signal signal = dev_audio_signal(values[X].u_obj, "x");
    double rate = dev_audio_positive(values[FS].u_obj, "fs");
    const struct audio_framing framing = {values[WINDOW].u_obj,
                                          values[NPERSEG].u_obj,
                                          values[NOVERLAP].u_obj,
                                          values[NFFT].u_obj,
                                          2,
                                          is_set(values[BOUNDARY].u_obj, "boundary", "zeros"),
                                          values[PADDED].u_bool};
    struct audio_frames frames = dev_audio_frames(&framing, signal.count);
    no_sum(&frames);
    struct columns columns = columns_new(signal.type, &frames, 2);
    struct transform transform;
    transform_make(&transform, &frames, 1 / fabs(frames.window_sum), false);
    for (size_t i = 0; i < frames.count; i++) {
        piece_transform(&transform, &signal, i);
        column_write(&columns, i, transform.pairs);
    }
    transform_end(&transform);
    return three(dev_audio_frequencies(frames.size, rate), dev_audio_times(&frames, rate),
                 columns.made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_stft_obj, 1, stft);

// --- spectrogram

enum spectrum { DENSITY, SPECTRUM };
enum shown { POWER, MAGNITUDE };

static uint32_t one_of(mp_obj_t value, const char *name, const char *first, const char *second)
{
    const char *text = mp_obj_str_get_str(value);
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.audio: %s is '%s' or '%s'"),
                          name, first, second);
    }
    return strcmp(text, first) == 0 ? 0 : 1;
}

// Pairs to powers or magnitudes, in place. What one side of the spectrum leaves out is added to
// powers: all but the first, and the last of an even size, stand for two.
static void pairs_show(double *pairs, size_t size, enum shown shown)
{
    size_t frequencies = size / 2 + 1;
    for (size_t k = 0; k < frequencies; k++) {
        double real = pairs[2 * k];
        double imaginary = pairs[2 * k + 1];
        bool is_alone = k == 0 || 2 * k == size;
        pairs[k] = shown == MAGNITUDE ? hypot(real, imaginary)
                                      : (real * real + imaginary * imaginary) * (is_alone ? 1 : 2);
    }
}

// spectrogram(x, fs=1.0, window='tukey', nperseg=256, noverlap=None, nfft=None,
// detrend='constant', scaling='density', mode='psd'): (f, t, S)
static mp_obj_t spectrogram(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, FS, WINDOW, NPERSEG, NOVERLAP, NFFT, DETREND, SCALING, MODE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_fs, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_window, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_tukey)}},
        {MP_QSTR_nperseg, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_noverlap, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_nfft, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_detrend, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_constant)}},
        {MP_QSTR_scaling, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_density)}},
        {MP_QSTR_mode, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_psd)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct audio_signal signal = dev_audio_signal(values[X].u_obj, "x");
    double rate = dev_audio_positive(values[FS].u_obj, "fs");
    bool is_levelled = is_set(values[DETREND].u_obj, "detrend", "constant");
    uint32_t scaling = one_of(values[SCALING].u_obj, "scaling", "density", "spectrum");
    uint32_t shown = one_of(values[MODE].u_obj, "mode", "psd", "magnitude");
    const struct audio_framing framing = {.window = values[WINDOW].u_obj,
                                          .nperseg = values[NPERSEG].u_obj,
                                          .noverlap = values[NOVERLAP].u_obj,
                                          .nfft = values[NFFT].u_obj,
                                          .overlap_part = 8};
    struct audio_frames frames = dev_audio_frames(&framing, signal.count);
    no_sum(&frames);
    double scale =
        scaling == DENSITY ? 1 / sqrt(rate * frames.window_squares) : 1 / fabs(frames.window_sum);
    struct columns columns = columns_new(signal.type, &frames, 1);
    struct transform transform;
    transform_make(&transform, &frames, scale, is_levelled);
    for (size_t i = 0; i < frames.count; i++) {
        piece_transform(&transform, &signal, i);
        pairs_show(transform.pairs, frames.size, (enum shown)shown);
        column_write(&columns, i, transform.pairs);
    }
    transform_end(&transform);
    return three(dev_audio_frequencies(frames.size, rate), dev_audio_times(&frames, rate),
                 columns.made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_spectrogram_obj, 1, spectrogram);

// --- back

// What istft adds pieces up in.
struct sum {
    double *values;
    double *weights; // of the windows' squares
    size_t count;
};

static void piece_add(struct transform *transform, size_t begin, const struct sum *sum)
{
    const struct audio_frames *frames = transform->frames;
    dev_np_fourier_real_back(&transform->real, transform->pairs, transform->values);
    for (size_t i = 0; i < frames->length; i++) {
        double window = frames->window[i];
        sum->values[begin + i] += transform->values[i] * window * frames->window_sum;
        sum->weights[begin + i] += window * window;
    }
    dev_audio_owe(&transform->owed, frames->length * 4 + frames->size * 2);
}

static const struct np_array *spectra_take(mp_obj_t value)
{
    const struct np_array *spectra = dev_np_of(value);
    if (spectra->rank != 3 || spectra->dims[2] != 2 || spectra->size == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT(
            "walle.audio: Zxx is [frequencies, pieces, 2], as stft gives it, and not empty"));
    }
    return spectra;
}

static void column_read(const struct np_array *spectra, size_t piece, double *pairs)
{
    np_loop *read = dev_np_cast_loop(NP_F64, spectra->type);
    for (size_t part = 0; part < 2; part++) {
        uint8_t *const at[] = {(uint8_t *)(pairs + part), spectra->data +
                                                              (int64_t)piece * spectra->steps[1] +
                                                              (int64_t)part * spectra->steps[2]};
        const int64_t steps[] = {2 * sizeof(double), spectra->steps[0]};
        read(at, steps, (size_t)spectra->dims[0]);
    }
}

// The transform's size by how many frequencies there are, and by what the call says.
static size_t size_back(size_t frequencies, mp_obj_t nperseg, mp_obj_t nfft)
{
    size_t even = frequencies > 1 ? 2 * (frequencies - 1) : 1;
    size_t size = even;
    if (nfft != mp_const_none) {
        size = dev_audio_size(nfft, "nfft", 1, DEV_AUDIO_MOST);
    } else if (nperseg != mp_const_none && mp_obj_get_int(nperseg) == (mp_int_t)even + 1) {
        size = even + 1;
    }
    if (size / 2 + 1 != frequencies) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.audio: %u frequencies are not those of nfft %u"),
                          (unsigned)frequencies, (unsigned)size);
    }
    return size;
}

// (t, x), from what was added up, without the zeros in front and behind.
static mp_obj_t signal_back(const struct sum *sum, size_t ahead, enum np_type type, double rate)
{
    size_t owed = 0;
    for (size_t i = 0; i < sum->count; i++) {
        sum->values[i] /= sum->weights[i] > 1e-10 ? sum->weights[i] : 1;
        dev_audio_owe(&owed, 2);
    }
    int64_t count = sum->count > 2 * ahead ? (int64_t)(sum->count - 2 * ahead) : 0;
    struct np_array *made = dev_np_new(type, 1, &count);
    struct np_array *times = dev_np_new(NP_F64, 1, &count);
    const struct audio_row row = {type, made->data, (int64_t)dev_np_item(type)};
    dev_audio_write(&row, sum->values + ahead, 1, (size_t)count);
    double *at = (double *)(void *)times->data;
    for (int64_t i = 0; i < count; i++) {
        at[i] = (double)i / rate;
    }
    dev_np_pay((size_t)count * 2);
    mp_obj_t both[] = {MP_OBJ_FROM_PTR(times), MP_OBJ_FROM_PTR(made)};
    return mp_obj_new_tuple(2, both);
}

// istft(Zxx, fs=1.0, window='hann', nperseg=None, noverlap=None, nfft=None, boundary=True): (t, x)
static mp_obj_t istft(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { ZXX, FS, WINDOW, NPERSEG, NOVERLAP, NFFT, BOUNDARY, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_Zxx, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_fs, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_window, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_hann)}},
        {MP_QSTR_nperseg, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_noverlap, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_nfft, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_boundary, MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *spectra = spectra_take(values[ZXX].u_obj);
    double rate = dev_audio_positive(values[FS].u_obj, "fs");
    size_t size = size_back((size_t)spectra->dims[0], values[NPERSEG].u_obj, values[NFFT].u_obj);
    size_t plain = spectra->dims[0] > 1 ? 2 * ((size_t)spectra->dims[0] - 1) : 1;
    mp_obj_t nperseg = values[NPERSEG].u_obj;
    nperseg = nperseg != mp_const_none ? nperseg : mp_obj_new_int_from_uint(plain);
    const struct audio_framing framing = {.window = values[WINDOW].u_obj,
                                          .nperseg = nperseg,
                                          .noverlap = values[NOVERLAP].u_obj,
                                          .nfft = mp_obj_new_int_from_uint(size),
                                          .overlap_part = 2};
    struct audio_frames frames = dev_audio_frames(&framing, DEV_AUDIO_MOST);
    size_t pieces = (size_t)spectra->dims[1];
    size_t whole = 0;
    if (__builtin_mul_overflow(frames.step, pieces - 1, &whole) ||
        __builtin_add_overflow(whole, frames.length, &whole)) {
        whole = SIZE_MAX; // refused by the next allocation
    }
    struct sum sum = {dev_audio_doubles(whole), dev_audio_doubles(whole), whole};
    struct transform transform;
    transform_make(&transform, &frames, 1, false);
    for (size_t i = 0; i < pieces; i++) {
        column_read(spectra, i, transform.pairs);
        piece_add(&transform, i * frames.step, &sum);
    }
    transform_end(&transform);
    return signal_back(&sum, values[BOUNDARY].u_bool ? frames.length / 2 : 0,
                       spectra->type == NP_F32 ? NP_F32 : NP_F64, rate);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_istft_obj, 1, istft);
