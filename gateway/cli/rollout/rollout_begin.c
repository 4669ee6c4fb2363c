// Starting drafts, which are rollouts made with --no-start. Called by cli_release.c, when `rollout
// start` names a rollout and no task; one thread. Nothing is signed here: the statements were
// signed when the draft was made. It asks the gateway first whether a start would pass, and for the
// simulate stage gets evidence (rollout_evidence.c), or says how it comes.
#include "cli/rollout/rollout_begin.h"

#include "cli/task/cli_id.h"
#include "cli/base/cli_json.h"
#include "cli/stages/evidence_gate.h"
#include "cli/rollout/followed_warning.h"
#include "cli/rollout/present_warning.h"
#include "cli/rollout/rollout_evidence.h"
#include "cli/rollout/rollout_show.h"
#include "cli/rollout/rollout_watch.h"
#include "cli/rollout/sample_warning.h"
#include "cli/rollout/served_root.h"
#include "cli/task/task_build.h"

#include <stdio.h>
#include <string.h>

// What else a start of a draft takes; all else was said when it was made.
#define BEGIN_BITS                                                                                 \
    (CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(ACCEPT_EMPTY) |                    \
     CLI_BIT(EVIDENCE) | CLI_BIT(BUILD) | CLI_BIT(KEY) | CLI_BIT(WATCH) | CLI_BIT(UNTIL) |         \
     CLI_BIT(TIMEOUT) | CLI_BIT(DRY_RUN))

// Is the build's task called so? Then that is what `text` names, be it written like an id.
static bool is_task_of(const char *folder, const char *text)
{
    struct task_build build = {0};
    struct base_error ignored = {0};
    bool is_task = task_build_load(folder, &build, &ignored) == BASE_OK &&
                   base_str_equal(build.manifest.task_name, base_str_of(text));

    task_build_done(&build);
    return is_task;
}

bool rollout_begin_is_meant(const struct cli *cli)
{
    static const enum cli_option drawn[] = {CLI_OPTION_VERSION, CLI_OPTION_MANIFEST,
                                            CLI_OPTION_NO_START, CLI_OPTION_DRAFT};
    const char *text = cli->args[0];

    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); ++i) {
        if (cli_given(cli, drawn[i])) {
            return false;
        }
    }
    return (cli_id_is_prefix(text, CLI_ID_ROLLOUT) ||
            (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16)) &&
           !(cli_given(cli, CLI_OPTION_BUILD) && is_task_of(cli->values[CLI_OPTION_BUILD], text));
}

void rollout_begin_hint(const json_t *rollout)
{
    const json_t *stage = json_object_get(rollout, "stage");

    if (json_is_null(json_object_get(rollout, "simulation")) &&
        strcmp(cli_json_text(rollout, "state", ""), "running") == 0 &&
        strcmp(cli_json_text(stage, "kind", ""), "simulate") == 0) {
        fprintf(stderr,
                "the simulate stage waits for evidence: run the version on virtual devices, then\n"
                "  walle rollout simulation %s --evidence FILE\n"
                "(with --build DIR, walle-fleet-sim beside walle and a key the gateway believes,\n"
                "rollout start does both; --version and --manifest bring no files to run)\n",
                cli_json_text(rollout, "id", "ID"));
    }
}

static enum cli_exit check_options(const struct cli *cli)
{
    for (unsigned i = 0; i < CLI_OPTION_COUNT; ++i) {
        if (cli_given(cli, (enum cli_option)i) && (BEGIN_BITS >> i & 1) == 0) {
            return cli_fail(CLI_EXIT_USAGE,
                            "--%s: rollout %s is made already, with all that is signed; starting "
                            "it takes --accept-empty, --build with --key or --evidence, --reason "
                            "and --watch",
                            cli_option_name((enum cli_option)i), cli->args[0]);
        }
    }
    return CLI_EXIT_OK;
}

// Posts `body` (NULL: nothing) to the rollout; *out is the answer.
static enum cli_exit post(const struct cli *cli, const char *id, const char *what,
                          const json_t *body, json_t **out)
{
    char path[CLI_PATH_MAX];

    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s/%s", id, what);
    return cli_api_call(cli, "POST", path, body, out);
}

static void accept_what_is_accepted(const struct cli *cli, json_t *body)
{
    if (cli_given(cli, CLI_OPTION_ACCEPT_EMPTY)) {
        (void)json_object_set_new(body, "accept_empty", json_true());
    }
}

// Would the gateway start it, and take the evidence (NULL: none)?
static enum cli_exit check(const struct cli *cli, const char *id, const json_t *evidence,
                           json_t **out_answer)
{
    json_t *body = json_object();

    accept_what_is_accepted(cli, body);
    if (evidence != NULL) {
        (void)json_object_update(body, (json_t *)(uintptr_t)evidence);
    }
    enum cli_exit code = post(cli, id, "check", body, out_answer);
    json_decref(body);
    return code;
}

// What the gate of its simulate stage will make of the evidence (NULL: none).
static enum cli_exit check_gate(const struct cli *cli, const char *id, const json_t *evidence)
{
    char path[CLI_PATH_MAX];
    bool would = cli_given(cli, CLI_OPTION_DRY_RUN);

    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s", id);
    json_t *rollout = evidence != NULL ? served_ask(cli, "GET", path, NULL) : NULL;
    enum cli_exit code = evidence_gate_check(json_object_get(rollout, "stages"), evidence, would);
    json_decref(rollout);
    return code;
}

static enum cli_exit try_begin(const struct cli *cli, const char *id, const json_t *evidence)
{
    json_t *answer = NULL;
    enum cli_exit code = check(cli, id, evidence, &answer);

    if (code == CLI_EXIT_OK) {
        code = check_gate(cli, id, evidence);
    }
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, answer);
    }
    printf("the gateway would start rollout %s; nothing was changed\n", id);
    json_decref(answer);
    return CLI_EXIT_OK;
}

static enum cli_exit begin(struct cli *cli, const char *id, json_t *evidence)
{
    json_t *who = json_object();
    json_t *rollout = NULL;
    enum cli_exit code = CLI_EXIT_OK;

    if (evidence != NULL) { // what is refused is not to leave a stage open that waits for it
        code = check(cli, id, evidence, &rollout);
        json_decref(rollout);
        rollout = NULL;
    }
    if (code == CLI_EXIT_OK) {
        code = check_gate(cli, id, evidence);
    }
    cli_add_who(cli, who);
    accept_what_is_accepted(cli, who);
    if (code == CLI_EXIT_OK || code == CLI_EXIT_FAILED) { // failures end it, for all to see why
        code = post(cli, id, "start", who, &rollout);
    }
    json_decref(who);
    if (code == CLI_EXIT_OK && evidence != NULL) {
        json_decref(rollout);
        rollout = NULL;
        cli_add_who(cli, evidence);
        code = post(cli, id, "simulation", evidence, &rollout);
    }
    bool watching = cli_given(cli, CLI_OPTION_WATCH);
    if (code != CLI_EXIT_OK || (cli->json && !watching)) {
        return cli_show_take(code, rollout);
    }
    if (!cli->json) {
        rollout_show_line(stdout, rollout);
        rollout_begin_hint(rollout);
    }
    enum cli_exit end = rollout_exit(rollout); // its simulation may have failed already
    json_decref(rollout);
    return watching ? rollout_watch(cli, id) : end;
}

// Is what lies in `folder` what the rollout releases?
static enum cli_exit check_build(const char *folder, const json_t *rollout)
{
    struct task_build build = {0};
    struct base_error error = {0};
    char manifest[WIRE_SHA256_HEX + 1];
    enum base_status status = task_build_load(folder, &build, &error);

    wire_sha256_hex(&build.manifest_digest, manifest);
    task_build_done(&build);
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    return strcmp(manifest, cli_json_text(rollout, "manifest", "")) == 0
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_REFUSED, "%s holds manifest %.16s..., rollout %s is of %.16s...",
                          folder, manifest, cli_json_text(rollout, "id", "?"),
                          cli_json_text(rollout, "manifest", "?"));
}

// Plays the simulate stage of a rollout that was made, with the build it is of.
static enum cli_exit simulate(const struct cli *cli, const char *id, json_t **out_evidence)
{
    char path[CLI_PATH_MAX];
    json_t *rollout = NULL;

    if (!cli_given(cli, CLI_OPTION_KEY)) {
        return cli_fail(CLI_EXIT_USAGE,
                        "--key FILE is missing: it signs what the simulation finds");
    }
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s", id);
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &rollout);
    if (code == CLI_EXIT_OK) {
        code = check_build(cli->values[CLI_OPTION_BUILD], rollout);
    }
    if (code == CLI_EXIT_OK) {
        code = rollout_evidence_get(cli, json_object_get(rollout, "stages"),
                                    json_object_get(rollout, "target"), out_evidence);
    }
    json_decref(rollout);
    return code;
}

// Who has the draft's version already; of a rollout that was started before, the start says more.
static void warn_of_present(const struct cli *cli, const char *id)
{
    char path[CLI_PATH_MAX];
    json_t *rollout = NULL;

    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s", id);
    if (cli_api_call(cli, "GET", path, NULL, &rollout) == CLI_EXIT_OK &&
        strcmp(cli_json_text(rollout, "state", ""), "draft") == 0) {
        present_warning(cli, cli_json_text(rollout, "task", NULL),
                        cli_json_text(rollout, "manifest", NULL));
        followed_warning(cli, rollout);
        sample_warning(cli, rollout);
        served_root_warning(cli);
    }
    json_decref(rollout);
}

enum cli_exit rollout_begin(struct cli *cli)
{
    char id[CLI_ID_MAX + 1];
    json_t *evidence = NULL;
    enum cli_exit code = check_options(cli);

    (void)snprintf(id, sizeof(id), "%.16s", cli->args[0]);
    if (code == CLI_EXIT_OK && cli_id_is_prefix(id, CLI_ID_ROLLOUT)) {
        code = cli_id_whole(cli, CLI_ID_ROLLOUT, cli->args[0], id);
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_EVIDENCE)) {
        code = rollout_evidence_load(cli->values[CLI_OPTION_EVIDENCE], &evidence);
    } else if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_BUILD) &&
               !cli_given(cli, CLI_OPTION_DRY_RUN)) {
        code = simulate(cli, id, &evidence);
    }
    if (code == CLI_EXIT_OK) {
        warn_of_present(cli, id);
        code = cli_given(cli, CLI_OPTION_DRY_RUN) ? try_begin(cli, id, evidence)
                                                  : begin(cli, id, evidence);
    }
    json_decref(evidence);
    return code;
}
