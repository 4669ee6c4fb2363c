// Commands that make rollouts: plan (without a gateway) and start. One thread.
#include "cli/cli.h"
#include "cli/cli_http.h"
#include "cli/cli_json.h"
#include "cli/ladder.h"
#include "cli/rollout_draft.h"
#include "cli/rollout_show.h"
#include "cli/rollout_watch.h"
#include "cli/task_build.h"

#include "base/clock.h"
#include "base/prng.h"

#include <stdio.h>
#include <string.h>

static void print_plan(const json_t *stages)
{
    size_t index;
    json_t *stage;

    printf("%-3s %-12s %-9s %9s %9s %9s %9s\n", "", "stage", "kind", "share", "sample", "dwell",
           "failures");
    json_array_foreach(stages, index, stage)
    {
        printf("%-3zu %-12s %-9s %8g%% %9llu %8gs %8g%%\n", index + 1,
               cli_json_text(stage, "name", "?"), cli_json_text(stage, "kind", "?"),
               json_number_value(json_object_get(stage, "percent")),
               (unsigned long long)cli_json_u64(stage, "min_sample"),
               json_number_value(json_object_get(stage, "min_dwell_s")),
               100 * json_number_value(json_object_get(stage, "max_failure")));
    }
    printf("A stage ends when its sample completed, its dwell passed, and at most that share "
           "failed;\nabove it the rollout stops and every updated device goes back.\n");
}

enum cli_exit cli_rollout_plan(struct cli *cli)
{
    json_t *stages = NULL;
    json_t *target = NULL;
    enum cli_exit code = ladder_stages(cli, &stages);

    if (code == CLI_EXIT_OK) {
        code = ladder_target(cli, &target);
    }
    if (code == CLI_EXIT_OK && cli->json) {
        json_t *root = json_pack("{s:O, s:O}", "target", target, "stages", stages);
        cli_json_print(root);
        json_decref(root);
    } else if (code == CLI_EXIT_OK) {
        print_plan(stages);
    }
    json_decref(stages);
    json_decref(target);
    return code;
}

// ---- Start

// Size of a registered version's manifest.
static enum cli_exit fetch_manifest_bytes(const struct cli *cli, const char *task,
                                          const char *manifest, uint64_t *out_bytes)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *version = NULL;

    if (!cli_path_add(path, sizeof(path) - 96, task)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions/%.64s", manifest);
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &version);
    *out_bytes = cli_json_u64(version, "manifest_bytes");
    json_decref(version);
    return code;
}

// What is to be released: --build DIR or --manifest SHA256.
static enum cli_exit choose_version(const struct cli *cli, struct rollout_draft *draft)
{
    char hex[WIRE_SHA256_HEX + 1];
    const char *folder = cli->values[CLI_OPTION_BUILD];
    const char *manifest = cli->values[CLI_OPTION_MANIFEST];

    if ((folder == NULL) == (manifest == NULL)) {
        return cli_fail(CLI_EXIT_USAGE, "one of --build DIR and --manifest SHA256 is needed");
    }
    if (folder != NULL) {
        struct task_build build = {0};
        struct base_error error = {0};
        enum base_status status = task_build_load(folder, &build, &error);
        draft->manifest = build.manifest_digest;
        bool other = status == BASE_OK &&
                     !base_str_equal(build.manifest.task_name, base_str_of(draft->task));
        task_build_done(&build);
        if (status != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
        }
        if (other) {
            return cli_fail(CLI_EXIT_USAGE, "%s holds a version of another task than %s", folder,
                            draft->task);
        }
    } else if (wire_sha256_parse(base_str_of(manifest), &draft->manifest) != BASE_OK) {
        return cli_fail(CLI_EXIT_USAGE, "--manifest takes 64 hex digits");
    }
    wire_sha256_hex(&draft->manifest, hex);
    return fetch_manifest_bytes(cli, draft->task, hex, &draft->manifest_bytes);
}

// Counter and baseline, from the gateway.
static enum cli_exit fetch_task(const struct cli *cli, struct rollout_draft *draft)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *task = NULL;

    if (!cli_path_add(path, sizeof(path), draft->task)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &task);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    draft->release_counter = cli_json_u64(task, "release_counter") + 1;
    const json_t *baseline = json_object_get(task, "baseline");
    const char *manifest = cli_json_text(baseline, "manifest", NULL);
    if (manifest != NULL) {
        draft->has_baseline = true;
        code = wire_sha256_parse(base_str_of(manifest), &draft->baseline) == BASE_OK
                   ? fetch_manifest_bytes(cli, draft->task, manifest, &draft->baseline_bytes)
                   : cli_fail(CLI_EXIT_REFUSED, "the gateway's baseline is garbled");
    }
    json_decref(task);
    return code;
}

static enum cli_exit fill_draft(const struct cli *cli, struct rollout_draft *draft)
{
    uint64_t days = 0;
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_EXPIRES, ROLLOUT_DRAFT_DAYS, 3650, &days);

    draft->task = cli->args[0];
    if (code == CLI_EXIT_OK) {
        code = fetch_task(cli, draft);
    }
    if (code == CLI_EXIT_OK) {
        code = choose_version(cli, draft);
    }
    draft->id = base_entropy_u64() | 1u;
    draft->salt = base_entropy_u64() | 1u;
    draft->issued_s = base_clock_wall_us() / 1000000;
    draft->expires_s = draft->issued_s + days * 24 * 3600;
    return code;
}

static enum cli_exit make_body(const struct cli *cli, const struct rollout_draft *draft,
                               json_t **out_body)
{
    struct signing_keys keys = {.count = 0};
    struct base_error error = {0};
    json_t *stages = NULL;
    json_t *target = NULL;
    enum cli_exit code = ladder_stages(cli, &stages);

    if (code == CLI_EXIT_OK) {
        code = ladder_target(cli, &target);
    }
    if (code == CLI_EXIT_OK &&
        (signing_keys_load(cli->values[CLI_OPTION_KEY], &keys, &error) != BASE_OK ||
         rollout_draft_body(draft, &keys, stages, target, out_body, &error) != BASE_OK)) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    signing_keys_done(&keys);
    json_decref(stages);
    json_decref(target);
    return code;
}

// Creates the rollout and, unless --no-start, starts it.
static enum cli_exit create(const struct cli *cli, const struct rollout_draft *draft,
                            const json_t *body, json_t **out_rollout)
{
    char hex[WIRE_DEVICE_HEX + 1];
    char path[CLI_PATH_MAX];
    json_t *who = json_object();
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/rollouts", body, out_rollout);

    wire_device_hex(draft->id, hex);
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%s/start", hex);
    cli_add_who(cli, who);
    if (code == CLI_EXIT_OK && !cli_given(cli, CLI_OPTION_NO_START)) {
        json_decref(*out_rollout);
        *out_rollout = NULL;
        code = cli_api_call(cli, "POST", path, who, out_rollout);
    }
    json_decref(who);
    return code;
}

// A rollout that starts with a simulate stage waits for its result: say how it comes.
static void hint_simulation(const json_t *rollout)
{
    const json_t *stage = json_object_get(rollout, "stage");

    if (strcmp(cli_json_text(rollout, "state", ""), "running") == 0 &&
        strcmp(cli_json_text(stage, "kind", ""), "simulate") == 0) {
        fprintf(
            stderr,
            "the simulate stage waits for its result: run the version on virtual devices, then\n"
            "  walle rollout simulation %s --completed N --failed M\n",
            cli_json_text(rollout, "id", "ID"));
    }
}

enum cli_exit cli_rollout_start(struct cli *cli)
{
    struct rollout_draft draft = {0};
    char id[WIRE_DEVICE_HEX + 1];
    json_t *body = NULL;
    json_t *rollout = NULL;

    if (!cli_given(cli, CLI_OPTION_KEY)) {
        return cli_fail(CLI_EXIT_USAGE, "--key FILE is missing (walle key new makes one)");
    }
    enum cli_exit code = fill_draft(cli, &draft);
    if (code == CLI_EXIT_OK) {
        code = make_body(cli, &draft, &body);
    }
    if (code == CLI_EXIT_OK) {
        cli_add_who(cli, body);
        code = create(cli, &draft, body, &rollout);
    }
    json_decref(body);
    if (code != CLI_EXIT_OK) {
        json_decref(rollout);
        return code;
    }
    wire_device_hex(draft.id, id);
    bool watching = cli_given(cli, CLI_OPTION_WATCH);
    if (cli->json && !watching) {
        cli_json_print(rollout);
    } else if (!cli->json) {
        rollout_show_line(stdout, rollout);
        hint_simulation(rollout);
    }
    json_decref(rollout);
    return watching ? rollout_watch(cli, id) : CLI_EXIT_OK;
}
