// Who has nothing left of a task, or nothing but what is older than its floor: see
// floored_warning.h. Called when a version was killed or taken back. One thread. cli_kills.c and
// cli_rollout.c call it; one thread. It warns and decides nothing: where the gateway cannot be
// asked it says nothing, and the exit code stays that of the command.
#include "cli/rollout/floored_warning.h"

#include "cli/base/cli_json.h"

#include <stdio.h>
#include <string.h>

// What brings something of the task there again.
static void say_until(const json_t *floored)
{
    uint64_t open = cli_json_u64(floored, "open");

    if (open > 0) {
        fprintf(stderr, " until %s of the task lets them in, or",
                open == 1 ? "the open rollout" : "an open rollout");
    }
    fputs(open > 0 ? " something newer is released\n" : " until something newer is released\n",
          stderr);
}

static void warn_of_floor(const json_t *view, const json_t *floored, const char *task)
{
    uint64_t devices = cli_json_u64(floored, "devices");

    fprintf(stderr,
            "walle: warning: %llu device%s on which rollout %s ran well follow%s nothing older "
            "than release %llu of %s, and what is left is release %llu: nothing of the task runs "
            "there",
            (unsigned long long)devices, devices == 1 ? "" : "s",
            cli_json_text(floored, "rollout", "?"), devices == 1 ? "s" : "",
            (unsigned long long)cli_json_u64(floored, "floor"), cli_shown(task),
            (unsigned long long)cli_json_u64(floored, "baseline"));
    say_until(floored);
    fprintf(stderr, "  walle rollout start %s --version %s releases what is left anew\n",
            cli_shown(task),
            cli_json_text(json_object_get(view, "baseline"), "version", "VERSION"));
}

static void warn_of_nothing(const json_t *floored, const char *task)
{
    uint64_t devices = cli_json_u64(floored, "devices");

    fprintf(stderr,
            "walle: warning: no completed release of %s is left: nothing of the task runs on the "
            "%llu device%s on which rollout %s ran well",
            cli_shown(task), (unsigned long long)devices, devices == 1 ? "" : "s",
            cli_json_text(floored, "rollout", "?"));
    say_until(floored);
}

static void warn_of_target(const json_t *floored, const char *task)
{
    uint64_t devices = cli_json_u64(floored, "untargeted");
    bool one = devices == 1;

    fprintf(stderr,
            "walle: warning: %llu known device%s of %s that rollout %s is for %s in the target of "
            "no completed release that is left: nothing of the task runs there",
            (unsigned long long)devices, one ? "" : "s", cli_shown(task),
            cli_json_text(floored, "rollout", "?"), one ? "is" : "are");
    say_until(floored);
}

// The task as the gateway answers it; with `rollout` its devices are of that rollout. NULL: it
// could not be asked.
static json_t *ask_task(const struct cli *cli, const char *task, const char *rollout)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *view = NULL;

    if (task == NULL || !cli_path_add(path, sizeof(path) - 32, task)) {
        return NULL;
    }
    if (rollout != NULL) {
        size_t used = strlen(path);
        (void)snprintf(path + used, sizeof(path) - used, "?rollout=%.16s", rollout);
    }
    return cli_api_call(cli, "GET", path, NULL, &view) == CLI_EXIT_OK ? view : NULL;
}

static void warn(const json_t *view, const char *task)
{
    const json_t *floored = json_object_get(view, "floored");

    if (cli_json_u64(floored, "untargeted") > 0) {
        warn_of_target(floored, task);
    } else if (json_is_integer(json_object_get(floored, "baseline"))) {
        warn_of_floor(view, floored, task);
    } else if (json_is_object(floored)) {
        warn_of_nothing(floored, task);
    }
}

void floored_warning(const struct cli *cli, const char *task)
{
    json_t *view = ask_task(cli, task, NULL);

    warn(view, task);
    json_decref(view);
}

json_t *floored_before(const struct cli *cli, const char *rollout)
{
    char path[CLI_PATH_MAX] = "/api/v1/rollouts/";
    json_t *found = NULL;

    if (!cli_path_add(path, sizeof(path), rollout) ||
        cli_api_call(cli, "GET", path, NULL, &found) != CLI_EXIT_OK) {
        return NULL;
    }
    json_t *view = ask_task(cli, json_string_value(json_object_get(found, "task")), NULL);
    json_t *floored = json_incref(json_object_get(view, "floored"));
    json_decref(view);
    json_decref(found);
    return floored;
}

// Is it the same that is said of the same devices, whatever is open beside?
static bool is_known(const json_t *floored, const json_t *before)
{
    json_t *now = json_copy((json_t *)(uintptr_t)floored);
    json_t *then = json_copy((json_t *)(uintptr_t)before);

    (void)json_object_del(now, "open");
    (void)json_object_del(then, "open");
    bool same = json_equal(now, then);
    json_decref(now);
    json_decref(then);
    return same;
}

void floored_warning_of(const struct cli *cli, const json_t *rollout, const json_t *before)
{
    const char *task = json_string_value(json_object_get(rollout, "task"));
    json_t *own = ask_task(cli, task, json_string_value(json_object_get(rollout, "id")));
    json_t *all = ask_task(cli, task, NULL);

    if (json_is_object(json_object_get(own, "floored"))) {
        warn(own, task);
    } else if (!is_known(json_object_get(all, "floored"), before)) {
        warn(all, task);
    }
    json_decref(all);
    json_decref(own);
}
