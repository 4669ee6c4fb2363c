// melspectrogram, power_to_db and mfcc: what voice models are given. The signal is cut into pieces
// whose middles are hop_length apart, the first at sample 0, with zeros around it; each is
// multiplied with a Hann window, its powers are summed by a bank of mel filters. Called by scripts,
// on the VM's thread.
#include "vm/audio/audio_dct.h"
#include "vm/audio/audio_mel.h"

#include <math.h>

// A signal's mel powers, piece by piece.
struct powers {
    struct audio_signal signal;
    struct audio_mel mel;
    struct audio_frames frames;
    double *weights; // [mel.count, frequencies]
    struct np_fourier_real real;
    double *values; // frames.size
    double *pairs;  // size / 2 + 1
    size_t owed;
};

static void weights_make(struct powers *powers)
{
    size_t frequencies = powers->mel.size / 2 + 1;
    size_t all = 0;
    if (__builtin_mul_overflow(powers->mel.count, frequencies, &all)) {
        all = SIZE_MAX; // refused by the next allocation
    }
    powers->weights = dev_audio_doubles(all);
    for (size_t i = 0; i < powers->mel.count; i++) {
        for (size_t k = 0; k < frequencies; k++) {
            powers->weights[i * frequencies + k] = dev_audio_mel_at(&powers->mel, i, k);
            dev_audio_owe(&powers->owed, 4);
        }
    }
}

static void powers_make(struct powers *powers, size_t hop)
{
    size_t size = powers->mel.size;
    double *window = dev_audio_doubles(size);
    dev_audio_window(AUDIO_HANN, true, size, window);
    powers->frames = (struct audio_frames){.length = size,
                                           .step = hop,
                                           .size = size,
                                           .count = powers->signal.count / hop + 1,
                                           .ahead = size / 2,
                                           .window = window};
    weights_make(powers);
    dev_np_fourier_real_make(&powers->real, size);
    powers->values = dev_audio_doubles(size);
    powers->pairs = dev_audio_doubles((size / 2 + 1) * 2);
}

// Writes mel.count powers of one piece.
static void powers_at(struct powers *powers, size_t piece, double *out)
{
    size_t frequencies = powers->mel.size / 2 + 1;
    double *pairs = powers->pairs;
    dev_audio_frame(&powers->frames, &powers->signal, piece, powers->values);
    for (size_t i = 0; i < powers->mel.size; i++) {
        powers->values[i] *= powers->frames.window[i];
    }
    dev_np_fourier_real(&powers->real, powers->values, pairs);
    for (size_t k = 0; k < frequencies; k++) {
        pairs[k] = pairs[2 * k] * pairs[2 * k] + pairs[2 * k + 1] * pairs[2 * k + 1];
    }
    dev_audio_owe(&powers->owed, 6 * powers->mel.size);
    for (size_t i = 0; i < powers->mel.count; i++) {
        const double *weights = powers->weights + i * frequencies;
        out[i] = 0;
        for (size_t k = 0; k < frequencies; k++) {
            out[i] += weights[k] * pairs[k];
        }
        dev_audio_owe(&powers->owed, frequencies);
    }
}

// Results [row, piece]: one piece is a column.
static void column_write(const struct np_array *made, size_t piece, const double *from)
{
    int64_t item = (int64_t)dev_np_item(made->type);
    const struct audio_row row = {made->type, made->data + (int64_t)piece * item, made->steps[0]};
    dev_audio_write(&row, from, 1, (size_t)made->dims[0]);
}

// --- decibels

struct decibels {
    double least;     // powers are at least this
    double reference; // its decibels are 0
    double range;     // below the loudest, what is quieter is raised to; infinite: nothing is
};

static double decibels_of(const struct decibels *decibels, double power)
{
    return 10 * (log10(fmax(power, decibels->least)) -
                 log10(fmax(fabs(decibels->reference), decibels->least)));
}

// In place, a dense array of doubles.
static void decibels_make(const struct decibels *decibels, double *values, size_t count)
{
    double loudest = -INFINITY;
    size_t owed = 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = decibels_of(decibels, values[i]);
        loudest = fmax(loudest, values[i]);
        dev_audio_owe(&owed, 16);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = fmax(values[i], loudest - decibels->range);
        dev_audio_owe(&owed, 1);
    }
    dev_np_pay(owed);
}

static double range_of(mp_obj_t top_db)
{
    return top_db == mp_const_none ? INFINITY : dev_audio_positive(top_db, "top_db");
}

// power_to_db(S, ref=1.0, amin=1e-10, top_db=80.0)
static mp_obj_t power_to_db(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { S, REF, AMIN, TOP_DB, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_S, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_ref, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_amin, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_top_db, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(80)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t least = values[AMIN].u_obj;
    const struct decibels decibels = {
        least == mp_const_none ? 1e-10 : dev_audio_positive(least, "amin"),
        (double)mp_obj_get_float(values[REF].u_obj), range_of(values[TOP_DB].u_obj)};
    const struct np_array *from = dev_np_of(values[S].u_obj);
    struct np_array *made = dev_np_cast(from, NP_F64);
    decibels_make(&decibels, (double *)(void *)made->data, made->size);
    return dev_np_result(from->type == NP_F32 ? dev_np_cast(made, NP_F32) : made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_power_to_db_obj, 1, power_to_db);

// --- the two functions of a signal; the arguments that they share come first

enum { Y, SR, N_FFT, HOP_LENGTH, N_MELS, FMIN, FMAX, HTK, NORM, SHARED };
#define SHARED_ARGUMENTS                                                                           \
    {MP_QSTR_y, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},                         \
        {MP_QSTR_sr, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},                    \
        {MP_QSTR_n_fft, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(512)}},              \
        {MP_QSTR_hop_length, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(160)}},         \
        {MP_QSTR_n_mels, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(40)}},              \
        {MP_QSTR_fmin, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},                 \
        {MP_QSTR_fmax, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},                   \
        {MP_QSTR_htk, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = false}},                            \
    {                                                                                              \
        MP_QSTR_norm, MP_ARG_KW_ONLY | MP_ARG_OBJ,                                                 \
        {                                                                                          \
            .u_rom_obj = MP_ROM_QSTR(MP_QSTR_slaney)                                               \
        }                                                                                          \
    }

static void powers_take(struct powers *powers, const mp_arg_val_t *values)
{
    const struct audio_mel_call call = {
        values[SR].u_obj,   values[N_FFT].u_obj, values[N_MELS].u_obj, values[FMIN].u_obj,
        values[FMAX].u_obj, values[NORM].u_obj,  values[HTK].u_bool};
    powers->owed = 0;
    powers->signal = dev_audio_signal(values[Y].u_obj, "y");
    powers->mel = dev_audio_mel(&call);
    powers_make(powers, dev_audio_size(values[HOP_LENGTH].u_obj, "hop_length", 1, DEV_AUDIO_MOST));
}

// melspectrogram(y, sr, *, n_fft=512, hop_length=160, n_mels=40, fmin=0, fmax=None, htk=False,
// norm='slaney'): [n_mels, pieces]
static mp_obj_t melspectrogram(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t allowed[] = {SHARED_ARGUMENTS};
    mp_arg_val_t values[SHARED];
    mp_arg_parse_all(count, args, named, SHARED, allowed, values);
    struct powers powers;
    powers_take(&powers, values);
    const int64_t dims[] = {(int64_t)powers.mel.count, (int64_t)powers.frames.count};
    struct np_array *made = dev_np_new(powers.signal.type, 2, dims);
    double *column = dev_audio_doubles(powers.mel.count);
    for (size_t i = 0; i < powers.frames.count; i++) {
        powers_at(&powers, i, column);
        column_write(made, i, column);
    }
    dev_np_pay(powers.owed + powers.real.fourier.owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_melspectrogram_obj, 2, melspectrogram);

// mfcc(y, sr, *, ..., n_mfcc=13, top_db=80.0): [n_mfcc, pieces]
static mp_obj_t mfcc(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { N_MFCC = SHARED, TOP_DB, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        SHARED_ARGUMENTS,
        {MP_QSTR_n_mfcc, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(13)}},
        {MP_QSTR_top_db, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(80)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct powers powers;
    powers_take(&powers, values);
    size_t bands = powers.mel.count;
    size_t kept = dev_audio_size(values[N_MFCC].u_obj, "n_mfcc", 1, bands);
    const struct decibels decibels = {1e-10, 1, range_of(values[TOP_DB].u_obj)};
    const int64_t dims[] = {(int64_t)powers.frames.count, (int64_t)bands};
    struct np_array *loud = dev_np_new(NP_F64, 2, dims); // a piece's powers next to one another
    double *rows = (double *)(void *)loud->data;
    for (size_t i = 0; i < powers.frames.count; i++) {
        powers_at(&powers, i, rows + i * bands);
    }
    decibels_make(&decibels, rows, loud->size);
    const int64_t kept_dims[] = {(int64_t)kept, (int64_t)powers.frames.count};
    struct np_array *made = dev_np_new(powers.signal.type, 2, kept_dims);
    struct audio_dct dct;
    dev_audio_dct_make(&dct, bands, true);
    for (size_t i = 0; i < powers.frames.count; i++) {
        double *row = rows + i * bands;
        dev_audio_dct(&dct, row, row);
        column_write(made, i, row);
        dev_audio_owe(&powers.owed, 4 * bands);
    }
    dev_np_pay(powers.owed + powers.real.fourier.owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_mfcc_obj, 2, mfcc);
