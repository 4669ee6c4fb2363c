// Which version is meant, asked from the gateway. Called by `rollout plan` and `rollout start`; one
// thread. Both are in cli_release.c; cli_id.c asks for the version whose manifest begins as typed.
// A build folder says which version it is, but the gateway has to know it: what is not registered
// is refused before anything is signed.
#include "cli/task/rollout_version.h"

#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_pages.h"
#include "cli/task/task_build.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 5 // of several that begin so, or go by one number

// What the gateway registered under out->manifest.
static enum cli_exit read_registered(const struct cli *cli, const char *task,
                                     struct rollout_version *out)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    char manifest[WIRE_SHA256_HEX + 1];
    json_t *version = NULL;

    if (!cli_path_add(path, sizeof(path) - 96, task)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    wire_sha256_hex(&out->manifest, manifest);
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions/%.64s", manifest);
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &version);
    out->manifest_bytes = cli_json_u64(version, "manifest_bytes");
    (void)snprintf(out->number, sizeof(out->number), "%s", cli_json_text(version, "version", ""));
    json_decref(version);
    return code;
}

// Which of a task's versions is looked for, and what was found.
struct search {
    const char *text; // its number, or how its manifest begins
    bool by_manifest;
    uint32_t found;
    bool without_v; // it is there but for the 'v', which git tags have and versions do not
    struct wire_sha256 manifest;
    char named[NAMED_MAX * (WIRE_SHA256_HEX + 2) + 1]; // the manifests found first
};

static void look_at(struct search *search, const json_t *item)
{
    const char *number = cli_json_text(item, "version", "");
    const char *manifest = cli_json_text(item, "manifest", "");
    bool is_it = search->by_manifest ? strncmp(manifest, search->text, strlen(search->text)) == 0
                                     : strcmp(number, search->text) == 0;

    if (is_it && wire_sha256_parse(base_str_of(manifest), &search->manifest) == BASE_OK) {
        size_t used = strlen(search->named);
        if (search->found < NAMED_MAX) {
            (void)snprintf(search->named + used, sizeof(search->named) - used, "%s%.64s",
                           used > 0 ? ", " : "", manifest);
        }
        search->found++;
    }
    search->without_v =
        search->without_v || (search->text[0] == 'v' && strcmp(number, search->text + 1) == 0);
}

// Page by page, to the last: a manifest may begin like another, or have the number of another.
static enum cli_exit search_versions(const struct cli *cli, const char *task, struct search *search)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    char after[WIRE_SHA256_HEX + 1] = "";
    struct cli_pages pages = {0};
    bool more = true;
    enum cli_exit code = CLI_EXIT_OK;

    if (!cli_path_add(path, sizeof(path) - 128, task)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    size_t prefix = strlen(path);
    while (code == CLI_EXIT_OK && more) {
        json_t *page = NULL;
        size_t index;
        json_t *item;
        (void)snprintf(path + prefix, sizeof(path) - prefix, "/versions?limit=500%s%s",
                       after[0] != '\0' ? "&after=" : "", after);
        code = cli_api_call(cli, "GET", path, NULL, &page);
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            look_at(search, item);
        }
        (void)snprintf(after, sizeof(after), "%s", cli_json_text(page, "next", ""));
        more = after[0] != '\0';
        json_decref(page);
        code = code == CLI_EXIT_OK && more ? cli_pages_next(cli, &pages, after) : code;
    }
    return code;
}

// The manifest of a registered version by its number.
static enum cli_exit find_version(const struct cli *cli, const char *task, const char *version,
                                  struct wire_sha256 *out)
{
    struct search search = {.text = version};
    enum cli_exit code = search_versions(cli, task, &search);

    if (code == CLI_EXIT_OK && search.found == 0 && search.without_v) {
        return find_version(cli, task, version + 1, out);
    }
    if (code == CLI_EXIT_OK && search.found == 0) {
        return cli_fail(CLI_EXIT_REFUSED, "task %s has no version %s; push it first", task,
                        version);
    }
    if (code == CLI_EXIT_OK && search.found > 1) { // which one is meant is not for us to guess
        return cli_fail(CLI_EXIT_USAGE,
                        "task %s has %u versions %s, with other content each: --manifest names "
                        "one of %s%s",
                        task, search.found, version, search.named,
                        search.found > NAMED_MAX ? " ..." : "");
    }
    *out = search.manifest;
    return code;
}

void rollout_version_warn_twins(const struct cli *cli, const char *task, const char *version,
                                const struct wire_sha256 *manifest)
{
    struct search search = {.text = version};
    char own[WIRE_SHA256_HEX + 1];

    if (search_versions(cli, task, &search) != CLI_EXIT_OK || search.found < 2) {
        return;
    }
    wire_sha256_hex(manifest, own);
    fprintf(stderr,
            "walle: warning: %s has %u versions %s now, with other content each: this one is "
            "--manifest %.12s, --version names none of them. A number of its own in task.json (or "
            "a tag) tells them apart\n",
            task, search.found, version, own);
}

// All tasks, page by page.
static enum cli_exit search_tasks(const struct cli *cli, struct search *search)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks?limit=500";
    size_t prefix = strlen(path);
    struct cli_pages pages = {0};
    bool more = true;
    enum cli_exit code = CLI_EXIT_OK;

    while (code == CLI_EXIT_OK && more) {
        json_t *page = NULL;
        size_t index;
        json_t *item;
        code = cli_api_call(cli, "GET", path, NULL, &page);
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            if (code == CLI_EXIT_OK) {
                code = search_versions(cli, cli_json_text(item, "name", ""), search);
            }
        }
        const char *after = cli_json_text(page, "next", "");
        more = after[0] != '\0';
        (void)snprintf(path + prefix, sizeof(path) - prefix, "&after=%.64s", after);
        code = code == CLI_EXIT_OK && more ? cli_pages_next(cli, &pages, after) : code;
        json_decref(page);
    }
    return code;
}

enum cli_exit rollout_version_of_prefix(const struct cli *cli, const char *prefix,
                                        char out[WIRE_SHA256_HEX + 1])
{
    struct search search = {.text = prefix, .by_manifest = true};
    enum cli_exit code = search_tasks(cli, &search);

    if (code == CLI_EXIT_OK && search.found == 0) {
        return cli_fail(CLI_EXIT_REFUSED,
                        "no version here begins with %s; one that the gateway does not have is "
                        "named by all 64 digits",
                        prefix);
    }
    if (code == CLI_EXIT_OK && search.found > 1) {
        return cli_fail(CLI_EXIT_USAGE, "several versions begin with %s: %s%s", prefix,
                        search.named, search.found > NAMED_MAX ? " ..." : "");
    }
    wire_sha256_hex(&search.manifest, out);
    return code;
}

// Whole, or as far as no other of the task's begins so.
static enum cli_exit find_manifest(const struct cli *cli, const char *task, const char *text,
                                   struct wire_sha256 *out)
{
    struct search search = {.text = text, .by_manifest = true};

    if (wire_sha256_parse(base_str_of(text), out) == BASE_OK) {
        return CLI_EXIT_OK;
    }
    if (text[0] == '\0' || strlen(text) >= WIRE_SHA256_HEX ||
        strspn(text, "0123456789abcdef") != strlen(text)) {
        return cli_fail(CLI_EXIT_USAGE, "--manifest takes 64 hex digits, or the first of them");
    }
    enum cli_exit code = search_versions(cli, task, &search);
    if (code == CLI_EXIT_OK && search.found != 1) {
        return cli_fail(search.found == 0 ? CLI_EXIT_REFUSED : CLI_EXIT_USAGE,
                        search.found == 0 ? "task %s has no version whose manifest begins with %s"
                                          : "several versions of task %s begin with %s",
                        task, text);
    }
    *out = search.manifest;
    return code;
}

bool rollout_version_given(const struct cli *cli)
{
    return cli_given(cli, CLI_OPTION_VERSION) || cli_given(cli, CLI_OPTION_BUILD) ||
           cli_given(cli, CLI_OPTION_MANIFEST);
}

// The build's version, which must be the task's.
static enum cli_exit take_build(const char *folder, const char *task, struct wire_sha256 *out)
{
    struct task_build build = {0};
    struct base_error error = {0};
    enum base_status status = task_build_load(folder, &build, &error);
    *out = build.manifest_digest;
    bool other = status == BASE_OK && !base_str_equal(build.manifest.task_name, base_str_of(task));

    task_build_done(&build);
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    return !other ? CLI_EXIT_OK
                  : cli_fail(CLI_EXIT_USAGE, "%s holds a version of another task than %s", folder,
                             task);
}

enum cli_exit rollout_version_choose(const struct cli *cli, const char *task,
                                     struct rollout_version *out)
{
    const char *folder = cli->values[CLI_OPTION_BUILD];
    const char *manifest = cli->values[CLI_OPTION_MANIFEST];
    const char *version = cli->values[CLI_OPTION_VERSION];
    enum cli_exit code = CLI_EXIT_OK;

    if ((folder != NULL) + (manifest != NULL) + (version != NULL) != 1) {
        return cli_fail(CLI_EXIT_USAGE,
                        "one of --version X.Y.Z, --build DIR and --manifest SHA256 is needed");
    }
    if (version != NULL) {
        code = find_version(cli, task, version, &out->manifest);
    } else if (folder != NULL) {
        code = take_build(folder, task, &out->manifest);
    } else {
        code = find_manifest(cli, task, manifest, &out->manifest);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = read_registered(cli, task, out);
    if (code == CLI_EXIT_REFUSED && folder != NULL) {
        fprintf(stderr, "  walle task push %s hands the gateway what is built there\n", folder);
    }
    return code;
}

// Is it a rollout by which this version reached everybody it was for?
static bool released_it(const json_t *rollout, const char *task, const char *version)
{
    return strcmp(cli_json_text(rollout, "task", ""), task) == 0 &&
           strcmp(cli_json_text(rollout, "version", ""), version) == 0 &&
           (strcmp(cli_json_text(rollout, "state", ""), "completed") == 0 ||
            strcmp(cli_json_text(rollout, "state", ""), "guarding") == 0);
}

enum cli_exit rollout_version_released(const struct cli *cli, const char *task, const char *version,
                                       uint64_t *out_counter)
{
    char path[CLI_PATH_MAX];
    char after[WIRE_DEVICE_HEX + 1] = "";
    struct cli_pages pages = {0};
    bool more = true;
    enum cli_exit code = CLI_EXIT_OK;

    *out_counter = 0;
    while (code == CLI_EXIT_OK && more) {
        json_t *page = NULL;
        size_t index;
        json_t *item;
        (void)snprintf(path, sizeof(path), "/api/v1/rollouts?limit=500%s%s",
                       after[0] != '\0' ? "&after=" : "", after);
        code = cli_api_call(cli, "GET", path, NULL, &page);
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            uint64_t counter = cli_json_u64(item, "release_counter");
            bool newer = released_it(item, task, version) && counter > *out_counter;
            *out_counter = newer ? counter : *out_counter;
        }
        (void)snprintf(after, sizeof(after), "%.16s", cli_json_text(page, "next", ""));
        more = after[0] != '\0';
        json_decref(page);
        code = code == CLI_EXIT_OK && more ? cli_pages_next(cli, &pages, after) : code;
    }
    return code != CLI_EXIT_OK || *out_counter > 0
               ? code
               : cli_fail(CLI_EXIT_REFUSED,
                          "version %s of task %s was never released: no rollout of "
                          "it completed",
                          version, task);
}
