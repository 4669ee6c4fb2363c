// Writes and reads the inputs of a run (layout in the header). The agent's task worker writes
// (posix_memfd.c), the task's process reads (task_runner.c), behind its wall; pure but for the
// heap. The writer gives its parts one after the other, for modules and models lie in mapped
// content and are not copied on the way. The reader copies nothing either: what it gives points
// into the sealed files, and each size is checked against what they hold.
#include "runner/runner_job.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define JOB_ALIGN   16
#define MODEL_ALIGN 64

static size_t padding(size_t at, size_t align)
{
    return (align - at % align) % align;
}

// ---- Writing

static void text_write(struct base_writer *writer, struct base_str text)
{
    base_writer_varint(writer, text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static void attrs_write(struct base_writer *writer, const struct wire_attrs *attrs)
{
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    base_writer_u8(writer, attrs != NULL);
    if (attrs == NULL) {
        return;
    }
    struct wire_attrs sorted = *attrs;
    struct base_writer inner;
    base_writer_init(&inner, bytes, sizeof(bytes));
    wire_attrs_write(&inner, &sorted);
    if (inner.status != BASE_OK) {
        base_writer_fail(writer, inner.status);
        return;
    }
    base_writer_varint(writer, base_writer_size(&inner));
    base_writer_bytes(writer, bytes, base_writer_size(&inner));
}

static void given_write(struct base_writer *writer, const struct dev_vm_bytes *items,
                        uint32_t count)
{
    base_writer_varint(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        text_write(writer, items[i].name);
        base_writer_varint(writer, items[i].size);
        base_writer_u8(writer, items[i].bytes != NULL || items[i].size == 0);
    }
}

static void head_write(struct base_writer *writer, const struct dev_runner_job *job)
{
    const struct dev_vm_job *vm = job->vm;
    base_writer_u32(writer, 0); // its size, once known
    base_writer_u32(writer, job->heap_kib);
    base_writer_u32(writer, vm->time_ms);
    base_writer_u64(writer, vm->instruction_max);
    base_writer_u64(writer, vm->model_memory_max);
    base_writer_u64(writer, vm->device_id);
    text_write(writer, vm->entry);
    text_write(writer, vm->config);
    text_write(writer, vm->declaration);
    attrs_write(writer, vm->attrs);
    text_write(writer, vm->input);
    base_writer_varint(writer, job->input_bytes);
    base_writer_u8(writer, vm->data != NULL);
    base_writer_u8(writer, vm->cloud != NULL);
    base_writer_varint(writer, vm->module_count);
    for (uint32_t i = 0; i < vm->module_count; i++) {
        text_write(writer, vm->modules[i].name);
        base_writer_varint(writer, vm->modules[i].size);
    }
    base_writer_varint(writer, vm->model_count);
    for (uint32_t i = 0; i < vm->model_count; i++) {
        text_write(writer, vm->models[i].name);
        base_writer_varint(writer, vm->models[i].size);
        base_writer_bytes(writer, vm->models[i].digest.bytes, sizeof(vm->models[i].digest.bytes));
    }
    given_write(writer, vm->files, vm->file_count);
    given_write(writer, vm->blobs, vm->blob_count);
}

// Where parts go.
struct parts {
    dev_runner_part_fn part;
    void *ctx;
    size_t align;
    size_t at; // where the file is
};

// A part and what fills it up.
static enum base_status put(struct parts *parts, const void *bytes, size_t size)
{
    if (size > 0) {
        BASE_TRY(parts->part(parts->ctx, bytes, size));
    }
    parts->at += size;
    size_t more = padding(parts->at, parts->align);
    parts->at += more;
    return more > 0 ? parts->part(parts->ctx, NULL, more) : BASE_OK;
}

static enum base_status given_put(struct parts *parts, const struct dev_vm_bytes *items,
                                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].bytes != NULL) {
            BASE_TRY(put(parts, items[i].bytes, items[i].size));
        }
    }
    return BASE_OK;
}

static enum base_status job_put(const struct dev_runner_job *job, uint8_t *head,
                                dev_runner_part_fn part, void *ctx)
{
    struct base_writer writer;
    struct parts parts = {part, ctx, JOB_ALIGN, 0};
    base_writer_init(&writer, head, DEV_RUNNER_HEAD_MAX);
    head_write(&writer, job);
    BASE_TRY(writer.status);
    size_t size = base_writer_size(&writer);
    base_writer_init(&writer, head, sizeof(uint32_t));
    base_writer_u32(&writer, (uint32_t)size);
    BASE_TRY(put(&parts, head, size));
    for (uint32_t i = 0; i < job->vm->module_count; i++) {
        const struct dev_vm_module *module = &job->vm->modules[i];
        BASE_TRY(put(&parts, module->mpy, module->size));
    }
    BASE_TRY(put(&parts, job->input, job->input_bytes));
    BASE_TRY(given_put(&parts, job->vm->files, job->vm->file_count));
    return given_put(&parts, job->vm->blobs, job->vm->blob_count);
}

enum base_status dev_runner_job_parts(const struct dev_runner_job *job, dev_runner_part_fn part,
                                      void *ctx)
{
    uint8_t *head = malloc(DEV_RUNNER_HEAD_MAX);
    enum base_status status = head != NULL ? job_put(job, head, part, ctx) : BASE_ERR_NOMEM;
    free(head);
    return status;
}

enum base_status dev_runner_model_parts(const struct dev_vm_job *vm, dev_runner_part_fn part,
                                        void *ctx)
{
    struct parts parts = {part, ctx, MODEL_ALIGN, 0};
    for (uint32_t i = 0; i < vm->model_count; i++) {
        BASE_TRY(put(&parts, vm->models[i].bytes, vm->models[i].size));
    }
    return BASE_OK;
}

// ---- Reading

static struct base_str text_read(struct base_reader *reader)
{
    uint64_t size = base_reader_varint_max(reader, DEV_RUNNER_HEAD_MAX);
    const uint8_t *bytes = base_reader_bytes(reader, (size_t)size);
    return (struct base_str){(const char *)bytes, bytes != NULL ? (size_t)size : 0};
}

static void attrs_read(struct base_reader *reader, struct dev_runner_view *out)
{
    if (base_reader_u8(reader) == 0) {
        return;
    }
    struct base_str text = text_read(reader);
    if (reader->status != BASE_OK) {
        return;
    }
    enum base_status status = wire_attrs_parse((const uint8_t *)text.data, text.size, &out->attrs);
    if (status != BASE_OK) {
        base_reader_fail(reader, status);
    }
    out->vm.attrs = &out->attrs;
}

// What is not there has no bytes (struct dev_vm_bytes); until the file is read, what is there has
// those of its name.
static uint32_t given_read(struct base_reader *reader, struct dev_vm_bytes *out, uint32_t max)
{
    uint64_t count = base_reader_varint_max(reader, max);
    for (uint64_t i = 0; i < count && reader->status == BASE_OK; i++) {
        out[i].name = text_read(reader);
        out[i].size = (size_t)base_reader_varint_max(reader, SIZE_MAX);
        out[i].bytes = base_reader_u8(reader) != 0 ? (const uint8_t *)out[i].name.data : NULL;
    }
    return (uint32_t)count;
}

// Sizes now; where they lie when the head is read.
static void lists_read(struct base_reader *reader, struct dev_runner_view *out)
{
    uint64_t modules = base_reader_varint_max(reader, DEV_VM_MODULES_MAX);
    for (uint64_t i = 0; i < modules && reader->status == BASE_OK; i++) {
        out->modules[i].name = text_read(reader);
        out->modules[i].size = (size_t)base_reader_varint_max(reader, SIZE_MAX);
    }
    uint64_t models = base_reader_varint_max(reader, DEV_VM_MODELS_MAX);
    for (uint64_t i = 0; i < models && reader->status == BASE_OK; i++) {
        out->models[i].name = text_read(reader);
        out->models[i].size = (size_t)base_reader_varint_max(reader, SIZE_MAX);
        base_reader_copy(reader, out->models[i].digest.bytes, sizeof(out->models[i].digest.bytes));
    }
    out->vm.modules = out->modules;
    out->vm.module_count = (uint32_t)modules;
    out->vm.models = out->models;
    out->vm.model_count = (uint32_t)models;
    out->vm.files = out->files;
    out->vm.file_count = given_read(reader, out->files, DEV_VM_FILES_MAX);
    out->vm.blobs = out->blobs;
    out->vm.blob_count = given_read(reader, out->blobs, DEV_RUNNER_BLOBS_MAX);
}

static enum base_status head_read(struct base_reader *reader, struct dev_runner_view *out)
{
    out->heap_kib = base_reader_u32(reader);
    out->vm.time_ms = base_reader_u32(reader);
    out->vm.instruction_max = base_reader_u64(reader);
    out->vm.model_memory_max = (size_t)base_reader_u64(reader);
    out->vm.device_id = base_reader_u64(reader);
    out->vm.entry = text_read(reader);
    out->vm.config = text_read(reader);
    out->vm.declaration = text_read(reader);
    attrs_read(reader, out);
    out->vm.input = text_read(reader);
    out->input_bytes = (size_t)base_reader_varint_max(reader, SIZE_MAX);
    out->has_query = base_reader_u8(reader) != 0;
    out->has_cloud = base_reader_u8(reader) != 0;
    lists_read(reader, out);
    return base_reader_finish(reader);
}

// The next part of `size` bytes and what fills it up.
static const uint8_t *part_read(struct base_reader *reader, size_t align, size_t size)
{
    const uint8_t *bytes = base_reader_bytes(reader, size);
    (void)base_reader_bytes(reader, padding(base_reader_offset(reader), align));
    return bytes;
}

static void given_place(struct base_reader *file, struct dev_vm_bytes *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].bytes != NULL) {
            items[i].bytes = part_read(file, JOB_ALIGN, items[i].size);
        }
    }
}

enum base_status dev_runner_job_parse(const uint8_t *bytes, size_t size, const uint8_t *models,
                                      size_t models_size, struct dev_runner_view *out)
{
    struct base_reader file;
    struct base_reader head;
    memset(out, 0, sizeof(*out));
    base_reader_init(&file, bytes, size);
    uint32_t head_size = base_reader_u32(&file);
    if (file.status != BASE_OK || head_size < sizeof(uint32_t) || head_size > size) {
        return BASE_ERR_INVALID;
    }
    base_reader_init(&head, bytes + sizeof(uint32_t), head_size - sizeof(uint32_t));
    BASE_TRY(head_read(&head, out));
    base_reader_init(&file, bytes, size);
    (void)part_read(&file, JOB_ALIGN, head_size);
    for (uint32_t i = 0; i < out->vm.module_count; i++) {
        out->modules[i].mpy = part_read(&file, JOB_ALIGN, out->modules[i].size);
    }
    out->input = part_read(&file, JOB_ALIGN, out->input_bytes);
    given_place(&file, out->files, out->vm.file_count);
    given_place(&file, out->blobs, out->vm.blob_count);
    BASE_TRY(base_reader_finish(&file));
    base_reader_init(&file, models, models_size);
    for (uint32_t i = 0; i < out->vm.model_count; i++) {
        out->models[i].bytes = part_read(&file, MODEL_ALIGN, out->models[i].size);
    }
    return base_reader_finish(&file);
}
