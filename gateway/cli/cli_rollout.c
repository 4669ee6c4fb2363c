// Commands about rollouts that exist: status, list, log, explain, and the operator's commands. The
// table in cli_commands.c names them; one thread. Starting one is rollout_begin.c. A command that
// takes a version back asks what devices have before it (floored_warning.c), for afterwards the
// gateway cannot tell what is news.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/duration.h"
#include "cli/rollout/floored_warning.h"
#include "cli/rollout/followed_warning.h"
#include "cli/rollout/present_warning.h"
#include "cli/rollout/reported_trace.h"
#include "cli/rollout/rollout_evidence.h"
#include "cli/rollout/rollout_explain.h"
#include "cli/rollout/rollout_show.h"
#include "cli/rollout/rollout_story.h"
#include "cli/rollout/rollout_watch.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum cli_exit rollout_path(const struct cli *cli, const char *tail, char out[CLI_PATH_MAX])
{
    (void)snprintf(out, CLI_PATH_MAX, "/api/v1/rollouts/");
    if (!cli_path_add(out, CLI_PATH_MAX - 32, cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "rollout id too long");
    }
    (void)snprintf(out + strlen(out), CLI_PATH_MAX - strlen(out), "%s", tail);
    return CLI_EXIT_OK;
}

enum cli_exit cli_rollout_status(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    json_t *rollout = NULL;

    if (cli_given(cli, CLI_OPTION_WATCH)) {
        return rollout_watch(cli, cli->args[0]);
    }
    enum cli_exit code = rollout_path(cli, "", path);
    if (code == CLI_EXIT_OK) {
        code = cli_api_call(cli, "GET", path, NULL, &rollout);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli->json) {
        cli_json_print(rollout);
    } else {
        followed_count(cli, rollout);
        present_count(cli, rollout);
        (void)rollout_show(stdout, rollout);
    }
    code = rollout_exit(rollout);
    json_decref(rollout);
    return code;
}

// *out_story is to free().
static enum cli_exit read_story(const struct cli *cli, const json_t *rollout, char **out_story)
{
    size_t size = 0;
    FILE *file = open_memstream(out_story, &size);

    if (file == NULL) {
        return cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    enum cli_exit code = rollout_story(cli, file, rollout);
    fclose(file);
    return code;
}

// --build: how devices failed gets the text of its lines.
static enum cli_exit trace_failures(const struct cli *cli, json_t *rollout)
{
    const char *build = cli->values[CLI_OPTION_BUILD];
    struct base_error error = {0};

    if (reported_trace_check(build, cli_json_text(rollout, "manifest", ""), &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    reported_trace_rollout(NULL, build, rollout);
    return CLI_EXIT_OK;
}

enum cli_exit cli_rollout_explain(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    json_t *rollout = NULL;
    const struct base_clock_port *clock = base_clock_real();
    enum cli_exit code = rollout_path(cli, "", path);

    if (code == CLI_EXIT_OK) {
        code = cli_api_call(cli, "GET", path, NULL, &rollout);
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_BUILD)) {
        code = trace_failures(cli, rollout);
    }
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, rollout);
    }
    char *story = NULL;
    followed_count(cli, rollout);
    present_count(cli, rollout);
    code = read_story(cli, rollout, &story);
    if (code == CLI_EXIT_OK) {
        rollout_explain(stdout, rollout, story, clock->wall_us(clock->ctx) / 1000000u);
        if (cli_given(cli, CLI_OPTION_BUILD)) {
            reported_trace_rollout(stdout, cli->values[CLI_OPTION_BUILD], rollout);
        }
    }
    free(story);
    json_decref(rollout);
    return code;
}

// The list as it is filtered.
static enum cli_exit list_path(const struct cli *cli, char out[CLI_PATH_MAX])
{
    static const struct {
        enum cli_option option;
        const char *name;
    } filters[] = {{CLI_OPTION_STATE, "state"}, {CLI_OPTION_TASK, "task"}};
    char mark = '?';

    (void)snprintf(out, CLI_PATH_MAX, "/api/v1/rollouts");
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); ++i) {
        size_t size = strlen(out);
        if (!cli_given(cli, filters[i].option)) {
            continue;
        }
        (void)snprintf(out + size, CLI_PATH_MAX - size, "%c%s=", mark, filters[i].name);
        if (!cli_path_add(out, CLI_PATH_MAX / 2, cli->values[filters[i].option])) {
            return cli_fail(CLI_EXIT_USAGE, "--%s: too long", filters[i].name);
        }
        mark = '&';
    }
    if (cli_given(cli, CLI_OPTION_NEWEST)) {
        size_t size = strlen(out);
        (void)snprintf(out + size, CLI_PATH_MAX - size, "%climit=1", mark);
    }
    return CLI_EXIT_OK;
}

enum cli_exit cli_rollout_list(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    json_t *page = NULL;
    size_t index;
    json_t *rollout;
    char made[TIME_TEXT_MAX];
    bool newest = cli_given(cli, CLI_OPTION_NEWEST);
    enum cli_exit code = list_path(cli, path);

    if (code == CLI_EXIT_OK && newest &&
        (cli_given(cli, CLI_OPTION_LIMIT) || cli_given(cli, CLI_OPTION_AFTER))) {
        code = cli_fail(CLI_EXIT_USAGE, "--newest is one: it goes without --limit and --after");
    }
    if (code == CLI_EXIT_OK) {
        code =
            newest ? cli_api_call(cli, "GET", path, NULL, &page) : cli_api_page(cli, path, &page);
    }
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, rollout)
    {
        printf("%s ", time_text(cli_json_u64(rollout, "created_s"), false, made));
        printf("%-20s %-10s ", cli_json_text(rollout, "task", "?"),
               cli_json_text(rollout, "version", "-"));
        rollout_show_line(stdout, rollout);
    }
    const char *next = cli_json_text(page, "next", NULL);
    if (next != NULL && !newest) {
        printf("more: --after %s\n", next);
    }
    json_decref(page);
    return CLI_EXIT_OK;
}

// A line of the way back that is no cause of it: devices that were under way answer still, and the
// share that failed is another than the one by which it was decided.
static bool is_after_turn(const json_t *item)
{
    const char *state = cli_json_text(item, "state", "");
    bool back = strcmp(state, "rolling_back") == 0 || strcmp(state, "rolled_back") == 0;

    return back && (strcmp(cli_json_text(item, "kind", ""), "observation") == 0 ||
                    strcmp(cli_json_text(item, "what", ""), "finish_roll_back") == 0);
}

static void print_log_line(const json_t *item)
{
    const char *what = cli_json_text(item, "what", "?");
    const char *by = cli_json_text(item, "by", "");
    const char *comment = cli_json_text(item, "comment", "");
    const char *verdict = cli_json_text(item, "verdict", "?");

    printf("%4llu %s %-10s %-16s -> %-12s stage %llu  %s %s (",
           (unsigned long long)cli_json_u64(item, "seq"), cli_json_text(item, "time", "?"),
           cli_json_text(item, "kind", "?"), strcmp(what, "hold") == 0 ? "no change" : what,
           cli_json_text(item, "state", "?"), (unsigned long long)cli_json_u64(item, "stage_index"),
           strcmp(verdict, "no_data") == 0 ? "none" : verdict, cli_json_text(item, "reason", "?"));
    rollout_show_failed(stdout, item);
    fputs(is_after_turn(item) ? ", with answers since it turned)" : ")", stdout);
    if (by[0] != '\0' || comment[0] != '\0') {
        printf("  by %s%s%s", by[0] != '\0' ? by : "-", comment[0] != '\0' ? ": " : "", comment);
    }
    putchar('\n');
}

enum cli_exit cli_rollout_log(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    json_t *page = NULL;
    size_t index;
    json_t *item;
    enum cli_exit code = rollout_path(cli, "/log", path);

    if (code == CLI_EXIT_OK) {
        code = cli_api_page(cli, path, &page);
    }
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        print_log_line(item);
    }
    json_decref(page);
    return CLI_EXIT_OK;
}

// ---- Commands

// Posts `body` (taken); *out_rollout is what the rollout is then.
static enum cli_exit post(struct cli *cli, const char *tail, json_t *body, json_t **out_rollout)
{
    char path[CLI_PATH_MAX];
    enum cli_exit code = rollout_path(cli, tail, path);

    uint64_t revision = 0;
    cli_add_who(cli, body);
    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_IF_REVISION, 0, UINT32_MAX, &revision);
    }
    if (revision > 0) {
        (void)json_object_set_new(body, "if_revision", json_integer((json_int_t)revision));
    }
    if (code == CLI_EXIT_OK) {
        code = cli_api_call(cli, "POST", path, body, out_rollout);
    }
    json_decref(body);
    return code;
}

// As above, and shows it.
static enum cli_exit show_line_take(const struct cli *cli, json_t *rollout)
{
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, rollout);
    }
    rollout_show_line(stdout, rollout);
    json_decref(rollout);
    return CLI_EXIT_OK;
}

static enum cli_exit post_take(struct cli *cli, const char *tail, json_t *body)
{
    json_t *rollout = NULL;
    enum cli_exit code = post(cli, tail, body, &rollout);

    return code == CLI_EXIT_OK ? show_line_take(cli, rollout) : cli_show_take(code, rollout);
}

enum cli_exit cli_rollout_pause(struct cli *cli)
{
    return post_take(cli, "/pause", json_object());
}

enum cli_exit cli_rollout_promote(struct cli *cli)
{
    return post_take(cli, "/promote", json_object());
}

// Takes back what devices have.
static enum cli_exit take_back(struct cli *cli, const char *tail)
{
    json_t *rollout = NULL;
    json_t *before = floored_before(cli, cli->args[0]);
    enum cli_exit code = post(cli, tail, json_object(), &rollout);

    if (code == CLI_EXIT_OK) {
        floored_warning_of(cli, rollout, before);
        present_kept_warning(cli, rollout);
    }
    json_decref(before);
    return code == CLI_EXIT_OK ? show_line_take(cli, rollout) : cli_show_take(code, rollout);
}

enum cli_exit cli_rollout_abort(struct cli *cli)
{
    enum cli_exit code = cli_check_reason(cli);

    return code == CLI_EXIT_OK ? take_back(cli, "/abort") : code;
}

enum cli_exit cli_rollout_approve(struct cli *cli)
{
    return post_take(cli, "/approve", json_object());
}

enum cli_exit cli_rollout_undo(struct cli *cli)
{
    enum cli_exit code = cli_check_reason(cli);

    return code == CLI_EXIT_OK ? take_back(cli, "/undo") : code;
}

enum cli_exit cli_rollout_lift(struct cli *cli)
{
    if (!cli_given(cli, CLI_OPTION_SEGMENT)) {
        return cli_fail(CLI_EXIT_USAGE, "--segment TEXT is needed (walle rollout status shows it)");
    }
    return post_take(cli, "/lift", json_pack("{s:s}", "segment", cli->values[CLI_OPTION_SEGMENT]));
}

enum cli_exit cli_rollout_kill(struct cli *cli)
{
    enum cli_exit code = cli_check_reason(cli);

    return code == CLI_EXIT_OK ? take_back(cli, "/kill") : code;
}

enum cli_exit cli_rollout_resume(struct cli *cli)
{
    json_t *body = json_object();

    if (cli_given(cli, CLI_OPTION_ACCEPT_RISK)) {
        if (!cli_gives_reason(cli)) {
            json_decref(body);
            return cli_fail(CLI_EXIT_USAGE, "--accept-risk needs --reason TEXT: it is kept");
        }
        (void)json_object_set_new(body, "accept_risk", json_true());
    }
    return post_take(cli, "/resume", body);
}

// Numbers that somebody types.
static enum cli_exit post_override(struct cli *cli)
{
    uint64_t completed = 0;
    uint64_t failed = 0;
    enum cli_exit code;

    if (!cli_gives_reason(cli)) {
        return cli_fail(CLI_EXIT_USAGE, "--override needs --reason TEXT: it is kept");
    }
    if (!cli_given(cli, CLI_OPTION_COMPLETED) || !cli_given(cli, CLI_OPTION_FAILED)) {
        return cli_fail(CLI_EXIT_USAGE, "--completed N and --failed M are both needed");
    }
    if ((code = cli_option_u64(cli, CLI_OPTION_COMPLETED, 0, UINT32_MAX, &completed)) !=
            CLI_EXIT_OK ||
        (code = cli_option_u64(cli, CLI_OPTION_FAILED, 0, UINT32_MAX, &failed)) != CLI_EXIT_OK) {
        return code;
    }
    if (failed > completed) {
        return cli_fail(CLI_EXIT_USAGE, "--failed is more than --completed");
    }
    code = post_take(cli, "/simulation",
                     json_pack("{s:I, s:I, s:b}", "completed", (json_int_t)completed, "failed",
                               (json_int_t)failed, "override", 1));
    if (code == CLI_EXIT_OK) {
        fprintf(stderr, "it counts once another person approved it: walle rollout approve %s\n",
                cli->args[0]);
    }
    return code;
}

// Exits as `rollout status` does: evidence of failures is taken, and ends the rollout.
static enum cli_exit post_evidence_take(struct cli *cli, json_t *body)
{
    json_t *rollout = NULL;
    enum cli_exit code = post(cli, "/simulation", body, &rollout);

    if (code != CLI_EXIT_OK) {
        json_decref(rollout);
        return code;
    }
    if (cli->json) {
        cli_json_print(rollout);
    } else {
        rollout_show_line(stdout, rollout);
        (void)rollout_show_simulation(stdout, rollout);
    }
    code = rollout_exit(rollout);
    json_decref(rollout);
    return code;
}

enum cli_exit cli_rollout_simulation(struct cli *cli)
{
    json_t *body = NULL;

    if (cli_given(cli, CLI_OPTION_OVERRIDE)) {
        return post_override(cli);
    }
    if (!cli_given(cli, CLI_OPTION_EVIDENCE)) {
        return cli_fail(
            CLI_EXIT_USAGE,
            "--evidence FILE is needed (walle-fleet-sim simulate --evidence writes it); "
            "or --override --completed N --failed M --reason TEXT");
    }
    enum cli_exit code = rollout_evidence_load(cli->values[CLI_OPTION_EVIDENCE], &body);
    return code == CLI_EXIT_OK ? post_evidence_take(cli, body) : code;
}
