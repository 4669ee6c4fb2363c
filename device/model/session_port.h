// How a script VM keeps a model's session for fixed shapes: a table beside dev_model_port, so that
// a host that gives none does not link the tensor engine.
//
// A session is the caller's from `open` to `close`, on one thread at a time; its model is held at
// least as long. It was planned when it was opened: no call of it plans, or takes memory.
#ifndef DEV_SESSION_PORT_H
#define DEV_SESSION_PORT_H

#include "model/model_port.h"

struct dev_session;

struct dev_session_shapes {
    const struct eng_desc *inputs; // of all the model's, in its order; every size is known
    size_t input_count;
    const char *const *values; // names of tensors in the graph that are outputs, behind the model's
    size_t value_count;
    size_t memory_bytes_max; // of what it holds; TOO_LARGE beyond
    struct eng_run_options limits;
};

struct dev_session_port {
    // UNSUPPORTED: contents or control flow decide what the model does, with the node. The codes of
    // eng_session_new, eng_session_resize and eng_session_prepare_within.
    enum base_status (*open)(struct dev_model *model, const struct dev_session_shapes *shapes,
                             struct dev_session **out_session, struct base_error *error);
    // Gives the plan back to the host, for the next that opens the same. Accepts NULL.
    void (*close)(struct dev_session *session);
    // As dev_model_port.call, on inputs of these shapes (INVALID: others); `values` and
    // `memory_bytes_max` of the call are not looked at.
    enum base_status (*call)(struct dev_session *session, struct dev_model_call *call,
                             struct base_error *error);
    const struct eng_desc *(*input)(const struct dev_session *session, size_t index);
    // UNSUPPORTED: no tensor.
    enum base_status (*output)(const struct dev_session *session, size_t index,
                               struct eng_desc *out_desc, struct base_error *error);
    size_t (*bytes)(const struct dev_session *session); // that it holds
};

extern const struct dev_session_port dev_model_session_port; // of the store's models

#endif
