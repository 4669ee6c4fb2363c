// Running segments: what must hold for a plan to be used again, where its inputs lie, what it
// leaves behind.
//
// Called by session_go.c for each run; allocates nothing.
#include "session/segment.h"

#include "base/check.h"

#include <string.h>

// Whether an item may stand where `old` stood when the plan was made.
static bool item_fits(const struct eng_binding *binding, const struct eng_item *old,
                      const struct eng_item *now)
{
    if (!eng_desc_equal(&old->desc, &now->desc)) {
        return false;
    }
    if (!binding->is_known) {
        return true;
    }
    if (now->is_const && old->is_const && now->stamp == old->stamp &&
        (now->stamp != 0 || now->data == old->data)) {
        return true;
    }
    base_assert(old->data != NULL); // can_know saw it
    return binding->is_exact && now->data != NULL &&
           memcmp(old->data, now->data, eng_desc_bytes(&old->desc)) == 0;
}

bool eng_segment_fits(const struct eng_segment *segment, const struct eng_session *session)
{
    for (uint32_t i = 0; i < segment->binding_count; i++) {
        const struct eng_binding *binding = &segment->bindings[i];
        const struct eng_live *now = &session->live[binding->value];
        if (now->type != binding->live.type || now->count != binding->live.count ||
            now->dtype != binding->live.dtype) {
            return false;
        }
        for (uint32_t j = 0; j < now->count; j++) {
            if (!item_fits(binding, &binding->live.items[j], &now->items[j])) {
                return false;
            }
        }
    }
    return true;
}

enum base_status eng_segment_go(struct eng_segment *segment, struct eng_session *session,
                                struct base_error *error)
{
    void **data = segment->exec.data;
    for (uint32_t i = 0; i < segment->binding_count; i++) {
        const struct eng_binding *binding = &segment->bindings[i];
        base_assert(session->live[binding->value].count == binding->live.count);
        for (uint32_t j = 0; !binding->is_known && j < binding->live.count; j++) {
            data[binding->tensors[j]] = session->live[binding->value].items[j].data;
        }
    }
    BASE_TRY(eng_watch_spend(&session->watch, segment->plan_work, error));
    BASE_TRY(eng_exec_go(&segment->exec, &(struct eng_exec_run){.pool = session->pool,
                                                                .graph = session->model->graph,
                                                                .watch = &session->watch,
                                                                .events = segment->events,
                                                                .error = error}));
    for (uint32_t i = 0; i < segment->result_count; i++) {
        struct eng_result *result = &segment->results[i];
        for (uint32_t j = 0; j < result->live.count; j++) {
            base_assert(result->tensors[j] < segment->program.tensor_count);
            result->live.items[j].data = data[result->tensors[j]];
        }
        session->live[result->value] = result->live;
    }
    return BASE_OK;
}
