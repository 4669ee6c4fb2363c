// What a version says may leave the device: the member "leaves" of task.json. It lies in the
// version's declaration (wire/declaration.h) and so in its manifest, whose hash a release signs:
// what was reviewed is what a device enforces, whatever the scripts do.
//
//   leaves := u8 version (1), u8 errors (0 place, 1 text),
//     varint upload_count, count x { text8 upload, varint bytes_max, varint per_day, u8 opaque,
//                                    varint field_count, count x field },
//     varint model_count,  count x { text8 model, varint bytes_max, varint per_day,
//                                    varint input_count, count x { text8 name, text8 dtype,
//                                                                  varint elements_max } }
//   field  := text8 path, u8 kind, varint max
//
// A field's path is that of a value in a record: "" the record itself, "item", "pos.x" a member of
// a member, "tags[]" each item of a list, "rows[].id". Only leaves have one: an object or a list
// may stand where the path of a declared field leads through it. null may stand in a field's place.
//
// A declaration without "leaves" is undeclared: uploads leave as they are, by the names of
// "uploads", and no model of the cloud may be called. With "leaves", even an empty one, nothing
// leaves that is not in it. Codec: leaves.c; what is checked against it: leaves_check.h.
#ifndef WIRE_LEAVES_H
#define WIRE_LEAVES_H

#include "wire/declaration.h"

#define WIRE_LEAVES_VERSION      1
#define WIRE_LEAVES_BYTES_MAX    WIRE_DECLARATION_LEAVES_MAX
#define WIRE_LEAVES_FIELDS_MAX   128                 // of all uploads
#define WIRE_LEAVES_PATH_MAX     96                  // bytes of a field's path
#define WIRE_LEAVES_DEPTH_MAX    8                   // objects and lists in each other, of a record
#define WIRE_LEAVES_TEXT_MAX     (64 * 1024)         // "max" of a text
#define WIRE_LEAVES_ITEMS_MAX    65536               // "max" of a list
#define WIRE_LEAVES_PER_DAY_MAX  1000000             // records of an upload, calls of a model
#define WIRE_LEAVES_MODELS_MAX   8                   // in the cloud, that may be called
#define WIRE_LEAVES_INPUTS_MAX   32                  // of all models
#define WIRE_LEAVES_NAME_MAX     96                  // bytes of a model's name, of an input's
#define WIRE_LEAVES_ELEMENTS_MAX (UINT64_C(1) << 32) // of an input
#define WIRE_LEAVES_CALL_MAX     (64u << 20)         // bytes of a call's inputs

enum wire_leaves_kind {
    WIRE_LEAVES_BOOLEAN,
    WIRE_LEAVES_INTEGER, // of 64 bits
    WIRE_LEAVES_NUMBER,
    WIRE_LEAVES_TEXT, // max: bytes as they stand in the JSON
    WIRE_LEAVES_LIST, // max: how many; its items are fields of their own, "path[]"
    WIRE_LEAVES_KIND_END
};

// What of a failure leaves with reports.
enum wire_leaves_errors {
    WIRE_LEAVES_PLACE, // its type, file and line; no word of a script's making
    WIRE_LEAVES_WORDS, // the exception's text, and where a shadow's result differs, too
    WIRE_LEAVES_ERRORS_END
};

struct wire_leaves_field {
    struct base_str path;
    enum wire_leaves_kind kind;
    uint32_t max; // TEXT, LIST; 0 for others
};

struct wire_leaves_upload {
    struct base_str name; // of the declaration's uploads
    uint32_t bytes_max;   // of a record
    uint32_t per_day;     // records; 0: any number
    bool opaque;          // bytes may leave as they are: nothing is known of what is in them
    uint32_t field_from;  // in `fields`
    uint32_t field_count; // 0: no JSON leaves
};

struct wire_leaves_port {
    struct base_str name;
    struct base_str dtype; // as in the Open Inference Protocol: "FP32"
    uint64_t elements_max;
};

struct wire_leaves_model {
    struct base_str name;
    uint32_t bytes_max; // of all inputs of a call
    uint32_t per_day;   // calls; 0: any number
    uint32_t input_from;
    uint32_t input_count;
};

// Borrowed from the input. About 6 KB.
struct wire_leaves {
    enum wire_leaves_errors errors;
    uint32_t upload_count;
    struct wire_leaves_upload uploads[WIRE_DECLARATION_UPLOADS_MAX];
    uint32_t field_count;
    struct wire_leaves_field fields[WIRE_LEAVES_FIELDS_MAX];
    uint32_t model_count;
    struct wire_leaves_model models[WIRE_LEAVES_MODELS_MAX];
    uint32_t input_count;
    struct wire_leaves_port inputs[WIRE_LEAVES_INPUTS_MAX];
};

// INVALID: names, types, doubled names or fields, a maximum of 0; TOO_LARGE.
BASE_NODISCARD enum base_status wire_leaves_encode(const struct wire_leaves *leaves, uint8_t *out,
                                                   size_t capacity, size_t *out_size);
// INVALID, TRUNCATED, TOO_LARGE, UNSUPPORTED. *out is defined on success only.
BASE_NODISCARD enum base_status wire_leaves_parse(const uint8_t *bytes, size_t size,
                                                  struct wire_leaves *out);
// Is it a type of the Open Inference Protocol?
bool wire_leaves_dtype_ok(struct base_str dtype);
// A name that a path can have as a part: 1 to WIRE_LEAVES_PATH_MAX bytes of printable UTF-8 without
// '.', '[', ']', '"' and '\'.
bool wire_leaves_part_ok(struct base_str part);

#endif
