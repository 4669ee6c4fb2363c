// Commands `model ...`: versions of models in the gateway's store, and their release in stages. The
// table in cli_commands.c names them; one thread. Each is one call below /v2/repository/models,
// which walle-infer answers as well; what a stage means is decided there (infer/release).
#include "cli/base/cli.h"
#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODELS_PATH       "/v2/repository/models"
#define MODEL_BYTES_MAX   ((size_t)1 << 30)
#define MODEL_WATCH_MS    500
#define MODEL_WATCH_S_MAX (30u * 24 * 3600)
#define MODEL_MISSES_MAX  20u // looks in a row that may find no gateway

// MODELS_PATH/NAME and what stands behind it. False: said on standard error.
static bool path_of(const struct cli *cli, const char *more, const char *version, const char *last,
                    char out[CLI_PATH_MAX])
{
    char path[CLI_PATH_MAX] = MODELS_PATH "/";
    bool fits = cli_path_add(path, sizeof(path) - 64, cli->args[0]);
    size_t size = strlen(path);
    fits = fits && (size_t)snprintf(path + size, sizeof(path) - size, "%s", more) < 60;
    fits = fits && (version == NULL || cli_path_add(path, sizeof(path) - 64, version));
    if (!fits) {
        (void)cli_fail(CLI_EXIT_USAGE, "a name that long no model has");
        return false;
    }
    (void)snprintf(out, CLI_PATH_MAX, "%.*s%s", CLI_PATH_MAX - 32, path, last);
    return true;
}

// --version, which must be there.
static const char *version_given(const struct cli *cli)
{
    const char *version = cli->values[CLI_OPTION_VERSION];
    if (version == NULL) {
        (void)cli_fail(CLI_EXIT_USAGE, "--version N is missing: a number from 1");
    }
    return version;
}

// ---- Showing

static void print_versions(const json_t *model)
{
    const json_t *loaded = json_object_get(model, "loaded");
    const json_t *stored = json_object_get(model, "stored");
    size_t index;
    json_t *item;
    fputs("  loaded", stdout);
    json_array_foreach((json_t *)(uintptr_t)loaded, index, item)
    {
        printf(" %s", cli_shown(json_string_value(item)));
    }
    if (json_array_size(loaded) == 0) {
        fputs(" none", stdout);
    }
    json_array_foreach((json_t *)(uintptr_t)stored, index, item)
    {
        printf("%s%llu", index == 0 ? ", in the store " : " ",
               (unsigned long long)cli_json_u64(item, "version"));
    }
}

static void print_release_line(const json_t *release)
{
    printf("version %llu %s, stage %llu of %llu",
           (unsigned long long)cli_json_u64(release, "candidate"),
           cli_json_text(release, "state", "?"), (unsigned long long)cli_json_u64(release, "stage"),
           (unsigned long long)cli_json_u64(release, "stage_count"));
}

enum cli_exit cli_model_list(struct cli *cli)
{
    json_t *list = NULL;
    enum cli_exit code = cli_api_call(cli, "GET", MODELS_PATH, NULL, &list);
    size_t index;
    json_t *model;

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, list);
    }
    json_array_foreach(list, index, model)
    {
        const json_t *release = json_object_get(model, "release");
        printf("%s: serves %llu\n", cli_json_text(model, "model", "?"),
               (unsigned long long)cli_json_u64(model, "serving"));
        print_versions(model);
        if (json_is_object(release)) {
            fputs("; release of ", stdout);
            print_release_line(release);
        }
        putchar('\n');
    }
    json_decref(list);
    return code;
}

// Of how many callers the calls are, where each may count so often.
static void print_callers(uint64_t count)
{
    if (count > 0) {
        printf(", of %llu caller%s so far", (unsigned long long)count, count == 1 ? "" : "s");
    }
}

static void print_questions(const json_t *release)
{
    const json_t *questions = json_object_get(release, "questions");
    const char *name;
    json_t *answer;
    json_object_foreach((json_t *)(uintptr_t)questions, name, answer)
    {
        printf("  %-7s %s, %llu of %llu calls", cli_shown(name),
               cli_json_text(answer, "verdict", "?"),
               (unsigned long long)cli_json_u64(answer, "bad"),
               (unsigned long long)cli_json_u64(answer, "calls"));
        print_callers(cli_json_u64(answer, "callers"));
        if (cli_json_u64(answer, "serving_calls") > 0) {
            printf("; of the serving version %llu of %llu",
                   (unsigned long long)cli_json_u64(answer, "serving_bad"),
                   (unsigned long long)cli_json_u64(answer, "serving_calls"));
            print_callers(cli_json_u64(answer, "serving_callers"));
        }
        printf(" (%s)\n", cli_json_text(answer, "text", "?"));
    }
}

static void print_events(const json_t *release)
{
    const json_t *events = json_object_get(release, "events");
    size_t index;
    json_t *event;
    json_array_foreach((json_t *)(uintptr_t)events, index, event)
    {
        const char *by = cli_json_text(event, "by", "");
        printf("  stage %llu: %s%s%s%s%s\n", (unsigned long long)cli_json_u64(event, "stage"),
               cli_json_text(event, "what", "?"), by[0] != '\0' ? " by " : "", by,
               cli_json_text(event, "why", "")[0] != '\0' ? ": " : "",
               cli_json_text(event, "why", ""));
    }
}

static void print_release(const json_t *view)
{
    const json_t *release = json_object_get(view, "release");
    const json_t *shadows = json_object_get(release, "shadows");
    printf("%s: serves %llu\n", cli_json_text(view, "model", "?"),
           (unsigned long long)cli_json_u64(view, "serving"));
    if (!json_is_object(release)) {
        puts("  it has no release");
        return;
    }
    fputs("  ", stdout);
    print_release_line(release);
    printf(", beside version %llu\n", (unsigned long long)cli_json_u64(release, "from"));
    print_questions(release);
    printf("  shadows: %llu agreed, %llu differed, %llu failed, %llu dropped\n",
           (unsigned long long)cli_json_u64(shadows, "agreed"),
           (unsigned long long)cli_json_u64(shadows, "differed"),
           (unsigned long long)cli_json_u64(shadows, "failed"),
           (unsigned long long)cli_json_u64(shadows, "dropped"));
    uint64_t uncounted = cli_json_u64(json_object_get(release, "seen"), "uncounted");
    if (uncounted > 0) {
        printf("  not counted, of callers that had counted as often as they may: %llu\n",
               (unsigned long long)uncounted);
    }
    print_events(release);
}

// ---- Following a release

static bool is_over(const char *state)
{
    return strcmp(state, "completed") == 0 || strcmp(state, "rolled_back") == 0;
}

static enum cli_exit exit_of(const char *state)
{
    return strcmp(state, "rolled_back") == 0 || strcmp(state, "rolling_back") == 0 ? CLI_EXIT_FAILED
                                                                                   : CLI_EXIT_OK;
}

static void print_change(const json_t *release, char last[128])
{
    char now[128];
    (void)snprintf(now, sizeof(now), "%s %llu", cli_json_text(release, "state", "?"),
                   (unsigned long long)cli_json_u64(release, "stage"));
    if (strcmp(now, last) != 0) {
        print_release_line(release);
        putchar('\n');
        fflush(stdout);
        memcpy(last, now, sizeof(now));
    }
}

// Until the release is over.
static enum cli_exit follow(const struct cli *cli, const char *path)
{
    const struct timespec wait = {.tv_nsec = MODEL_WATCH_MS * 1000000L};
    uint64_t timeout_s = 0;
    unsigned misses = 0;
    char last[128] = "";
    enum cli_exit code =
        cli_option_u64(cli, CLI_OPTION_TIMEOUT, MODEL_WATCH_S_MAX, MODEL_WATCH_S_MAX, &timeout_s);
    uint64_t deadline_us = base_clock_mono_us() + timeout_s * 1000000;
    while (code == CLI_EXIT_OK) {
        json_t *view = NULL;
        code = cli_api_call(cli, "GET", path, NULL, &view);
        const json_t *release = json_object_get(view, "release");
        const char *state = cli_json_text(release, "state", "");
        bool over = code == CLI_EXIT_OK && (is_over(state) || !json_is_object(release));
        if (code == CLI_EXIT_OK && !cli->json) {
            print_change(release, last);
        }
        if (over) {
            code = exit_of(state);
            if (cli->json) {
                cli_json_print(view);
            } else {
                print_release(view);
            }
            json_decref(view);
            return code;
        }
        misses = code == CLI_EXIT_UNREACHABLE ? misses + 1 : 0;
        code = misses > 0 && misses <= MODEL_MISSES_MAX ? CLI_EXIT_OK : code;
        json_decref(view);
        if (code == CLI_EXIT_OK && base_clock_mono_us() > deadline_us) {
            return cli_fail(CLI_EXIT_TIMEOUT, "the release is not over yet");
        }
        (void)nanosleep(&wait, NULL);
    }
    return code;
}

enum cli_exit cli_model_status(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    json_t *view = NULL;

    if (!path_of(cli, "/release", NULL, "", path)) {
        return CLI_EXIT_USAGE;
    }
    if (cli_given(cli, CLI_OPTION_WATCH)) {
        return follow(cli, path);
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &view);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, view);
    }
    print_release(view);
    code = exit_of(cli_json_text(json_object_get(view, "release"), "state", ""));
    json_decref(view);
    return code;
}

// ---- Pushing

enum cli_exit cli_model_push(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct base_error error = {0};
    struct cli_answer answer = {0};
    const char *version = version_given(cli);

    if (version == NULL || !path_of(cli, "/versions/", version, "", path)) {
        return CLI_EXIT_USAGE;
    }
    if (cli_file_read(cli->args[1], MODEL_BYTES_MAX, &bytes, &size, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    const struct cli_call call = {.method = "POST",
                                  .path = path,
                                  .content_type = "application/octet-stream",
                                  .body = bytes,
                                  .body_bytes = size};
    enum cli_exit code = cli_http_call(cli, &call, &answer);
    free(bytes);
    if (code == CLI_EXIT_OK && answer.status >= 400) {
        code = cli_refused(cli, &answer);
    }
    if (code == CLI_EXIT_OK && !cli->json) {
        printf(
            "%s version %s is in the store; it answers who names it, and everybody where no other "
            "version serves\n",
            cli->args[0], version);
    } else if (code == CLI_EXIT_OK) {
        puts("{}");
    }
    cli_answer_done(&answer);
    return code;
}

// ---- Changes

// POST of `body` (taken) to `path`; what was done is said.
static enum cli_exit post_take(struct cli *cli, const char *path, json_t *body, const char *done)
{
    json_t *answer = NULL;
    const char *reason = cli->values[CLI_OPTION_REASON];
    if (reason != NULL) {
        (void)json_object_set_new(body, "reason", json_string(reason));
    }
    enum cli_exit code = cli_api_call(cli, "POST", path, body, &answer);
    json_decref(body);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, answer);
    }
    json_decref(answer);
    printf("%s: %s\n", cli->args[0], done);
    return code;
}

enum cli_exit cli_model_remove(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    const char *version = version_given(cli);

    if (version == NULL || !path_of(cli, "/versions/", version, "/remove", path)) {
        return CLI_EXIT_USAGE;
    }
    return post_take(cli, path, json_object(), "the version is gone");
}

// --stages: a list of stages, or an object with "stages" and "tolerance".
static enum cli_exit add_stages(const struct cli *cli, json_t *body)
{
    const char *path = cli->values[CLI_OPTION_STAGES];
    struct base_error error = {0};
    json_t *root = NULL;
    if (path == NULL) {
        return CLI_EXIT_OK;
    }
    if (cli_json_load(path, &root, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    bool good = json_is_array(root) ? json_object_set(body, "stages", root) == 0
                                    : json_is_object(root) && json_object_update(body, root) == 0;
    json_decref(root);
    return good ? CLI_EXIT_OK
                : cli_fail(CLI_EXIT_LOCAL, "%s: is a list of stages, or an object with them", path);
}

enum cli_exit cli_model_release(struct cli *cli)
{
    char path[CLI_PATH_MAX];
    uint64_t version = 0;

    if (version_given(cli) == NULL || !path_of(cli, "/release", NULL, "", path)) {
        return CLI_EXIT_USAGE;
    }
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_VERSION, 0, INT64_MAX, &version);
    json_t *body = json_pack("{s:I}", "version", (json_int_t)version);
    code = code == CLI_EXIT_OK ? add_stages(cli, body) : code;
    if (code != CLI_EXIT_OK) {
        json_decref(body);
        return code;
    }
    code = post_take(cli, path, body, "the release runs; walle model status shows it");
    return code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_WATCH) ? follow(cli, path) : code;
}

static enum cli_exit command(struct cli *cli, const char *word, const char *done)
{
    char path[CLI_PATH_MAX];
    json_t *body = json_object();

    if (!path_of(cli, "/release", NULL, word, path)) {
        json_decref(body);
        return CLI_EXIT_USAGE;
    }
    if (cli_given(cli, CLI_OPTION_ACCEPT_RISK)) {
        (void)json_object_set_new(body, "accept_risk", json_true());
    }
    return post_take(cli, path, body, done);
}

enum cli_exit cli_model_pause(struct cli *cli)
{
    return command(cli, "/pause", "paused; the version that served answers every call");
}

enum cli_exit cli_model_resume(struct cli *cli)
{
    return command(cli, "/resume",
                   cli_given(cli, CLI_OPTION_ACCEPT_RISK)
                       ? "goes on; past a failed stage the next is open, any other is measured anew"
                       : "goes on; the open stage is measured anew");
}

enum cli_exit cli_model_promote(struct cli *cli)
{
    return command(cli, "/promote", "the next stage is open");
}

enum cli_exit cli_model_abort(struct cli *cli)
{
    return command(cli, "/abort", "goes back to the version that served");
}
