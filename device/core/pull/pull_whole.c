// All of a small version in one answer: its manifest and behind it its files, in the manifest's
// order, as many as the gateway puts there. Nothing else changes: every blob is picked, stored,
// hashed and sealed by itself, by the steps of device_pull.c, and where the answer does not bring
// what would be asked for next it is left, and the rest is asked for one by one.
//
// A device asks so when it has no other version of the task, whose files it could keep. Called by
// pull_answer.c, for what the transport brings, and by the step that asks.
#include "core/pull/pull_parts.h"

#include "base/check.h"

bool dev_whole_asks(const struct dev_runtime *runtime)
{
    const struct dev_pull *pull = runtime->pull;
    base_check(pull->task < runtime->task_count);
    const struct dev_task *task = &runtime->tasks[pull->task];
    return !pull->single && !dev_pull_repairing(runtime) && pull->kind == DEV_PULL_SHARED &&
           pull->have == 0 && wire_sha256_equal(&pull->blob, &task->offer.accepted) &&
           wire_sha256_is_zero(&task->slots.active.manifest) &&
           wire_sha256_is_zero(&task->slots.kept.manifest);
}

void dev_whole_head(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    struct dev_pull *pull = runtime->pull;
    base_assert(pull->whole);
    pull->refused = head->status != 200 || head->encoding != DEV_ENCODING_IDENTITY ||
                    head->content_bytes < pull->expected; // not even the manifest
}

// Is what would be asked for next what the answer brings next?
static bool comes_next(const struct dev_pull *pull)
{
    return pull->phase == DEV_PULL_ASK && pull->kind == DEV_PULL_SHARED && pull->have == 0 &&
           pull->file == pull->next && !dev_delta_in_use(pull);
}

// The blob is complete, and more comes: the next one that is missing is picked. False: the answer
// does not bring it.
static bool go_on(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    uint32_t exchange = pull->exchange;
    dev_pull_sealed(runtime);
    while (pull->exchange == exchange && !runtime->dirty) {
        if (pull->phase == DEV_PULL_PICK) {
            dev_pull_pick(runtime);
        } else if (pull->phase == DEV_PULL_REHASH && pull->have == 0) {
            dev_pull_rehash(runtime);
        } else if (comes_next(pull) && pull->expected == 0) {
            pull->next++; // an empty one
            dev_pull_sealed(runtime);
        } else {
            return comes_next(pull);
        }
    }
    return false;
}

void dev_whole_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_pull *pull = runtime->pull;
    base_assert(pull->whole && pull->exchange != 0);
    while (size > 0) {
        if (pull->have == pull->expected) {
            if (!go_on(runtime)) {
                dev_pull_cancel(runtime);
                return;
            }
            pull->phase = DEV_PULL_BODY;
            pull->next++;
        }
        uint64_t missing = pull->expected - pull->have;
        size_t part = size < missing ? size : (size_t)missing;
        if (!dev_pull_add(runtime, bytes, part)) {
            return;
        }
        bytes += part;
        size -= part;
    }
}

bool dev_whole_end(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    bool unknown = pull->status == 400 || pull->status == 404 || pull->status == 405;
    if (!pull->refused || !unknown) {
        return false;
    }
    pull->single = true;
    pull->phase = DEV_PULL_PICK;
    return true;
}
