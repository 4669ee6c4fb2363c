// Commands `release ...`: the kill list. One thread.
#include "cli/cli.h"
#include "cli/cli_json.h"

#include <stdio.h>
#include <string.h>

// One change of the kill list, told in `said`. Takes the body.
static enum cli_exit change_kills_take(struct cli *cli, const char *path, json_t *body,
                                       const char *said)
{
    json_t *answer = NULL;

    if (!cli_given(cli, CLI_OPTION_REASON)) {
        json_decref(body);
        return cli_fail(CLI_EXIT_USAGE, "--reason TEXT is missing: the audit log keeps it");
    }
    cli_add_who(cli, body);
    enum cli_exit code = cli_api_call(cli, "POST", path, body, &answer);
    json_decref(body);
    if (code == CLI_EXIT_OK && !cli->json) {
        printf("%s %s\n", cli->args[0], said);
        json_decref(answer);
        return code;
    }
    return cli_show_take(code, answer);
}

enum cli_exit cli_release_kill(struct cli *cli)
{
    return change_kills_take(cli, "/api/v1/kills", json_pack("{s:s}", "manifest", cli->args[0]),
                             "is on the kill list");
}

enum cli_exit cli_release_unkill(struct cli *cli)
{
    char path[128];

    int size = snprintf(path, sizeof(path), "/api/v1/kills/%s/lift", cli->args[0]);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        return cli_fail(CLI_EXIT_USAGE, "a version is named by 64 hex digits");
    }
    return change_kills_take(cli, path, json_object(), "is on the kill list no more");
}

// ---- Showing it

static void print_rollouts(const json_t *kill)
{
    const json_t *rollouts = json_object_get(kill, "rollouts");
    uint64_t count = cli_json_u64(kill, "rollout_count");
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)rollouts, index, item)
    {
        printf("%s%s", index == 0 ? "    it ended rollout " : ", ",
               cli_shown(json_string_value(item)));
    }
    if (count > json_array_size(rollouts)) {
        printf(" and %llu more", (unsigned long long)(count - json_array_size(rollouts)));
    }
    if (count > 0) {
        putchar('\n');
    }
}

static void print_kill(const json_t *kill)
{
    const char *task = cli_json_text(kill, "task", NULL);
    const char *by = cli_json_text(kill, "by", "");

    printf("%s  ", cli_json_text(kill, "manifest", "?"));
    if (task != NULL) {
        printf("%s %s\n", task, cli_json_text(kill, "version", "(not registered)"));
    } else {
        puts("of no task here");
    }
    printf("    killed %s by %s: %s\n", cli_json_text(kill, "time", "?"), by[0] != '\0' ? by : "?",
           cli_json_text(kill, "reason", ""));
    print_rollouts(kill);
    if (!json_is_true(json_object_get(kill, "signed"))) {
        puts("    not in the timestamp: a device that has it hears of it at its next check-in");
    }
}

enum cli_exit cli_release_kills(struct cli *cli)
{
    json_t *page = NULL;
    size_t index;
    json_t *kill;
    enum cli_exit code = cli_api_page(cli, "/api/v1/kills", &page);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, kill)
    {
        print_kill(kill);
    }
    const char *next = cli_json_text(page, "next", NULL);
    if (next != NULL) {
        printf("more: --after %s\n", next);
    } else if (json_array_size(json_object_get(page, "items")) == 0) {
        puts("no version is killed");
    }
    json_decref(page);
    return CLI_EXIT_OK;
}
