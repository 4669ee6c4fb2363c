// Command `walle task run`: a built version in the device's own script VM, on this machine. One
// thread (the process's first, whose stack is large enough). The table in cli_commands.c names it.
// What runs is what a device runs: the same VM, the same limits of heap and time, the same models.
// With --events, task_play.c brings the runs through the device's pipeline. A source folder is
// built into a scratch folder first, which is removed at the end.
#include "cli/base/cli.h"
#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_build.h"
#include "cli/task/task_cloud.h"
#include "cli/task/task_play.h"
#include "cli/task/task_given.h"
#include "cli/task/task_store_file.h"
#include "cli/task/task_uploads.h"
#include "cli/task/task_watch.h"

#include "base/text/terminal.h"
#include "model/model_store.h"
#include "tunnel/schema/schema.h"
#include "vm/vm.h"
#include "wire/leaves/leaves_check.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_REPEAT_MAX 1000000
#define SCRATCH_FILES  16 // open at once while they are removed
#define STACK_FIRST    8u // calls shown of a long stack, the innermost
#define STACK_LAST     4u // ... and the outermost
#define RUN_FILES_MAX  (WIRE_MANIFEST_FILES_MAX + WIRE_EXCLUSIVE_FILES_MAX)

struct run {
    struct task_build build;
    const char *folder;         // of the build
    char scratch[CLI_PATH_MAX]; // where a source folder was built; empty: it was a build
    struct dev_vm_module modules[RUN_FILES_MAX];
    struct dev_vm_model models[RUN_FILES_MAX];
    struct dev_vm_bytes files[RUN_FILES_MAX];
    uint8_t *bytes[RUN_FILES_MAX]; // of all three
    char names[RUN_FILES_MAX][WIRE_FILE_NAME_MAX + 1];
    uint32_t file_count;
    struct dev_model_store *model_store;
    struct dev_model_port model_port;
    struct task_cloud cloud;
    struct dev_vm_cloud_port cloud_port;
    struct task_store_file store; // --store
    struct dev_vm_data_port store_port;
    json_t *attrs_root;
    struct wire_attrs attrs;
    struct task_given given;
    char *input;
    size_t input_bytes;
    struct dev_vm_job job;
};

// A script, a model or a data file.
static enum base_status load_file(struct run *run, const char *folder,
                                  const struct wire_manifest_file *file, struct base_error *error)
{
    bool is_script = file->kind == WIRE_FILE_SCRIPT;
    uint32_t index = run->file_count;
    size_t size = 0;

    BASE_TRY(task_blob_read(folder, &file->digest, &run->bytes[index], &size, error));
    run->file_count++;
    // The name outlives the list of files it was read from.
    (void)snprintf(run->names[index], sizeof(run->names[index]), "%.*s",
                   (int)(file->name.size - (is_script ? sizeof(".mpy") - 1 : 0)), file->name.data);
    if (is_script) {
        run->modules[run->job.module_count++] = (struct dev_vm_module){
            .name = base_str_of(run->names[index]), .mpy = run->bytes[index], .size = size};
    } else if (file->kind == WIRE_FILE_DATA) {
        run->files[run->job.file_count++] = (struct dev_vm_bytes){
            .name = base_str_of(run->names[index]), .bytes = run->bytes[index], .size = size};
    } else {
        run->models[run->job.model_count++] =
            (struct dev_vm_model){.name = base_str_of(run->names[index]),
                                  .bytes = run->bytes[index],
                                  .size = size,
                                  .digest = file->digest};
    }
    return BASE_OK;
}

// Whose exclusive files are wanted, and which of them were found.
struct wanted {
    struct run *run;
    const char *folder;
    struct wire_entry entry;
    bool found;
};

static enum base_status load_subject(void *ctx, const struct wire_entry *entry,
                                     const struct wire_exclusive_files *exclusive,
                                     struct base_error *error)
{
    struct wanted *wanted = ctx;

    if (wire_entry_order(entry, &wanted->entry) != 0) {
        return BASE_OK;
    }
    wanted->found = true;
    for (uint32_t i = 0; i < exclusive->file_count; ++i) {
        BASE_TRY(load_file(wanted->run, wanted->folder, &exclusive->files[i], error));
    }
    return BASE_OK;
}

// As a device gets them: its own, or else its user's, or none.
static enum base_status load_exclusive(const struct cli *cli, struct run *run,
                                       struct base_error *error)
{
    char hex[WIRE_DEVICE_HEX + 1];
    const char *user = cli->values[CLI_OPTION_USER];
    struct wanted wanted = {.run = run, .folder = run->folder};

    wire_device_hex(run->job.device_id, hex);
    wanted.entry = (struct wire_entry){.kind = WIRE_SUBJECT_DEVICE, .subject = base_str_of(hex)};
    BASE_TRY(task_exclusive_each(run->folder, &run->build.exclusive, load_subject, &wanted, error));
    if (!wanted.found && user != NULL) {
        wanted.entry = (struct wire_entry){.kind = WIRE_SUBJECT_USER, .subject = base_str_of(user)};
        BASE_TRY(
            task_exclusive_each(run->folder, &run->build.exclusive, load_subject, &wanted, error));
    }
    if (!wanted.found && run->build.manifest.exclusive == WIRE_EXCLUSIVE_REQUIRED) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "the version requires exclusive files; it has none for device %s%s%s",
                              hex, user != NULL ? " or user " : "", user != NULL ? user : "");
    }
    return BASE_OK;
}

static enum base_status load_version(struct run *run, const char *folder, struct base_error *error)
{
    BASE_TRY(task_build_load(folder, &run->build, error));
    const struct wire_manifest *manifest = &run->build.manifest;
    for (uint32_t i = 0; i < manifest->file_count; ++i) {
        BASE_TRY(load_file(run, folder, &manifest->files[i], error));
    }
    if (dev_model_store_new(0, &run->model_store) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    run->job.modules = run->modules;
    run->job.models = run->models;
    run->job.files = run->files;
    run->model_port = dev_model_store_port(run->model_store);
    run->job.model_port = &run->model_port;
    run->cloud.declared = wire_leaves_declared(manifest->declaration);
    run->cloud_port = task_cloud_port(&run->cloud);
    run->job.cloud = &run->cloud_port;
    run->job.entry = manifest->entry;
    run->job.config = manifest->config;
    run->job.declaration = manifest->declaration;
    run->job.time_ms = manifest->time_ms;
    return BASE_OK;
}

// --attrs FILE: a JSON object of texts, whole numbers and booleans.
static enum base_status load_attrs(struct run *run, const char *path, struct base_error *error)
{
    const char *key;
    json_t *value;

    BASE_TRY(cli_json_load(path, &run->attrs_root, error));
    if (!json_is_object(run->attrs_root) || json_object_size(run->attrs_root) > WIRE_ATTRS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: not an object of at most %d attributes",
                              path, WIRE_ATTRS_MAX);
    }
    json_object_foreach(run->attrs_root, key, value)
    {
        struct wire_attr *attr = &run->attrs.items[run->attrs.count++];
        attr->name = base_str_of(key);
        if (json_is_string(value)) {
            attr->type = WIRE_ATTR_STRING;
            attr->text = base_str_of(json_string_value(value));
        } else if (json_is_integer(value) || json_is_boolean(value)) {
            attr->type = json_is_integer(value) ? WIRE_ATTR_INTEGER : WIRE_ATTR_BOOLEAN;
            attr->integer =
                json_is_integer(value) ? json_integer_value(value) : (json_is_true(value) ? 1 : 0);
        } else {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "%s: \"%.40s\" is no text, whole number or boolean", path, key);
        }
    }
    run->job.attrs = &run->attrs;
    return BASE_OK;
}

static bool has_file(const char *folder, const char *name)
{
    char path[CLI_PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", folder, name) < CLI_PATH_MAX &&
           access(path, F_OK) == 0;
}

// A task's folder as its author has it, and not what `walle task build` made of one.
static bool is_source(const char *folder)
{
    return has_file(folder, "task.json") && !has_file(folder, "manifest");
}

// Builds it where nobody looks. Name and version may be missing: in git the branch and the tag are
// these.
static enum base_status build_source(struct run *run, const char *folder, struct base_error *error)
{
    char path[CLI_PATH_MAX];
    json_t *document = NULL;
    const char *base = getenv("TMPDIR");
    int size = snprintf(run->scratch, sizeof(run->scratch), "%s/walle-run-XXXXXX",
                        base != NULL && base[0] != '\0' ? base : "/tmp");
    if (size >= CLI_PATH_MAX || mkdtemp(run->scratch) == NULL) {
        run->scratch[0] = '\0';
        return base_error_set(error, BASE_ERR_IO, "no folder to build in: %s", strerror(errno));
    }
    run->folder = run->scratch;
    (void)snprintf(path, sizeof(path), "%.*s/task.json", CLI_PATH_MAX - 16, folder);
    BASE_TRY(cli_json_load(path, &document, error));
    const char *name = json_string_value(json_object_get(document, "name"));
    const char *version = json_string_value(json_object_get(document, "version"));
    const struct task_identity identity = {.name = name != NULL ? name : "local",
                                           .version = version != NULL ? version : "0.0.0"};
    const struct task_build_options options = {
        .folder = folder, .out_folder = run->scratch, .identity = &identity};
    struct task_build made = {0};
    enum base_status status = task_build_make(&options, &made, error);
    task_build_done(&made);
    json_decref(document);
    return status;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

static enum base_status load_all(const struct cli *cli, struct run *run, struct base_error *error)
{
    const char *device = cli->values[CLI_OPTION_DEVICE];

    run->folder = cli->args[0];
    if (is_source(cli->args[0])) {
        BASE_TRY(build_source(run, cli->args[0], error));
    }
    BASE_TRY(load_version(run, run->folder, error));
    run->job.device_id = 1;
    if (device != NULL && wire_device_parse(base_str_of(device), &run->job.device_id) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "--device takes 16 hex digits");
    }
    run->cloud.cli = cli;
    run->cloud.device_id = run->job.device_id;
    BASE_TRY(load_exclusive(cli, run, error));
    if (cli_given(cli, CLI_OPTION_ATTRS)) {
        BASE_TRY(load_attrs(run, cli->values[CLI_OPTION_ATTRS], error));
    }
    if (cli_given(cli, CLI_OPTION_STORE)) {
        BASE_TRY(task_store_file_open(cli->values[CLI_OPTION_STORE], &run->store, error));
        run->store_port = task_store_file_port(&run->store);
        run->job.data = &run->store_port;
    }
    if (cli_given(cli, CLI_OPTION_GIVE)) {
        BASE_TRY(task_given_load(cli->values[CLI_OPTION_GIVE], &run->given, error));
        run->job.blobs = run->given.blobs;
        run->job.blob_count = run->given.count;
    }
    if (cli_given(cli, CLI_OPTION_INPUT)) {
        uint8_t *bytes = NULL;
        BASE_TRY(cli_file_read(cli->values[CLI_OPTION_INPUT], CLI_JSON_FILE_MAX, &bytes,
                               &run->input_bytes, error));
        run->input = (char *)bytes;
        run->job.input = (struct base_str){run->input, run->input_bytes};
        if (run->input_bytes > 0) { // without a byte there is no input
            BASE_TRY(cli_json_check(cli->values[CLI_OPTION_INPUT], run->job.input, error));
        }
    }
    return BASE_OK;
}

// What a script chose, a class's name too, stays within its line.
static void print_part(const char *text, const char *behind)
{
    base_terminal_text(stdout, base_str_of(text));
    printf("%s", behind);
}

// What the script printed, and how much of it is not shown.
static void print_output(const struct dev_vm_result *result)
{
    struct base_str output = result->output;
    if (output.size > 0) {
        (void)fwrite(output.data, 1, output.size, stdout); // a NUL ends nothing
    }
    if (result->output_cut > 0) {
        bool in_line = output.size > 0 && output.data[output.size - 1] != '\n';
        printf("%s... %llu more bytes were printed\n", in_line ? "\n" : "",
               (unsigned long long)result->output_cut);
    }
}

// The calls that led to a failure, innermost first, each on a line of its own. Of a long recursion
// its end and its beginning are shown, and how many calls lie between.
static void print_stack(const char *stack)
{
    size_t count = 0;
    for (const char *at = stack; *at != '\0'; ++count) {
        at += strcspn(at, "\n");
        at += *at == '\n' ? 1 : 0;
    }
    bool is_cut = count > STACK_FIRST + STACK_LAST + 1;
    for (size_t i = 0; *stack != '\0'; ++i) {
        size_t size = strcspn(stack, "\n");
        if (is_cut && i == STACK_FIRST) {
            printf("  ... %zu more calls\n", count - STACK_FIRST - STACK_LAST);
        }
        if (!is_cut || i < STACK_FIRST || i >= count - STACK_LAST) {
            printf("  at ");
            base_terminal_text(stdout, (struct base_str){stack, size});
            putchar('\n');
        }
        stack += size + (stack[size] == '\n' ? 1 : 0);
    }
}

static json_t *stack_json(const char *stack)
{
    json_t *list = json_array();
    while (*stack != '\0') {
        size_t size = strcspn(stack, "\n");
        (void)json_array_append_new(list, json_stringn(stack, size));
        stack += size + (stack[size] == '\n' ? 1 : 0);
    }
    return list;
}

// As it is; what jansson has no place for, as a number of more than 64 bits, as its text.
static json_t *given_json(struct base_str given)
{
    json_t *json = given.size > 0
                       ? json_loadb(given.data, given.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                       : json_null();
    json = json != NULL ? json : json_stringn(given.data, given.size);
    return json != NULL ? json : json_null();
}

static uint64_t finish_us(const struct dev_vm_result *result)
{
    return result->duration_us - result->prepare_us - result->model_us;
}

static json_t *phases_json(const struct dev_vm_result *result)
{
    return json_pack("{s:I, s:I, s:I}", "prepare_us", (json_int_t)result->prepare_us, "model_us",
                     (json_int_t)result->model_us, "finish_us", (json_int_t)finish_us(result));
}

static json_t *result_json(const struct dev_vm_result *result)
{
    const struct dev_vm_left_out *left_out = &result->left_out;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:o, s:I, s:o, s:I, s:I, s:o, s:I, s:{s:I, s:I, s:I}, s:o}",
        "end", dev_vm_end_name(result->end), "type", result->type, "message", result->message,
        "file", result->file, "line", (int)result->line, "stack", stack_json(result->stack),
        "duration_us", (json_int_t)result->duration_us, "phases", phases_json(result),
        "instructions", (json_int_t)result->instructions, "heap_peak_bytes",
        (json_int_t)result->heap_peak_bytes, "output",
        json_stringn(result->output.data != NULL ? result->output.data : "", result->output.size),
        "output_cut", (json_int_t)result->output_cut, "left_out", "late",
        (json_int_t)left_out->late, "evicted", (json_int_t)left_out->evicted, "dropped",
        (json_int_t)left_out->dropped, "result", given_json(result->result));
}

// What joins and windows could not take in.
static void print_left_out(const struct dev_vm_left_out *left_out)
{
    if (dev_vm_left_out_sum(left_out) > 0) {
        printf("left out by joins and windows: %llu late, %llu keys evicted, %llu events dropped\n",
               (unsigned long long)left_out->late, (unsigned long long)left_out->evicted,
               (unsigned long long)left_out->dropped);
    }
}

static void print_result(const struct dev_vm_result *result)
{
    print_output(result);
    if (result->end != DEV_VM_FINISHED) {
        printf("%s: ", dev_vm_end_name(result->end));
        print_part(result->type, ": ");
        print_part(result->message, " (");
        print_part(result->file, ":");
        printf("%u)\n", result->line);
        print_stack(result->stack);
    }
    if (result->result.size > 0) {
        printf("result: ");
        base_terminal_text(stdout, result->result);
        putchar('\n');
    }
    print_left_out(&result->left_out);
    printf("%llu us, heap peak %u bytes\n", (unsigned long long)result->duration_us,
           result->heap_peak_bytes);
    if (result->model_us > 0) {
        printf(
            "until its first call of a model %llu us, to the end of its last one %llu us, behind "
            "it %llu us\n",
            (unsigned long long)result->prepare_us, (unsigned long long)result->model_us,
            (unsigned long long)finish_us(result));
    }
}

// What the version declares; nothing where it has no declaration.
static struct wire_declaration declaration_of(const struct run *run)
{
    struct base_str bytes = run->build.manifest.declaration;
    struct wire_declaration declaration = {.trigger_count = 0};
    const uint8_t *at = (const uint8_t *)bytes.data;
    if (bytes.size > 0 && wire_declaration_parse(at, bytes.size, &declaration) != BASE_OK) {
        memset(&declaration, 0, sizeof(declaration));
    }
    return declaration;
}

// Of a build: of a source's literal names more was said when it was built.
static void warn_of_uploads(const struct run *run, const struct dev_vm_result *result)
{
    const struct wire_declaration declaration = declaration_of(run);
    for (uint32_t i = 0; i < result->effect_count && run->scratch[0] == '\0'; i++) {
        if (result->effects[i].kind == DEV_VM_EFFECT_UPLOAD) {
            task_uploads_warn_of(&declaration, result->effects[i].name);
        }
    }
}

// A run without events is not all that a device does with the version.
static void hint_at_events(const struct run *run)
{
    if (declaration_of(run).trigger_count > 0) {
        fputs("walle: the version has triggers: a device runs it once without events, as here, and "
              "then for each match; --events FILE plays a recording\n",
              stderr);
    }
}

static void show_result(const struct cli *cli, const struct dev_vm_result *result)
{
    if (cli->json) {
        json_t *root = result_json(result);
        cli_json_print(root);
        json_decref(root);
    } else {
        print_result(result);
    }
}

// ---- Recorded events

struct playing {
    bool json;
    json_t *uploads; // of the run under way
    json_t *runs;
    uint64_t refused; // records
    enum cli_exit code;
};

// What a record's key made of it may be no UTF-8, cut as it is.
static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);
    return json != NULL ? json : json_string("not as the schema says");
}

// Would the gateway refuse the record, and why? It checks each against the schema of its upload.
static bool is_refused(const struct wire_upload_record *upload, char why[GW_SCHEMA_WHY_MAX + 1])
{
    struct gw_schema *schema = NULL;
    struct base_error error = {.status = BASE_OK};
    why[0] = '\0';
    if (upload->schema.size == 0) {
        return false;
    }
    if (gw_schema_parse(upload->schema, &schema, &error) != BASE_OK) {
        (void)snprintf(why, GW_SCHEMA_WHY_MAX + 1, "no schema: %.140s", error.text);
    } else if (upload->format != WIRE_RECORD_JSON) {
        (void)snprintf(why, GW_SCHEMA_WHY_MAX + 1,
                       "a record of bytes, and its upload has a schema");
    } else {
        gw_schema_explain(schema, (struct base_str){(const char *)upload->bytes, upload->size},
                          why);
    }
    gw_schema_free(schema);
    return why[0] != '\0';
}

static void on_upload(void *ctx, const struct wire_upload_record *upload)
{
    struct playing *playing = ctx;
    struct base_str name = upload->key.name;
    bool is_json = upload->format == WIRE_RECORD_JSON;
    struct base_str text = {(const char *)upload->bytes, is_json ? upload->size : 0};
    char why[GW_SCHEMA_WHY_MAX + 1];
    bool refused = is_refused(upload, why);
    playing->refused += refused ? 1 : 0;
    playing->code = refused ? CLI_EXIT_FAILED : playing->code;
    if (playing->json) {
        json_t *record = is_json ? json_loadb(text.data, text.size, JSON_DECODE_ANY, NULL) : NULL;
        json_t *one =
            json_pack("{s:o, s:I, s:o}", "name", json_stringn(name.data, name.size), "bytes",
                      (json_int_t)upload->size, "record", record != NULL ? record : json_null());
        if (refused) {
            (void)json_object_set_new(one, "refused", text_json(why));
        }
        (void)json_array_append_new(playing->uploads, one);
        return;
    }
    printf("upload %.*s: ", (int)name.size, name.data);
    if (is_json) {
        base_terminal_text(stdout, text);
        putchar('\n');
    } else {
        printf("%u bytes\n", upload->size);
    }
    if (refused) {
        printf("  the gateway would refuse it: ");
        base_terminal_text(stdout, base_str_of(why));
        putchar('\n');
    }
}

static enum base_status play_one(struct run *run, struct dev_vm *vm, struct task_play *play,
                                 struct playing *playing, struct base_error *error)
{
    struct dev_vm_result result;
    BASE_TRY(task_play_next(play, &run->job, error));
    playing->uploads = json_array();
    enum base_status status = dev_vm_run(vm, &run->job, &result);
    if (status != BASE_OK) {
        json_decref(playing->uploads);
        return base_error_set(error, status, "the VM refuses the job: %s",
                              base_status_text(status));
    }
    warn_of_uploads(run, &result);
    if (!playing->json) {
        struct task_play_stats stats;
        task_play_stats(play, &stats);
        printf("run %llu, %u event%s", (unsigned long long)stats.runs, run->job.event_count,
               run->job.event_count == 1 ? "" : "s");
        if (run->job.events_missing > 0) {
            printf("; there was no room for %u older ones", run->job.events_missing);
        }
        if (run->job.events_timed_out) {
            printf("; timed out");
        }
        puts(":");
        print_result(&result);
    }
    task_play_ran(play, &result);
    if (playing->json) {
        json_t *one = result_json(&result);
        (void)json_object_set_new(one, "events", json_integer(run->job.event_count));
        (void)json_object_set_new(one, "events_missing", json_integer(run->job.events_missing));
        (void)json_object_set_new(one, "timed_out", json_boolean(run->job.events_timed_out));
        (void)json_object_set(one, "uploads", playing->uploads);
        (void)json_array_append_new(playing->runs, one);
    }
    json_decref(playing->uploads);
    playing->code = result.end == DEV_VM_FINISHED ? playing->code : CLI_EXIT_FAILED;
    return BASE_OK;
}

// Every run that a recording starts; the exit code is a failed run's, if there was one.
static enum cli_exit play_version(const struct cli *cli, struct run *run, struct dev_vm *vm)
{
    struct playing playing = {.json = cli->json, .runs = json_array()};
    const struct task_play_options options = {.path = cli->values[CLI_OPTION_EVENTS],
                                              .manifest = &run->build.manifest,
                                              .upload = on_upload,
                                              .ctx = &playing};
    struct base_error error = {.status = BASE_OK};
    struct task_play_stats stats = {0};
    struct task_play *play = NULL;
    enum base_status status = task_play_new(&options, &play, &error);
    while (status == BASE_OK) {
        status = play_one(run, vm, play, &playing, &error);
    }
    if (play != NULL) {
        task_play_stats(play, &stats);
    }
    if (status != BASE_ERR_NOT_FOUND || play == NULL) {
        playing.code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    } else if (cli->json) {
        json_t *root = json_pack("{s:I, s:I, s:I, s:O}", "events", (json_int_t)stats.events,
                                 "matches", (json_int_t)stats.matches, "dropped",
                                 (json_int_t)stats.dropped, "runs", playing.runs);
        cli_json_print(root);
        json_decref(root);
    } else {
        printf("%llu events, %llu matches, %llu runs", (unsigned long long)stats.events,
               (unsigned long long)stats.matches, (unsigned long long)stats.runs);
        if (stats.dropped > 0) {
            printf(", %llu dropped: more starts wait than a device keeps",
                   (unsigned long long)stats.dropped);
        }
        printf("\n");
        if (playing.refused > 0) {
            printf("%llu records are not as their schemas say: the gateway would refuse them\n",
                   (unsigned long long)playing.refused);
        }
    }
    json_decref(playing.runs);
    task_play_free(play);
    return playing.code;
}

// All --repeat runs; *out is the last one's result with the fastest time.
static enum cli_exit run_repeated(struct run *run, struct dev_vm *vm, uint64_t repeat,
                                  struct dev_vm_result *out)
{
    struct base_error error = {.status = BASE_OK};
    struct dev_vm_result best = {.duration_us = UINT64_MAX};

    for (uint64_t i = 0; i < repeat; ++i) {
        enum base_status status = dev_vm_run(vm, &run->job, out);
        if (status != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "the VM refuses the job: %s", base_status_text(status));
        }
        best = out->duration_us < best.duration_us ? *out : best;
        if (run->store.path != NULL && task_store_file_ran(&run->store, out, &error) != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
        }
    }
    out->duration_us = best.duration_us;
    out->prepare_us = best.prepare_us;
    out->model_us = best.model_us;
    return CLI_EXIT_OK;
}

static enum cli_exit run_version(const struct cli *cli, struct run *run)
{
    struct dev_vm *vm = NULL;
    struct dev_vm_result result;
    uint64_t repeat = 1;
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_REPEAT, 1, RUN_REPEAT_MAX, &repeat);

    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli_given(cli, CLI_OPTION_EVENTS) && cli_given(cli, CLI_OPTION_REPEAT)) {
        return cli_fail(CLI_EXIT_LOCAL, "--repeat is not for recorded events");
    }
    if (cli_given(cli, CLI_OPTION_EVENTS) && cli_given(cli, CLI_OPTION_STORE)) {
        return cli_fail(CLI_EXIT_LOCAL, "--store is not for recorded events");
    }
    if (dev_vm_new(run->build.manifest.heap_kib, &vm) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "no memory for the script VM");
    }
    if (cli_given(cli, CLI_OPTION_EVENTS)) {
        code = play_version(cli, run, vm);
        dev_vm_free(vm);
        return code;
    }
    memset(&result, 0, sizeof(result));
    code = run_repeated(run, vm, repeat > 0 ? repeat : 1, &result);
    if (code == CLI_EXIT_OK) {
        warn_of_uploads(run, &result);
        hint_at_events(run);
        show_result(cli, &result);
        code = result.end == DEV_VM_FINISHED ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    }
    dev_vm_free(vm);
    return code;
}

static enum cli_exit run_once(struct cli *cli)
{
    struct base_error error = {0};
    struct run *run = calloc(1, sizeof(*run));
    enum cli_exit code = CLI_EXIT_OK;

    if (run == NULL) {
        return cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    if (load_all(cli, run, &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    } else {
        code = run_version(cli, run);
    }
    for (uint32_t i = 0; i < RUN_FILES_MAX; ++i) {
        free(run->bytes[i]);
    }
    dev_model_store_free(run->model_store);
    task_cloud_done(&run->cloud);
    json_decref(run->attrs_root);
    task_given_done(&run->given);
    free(run->input);
    task_build_done(&run->build);
    if (run->scratch[0] != '\0') {
        (void)nftw(run->scratch, remove_one, SCRATCH_FILES, FTW_DEPTH | FTW_PHYS);
    }
    free(run);
    return code;
}

enum cli_exit cli_task_run(struct cli *cli)
{
    const char *folder = cli->args[0];

    if (cli_given(cli, CLI_OPTION_GATEWAY) && cli_http_gateway_check(cli) != CLI_EXIT_OK) {
        return CLI_EXIT_USAGE; // said; a script would be told that it is offline
    }
    if (!cli_given(cli, CLI_OPTION_WATCH)) {
        return run_once(cli);
    }
    // Until the command is interrupted. The stamp is of before the run: what is saved during it
    // starts the next one.
    for (uint64_t stamp = task_watch_stamp(folder);;) {
        (void)run_once(cli);
        (void)fflush(stdout);
        fputs("walle: waits for a save\n", stderr);
        stamp = task_watch_wait(folder, stamp);
    }
}
