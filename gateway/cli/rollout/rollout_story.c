// The turning point of a rollout, from its log. Called by cli_rollout.c for `rollout explain`; one
// thread. The log is read because the rollout's own reason is overwritten by what devices do
// afterwards. Nothing is said of a rollout that runs.
#include "cli/rollout/rollout_story.h"

#include "cli/base/cli_json.h"
#include "cli/base/cli_pages.h"
#include "cli/rollout/rollout_show.h"

#include <inttypes.h>
#include <string.h>

#define PAGE_LIMIT 500

// What leads there is told; devices coming back lead nowhere else.
static const char *turn_word(const char *state)
{
    static const struct {
        const char *state;
        const char *word;
    } turns[] = {{"rolling_back", "It went back"},
                 {"paused", "It was paused"},
                 {"guarding", "Its last stage was over"},
                 {"completed", "It completed"}};

    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); ++i) {
        if (strcmp(state, turns[i].state) == 0) {
            return turns[i].word;
        }
    }
    return NULL;
}

// The last line that led to another state, but those that only end a way back. Takes `before`.
static json_t *last_turn_take(json_t *before, char state[32], const json_t *items)
{
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)items, index, item)
    {
        const char *after = cli_json_text(item, "state", "");
        if (strcmp(state, after) == 0) {
            continue;
        }
        (void)snprintf(state, 32, "%s", after);
        if (strcmp(after, "rolled_back") != 0) {
            json_decref(before);
            before = json_incref(item);
        }
    }
    return before;
}

static enum cli_exit find_turn(const struct cli *cli, const char *id, json_t **out_turn)
{
    char state[32] = "draft";
    uint64_t after = 0;
    bool more = true;
    enum cli_exit code = CLI_EXIT_OK;

    while (more && code == CLI_EXIT_OK) {
        char path[CLI_PATH_MAX];
        json_t *page = NULL;
        (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s/log?limit=%d&after=%" PRIu64, id,
                       PAGE_LIMIT, after);
        code = cli_api_call(cli, "GET", path, NULL, &page);
        *out_turn = last_turn_take(*out_turn, state, json_object_get(page, "items"));
        code = code == CLI_EXIT_OK ? cli_pages_after(cli, page, &after, &more) : code;
        json_decref(page);
    }
    return code;
}

static void tell(FILE *file, const json_t *rollout, const json_t *turn)
{
    const json_t *stage = json_array_get(json_object_get(rollout, "stages"),
                                         (size_t)cli_json_u64(turn, "stage_index"));
    const char *by = cli_json_text(turn, "by", "");
    const char *comment = cli_json_text(turn, "comment", "");

    fprintf(file, "%s %s, in stage %s: %s", turn_word(cli_json_text(turn, "state", "")),
            cli_json_text(turn, "time", "?"), cli_json_text(stage, "name", "?"),
            cli_json_text(turn, "reason_text", "?"));
    if (strcmp(cli_json_text(turn, "verdict", "no_data"), "no_data") != 0) {
        fputs(" (", file);
        rollout_show_failed(file, turn);
        fputc(')', file);
    }
    if (by[0] != '\0' || comment[0] != '\0') {
        fprintf(file, ", by %s%s%s", by[0] != '\0' ? by : "-", comment[0] != '\0' ? ": " : "",
                comment);
    }
    fputs(".\n", file);
}

enum cli_exit rollout_story(const struct cli *cli, FILE *file, const json_t *rollout)
{
    json_t *turn = NULL;
    enum cli_exit code = find_turn(cli, cli_json_text(rollout, "id", ""), &turn);

    if (code == CLI_EXIT_OK && turn_word(cli_json_text(turn, "state", "")) != NULL) {
        tell(file, rollout, turn);
    }
    json_decref(turn);
    return code;
}
