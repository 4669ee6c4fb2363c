// Whether something long may go on: asked by who does it, between its steps. Who has a deadline, or
// a button to stop it, answers. A port: the core that asks reads no clock.
#ifndef ENG_MODEL_LOOK_H
#define ENG_MODEL_LOOK_H

#include "base/error.h"

#include <stddef.h>

struct eng_look {
    const void *ctx;
    // What is not OK ends it; `error` says why.
    enum base_status (*at)(const void *ctx, struct base_error *error);
};

// `look` NULL, or one without a function: nobody is asked.
BASE_NODISCARD static inline enum base_status eng_look(const struct eng_look *look,
                                                       struct base_error *error)
{
    return look == NULL || look->at == NULL ? BASE_OK : look->at(look->ctx, error);
}

#endif
