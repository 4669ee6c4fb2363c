// One question at a time between the task worker and the loop. Shared between two threads;
// everything is under the mutex but the rows, which the loop fills while the worker waits and the
// worker reads once they are there.
#include "posix/run/posix_query.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum state {
    STATE_IDLE,
    STATE_WAITING, // asked, not answered
    STATE_READY,
};

struct posix_query {
    void *ctx;
    void (*wake)(void *ctx);
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum state state;
    bool closed;
    struct posix_query_run run;
    struct posix_given *given;        // to the run, when it first looked at its store
    const struct dev_vm_query *query; // the asker's
    enum base_status status;
    struct base_buffer rows; // u32 key size, u32 value size, u64 time, key, value
};

struct row_head {
    uint32_t key_size;
    uint32_t value_size;
    uint64_t time_ms;
};

#define ROWS_BYTES_MAX (sizeof(struct row_head) + WIRE_STORE_IMAGE_MAX)
_Static_assert(ROWS_BYTES_MAX >= DEV_VM_QUERY_BYTES, "there is room for both kinds of answers");

// ---- Worker

static void rows_visit(const struct posix_query *self, dev_vm_row_fn visit, void *visit_ctx)
{
    const uint8_t *at = self->rows.data;
    const uint8_t *end = at + self->rows.size;
    while (at < end) {
        struct row_head head;
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        struct base_str key = {(const char *)at, head.key_size};
        if (!visit(visit_ctx, key, head.time_ms, at + head.key_size, head.value_size)) {
            return;
        }
        at += head.key_size + head.value_size;
    }
}

static enum base_status ask(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                            void *visit_ctx)
{
    struct posix_query *self = ctx;
    pthread_mutex_lock(&self->mutex);
    self->query = query;
    self->state = self->closed ? STATE_IDLE : STATE_WAITING;
    if (!self->closed) {
        self->wake(self->ctx);
    }
    while (self->state == STATE_WAITING && !self->closed) {
        pthread_cond_wait(&self->changed, &self->mutex);
    }
    enum base_status status = self->state == STATE_READY ? self->status : BASE_ERR_CLOSED;
    self->state = STATE_IDLE;
    pthread_mutex_unlock(&self->mutex);
    if (status == BASE_OK) {
        rows_visit(self, visit, visit_ctx);
    }
    return status;
}

struct dev_vm_data_port posix_query_port(struct posix_query *query)
{
    return (struct dev_vm_data_port){.ctx = query, .query = ask};
}

// ---- Loop

static bool row_take(void *ctx, const struct dev_feature_row *row)
{
    struct posix_query *self = ctx;
    struct row_head head = {
        .key_size = (uint32_t)row->key.size,
        .value_size = (uint32_t)row->value_size,
        .time_ms = row->time_ms,
    };
    if (self->rows.size + sizeof(head) + row->key.size + row->value_size > DEV_VM_QUERY_BYTES) {
        return false;
    }
    self->status = base_buffer_add(&self->rows, &head, sizeof(head));
    if (self->status == BASE_OK) {
        self->status = base_buffer_add(&self->rows, row->key.data, row->key.size);
    }
    if (self->status == BASE_OK) {
        self->status = base_buffer_add(&self->rows, row->value, row->value_size);
    }
    return self->status == BASE_OK;
}

// What the run has for its store: the same however often its process asks. A shadow has what the
// run beside it had; where that did not look at its store, what is there.
static enum base_status given_of(struct posix_query *self, struct dev_feature_store *features,
                                 const struct posix_given **out)
{
    const struct posix_query_run *run = &self->run;
    *out = run->shadow ? posix_given_find(run->given, run->of.task_id, run->run_index) : NULL;
    if (*out != NULL) {
        return BASE_OK;
    }
    if (self->given == NULL) {
        struct posix_given *given = posix_given_new();
        if (given == NULL) {
            return BASE_ERR_NOMEM;
        }
        enum base_status status = dev_task_store_load(dev_feature_store_collect(features), &run->of,
                                                      given->image, &given->size);
        if (status != BASE_OK) {
            free(given);
            return status;
        }
        self->given = given;
    }
    *out = self->given;
    return BASE_OK;
}

// The run's store: one row, whose value is the image.
static enum base_status own(struct posix_query *self, struct dev_feature_store *features)
{
    struct row_head head = {0};
    const struct posix_given *given = NULL;
    enum base_status status = given_of(self, features, &given);
    base_buffer_clear(&self->rows);
    if (status == BASE_OK) {
        head.value_size = (uint32_t)given->size;
        status = base_buffer_add(&self->rows, &head, sizeof(head));
    }
    if (status == BASE_OK) {
        status = base_buffer_add(&self->rows, given->image, given->size);
    }
    return status;
}

static enum base_status find(struct posix_query *self, struct dev_feature_store *features,
                             uint64_t now_us)
{
    if (self->query->feature.size == 0) {
        return own(self, features);
    }
    struct dev_feature_query query = {
        .feature = self->query->feature,
        .key = self->query->key,
        .every_key = self->query->every_key,
        .from_ms = self->query->from_ms,
        .to_ms = self->query->to_ms,
        .newest = self->query->newest,
    };
    base_buffer_clear(&self->rows);
    self->status = BASE_OK;
    enum base_status status = dev_feature_find(features, now_us, &query, row_take, self);
    // Of more rows than one query gives, the first are given.
    return status == BASE_OK || status == BASE_ERR_LIMIT ? self->status : status;
}

void posix_query_serve(struct posix_query *self, struct dev_feature_store *features,
                       uint64_t now_us)
{
    pthread_mutex_lock(&self->mutex);
    if (self->state == STATE_WAITING && !self->closed) {
        self->status = features != NULL ? find(self, features, now_us) : BASE_ERR_NOT_FOUND;
        self->state = STATE_READY;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->mutex);
}

static void closed_set(struct posix_query *self, bool closed)
{
    pthread_mutex_lock(&self->mutex);
    self->closed = closed;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

void posix_query_close(struct posix_query *self)
{
    closed_set(self, true);
}

// No run is under way in what follows, so nobody asks.

static void given_drop(struct posix_query *self)
{
    free(self->given);
    self->given = NULL;
}

void posix_query_open(struct posix_query *self, const struct posix_query_run *run)
{
    given_drop(self); // of a run that was cancelled
    self->run = *run;
    closed_set(self, false);
}

void posix_query_ended(struct posix_query *self, bool ran, bool keep)
{
    const struct posix_query_run *run = &self->run;
    if (run->shadow) {
        if (posix_given_find(run->given, run->of.task_id, run->run_index) != NULL) {
            posix_given_put(run->given, run->of.task_id, run->run_index, NULL);
        }
    } else if (ran) { // of one that failed nothing is compared
        posix_given_put(run->given, run->of.task_id, run->run_index, keep ? self->given : NULL);
        self->given = keep ? NULL : self->given;
    }
    given_drop(self);
}

const struct dev_task_store_of *posix_query_of(const struct posix_query *self)
{
    return &self->run.of;
}

enum base_status posix_query_new(void *ctx, void (*wake)(void *ctx), struct posix_query **out)
{
    struct posix_query *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    self->ctx = ctx;
    self->wake = wake;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    base_buffer_init(&self->rows, base_alloc_heap(), ROWS_BYTES_MAX);
    *out = self;
    return BASE_OK;
}

void posix_query_free(struct posix_query *self)
{
    if (self != NULL) {
        pthread_cond_destroy(&self->changed);
        pthread_mutex_destroy(&self->mutex);
        base_buffer_done(&self->rows);
        given_drop(self);
        free(self);
    }
}
