// Fills the table of rollouts that a run saw from the gateway's pages. Called by gateway_watch.c on
// the coordinator's thread with every answer, read by fleet_outcome.c when the run is over. The
// pages come from outside: texts are cut to their places, an item without an id is passed over.
#include "model/rollouts_seen.h"

#include "base/str.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool sim_rollout_back(const char *state)
{
    return strcmp(state, "rolled_back") == 0 || strcmp(state, "rolling_back") == 0;
}

bool sim_rollout_over(const char *state)
{
    return strcmp(state, "rolled_back") == 0 || strcmp(state, "completed") == 0 ||
           strcmp(state, "guarding") == 0;
}

static void copy_text(const json_t *object, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));
    (void)snprintf(out, capacity, "%s", text != NULL ? text : "");
}

static uint64_t count_of(const json_t *counts, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(counts, key));
    return value > 0 ? (uint64_t)value : 0;
}

static void counts_read(const json_t *counts, struct sim_gateway_counts *out)
{
    *out = (struct sim_gateway_counts){
        .offered = count_of(counts, "offered"),
        .succeeded = count_of(counts, "succeeded"),
        .failed = count_of(counts, "failed") + count_of(counts, "timed_out"),
        .under_way = count_of(counts, "under_way") + count_of(counts, "silent"),
        .rolled_back = count_of(counts, "rolled_back"),
        .on_version = count_of(counts, "on_version"),
        .unproven = count_of(counts, "unproven"),
    };
}

// "simulate: at most 1 % may fail, of 100 or more; gray-1 1 %: ..."; what has no room is left out
// as a whole stage.
static void stages_read(const json_t *stages, char out[SIM_ROLLOUT_STAGES_MAX])
{
    size_t used = 0, index;
    const json_t *stage;
    out[0] = '\0';
    json_array_foreach(stages, index, stage)
    {
        char name[SIM_ROLLOUT_STAGE_MAX];
        char kind[SIM_ROLLOUT_STATE_MAX];
        char rule[SIM_ROLLOUT_STATE_MAX];
        char reach[32] = "";
        char text[3 * SIM_ROLLOUT_STAGE_MAX + 128];
        copy_text(stage, "name", name, sizeof(name));
        copy_text(stage, "kind", kind, sizeof(kind));
        copy_text(stage, "rule", rule, sizeof(rule));
        if (strcmp(kind, "simulate") != 0) {
            (void)snprintf(reach, sizeof(reach), " %.6g %%",
                           json_number_value(json_object_get(stage, "percent")));
        }
        int size =
            snprintf(text, sizeof(text),
                     "%s%s%s: at most %.6g %% may fail, of %lld or more, %.6g s or longer%s%s",
                     used > 0 ? "; " : "", name, reach,
                     100 * json_number_value(json_object_get(stage, "max_failure")),
                     (long long)json_integer_value(json_object_get(stage, "min_sample")),
                     json_number_value(json_object_get(stage, "min_dwell_s")),
                     strcmp(rule, "threshold") != 0 && rule[0] != '\0' ? ", by " : "",
                     strcmp(rule, "threshold") != 0 ? rule : "");
        if (size <= 0 || used + (size_t)size >= SIM_ROLLOUT_STAGES_MAX) {
            return;
        }
        memcpy(out + used, text, (size_t)size + 1);
        used += (size_t)size;
    }
}

static bool item_read(const json_t *rollout, struct sim_rollout_seen *out)
{
    const char *id = json_string_value(json_object_get(rollout, "id"));
    json_int_t created_s = json_integer_value(json_object_get(rollout, "created_s"));
    memset(out, 0, sizeof(*out));
    if (id == NULL || wire_device_parse(base_str_of(id), &out->id) != BASE_OK) {
        return false;
    }
    out->created_s = created_s > 0 ? (uint64_t)created_s : 0;
    copy_text(rollout, "task", out->task, sizeof(out->task));
    copy_text(rollout, "version", out->version, sizeof(out->version));
    copy_text(rollout, "manifest", out->manifest, sizeof(out->manifest));
    copy_text(rollout, "state", out->state, sizeof(out->state));
    const json_t *cause = json_object_get(rollout, "cause"); // of its way back
    copy_text(json_is_object(cause) ? cause : rollout,
              json_is_object(cause) ? "text" : "reason_text", out->reason, sizeof(out->reason));
    copy_text(json_object_get(rollout, "stage"), "name", out->stage, sizeof(out->stage));
    stages_read(json_object_get(rollout, "stages"), out->stages);
    const json_t *counts = json_object_get(rollout, "counts");
    counts_read(counts, &out->counts);
    out->uncounted = !json_is_true(json_object_get(rollout, "trust_unproven")) &&
                     out->counts.offered == 0 && count_of(counts, "unproven_completed") > 0;
    return true;
}

static struct sim_rollout_seen *find(struct sim_rollouts_seen *seen, uint64_t id)
{
    for (uint32_t i = 0; i < seen->count; i++) {
        if (seen->items[i].id == id) {
            return &seen->items[i];
        }
    }
    return NULL;
}

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

void sim_gateway_counts_since(const struct sim_rollout_seen *rollout,
                              struct sim_gateway_counts *out)
{
    const struct sim_gateway_counts *now = &rollout->counts;
    const struct sim_gateway_counts *before = &rollout->before;
    *out = (struct sim_gateway_counts){
        .offered = since(now->offered, before->offered),
        .succeeded = since(now->succeeded, before->succeeded),
        .failed = since(now->failed, before->failed),
        .under_way = since(now->under_way, before->under_way),
        .rolled_back = since(now->rolled_back, before->rolled_back),
        .on_version = since(now->on_version, before->on_version),
        .unproven = since(now->unproven, before->unproven),
    };
}

bool sim_rollouts_said(const struct sim_rollouts_seen *seen, uint64_t id,
                       struct sim_gateway_counts *out)
{
    const struct sim_rollout_seen *item = find((struct sim_rollouts_seen *)(uintptr_t)seen, id);
    if (item != NULL) {
        sim_gateway_counts_since(item, out);
    }
    return item != NULL;
}

// A place for one more; NULL: there is none.
static struct sim_rollout_seen *place(struct sim_rollouts_seen *seen, bool old)
{
    if (seen->count < SIM_ROLLOUTS_MAX) {
        return &seen->items[seen->count++];
    }
    for (uint32_t i = 0; i < seen->count && !old; i++) {
        if (seen->items[i].old) {
            return &seen->items[i];
        }
    }
    return NULL;
}

static void item_take(struct sim_rollouts_seen *seen, struct sim_rollout_seen *item)
{
    struct sim_rollout_seen *known = find(seen, item->id);
    bool over = sim_rollout_over(item->state);
    if (known != NULL) {
        item->old = known->old && over && strcmp(known->state, item->state) == 0;
        item->before = known->before;
        *known = *item;
        return;
    }
    // A page begins with the newest: what was there in the second of the newest was on the first
    // one.
    item->old = over && (!seen->begun || item->created_s < seen->begun_with_s);
    if (!seen->begun || item->old) {
        item->before = item->counts;
    }
    known = place(seen, item->old);
    if (known != NULL) {
        *known = *item;
    } else {
        seen->left_out += item->old ? 0 : 1;
    }
}

void sim_rollouts_read(struct sim_rollouts_seen *seen, const struct json_t *root)
{
    const json_t *items = json_object_get(root, "items");
    uint64_t newest_s = 0;
    size_t count = json_is_array(items) ? json_array_size(items) : 1;
    for (size_t i = 0; i < count && root != NULL; i++) {
        struct sim_rollout_seen item;
        if (item_read(json_is_array(items) ? json_array_get(items, i) : root, &item)) {
            item_take(seen, &item);
            newest_s = item.created_s > newest_s ? item.created_s : newest_s;
        }
    }
    if (root != NULL && !seen->begun) {
        seen->begun = true;
        seen->begun_with_s = newest_s;
    }
}

void sim_rollouts_take(struct sim_rollouts_seen *seen, const char *bytes, size_t size)
{
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    sim_rollouts_read(seen, root);
    json_decref(root);
}
