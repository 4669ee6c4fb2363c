// NumPy's array files: .npy (one array) and .npz (a zip archive of them), read from and written to
// memory. Little-endian, C order; archives without compression, as numpy.savez writes them.
#ifndef ENG_MODEL_NPY_FILE_H
#define ENG_MODEL_NPY_FILE_H

#include "base/buffer.h"
#include "model/tensor_file.h"

// One array; its elements are copied into the arena. INVALID, TRUNCATED, UNSUPPORTED, NOMEM.
BASE_NODISCARD enum base_status eng_npy_read(const uint8_t *bytes, size_t size,
                                             struct base_arena *arena, struct eng_array *out_array,
                                             struct base_error *error);
// All arrays of an archive, in its order, as a SEQUENCE with names. The same codes, TOO_LARGE.
BASE_NODISCARD enum base_status eng_npz_read(const uint8_t *bytes, size_t size,
                                             struct base_arena *arena,
                                             struct eng_tensor_list *out_list,
                                             struct base_error *error);
// Appends a file's bytes. UNSUPPORTED: an element type NumPy lacks. NOMEM, LIMIT.
BASE_NODISCARD enum base_status
eng_npy_write(struct base_buffer *out, const struct eng_array *array, struct base_error *error);
BASE_NODISCARD enum base_status eng_npz_write(struct base_buffer *out,
                                              const struct eng_tensor_list *list,
                                              struct base_error *error);

#endif
