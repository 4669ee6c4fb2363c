// What a pipeline holds many of: starts, tasks, the sources of patterns and their engines. Shared
// by the files of the glue (pipeline_private.h); nobody else includes it.
#ifndef DEV_PIPELINE_PARTS_H
#define DEV_PIPELINE_PARTS_H

#include "pipeline/pipeline.h"

#define PIPELINE_BLOCK_EVENTS 32
#define PIPELINE_TRIGGERS_MAX (DEV_PIPELINE_TASKS_MAX * WIRE_DECLARATION_TRIGGERS_MAX)
#define PIPELINE_SOURCES_MAX  (2 * PIPELINE_TRIGGERS_MAX) // each may have an opening (timeouts.h)

enum pipeline_start_state {
    START_NEW, // not in the store yet
    START_WAITING,
    START_RUNNING,
    START_ENDED, // to be forgotten in the store
};

// One start that waits or runs. The events of a match are named when it fires, since later the trie
// that found them may be gone.
struct pipeline_start {
    enum pipeline_start_state state;
    uint64_t token;
    uint64_t task_id;
    uint64_t seq; // of the event that completed the match, or of the newest at a time-out
    uint64_t wall_ms;
    uint32_t visit;
    bool timed_out;
    uint32_t seq_count;
    uint64_t seqs[DEV_PATTERN_STEPS_MAX]; // of the match; timed out: of its start
};

struct pipeline_task {
    uint64_t id;
    uint32_t declaration_at; // in `declarations`
    uint32_t declaration_bytes;
    uint64_t dropped; // starts, not told yet
    uint8_t name_size;
    char name[WIRE_TASK_NAME_MAX];
};

struct pipeline_source {
    uint64_t task_id;
    uint64_t key;
    uint32_t trigger; // of the task
    // Of an opening: the time-out it asks for, and whether a match ends starts of its item alone.
    uint32_t within_ms : 31; // 0: the source is a trigger
    uint32_t by_item : 1;
};
_Static_assert(sizeof(struct pipeline_source) <= DEV_PIPELINE_SOURCE_BYTES, "as is published");

// A compiled set with its engine; two places, so that a new one is made aside.
struct pipeline_engine {
    void *memory; // of the memory port; NULL: none
    const struct dev_trigger_set *set;
    struct dev_trigger_engine *engine; // NULL: no patterns
    size_t bytes;
    uint32_t source_count;
    struct pipeline_source *sources; // by source, in the same memory
};

#endif
