// Tensors in files, for tools and tests: ONNX protobuf messages (.pb: TensorProto, SequenceProto or
// OptionalProto, as the ONNX project's test data has them) and NumPy's .npy and .npz.
//
// Everything read lies in the caller's arena; nothing is mapped. Parsers are bounded by the file's
// size and ENG_TENSOR_FILE_BYTES_MAX: element counts are checked against the bytes that are there
// before memory is asked for. Any thread; no state.
#ifndef ENG_MODEL_TENSOR_FILE_H
#define ENG_MODEL_TENSOR_FILE_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/tensor.h"
#include "model/graph.h"

#define ENG_TENSOR_FILE_BYTES_MAX ((size_t)4 << 30)
#define ENG_TENSOR_FILE_ITEMS_MAX 65536u // tensors in one file

// What a file holds. TENSOR: one item. SEQUENCE: any number (all items of an .npz too, with their
// names). OPTIONAL: none, or one item; `inner` says what is inside when there is something:
// an optional sequence has inner SEQUENCE and the items of the sequence.
struct eng_tensor_list {
    enum eng_value_type kind;
    enum eng_value_type inner; // OPTIONAL only: UNKNOWN (empty), TENSOR or SEQUENCE
    uint32_t count;
    struct eng_array *arrays;
    const char **names; // "" where the file gives none
};

enum eng_tensor_format { ENG_FORMAT_NPY, ENG_FORMAT_NPZ, ENG_FORMAT_PB };

// Reads by the name's ending: .npy, .npz, else protobuf. `expected` says which message a protobuf
// file holds (the formats cannot be told apart by content); UNKNOWN reads a TensorProto.
// IO, INVALID, TRUNCATED, TOO_LARGE, UNSUPPORTED (compressed .npz, Fortran order of rank > 1, types
// the engine lacks), NOMEM.
BASE_NODISCARD enum base_status eng_tensor_file_read(const char *path, enum eng_value_type expected,
                                                     struct base_arena *arena,
                                                     struct eng_tensor_list *out_list,
                                                     struct base_error *error);
// A file's bytes, and what they are.
struct eng_tensor_bytes {
    const void *data;
    size_t size;
    enum eng_tensor_format format;
    enum eng_value_type expected; // PB only: which message
};
// The same from bytes, which may go away afterwards.
BASE_NODISCARD enum base_status eng_tensor_bytes_read(const struct eng_tensor_bytes *bytes,
                                                      struct base_arena *arena,
                                                      struct eng_tensor_list *out_list,
                                                      struct base_error *error);

// Does the name end in .npy, .npz or .pb? What does not is read and written as .pb.
bool eng_tensor_file_known(const char *path);

// Writes by the name's ending. .npy: exactly one item. .npz: every item, stored without
// compression; items without a name are called arr_0, arr_1... .pb: `kind` decides the message.
// IO, NOT_FOUND (the folder), UNSUPPORTED (strings and bfloat16 in .npy/.npz), INVALID (count; what
// stands there is no file: base/os/output_file.h), NOMEM.
BASE_NODISCARD enum base_status eng_tensor_file_write(const char *path,
                                                      const struct eng_tensor_list *list,
                                                      struct base_error *error);

#endif
