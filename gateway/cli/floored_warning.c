// Who has nothing left of a task, or nothing but what is older than its floor: see
// floored_warning.h. Called when a version was killed or taken back. One thread.
#include "cli/floored_warning.h"

#include "cli/cli_json.h"

#include <stdio.h>

static void warn_of_floor(const json_t *view, const json_t *floored, const char *task)
{
    uint64_t devices = cli_json_u64(floored, "devices");

    fprintf(stderr,
            "walle: warning: %llu device%s on which rollout %s ran well follow%s nothing older "
            "than release %llu of %s, and what is left is release %llu: nothing of it runs "
            "there until something newer is released\n  walle rollout start %s --version %s "
            "releases what is left anew\n",
            (unsigned long long)devices, devices == 1 ? "" : "s",
            cli_json_text(floored, "rollout", "?"), devices == 1 ? "s" : "",
            (unsigned long long)cli_json_u64(floored, "floor"), cli_shown(task),
            (unsigned long long)cli_json_u64(floored, "baseline"), cli_shown(task),
            cli_json_text(json_object_get(view, "baseline"), "version", "VERSION"));
}

static void warn_of_nothing(const json_t *floored, const char *task)
{
    uint64_t devices = cli_json_u64(floored, "devices");

    fprintf(stderr,
            "walle: warning: no completed release of %s is left: nothing of it runs on the %llu "
            "device%s on which rollout %s ran well until something newer is released\n",
            cli_shown(task), (unsigned long long)devices, devices == 1 ? "" : "s",
            cli_json_text(floored, "rollout", "?"));
}

void floored_warning(const struct cli *cli, const char *task)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *view = NULL;

    if (task == NULL || !cli_path_add(path, sizeof(path), task) ||
        cli_api_call(cli, "GET", path, NULL, &view) != CLI_EXIT_OK) {
        return;
    }
    const json_t *floored = json_object_get(view, "floored");
    if (json_is_integer(json_object_get(floored, "baseline"))) {
        warn_of_floor(view, floored, task);
    } else if (json_is_object(floored)) {
        warn_of_nothing(floored, task);
    }
    json_decref(view);
}
