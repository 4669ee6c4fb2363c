// What voice tasks need beside spectra: pieces of a signal as rows, how loud each is, how often it
// changes its sign, and pre-emphasis. Samples are read a few at a time, each lot paid for, so a
// signal is never copied as a whole. Called by scripts, on the VM's thread.
#include "vm/audio/audio.h"

#include <math.h>

#define PIECE 256 // samples read at once

// preemphasis(x, coef=0.97): y[n] = x[n] - coef x[n - 1], with nothing before x[0]
static mp_obj_t preemphasis(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, COEF, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_coef, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct audio_signal signal = dev_audio_signal(values[X].u_obj, "x");
    mp_obj_t given = values[COEF].u_obj;
    double factor = given == mp_const_none ? 0.97 : (double)mp_obj_get_float(given);
    int64_t size = (int64_t)signal.count;
    struct np_array *made = dev_np_new(signal.type, 1, &size);
    size_t item = dev_np_item(signal.type);
    double before = 0;
    size_t owed = 0;
    for (size_t done = 0; done < signal.count; done += PIECE) {
        double samples[PIECE];
        size_t now = signal.count - done < PIECE ? signal.count - done : PIECE;
        dev_audio_read(&signal, done, now, samples);
        for (size_t i = 0; i < now; i++) {
            double sample = samples[i];
            samples[i] = sample - factor * before;
            before = sample;
        }
        const struct audio_row row = {signal.type, made->data + done * item, (int64_t)item};
        dev_audio_write(&row, samples, 1, now);
        dev_audio_owe(&owed, now);
    }
    dev_np_pay(owed);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_preemphasis_obj, 1, preemphasis);

// --- pieces

struct pieces {
    struct audio_signal signal;
    size_t length;
    size_t step;
    size_t count;
};

// (x, frame_length=512, hop_length=160): whole pieces only
static struct pieces pieces_take(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, FRAME_LENGTH, HOP_LENGTH, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_frame_length, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(512)}},
        {MP_QSTR_hop_length, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(160)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct pieces pieces = {.signal = dev_audio_signal(values[X].u_obj, "x")};
    pieces.length =
        dev_audio_size(values[FRAME_LENGTH].u_obj, "frame_length", 1, pieces.signal.count);
    pieces.step = dev_audio_size(values[HOP_LENGTH].u_obj, "hop_length", 1, DEV_AUDIO_MOST);
    pieces.count = (pieces.signal.count - pieces.length) / pieces.step + 1;
    return pieces;
}

// frames(x, frame_length=512, hop_length=160): a view [pieces, frame_length] that cannot be written
static mp_obj_t frames(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct pieces pieces = pieces_take(count, args, named);
    struct np_array *made = dev_np_view(pieces.signal.array);
    made->rank = 2;
    made->dims[0] = (int64_t)pieces.count;
    made->dims[1] = (int64_t)pieces.length;
    made->steps[1] = pieces.signal.array->steps[0];
    made->steps[0] = pieces.count > 1 ? made->steps[1] * (int64_t)pieces.step : 0;
    made->is_read_only = true;
    if (__builtin_mul_overflow(pieces.count, pieces.length, &made->size) ||
        made->size > (size_t)ENG_ELEMENTS_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: the pieces have too many elements"));
    }
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_frames_obj, 1, frames);

// What is added up over a piece.
typedef double piece_sum(const double *samples, size_t count, double before);

static double squares(const double *samples, size_t count, double before)
{
    double sum = 0;
    (void)before;
    for (size_t i = 0; i < count; i++) {
        sum += samples[i] * samples[i];
    }
    return sum;
}

static double crossings(const double *samples, size_t count, double before)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (samples[i] < 0) != (before < 0) ? 1 : 0;
        before = samples[i];
    }
    return (double)sum;
}

static double piece_fold(const struct pieces *pieces, size_t index, piece_sum *sum, size_t *owed)
{
    size_t begin = index * pieces->step;
    double before = 0;
    double total = 0;
    for (size_t done = 0; done < pieces->length; done += PIECE) {
        double samples[PIECE];
        size_t now = pieces->length - done < PIECE ? pieces->length - done : PIECE;
        dev_audio_read(&pieces->signal, begin + done, now, samples);
        total += sum(samples, now, done == 0 ? samples[0] : before);
        before = samples[now - 1];
        dev_audio_owe(owed, 2 * now);
    }
    return total;
}

static mp_obj_t folded(const struct pieces *pieces, piece_sum *sum, bool is_root)
{
    int64_t count = (int64_t)pieces->count;
    struct np_array *made = dev_np_new(pieces->signal.type, 1, &count);
    size_t item = dev_np_item(made->type);
    size_t owed = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        double value = piece_fold(pieces, i, sum, &owed) / (double)pieces->length;
        value = is_root ? sqrt(value) : value;
        const struct audio_row row = {made->type, made->data + i * item, (int64_t)item};
        dev_audio_write(&row, &value, 1, 1);
        dev_audio_owe(&owed, 16);
    }
    dev_np_pay(owed);
    return MP_OBJ_FROM_PTR(made);
}

// rms(x, frame_length=512, hop_length=160): the root of the mean of the squares of each piece
static mp_obj_t rms(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct pieces pieces = pieces_take(count, args, named);
    return folded(&pieces, squares, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_rms_obj, 1, rms);

// zero_crossing_rate(x, frame_length=512, hop_length=160): changes of sign by samples
static mp_obj_t zero_crossing_rate(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct pieces pieces = pieces_take(count, args, named);
    return folded(&pieces, crossings, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_zero_crossing_rate_obj, 1, zero_crossing_rate);
