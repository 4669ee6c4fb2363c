// The service's life, and that of a call: read, checked, queued or refused, ended once. The keeper
// is a thread that ends calls whose deadline has passed, whether they wait or run. What is shared
// is behind one lock; `done` and whatever frees memory runs when the lock is free
// (gw_infer_ends_run). infer_run.c has the threads that run models, infer_models.c what is loaded.
#include "infer/infer_service.h"

#include "infer/device_ledger.h"
#include "infer/infer_arm.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEPER_STEP_US UINT64_C(1000) // between two looks at deadlines
#define SECOND_US      UINT64_C(1000000)

void gw_infer_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_us)
{
    if (until_us == UINT64_MAX) {
        pthread_cond_wait(cond, lock);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(until_us / SECOND_US),
                             .tv_nsec = (long)(until_us % SECOND_US * 1000)};
    (void)pthread_cond_timedwait(cond, lock, &until);
}

// ---- Ends

static void free_session(struct gw_infer_session *session)
{
    eng_session_free(session->engine);
    free(session);
}

void gw_infer_version_free(struct gw_infer_version *version)
{
    if (version == NULL) {
        return;
    }
    while (version->idle != NULL) {
        struct gw_infer_session *session = version->idle;
        version->idle = session->next;
        free_session(session);
    }
    gw_infer_cache_free(version->cache);
    eng_model_unref(version->engine);
    free(version->file);
    free(version);
}

void gw_infer_version_drop(struct gw_infer_service *service, struct gw_infer_version *version,
                           struct gw_infer_ends *ends)
{
    base_check(version->refs > 0);
    if (--version->refs > 0) {
        return;
    }
    struct gw_infer_version **at = &service->versions;
    while (*at != version) {
        at = &(*at)->next;
    }
    *at = version->next;
    version->next_dead = ends->dead;
    ends->dead = version;
}

static void leave_batch(struct gw_infer_ticket *ticket)
{
    struct gw_infer_batch *batch = ticket->batch;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->tickets[i] == ticket) {
            batch->tickets[i] = NULL;
        }
    }
    ticket->batch = NULL;
    base_check(batch->left > 0);
    if (--batch->left == 0) {
        atomic_store_explicit(&batch->stop, true, memory_order_relaxed);
    }
}

static void count_end(struct gw_infer_ticket *ticket, enum base_status status)
{
    if (ticket->version == NULL || ticket->arm == GW_INFER_ARM_SHADOW) {
        return; // not read: whose it is nobody knows; or nobody's
    }
    gw_infer_arm_count(ticket, status);
    struct gw_infer_figures *figures = &ticket->version->figures;
    figures->calls += status == BASE_OK;
    figures->rows += status == BASE_OK ? ticket->wait.rows : 0;
    figures->refused += status == BASE_ERR_LIMIT;
    figures->timed_out += status == BASE_ERR_TIMEOUT;
    figures->cancelled += status == BASE_ERR_CLOSED;
    figures->failed += status != BASE_OK && status != BASE_ERR_LIMIT &&
                       status != BASE_ERR_TIMEOUT && status != BASE_ERR_CLOSED;
}

static const char *why_text(enum base_status status)
{
    return status == BASE_ERR_TIMEOUT  ? "not done within its timeout"
           : status == BASE_ERR_CLOSED ? "the caller is gone"
                                       : base_status_text(status);
}

static void list(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    ticket->next = service->tickets;
    ticket->prev = &service->tickets;
    if (ticket->next != NULL) {
        ticket->next->prev = &ticket->next;
    }
    service->tickets = ticket;
    service->ticket_count++;
    if (ticket->wait.deadline_us < service->watch_us) {
        pthread_cond_signal(&service->watch);
    }
}

static void unlist(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    *ticket->prev = ticket->next;
    if (ticket->next != NULL) {
        ticket->next->prev = ticket->prev;
    }
    service->ticket_count--;
}

void gw_infer_end(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                  enum base_status status, struct gw_infer_ends *ends)
{
    base_check(ticket->state == GW_INFER_UNREAD || ticket->version != NULL);
    base_check(ticket->state != GW_INFER_NEW && ticket->state != GW_INFER_DONE);
    if (ticket->state == GW_INFER_UNREAD) {
        gw_infer_queue_remove(&service->unread, &ticket->wait);
    } else if (ticket->state == GW_INFER_WAITING) {
        gw_infer_queue_remove(&ticket->version->queue, &ticket->wait);
    } else {
        leave_batch(ticket);
    }
    unlist(service, ticket);
    ticket->state = GW_INFER_DONE;
    ticket->status = status;
    if (status != BASE_OK && ticket->error.text[0] == '\0') {
        (void)base_error_set(&ticket->error, status, "%s", why_text(status));
    }
    count_end(ticket, status);
    if (ticket->version != NULL) {
        gw_infer_version_drop(service, ticket->version, ends);
    }
    ticket->version = NULL;
    ticket->next = ends->tickets;
    ends->tickets = ticket;
}

void gw_infer_ends_run(struct gw_infer_ends *ends)
{
    while (ends->tickets != NULL) {
        struct gw_infer_ticket *ticket = ends->tickets;
        ends->tickets = ticket->next;
        ticket->done(ticket);
    }
    while (ends->dead != NULL) {
        struct gw_infer_version *version = ends->dead;
        ends->dead = version->next_dead;
        gw_infer_version_free(version);
    }
    while (ends->sessions != NULL) {
        struct gw_infer_session *session = ends->sessions;
        ends->sessions = session->next;
        free_session(session);
    }
    struct gw_infer_shadow *shadows = ends->shadows;
    ends->shadows = NULL;
    gw_infer_shadows_begin(shadows);
}

// With the lock, on a thread that does not run it: whoever does, on a caller's own thread as well,
// hears no more of it, so its end is told as of any call of another thread.
static void end_for(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                    enum base_status status, struct gw_infer_ends *ends)
{
    ticket->here = false;
    gw_infer_end(service, ticket, status, ends);
}

// ---- A call comes

// Without the lock, of a call that is in no list: refused, or answered by the cache.
static void refuse(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                   enum base_status status)
{
    pthread_mutex_lock(&service->lock); // its caller may be about to cancel it
    ticket->state = GW_INFER_DONE;
    pthread_mutex_unlock(&service->lock);
    ticket->status = status;
    ticket->done(ticket);
}

// The last one that would go after a call of this priority; NULL: there is none.
static struct gw_infer_ticket *last_behind(const struct gw_infer_version *version,
                                           uint32_t priority)
{
    for (uint32_t at = GW_INFER_PRIORITIES; at-- > priority + 1;) {
        if (version->queue.last[at] != NULL) {
            return gw_infer_ticket_of(version->queue.last[at]);
        }
    }
    return NULL;
}

static uint64_t expected_us(const struct gw_infer_version *version, uint32_t priority)
{
    const struct gw_infer_pace pace = {version->batch_us, version->batch_shape, version->instances,
                                       version->running};
    return gw_infer_expected_us(&version->queue, &version->rules, &pace, priority);
}

static uint32_t seconds_of(uint64_t us)
{
    uint64_t seconds = us / SECOND_US + 1;
    return seconds < GW_INFER_TIMEOUT_US_MAX / SECOND_US ? (uint32_t)seconds
                                                         : GW_INFER_TIMEOUT_US_MAX / SECOND_US;
}

// Is there a place for such a call in the queue, and would it be run in time? LIMIT: no. *out_last:
// whose place it takes; NULL: there is one.
static enum base_status judge(const struct gw_infer_service *service,
                              const struct gw_infer_version *version,
                              const struct gw_infer_wait *wait, struct gw_infer_ticket **out_last,
                              struct base_error *error)
{
    // Where nothing is before it, it goes at once: what a run took lately, such as the first one,
    // which plans, is no reason never to try again.
    bool idle = version->queue.count == 0 && version->running < version->instances;
    *out_last = NULL;
    if (!idle && base_sat_add_u64(wait->arrived_us, expected_us(version, wait->priority)) >
                     wait->deadline_us) {
        return base_error_set(error, BASE_ERR_LIMIT,
                              "calls before it would take longer than its timeout");
    }
    if (version->queue.count < version->queue_max && service->ticket_count < GW_INFER_CALLS_MAX) {
        return BASE_OK;
    }
    *out_last = last_behind(version, wait->priority);
    return *out_last != NULL
               ? BASE_OK
               : base_error_set(error, BASE_ERR_LIMIT, "too many calls wait for the model");
}

static enum base_status admit(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                              struct gw_infer_ends *ends)
{
    struct gw_infer_ticket *last = NULL;
    ticket->retry_after_s = seconds_of(expected_us(ticket->version, ticket->wait.priority));
    if (service->draining) {
        return base_error_set(&ticket->error, BASE_ERR_BUSY, "the service is about to end");
    }
    BASE_TRY(judge(service, ticket->version, &ticket->wait, &last, &ticket->error));
    if (last == NULL) {
        return BASE_OK;
    }
    (void)base_error_set(&last->error, BASE_ERR_LIMIT, "calls of a better priority took its place");
    end_for(service, last, BASE_ERR_LIMIT, ends);
    return BASE_OK;
}

bool gw_infer_crowded(struct gw_infer_service *service, const struct gw_infer_call *named)
{
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_version *version =
        gw_infer_find(service, named->model, named->version, NULL);
    bool crowded = version != NULL && version->cache == NULL && // which may have its answer
                   (version->queue.count > 0 || service->ticket_count >= GW_INFER_CALLS_MAX);
    pthread_mutex_unlock(&service->lock);
    return crowded;
}

enum base_status gw_infer_foresee(struct gw_infer_service *service,
                                  const struct gw_infer_call *call, uint32_t *out_retry_after_s,
                                  struct base_error *error)
{
    enum base_status status = BASE_OK;
    struct gw_infer_ticket *last = NULL;
    struct gw_infer_wait wait = {.priority = call->priority, .deadline_us = UINT64_MAX};
    base_check(call->priority < GW_INFER_PRIORITIES);
    wait.arrived_us = base_clock_mono_us();
    if (call->timeout_us != 0) {
        wait.deadline_us = base_sat_add_u64(wait.arrived_us, call->timeout_us);
    }
    pthread_mutex_lock(&service->lock);
    struct gw_infer_version *version = gw_infer_find(service, call->model, call->version, NULL);
    if (version != NULL && !service->draining) { // else its end says why
        status = judge(service, version, &wait, &last, error);
        version->figures.refused += status != BASE_OK;
        *out_retry_after_s = seconds_of(expected_us(version, call->priority));
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

uint64_t gw_infer_span(struct gw_infer_service *service)
{
    uint64_t number = atomic_fetch_add_explicit(&service->span_count, 1, memory_order_relaxed);
    uint64_t span = base_keyed64_u64(&service->hash_key, number);
    return span != 0 ? span : 1;
}

enum base_status gw_infer_charge(struct gw_infer_service *service, uint16_t tenant, uint64_t bytes,
                                 uint32_t *out_retry_after_s, struct base_error *error)
{
    const struct gw_tenant_call call = {tenant, bytes};
    return gw_tenant_quota_take(service->quota, &call, base_clock_mono_us(), out_retry_after_s,
                                error);
}

// With the lock, and a reference of the version in the ticket.
static void enqueue(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    list(service, ticket);
    ticket->state = GW_INFER_WAITING;
    gw_infer_queue_put(&ticket->version->queue, &ticket->wait);
    pthread_cond_signal(&service->work);
}

// Without the lock: is its answer in the version's cache? Else a run's answer will be, under the
// key that the ticket has now.
static bool is_cached(struct gw_infer_ticket *ticket)
{
    const struct gw_infer_version *version = ticket->version;
    if (version->cache == NULL) {
        return false;
    }
    const struct gw_infer_asked asked = {ticket->inputs, eng_model_input_count(version->engine),
                                         ticket->outputs, ticket->output_count};
    ticket->cache_key = gw_infer_cache_key_of(version->cache, &asked);
    return gw_infer_cache_has_key(&ticket->cache_key) &&
           gw_infer_cache_get(version->cache, &ticket->cache_key, ticket->arena, &ticket->result) &&
           gw_infer_name_result(ticket, version) == BASE_OK;
}

// With the lock: counts what the cache had for the call. True: it is answered.
static bool take_cached(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                        bool cached, struct gw_infer_ends *ends)
{
    struct gw_infer_figures *figures = &ticket->version->figures;
    cached = cached && !service->draining;
    figures->cache_hits += cached;
    figures->cache_misses += !cached && gw_infer_cache_has_key(&ticket->cache_key);
    if (!cached) {
        return false;
    }
    figures->calls++;
    figures->rows += ticket->wait.rows;
    gw_infer_version_drop(service, ticket->version, ends);
    ticket->version = NULL;
    return true;
}

// With the lock: a call that was let in. What belongs to a release is queued, as it is measured.
static void go(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    if (ticket->arm == GW_INFER_ARM_SHADOW) {
        ticket->wait.shape = ~ticket->wait.shape; // no batch with anybody's call in it
    }
    if (ticket->here && ticket->arm == GW_INFER_ARM_NONE &&
        gw_infer_may_run_here(service, ticket)) {
        list(service, ticket);
        gw_infer_run_here(service, ticket);
    } else {
        ticket->here = false;
        enqueue(service, ticket);
    }
}

// A call that is read. It ends there, is in a queue then, or both already.
static void offer(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    struct gw_infer_ends ends = {0};
    uint64_t asked_us = ticket->call->timeout_us != 0
                            ? base_sat_add_u64(ticket->wait.arrived_us, ticket->call->timeout_us)
                            : UINT64_MAX;
    pthread_mutex_lock(&service->lock);
    ticket->version = gw_infer_choose(service, ticket);
    if (ticket->version != NULL) {
        ticket->version->refs++;
    }
    pthread_mutex_unlock(&service->lock);
    if (ticket->version == NULL) {
        refuse(service, ticket, ticket->error.status);
        return;
    }
    ticket->wait.arrived_us = ticket->read != NULL ? base_clock_mono_us() : ticket->wait.arrived_us;
    if (asked_us < ticket->wait.deadline_us) {
        ticket->wait.deadline_us = asked_us;
    }
    enum base_status status = gw_infer_check(ticket->version, ticket);
    bool answered = status == BASE_OK && ticket->arm == GW_INFER_ARM_NONE && is_cached(ticket);
    pthread_mutex_lock(&service->lock);
    if (status == BASE_OK && ticket->cancelled) {
        status = base_error_set(&ticket->error, BASE_ERR_CLOSED, "the caller is gone");
    }
    if (status == BASE_OK && ticket->arm != GW_INFER_ARM_SHADOW) {
        gw_infer_shadow_yield(service, ticket->version, &ends);
    }
    answered = status == BASE_OK && take_cached(service, ticket, answered, &ends);
    if (status == BASE_OK && !answered) {
        status = admit(service, ticket, &ends);
    }
    if (answered) {
        ticket->state = GW_INFER_DONE;
    } else if (status == BASE_OK) {
        go(service, ticket);
    } else {
        gw_infer_arm_refused(service, ticket, status);
        ticket->version->figures.refused +=
            status == BASE_ERR_LIMIT && ticket->arm != GW_INFER_ARM_SHADOW;
        ticket->version->figures.cancelled += status == BASE_ERR_CLOSED;
        ticket->version->figures.invalid +=
            base_status_is_input(status) && ticket->arm != GW_INFER_ARM_SHADOW;
        gw_infer_version_drop(service, ticket->version, &ends);
        ticket->version = NULL;
    }
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    if (status != BASE_OK || answered) { // else it is no longer ours
        refuse(service, ticket, status);
    }
}

// ---- A call that is to be read first

// With the lock.
static void count_misread(struct gw_infer_service *service, const struct gw_infer_call *call)
{
    struct gw_infer_version *version = gw_infer_find(service, call->model, call->version, NULL);
    if (version != NULL) {
        version->figures.invalid++;
    }
}

void gw_infer_misread(struct gw_infer_service *service, const struct gw_infer_call *call)
{
    pthread_mutex_lock(&service->lock);
    count_misread(service, call);
    pthread_mutex_unlock(&service->lock);
}

static void await_reading(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&service->lock);
    if (service->draining) {
        status = base_error_set(&ticket->error, BASE_ERR_BUSY, "the service is about to end");
    } else if (service->unread.count == GW_INFER_UNREAD_MAX ||
               service->ticket_count == GW_INFER_CALLS_MAX) {
        ticket->retry_after_s = 1;
        status = base_error_set(&ticket->error, BASE_ERR_LIMIT, "too many large calls wait");
    } else {
        list(service, ticket);
        ticket->here = false;
        ticket->state = GW_INFER_UNREAD;
        ticket->wait.priority = GW_INFER_PRIORITY_USUAL; // until it is read
        ticket->wait.rows = 1;
        gw_infer_queue_put(&service->unread, &ticket->wait);
        pthread_cond_signal(&service->work);
    }
    pthread_mutex_unlock(&service->lock);
    if (status != BASE_OK) {
        refuse(service, ticket, status);
    }
}

bool gw_infer_read_next(struct gw_infer_service *service)
{
    struct gw_infer_wait *first = service->unread.first[GW_INFER_PRIORITY_USUAL];
    if (first == NULL || service->reading >= (service->thread_count + 1) / 2) {
        return false; // half of them are left for calls that are read
    }
    struct gw_infer_ticket *ticket = gw_infer_ticket_of(first);
    gw_infer_queue_remove(&service->unread, first);
    ticket->state = GW_INFER_READING;
    service->reading++;
    pthread_mutex_unlock(&service->lock);
    enum base_status status = ticket->read(ticket);
    pthread_mutex_lock(&service->lock);
    service->reading--;
    unlist(service, ticket);
    ticket->state = GW_INFER_NEW;
    if (base_status_is_input(status)) {
        count_misread(service, ticket->call);
    } else if (status == BASE_OK && ticket->cancelled) {
        status = base_error_set(&ticket->error, BASE_ERR_CLOSED, "nobody waits for it any more");
    }
    pthread_mutex_unlock(&service->lock);
    if (status == BASE_OK) {
        offer(service, ticket);
    } else {
        refuse(service, ticket, status);
    }
    pthread_mutex_lock(&service->lock);
    return true;
}

void gw_infer_submit(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    base_check(ticket->state == GW_INFER_NEW);
    ticket->wait.arrived_us = base_clock_mono_us();
    ticket->wait.deadline_us = ticket->deadline_us != 0 ? ticket->deadline_us : UINT64_MAX;
    ticket->here = true; // as far as is known
    if (ticket->read != NULL) {
        await_reading(service, ticket);
    } else {
        offer(service, ticket);
    }
}

void gw_infer_cancel(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    struct gw_infer_ends ends = {0};
    pthread_mutex_lock(&service->lock);
    if (ticket->state == GW_INFER_UNREAD || ticket->state == GW_INFER_WAITING ||
        ticket->state == GW_INFER_RUNNING) {
        end_for(service, ticket, BASE_ERR_CLOSED, &ends);
    } else {
        ticket->cancelled = true;
    }
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
}

// ---- Deadlines

// A thread is at its memory, so it cannot end now.
static bool is_held(const struct gw_infer_ticket *ticket)
{
    return ticket->state == GW_INFER_READING || ticket->state == GW_INFER_HELD;
}

// With the lock: ends what is over; when to look again.
static uint64_t end_overdue(struct gw_infer_service *service, uint64_t now_us,
                            struct gw_infer_ends *ends)
{
    uint64_t look_us = UINT64_MAX;
    struct gw_infer_ticket *next;
    for (struct gw_infer_ticket *ticket = service->tickets; ticket != NULL; ticket = next) {
        uint64_t deadline_us = ticket->wait.deadline_us;
        next = ticket->next;
        if (deadline_us <= now_us && !is_held(ticket)) {
            end_for(service, ticket, BASE_ERR_TIMEOUT, ends);
        } else if (deadline_us < look_us) {
            look_us = deadline_us;
        }
    }
    uint64_t least_us = now_us + KEEPER_STEP_US;
    return look_us > least_us ? look_us : least_us;
}

static void *keeper_main(void *arg)
{
    struct gw_infer_service *service = arg;
    pthread_mutex_lock(&service->lock);
    while (!service->stopping) {
        struct gw_infer_ends ends = {0};
        service->watch_us = end_overdue(service, base_clock_mono_us(), &ends);
        if (ends.tickets != NULL || ends.dead != NULL) {
            pthread_mutex_unlock(&service->lock);
            gw_infer_ends_run(&ends);
            pthread_mutex_lock(&service->lock);
        } else {
            gw_infer_wait_until(&service->watch, &service->lock, service->watch_us);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

// ---- Life

static void make_locks(struct gw_infer_service *service)
{
    pthread_condattr_t by_clock;
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&service->lock, NULL);
    pthread_mutex_init(&service->load_lock, NULL);
    pthread_cond_init(&service->work, &by_clock);
    pthread_cond_init(&service->watch, &by_clock);
    pthread_condattr_destroy(&by_clock);
}

static enum base_status start_threads(struct gw_infer_service *service, struct base_error *error)
{
    if (pthread_create(&service->keeper, NULL, keeper_main, service) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start a thread");
    }
    service->keeper_started = true;
    for (; service->started_count < service->thread_count; service->started_count++) {
        if (pthread_create(&service->threads[service->started_count], NULL, gw_infer_run_main,
                           service) != 0) {
            return base_error_set(error, BASE_ERR_NOMEM, "cannot start a thread");
        }
    }
    return BASE_OK;
}

// What can be loaded is; what cannot is in the log and the index.
static enum base_status load_all(struct gw_infer_service *service, struct base_error *error)
{
    struct gw_infer_names *names = malloc(sizeof(*names));
    if (names == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the models' names");
    }
    enum base_status status = gw_infer_repository_list(service->dir, names, error);
    for (uint32_t i = 0; status == BASE_OK && i < names->count; i++) {
        if (!service->explicit_models) {
            gw_infer_load_first(service, base_str_of(names->names[i]));
        }
    }
    free(names);
    return status;
}

static uint32_t thread_count(uint32_t wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = wanted != 0 ? wanted : cores > 0 ? (uint32_t)cores : 1;
    return count < GW_INFER_THREADS_MAX ? count : GW_INFER_THREADS_MAX;
}

enum base_status gw_infer_service_new(const struct gw_infer_options *options,
                                      struct gw_infer_service **out_service,
                                      struct base_error *error)
{
    struct gw_infer_service *service = calloc(1, sizeof(*service));
    if (service == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the inference service");
    }
    make_locks(service);
    service->watch_us = UINT64_MAX;
    service->stop_here_us = GW_INFER_STOP_HERE_US;
    service->thread_count = thread_count(options->threads);
    service->explicit_models = options->explicit_models;
    service->session_bytes_max = options->session_bytes_max;
    service->idle_bytes_max = options->idle_bytes_max;
    service->hash_key = options->hash_key;
    service->log = options->log;
    service->read_call = options->read_call;
    service->dir = strdup(options->models_dir);
    service->quota = gw_tenant_quota_new(&options->quota);
    const struct gw_device_quota quota = {options->device_calls_per_min,
                                          options->device_bytes_per_min};
    enum base_status status =
        service->dir != NULL && service->quota != NULL
            ? gw_device_ledger_new(&quota, &options->hash_key, &service->ledger)
            : BASE_ERR_NOMEM;
    status = status == BASE_OK ? load_all(service, error)
                               : base_error_set(error, status, "no memory for names and devices");
    if (status == BASE_OK) {
        status = start_threads(service, error);
    }
    if (status != BASE_OK) {
        gw_infer_service_free(service);
        return status;
    }
    *out_service = service;
    return BASE_OK;
}

struct gw_device_ledger *gw_infer_ledger(struct gw_infer_service *service)
{
    return service->ledger;
}

void gw_infer_service_drain(struct gw_infer_service *service)
{
    pthread_mutex_lock(&service->lock);
    service->draining = true;
    pthread_mutex_unlock(&service->lock);
}

// With the lock: every call that may end does; the rest ends with its batch, which stops.
static void end_all(struct gw_infer_service *service, struct gw_infer_ends *ends)
{
    struct gw_infer_ticket *next;
    service->draining = true;
    service->stopping = true;
    for (struct gw_infer_ticket *ticket = service->tickets; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (is_held(ticket)) {
            ticket->cancelled = true;
            continue;
        }
        (void)base_error_set(&ticket->error, BASE_ERR_CLOSED, "the service ended");
        end_for(service, ticket, BASE_ERR_CLOSED, ends);
    }
    pthread_cond_broadcast(&service->work);
    pthread_cond_broadcast(&service->watch);
}

void gw_infer_service_free(struct gw_infer_service *service)
{
    struct gw_infer_ends ends = {0};
    if (service == NULL) {
        return;
    }
    pthread_mutex_lock(&service->lock);
    end_all(service, &ends);
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    for (uint32_t i = 0; i < service->started_count; i++) {
        pthread_join(service->threads[i], NULL);
    }
    if (service->keeper_started) {
        pthread_join(service->keeper, NULL);
    }
    base_check(service->tickets == NULL);
    for (uint32_t i = 0; i < service->model_count; i++) {
        struct gw_infer_model *model = service->models[i];
        for (uint32_t k = 0; k < model->version_count; k++) {
            gw_infer_version_drop(service, model->versions[k], &ends);
        }
        free(model->candidate.trial);
        free(model->candidate.callers);
        free(model);
    }
    gw_infer_ends_run(&ends);
    gw_device_ledger_free(service->ledger);
    pthread_cond_destroy(&service->watch);
    pthread_cond_destroy(&service->work);
    pthread_mutex_destroy(&service->lock);
    pthread_mutex_destroy(&service->load_lock);
    gw_tenant_quota_free(service->quota);
    free(service->dir);
    free(service);
}
