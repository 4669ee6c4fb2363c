// walle.nn: what running models (vm_nn.c) and training them (nn_trainer.c) share. On the VM's
// thread. No exception may jump over a call of the host's ports: what they say is raised
// afterwards.
#ifndef DEV_VM_NN_CALL_H
#define DEV_VM_NN_CALL_H

#include "model/model_port.h"
#include "vm/vm_nn.h"

// A model that the script loaded. The reference is the run's, so that it needs no finaliser.
struct nn_model_object {
    mp_obj_base_t base;
    uint32_t index; // among the job's models
};

extern const mp_obj_type_t dev_vm_model_type;
extern const mp_obj_type_t dev_nn_trainer_type;
extern const mp_obj_type_t dev_nn_session_type;

// What a call gives: outputs of the model, and tensors inside of its graph as outputs behind these.
struct nn_wanted {
    uint8_t numbers[DEV_VM_MODEL_PORTS_MAX];
    size_t count;
    const char *values[DEV_VM_MODEL_PORTS_MAX]; // names of the tensors inside; the script's
    size_t value_count;
};

// What goes in; the collector finds it on the stack.
struct nn_inputs {
    const struct dev_vm_tensor *tensors[DEV_VM_MODEL_PORTS_MAX];
    size_t count;
};

// Results of a call: elements in the script's heap, found there by the collector through this
// struct, which lies on the stack.
struct nn_results {
    const uint8_t *wanted; // numbers of the outputs, for errors; NULL: all, in their order
    struct eng_desc descs[DEV_VM_MODEL_PORTS_MAX];
    void *blocks[DEV_VM_MODEL_PORTS_MAX];
};

struct dev_vm;

// --- vm_nn.c
struct base_str dev_nn_name(uint32_t model); // of a model of the job
// As dev_model_call.place, with struct nn_results for `ctx`.
enum base_status dev_nn_place(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                              struct base_error *error);
// What the engine or the store says of a model, as an exception.
_Noreturn void dev_nn_raise(struct base_str name, enum base_status status,
                            const struct base_error *error);
// Counts work of the engine's. Returns when `status` is OK and the run within its budget.
void dev_nn_charge(struct base_str name, uint64_t work, enum base_status status,
                   const struct base_error *error);
struct eng_run_options dev_nn_limits(struct dev_vm *vm); // what the run may still do
// Bytes that a model at work may take: what the run's trainers, but the one at `but`, and its
// sessions leave of the job's; at least 1.
size_t dev_nn_memory(const struct dev_vm *vm, uint32_t but);
#define DEV_NN_ALL UINT32_MAX // for `but`: no trainer is left out
// What a script names, a list or tuple; None: all outputs of the model. Raises.
void dev_nn_choose(const struct nn_model_object *model, mp_obj_t names, struct nn_wanted *out);
// Of a dict by name, and by place. Raise ValueError, TypeError for what is missing or not there.
void dev_nn_inputs_named(const struct nn_model_object *model, mp_obj_t given,
                         struct nn_inputs *out);
void dev_nn_inputs_placed(const struct nn_model_object *model, size_t count, size_t named,
                          const mp_obj_t *args, struct nn_inputs *out);
// The port of a name, or raises ValueError with a near one.
size_t dev_nn_port_find(const struct nn_model_object *model, bool is_input, mp_obj_t name);
const struct eng_port_info *dev_nn_port(const struct nn_model_object *model, bool is_input,
                                        size_t index);
size_t dev_nn_port_count(const struct nn_model_object *model, bool is_input);
struct dev_model *dev_nn_held(const struct nn_model_object *model);
// (name, dtype, shape); None where it is not said.
mp_obj_t dev_nn_port_object(mp_obj_t name, const struct eng_desc *desc, bool has_shape);
struct eng_array dev_nn_array(const struct dev_vm_tensor *tensor);
// What a script gave for an input. Raises as dev_vm_tensor_of.
const struct dev_vm_tensor *dev_nn_input(const struct eng_port_info *port, mp_obj_t value);

#endif
