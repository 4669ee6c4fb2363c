// Reading the gateway's answers: a rollout as JSON, load figures in Prometheus text. Both come from
// outside and are taken as they are: what is not understood changes nothing. Called by
// gateway_watch.c on the coordinator's thread, when an answer is complete. Apart from the
// connection so that tests can feed it bytes.
#include "run/gateway_watch.h"

#include "wire/digest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void copy_text(const json_t *object, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text != NULL) {
        (void)snprintf(out, capacity, "%s", text);
    }
}

static uint64_t count(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static bool is_over(const json_t *rollout)
{
    const char *state = json_string_value(json_object_get(rollout, "state"));
    return state != NULL && sim_rollout_over(state);
}

// The rollout to show of a page: the one under way, else the newest.
static const json_t *choose(const json_t *items)
{
    const json_t *chosen = NULL;
    size_t index;
    json_t *item;
    json_array_foreach(items, index, item)
    {
        if (chosen == NULL) {
            chosen = item;
            continue;
        }
        bool newer = json_integer_value(json_object_get(item, "created_s")) >
                     json_integer_value(json_object_get(chosen, "created_s"));
        if (is_over(chosen) != is_over(item) ? is_over(chosen) : newer) {
            chosen = item;
        }
    }
    return chosen;
}

static void view_read(const json_t *root, struct sim_watch_view *view)
{
    const json_t *items = json_object_get(root, "items");
    const json_t *rollout = json_is_array(items) ? choose(items) : root;
    const char *id = json_string_value(json_object_get(rollout, "id"));
    uint64_t number = 0;
    if (id == NULL || wire_device_parse(base_str_of(id), &number) != BASE_OK) {
        return;
    }
    struct sim_gateway_load load = view->load;
    memset(view, 0, sizeof(*view));
    view->load = load;
    view->known = true;
    view->rollout = number;
    copy_text(rollout, "task", view->task, sizeof(view->task));
    copy_text(rollout, "version", view->version, sizeof(view->version));
    copy_text(rollout, "state", view->state, sizeof(view->state));
    copy_text(rollout, "verdict", view->verdict, sizeof(view->verdict));
    copy_text(rollout, "reason_text", view->reason, sizeof(view->reason));
    const json_t *stage = json_object_get(rollout, "stage");
    copy_text(stage, "name", view->stage, sizeof(view->stage));
    view->percent = json_number_value(json_object_get(stage, "percent"));
    view->failure_ratio = json_number_value(json_object_get(rollout, "failure_ratio"));
    const json_t *counts = json_object_get(rollout, "counts");
    view->offered = count(counts, "offered");
    view->succeeded = count(counts, "succeeded");
    view->failed = count(counts, "failed");
    view->rolled_back = count(counts, "rolled_back");
    view->on_version = count(counts, "on_version");
}

void sim_watch_parse_rollouts(const char *bytes, size_t size, struct sim_watch_view *view,
                              struct sim_rollouts_seen *seen)
{
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    view_read(root, view);
    sim_rollouts_read(seen, root);
    json_decref(root);
}

// Adds `value` of a sample to the figure its name belongs to.
static void take_sample(struct base_str name, double value, struct sim_gateway_load *load)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"walle_requests_total", offsetof(struct sim_gateway_load, requests_total)},
        {"walle_connections", offsetof(struct sim_gateway_load, connections)},
        {"walle_streams", offsetof(struct sim_gateway_load, streams)},
        {"process_resident_memory_bytes", offsetof(struct sim_gateway_load, rss_bytes)},
        {"process_cpu_seconds_total", offsetof(struct sim_gateway_load, cpu_seconds)},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (base_str_equal(name, base_str_of(wanted[i].name))) {
            double *figure = (double *)(void *)((char *)load + wanted[i].offset);
            *figure = *figure < 0 ? value : *figure + value;
        }
    }
}

void sim_watch_parse_metrics(const char *bytes, size_t size, struct sim_gateway_load *load)
{
    struct sim_gateway_load fresh = {SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN,
                                     SIM_GATEWAY_UNKNOWN, SIM_GATEWAY_UNKNOWN};
    const char *at = bytes;
    const char *end = bytes + size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end != NULL ? line_end : end;
        size_t name = 0;
        while (at + name < line_end && at[name] != ' ' && at[name] != '{' && at[name] != '#') {
            name++;
        }
        const char *space = memrchr(at, ' ', (size_t)(line_end - at));
        char number[40];
        if (name > 0 && space != NULL && (size_t)(line_end - space) < sizeof(number)) {
            memcpy(number, space + 1, (size_t)(line_end - space - 1));
            number[line_end - space - 1] = 0;
            take_sample((struct base_str){at, name}, strtod(number, NULL), &fresh);
        }
        at = line_end + 1;
    }
    *load = fresh;
}
