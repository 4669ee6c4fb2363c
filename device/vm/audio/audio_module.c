// The module `walle.audio`: the table of its functions, which scripts look names up in on the VM's
// thread. What each comes to, and how far it may be off, is in docs/AUDIO.md; a test holds that
// page to this table.
#include "vm/audio/audio.h"
#include "vm/vm_audio.h"

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_audio)},
    {MP_ROM_QSTR(MP_QSTR_blackman), MP_ROM_PTR(&dev_audio_blackman_obj)},
    {MP_ROM_QSTR(MP_QSTR_dct), MP_ROM_PTR(&dev_audio_dct_obj)},
    {MP_ROM_QSTR(MP_QSTR_frames), MP_ROM_PTR(&dev_audio_frames_obj)},
    {MP_ROM_QSTR(MP_QSTR_hamming), MP_ROM_PTR(&dev_audio_hamming_obj)},
    {MP_ROM_QSTR(MP_QSTR_hann), MP_ROM_PTR(&dev_audio_hann_obj)},
    {MP_ROM_QSTR(MP_QSTR_hz_to_mel), MP_ROM_PTR(&dev_audio_hz_to_mel_obj)},
    {MP_ROM_QSTR(MP_QSTR_istft), MP_ROM_PTR(&dev_audio_istft_obj)},
    {MP_ROM_QSTR(MP_QSTR_mel), MP_ROM_PTR(&dev_audio_mel_obj)},
    {MP_ROM_QSTR(MP_QSTR_mel_to_hz), MP_ROM_PTR(&dev_audio_mel_to_hz_obj)},
    {MP_ROM_QSTR(MP_QSTR_melspectrogram), MP_ROM_PTR(&dev_audio_melspectrogram_obj)},
    {MP_ROM_QSTR(MP_QSTR_mfcc), MP_ROM_PTR(&dev_audio_mfcc_obj)},
    {MP_ROM_QSTR(MP_QSTR_power_to_db), MP_ROM_PTR(&dev_audio_power_to_db_obj)},
    {MP_ROM_QSTR(MP_QSTR_preemphasis), MP_ROM_PTR(&dev_audio_preemphasis_obj)},
    {MP_ROM_QSTR(MP_QSTR_resample_poly), MP_ROM_PTR(&dev_audio_resample_obj)},
    {MP_ROM_QSTR(MP_QSTR_rms), MP_ROM_PTR(&dev_audio_rms_obj)},
    {MP_ROM_QSTR(MP_QSTR_spectrogram), MP_ROM_PTR(&dev_audio_spectrogram_obj)},
    {MP_ROM_QSTR(MP_QSTR_stft), MP_ROM_PTR(&dev_audio_stft_obj)},
    {MP_ROM_QSTR(MP_QSTR_wav_decode), MP_ROM_PTR(&dev_audio_wav_decode_obj)},
    {MP_ROM_QSTR(MP_QSTR_wav_encode), MP_ROM_PTR(&dev_audio_wav_encode_obj)},
    {MP_ROM_QSTR(MP_QSTR_zero_crossing_rate), MP_ROM_PTR(&dev_audio_zero_crossing_rate_obj)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t dev_vm_module_audio = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
