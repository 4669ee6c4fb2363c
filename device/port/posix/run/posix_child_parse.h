// What a task's process says, read as if an attacker had written it: behind the wall may be a
// script that has got out of its VM. What passes here is what a VM could have said: known ends,
// sizes within the VM's limits, texts in UTF-8, results and stored values that are JSON, names as
// walle.data takes them, nothing left over. Pure.
#ifndef POSIX_CHILD_PARSE_H
#define POSIX_CHILD_PARSE_H

#include "vm/vm.h"

#define POSIX_CHILD_JSON_DEPTH_MAX 1024 // a script's C stack holds less

struct posix_child_end {
    enum base_status status;     // not OK: the run could not begin, and there is no result
    struct dev_vm_result result; // `output` is empty
    struct dev_vm_effect effects[DEV_VM_EFFECTS_ALL];
};

// The body of END. Texts and bytes are borrowed from it. INVALID, TRUNCATED, TOO_LARGE.
BASE_NODISCARD enum base_status posix_child_end_parse(const uint8_t *bytes, size_t size,
                                                      struct posix_child_end *out);
// The body of QUERY; borrowed. INVALID, TRUNCATED.
BASE_NODISCARD enum base_status posix_child_query_parse(const uint8_t *bytes, size_t size,
                                                        struct dev_vm_query *out);
// The body of INFER, and of LOOK; borrowed. INVALID, TRUNCATED, TOO_LARGE.
BASE_NODISCARD enum base_status posix_child_infer_parse(const uint8_t *bytes, size_t size,
                                                        struct dev_vm_cloud_call *out);
BASE_NODISCARD enum base_status posix_child_look_parse(const uint8_t *bytes, size_t size,
                                                       struct base_str *out_model);

#endif
