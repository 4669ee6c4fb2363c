// May this leave the device? The one place that says so, for uploads (asked by the script's VM, so
// that the script hears of it, and again by the pipeline, which does not trust the VM's process)
// and for calls of models in the cloud (asked before a call is queued). Pure: no state, no
// allocation, about 6 KB of stack. All of them fail closed.
#ifndef WIRE_LEAVES_CHECK_H
#define WIRE_LEAVES_CHECK_H

#include "base/error.h"
#include "wire/leaves/leaves.h"

// May `record` leave as `upload` of a version whose manifest has these bytes as its declaration
// (wire_manifest.declaration)? OK also where the declaration says nothing of what leaves and has
// an upload of that name. DENIED: no; `error` (NULL allowed) says what and where: "upload 'spent':
// field 'user.name' is not declared", "... 'item' has 70 bytes, and 64 may leave". NOT_FOUND: no
// upload of that name is declared. CORRUPT: the declaration cannot be read.
struct wire_leaves_record {
    enum wire_record_format format;
    const uint8_t *bytes;
    size_t size;
};
BASE_NODISCARD enum base_status wire_leaves_upload_check(struct base_str declaration,
                                                         struct base_str upload,
                                                         const struct wire_leaves_record *record,
                                                         struct base_error *error);
// The same of what walle.result gives, as JSON: OK where the version declares no upload for it.
BASE_NODISCARD enum base_status wire_leaves_result_check(struct base_str declaration,
                                                         const struct wire_leaves_record *record,
                                                         struct base_error *error);
// How many records of it, or calls of a model, may leave in a day; 0: any number.
uint32_t wire_leaves_upload_per_day(struct base_str declaration, struct base_str upload);
uint32_t wire_leaves_model_per_day(struct base_str declaration, struct base_str model);

// ---- Calls of models in the cloud

struct wire_leaves_input {
    struct base_str name;
    struct base_str dtype; // "FP32", as it will be sent
    uint64_t elements;
    uint64_t bytes; // as they will be sent, before compression
};

struct wire_leaves_call {
    struct base_str model;
    const struct wire_leaves_input *inputs;
    uint32_t input_count;
};

// May a version with this declaration (wire_manifest.declaration, empty: none) make the call?
// Nothing else of the script's making may go with it: no id, no parameters, no names. DENIED: no;
// `error` says what: "model 'resnet': input 'image' has 602112 elements, and 150528 may leave",
// "task.json has no \"leaves\" that names model 'resnet'". CORRUPT: the declaration cannot be read.
BASE_NODISCARD enum base_status wire_leaves_call_check(struct base_str declaration,
                                                       const struct wire_leaves_call *call,
                                                       struct base_error *error);

// ---- Failures

// What of a failure of such a version may leave with reports. WORDS where nothing is declared.
enum wire_leaves_errors wire_leaves_errors_of(struct base_str declaration);
// Does it have "leaves"?
bool wire_leaves_declared(struct base_str declaration);

#endif
