// Starting drafts. Called by `rollout start`; one thread.
#include "cli/rollout_begin.h"

#include "cli/cli_id.h"
#include "cli/cli_json.h"
#include "cli/rollout_evidence.h"
#include "cli/rollout_show.h"
#include "cli/rollout_watch.h"

#include <stdio.h>
#include <string.h>

// What else a start of a draft takes; all else was said when it was made.
#define BEGIN_BITS                                                                                 \
    (CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(ACCEPT_EMPTY) |                    \
     CLI_BIT(EVIDENCE) | CLI_BIT(WATCH) | CLI_BIT(UNTIL) | CLI_BIT(TIMEOUT) | CLI_BIT(DRY_RUN))

bool rollout_begin_is_meant(const struct cli *cli)
{
    static const enum cli_option drawn[] = {CLI_OPTION_KEY,      CLI_OPTION_BUILD,
                                            CLI_OPTION_VERSION,  CLI_OPTION_MANIFEST,
                                            CLI_OPTION_NO_START, CLI_OPTION_DRAFT};
    const char *text = cli->args[0];

    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); ++i) {
        if (cli_given(cli, drawn[i])) {
            return false;
        }
    }
    return cli_id_is_prefix(text, CLI_ID_ROLLOUT) ||
           (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16);
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
                "rollout start does both)\n",
                cli_json_text(rollout, "id", "ID"));
    }
}

static enum cli_exit check_options(const struct cli *cli)
{
    for (unsigned i = 0; i < CLI_OPTION_COUNT; ++i) {
        if (cli_given(cli, (enum cli_option)i) && (BEGIN_BITS >> i & 1) == 0) {
            return cli_fail(CLI_EXIT_USAGE,
                            "--%s: rollout %s is made already, with all that is signed; starting "
                            "it takes --accept-empty, --evidence, --reason and --watch",
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

static enum cli_exit try_begin(const struct cli *cli, const char *id, const json_t *evidence)
{
    json_t *body = json_object();
    json_t *answer = NULL;

    accept_what_is_accepted(cli, body);
    if (evidence != NULL) {
        (void)json_object_update(body, (json_t *)(uintptr_t)evidence);
    }
    enum cli_exit code = post(cli, id, "check", body, &answer);
    json_decref(body);
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

    cli_add_who(cli, who);
    accept_what_is_accepted(cli, who);
    enum cli_exit code = post(cli, id, "start", who, &rollout);
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
    json_decref(rollout);
    return watching ? rollout_watch(cli, id) : CLI_EXIT_OK;
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
    }
    if (code == CLI_EXIT_OK) {
        code = cli_given(cli, CLI_OPTION_DRY_RUN) ? try_begin(cli, id, evidence)
                                                  : begin(cli, id, evidence);
    }
    json_decref(evidence);
    return code;
}
