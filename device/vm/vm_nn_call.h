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
size_t dev_nn_memory(const struct dev_vm *vm);           // bytes that a model at work may take
struct eng_array dev_nn_array(const struct dev_vm_tensor *tensor);
// What a script gave for an input. Raises as dev_vm_tensor_of.
const struct dev_vm_tensor *dev_nn_input(const struct eng_port_info *port, mp_obj_t value);

#endif
