// Windows: what a piece of a signal is multiplied with before its spectrum is taken. Formulas are
// those of scipy.signal.windows. Called by audio_frames.c, audio_mel.c and scripts, on the VM's
// thread.
#include "vm/audio/audio.h"

#include <math.h>

#define TUKEY_PART 0.25 // of a Tukey window that falls off, as scipy.signal.spectrogram has it

// a[0] + a[1] cos(x) + a[2] cos(2 x), x from -pi to pi
static const double cosines[][3] = {
    [AUDIO_BOXCAR] = {1, 0, 0},
    [AUDIO_HANN] = {0.5, 0.5, 0},
    [AUDIO_HAMMING] = {0.54, 0.46, 0},
    [AUDIO_BLACKMAN] = {0.42, 0.5, 0.08},
};

static double tukey_at(size_t at, double last)
{
    double width = floor(TUKEY_PART * last / 2);
    double place = (double)at;
    if (place <= width) {
        return 0.5 * (1 + cos(M_PI * (-1 + 2 * place / TUKEY_PART / last)));
    }
    if (place < last - width) {
        return 1;
    }
    return 0.5 * (1 + cos(M_PI * (-2 / TUKEY_PART + 1 + 2 * place / TUKEY_PART / last)));
}

static double cosine_at(enum audio_window which, size_t at, double last)
{
    const double *factors = cosines[which];
    double x = -M_PI + 2 * M_PI * ((double)at / last);
    return factors[0] + factors[1] * cos(x) + factors[2] * cos(2 * x);
}

void dev_audio_window(enum audio_window which, bool is_periodic, size_t count, double *out)
{
    double last = (double)count - (is_periodic ? 0 : 1);
    size_t owed = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = count <= 1             ? 1
                 : which == AUDIO_TUKEY ? tukey_at(i, last)
                                        : cosine_at(which, i, last);
        dev_audio_owe(&owed, 16);
    }
    dev_np_pay(owed);
}

enum audio_window dev_audio_window_named(mp_obj_t name)
{
    static const struct {
        qstr name;
        enum audio_window which;
    } names[] = {
        {MP_QSTR_hann, AUDIO_HANN},         {MP_QSTR_hamming, AUDIO_HAMMING},
        {MP_QSTR_blackman, AUDIO_BLACKMAN}, {MP_QSTR_tukey, AUDIO_TUKEY},
        {MP_QSTR_boxcar, AUDIO_BOXCAR},
    };
    qstr wanted = mp_obj_str_get_qstr(name);
    for (size_t i = 0; i < MP_ARRAY_SIZE(names); i++) {
        if (names[i].name == wanted) {
            return names[i].which;
        }
    }
    mp_raise_msg_varg(
        &mp_type_ValueError,
        MP_ERROR_TEXT("walle.audio: no window '%q': hann, hamming, blackman, tukey, boxcar"),
        wanted);
}

// (M, sym=True)
static mp_obj_t window(size_t count, const mp_obj_t *args, mp_map_t *named, enum audio_window which)
{
    enum { M, SYM, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_M, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_sym, MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    int64_t size = (int64_t)dev_audio_size(values[M].u_obj, "M", 0, DEV_AUDIO_MOST);
    struct np_array *made = dev_np_new(NP_F64, 1, &size);
    dev_audio_window(which, !values[SYM].u_bool, made->size, (double *)(void *)made->data);
    return MP_OBJ_FROM_PTR(made);
}

static mp_obj_t hann(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return window(count, args, named, AUDIO_HANN);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_hann_obj, 1, hann);

static mp_obj_t hamming(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return window(count, args, named, AUDIO_HAMMING);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_hamming_obj, 1, hamming);

static mp_obj_t blackman(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return window(count, args, named, AUDIO_BLACKMAN);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_blackman_obj, 1, blackman);
