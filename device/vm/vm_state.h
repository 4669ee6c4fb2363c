// What the files of the script VM share: the struct behind the handle, and the thread's current
// run.
//
// Lifetimes: struct dev_vm lives from dev_vm_new to dev_vm_free. Everything under "run" is valid
// from the start of a dev_vm_run to the start of the next. MicroPython's own state is thread-local
// and means nothing between runs.
#ifndef DEV_VM_STATE_H
#define DEV_VM_STATE_H

#include "vm/vm.h"
#include "wire/store/store_image.h"

#include <stdatomic.h>

#define DEV_VM_HEAP_KIB_MIN    16
#define DEV_VM_UNITS_SLICE     1024 // budget units between two looks at the clock
#define DEV_VM_IMAGES_MAX      64
#define DEV_VM_IMAGES_ALL      (768 * 1024) // bytes of all of them
#define DEV_VM_IMAGE_BYTES     (256 * 1024) // of one: modules and configuration, and used heap, each
#define DEV_VM_IMAGE_CHECKS    32           // modules that are imported before an image is made
#define DEV_VM_STORE_VALUE_MAX (WIRE_STORE_QUOTA_KIB_MAX * 1024)
#define DEV_VM_IMAGE_UNITS     4096 // that one stands for: who works longer is as slow each time

struct dev_vm_image;
struct _mp_code_state_t;

struct dev_vm {
    uint8_t *heap;
    size_t heap_bytes;
    size_t heap_used; // bytes of the pool that the last run used: behind them the table is clear
    uint8_t *pool;    // in the heap, where scripts' objects are
    size_t pool_left; // bytes of it in which earlier runs may have left something
    bool pool_clears; // a script took memory that was not cleared, or wanted to: each run is wiped
    struct dev_vm_image *images[DEV_VM_IMAGES_MAX]; // of contents that were run; NULL: free
    uint32_t image_next;                            // that has to go for another
    atomic_bool interrupted;                        // the one field another thread may touch

    // Run.
    const struct dev_vm_job *job;
    struct dev_vm_result *out;
    void *abort_target;      // nlr_buf_t that a stopped run jumps to
    enum dev_vm_end stopped; // why it jumped: BUDGET or LOAD; FINISHED: it did not
    uint64_t started_us;
    uint64_t deadline_us;
    uint64_t units_used;
    uint32_t units_granted; // of the slice under way
    uint32_t position_tries;
    uint32_t gc_steps; // of the collector, in this run
    bool load_only;
    bool loading;     // the entry module is being loaded
    bool warm;        // the run began from `image`
    bool outside;     // dev_vm_outside was called
    bool restartable; // the entry module is being executed: it may begin anew
    bool again;       // it was left, to begin anew
    bool judged;      // its modules were judged, up to where it was left: nobody is asked once more
    bool away;        // in a function of the host, which a fault does not leave
    struct dev_vm_image *image;    // of the job's content; NULL: none yet
    struct _mp_code_state_t *main; // the entry module's frame; NULL: not begun
    const uint8_t *main_first;     // its first instruction
    uint32_t heap_peak_bytes;
    size_t output_size;
    size_t result_size;
    struct dev_model *models[DEV_VM_MODELS_MAX]; // of the job's models, those the script loaded
    struct eng_trainer *trainers[DEV_VM_TRAINERS_MAX]; // that the script made
    uint32_t trainer_count;
    struct dev_session *sessions[DEV_VM_SESSIONS_MAX]; // that the script has open; NULL: free
    enum wire_cloud_why cloud_why; // of the last walle.cloud.infer; WIRE_CLOUD_COUNT: none yet
    bool cloud_decided;            // walle.cloud.decide was asked, and no call followed it yet
    bool cloud_compared;           // of the last answer it was said whether it is the device's own
    uint32_t effect_count;
    size_t effect_size; // bytes used
    struct wire_store store;
    size_t store_quota; // bytes; 0: the run has not looked at its store
    bool store_changed;
    char output[DEV_VM_OUTPUT_MAX];
    char result[DEV_VM_RESULT_MAX];
    char scratch[DEV_VM_RESULT_MAX]; // a result while it is being written
    struct dev_vm_effect effects[DEV_VM_EFFECTS_ALL];
    uint8_t effect_bytes[DEV_VM_EFFECT_BYTES];
    uint8_t query_bytes[DEV_VM_QUERY_BYTES];     // rows of the query under way
    uint8_t store_bytes[WIRE_STORE_IMAGE_MAX];   // the image of `store`
    uint8_t store_value[DEV_VM_STORE_VALUE_MAX]; // that is about to be put
    uint64_t model_first_us; // when the first call of a model began; 0: none did
    uint64_t model_last_us;  // when the last one ended
};

// Loads the job's entry module as dev_vm_run does but does not execute it: what a build tool asks
// of its output, and what the loader is tested with. Same results.
BASE_NODISCARD enum base_status dev_vm_load(struct dev_vm *vm, const struct dev_vm_job *job,
                                            struct dev_vm_result *out_result);

// The VM whose run is under way on this thread; NULL: none.
extern _Thread_local struct dev_vm *dev_vm_current;
// How far down the C stack scripts went since vm_run.c cleared it.
extern _Thread_local uintptr_t dev_vm_stack_low;

// --- vm_budget.c
void dev_vm_budget_start(struct dev_vm *vm);
uint64_t dev_vm_budget_used(const struct dev_vm *vm);
// Counts units of work done in C. True: the run is over its budget. Whoever calls it must then
// leave what it does: the run is stopped at the script's next unit, in the frame
// the exception comes to, before any of the script's handlers sees it.
BASE_NODISCARD bool dev_vm_budget_charge(uint64_t units);
// Raises what ends the run so.
_Noreturn void dev_vm_over_budget(void);
// Units left until the limit; UINT64_MAX: there is none.
uint64_t dev_vm_budget_left(const struct dev_vm *vm);
// Of the heap of the run under way, up to the end of its last block. The collector's own count may
// be of the block behind the heap, where the last one grew in place.
// Did no run before this one leave anything in the heap? Asked for memory that is not to be
// cleared.
bool dev_vm_pool_is_clear(void);
size_t dev_vm_heap_bytes(void);
// Ends the run: jumps to vm->abort_target past every handler of the script.
_Noreturn void dev_vm_stop(struct dev_vm *vm, enum dev_vm_end end);

// The run begins anew: no units are used, and its time goes on.
void dev_vm_budget_again(struct dev_vm *vm);
// Starts with units that a run before has used.
void dev_vm_budget_resume(struct dev_vm *vm, uint64_t units);

// Nothing is counted in between, and nothing ends the run; what is suspended has to be continued.
BASE_NODISCARD uint32_t dev_vm_budget_suspend(struct dev_vm *vm);
void dev_vm_budget_continue(struct dev_vm *vm, uint32_t left);

// --- vm_run.c
// Around a call of a model, which may raise: dev_vm_model_ends counts where it is called.
void dev_vm_model_begins(struct dev_vm *vm);
void dev_vm_model_ends(struct dev_vm *vm);

// --- vm_module.c
// Makes what walle.config is, for the script that will ask for it.
void dev_vm_config_prepare(struct dev_vm *vm);

// --- vm_image.c
// What a run does until it first looks at something that is not of its content, or does something
// that is seen outside, is the same in each run of that content: it is kept as an image and copied.
// So that all runs are the same, the first one too begins from the image, once that is made.
//
// Called at both: from here on the run is its own. Jumps out of a run that is to begin anew.
void dev_vm_outside_first(struct dev_vm *vm);
static inline void dev_vm_outside(struct dev_vm *vm)
{
    if (!vm->outside) {
        dev_vm_outside_first(vm);
    }
}
// Finds the image of the job's content; sets vm->image and vm->warm.
void dev_vm_image_pick(struct dev_vm *vm);
// The run begins with an image of these very bytes (image_pick compares them), and the verifier
// passed them when it was taken: it would say the same again.
bool dev_vm_image_verified(const struct dev_vm *vm);
// Asks for the modules that the image's run imported, as it asked. On damage as
// dev_vm_module_check.
bool dev_vm_image_check(struct dev_vm *vm);
// Puts the interpreter and the heap where the image has them; the stack is the caller's to set.
void dev_vm_image_restore(struct dev_vm *vm);
// At the end of a run: keeps what the next one of this content needs to make an image.
void dev_vm_image_remember(struct dev_vm *vm);
// The bytes to load for one of the job's modules; valid as long as the VM's image.
const uint8_t *dev_vm_image_bytes(struct dev_vm *vm, const struct dev_vm_module *module);
void dev_vm_images_free(struct dev_vm *vm);

// --- vm_import.c
// The job's module of this name (without suffix); NULL: none.
const struct dev_vm_module *dev_vm_module_find(const struct dev_vm_job *job, struct base_str name);
// Checks the structure of a module's bytecode. On damage fills the result (LOAD) and returns false.
bool dev_vm_module_check(struct dev_vm *vm, const struct dev_vm_module *module);

// --- vm_outcome.c
// Fills the result from an uncaught exception (an mp_obj_t). Runs script code where the script
// defines how its exception is shown; that is within the budget.
void dev_vm_outcome_exception(struct dev_vm *vm, void *exception);

// --- vm_data.c
void dev_vm_effects_finish(struct dev_vm *vm);

// --- vm_store.c
// Notes the store as the last effect where the script changed it.
void dev_vm_store_finish(struct dev_vm *vm);

// --- vm_leaves.c
// Raise ValueError, and count, when the version does not let it leave.
void dev_vm_leaves_upload(struct dev_vm *vm, const struct dev_vm_effect *effect);
void dev_vm_leaves_result(struct dev_vm *vm, const char *text, size_t size);
// False, counted, and why in `out_why`: the version does not let this call leave.
bool dev_vm_leaves_call(struct dev_vm *vm, struct base_str model,
                        const struct wire_tensor_call *call, char out_why[DEV_VM_MESSAGE_MAX]);

// --- vm_nn.c
// Gives back the models the run loaded.
void dev_vm_models_finish(struct dev_vm *vm);

// --- vm_output.c
void dev_vm_output_add(struct dev_vm *vm, const char *text, size_t size);

#endif
