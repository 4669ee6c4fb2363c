// wav_decode and wav_encode: bytes of a WAV file to samples and back. What a file's bytes mean is
// wav_file.c's; here are the script's arguments and arrays. Samples are converted in pieces, each
// paid for. Called by scripts, on the VM's thread.
#include "vm/audio/audio.h"
#include "vm/audio/wav_file.h"

#include <string.h>

#define PIECE 256 // samples converted at once

static mp_obj_t decoded(const struct dev_wav *wav, const uint8_t *bytes, enum np_type type)
{
    const int64_t dims[] = {(int64_t)wav->frames, (int64_t)wav->channels};
    struct np_array *made = dev_np_new(type, wav->channels == 1 ? 1 : 2, dims);
    const uint8_t *from = bytes + wav->data_at;
    size_t item = dev_np_item(type);
    size_t owed = 0;
    for (size_t done = 0; done < made->size; done += PIECE) {
        double samples[PIECE];
        size_t now = made->size - done < PIECE ? made->size - done : PIECE;
        dev_wav_samples(wav->form, from + done * dev_wav_sample_bytes(wav->form), now, samples);
        const struct audio_row row = {type, made->data + done * item, (int64_t)item};
        dev_audio_write(&row, samples, 1, now);
        dev_audio_owe(&owed, now);
    }
    dev_np_pay(owed);
    return MP_OBJ_FROM_PTR(made);
}

static enum np_type real_type(mp_obj_t dtype)
{
    enum np_type type = dev_np_type_parse(dtype);
    if (!dev_np_is_real(type)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: dtype is float32 or float64"));
    }
    return type;
}

// wav_decode(data, dtype='float32'): (samples, rate)
static mp_obj_t wav_decode(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { DATA, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_data, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_float32)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    enum np_type type = real_type(values[DTYPE].u_obj);
    mp_buffer_info_t data;
    mp_get_buffer_raise(values[DATA].u_obj, &data, MP_BUFFER_READ);
    struct dev_wav wav;
    struct base_error error;
    if (dev_wav_parse(data.buf, data.len, &wav, &error) != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.audio: %s"), error.text);
    }
    mp_obj_t both[] = {decoded(&wav, data.buf, type), mp_obj_new_int_from_uint(wav.rate)};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_wav_decode_obj, 1, wav_decode);

static enum dev_wav_form form_named(mp_obj_t name)
{
    const char *text = mp_obj_str_get_str(name);
    for (uint32_t i = 0; i < DEV_WAV_FORM_COUNT; i++) {
        if (strcmp(text, dev_wav_form_name((enum dev_wav_form)i)) == 0) {
            return (enum dev_wav_form)i;
        }
    }
    mp_raise_msg_varg(&mp_type_ValueError,
                      MP_ERROR_TEXT("walle.audio: no format '%s': pcm8, pcm16, pcm24, pcm32, "
                                    "float32"),
                      text);
}

static const struct np_array *samples_take(mp_obj_t values, struct dev_wav *wav)
{
    const struct np_array *array = dev_np_of(values);
    if (array->rank < 1 || array->rank > 2) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.audio: samples are [frames] or [frames, channels]"));
    }
    if (!dev_np_is_real(array->type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.audio: samples are float32 or float64"));
    }
    int64_t channels = array->rank == 2 ? array->dims[1] : 1;
    if (channels < 1 || channels > DEV_WAV_CHANNELS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.audio: 1 to %u channels"),
                          (unsigned)DEV_WAV_CHANNELS_MAX);
    }
    wav->channels = (uint32_t)channels;
    wav->frames = (size_t)array->dims[0];
    return dev_np_dense(array);
}

static void samples_put(const struct np_array *array, enum dev_wav_form form, uint8_t *to)
{
    np_loop *read = dev_np_cast_loop(NP_F64, array->type);
    int64_t item = (int64_t)dev_np_item(array->type);
    size_t owed = 0;
    for (size_t done = 0; done < array->size; done += PIECE) {
        double samples[PIECE];
        size_t now = array->size - done < PIECE ? array->size - done : PIECE;
        uint8_t *const at[] = {(uint8_t *)samples, array->data + (int64_t)done * item};
        const int64_t steps[] = {sizeof(double), item};
        read(at, steps, now);
        size_t good = dev_wav_bytes(form, samples, now, to + done * dev_wav_sample_bytes(form));
        if (good < now) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.audio: sample %u is not a number"),
                              (unsigned)(done + good));
        }
        dev_audio_owe(&owed, now);
    }
    dev_np_pay(owed);
}

// wav_encode(samples, rate, format='pcm16'): bytes
static mp_obj_t wav_encode(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SAMPLES, RATE, FORMAT, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_samples, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_rate, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_format, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_pcm16)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct dev_wav wav = {.form = form_named(values[FORMAT].u_obj)};
    const struct np_array *array = samples_take(values[SAMPLES].u_obj, &wav);
    wav.rate = (uint32_t)dev_audio_size(values[RATE].u_obj, "rate", 1, UINT32_MAX);
    uint8_t header[DEV_WAV_HEADER_BYTES];
    if (dev_wav_header(&wav, header) != BASE_OK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.audio: a WAV file has at most 4 GiB"));
    }
    size_t bytes = array->size * dev_wav_sample_bytes(wav.form);
    vstr_t made;
    vstr_init_len(&made, DEV_WAV_HEADER_BYTES + bytes + bytes % 2);
    uint8_t *to = (uint8_t *)made.buf;
    memcpy(to, header, DEV_WAV_HEADER_BYTES);
    samples_put(array, wav.form, to + DEV_WAV_HEADER_BYTES);
    if (bytes % 2 != 0) {
        to[DEV_WAV_HEADER_BYTES + bytes] = 0;
    }
    return mp_obj_new_bytes_from_vstr(&made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_audio_wav_encode_obj, 2, wav_encode);
