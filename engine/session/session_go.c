// The run of a session: segment after segment, planned again where shapes or contents changed.
//
// Called by the public functions in session.c on the session's thread.
#include "base/check.h"
#include "base/clock.h"
#include "session/segment.h"
#include "session/session_search.h"

#include <stdlib.h>
#include <string.h>

// Drops segment `index` and all after it, and what they made live.
static void drop_from(struct eng_session *session, uint32_t index)
{
    for (uint32_t i = index; i < session->segment_count; i++) {
        struct eng_segment *segment = session->segments[i];
        for (uint32_t j = 0; j < segment->result_count; j++) {
            session->live[segment->results[j].value] = (struct eng_live){0};
        }
        eng_segment_free(segment);
    }
    session->segment_count = index < session->segment_count ? index : session->segment_count;
}

void eng_session_drop_plan(struct eng_session *session)
{
    drop_from(session, 0);
    session->has_run = false;
}

// Segments keep their buffers until the run is over: together they are within the caller's limit.
static enum base_status check_memory(const struct eng_session *session,
                                     const struct eng_segment *added, struct base_error *error)
{
    const size_t limit = session->options.memory_bytes_max;
    size_t total = added->exec.buffer_bytes;
    base_assert(limit == 0 || total <= limit); // preparing it saw to that
    for (uint32_t i = 0; limit != 0 && i < session->segment_count; i++) {
        total += session->segments[i]->exec.buffer_bytes;
    }
    if (limit != 0 && total > limit) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "%u segments need more than %zu bytes of activations",
                              session->segment_count + 1, limit);
    }
    return BASE_OK;
}

static enum base_status append(struct eng_session *session, struct eng_segment *segment,
                               struct base_error *error)
{
    enum base_status status = check_memory(session, segment, error);
    if (status != BASE_OK) {
        eng_segment_free(segment);
        return status;
    }
    base_assert(session->segment_count <= session->segment_capacity);
    if (session->segment_count == session->segment_capacity) {
        uint32_t capacity = session->segment_capacity == 0 ? 4 : session->segment_capacity * 2;
        struct eng_segment **grown =
            session->segment_count >= ENG_SEGMENTS_MAX
                ? NULL
                : realloc(session->segments, capacity * sizeof(struct eng_segment *));
        if (grown == NULL) {
            eng_segment_free(segment);
            return session->segment_count >= ENG_SEGMENTS_MAX ? BASE_ERR_LIMIT : BASE_ERR_NOMEM;
        }
        session->segments = grown;
        session->segment_capacity = capacity;
    }
    session->segments[session->segment_count++] = segment;
    return BASE_OK;
}

// The segment to run at place `index` from node `first` on: the one there, or a new one.
static enum base_status segment_at(struct eng_session *session, uint32_t index, uint32_t first,
                                   struct eng_segment **out_segment, struct base_error *error)
{
    base_assert(index <= session->segment_count);
    if (index < session->segment_count) {
        struct eng_segment *segment = session->segments[index];
        if (segment->first == first && eng_segment_fits(segment, session)) {
            *out_segment = segment;
            return BASE_OK;
        }
        drop_from(session, index);
    }
    uint64_t begin_us = base_clock_mono_us();
    struct eng_segment *segment = NULL;
    if (index == 0) {
        eng_session_search_begin(session);
    }
    BASE_TRY(eng_segment_new(session, first, &segment, error));
    BASE_TRY(append(session, segment, error));
    BASE_TRY(eng_session_search_end(session, error));
    session->plan_us = (index == 0 ? 0 : session->plan_us) + (base_clock_mono_us() - begin_us);
    *out_segment = segment;
    return BASE_OK;
}

enum base_status eng_session_go(struct eng_session *session, bool is_run, struct base_error *error)
{
    uint32_t node_count = session->model->graph->node_count;
    uint32_t first = 0;
    uint32_t index = 0;
    do {
        struct eng_segment *segment = NULL;
        BASE_TRY(segment_at(session, index, first, &segment, error));
        if (!is_run) {
            return BASE_OK;
        }
        BASE_TRY(eng_segment_go(segment, session, error));
        base_assert(segment->first == first && segment->next >= first);
        first = segment->next;
        index++;
    } while (first < node_count);
    drop_from(session, index);
    return BASE_OK;
}
