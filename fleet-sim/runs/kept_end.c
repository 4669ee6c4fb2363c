// Copies of ends. Called by device_runs.c for runs whose end is told later, on the shard's thread.
// All that an end points to is behind it: the effects, then the bytes of names, keys and values and
// of the result.
#include "runs/kept_end.h"

#include "base/check.h"
#include "pipeline/pipeline.h"

#include <string.h>

static size_t effect_bytes(const struct dev_effect *effect)
{
    return effect->name.size + effect->key.size + effect->size;
}

static size_t kept_bytes(const struct dev_task_end *end)
{
    size_t bytes = sizeof(struct sim_task_end) + end->effect_count * sizeof(struct dev_effect);
    for (uint32_t i = 0; i < end->effect_count; i++) {
        bytes += effect_bytes(&end->effects[i]);
    }
    return bytes + end->result.size;
}

static const char *put(char **at, const void *bytes, size_t size)
{
    char *copy = *at;
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    *at += size;
    return copy;
}

struct sim_task_end *sim_end_keep(const struct base_alloc_port *alloc,
                                  const struct sim_task_end *end)
{
    size_t bytes = kept_bytes(&end->end);
    struct sim_task_end *kept = alloc->alloc(alloc->ctx, bytes);
    if (kept == NULL) {
        return NULL;
    }
    struct dev_effect *effects = (struct dev_effect *)(void *)(kept + 1);
    char *at = (char *)(effects + end->end.effect_count);
    *kept = *end;
    if (end->end.detail.data == end->detail) { // others are constants
        kept->end.detail.data = kept->detail;
    }
    for (uint32_t i = 0; i < end->end.effect_count; i++) {
        const struct dev_effect *from = &end->end.effects[i];
        effects[i] = *from;
        effects[i].name.data = put(&at, from->name.data, from->name.size);
        effects[i].key.data = put(&at, from->key.data, from->key.size);
        effects[i].bytes = (const uint8_t *)put(&at, from->bytes, from->size);
    }
    kept->end.effects = effects;
    kept->end.result.data = put(&at, end->end.result.data, end->end.result.size);
    base_check(at == (char *)kept + bytes);
    return kept;
}
