// Stages that known devices are too few for: see sample_warning.h. Callers are cli_release.c and
// rollout_begin.c, before something starts. One thread. It warns and decides nothing; where the
// gateway cannot be asked it is silent.
#include "cli/rollout/sample_warning.h"

#include "cli/base/cli_json.h"
#include "cli/stages/ladder.h"
#include "cli/rollout/served_root.h"

#include <stdio.h>
#include <string.h>

// The members of `from` that say something, for a dry run; a new reference.
static json_t *copy(const json_t *from, const char *const *names)
{
    json_t *out = json_object();

    for (; *names != NULL; ++names) {
        json_t *value = json_object_get(from, *names);
        bool empty = json_is_string(value) && json_string_value(value)[0] == '\0';
        if (value != NULL && !json_is_null(value) && !empty) {
            (void)json_object_set(out, *names, value);
        }
    }
    return out;
}

// The gateway's dry run of the stages, as if no other rollout were followed. NULL: it is not told.
static json_t *ask(const struct cli *cli, const json_t *rollout)
{
    static const char *const of_rollout[] = {"target", "salt", "arm", NULL};
    static const char *const of_stage[] = {"kind", "percent", "audience", NULL};
    json_t *body = copy(rollout, of_rollout);
    json_t *stages = json_array();
    size_t index;
    json_t *stage;

    json_array_foreach(json_object_get(rollout, "stages"), index, stage)
    {
        (void)json_array_append_new(stages, copy(stage, of_stage));
    }
    (void)json_object_set_new(body, "stages", stages);
    json_t *seen = served_ask(cli, "POST", "/api/v1/rollouts/preview", body);
    json_decref(body);
    return seen;
}

void sample_warning(const struct cli *cli, const json_t *rollout)
{
    const json_t *stages = json_object_get(rollout, "stages");
    json_t *seen = ask(cli, rollout);
    bool any = false;
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(seen, "stages"), index, item)
    {
        const json_t *stage = json_array_get(stages, index);
        uint64_t enter = cli_json_u64(item, "devices");
        uint64_t sample = cli_json_u64(stage, "min_sample");
        if (enter >= sample || ladder_kind(stage) == POL_STAGE_SIMULATE ||
            cli_json_u64(seen, "matched") == 0) {
            continue;
        }
        fprintf(stderr, "%s%s (%llu of %llu)",
                any ? ", "
                    : "walle: warning: of the known devices "
                      "fewer enter than their sample asks for "
                      "in these stages: ",
                cli_json_text(stage, "name", "?"), (unsigned long long)enter,
                (unsigned long long)sample);
        any = true;
    }
    if (any) {
        fputs("; such a stage waits for more devices or for walle rollout promote, unless "
              "--min-sample is smaller\n",
              stderr);
    }
    json_decref(seen);
}
