// dct: the discrete cosine transform of type 2 along the last dimension, as scipy.fft.dct. A row's
// even elements and, backwards, its odd ones are Fourier transformed, and each result is turned
// (Makhoul). Called by scripts and by audio_mel.c, on the VM's thread.
#include "vm/audio/audio_dct.h"

#include "vm/audio/audio.h"
#include "vm/np/np_lanes.h"

#include <math.h>
#include <string.h>

void dev_audio_dct_make(struct audio_dct *dct, size_t size, bool is_ortho)
{
    dev_np_fourier_make(&dct->fourier, size);
    dct->pairs = dev_audio_doubles(2 * size);
    dct->turns = dev_audio_doubles(2 * size);
    dct->is_ortho = is_ortho;
    size_t owed = 0;
    for (size_t k = 0; k < size; k++) {
        double angle = M_PI / 2 * ((double)k / (double)size);
        dct->turns[2 * k] = cos(angle);
        dct->turns[2 * k + 1] = -sin(angle);
        dev_audio_owe(&owed, 16);
    }
    dev_np_pay(owed);
}

void dev_audio_dct(struct audio_dct *dct, const double *from, double *to)
{
    size_t size = dct->fourier.size;
    double *pairs = dct->pairs;
    for (size_t j = 0; j < size; j++) {
        size_t place = j % 2 == 0 ? j / 2 : size - 1 - j / 2;
        pairs[2 * place] = from[j];
        pairs[2 * place + 1] = 0;
    }
    dev_np_fourier(&dct->fourier, pairs, false);
    double first = dct->is_ortho ? sqrt(1 / (double)size) : 2;
    double other = dct->is_ortho ? sqrt(2 / (double)size) : 2;
    for (size_t k = 0; k < size; k++) {
        const double *turn = dct->turns + 2 * k;
        to[k] = (pairs[2 * k] * turn[0] - pairs[2 * k + 1] * turn[1]) * (k == 0 ? first : other);
    }
}

bool dev_audio_is_ortho(mp_obj_t norm)
{
    if (norm == mp_const_none) {
        return false;
    }
    if (!mp_obj_is_str(norm) || strcmp(mp_obj_str_get_str(norm), "ortho") != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: norm is 'ortho' or None"));
    }
    return true;
}

struct rows {
    struct audio_dct dct;
    np_loop *read;
    enum np_type type; // of the result
    double *row;
};

static void row_each(const struct np_lane *lane)
{
    struct rows *rows = lane->ctx;
    size_t size = rows->dct.fourier.size;
    uint8_t *const at[] = {(uint8_t *)rows->row, lane->at[1]};
    const int64_t steps[] = {sizeof(double), lane->steps[1]};
    rows->read(at, steps, size);
    dev_audio_dct(&rows->dct, rows->row, rows->row);
    const struct audio_row to = {rows->type, lane->at[0], lane->steps[0]};
    dev_audio_write(&to, rows->row, 1, size);
}

// dct(x, norm=None): type 2, along the last dimension
static mp_obj_t dct(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, NORM, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_norm, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[X].u_obj);
    bool is_ortho = dev_audio_is_ortho(values[NORM].u_obj);
    if (array->rank == 0 || array->dims[array->rank - 1] == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: dct of rows without elements"));
    }
    size_t size = (size_t)array->dims[array->rank - 1];
    struct rows rows = {.read = dev_np_cast_loop(NP_F64, array->type),
                        .type = array->type == NP_F32 ? NP_F32 : NP_F64};
    struct np_array *made = dev_np_new(rows.type, array->rank, array->dims);
    dev_audio_dct_make(&rows.dct, size, is_ortho);
    rows.row = dev_audio_doubles(size);
    const struct np_array *both[] = {made, array};
    const struct np_lanes lanes = {2, array->rank - 1, size * 4, &rows};
    dev_np_lanes(both, &lanes, row_each);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_dct_obj, 1, dct);
