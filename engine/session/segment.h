// One piece of a graph, lowered for given shapes (and contents where it asked for them) and made
// ready to run. See session.h.
#ifndef ENG_SESSION_SEGMENT_H
#define ENG_SESSION_SEGMENT_H

#include "session/session.h"

// A value the segment was lowered for: what must hold for it to be run again.
struct eng_binding {
    uint32_t value;
    bool is_known;           // lowered with the contents
    struct eng_live live;    // copied descriptions; items' data: the contents when is_known
    bool is_exact;           // is_known, and items' data are copies to compare with
    const uint32_t *tensors; // by item
};

// A value the segment computes that somebody reads later.
struct eng_result {
    uint32_t value;
    struct eng_live live;
    const uint32_t *tensors; // by item
};

struct eng_segment {
    struct base_arena arena;
    struct eng_program program;
    struct eng_exec exec;
    uint32_t first, next; // nodes [first, next) of the graph
    uint64_t stamp;
    struct eng_binding *bindings;
    uint32_t binding_count;
    struct eng_result *results;
    uint32_t result_count;
    struct eng_event *events; // by step, when the session traces
    bool by_contents;         // lowered with contents that another run may bring otherwise
    uint64_t plan_work;       // folding that hung on contents of a run: counted in every run, also
                              // in those that find the plan made
};

// Lowers the graph from node `first` on with what is live now, as far as known contents carry, and
// plans it. Where lowering stops for contents, `session->wants_known` gains what the next segment
// must know. The codes of lowering and eng_exec_init; UNSUPPORTED: a node asks for contents that
// running cannot give.
BASE_NODISCARD enum base_status eng_segment_new(struct eng_session *session, uint32_t first,
                                                struct eng_segment **out_segment,
                                                struct base_error *error);
void eng_segment_free(struct eng_segment *segment); // accepts NULL
// Whether the segment may run on what is live now.
bool eng_segment_fits(const struct eng_segment *segment, const struct eng_session *session);
// Points inputs at what is live, runs, and makes the results live.
BASE_NODISCARD enum base_status
eng_segment_run(struct eng_segment *segment, struct eng_session *session, struct base_error *error);

#endif
