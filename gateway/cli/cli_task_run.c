// Command `walle task run`: a built version in the device's own script VM, on this machine. One
// thread (the process's first, whose stack is large enough). The table in cli_commands.c names it.
// What runs is what a device runs: the same VM, the same limits of heap and time, the same models.
// With --events, task_play.c brings the runs through the device's pipeline. A source folder is
// built into a scratch folder first, which is removed at the end.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/dry/task_dry_run.h"
#include "cli/dry/task_load.h"
#include "cli/task/task_play.h"
#include "cli/task/task_store_file.h"
#include "cli/task/task_trace.h"
#include "cli/task/task_uploads.h"
#include "cli/task/task_watch.h"

#include "base/text/terminal.h"
#include "tunnel/schema/schema.h"
#include "vm/vm.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_REPEAT_MAX 1000000
#define SCRATCH_FILES  16 // open at once while they are removed
#define PLACE_MAX      (DEV_VM_FILE_MAX + 16)

struct run {
    struct task_load load;
    const char *folder;           // of the build
    char scratch[CLI_PATH_MAX];   // where a source folder was built; empty: it was a build
    json_t *samples;              // of a source folder
    struct task_store_file store; // --store
    struct dev_vm_data_port store_port;
};

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
    run->samples = json_incref(made.samples);
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
    const struct task_load_ask ask = {.cli = cli,
                                      .device = cli->values[CLI_OPTION_DEVICE],
                                      .user = cli->values[CLI_OPTION_USER],
                                      .attrs = cli->values[CLI_OPTION_ATTRS],
                                      .give = cli->values[CLI_OPTION_GIVE],
                                      .input = cli->values[CLI_OPTION_INPUT]};

    run->folder = cli->args[0];
    if (is_source(cli->args[0])) {
        BASE_TRY(build_source(run, cli->args[0], error));
    }
    BASE_TRY(task_load_open(&run->load, run->folder, &ask, error));
    if (cli_given(cli, CLI_OPTION_STORE)) {
        BASE_TRY(task_store_file_open(cli->values[CLI_OPTION_STORE], &run->store, error));
        run->store_port = task_store_file_port(&run->store);
        run->load.job.data = &run->store_port;
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

// The calls of a failure; of one that is over a budget only the place is known.
static const char *stack_of(const struct dev_vm_result *result, char place[PLACE_MAX])
{
    if (result->stack[0] != '\0' || result->line == 0) {
        return result->stack;
    }
    (void)snprintf(place, PLACE_MAX, "%s:%u\n", result->file, result->line);
    return place;
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

static json_t *result_json(const char *build, const struct dev_vm_result *result)
{
    const struct dev_vm_left_out *left_out = &result->left_out;
    char place[PLACE_MAX];
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:o, s:I, s:{s:I, s:I, s:I}, "
        "s:o}",
        "end", dev_vm_end_name(result->end), "type", result->type, "message", result->message,
        "file", result->file, "line", (int)result->line, "stack", stack_json(result->stack),
        "traceback", task_trace_json(build, stack_of(result, place)), "duration_us",
        (json_int_t)result->duration_us, "phases", phases_json(result), "instructions",
        (json_int_t)result->instructions, "heap_peak_bytes", (json_int_t)result->heap_peak_bytes,
        "stack_peak_bytes", (json_int_t)result->stack_peak_bytes, "output",
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

static void print_result(const char *build, const struct dev_vm_result *result)
{
    char place[PLACE_MAX];
    print_output(result);
    if (result->end != DEV_VM_FINISHED) {
        printf("%s: ", dev_vm_end_name(result->end));
        print_part(result->type, ": ");
        print_part(result->message, " (");
        print_part(result->file, ":");
        printf("%u)\n", result->line);
        task_trace_print(stdout, build, stack_of(result, place));
    }
    if (result->result.size > 0) {
        printf("result: ");
        base_terminal_text(stdout, result->result);
        putchar('\n');
    }
    print_left_out(&result->left_out);
    printf("%llu us, %llu units, heap peak %u bytes, C stack peak %u bytes\n",
           (unsigned long long)result->duration_us, (unsigned long long)result->instructions,
           result->heap_peak_bytes, result->stack_peak_bytes);
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
    struct base_str bytes = run->load.build.manifest.declaration;
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

static void show_result(const struct cli *cli, const char *build,
                        const struct dev_vm_result *result)
{
    if (cli->json) {
        json_t *root = result_json(build, result);
        cli_json_print(root);
        json_decref(root);
    } else {
        print_result(build, result);
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

static void on_upload(void *ctx, const struct wire_upload_record *upload)
{
    struct playing *playing = ctx;
    struct base_str name = upload->key.name;
    bool is_json = upload->format == WIRE_RECORD_JSON;
    struct base_str text = {(const char *)upload->bytes, is_json ? upload->size : 0};
    char why[GW_SCHEMA_WHY_MAX + 1];
    bool refused = task_upload_refused(upload, why);
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
    BASE_TRY(task_play_next(play, &run->load.job, error));
    playing->uploads = json_array();
    enum base_status status = dev_vm_run(vm, &run->load.job, &result);
    if (status != BASE_OK) {
        json_decref(playing->uploads);
        return base_error_set(error, status, "the VM refuses the job: %s",
                              base_status_text(status));
    }
    warn_of_uploads(run, &result);
    if (!playing->json) {
        struct task_play_stats stats;
        task_play_stats(play, &stats);
        printf("run %llu, %u event%s", (unsigned long long)stats.runs, run->load.job.event_count,
               run->load.job.event_count == 1 ? "" : "s");
        if (run->load.job.events_missing > 0) {
            printf("; there was no room for %u older ones", run->load.job.events_missing);
        }
        if (run->load.job.events_timed_out) {
            printf("; timed out");
        }
        puts(":");
        print_result(run->folder, &result);
    }
    task_play_ran(play, &result);
    if (playing->json) {
        json_t *one = result_json(run->folder, &result);
        (void)json_object_set_new(one, "events", json_integer(run->load.job.event_count));
        (void)json_object_set_new(one, "events_missing",
                                  json_integer(run->load.job.events_missing));
        (void)json_object_set_new(one, "timed_out", json_boolean(run->load.job.events_timed_out));
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
                                              .manifest = &run->load.build.manifest,
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
        enum base_status status = dev_vm_run(vm, &run->load.job, out);
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
    if (dev_vm_new(run->load.build.manifest.heap_kib, &vm) != BASE_OK) {
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
        show_result(cli, run->folder, &result);
        code = result.end == DEV_VM_FINISHED ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    }
    dev_vm_free(vm);
    return code;
}

// --samples: what the build of this folder would try.
static enum cli_exit run_samples(const struct cli *cli, const struct run *run)
{
    const struct task_dry_run ask = {
        .cli = cli, .source = cli->args[0], .build = run->folder, .samples = run->samples};
    json_t *report = NULL;
    if (run->scratch[0] == '\0') {
        return cli_fail(CLI_EXIT_LOCAL, "--samples: a build has none, its task's folder has");
    }
    enum cli_exit code = task_dry_run(&ask, &report);
    if (cli->json && report != NULL) {
        cli_json_print(report);
    } else if (report != NULL) {
        task_dry_run_print(report);
    }
    json_decref(report);
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
        code = cli_given(cli, CLI_OPTION_SAMPLES) ? run_samples(cli, run) : run_version(cli, run);
    }
    task_load_done(&run->load);
    json_decref(run->samples);
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
