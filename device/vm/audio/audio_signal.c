// Signals and numbers of calls of walle.audio: read from what a script gave, written to arrays.
// Called by all files of the module, on the VM's thread. Signals are not copied as a whole, so a
// minute of sound costs no second minute of memory.
#include "vm/audio/audio.h"

#include <math.h>

struct audio_signal dev_audio_signal(mp_obj_t values, const char *name)
{
    const struct np_array *array = dev_np_of(values);
    if (array->rank != 1) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.audio: %s has %u dimensions, not 1"), name,
                          (unsigned)array->rank);
    }
    if (array->size == 0) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.audio: %s is empty"), name);
    }
    return (struct audio_signal){array, dev_np_cast_loop(NP_F64, array->type), array->size,
                                 array->type == NP_F32 ? NP_F32 : NP_F64};
}

void dev_audio_read(const struct audio_signal *signal, size_t from, size_t count, double *to)
{
    int64_t step = signal->array->steps[0];
    uint8_t *const at[] = {(uint8_t *)to, signal->array->data + (int64_t)from * step};
    const int64_t steps[] = {sizeof(double), step};
    if (count > 0) {
        signal->read(at, steps, count);
    }
}

void dev_audio_write(const struct audio_row *row, const double *from, size_t stride, size_t count)
{
    uint8_t *const at[] = {row->at, (uint8_t *)(uintptr_t)from};
    const int64_t steps[] = {row->step, (int64_t)(stride * sizeof(double))};
    if (count > 0) {
        dev_np_cast_loop(row->type, NP_F64)(at, steps, count);
    }
}

double *dev_audio_doubles(size_t count)
{
    int64_t dims = count <= (size_t)INT64_MAX ? (int64_t)count : INT64_MAX;
    return (double *)(void *)dev_np_new(NP_F64, 1, &dims)->data;
}

size_t dev_audio_size(mp_obj_t value, const char *name, size_t least, size_t most)
{
    mp_int_t size = mp_obj_get_int(value);
    if (size < 0 || (size_t)size < least || (size_t)size > most) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.audio: %s is %d; it is from %u to %u"), name,
                          (int)size, (unsigned)least, (unsigned)most);
    }
    return (size_t)size;
}

double dev_audio_positive(mp_obj_t value, const char *name)
{
    double number = (double)mp_obj_get_float(value);
    if (!isfinite(number) || number <= 0) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.audio: %s is a finite number above 0"), name);
    }
    return number;
}
