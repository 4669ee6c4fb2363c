// Commands about tasks: init, build, push, list, get. One thread.
#include "cli/cli.h"
#include "cli/cli_files.h"
#include "cli/cli_http.h"
#include "cli/cli_json.h"
#include "cli/task_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUSH_ROUNDS_MAX 3 // register, upload what lacks, register: more means somebody deletes

static const char init_json[] = "{\n"
                                "  \"name\": \"%s\",\n"
                                "  \"version\": \"0.1.0\",\n"
                                "  \"entry\": \"task\",\n"
                                "  \"heap_kib\": 64,\n"
                                "  \"time_ms\": 200,\n"
                                "  \"every_s\": 0,\n"
                                "  \"config\": {\"greeting\": \"hello\"},\n"
                                "  \"files\": [\"task.py\"]\n"
                                "}\n";

static const char init_python[] =
    "# Runs on the device: MicroPython, without files or network. What the script may use:\n"
    "#   walle.config   the \"config\" object of task.json\n"
    "#   walle.device   id and attributes of the device it runs on\n"
    "#   walle.input    what the app gave, or None\n"
    "#   walle.log(...), walle.result(value)\n"
    "import walle\n"
    "\n"
    "walle.log(walle.config[\"greeting\"], \"from\", walle.device[\"id\"])\n"
    "walle.result({\"greeted\": True})\n";

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

enum cli_exit cli_task_init(struct cli *cli)
{
    const char *folder = cli->args[0];
    const char *name = last_part(folder);
    char path[CLI_PATH_MAX];
    char text[1024];
    struct base_error error = {0};

    if (!wire_task_name_ok(base_str_of(name))) {
        return cli_fail(CLI_EXIT_USAGE,
                        "'%s' is no task name: a-z 0-9 . _ -, beginning with a letter or digit",
                        name);
    }
    if (snprintf(path, sizeof(path), "%s/task.json", folder) >= CLI_PATH_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "path too long");
    }
    if (access(path, F_OK) == 0) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: there already; nothing was changed", path);
    }
    int size = snprintf(text, sizeof(text), init_json, name);
    if (cli_folder_make(folder, &error) != BASE_OK ||
        cli_file_write(path, text, (size_t)size, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    (void)snprintf(path, sizeof(path), "%s/task.py", folder);
    if (cli_file_write(path, init_python, sizeof(init_python) - 1, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, json_pack("{s:s, s:s}", "name", name, "folder", folder));
    }
    printf("%s: task.json and task.py; build it with\n  walle task build %s --out build/%s\n",
           folder, folder, name);
    return CLI_EXIT_OK;
}

static json_t *build_object(const struct task_build *build)
{
    char hex[WIRE_SHA256_HEX + 1];
    const struct wire_manifest *manifest = &build->manifest;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < manifest->file_count; ++i) {
        bytes += manifest->files[i].bytes;
    }
    wire_sha256_hex(&build->manifest_digest, hex);
    return json_pack("{s:s%, s:s%, s:s, s:I, s:I, s:I}", "name", manifest->task_name.data,
                     manifest->task_name.size, "version", manifest->version.data,
                     manifest->version.size, "manifest", hex, "manifest_bytes",
                     (json_int_t)build->manifest_size, "files", (json_int_t)manifest->file_count,
                     "files_bytes", (json_int_t)bytes);
}

// One line, or JSON; takes `root`.
static void show_build_take(const struct cli *cli, const char *verb, json_t *root)
{
    if (cli->json) {
        cli_json_print(root);
    } else {
        printf("%s %s %s: %llu files, %llu bytes, manifest %s\n", verb,
               cli_json_text(root, "name", "?"), cli_json_text(root, "version", "?"),
               (unsigned long long)cli_json_u64(root, "files"),
               (unsigned long long)cli_json_u64(root, "files_bytes"),
               cli_json_text(root, "manifest", "?"));
    }
    json_decref(root);
}

enum cli_exit cli_task_build(struct cli *cli)
{
    const char *out_folder = cli->values[CLI_OPTION_OUT];
    struct task_build build = {0};
    struct base_error error = {0};

    if (out_folder == NULL || out_folder[0] == '\0') {
        return cli_fail(CLI_EXIT_USAGE, "--out DIR is missing: where the built version goes");
    }
    enum base_status status =
        task_build_make(cli->args[0], out_folder, cli->values[CLI_OPTION_VERSION], &build, &error);
    if (status != BASE_OK) {
        task_build_done(&build);
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    show_build_take(cli, "built", build_object(&build));
    task_build_done(&build);
    return CLI_EXIT_OK;
}

// ---- Push

static enum cli_exit put_blob(const struct cli *cli, const char *folder, const char *hex)
{
    char path[CLI_PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct base_error error = {0};
    struct cli_answer answer = {0};

    if (snprintf(path, sizeof(path), "%s/blobs/%.64s", folder, hex) >= CLI_PATH_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "path too long");
    }
    if (cli_file_read(path, TASK_BUILD_FILE_MAX, &bytes, &size, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s (the gateway asks for this blob)", error.text);
    }
    (void)snprintf(path, sizeof(path), "/api/v1/blobs/%.64s", hex);
    struct cli_call call = {.method = "PUT",
                            .path = path,
                            .content_type = "application/octet-stream",
                            .body = bytes,
                            .body_bytes = size};
    enum cli_exit code = cli_http_call(cli, &call, &answer);
    free(bytes);
    if (code == CLI_EXIT_OK && answer.status >= 400) {
        json_t *problem =
            json_loadb(answer.body_bytes > 0 ? answer.body : "", answer.body_bytes, 0, NULL);
        code = cli_fail(CLI_EXIT_REFUSED, "blob %.12s… refused (%ld): %s", hex, answer.status,
                        cli_json_text(problem, "detail", "no detail"));
        json_decref(problem);
    }
    cli_answer_done(&answer);
    return code;
}

static enum cli_exit put_missing(const struct cli *cli, const char *folder, const json_t *answer,
                                 uint64_t *uploaded)
{
    const json_t *missing = json_object_get(answer, "missing");
    size_t index;
    json_t *item;

    if (json_array_size(missing) == 0) {
        return cli_fail(CLI_EXIT_REFUSED, "%s refused (409): %s", cli_http_gateway(cli),
                        cli_json_text(answer, "detail", "conflict"));
    }
    json_array_foreach(missing, index, item)
    {
        const char *hex = json_string_value(item);
        struct wire_sha256 digest;
        if (hex == NULL || wire_sha256_parse(base_str_of(hex), &digest) != BASE_OK) {
            return cli_fail(CLI_EXIT_REFUSED, "the gateway's list of missing blobs is garbled");
        }
        enum cli_exit code = put_blob(cli, folder, hex);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        *uploaded += 1;
    }
    return CLI_EXIT_OK;
}

static enum cli_exit register_version(const struct cli *cli, const char *folder,
                                      const struct task_build *build, uint64_t *uploaded)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    char name[WIRE_TASK_NAME_MAX + 1];
    char hex[WIRE_SHA256_HEX + 1];

    (void)snprintf(name, sizeof(name), "%.*s", (int)build->manifest.task_name.size,
                   build->manifest.task_name.data);
    wire_sha256_hex(&build->manifest_digest, hex);
    json_t *task = json_pack("{s:s}", "name", name);
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/tasks", task, NULL);
    json_decref(task);
    if (code != CLI_EXIT_OK || !cli_path_add(path, sizeof(path), name)) {
        return code;
    }
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions");
    json_t *body = json_pack("{s:s}", "manifest", hex);
    for (int round = 0; round < PUSH_ROUNDS_MAX && code == CLI_EXIT_OK; ++round) {
        json_t *answer = NULL;
        long status = 0;
        code = cli_api_try(cli, "POST", path, body, 409, &status, &answer);
        if (code == CLI_EXIT_OK && status != 409) {
            json_decref(answer);
            json_decref(body);
            return CLI_EXIT_OK;
        }
        if (code == CLI_EXIT_OK) {
            code = put_missing(cli, folder, answer, uploaded);
        }
        json_decref(answer);
    }
    json_decref(body);
    return code != CLI_EXIT_OK ? code
                               : cli_fail(CLI_EXIT_REFUSED, "blobs keep being missing; gave up");
}

enum cli_exit cli_task_push(struct cli *cli)
{
    struct task_build build = {0};
    struct base_error error = {0};
    uint64_t uploaded = 0;

    if (task_build_load(cli->args[0], &build, &error) != BASE_OK) {
        task_build_done(&build);
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    enum cli_exit code = register_version(cli, cli->args[0], &build, &uploaded);
    if (code == CLI_EXIT_OK) {
        json_t *root = build_object(&build);
        (void)json_object_set_new(root, "uploaded", json_integer((json_int_t)uploaded));
        show_build_take(cli, "pushed", root);
    }
    task_build_done(&build);
    return code;
}

// ---- Queries

enum cli_exit cli_task_list(struct cli *cli)
{
    json_t *page = NULL;
    size_t index;
    json_t *task;
    enum cli_exit code = cli_api_page(cli, "/api/v1/tasks", &page);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, page);
    }
    json_array_foreach(json_object_get(page, "items"), index, task)
    {
        const json_t *baseline = json_object_get(task, "baseline");
        const char *open = cli_json_text(task, "open_rollout", NULL);
        printf("%-24s baseline %-12s counter %-4llu%s%s\n", cli_json_text(task, "name", "?"),
               cli_json_text(baseline, "version", "none"),
               (unsigned long long)cli_json_u64(task, "release_counter"),
               open != NULL ? " rollout " : "", open != NULL ? open : "");
    }
    json_decref(page);
    return CLI_EXIT_OK;
}

enum cli_exit cli_task_get(struct cli *cli)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *task = NULL;
    json_t *versions = NULL;

    if (!cli_path_add(path, sizeof(path) - 16, cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &task);
    if (code == CLI_EXIT_OK) {
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions");
        code = cli_api_call(cli, "GET", path, NULL, &versions);
    }
    if (code == CLI_EXIT_OK) {
        (void)json_object_set(task, "versions", json_object_get(versions, "items"));
    }
    json_decref(versions);
    return cli_show_take(code, task);
}
