// Commands `release ...`: the kill list of all tenants. The table in cli_commands.c names them; one
// thread. A kill is for a version and not for a rollout, so after one the rollouts that offered it
// are told, and the devices that have nothing left (floored_warning.c). A version the gateway does
// not know may be killed too; that is said.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/rollout/floored_warning.h"

#include <stdio.h>
#include <string.h>

// One change of the kill list. Takes the body; the answer is the caller's.
static enum cli_exit change_kills_take(struct cli *cli, const char *path, json_t *body,
                                       json_t **out_answer)
{
    enum cli_exit code = cli_check_reason(cli);

    if (code == CLI_EXIT_OK) {
        cli_add_who(cli, body);
        code = cli_api_call(cli, "POST", path, body, out_answer);
    }
    json_decref(body);
    return code;
}

// ", rollouts A, B and 3 more"; nothing without any.
static void print_ids(const json_t *root, const char *before)
{
    const json_t *rollouts = json_object_get(root, "rollouts");
    uint64_t count = cli_json_u64(root, "rollout_count");
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)rollouts, index, item)
    {
        printf("%s%s%s", index == 0 ? before : ", ",
               index > 0    ? ""
               : count == 1 ? "rollout "
                            : "rollouts ",
               cli_shown(json_string_value(item)));
    }
    if (count > json_array_size(rollouts)) {
        printf(" and %llu more", (unsigned long long)(count - json_array_size(rollouts)));
    }
}

// A hash that is nobody's is mostly a slip: the kill stands, since the version may come yet.
static void warn_of_unknown(const json_t *kill)
{
    if (json_is_null(json_object_get(kill, "task"))) {
        fputs("walle: warning: no release here has it, and no version that was pushed: is the hash "
              "right?\n  walle task get TASK lists those of a task; walle release unkill takes it "
              "off again\n",
              stderr);
    } else if (cli_json_u64(kill, "rollout_count") == 0) {
        fputs("walle: warning: it ended nothing: no rollout of it is open or completed\n", stderr);
    }
}

enum cli_exit cli_release_kill(struct cli *cli)
{
    json_t *kill = NULL;
    enum cli_exit code = change_kills_take(cli, "/api/v1/kills",
                                           json_pack("{s:s}", "manifest", cli->args[0]), &kill);

    if (code == CLI_EXIT_OK) {
        warn_of_unknown(kill);
        floored_warning(cli, json_string_value(json_object_get(kill, "task")));
    }
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, kill);
    }
    printf("%s", cli->args[0]);
    if (json_is_string(json_object_get(kill, "task"))) {
        printf(" (%s %s)", cli_json_text(kill, "task", "?"),
               cli_json_text(kill, "version", "(not registered)"));
    }
    bool already = json_is_true(json_object_get(kill, "already"));
    fputs(already ? " is on the kill list already" : " is on the kill list", stdout);
    print_ids(kill, "; it ended ");
    putchar('\n');
    if (already) { // said twice, for reasons that may differ
        printf("the kill of %s by %s stands: %s\nyour reason is in the audit log\n",
               cli_json_text(kill, "time", "?"), cli_json_text(kill, "by", "?"),
               cli_json_text(kill, "reason", ""));
    }
    json_decref(kill);
    return CLI_EXIT_OK;
}

static void print_floored(uint64_t floored)
{
    if (floored > 0) {
        printf("; %llu more do%s not: a release with a floor above it ran well there",
               (unsigned long long)floored, floored == 1 ? "es" : "");
    }
}

enum cli_exit cli_release_unkill(struct cli *cli)
{
    char path[128];

    int size = snprintf(path, sizeof(path), "/api/v1/kills/%s/lift", cli->args[0]);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        return cli_fail(CLI_EXIT_USAGE, "a version is named by 64 hex digits");
    }
    json_t *back = NULL;
    enum cli_exit code = change_kills_take(cli, path, json_object(), &back);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, back);
    }
    uint64_t devices = cli_json_u64(back, "devices");
    printf("%s is on the kill list no more", cli->args[0]);
    print_ids(back, "; a baseline again by ");
    if (cli_json_u64(back, "rollout_count") > 0) {
        printf(": %llu known device%s that had it go%s back to it", (unsigned long long)devices,
               devices == 1 ? "" : "s", devices == 1 ? "es" : "");
        print_floored(cli_json_u64(back, "floored"));
    } else {
        fputs("; no device goes back to it", stdout);
    }
    putchar('\n');
    json_decref(back);
    return CLI_EXIT_OK;
}

// ---- Showing it

static void print_rollouts(const json_t *kill)
{
    print_ids(kill, "    it ended ");
    if (cli_json_u64(kill, "rollout_count") > 0) {
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
    if (json_is_true(json_object_get(kill, "untold"))) {
        puts(
            "    not in the timestamp, for want of a place: a device that has it is ordered off at "
            "its next check-in");
    } else if (!json_is_true(json_object_get(kill, "signed"))) {
        puts("    not in the timestamp: no device can have it");
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
