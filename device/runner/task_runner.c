// walle-task-runner: one run of one task behind a wall (runner_wall.h), then the process ends.
//
// The agent starts it ahead of need, with a socket as descriptor 3, and gives it a job when there
// is one (posix/run/posix_child.c). It never does a second run: what a script that got out of its
// VM left behind dies with it, and no task meets another's memory. Before its wall is up it reads
// nothing but numbers from the agent. Or it becomes a template, whose processes do such runs
// (runner_template.h). One thread.
#include "runner/runner_channel.h"
#include "runner/runner_cloud.h"
#include "runner/runner_end.h"
#include "runner/runner_events.h"
#include "runner/runner_job.h"
#include "runner/runner_template.h"
#include "runner/runner_wall.h"

#include "backend/cpu/kernel/isa.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"
#include "model/model_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_USAGE 2

#ifndef RUNNER_SANITIZED
#define RUNNER_SANITIZED 0
#endif

struct run {
    struct dev_runner_view view;
    struct dev_runner_events events;
    struct dev_vm *vm;
    struct dev_vm_data_port data;
    struct dev_vm_cloud_port cloud;
    struct dev_model_store *models; // made for the first job that has a model
    struct dev_model_port model_port;
    uint8_t frame[DEV_RUNNER_FRAME_MAX];
};

#if RUNNER_SANITIZED
// The symbolizer is a program of its own, which the wall does not let start; a signal ends the
// process as it does in what ships.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "symbolize=0:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:"
           "handle_sigill=0:handle_abort=0:abort_on_error=1";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "symbolize=0:report_bugs=0";
}
#endif

// Without what libraries want done at the end: the process has nothing to tidy up.
static _Noreturn void leave(int status)
{
    (void)syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

static _Noreturn void refuse(struct run *run, const char *why)
{
    size_t size = strlen(why);
    size = size < DEV_RUNNER_TEXT_MAX ? size : DEV_RUNNER_TEXT_MAX;
    memcpy(run->frame + DEV_RUNNER_HEAD_BYTES, why, size);
    enum base_status status = dev_runner_frame_send(run->frame, DEV_RUNNER_REFUSED, size);
    leave(status == BASE_OK ? EXIT_FAILURE : EXIT_SUCCESS); // nobody is there to read why
}

// ---- walle.data.query

static enum base_status rows_visit(const uint8_t *bytes, size_t size, dev_vm_row_fn visit,
                                   void *visit_ctx)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    enum base_status status = (enum base_status)(int32_t)base_reader_u32(&reader);
    while (reader.status == BASE_OK && status == BASE_OK && base_reader_left(&reader) > 0) {
        uint32_t key_size = base_reader_u32(&reader);
        uint32_t value_size = base_reader_u32(&reader);
        uint64_t time_ms = base_reader_u64(&reader);
        const uint8_t *key = base_reader_bytes(&reader, key_size);
        const uint8_t *value = base_reader_bytes(&reader, value_size);
        if (reader.status != BASE_OK ||
            !visit(visit_ctx, (struct base_str){(const char *)key, key_size}, time_ms, value,
                   value_size)) {
            break;
        }
    }
    return reader.status != BASE_OK ? reader.status : status;
}

static enum base_status ask(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                            void *visit_ctx)
{
    struct run *run = ctx;
    struct base_writer writer;
    size_t size = 0;
    base_writer_init(&writer, run->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_QUERY_MAX);
    dev_runner_query_write(&writer, query);
    BASE_TRY(writer.status);
    BASE_TRY(dev_runner_frame_send(run->frame, DEV_RUNNER_QUERY, base_writer_size(&writer)));
    BASE_TRY(dev_runner_frame_receive(DEV_RUNNER_ROWS, run->frame, sizeof(run->frame), &size));
    return rows_visit(run->frame, size, visit, visit_ctx);
}

// ---- walle.cloud

// The answer stays in the frame until the next question.
static enum wire_cloud_why infer(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end)
{
    struct run *run = ctx;
    struct base_writer writer;
    enum wire_cloud_why why = WIRE_CLOUD_FAILED;
    size_t size = 0;
    memset(out_end, 0, sizeof(*out_end));
    base_writer_init(&writer, run->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_INFER_MAX);
    dev_runner_infer_write(&writer, call);
    if (writer.status != BASE_OK) {
        return WIRE_CLOUD_TOO_LARGE;
    }
    enum base_status status =
        dev_runner_frame_send(run->frame, DEV_RUNNER_INFER, base_writer_size(&writer));
    if (status == BASE_OK) {
        status = dev_runner_frame_receive(DEV_RUNNER_ANSWER, run->frame, sizeof(run->frame), &size);
    }
    if (status == BASE_OK) {
        status = dev_runner_answer_parse(run->frame, size, &why, out_end);
    }
    return status == BASE_OK ? why : WIRE_CLOUD_CLOSED;
}

static struct dev_vm_cloud_state look(void *ctx, struct base_str model)
{
    struct run *run = ctx;
    struct base_writer writer;
    struct dev_vm_cloud_state state = {.why = WIRE_CLOUD_CLOSED};
    uint8_t seen[DEV_RUNNER_SEEN_BYTES];
    size_t size = 0;
    base_writer_init(&writer, run->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_LOOK_MAX);
    dev_runner_look_write(&writer, model);
    enum base_status status = writer.status;
    if (status == BASE_OK) {
        status = dev_runner_frame_send(run->frame, DEV_RUNNER_LOOK, base_writer_size(&writer));
    }
    if (status == BASE_OK) {
        status = dev_runner_frame_receive(DEV_RUNNER_SEEN, seen, sizeof(seen), &size);
    }
    if (status == BASE_OK && dev_runner_seen_parse(seen, size, &state) != BASE_OK) {
        state = (struct dev_vm_cloud_state){.why = WIRE_CLOUD_CLOSED};
    }
    return state;
}

// ---- The run

static enum base_status job_open(struct run *run, const struct dev_runner_files *files)
{
    struct dev_runner_view *view = &run->view;
    BASE_TRY(dev_runner_job_parse(files->job, (size_t)files->bounds.job_bytes, files->models,
                                  (size_t)files->bounds.models_bytes, view));
    BASE_TRY(dev_vm_new(view->heap_kib, &run->vm));
    view->vm.once = true;
    if (view->input_bytes > 0) {
        BASE_TRY(dev_runner_events_make(view->input, view->input_bytes, &run->events));
        view->vm.events = run->events.events;
        view->vm.event_count = run->events.count;
        view->vm.events_missing = run->events.missing;
        view->vm.events_timed_out = run->events.timed_out;
    }
    if (view->vm.model_count > 0) {
        BASE_TRY(run->models != NULL ? BASE_OK : dev_model_store_new(0, &run->models));
        run->model_port = dev_model_store_port(run->models);
        view->vm.model_port = &run->model_port;
    }
    run->data = (struct dev_vm_data_port){.ctx = run, .query = ask};
    view->vm.data = view->has_query ? &run->data : NULL;
    run->cloud = (struct dev_vm_cloud_port){.ctx = run, .infer = infer, .look = look};
    view->vm.cloud = view->has_cloud ? &run->cloud : NULL;
    return BASE_OK;
}

static enum base_status run_job(struct run *run, const struct dev_runner_files *files)
{
    struct dev_vm_result result;
    struct base_writer writer;
    enum base_status status = job_open(run, files);
    if (status == BASE_OK) {
        status = dev_vm_run(run->vm, &run->view.vm, &result);
    }
    base_writer_init(&writer, run->frame + DEV_RUNNER_HEAD_BYTES, DEV_RUNNER_END_MAX);
    dev_runner_end_write(&writer, status, &result);
    BASE_TRY(writer.status);
    return dev_runner_frame_send(run->frame, DEV_RUNNER_END, base_writer_size(&writer));
}

static int byte_order(const void *a, const void *b)
{
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

// What libraries ask the kernel once and keep: asked behind the wall it would end the process. The
// processor's features; the size of memory, which glibc's qsort wants for more than 1 KiB.
static void questions_ask(void)
{
    uint8_t many[2048] = {0};
    qsort(many, sizeof(many), 1, byte_order);
    (void)eng_cpu_detect();
}

static bool is_channel(void)
{
    struct stat info;
    return fstat(DEV_RUNNER_FD, &info) == 0 && S_ISSOCK(info.st_mode);
}

// ---- Before the wall

// The first frame. Ends the process when there is none, or the agent is gone.
static void job_wait(struct run *run, struct dev_runner_files *files)
{
    enum base_status status = dev_runner_job_receive(files);
    if (status == BASE_ERR_CLOSED) {
        leave(EXIT_SUCCESS);
    }
    if (status != BASE_OK) {
        refuse(run, base_status_text(status));
    }
    if (files->models != NULL) {
        questions_ask();
    }
}

static void wall_prepare(struct run *run, struct dev_wall *wall)
{
    struct base_error error = {0};
    if (dev_wall_prepare(wall, &error) != BASE_OK) {
        refuse(run, error.text);
    }
}

// Reads the models and plans them for the shapes they declare. What a file is refused for is said
// to the run that asks for it, so there is no error here.
static void models_load(struct dev_model_store *store, const struct dev_vm_job *vm)
{
    size_t most = vm->model_memory_max != 0 ? vm->model_memory_max : DEV_VM_MODEL_MEMORY;
    for (uint32_t i = 0; i < vm->model_count; i++) {
        const struct dev_vm_model *model = &vm->models[i];
        const struct dev_model_file file = {&model->digest, model->bytes, model->size, NULL};
        struct dev_model *loaded = NULL;
        if (dev_model_store_get(store, &file, &loaded, NULL) == BASE_OK) {
            dev_model_warm(loaded, most);
            dev_model_unref(loaded);
        }
    }
}

// Returns in each process made for a run, with the job of that run.
static void template_be(struct run *run, struct dev_wall *wall, struct dev_runner_files *files)
{
    struct base_error error = {0};
    if (dev_wall_template(&files->bounds, &error) != BASE_OK) {
        refuse(run, error.text);
    }
    enum base_status status =
        dev_runner_job_parse(files->job, (size_t)files->bounds.job_bytes, files->models,
                             (size_t)files->bounds.models_bytes, &run->view);
    if (status == BASE_OK) {
        status = dev_model_store_new(0, &run->models);
    }
    if (status != BASE_OK) {
        refuse(run, base_status_text(status));
    }
    models_load(run->models, &run->view.vm);
    dev_runner_files_done(files);
    if (dev_runner_frame_send(run->frame, DEV_RUNNER_STARTED, 0) != BASE_OK ||
        dev_template_serve(run->frame) != BASE_OK) {
        leave(EXIT_SUCCESS); // the agent makes another, or does without
    }
    wall_prepare(run, wall);
    job_wait(run, files);
    if (files->is_template) {
        refuse(run, base_status_text(BASE_ERR_INVALID));
    }
}

int main(int argc, char **argv)
{
    static struct run run;
    static const char usage[] = "walle-task-runner is started by walle-device, not by hand.\n";
    struct base_error error = {0};
    struct dev_runner_files files;
    struct dev_wall wall;
    if (!is_channel()) {
        base_process_start(EXIT_FAILURE);
        base_terminal_guard();
        if (base_process_version(argc, argv, "walle-task-runner")) {
            return EXIT_SUCCESS;
        }
        (void)fputs(usage, stderr);
        return EXIT_USAGE;
    }
    wall_prepare(&run, &wall);
    job_wait(&run, &files);
    if (files.is_template) {
        template_be(&run, &wall, &files);
    }
    if (dev_wall_raise(&wall, &files.bounds, &error) != BASE_OK) {
        refuse(&run, error.text);
    }
    enum base_status status = dev_runner_frame_send(run.frame, DEV_RUNNER_STARTED, 0);
    if (status == BASE_OK) {
        status = run_job(&run, &files);
    }
    leave(status == BASE_OK || status == BASE_ERR_CLOSED ? EXIT_SUCCESS : EXIT_FAILURE);
}
