// The inside of a session, shared by the files of this folder and the command-line program.
//
// A session runs its graph as a list of segments. A static model is one segment: planned once, run
// many times. Where lowering needs contents nobody knows before running (a shape made by the data,
// a loop), the segment ends, is run, and the next one is lowered with those contents known. Values
// live from segment to segment in the buffers of the segment that made them; the table `live` says
// where.
#ifndef ENG_SESSION_SESSION_H
#define ENG_SESSION_SESSION_H

#include "backend/backend.h"
#include "base/arena.h"
#include "model/graph.h"
#include "session/exec.h"
#include "session/fold.h"

#define ENG_SEGMENTS_MAX    65536u
#define ENG_ITEMS_MAX       1000000u           // tensors in one sequence a caller passes in
#define ENG_KNOWN_BYTES_MAX ((size_t)1 << 20)  // contents compared to reuse a plan
#define ENG_PLAN_BYTES_MAX  ((size_t)16 << 30) // one segment's program, constants and steps
#define ENG_LAST_USE_OUTPUT UINT32_MAX         // read after the last node

struct eng_segment;

// One tensor as it lies in memory now, dense and PLAIN.
struct eng_item {
    struct eng_desc desc;
    bool is_const;  // the same bytes at the same place as long as `stamp` is alive
    uint64_t stamp; // of the segment that owns a constant; 0: the model's or caller's
    void *data;
};

// A graph value as it stands in the current run.
struct eng_live {
    enum eng_value_type type; // UNKNOWN: not computed (yet); OPTIONAL: an empty one
    enum eng_dtype dtype;     // of a sequence's items
    uint32_t count;           // TENSOR 1, SEQUENCE its items, OPTIONAL 0
    struct eng_item *items;
};

// A graph input: what the caller set.
struct eng_input {
    struct eng_live live;
    bool has_data;         // contents were given, not only a shape
    struct eng_item one;   // live.items of a tensor
    size_t capacity_bytes; // of one.data
    char *text;            // bytes of string elements
    void *sequence;        // one block with items, data and text of a sequence
};

struct eng_session {
    struct eng_model *model;
    struct eng_session_options options;
    struct base_arena arena; // the session's lifetime
    const struct eng_kernels *kernels;
    const char *isa; // what runs, for the statistics
    bool is_open;    // nobody named an instruction set: the search may choose one for each graph
    struct eng_pool *pool;
    struct eng_device *device; // NULL: the host's memory alone
    struct eng_search *search; // NULL: fixed choices
    struct eng_fold fold;
    uint32_t *asked; // values that options.values names
    uint32_t asked_count;
    struct eng_input *inputs; // by place among the graph's inputs
    struct eng_live *live;    // by value
    uint32_t *last_use; // by value: 1 + the last node that reads it, ENG_LAST_USE_OUTPUT, 0: none
    bool *wants_known;  // by value: some node needs its contents for lowering
    struct eng_segment **segments;
    uint32_t segment_count, segment_capacity;
    uint64_t next_stamp;
    uint64_t plan_us, search_us;
    struct eng_watch watch; // of the run under way, and what the last one did
    bool has_run;           // outputs can be read
};

// Lowers and plans the first segment.
BASE_NODISCARD enum base_status eng_session_plan_first(struct eng_session *session,
                                                       struct base_error *error);
// Lowers, plans and executes segments until the graph is done. `session->watch` holds what the run
// may do.
BASE_NODISCARD enum base_status eng_session_run_segments(struct eng_session *session,
                                                         struct base_error *error);
void eng_session_drop_plan(struct eng_session *session);
// --- session_asked.c
// Fills `asked`. The codes of eng_session_new.
BASE_NODISCARD enum base_status eng_session_ask(struct eng_session *session,
                                                const struct eng_session_options *options,
                                                struct base_error *error);
// The value that an output is, those of the model first; ENG_NONE past the end.
uint32_t eng_session_output_value(const struct eng_session *session, size_t index);
// Every input has a shape (those the model fixes need none set) and, when `is_run`, contents.
// INVALID names the first that lacks them.
BASE_NODISCARD enum base_status eng_session_check_inputs(struct eng_session *session, bool is_run,
                                                         struct base_error *error);

// Events of the last run of a session that traces, in order.
struct eng_session_event {
    const struct eng_node *node; // NULL: none known
    const struct eng_step *step;
    struct eng_event time;
};
bool eng_session_event_at(const struct eng_session *session, size_t index,
                          struct eng_session_event *out_event);
size_t eng_session_event_count(const struct eng_session *session);

#endif
