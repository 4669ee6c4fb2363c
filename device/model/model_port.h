// How a script VM runs models: a table its host gives it. The one implementation is the store
// (model/model_store.h); a host that gives none does not link the tensor engine.
//
// A model is held from `get` to `unref`. Every function may be called from any thread.
#ifndef DEV_MODEL_PORT_H
#define DEV_MODEL_PORT_H

#include "base/error.h"
#include "engine/engine.h"
#include "wire/digest.h"

struct dev_model;

// Where the elements of the result at `index` are to be copied. Called while the model's session is
// held, so it returns and does not jump; what is not OK ends the call.
struct dev_model_place {
    enum base_status (*at)(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                           struct base_error *error);
    void *ctx;
};

// One run of a model.
struct dev_model_call {
    const struct eng_array *inputs; // of all the model's, in its order
    size_t input_count;
    const char *const *values; // names of tensors in the graph that are outputs of this call, too
    size_t value_count;
    const uint8_t *wanted; // numbers of the outputs asked for; behind the model's, `values`
    size_t wanted_count;
    size_t memory_bytes_max;       // as in struct eng_session_options
    struct eng_run_options limits; // when it ends
    struct dev_model_place place;  // of the results, by their places in `wanted`
    uint64_t work; // done, also by a call that failed; in units of eng_run_options.work_max
};

// The file of a model. Borrowed during the call that takes it.
struct dev_model_file {
    const struct wire_sha256 *digest; // of the bytes: nobody hashes them again
    const void *bytes;
    size_t size;
    const struct eng_run_options *limits; // when loading it ends; NULL: when it is done
};

struct dev_session_port; // model/session_port.h
struct dev_train_port;   // model/train_port.h

struct dev_model_port {
    void *ctx;
    const struct dev_train_port *train;      // how models are trained; NULL: they are not
    const struct dev_session_port *sessions; // plans for fixed shapes; NULL: there are none
    // The model of this file, loaded from its bytes unless the digest is known. The caller owns one
    // reference. INVALID, TRUNCATED, UNSUPPORTED: what the engine says of the file, with node and
    // operator; TOO_LARGE: more than the host keeps; LIMIT: models in use leave no room; TIMEOUT:
    // the limits ended it; NOMEM.
    enum base_status (*get)(void *ctx, const struct dev_model_file *file,
                            struct dev_model **out_model, struct base_error *error);
    void (*unref)(struct dev_model *model); // accepts NULL
    // Inputs, or outputs. Borrowed as long as the reference; NULL past the end.
    size_t (*port_count)(const struct dev_model *model, bool is_input);
    const struct eng_port_info *(*port)(const struct dev_model *model, bool is_input, size_t index);
    // The codes of eng_session_run, of eng_session_new (for `values`) and of `place`.
    enum base_status (*call)(struct dev_model *model, struct dev_model_call *call,
                             struct base_error *error);
};

#endif
