// Makes sealed memory files of jobs and models. Called by posix_child.c on the task worker's
// thread, which alone has the pool of models, and by posix_template.c for a template's own job. A
// file is written, sealed (SEALS) and only then handed over: the process behind the wall maps what
// can never change under its parser. Models are read once, by pieces of PIECE_BYTES: what was
// hashed is what was written.
#include "posix/run/posix_memfd.h"

#include "base/os/write_all.h"
#include "device/port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_BYTES (64 * 1024)
#define SEALS       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct file {
    int fd;
    uint64_t size;
};

static enum base_status status_of(int number)
{
    return number == ENOMEM || number == EMFILE || number == ENFILE ? BASE_ERR_NOMEM : BASE_ERR_IO;
}

static enum base_status part_add(void *ctx, const void *bytes, size_t size)
{
    static const uint8_t zeros[64];
    struct file *file = ctx;
    const uint8_t *at = bytes != NULL ? bytes : zeros; // padding is less than that
    if (base_write_all(file->fd, at, size) != BASE_OK) {
        return status_of(errno);
    }
    file->size += size;
    return BASE_OK;
}

static enum base_status file_open(const char *name, struct file *out)
{
    *out = (struct file){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    return out->fd >= 0 ? BASE_OK : status_of(errno);
}

// Seals the file, or closes it.
static enum base_status file_end(struct file *file, enum base_status status)
{
    if (status == BASE_OK && fcntl(file->fd, F_ADD_SEALS, SEALS) != 0) {
        status = BASE_ERR_IO;
    }
    if (status != BASE_OK) {
        (void)close(file->fd);
    }
    return status;
}

enum base_status posix_memfd_job(const struct dev_runner_job *job, int *out_fd, uint64_t *out_bytes)
{
    struct file file;
    BASE_TRY(file_open("walle-job", &file));
    BASE_TRY(file_end(&file, dev_runner_job_parts(job, part_add, &file)));
    *out_fd = file.fd;
    *out_bytes = file.size;
    return BASE_OK;
}

// ---- Models

static void drop(struct posix_memfd *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    free(file->digests);
    *file = (struct posix_memfd){.fd = -1};
}

void posix_memfd_pool_init(struct posix_memfd_pool *pool)
{
    *pool = (struct posix_memfd_pool){.clock = 0};
    for (uint32_t i = 0; i < POSIX_MEMFD_POOL_MAX; i++) {
        pool->files[i].fd = -1;
    }
}

void posix_memfd_pool_done(struct posix_memfd_pool *pool)
{
    for (uint32_t i = 0; i < POSIX_MEMFD_POOL_MAX; i++) {
        drop(&pool->files[i]);
    }
}

// A free place, or the one used longest ago.
static struct posix_memfd *oldest(struct posix_memfd_pool *pool)
{
    struct posix_memfd *found = &pool->files[0];
    for (uint32_t i = 0; i < POSIX_MEMFD_POOL_MAX; i++) {
        struct posix_memfd *file = &pool->files[i];
        if (file->fd < 0) {
            return file;
        }
        found = file->used < found->used ? file : found;
    }
    return found;
}

// A model is read once: what is hashed is what is written, whatever becomes of the bytes.
struct models_copy {
    struct file file;
    const struct dev_vm_model *models;
    uint32_t next;
    uint8_t *piece; // PIECE_BYTES
};

static enum base_status model_add(void *ctx, const void *bytes, size_t size)
{
    struct models_copy *copy = ctx;
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    const uint8_t *at = bytes;
    struct dev_hash_state state;
    struct wire_sha256 digest;
    if (bytes == NULL) {
        return part_add(&copy->file, NULL, size);
    }
    while (copy->models[copy->next].size == 0) { // no part of the file
        copy->next++;
    }
    crypto->hash_begin(crypto->ctx, &state, NULL);
    while (size > 0) {
        size_t piece = size < PIECE_BYTES ? size : PIECE_BYTES;
        memcpy(copy->piece, at, piece);
        crypto->hash_update(crypto->ctx, &state, copy->piece, piece);
        BASE_TRY(part_add(&copy->file, copy->piece, piece));
        at += piece;
        size -= piece;
    }
    crypto->hash_end(crypto->ctx, &state, &digest);
    return wire_sha256_equal(&digest, &copy->models[copy->next++].digest) ? BASE_OK : BASE_ERR_HASH;
}

// Digests were verified, so the same ones in the same order are the same bytes.
static bool holds(const struct posix_memfd *file, const struct dev_vm_job *vm)
{
    if (file->fd < 0 || file->count != vm->model_count) {
        return false;
    }
    for (uint32_t i = 0; i < file->count; i++) {
        if (!wire_sha256_equal(&file->digests[i], &vm->models[i].digest)) {
            return false;
        }
    }
    return true;
}

static enum base_status place_fill(struct posix_memfd *place, const struct dev_vm_job *vm,
                                   uint32_t *out_damaged)
{
    struct models_copy copy = {.file = {.fd = -1}, .models = vm->models};
    struct wire_sha256 *digests = calloc(vm->model_count, sizeof(*digests));
    copy.piece = malloc(PIECE_BYTES);
    enum base_status status = digests != NULL && copy.piece != NULL
                                  ? file_open("walle-models", &copy.file)
                                  : BASE_ERR_NOMEM;
    if (status == BASE_OK) {
        status = file_end(&copy.file, dev_runner_model_parts(vm, model_add, &copy));
        *out_damaged = copy.next - 1;
    }
    free(copy.piece);
    if (status != BASE_OK) {
        free(digests);
        return status;
    }
    for (uint32_t i = 0; i < vm->model_count; i++) {
        digests[i] = vm->models[i].digest;
    }
    drop(place);
    *place = (struct posix_memfd){
        .fd = copy.file.fd, .digests = digests, .count = vm->model_count, .bytes = copy.file.size};
    return BASE_OK;
}

enum base_status posix_memfd_models(struct posix_memfd_pool *pool, const struct dev_vm_job *vm,
                                    int *out_fd, uint64_t *out_bytes, uint32_t *out_damaged)
{
    struct posix_memfd *place = NULL;
    for (uint32_t i = 0; i < POSIX_MEMFD_POOL_MAX && place == NULL; i++) {
        struct posix_memfd *file = &pool->files[i];
        place = holds(file, vm) ? file : NULL;
    }
    if (place == NULL) {
        place = oldest(pool);
        BASE_TRY(place_fill(place, vm, out_damaged));
    }
    place->used = ++pool->clock;
    *out_fd = place->fd;
    *out_bytes = place->bytes;
    return BASE_OK;
}

void posix_memfd_pool_trim(struct posix_memfd_pool *pool)
{
    for (;;) {
        struct posix_memfd *last = NULL;
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < POSIX_MEMFD_POOL_MAX; i++) {
            struct posix_memfd *file = &pool->files[i];
            bytes += file->fd >= 0 ? file->bytes : 0;
            if (file->fd >= 0 && (last == NULL || file->used < last->used)) {
                last = file;
            }
        }
        if (bytes <= POSIX_MEMFD_POOL_BYTES) {
            return;
        }
        drop(last);
    }
}
