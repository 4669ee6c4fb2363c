// Who has a version already that is about to be released: see present_warning.h. Called when a
// rollout is planned, drawn up, submitted or started. One thread. Callers are cli_release.c and
// rollout_begin.c. It warns and decides nothing; where the gateway cannot be asked it is silent.
#include "cli/rollout/present_warning.h"

#include "cli/base/cli_json.h"
#include "cli/rollout/went_back_warning.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 3 // rollouts

// "rollout A (running)", "rollouts A (running), B (completed) and 2 more"
static void name_rollouts(const json_t *present)
{
    const json_t *rollouts = json_object_get(present, "rollouts");
    uint64_t count = cli_json_u64(present, "rollout_count");
    uint64_t named = 0;
    size_t index;
    json_t *item;

    fputs(count == 1 ? "rollout" : "rollouts", stderr);
    json_array_foreach((json_t *)(uintptr_t)rollouts, index, item)
    {
        if (index < NAMED_MAX) {
            fprintf(stderr, "%s %s (%s)", index == 0 ? "" : ",",
                    cli_json_text(item, "rollout", "?"), cli_json_text(item, "state", "?"));
            named++;
        }
    }
    if (count > named) {
        fprintf(stderr, " and %llu more", (unsigned long long)(count - named));
    }
}

static void warn(const json_t *present)
{
    uint64_t devices = cli_json_u64(present, "devices");

    fputs("walle: warning: ", stderr);
    if (devices > 0) {
        fprintf(stderr, "%llu device%s this version already, by ", (unsigned long long)devices,
                devices == 1 ? " has" : "s have");
        name_rollouts(present);
    } else {
        name_rollouts(present);
        fprintf(stderr, " bring%s this version already",
                cli_json_u64(present, "rollout_count") == 1 ? "s" : "");
    }
    fputs(
        ": another rollout of it offers nothing to who has it, and who is let in by several keeps "
        "it until all of them are taken back; what is to change needs a version of its own (walle "
        "task push)\n",
        stderr);
}

// The version as the gateway tells it, with who has it; NULL: it could not be asked.
static json_t *ask(const struct cli *cli, const char *task, const char *manifest)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *version = NULL;

    if (task == NULL || manifest == NULL || !cli_path_add(path, sizeof(path) - 96, task)) {
        return NULL;
    }
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions/%.64s", manifest);
    return cli_api_call(cli, "GET", path, NULL, &version) == CLI_EXIT_OK ? version : NULL;
}

void present_warning(const struct cli *cli, const char *task, const char *manifest)
{
    json_t *version = ask(cli, task, manifest);
    const json_t *present = json_object_get(version, "present");

    if (json_is_object(present)) {
        warn(present);
    }
    json_decref(version);
    went_back_warning(cli, task, manifest);
}

void present_count(const struct cli *cli, json_t *rollout)
{
    json_t *version =
        ask(cli, cli_json_text(rollout, "task", NULL), cli_json_text(rollout, "manifest", NULL));
    json_t *others = json_array();
    uint64_t devices = 0;
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(json_object_get(version, "present"), "rollouts"), index,
                       item)
    {
        uint64_t has = cli_json_u64(item, "devices");
        if (has > 0 &&
            strcmp(cli_json_text(item, "rollout", ""), cli_json_text(rollout, "id", "")) != 0) {
            devices += has;
            (void)json_array_append(others, item);
        }
    }
    if (devices > 0) {
        (void)json_object_set_new(
            rollout, "present",
            json_pack("{s:I, s:O}", "devices", (json_int_t)devices, "rollouts", others));
    }
    json_decref(others);
    json_decref(version);
}

void present_kept_warning(const struct cli *cli, const json_t *rollout)
{
    const char *manifest = cli_json_text(rollout, "manifest", NULL);
    json_t *version = ask(cli, cli_json_text(rollout, "task", NULL), manifest);
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(json_object_get(version, "present"), "rollouts"), index,
                       item)
    {
        uint64_t devices = cli_json_u64(item, "devices");
        const char *id = cli_json_text(item, "rollout", "?");
        const char *state = cli_json_text(item, "state", "?");
        if (strcmp(id, cli_json_text(rollout, "id", "")) != 0 &&
            strcmp(state, "rolling_back") != 0) {
            fprintf(stderr,
                    "walle: warning: rollout %s (%s) brings this version, too: %llu device%s came "
                    "to it by that one, and whom it lets in keeps it\n  walle release kill %.64s "
                    "--reason TEXT takes it from everybody\n",
                    id, state, (unsigned long long)devices, devices == 1 ? "" : "s", manifest);
        }
    }
    json_decref(version);
}
