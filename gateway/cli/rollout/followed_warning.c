// Which rollout devices follow instead: see followed_warning.h. Callers are cli_release.c and
// rollout_begin.c, before something starts, and cli_rollout.c, for what is held up. One thread. It
// warns and decides nothing; where the gateway cannot be asked it is silent.
#include "cli/rollout/followed_warning.h"

#include "cli/base/cli_json.h"
#include "cli/rollout/served_root.h"

#include <stdio.h>
#include <string.h>

#define PRIORITY_MAX 1000 // that a rollout may have

// The gateway's dry run of the target alone, with every device let in. NULL: it is not told.
static json_t *ask(const struct cli *cli, const json_t *rollout)
{
    bool guarded = json_is_object(json_object_get(rollout, "guard")); // behind every open one
    const char *const kept[] = {"task", "arm", guarded ? NULL : "priority"};
    json_t *target = json_object_get(rollout, "target");
    bool everybody =
        target == NULL || (json_is_string(target) && json_string_value(target)[0] == '\0');
    json_t *body =
        json_pack("{s:o, s:[{s:s}]}", "target", everybody ? json_array() : json_incref(target),
                  "stages", "kind", "full");

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); ++i) {
        json_t *value = json_object_get(rollout, kept[i]);
        if (value != NULL && !json_is_null(value)) {
            (void)json_object_set(body, kept[i], value);
        }
    }
    json_t *id = json_object_get(rollout, "id");
    if (id != NULL) {
        (void)json_object_set(body, "rollout", id);
    }
    json_t *seen = served_ask(cli, "POST", "/api/v1/rollouts/preview", body);
    json_decref(body);
    return seen;
}

static json_t *rollout_of(const struct cli *cli, const char *id)
{
    char path[CLI_PATH_MAX];

    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s", id);
    return served_ask(cli, "GET", path, NULL);
}

static void warn_of_first(const struct cli *cli, const json_t *item)
{
    const char *id = cli_json_text(item, "rollout", "?");
    unsigned long long devices = (unsigned long long)cli_json_u64(item, "devices");
    json_t *other = rollout_of(cli, id);
    unsigned long long priority = (unsigned long long)cli_json_u64(other, "priority");

    fprintf(stderr,
            "walle: warning: %llu device%s of the target follow%s rollout %s of %s (%s, stage %s) "
            "and %s offered nothing of this one before that ends: walle rollout abort %s --reason "
            "TEXT ends it",
            devices, devices == 1 ? "" : "s", devices == 1 ? "s" : "", id,
            cli_json_text(other, "version", "?"), cli_json_text(other, "state", "?"),
            cli_json_text(json_object_get(other, "stage"), "name", "?"),
            devices == 1 ? "is" : "are", id);
    if (priority < PRIORITY_MAX) {
        fprintf(stderr, ", --priority %llu on this one has them follow this one first",
                priority + 1);
    }
    fputc('\n', stderr);
    json_decref(other);
}

static void warn_of_waiting(const struct cli *cli, const json_t *item)
{
    const char *id = cli_json_text(item, "rollout", "?");
    unsigned long long devices = (unsigned long long)cli_json_u64(item, "devices");
    json_t *other = rollout_of(cli, id);

    fprintf(stderr,
            "walle: warning: this one goes before rollout %s of %s (%s, stage %s, priority %llu): "
            "%llu device%s of both targets follow%s this one, and %s offered nothing of that one "
            "before this ends\n",
            id, cli_json_text(other, "version", "?"), cli_json_text(other, "state", "?"),
            cli_json_text(json_object_get(other, "stage"), "name", "?"),
            (unsigned long long)cli_json_u64(other, "priority"), devices, devices == 1 ? "" : "s",
            devices == 1 ? "s" : "", devices == 1 ? "is" : "are");
    json_decref(other);
}

void followed_warning(const struct cli *cli, const json_t *rollout)
{
    json_t *seen = ask(cli, rollout);
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(seen, "followed"), index, item)
    {
        warn_of_first(cli, item);
    }
    json_array_foreach(json_object_get(seen, "waiting"), index, item)
    {
        warn_of_waiting(cli, item);
    }
    json_decref(seen);
}

static const json_t *item_of(const json_t *list, const char *id)
{
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, index, item)
    {
        if (strcmp(cli_json_text(item, "rollout", ""), id) == 0) {
            return item;
        }
    }
    return NULL;
}

// Of a list of rollouts those that are in `seen`, and with how many devices.
static void count_in(json_t *list, const json_t *seen)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *item = json_array_get(list, i);
        const json_t *found = item_of(seen, cli_json_text(item, "rollout", ""));
        if (found == NULL) {
            (void)json_array_remove(list, i);
        } else {
            (void)json_object_set(item, "devices", json_object_get(found, "devices"));
        }
    }
}

void followed_count(const struct cli *cli, json_t *rollout)
{
    json_t *behind = json_object_get(rollout, "behind");
    json_t *before = json_object_get(rollout, "before");
    bool beside = json_array_size(behind) + json_array_size(before) > 0;
    json_t *seen = beside ? ask(cli, rollout) : NULL;

    if (seen != NULL) {
        count_in(behind, json_object_get(seen, "followed"));
        count_in(before, json_object_get(seen, "waiting"));
    }
    json_decref(seen);
}
