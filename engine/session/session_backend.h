// Which backend runs a graph: the one with the least total by the search's model, copies included.
#ifndef ENG_SESSION_SESSION_BACKEND_H
#define ENG_SESSION_SESSION_BACKEND_H

#include "session/session.h"

// Another backend than the best instruction set must take less than this part of its total: the
// model is no better than that, and choices should not change from day to day.
#define ENG_BACKEND_GAIN 0.9
// Graphs with fewer operations take the best instruction set without asking (nor calibrating).
#define ENG_BACKEND_FLOPS_MIN 2e7

// The kernels to plan `program` with; NULL: the reference backend alone. The session's own when its
// options name an instruction set, without a search, and for small graphs. Same program, options
// and rates: same choice. Told to the search's table for the first segment of a plan.
const struct eng_kernels *eng_session_backend(struct eng_session *session,
                                              const struct eng_program *program);

#endif
