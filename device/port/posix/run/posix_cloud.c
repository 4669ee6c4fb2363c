// One call of a model in the cloud at a time between the task worker and the loop. Shared between
// two threads; everything is under the mutex but the call's bytes and the answer's, which belong to
// the loop while the worker waits. The worker checks what may leave and packs the body, so that the
// loop does neither.
#include "posix/run/posix_cloud.h"

#include "zstd/body_zstd.h"

#include "base/check.h"
#include "vm/mpy/vm_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state {
    STATE_IDLE,
    STATE_WAITING, // for the loop
    STATE_ASKED,   // the runtime has it
    STATE_READY,
};

struct posix_cloud {
    void *ctx;
    void (*wake)(void *ctx);
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum state state;
    bool closed;
    bool looks; // the question is not a call, but what is known
    struct posix_cloud_leave leave;
    struct dev_runtime *runtime; // that has the call
    struct dev_cloud_call call;
    struct dev_cloud_view view;
    enum wire_cloud_why why;
    size_t answer_bytes;
    char detail[DEV_CLOUD_DETAIL_MAX];
    uint8_t *packed; // room of WIRE_TENSOR_CALL_MAX, made for the first call
    uint8_t *answer; // room of WIRE_TENSOR_ANSWER_MAX, likewise
};

// ---- Worker

static bool rooms_make(struct posix_cloud *self)
{
    self->packed = self->packed != NULL ? self->packed : malloc(WIRE_TENSOR_CALL_MAX);
    self->answer = self->answer != NULL ? self->answer : malloc(WIRE_TENSOR_ANSWER_MAX);
    return self->packed != NULL && self->answer != NULL;
}

static void on_end(void *ctx, const struct dev_cloud_end *end);

static void call_fill(struct posix_cloud *self, const struct dev_vm_cloud_call *from)
{
    size_t packed = 0;
    bool smaller = dev_body_pack(from->bytes, from->size, self->packed, &packed);
    self->call = (struct dev_cloud_call){
        .model = from->model,
        .priority = from->priority,
        .deadline_ms = from->deadline_ms,
        .body = smaller ? self->packed : from->bytes,
        .body_bytes = smaller ? packed : from->size,
        .packed = smaller,
        .answer = self->answer,
        .answer_capacity = WIRE_TENSOR_ANSWER_MAX,
        .ctx = self,
        .on_end = on_end,
    };
}

// Asks the loop and waits. With the mutex held.
static bool asked(struct posix_cloud *self, bool looks)
{
    self->looks = looks;
    self->state = self->closed ? STATE_IDLE : STATE_WAITING;
    if (!self->closed) {
        self->wake(self->ctx);
    }
    while (self->state != STATE_READY && self->state != STATE_IDLE) {
        pthread_cond_wait(&self->changed, &self->mutex);
    }
    bool answered = self->state == STATE_READY;
    self->state = STATE_IDLE;
    return answered;
}

static enum wire_cloud_why infer(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end)
{
    struct posix_cloud *self = ctx;
    struct wire_tensor_call parsed;
    memset(out_end, 0, sizeof(*out_end));
    if (wire_tensor_call_parse(call->bytes, call->size, &parsed) != BASE_OK) {
        return WIRE_CLOUD_REFUSED;
    }
    if (self->leave.may != NULL) {
        enum wire_cloud_why may = self->leave.may(self->leave.ctx, call, &parsed, out_end->detail,
                                                  sizeof(out_end->detail));
        if (may != WIRE_CLOUD_ANSWERED) {
            return may;
        }
    }
    if (!rooms_make(self)) {
        return WIRE_CLOUD_BUSY;
    }
    call_fill(self, call);
    pthread_mutex_lock(&self->mutex);
    enum wire_cloud_why why = asked(self, false) ? self->why : WIRE_CLOUD_CLOSED;
    pthread_mutex_unlock(&self->mutex);
    (void)snprintf(out_end->detail, sizeof(out_end->detail), "%.*s", (int)sizeof(self->detail),
                   why != WIRE_CLOUD_CLOSED ? self->detail : "");
    out_end->answer = why == WIRE_CLOUD_ANSWERED ? self->answer : NULL;
    out_end->size = why == WIRE_CLOUD_ANSWERED ? self->answer_bytes : 0;
    return why;
}

static struct dev_vm_cloud_state look(void *ctx, struct base_str model)
{
    struct posix_cloud *self = ctx;
    self->call = (struct dev_cloud_call){.model = model};
    pthread_mutex_lock(&self->mutex);
    struct dev_vm_cloud_state state = {.why = WIRE_CLOUD_CLOSED};
    if (asked(self, true)) {
        state = (struct dev_vm_cloud_state){self->view.why, self->view.expected_us};
    }
    pthread_mutex_unlock(&self->mutex);
    return state;
}

struct dev_vm_cloud_port posix_cloud_port(struct posix_cloud *cloud)
{
    return (struct dev_vm_cloud_port){.ctx = cloud, .infer = infer, .look = look};
}

// ---- Loop

// With the mutex held.
static void ready(struct posix_cloud *self, enum wire_cloud_why why, struct base_str detail)
{
    size_t size = detail.size < sizeof(self->detail) - 1 ? detail.size : sizeof(self->detail) - 1;
    if (size > 0) {
        memcpy(self->detail, detail.data, size);
    }
    self->detail[size] = '\0';
    dev_text_clean(self->detail, size); // whatever it was, a script may show it
    self->why = why;
    self->runtime = NULL;
    self->state = STATE_READY;
    pthread_cond_broadcast(&self->changed);
}

static void on_end(void *ctx, const struct dev_cloud_end *end)
{
    struct posix_cloud *self = ctx;
    pthread_mutex_lock(&self->mutex);
    base_assert(self->state == STATE_ASKED);
    self->answer_bytes = end->answer_bytes;
    ready(self, end->why, end->detail);
    pthread_mutex_unlock(&self->mutex);
}

static void hand_over(struct posix_cloud *self, struct dev_runtime *runtime)
{
    const struct base_str none = {0};
    if (runtime == NULL) {
        self->view = (struct dev_cloud_view){.why = WIRE_CLOUD_OFFLINE};
        ready(self, WIRE_CLOUD_OFFLINE, none);
        return;
    }
    if (self->looks) {
        dev_cloud_look(runtime, self->call.model, &self->view);
        ready(self, self->view.why, none);
        return;
    }
    enum wire_cloud_why why = dev_cloud_infer(runtime, &self->call);
    if (why != WIRE_CLOUD_ANSWERED) {
        ready(self, why, none);
        return;
    }
    self->runtime = runtime;
    self->state = STATE_ASKED;
}

bool posix_cloud_serve(struct posix_cloud *self, struct dev_runtime *runtime)
{
    pthread_mutex_lock(&self->mutex);
    bool waits = self->state == STATE_WAITING && !self->closed;
    if (waits) {
        hand_over(self, runtime);
    }
    bool begun = waits && self->state == STATE_ASKED;
    pthread_mutex_unlock(&self->mutex);
    return begun;
}

void posix_cloud_close(struct posix_cloud *self)
{
    pthread_mutex_lock(&self->mutex);
    self->closed = true;
    if (self->state == STATE_ASKED) {
        dev_cloud_cancel(self->runtime, &self->call);
    }
    if (self->state != STATE_READY) {
        self->state = STATE_IDLE;
    }
    self->runtime = NULL;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

void posix_cloud_open(struct posix_cloud *self, const struct posix_cloud_leave *leave)
{
    pthread_mutex_lock(&self->mutex);
    self->closed = false;
    self->leave = leave != NULL ? *leave : (struct posix_cloud_leave){.may = NULL};
    pthread_mutex_unlock(&self->mutex);
}

enum base_status posix_cloud_new(void *ctx, void (*wake)(void *ctx), struct posix_cloud **out)
{
    struct posix_cloud *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    self->ctx = ctx;
    self->wake = wake;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    *out = self;
    return BASE_OK;
}

void posix_cloud_free(struct posix_cloud *self)
{
    if (self != NULL) {
        base_assert(self->state != STATE_ASKED);
        pthread_cond_destroy(&self->changed);
        pthread_mutex_destroy(&self->mutex);
        free(self->packed);
        free(self->answer);
        free(self);
    }
}
