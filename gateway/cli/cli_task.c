// Commands about tasks: init, build, push, verify, list, get. The table in cli_commands.c names
// them; one thread. A folder becomes a version in task_build.c, a git tag in task_git.c before
// that. A push asks to register the version, sends the blobs that the gateway says it lacks
// (push_blobs.c), and asks again, for a bounded number of rounds: one that was interrupted goes on
// where it was.
#include "cli/base/cli.h"
#include "base/os/folder.h"
#include "cli/base/cli_files.h"
#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "cli/task/push_blobs.h"
#include "cli/task/rollout_version.h"
#include "cli/task/task_build.h"
#include "cli/dry/build_stage.h"
#include "cli/dry/task_dry_run.h"
#include "cli/task/task_git.h"

#include "base/os/output_file.h"
#include "wire/leaves/leaves_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What lacks is learned step by step: the manifest, its files, the list of exclusive files,
// exclusive manifests, their files. More rounds mean that somebody deletes; but of exclusive files
// the gateway names only so many at a time.
#define PUSH_ROUNDS_MAX  7
#define PUSH_ROUND_BLOBS 1000

static const char init_identity[] = "  \"name\": \"%s\",\n"
                                    "  \"version\": \"0.1.0\",\n";
static const char init_json[] = "{\n"
                                "%s"
                                "  \"entry\": \"task\",\n"
                                "  \"heap_kib\": 64,\n"
                                "  \"time_ms\": 200,\n"
                                "  \"every_s\": 0,\n"
                                "  \"leaves\": {},\n"
                                "  \"config\": {\"greeting\": \"hello\"},\n"
                                "  \"files\": [\"task.py\"]\n"
                                "}\n";

static const char init_python[] =
    "# Runs on the device: MicroPython, without files or network. What the script may use:\n"
    "#   walle.config   the \"config\" object of task.json\n"
    "#   walle.device   id and attributes of the device it runs on\n"
    "#   walle.input    what the app gave, or None\n"
    "#   walle.log(...), walle.result(value)\n"
    "# \"leaves\" of task.json says what may leave the device: nothing, while it is empty.\n"
    "import walle\n"
    "\n"
    "walle.log(walle.config[\"greeting\"], \"from\", walle.device[\"id\"])\n"
    "walle.result({\"greeted\": True})\n";

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

// In a git repository branch and tag say what the task is called: task.json leaves it out.
static bool is_repository(const char *folder)
{
    char path[CLI_PATH_MAX];

    return snprintf(path, sizeof(path), "%s/.git", folder) < CLI_PATH_MAX &&
           access(path, F_OK) == 0;
}

static int init_text(const char *name, bool repository, char *out, size_t size)
{
    char identity[256] = "";

    if (!repository) {
        (void)snprintf(identity, sizeof(identity), init_identity, name);
    }
    return snprintf(out, size, init_json, identity);
}

static void init_told(const char *folder, const char *name, bool repository)
{
    if (repository) {
        printf("%s: task.json and task.py; commit and tag them, then\n"
               "  walle task push %s --tag v0.1.0\n",
               folder, folder);
    } else {
        printf("%s: task.json and task.py; build it with\n  walle task build %s --out build/%s\n",
               folder, folder, name);
    }
}

enum cli_exit cli_task_init(struct cli *cli)
{
    const char *folder = cli->args[0];
    const char *name = last_part(folder);
    char path[CLI_PATH_MAX];
    char text[1024];
    struct base_error error = {0};

    const char *fault = wire_task_name_fault(base_str_of(name));
    if (fault != NULL) {
        return cli_fail(CLI_EXIT_USAGE, "'%s' is no task name: it %s", name, fault);
    }
    if (snprintf(path, sizeof(path), "%s/task.json", folder) >= CLI_PATH_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "path too long");
    }
    if (access(path, F_OK) == 0) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: there already; nothing was changed", path);
    }
    bool repository = is_repository(folder);
    int size = init_text(name, repository, text, sizeof(text));
    if (base_folder_make(folder, &error) != BASE_OK ||
        base_output_write(path, text, (size_t)size, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    (void)snprintf(path, sizeof(path), "%s/task.py", folder);
    if (base_output_write(path, init_python, sizeof(init_python) - 1, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, json_pack("{s:s, s:s}", "name", name, "folder", folder));
    }
    init_told(folder, name, repository);
    return CLI_EXIT_OK;
}

// Does the version say what may leave devices? "nothing": it uploads nothing, and says no more.
static const char *leaves_word(struct base_str bytes)
{
    struct wire_declaration declaration;
    if (wire_leaves_declared(bytes)) {
        return "declared";
    }
    bool uploads =
        bytes.size > 0 &&
        wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &declaration) == BASE_OK &&
        declaration.upload_count > 0;
    return uploads ? "undeclared" : "nothing";
}

// What the version says of how it runs beside others; NULL: nothing.
static json_t *runs_object(struct base_str bytes)
{
    struct wire_declaration declaration;
    if (bytes.size == 0 ||
        wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &declaration) != BASE_OK ||
        !wire_declared_runs_any(&declaration.runs)) {
        return NULL;
    }
    const struct wire_declared_runs *runs = &declaration.runs;
    json_t *object = json_object();
    if (runs->priority > 0) {
        (void)json_object_set_new(object, "priority", json_integer(runs->priority - 1));
    }
    if (runs->deadline_ms > 0) {
        (void)json_object_set_new(object, "deadline_ms", json_integer(runs->deadline_ms));
    }
    if (runs->at_once > 0) {
        (void)json_object_set_new(object, "at_once", json_integer(runs->at_once));
    }
    return object;
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
    json_t *root = json_pack("{s:s%, s:s%, s:s, s:I, s:I, s:I}", "name", manifest->task_name.data,
                             manifest->task_name.size, "version", manifest->version.data,
                             manifest->version.size, "manifest", hex, "manifest_bytes",
                             (json_int_t)build->manifest_size, "files",
                             (json_int_t)manifest->file_count, "files_bytes", (json_int_t)bytes);
    if (build->exclusive.list != NULL) {
        (void)json_object_set_new(root, "exclusive",
                                  json_pack("{s:I, s:I, s:I}", "subjects",
                                            (json_int_t)build->exclusive.subject_count, "files",
                                            (json_int_t)build->exclusive.file_count, "bytes",
                                            (json_int_t)build->exclusive.files_bytes));
    }
    (void)json_object_set_new(root, "leaves", json_string(leaves_word(manifest->declaration)));
    json_t *runs = runs_object(manifest->declaration);
    if (runs != NULL) {
        (void)json_object_set_new(root, "runs", runs);
    }
    return root;
}

static void show_runs(const json_t *runs)
{
    if (runs == NULL) {
        return;
    }
    fputs("  runs:", stdout);
    if (json_object_get(runs, "priority") != NULL) {
        printf(" priority %llu;", (unsigned long long)cli_json_u64(runs, "priority"));
    }
    if (json_object_get(runs, "deadline_ms") != NULL) {
        printf(" over within %llu ms of when they are due;",
               (unsigned long long)cli_json_u64(runs, "deadline_ms"));
    }
    if (json_object_get(runs, "at_once") != NULL) {
        printf(" %llu at once;", (unsigned long long)cli_json_u64(runs, "at_once"));
    }
    fputs(" docs/DEVICE.md\n", stdout);
}

// One line, or JSON; takes `root`. Where uploads leave as they are, it is said.
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
        const json_t *exclusive = json_object_get(root, "exclusive");
        if (exclusive != NULL) {
            printf("  exclusive: %llu devices and users, %llu files, %llu bytes\n",
                   (unsigned long long)cli_json_u64(exclusive, "subjects"),
                   (unsigned long long)cli_json_u64(exclusive, "files"),
                   (unsigned long long)cli_json_u64(exclusive, "bytes"));
        }
        show_runs(json_object_get(root, "runs"));
        if (strcmp(cli_json_text(root, "leaves", ""), "undeclared") == 0) {
            fputs("  leaves devices: undeclared: uploads go as they are; \"leaves\" in task.json "
                  "says what may (docs/PIPELINE.md)\n",
                  stdout);
        }
        const json_t *dry_run = json_object_get(root, "dry_run");
        if (json_is_object(dry_run)) {
            task_dry_run_print(dry_run);
        }
    }
    json_decref(root);
}

// ---- Build, from a folder or from a tag

// What a build is made of. Zero-initialise; release with origin_done.
struct origin {
    struct task_git git;
    struct task_identity identity;
    struct task_build_options options;
};

static enum cli_exit git_options_fit(const struct cli *cli)
{
    bool needs_tag = cli_given(cli, CLI_OPTION_BRANCH) || cli_given(cli, CLI_OPTION_SCENARIO) ||
                     cli_given(cli, CLI_OPTION_FOLDER);

    return !needs_tag || cli_given(cli, CLI_OPTION_TAG)
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "--branch, --scenario and --folder go with --tag");
}

// Git tags have a 'v', versions do not.
static const char *version_typed(const struct cli *cli)
{
    const char *version = cli->values[CLI_OPTION_VERSION];

    if (version == NULL || version[0] != 'v' || version[1] < '0' || version[1] > '9') {
        return version;
    }
    fprintf(stderr, "walle: the version is %s: versions have no 'v'\n", cli_shown(version + 1));
    return version + 1;
}

static enum cli_exit origin_open(const struct cli *cli, const char *out_folder, struct origin *out)
{
    struct base_error error = {0};
    struct task_git_options git = {
        .repository = cli->args[0],
        .tag = cli->values[CLI_OPTION_TAG],
        .branch = cli->values[CLI_OPTION_BRANCH],
        .scenario = cli->values[CLI_OPTION_SCENARIO],
        .subfolder = cli->values[CLI_OPTION_FOLDER],
    };

    out->options.folder = cli->args[0];
    out->options.out_folder = out_folder;
    out->options.version = version_typed(cli);
    enum cli_exit code = git_options_fit(cli);
    if (code != CLI_EXIT_OK || git.tag == NULL) {
        return code;
    }
    if (out->options.version != NULL) {
        return cli_fail(CLI_EXIT_USAGE, "--tag says the version; --version does not go with it");
    }
    if (task_git_open(&git, &out->git, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    out->identity = (struct task_identity){.name = out->git.name,
                                           .version = out->git.version,
                                           .confined = true,
                                           .fetch = task_git_fetch,
                                           .ctx = &out->git};
    out->options.folder = out->git.folder;
    out->options.identity = &out->identity;
    out->options.commit = out->git.commit;
    return CLI_EXIT_OK;
}

static enum cli_exit origin_build(const struct origin *origin, struct task_build *out)
{
    struct base_error error = {0};

    return task_build_make(&origin->options, out, &error) == BASE_OK
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
}

// Beside what the folder holds, which stays until build_stage_put.
static enum cli_exit origin_build_beside(struct origin *origin, struct build_stage *stage,
                                         struct task_build *out)
{
    struct base_error error = {0};

    if (build_stage_open(stage, origin->options.out_folder, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    origin->options.out_folder = stage->made;
    return origin_build(origin, out);
}

// Tries what was built on the task's own samples; *out_report NULL: it was not asked for.
static enum cli_exit origin_try(const struct cli *cli, const struct origin *origin,
                                const struct task_build *build, json_t **out_report)
{
    const struct task_dry_run ask = {.cli = cli,
                                     .source = origin->options.folder,
                                     .build = origin->options.out_folder,
                                     .samples = build->samples};

    *out_report = NULL;
    if (cli_given(cli, CLI_OPTION_NO_DRY_RUN)) {
        return CLI_EXIT_OK;
    }
    enum cli_exit code = task_dry_run(&ask, out_report);
    if (code != CLI_EXIT_OK) {
        fputs("walle: nothing was built; --no-dry-run builds it as it is\n", stderr);
        return CLI_EXIT_LOCAL;
    }
    return CLI_EXIT_OK;
}

enum cli_exit cli_task_build(struct cli *cli)
{
    const char *out_folder = cli->values[CLI_OPTION_OUT];
    struct task_build build = {0};
    struct origin origin = {0};
    struct build_stage stage = {0};
    struct base_error error = {0};

    if (out_folder == NULL || out_folder[0] == '\0') {
        return cli_fail(CLI_EXIT_USAGE, "--out DIR is missing: where the built version goes");
    }
    enum cli_exit code = origin_open(cli, out_folder, &origin);
    if (code == CLI_EXIT_OK) {
        code = origin_build_beside(&origin, &stage, &build);
    }
    json_t *report = NULL;
    if (code == CLI_EXIT_OK) {
        code = origin_try(cli, &origin, &build, &report);
    }
    if (code == CLI_EXIT_OK && build_stage_put(&stage, &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (code == CLI_EXIT_OK) {
        json_t *root = build_object(&build);
        (void)json_object_set_new(root, "dry_run",
                                  report != NULL ? json_incref(report) : json_null());
        show_build_take(cli, "built", root);
    }
    json_decref(report);
    build_stage_done(&stage);
    task_build_done(&build);
    task_git_done(&origin.git);
    return code;
}

// ---- Push

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
    const struct task_exclusive *exclusive = &build->exclusive;
    if (exclusive->list != NULL) {
        wire_sha256_hex(&exclusive->list_digest, hex);
        (void)json_object_set_new(body, "exclusive", json_string(hex));
    }
    uint32_t rounds =
        PUSH_ROUNDS_MAX + (exclusive->subject_count + exclusive->file_count) / PUSH_ROUND_BLOBS;
    for (uint32_t round = 0; round < rounds && code == CLI_EXIT_OK; ++round) {
        json_t *answer = NULL;
        long status = 0;
        const struct cli_api_request request = {"POST", path, body, 409};
        code = cli_api_try(cli, &request, &status, &answer);
        if (code == CLI_EXIT_OK && status != 409) {
            json_decref(answer);
            json_decref(body);
            return CLI_EXIT_OK;
        }
        if (code == CLI_EXIT_OK) {
            code = push_blobs(cli, folder, build, answer, uploaded);
        }
        json_decref(answer);
    }
    json_decref(body);
    return code != CLI_EXIT_OK ? code
                               : cli_fail(CLI_EXIT_REFUSED, "blobs keep being missing; gave up");
}

#define SHARED_DOOR    "/v1/blob/"
#define EXCLUSIVE_DOOR "/api/v1/exclusive/" // which tells only whether it is there

// What the gateway lacks of a build, by asking for each blob.
struct lacking {
    const struct cli *cli;
    json_t *names;
    uint64_t bytes;
    enum cli_exit code;
};

// Takes `name`.
static void ask_lacking(struct lacking *lacking, const char *door, const struct wire_sha256 *digest,
                        uint64_t bytes, json_t *name)
{
    char path[CLI_PATH_MAX];
    char hex[WIRE_SHA256_HEX + 1];
    struct cli_answer answer = {0};
    bool shared = strcmp(door, SHARED_DOOR) == 0;
    struct cli_call call = {.method = shared ? "HEAD" : "GET", .path = path};

    wire_sha256_hex(digest, hex);
    (void)snprintf(path, sizeof(path), "%s%s", door, hex);
    if (lacking->code == CLI_EXIT_OK) {
        lacking->code = cli_http_call(lacking->cli, &call, &answer);
    }
    if (lacking->code == CLI_EXIT_OK && answer.status == 404) {
        lacking->bytes += bytes;
        (void)json_array_append(lacking->names, name);
    } else if (lacking->code == CLI_EXIT_OK && answer.status >= 300) {
        lacking->code = cli_fail(CLI_EXIT_REFUSED, "%s: %ld", path, answer.status);
    }
    cli_answer_done(&answer);
    json_decref(name);
}

static enum base_status ask_subject(void *ctx, const struct wire_entry *entry,
                                    const struct wire_exclusive_files *exclusive,
                                    struct base_error *error)
{
    struct lacking *lacking = ctx;
    const char *kind = entry->kind == WIRE_SUBJECT_DEVICE ? "device" : "user";

    ask_lacking(lacking, EXCLUSIVE_DOOR, &entry->exclusive, entry->bytes,
                json_sprintf("%s %.*s", kind, (int)entry->subject.size, entry->subject.data));
    for (uint32_t i = 0; i < exclusive->file_count; ++i) {
        const struct wire_manifest_file *file = &exclusive->files[i];
        ask_lacking(lacking, EXCLUSIVE_DOOR, &file->digest, file->bytes,
                    json_sprintf("%s %.*s: %.*s", kind, (int)entry->subject.size,
                                 entry->subject.data, (int)file->name.size, file->name.data));
    }
    return lacking->code == CLI_EXIT_OK ? BASE_OK
                                        : base_error_set(error, BASE_ERR_IO, "not asked further");
}

// Names and bytes of the blobs the gateway lacks, without sending any.
static enum cli_exit count_lacking(const struct cli *cli, const char *folder,
                                   const struct task_build *build, json_t *root)
{
    struct lacking lacking = {.cli = cli, .names = json_array(), .code = CLI_EXIT_OK};
    struct base_error error = {0};

    for (uint32_t i = 0; i < build->manifest.file_count; ++i) {
        const struct wire_manifest_file *file = &build->manifest.files[i];
        ask_lacking(&lacking, SHARED_DOOR, &file->digest, file->bytes,
                    json_stringn(file->name.data, file->name.size));
    }
    ask_lacking(&lacking, SHARED_DOOR, &build->manifest_digest, build->manifest_size,
                json_string("manifest"));
    if (build->exclusive.list != NULL) {
        ask_lacking(&lacking, EXCLUSIVE_DOOR, &build->exclusive.list_digest,
                    build->exclusive.list_size, json_string("list of exclusive files"));
        if (task_exclusive_each(folder, &build->exclusive, ask_subject, &lacking, &error) !=
                BASE_OK &&
            lacking.code == CLI_EXIT_OK) {
            lacking.code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
        }
    }
    (void)json_object_set_new(root, "lacking", lacking.names);
    (void)json_object_set_new(root, "lacking_bytes", json_integer((json_int_t)lacking.bytes));
    return lacking.code;
}

static enum cli_exit push_plan(const struct cli *cli, const char *folder,
                               const struct task_build *build)
{
    json_t *root = build_object(build);
    size_t index;
    json_t *name;
    enum cli_exit code = count_lacking(cli, folder, build, root);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, root);
    }
    printf("would upload %llu bytes and register %s %s, manifest %s\n",
           (unsigned long long)cli_json_u64(root, "lacking_bytes"),
           cli_json_text(root, "name", "?"), cli_json_text(root, "version", "?"),
           cli_json_text(root, "manifest", "?"));
    json_array_foreach(json_object_get(root, "lacking"), index, name)
    {
        printf("  %s\n", cli_shown(json_string_value(name)));
    }
    json_decref(root);
    return CLI_EXIT_OK;
}

static enum cli_exit push_build(const struct cli *cli, const char *folder,
                                const struct task_build *build)
{
    uint64_t uploaded = 0;

    if (cli_given(cli, CLI_OPTION_DRY_RUN)) {
        return push_plan(cli, folder, build);
    }
    enum cli_exit code = register_version(cli, folder, build, &uploaded);
    if (code == CLI_EXIT_OK) {
        json_t *root = build_object(build);
        (void)json_object_set_new(root, "uploaded", json_integer((json_int_t)uploaded));
        rollout_version_warn_twins(cli, cli_json_text(root, "name", ""),
                                   cli_json_text(root, "version", ""), &build->manifest_digest);
        show_build_take(cli, "pushed", root);
    }
    return code;
}

// Builds into the scratch folder of the repository's tree and pushes that.
static enum cli_exit push_tag(const struct cli *cli)
{
    struct task_build build = {0};
    struct origin origin = {0};
    char out_folder[CLI_PATH_MAX] = "";
    enum cli_exit code = origin_open(cli, out_folder, &origin);

    if (code == CLI_EXIT_OK) {
        (void)snprintf(out_folder, sizeof(out_folder), "%.*s/build", CLI_PATH_MAX - 8,
                       origin.git.scratch);
        code = origin_build(&origin, &build);
    }
    json_t *report = NULL;
    if (code == CLI_EXIT_OK) {
        code = origin_try(cli, &origin, &build, &report);
    }
    json_decref(report);
    if (code == CLI_EXIT_OK) {
        code = push_build(cli, out_folder, &build);
    }
    task_build_done(&build);
    task_git_done(&origin.git);
    return code;
}

enum cli_exit cli_task_push(struct cli *cli)
{
    struct task_build build = {0};
    struct base_error error = {0};
    enum cli_exit code = git_options_fit(cli);

    if (code != CLI_EXIT_OK || cli_given(cli, CLI_OPTION_TAG)) {
        return code != CLI_EXIT_OK ? code : push_tag(cli);
    }
    if (task_build_load(cli->args[0], &build, &error) != BASE_OK) {
        task_build_done(&build);
        return cli_fail(CLI_EXIT_LOCAL, "%s (build it first, or give --tag for a repository)",
                        error.text);
    }
    // A build from elsewhere is not what this program compiled: no device would run it.
    code = task_build_verify(cli->args[0], &build, &error) == BASE_OK
               ? push_build(cli, cli->args[0], &build)
               : cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    task_build_done(&build);
    return code;
}

// ---- Verify

// The gateway must know exactly this manifest for this task and version.
static enum cli_exit verify_registered(const struct cli *cli, const struct task_build *build)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    char name[WIRE_TASK_NAME_MAX + 1];
    char hex[WIRE_SHA256_HEX + 1];

    (void)snprintf(name, sizeof(name), "%.*s", (int)build->manifest.task_name.size,
                   build->manifest.task_name.data);
    wire_sha256_hex(&build->manifest_digest, hex);
    if (!cli_path_add(path, sizeof(path) - 80, name)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/versions/%s", hex);
    return cli_api_call(cli, "GET", path, NULL, NULL);
}

enum cli_exit cli_task_verify(struct cli *cli)
{
    struct task_build build = {0};
    struct origin origin = {0};
    struct base_error error = {0};
    char folder[CLI_PATH_MAX];
    enum cli_exit code = git_options_fit(cli);

    (void)snprintf(folder, sizeof(folder), "%s", cli->args[0]);
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_TAG)) {
        code = origin_open(cli, folder, &origin);
        (void)snprintf(folder, sizeof(folder), "%.*s/build", CLI_PATH_MAX - 8, origin.git.scratch);
        code = code == CLI_EXIT_OK ? origin_build(&origin, &build) : code;
    } else if (code == CLI_EXIT_OK && task_build_load(folder, &build, &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (code == CLI_EXIT_OK && task_build_verify(folder, &build, &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_REGISTERED)) {
        code = verify_registered(cli, &build);
    }
    if (code == CLI_EXIT_OK) {
        show_build_take(cli, "verified", build_object(&build));
    }
    task_build_done(&build);
    task_git_done(&origin.git);
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
