// The script VM: MicroPython with all its state in one structure, one interpreter per thread, no
// lock between them.
//
// A struct dev_vm owns one heap and belongs to one thread at a time; keep one a thread and use it
// again, a run costs microseconds and a heap does not. Each run starts from an empty interpreter
// and leaves nothing behind: tasks cannot see each other. Only .mpy bytecode is loaded (there is no
// compiler on a device). There is no file or network access. A run always ends: by itself, by its
// budgets, or by an uncaught exception, which comes back as a value and is never printed.
#ifndef DEV_VM_H
#define DEV_VM_H

#include "base/status.h"
#include "base/str.h"
#include "pipeline/record/event.h"
#include "wire/attrs.h"
#include "wire/batch.h"
#include "wire/digest.h"
#include "wire/report.h"
#include "wire/cloud/cloud_counts.h"
#include "wire/cloud/tensor_call.h"

#include <stddef.h>
#include <stdint.h>

#define DEV_VM_HEAP_KIB_DEFAULT  256
#define DEV_VM_HEAP_KIB_MAX      (64 * 1024)
#define DEV_VM_TIME_MS_DEFAULT   1000
#define DEV_VM_STACK_KIB         64  // C stack a script may use
#define DEV_VM_MODEL_STACK_KIB   128 // more, where models are run
#define DEV_VM_OUTPUT_MAX        (16 * 1024)
#define DEV_VM_RESULT_MAX        (16 * 1024)
#define DEV_VM_TYPE_MAX          48
#define DEV_VM_MESSAGE_MAX       160
#define DEV_VM_FILE_MAX          64
#define DEV_VM_STACK_MAX         1024  // text of the calls that led to an exception
#define DEV_VM_NAME_MAX          255   // bytes of a name in a source
#define DEV_VM_NAMES_MAX         32768 // in a source, with its short texts; each counts once
#define DEV_VM_ARGUMENTS_MAX     255   // of a call by place, and as many by name
#define DEV_VM_TARGETS_MAX       255   // names before a starred one that is assigned to, and behind
#define DEV_VM_DOTTED_MAX        4096  // names "a.b" in the imports of a source
#define DEV_VM_BRACKETS_MAX      1000  // of a source in one another
#define DEV_VM_DIGITS_MAX        4096  // of a whole number in a source, with its prefix
#define DEV_VM_IMPORTS_MAX       128   // names that the compiler tells of one file
#define DEV_VM_ITEM_MAX          32    // of a name behind "import" that it tells
#define DEV_VM_MEMBERS_MAX       128   // names behind modules that it tells of one file
#define DEV_VM_UPLOADS_MAX       128   // calls of walle.data.upload that it tells of one file
#define DEV_VM_UPLOAD_MAX        64    // of a name that is uploaded to
#define DEV_VM_MODULES_MAX       272
#define DEV_VM_EVENTS_MAX        4096                     // given to a run
#define DEV_VM_EFFECTS_MAX       64                       // walle.data.store and .upload of a run
#define DEV_VM_EFFECTS_ALL       (DEV_VM_EFFECTS_MAX + 1) // with that of walle.store
#define DEV_VM_EFFECT_BYTES      (64 * 1024)              // of all of them
#define DEV_VM_STORE_MAX         (16 * 1024)              // of one stored value, as JSON
#define DEV_VM_QUERY_ROWS_MAX    1024                     // answered by one query
#define DEV_VM_QUERY_BYTES       (64 * 1024)              // "
#define DEV_VM_FEATURE_NAME_MAX  32 // [a-z][a-z0-9_.]*; an upload: [a-z][a-z0-9_-]*
#define DEV_VM_FEATURE_KEY_MAX   64
#define DEV_VM_MODELS_MAX        272 // of a version, with exclusive ones
#define DEV_VM_MODEL_NAME_MAX    96
#define DEV_VM_FILES_MAX         272  // data files of a version, with exclusive ones
#define DEV_VM_CLOUD_DEADLINE_MS 1000 // of walle.cloud.infer that names none
#define DEV_VM_MODEL_PORTS_MAX   64   // inputs, and outputs, of a model a script runs
#define DEV_VM_TRAINERS_MAX      4    // that a run makes
#define DEV_VM_SESSIONS_MAX      8    // that a run has open
#define DEV_VM_TRAIN_NAMES_MAX   64   // names or beginnings of names in `freeze`, and in `train`
#define DEV_VM_WORK_PER_UNIT     1024 // multiplications or elements of a model for one budget unit
#define DEV_VM_LOAD_PER_UNIT     1024 // bytes of a model file for one budget unit
// Default of dev_vm_job.model_memory_max.
#define DEV_VM_MODEL_MEMORY ((size_t)128 << 20)

struct dev_vm_module {
    struct base_str name; // "features" or "pkg/features", without suffix
    const uint8_t *mpy;   // immutable, may be shared by any number of VMs
    size_t size;
};

// A model of the version, for walle.nn.
struct dev_vm_model {
    struct base_str name; // as in the manifest: "encoder.onnx"
    const uint8_t *bytes; // the file; immutable, needed until the run is over
    size_t size;
    struct wire_sha256 digest; // verified: models are told apart by it
};

// Bytes that a script asks for by name: a data file of the version (walle.file), or what the host
// hands to the run (walle.blob). A script gets a copy, in its own heap.
struct dev_vm_bytes {
    struct base_str name; // "labels.txt"; "camera"
    const uint8_t *bytes; // immutable, needed until the run is over; NULL: more than the heap holds
    size_t size;
};

// Stored features, for walle.data.query. The port is called on the VM's thread, inside the run.
struct dev_vm_query {
    struct base_str feature; // empty: the run's own store, one row whose value is its image
    struct base_str key;     // (wire/store/store_image.h); then nothing else is looked at
    bool every_key;          // then `key` is not looked at
    uint64_t from_ms;        // from <= time < to
    uint64_t to_ms;          // UINT64_MAX: no end
    uint32_t newest;         // of each key at most so many; 0: all
};
// A row; false ends the query. Does not jump and does not call the port.
typedef bool (*dev_vm_row_fn)(void *ctx, struct base_str key, uint64_t time_ms,
                              const uint8_t *value, size_t value_size);
struct dev_vm_data_port {
    void *ctx;
    // Newest first within a key. NOT_FOUND or no rows: there are none; other errors reach the
    // script as OSError.
    enum base_status (*query)(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                              void *visit_ctx);
};

// What a script wants done; the runtime does it when the run ended well.
// SAVE is the last, and stands there when the script changed its store (walle.store).
enum dev_vm_effect_kind { DEV_VM_EFFECT_STORE, DEV_VM_EFFECT_UPLOAD, DEV_VM_EFFECT_SAVE };
struct dev_vm_effect {
    enum dev_vm_effect_kind kind;
    struct base_str name;           // feature or upload
    struct base_str key;            // STORE; may be empty
    uint64_t time_ms;               // STORE; 0: now
    enum wire_record_format format; // JSON or BYTES; STORE: JSON
    const uint8_t *bytes;           // SAVE: the image, and nothing of the above
    uint32_t size;
};

// What joins and windows of a run could not take in (walle.data); what they gave then may lack
// pairs.
struct dev_vm_left_out {
    uint64_t late;    // events that came after their window, or after partners had gone
    uint64_t evicted; // keys that had to go for others
    uint64_t dropped; // events that had to go before their time
};

static inline uint64_t dev_vm_left_out_sum(const struct dev_vm_left_out *left_out)
{
    return left_out->late + left_out->evicted + left_out->dropped;
}

struct dev_model_port; // model/model_port.h
struct dev_mpy_fault;  // vm/mpy/mpy_check.h

// Judges a module's bytecode in place of dev_mpy_check and with its results: for who may know that
// these very bytes have passed it. Called on the VM's thread, inside the run.
struct dev_vm_check_port {
    void *ctx;
    enum base_status (*check)(void *ctx, const struct dev_vm_module *module,
                              struct dev_mpy_fault *out_fault);
};

// Calls of models in the cloud, for walle.cloud. The port is called on the VM's thread, inside the
// run, and returns when the call is over.
struct dev_vm_cloud_call {
    struct base_str model;
    const uint8_t *bytes; // wire/cloud/tensor_call.h, as in the wire
    size_t size;
    uint32_t priority;    // as the bytes say
    uint32_t deadline_ms; // likewise; the run has so much time left
};
struct dev_vm_cloud_end {
    const uint8_t *answer; // ANSWERED: well formed; the port's, until its next call
    size_t size;
    char detail[DEV_VM_MESSAGE_MAX]; // what the gateway says of a refusal; may be empty
    uint64_t virtual_us; // that it took where time is virtual; 0: as long as the VM waited
};
struct dev_vm_cloud_state {
    enum wire_cloud_why why; // ANSWERED: a call would be sent
    uint32_t expected_us;    // how long calls of the model took of late; 0: not known
};
struct dev_vm_cloud_port {
    void *ctx;
    enum wire_cloud_why (*infer)(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end);
    struct dev_vm_cloud_state (*look)(void *ctx, struct base_str model);
};

struct dev_vm_job {
    const struct dev_vm_module *modules;
    uint32_t module_count;
    const struct dev_vm_check_port *checks; // NULL: dev_mpy_check
    struct base_str entry;                  // module run as __main__
    struct base_str config;      // JSON object: walle.config; empty: {}. Parsed when the script
    struct base_str declaration; // of the version (wire/declaration.h): what may leave is asked of
                                 // it (wire/leaves/leaves_check.h); empty: it has none
    struct base_str input;       // JSON: walle.input; empty: None.   asks; bad JSON: ValueError
    const struct dev_event *events; // walle.data.events(), by seq, beside `input`; borrowed until
    uint32_t event_count;           // the run is over
    uint32_t events_missing;        // older ones there was no room for: no row is complete
    bool events_timed_out;          // they are of a start that no match followed in time
    const struct dev_vm_data_port *data;   // walle.data.query and walle.store; NULL: no rows
    const struct dev_vm_cloud_port *cloud; // walle.cloud; NULL: no call is allowed here
    const struct dev_vm_model *models;     // walle.nn.load
    uint32_t model_count;
    const struct dev_model_port *model_port; // NULL: walle.nn.load raises OSError
    const struct dev_vm_bytes *files;        // walle.file
    uint32_t file_count;
    const struct dev_vm_bytes *blobs; // walle.blob
    uint32_t blob_count;
    size_t model_memory_max; // activations of a model at work, and its plan, each; 0: default
    uint64_t device_id;      // walle.device["id"], 16 hex digits
    const struct wire_attrs *attrs; // walle.device[...]; NULL: none
    uint64_t instruction_max; // budget units until the run is stopped (and up to 64 more, to know
                              // its line): jumps, calls, work of models; 0: no limit
    uint32_t time_ms;         // wall time before the run is stopped; 0: default
    bool once; // the VM has no other run of this content: nothing is kept for one (vm_image.c)
};

enum dev_vm_end {
    DEV_VM_FINISHED,  // the script ran to its end
    DEV_VM_LOAD,      // bytecode damaged, of another version, or entry missing
    DEV_VM_EXCEPTION, // uncaught exception
    DEV_VM_BUDGET,    // instruction or time budget used up
    DEV_VM_MEMORY,    // heap limit
    DEV_VM_STACK,     // recursion beyond the C stack limit
    DEV_VM_FAULT,     // the VM itself went past its heap: dev_vm_fault
    DEV_VM_END_COUNT
};

struct dev_vm_result {
    enum dev_vm_end end;
    char type[DEV_VM_TYPE_MAX];       // "ValueError"; empty when finished
    char message[DEV_VM_MESSAGE_MAX]; // text of the exception; all text here is UTF-8
    char file[DEV_VM_FILE_MAX];       // innermost script frame; LOAD: the module
    uint32_t line;                    // 0: not known
    // The calls that led there, innermost first: "file.py:3 in name\n" each; those that do not fit
    // are left out. Empty: not known.
    char stack[DEV_VM_STACK_MAX];
    uint64_t instructions; // budget units used
    uint64_t duration_us;
    uint32_t heap_peak_bytes;
    uint32_t stack_peak_bytes; // of the C stack, as deep as the script's calls went
    // The script looked at walle.device, walle.input, walle.blob or stored features. Otherwise all
    // it did follows from the modules, models, data files, config, events and limits. Not told of a
    // run in another process.
    bool looked;
    struct dev_vm_left_out left_out; // of all aggregate calls
    uint32_t refused; // times it tried to let go what the declaration does not let leave
    struct wire_cloud_counts cloud; // what walle.cloud decided, and what came of it
    uint64_t output_cut;    // bytes that were printed and are not in `output`, which was full
    struct base_str output; // print() and walle.log(); valid until the VM's next run or free
    struct base_str result; // JSON of walle.result(...); empty: none given; valid as output
    const struct dev_vm_effect *effects; // in order; none unless FINISHED; valid as output
    uint32_t effect_count;
    // Of duration_us, until the script first called a model, on the device or in the cloud; and
    // from there to the end of its last such call. Without a call all of it is prepare_us.
    uint64_t prepare_us;
    uint64_t model_us;
};

struct dev_vm;

// Heap of `heap_kib` (0: default). NOMEM, TOO_LARGE.
BASE_NODISCARD enum base_status dev_vm_new(uint32_t heap_kib, struct dev_vm **out_vm);
void dev_vm_free(struct dev_vm *vm);
// Runs a job to its end on the calling thread, which must have DEV_VM_STACK_KIB + 64 KiB of stack
// left, and DEV_VM_MODEL_STACK_KIB more for a job with a model port. INVALID for a job that is
// malformed, CONFLICT when called from inside a run; anything the script does is a result, not an
// error.
BASE_NODISCARD enum base_status dev_vm_run(struct dev_vm *vm, const struct dev_vm_job *job,
                                           struct dev_vm_result *out_result);
// Stops the run under way on another thread as if its budget were used up. The one call allowed
// from outside the owning thread.
void dev_vm_interrupt(struct dev_vm *vm);
// For a handler of SIGSEGV and SIGBUS, with the address of the fault. Where the run under way on
// this thread went into a guard of its heap (base/os/guarded_memory.h), that run ends as FAULT and
// the call does not return: it jumps out of the handler, which therefore blocks no signals
// (SA_NODEFER). Otherwise it returns, and the fault is somebody else's. Nothing is done while the
// run is in a function of the host (data, cloud, models), which may hold locks. What libraries of
// the VM allocated meanwhile stays allocated.
void dev_vm_fault(const void *address);
const char *dev_vm_end_name(enum dev_vm_end end);
// The outcome a device reports for a run that ended so: RAN, or one of FAIL_*.
enum wire_outcome_kind dev_vm_end_outcome(enum dev_vm_end end);

// Modules that every script may import, whatever its version holds: the name at `index`, borrowed
// for good; NULL past the last.
const char *dev_vm_offered(uint32_t index);
// The same of what is in one of them: "log" of "walle", "sum" of "walle.np". NULL too where there
// is no such module.
const char *dev_vm_offered_in(struct base_str module, uint32_t index);

// Build tool only (walle-device-vm-compiler library, never linked into a device): compiles source
// to .mpy bytes, which the caller frees. What compiles also loads: the output has passed the
// device's check. INVALID (with line and text in `error`), TOO_LARGE, NOMEM. Any thread, but not
// inside a run.
struct base_error;
BASE_NODISCARD enum base_status dev_vm_compile(struct base_str source, struct base_str file_name,
                                               uint8_t **out_mpy, size_t *out_size,
                                               struct base_error *error);

// The same, and what the source imports and uploads to. Imports within the body of a try statement
// that catches an ImportError are not told: the script is ready not to find them. Nor are relative
// ones.
struct dev_vm_import {
    char name[DEV_VM_FILE_MAX]; // "walle", "pkg.mod"; longer ones are not told
    char item[DEV_VM_ITEM_MAX]; // "data" of "from walle import data"; empty: none, all, or longer
    uint32_t line;
};
// A call of walle.data.upload whose first argument is a literal.
struct dev_vm_upload {
    char name[DEV_VM_UPLOAD_MAX]; // cut
    uint32_t line;
};
// A name behind that of an imported module, each once: "walle.np.sum". What is told and what not is
// in vm/compiler/vm_members.h.
struct dev_vm_member {
    char path[DEV_VM_FILE_MAX];
    uint32_t line; // of the first place
};
struct dev_vm_compiled {
    uint8_t *mpy; // the caller frees it
    size_t size;
    struct dev_vm_import imports[DEV_VM_IMPORTS_MAX];
    uint32_t import_count;
    struct dev_vm_upload uploads[DEV_VM_UPLOADS_MAX]; // the first of them
    uint32_t upload_count;
    struct dev_vm_member members[DEV_VM_MEMBERS_MAX]; // likewise
    uint32_t member_count;
};
BASE_NODISCARD enum base_status dev_vm_compile_told(struct base_str source,
                                                    struct base_str file_name,
                                                    struct dev_vm_compiled *out,
                                                    struct base_error *error);

#endif
