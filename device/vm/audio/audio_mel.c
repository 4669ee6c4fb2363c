// Mel scales, of HTK and of Slaney's toolbox, and banks of triangular filters over them, with the
// formulas that librosa made common: hz_to_mel, mel_to_hz, mel. Called by scripts and by
// audio_mfcc.c, on the VM's thread.
#include "vm/audio/audio_mel.h"

#include <math.h>
#include <string.h>

// Slaney's scale: straight up to 1,000 Hz, 3 mel for 200 Hz; above, 27 mel for a factor of 6.4.
#define HZ_PER_MEL (200.0 / 3)
#define BREAK_HZ   1000.0
#define BREAK_MEL  (BREAK_HZ / HZ_PER_MEL)

static double mel_of(double hz, bool is_htk)
{
    if (is_htk) {
        return 2595 * log10(1 + hz / 700);
    }
    return hz < BREAK_HZ ? hz / HZ_PER_MEL : BREAK_MEL + log(hz / BREAK_HZ) * (27 / log(6.4));
}

static double hz_of(double mel, bool is_htk)
{
    if (is_htk) {
        return 700 * (pow(10, mel / 2595) - 1);
    }
    return mel < BREAK_MEL ? mel * HZ_PER_MEL : BREAK_HZ * exp((mel - BREAK_MEL) * (log(6.4) / 27));
}

static bool is_slaney(mp_obj_t norm)
{
    if (norm == mp_const_none) {
        return false;
    }
    if (!mp_obj_is_str(norm) || strcmp(mp_obj_str_get_str(norm), "slaney") != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: norm is 'slaney' or None"));
    }
    return true;
}

struct audio_mel dev_audio_mel(const struct audio_mel_call *call)
{
    struct audio_mel mel = {.rate = dev_audio_positive(call->sr, "sr"),
                            .size = dev_audio_size(call->n_fft, "n_fft", 1, DEV_AUDIO_MOST),
                            .count = dev_audio_size(call->n_mels, "n_mels", 1, DEV_AUDIO_MOST),
                            .is_area = is_slaney(call->norm)};
    double low = (double)mp_obj_get_float(call->fmin);
    double high =
        call->fmax == mp_const_none ? mel.rate / 2 : dev_audio_positive(call->fmax, "fmax");
    if (!(low >= 0) || !(low < high)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: fmin is at least 0 and below fmax"));
    }
    mel.edges = dev_audio_doubles(mel.count + 2);
    double from = mel_of(low, call->is_htk);
    double to = mel_of(high, call->is_htk);
    double step = (to - from) / (double)(mel.count + 1);
    size_t owed = 0;
    for (size_t i = 0; i < mel.count + 2; i++) {
        double place = i == mel.count + 1 ? to : from + (double)i * step;
        mel.edges[i] = hz_of(place, call->is_htk);
        dev_audio_owe(&owed, 16);
    }
    dev_np_pay(owed);
    return mel;
}

double dev_audio_mel_at(const struct audio_mel *mel, size_t which, size_t at)
{
    const double *edges = mel->edges + which;
    double hz = (double)at * (mel->rate / (double)mel->size);
    double rise = (hz - edges[0]) / (edges[1] - edges[0]);
    double fall = (edges[2] - hz) / (edges[2] - edges[1]);
    double height = fmax(0, fmin(rise, fall));
    return mel->is_area ? height * (2 / (edges[2] - edges[0])) : height;
}

// mel(sr, n_fft, n_mels=128, fmin=0.0, fmax=None, htk=False, norm='slaney'): [n_mels, n_fft/2 + 1]
static mp_obj_t mel(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SR, N_FFT, N_MELS, FMIN, FMAX, HTK, NORM, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_sr, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_n_fft, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_n_mels, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(128)}},
        {MP_QSTR_fmin, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_fmax, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_htk, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_norm, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_slaney)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct audio_mel_call call = {
        values[SR].u_obj,   values[N_FFT].u_obj, values[N_MELS].u_obj, values[FMIN].u_obj,
        values[FMAX].u_obj, values[NORM].u_obj,  values[HTK].u_bool};
    struct audio_mel bank = dev_audio_mel(&call);
    size_t frequencies = bank.size / 2 + 1;
    const int64_t dims[] = {(int64_t)bank.count, (int64_t)frequencies};
    struct np_array *made = dev_np_new(NP_F64, 2, dims);
    double *to = (double *)(void *)made->data;
    size_t owed = 0;
    for (size_t i = 0; i < bank.count; i++) {
        for (size_t k = 0; k < frequencies; k++) {
            *to++ = dev_audio_mel_at(&bank, i, k);
            dev_audio_owe(&owed, 4);
        }
    }
    dev_np_pay(owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_mel_obj, 2, mel);

// (values, htk=False): of each element of any array
static mp_obj_t scaled(size_t count, const mp_obj_t *args, mp_map_t *named,
                       double (*scale)(double value, bool is_htk))
{
    enum { VALUES, HTK, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_values, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_htk, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_array *made = dev_np_cast(dev_np_of(values[VALUES].u_obj), NP_F64);
    double *at = (double *)(void *)made->data;
    size_t owed = 0;
    for (size_t i = 0; i < made->size; i++) {
        at[i] = scale(at[i], values[HTK].u_bool);
        dev_audio_owe(&owed, 16);
    }
    dev_np_pay(owed);
    return dev_np_result(made);
}

static mp_obj_t hz_to_mel(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return scaled(count, args, named, mel_of);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_hz_to_mel_obj, 1, hz_to_mel);

static mp_obj_t mel_to_hz(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return scaled(count, args, named, hz_of);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_mel_to_hz_obj, 1, mel_to_hz);
