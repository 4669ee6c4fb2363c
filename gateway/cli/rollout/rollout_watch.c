// Live view of a rollout: polls the gateway until the rollout ends or --timeout passes. Called by
// cli_release.c, cli_rollout.c and rollout_begin.c; one thread. On a terminal the picture of
// rollout_show.c is drawn over the last one; elsewhere a line comes when something changed, so a
// log stays short.
#include "cli/rollout/rollout_watch.h"

#include "base/text/terminal.h"

#include "base/clock.h"
#include "cli/base/cli_json.h"
#include "cli/rollout/rollout_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_EVERY_MS  500
#define WATCH_RETRIES   20 // polls in a row that may find no gateway (it may be restarting)
#define WATCH_TIMEOUT_S (30u * 24 * 3600)

struct watch {
    bool terminal;
    unsigned drawn; // lines on the screen to draw over
    char *last;     // the line printed last
};

static void draw(struct watch *watch, const json_t *rollout)
{
    if (watch->drawn > 0) {
        char move[32];
        (void)snprintf(move, sizeof(move), "\033[%uA\033[J", watch->drawn);
        base_terminal_control(stdout, move);
    }
    watch->drawn = rollout_show(stdout, rollout);
    fflush(stdout);
}

static void print_change(struct watch *watch, const json_t *rollout)
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&line, &size);

    if (file == NULL) {
        return;
    }
    rollout_show_line(file, rollout);
    fclose(file);
    if (watch->last == NULL || strcmp(watch->last, line) != 0) {
        fputs(line, stdout);
        fflush(stdout);
        free(watch->last);
        watch->last = line;
        return;
    }
    free(line);
}

static void show(const struct cli *cli, struct watch *watch, const json_t *rollout)
{
    if (cli->json) {
        return;
    }
    if (watch->terminal) {
        draw(watch, rollout);
    } else {
        print_change(watch, rollout);
    }
}

static void pause_between(void)
{
    const struct timespec wait = {.tv_sec = 0, .tv_nsec = WATCH_EVERY_MS * 1000000L};

    (void)nanosleep(&wait, NULL);
}

// --until: does the guard behind the last stage belong to it?
static enum cli_exit read_until(const struct cli *cli, bool *out_completed)
{
    const char *until = cli->values[CLI_OPTION_UNTIL];

    *out_completed = until != NULL && strcmp(until, "completed") == 0;
    return until == NULL || *out_completed || strcmp(until, "full") == 0
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "--until: full or completed");
}

static enum cli_exit follow(const struct cli *cli, const char *path, uint64_t deadline_us,
                            struct watch *watch)
{
    unsigned misses = 0;
    bool completed = false;
    enum cli_exit usage = read_until(cli, &completed);

    if (usage != CLI_EXIT_OK) {
        return usage;
    }

    for (;;) {
        json_t *rollout = NULL;
        enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &rollout);
        if (code == CLI_EXIT_OK) {
            misses = 0;
            bool over = rollout_is_over(rollout, completed);
            show(cli, watch, rollout);
            if (over && cli->json) {
                cli_json_print(rollout);
            }
            code = rollout_exit(rollout);
            json_decref(rollout);
            if (over) {
                return code;
            }
        } else if (code != CLI_EXIT_UNREACHABLE || ++misses > WATCH_RETRIES) {
            return code;
        }
        if (base_clock_mono_us() > deadline_us) {
            return cli_fail(CLI_EXIT_TIMEOUT, "--timeout: the rollout has not ended yet");
        }
        pause_between();
    }
}

enum cli_exit rollout_watch(const struct cli *cli, const char *id)
{
    char path[CLI_PATH_MAX] = "/api/v1/rollouts/";
    struct watch watch = {.terminal = isatty(STDOUT_FILENO) == 1};
    uint64_t timeout_s = 0;
    enum cli_exit code =
        cli_option_u64(cli, CLI_OPTION_TIMEOUT, WATCH_TIMEOUT_S, WATCH_TIMEOUT_S, &timeout_s);

    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (!cli_path_add(path, sizeof(path), id)) {
        return cli_fail(CLI_EXIT_USAGE, "rollout id too long");
    }
    code = follow(cli, path, base_clock_mono_us() + timeout_s * 1000000, &watch);
    free(watch.last);
    return code;
}
