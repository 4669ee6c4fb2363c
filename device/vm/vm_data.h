// walle.data: what the files of the module share.
#ifndef DEV_VM_DATA_H
#define DEV_VM_DATA_H

#include "pipeline/stream/event_stream.h"
#include "pipeline/stream/join_buffer.h"
#include "pipeline/stream/value.h"
#include "vm/vm.h"

#include "py/obj.h"
#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_data;

// --- vm_event.c
mp_obj_t dev_vm_event_new(const struct dev_event *event);
mp_obj_t dev_vm_value_object(struct dev_value value); // NONE: None

// --- vm_stream.c
// What walle.data.events() gives: all events of the run.
mp_obj_t dev_vm_stream_all(void);
extern const mp_obj_fun_builtin_fixed_t dev_vm_filter_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_map_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_key_by_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_time_window_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_join_obj;

// What a stream declares so far, and what its last aggregate call left out; lies in the script's
// heap.
struct dev_vm_stream {
    mp_obj_base_t base;
    uint32_t count;
    uint32_t *events; // places in the run's events, ascending
    mp_obj_t key;     // str, or None
    bool windowed;
    struct dev_window_spec window;
    struct dev_vm_stream *other; // joined; NULL: none
    mp_obj_t where;              // str, or None
    uint64_t within_ms;
    uint64_t lateness_ms; // of the join
    uint32_t join_bytes;  // of its buffer; 0: as much as it takes
    struct dev_vm_left_out left_out;
};
struct dev_vm_stream *dev_vm_stream_of(mp_obj_t object); // raises TypeError
// An expression of a script; raises ValueError with its place in the text. Lies in the script's
// heap.
const uint8_t *dev_vm_expression(mp_obj_t text, uint32_t flags);

// --- vm_aggregate.c
extern const mp_obj_fun_builtin_var_t dev_vm_aggregate_obj; // the method
extern const mp_obj_fun_builtin_var_t dev_vm_count_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_sum_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_min_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_max_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_mean_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_distinct_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_last_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_histogram_obj;
extern const mp_obj_fun_builtin_var_t dev_vm_quantiles_obj;

#endif
