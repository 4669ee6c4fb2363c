// Whether a version went back before: see went_back_warning.h. present_warning.c calls it, so it is
// said when a rollout is planned, drawn up, submitted or started. One thread. It warns and decides
// nothing: to try again is the operator's choice, as for who was let down by the weather.
#include "cli/rollout/went_back_warning.h"

#include "cli/base/cli_json.h"
#include "cli/rollout/rollout_story.h"
#include "cli/rollout/served_root.h"

#include <stdio.h>
#include <string.h>

#define LOOKED_AT 100 // rollouts of the task, the newest

// The newest that is over, of this version: went it back? A completed one settles it; one that is
// open tells nothing yet.
static json_t *newest_end(const json_t *rollouts, const char *manifest)
{
    size_t index;
    json_t *rollout;

    json_array_foreach((json_t *)(uintptr_t)rollouts, index, rollout)
    {
        const char *state = cli_json_text(rollout, "state", "");
        bool same = strcmp(cli_json_text(rollout, "manifest", ""), manifest) == 0;
        if (same && (strcmp(state, "rolled_back") == 0 || strcmp(state, "rolling_back") == 0)) {
            return rollout;
        }
        if (same && (strcmp(state, "completed") == 0 || strcmp(state, "guarding") == 0)) {
            return NULL;
        }
    }
    return NULL;
}

void went_back_warning(const struct cli *cli, const char *task, const char *manifest)
{
    char path[CLI_PATH_MAX] = "/api/v1/rollouts?task=";

    if (task == NULL || manifest == NULL || !cli_path_add(path, sizeof(path) - 32, task)) {
        return;
    }
    size_t used = strlen(path);
    (void)snprintf(path + used, sizeof(path) - used, "&limit=%d", LOOKED_AT);
    json_t *page = served_ask(cli, "GET", path, NULL);
    const json_t *back = newest_end(json_object_get(page, "items"), manifest);
    if (back != NULL) {
        fprintf(stderr,
                "walle: warning: rollout %s took this version back: another one brings the same to "
                "devices again, and what is to change needs a version of its own (walle task "
                "push)\n  ",
                cli_json_text(back, "id", "?"));
        (void)rollout_story(cli, stderr, back);
    }
    json_decref(page);
}
