// The threads that run models. Each takes the next batch of a version that may run one more, copies
// the calls' inputs into a session, runs it, copies the outputs out and ends the calls. While
// inputs or outputs are copied a call is held; while the model runs it is not needed, so one that
// is cancelled or overdue ends at once, and the run stops when it was the last. A batch that fails
// is run again call by call, so that nobody fails for what another one sent. The same threads read
// calls that take long to read.
#include "infer/infer_arm.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

// ---- The next batch, with the lock

static void join(struct gw_infer_batch *batch, struct gw_infer_ticket *ticket)
{
    uint32_t last = batch->count;
    batch->from[last] = last > 0 ? batch->from[last - 1] + batch->tickets[last - 1]->wait.rows : 0;
    batch->tickets[last] = ticket;
    batch->shape = ticket->wait.shape;
    batch->count++;
    batch->left++;
    ticket->state = GW_INFER_HELD;
    ticket->batch = batch;
}

static void begin(struct gw_infer_batch *batch, struct gw_infer_version *version,
                  struct gw_infer_wait **waits, uint32_t count)
{
    batch->version = version;
    version->refs++;
    version->running++;
    for (uint32_t i = 0; i < count; i++) {
        join(batch, gw_infer_ticket_of(waits[i]));
    }
}

// Whoever ran goes behind the others.
static void move_last(struct gw_infer_service *service, struct gw_infer_version *version)
{
    struct gw_infer_version **at = &service->versions;
    while (*at != version) {
        at = &(*at)->next;
    }
    *at = version->next;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    version->next = NULL;
    *at = version;
}

// The best priority first, of all versions. False: none goes now; *out_look_us is when.
static bool pick(struct gw_infer_service *service, struct gw_infer_batch *batch,
                 uint64_t *out_look_us)
{
    struct gw_infer_wait *waits[GW_INFER_BATCH_MAX];
    uint64_t now_us = base_clock_mono_us();
    *out_look_us = UINT64_MAX;
    for (uint32_t at = 0; at < GW_INFER_PRIORITIES; at++) {
        for (struct gw_infer_version *version = service->versions; version != NULL;
             version = version->next) {
            uint64_t look_us = UINT64_MAX;
            if (version->queue.first[at] == NULL || version->running >= version->instances) {
                continue;
            }
            uint32_t count =
                gw_infer_batch_take(&version->queue, &version->rules, now_us, waits, &look_us);
            if (count > 0) {
                begin(batch, version, waits, count);
                move_last(service, version);
                return true;
            }
            *out_look_us = look_us < *out_look_us ? look_us : *out_look_us;
        }
    }
    return false;
}

// ---- Sessions, with the lock but for their making

// One that is planned for this, else none while there may be more, else the one unused longest.
static struct gw_infer_session *take_session(struct gw_infer_version *version, uint64_t shape,
                                             uint32_t rows)
{
    struct gw_infer_session **last = NULL;
    for (struct gw_infer_session **at = &version->idle; *at != NULL; at = &(*at)->next) {
        struct gw_infer_session *session = *at;
        if (session->shape == shape && session->rows == rows) {
            *at = session->next;
            version->idle_bytes -= session->bytes;
            return session;
        }
        last = at;
    }
    if (last == NULL || version->session_count < version->instances * GW_INFER_SESSIONS_MAX) {
        version->session_count++;
        return NULL;
    }
    struct gw_infer_session *session = *last;
    *last = NULL;
    version->idle_bytes -= session->bytes;
    return session;
}

enum base_status gw_infer_session_new(const struct gw_infer_service *service,
                                      const struct gw_infer_version *version,
                                      struct gw_infer_session **out, struct base_error *error)
{
    const struct eng_session_options options = {.memory_bytes_max = service->session_bytes_max};
    struct gw_infer_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a session");
    }
    enum base_status status = eng_session_new(version->engine, &options, &session->engine, error);
    if (status != BASE_OK) {
        free(session);
        return status;
    }
    *out = session;
    return BASE_OK;
}

void gw_infer_idle_put(struct gw_infer_version *version, struct gw_infer_session *session)
{
    struct eng_session_stats stats;
    eng_session_stats(session->engine, &stats);
    session->bytes = stats.arena_bytes + stats.plan_bytes;
    session->by_contents = session->by_contents || stats.by_contents;
    version->idle_bytes += session->bytes;
    session->next = version->idle;
    version->idle = session;
}

// The last one of a version is the one unused longest of it.
static struct gw_infer_session **last_idle(struct gw_infer_version *version)
{
    struct gw_infer_session **at = &version->idle;
    while (*at != NULL && (*at)->next != NULL) {
        at = &(*at)->next;
    }
    return at;
}

// The version with the session unused longest of all. *out_bytes: what all of them hold.
static struct gw_infer_version *oldest_idle(const struct gw_infer_service *service,
                                            size_t *out_bytes)
{
    struct gw_infer_version *found = NULL;
    uint64_t used_at = UINT64_MAX;
    *out_bytes = 0;
    for (struct gw_infer_version *at = service->versions; at != NULL; at = at->next) {
        const struct gw_infer_session *last = *last_idle(at);
        *out_bytes += at->idle_bytes;
        if (last != NULL && last->used_at < used_at) {
            found = at;
            used_at = last->used_at;
        }
    }
    return found;
}

void gw_infer_idle_trim(struct gw_infer_service *service, struct gw_infer_ends *ends)
{
    size_t bytes;
    struct gw_infer_version *version = oldest_idle(service, &bytes);
    while (version != NULL && service->idle_bytes_max != 0 && bytes > service->idle_bytes_max) {
        struct gw_infer_session **last = last_idle(version);
        struct gw_infer_session *session = *last;
        *last = NULL;
        version->idle_bytes -= session->bytes;
        version->session_count--;
        session->next = ends->sessions;
        ends->sessions = session;
        version = oldest_idle(service, &bytes);
    }
}

static void give_session(struct gw_infer_service *service, const struct gw_infer_batch *batch,
                         struct gw_infer_ends *ends)
{
    if (batch->session == NULL) {
        batch->version->session_count--;
        return;
    }
    batch->session->used_at = ++service->idle_puts;
    gw_infer_idle_put(batch->version, batch->session);
    gw_infer_idle_trim(service, ends);
}

// ---- Inputs

// No fault of the call, whatever the engine says of it.
static enum base_status make_session(const struct gw_infer_service *service,
                                     struct gw_infer_batch *batch, struct base_error *error)
{
    struct base_error why = {0};
    if (batch->session != NULL ||
        gw_infer_session_new(service, batch->version, &batch->session, &why) == BASE_OK) {
        return BASE_OK;
    }
    return base_error_set(error, BASE_ERR_BUSY, "the model has no session: %s", why.text);
}

// The rows of all calls behind one another, and the last one again up to the planned number.
static enum base_status gather_rows(const struct gw_infer_batch *batch, size_t index,
                                    struct base_error *error)
{
    struct eng_session *engine = batch->session->engine;
    struct eng_desc desc = batch->tickets[0]->inputs[index]->desc;
    struct eng_array array;
    desc.dims[0] = batch->rows;
    BASE_TRY(eng_session_resize(engine, index, &desc, error));
    BASE_TRY(eng_session_input(engine, index, &array, error));
    size_t size = eng_desc_bytes(&array.desc);
    size_t row = size / batch->rows;
    size_t at = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct gw_infer_tensor *tensor = batch->tickets[i]->inputs[index];
        base_check(tensor->bytes <= size - at);
        if (tensor->bytes > 0) {
            memcpy((uint8_t *)array.data + at, tensor->data, tensor->bytes);
        }
        at += tensor->bytes;
    }
    for (; at < size; at += row) {
        memcpy((uint8_t *)array.data + at, (uint8_t *)array.data + at - row, row);
    }
    return BASE_OK;
}

static enum base_status gather(const struct gw_infer_service *service, struct gw_infer_batch *batch,
                               struct base_error *error)
{
    size_t count = eng_model_input_count(batch->version->engine);
    BASE_TRY(make_session(service, batch, error));
    batch->session->shape = batch->shape;
    batch->session->rows = batch->rows;
    for (size_t i = 0; i < count; i++) {
        if (batch->rows > 0) {
            BASE_TRY(gather_rows(batch, i, error));
            continue;
        }
        const struct gw_infer_tensor *tensor = batch->tickets[0]->inputs[i];
        const struct eng_array array = {tensor->desc, (void *)(uintptr_t)tensor->data};
        BASE_TRY(eng_session_set_input(batch->session->engine, i, &array, error));
    }
    return BASE_OK;
}

// ---- Outputs

static enum base_status copy_texts(struct base_arena *arena, struct eng_string *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        texts[i].at = base_arena_copy(arena, texts[i].at, (size_t)texts[i].size);
        if (texts[i].at == NULL && texts[i].size > 0) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

// Rows `from` to `from + rows` of an output, or all of it. *total: bytes of the call's outputs.
static enum base_status copy_output(const struct gw_infer_batch *batch,
                                    struct gw_infer_ticket *ticket, size_t index, uint32_t from,
                                    size_t *total)
{
    struct gw_infer_tensor *out = &ticket->result.outputs[index];
    struct eng_array array;
    uint32_t port = ticket->outputs[index];
    const char *name = eng_model_output(batch->version->engine, port)->name;
    BASE_TRY(eng_session_output(batch->session->engine, port, &array, &ticket->error));
    const uint8_t *data = array.data;
    out->desc = array.desc;
    if (batch->rows > 0) {
        if (array.desc.rank == 0 || array.desc.dims[0] != batch->rows) {
            return base_error_set(&ticket->error, BASE_ERR_UNSUPPORTED,
                                  "output '%.60s' has not a row for each of the input: max_batch "
                                  "must be 1",
                                  name);
        }
        out->desc.dims[0] = ticket->wait.rows;
        data += eng_desc_bytes(&array.desc) / batch->rows * from;
    }
    out->bytes = eng_desc_bytes(&out->desc);
    if (out->bytes > GW_INFER_OUTPUTS_MAX - *total) {
        return base_error_set(&ticket->error, BASE_ERR_TOO_LARGE,
                              "outputs of more than %zu bytes with '%.60s'", GW_INFER_OUTPUTS_MAX,
                              name);
    }
    *total += out->bytes;
    out->data = base_arena_copy(ticket->arena, data, out->bytes);
    const char *copy = base_arena_text(ticket->arena, name, strlen(name));
    out->name = base_str_of(copy);
    if (out->data == NULL || copy == NULL ||
        (out->desc.dtype == ENG_STRING &&
         copy_texts(ticket->arena, (struct eng_string *)(uintptr_t)out->data,
                    (size_t)eng_desc_count(&out->desc)) != BASE_OK)) {
        return base_error_set(&ticket->error, BASE_ERR_NOMEM, "no room for output '%.60s'", name);
    }
    return BASE_OK;
}

enum base_status gw_infer_name_result(struct gw_infer_ticket *ticket,
                                      const struct gw_infer_version *version)
{
    struct gw_infer_result *result = &ticket->result;
    const char *name = base_arena_text(ticket->arena, version->name, strlen(version->name));
    const char *text = base_arena_text(ticket->arena, version->text, strlen(version->text));
    if (name == NULL || text == NULL) {
        return base_error_set(&ticket->error, BASE_ERR_NOMEM, "no room for the outputs");
    }
    result->model = base_str_of(name);
    result->version = base_str_of(text);
    result->id = ticket->call->id;
    return BASE_OK;
}

static enum base_status scatter(const struct gw_infer_batch *batch, struct gw_infer_ticket *ticket,
                                uint32_t from)
{
    struct gw_infer_result *result = &ticket->result;
    BASE_TRY(gw_infer_name_result(ticket, batch->version));
    result->outputs =
        base_arena_zalloc(ticket->arena, (ticket->output_count + 1) * sizeof(*result->outputs));
    if (result->outputs == NULL) {
        return base_error_set(&ticket->error, BASE_ERR_NOMEM, "no room for the outputs");
    }
    result->output_count = ticket->output_count;
    size_t total = 0;
    for (size_t i = 0; i < ticket->output_count; i++) {
        BASE_TRY(copy_output(batch, ticket, i, from, &total));
    }
    if (gw_infer_cache_has_key(&ticket->cache_key)) {
        gw_infer_cache_put(batch->version->cache, &ticket->cache_key, result);
    }
    return BASE_OK;
}

// ---- A batch

// With the lock: the inputs are copied, so nothing of the calls is needed. The latest deadline of
// them; 0: one has none.
static uint64_t let_go(struct gw_infer_service *service, struct gw_infer_batch *batch,
                       struct gw_infer_ends *ends)
{
    uint64_t now_us = base_clock_mono_us();
    uint64_t latest_us = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct gw_infer_ticket *ticket = batch->tickets[i];
        bool late = ticket->wait.deadline_us <= now_us;
        ticket->state = GW_INFER_RUNNING;
        latest_us = ticket->wait.deadline_us > latest_us ? ticket->wait.deadline_us : latest_us;
        if (ticket->cancelled || late) {
            gw_infer_end(service, ticket, late ? BASE_ERR_TIMEOUT : BASE_ERR_CLOSED, ends);
        }
    }
    return latest_us == UINT64_MAX ? 0 : latest_us;
}

static void count_run(struct gw_infer_batch *batch, uint64_t began_us, uint64_t ended_us)
{
    struct gw_infer_version *version = batch->version;
    uint64_t us = ended_us - began_us;
    version->figures.batches++;
    version->figures.run_us += us;
    version->batch_us = version->batch_us == 0 ? us : (version->batch_us * 7 + us) / 8;
    version->batch_shape = batch->shape;
    uint64_t longest_us = batch->session->run_us;
    batch->session->run_us = us > longest_us ? us : (longest_us * 7 + us) / 8;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct gw_infer_ticket *ticket = batch->tickets[i];
        if (ticket != NULL) {
            ticket->queue_us = began_us - ticket->wait.arrived_us;
            ticket->run_us = us;
            version->figures.queue_us += ticket->queue_us;
        }
    }
}

// With the lock, before and after: runs the session. What the engine says.
static enum base_status run(struct gw_infer_service *service, struct gw_infer_batch *batch,
                            struct base_error *error)
{
    struct gw_infer_ends ends = {0};
    uint64_t began_us = base_clock_mono_us();
    gw_infer_arms_begin(batch, began_us);
    pthread_mutex_unlock(&service->lock);
    enum base_status status = gather(service, batch, error);
    pthread_mutex_lock(&service->lock);
    struct eng_run_options limits = {.deadline_us = let_go(service, batch, &ends),
                                     .stop = &batch->stop};
    uint64_t stop_us = batch->here ? base_clock_mono_us() + service->stop_here_us : UINT64_MAX;
    if (batch->here && (limits.deadline_us == 0 || stop_us < limits.deadline_us)) {
        limits.deadline_us = stop_us;
    }
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    if (status == BASE_OK) {
        status = eng_session_run(batch->session->engine, &limits, error);
    }
    pthread_mutex_lock(&service->lock);
    if (status == BASE_OK) {
        count_run(batch, began_us, base_clock_mono_us());
    } else if (batch->session != NULL) {
        batch->session->run_us = 0; // it may have no plan now, and what a run takes is not known
    }
    return status;
}

// With the lock: those of the calls that are shadowed and for whose shadow there is no room are so
// no more. Are there others?
static bool have_shadows(struct gw_infer_service *service, struct gw_infer_batch *batch)
{
    bool have = false;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct gw_infer_ticket *ticket = batch->tickets[i];
        if (ticket == NULL || ticket->arm != GW_INFER_ARM_SHADOWED) {
            continue;
        }
        ticket->arm =
            gw_infer_shadow_room(service, ticket) ? GW_INFER_ARM_SHADOWED : GW_INFER_ARM_SERVING;
        have = have || ticket->arm == GW_INFER_ARM_SHADOWED;
    }
    return have;
}

static void copy_shadow(struct gw_infer_service *service, const struct gw_infer_ticket *ticket,
                        enum base_status status, struct gw_infer_ends *ends)
{
    if (ticket == NULL || ticket->arm != GW_INFER_ARM_SHADOWED) {
        return;
    }
    struct gw_infer_shadow *shadow = gw_infer_shadow_copy(service, ticket, status == BASE_OK);
    if (shadow != NULL) {
        gw_infer_shadow_put(ends, shadow);
    }
}

// With the lock, before and after: what is left of the batch gets its outputs.
static void answer(struct gw_infer_service *service, struct gw_infer_batch *batch,
                   struct gw_infer_ends *ends)
{
    enum base_status statuses[GW_INFER_BATCH_MAX];
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->tickets[i] != NULL) {
            batch->tickets[i]->state = GW_INFER_HELD;
        }
    }
    bool shadows = have_shadows(service, batch);
    pthread_mutex_unlock(&service->lock);
    for (uint32_t i = 0; i < batch->count; i++) {
        statuses[i] =
            batch->tickets[i] != NULL ? scatter(batch, batch->tickets[i], batch->from[i]) : BASE_OK;
    }
    for (uint32_t i = 0; shadows && i < batch->count; i++) {
        copy_shadow(service, batch->tickets[i], statuses[i], ends);
    }
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->tickets[i] != NULL) {
            gw_infer_end(service, batch->tickets[i], statuses[i], ends);
        }
    }
}

// With the lock: all that is left ends so.
static void fail(struct gw_infer_service *service, struct gw_infer_batch *batch,
                 const struct base_error *error, struct gw_infer_ends *ends)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->tickets[i] != NULL) {
            if (error->status != BASE_ERR_TIMEOUT) { // which the service has words for
                batch->tickets[i]->error = *error;
            }
            gw_infer_end(service, batch->tickets[i], error->status, ends);
        }
    }
}

// With the lock: was it too long for its caller's thread, and is somebody waiting for it?
static bool is_stopped_here(const struct gw_infer_batch *batch, enum base_status status)
{
    return batch->here && status == BASE_ERR_TIMEOUT && batch->tickets[0] != NULL &&
           batch->tickets[0]->wait.deadline_us > base_clock_mono_us();
}

// With the lock: the one call of a run that was stopped waits for a thread of the service.
static void wait_again(struct gw_infer_service *service, struct gw_infer_batch *batch)
{
    struct gw_infer_ticket *ticket = batch->tickets[0];
    base_assert(batch->count == 1 && ticket->state == GW_INFER_RUNNING);
    batch->tickets[0] = NULL;
    batch->left = 0;
    ticket->batch = NULL;
    ticket->here = false;
    ticket->state = GW_INFER_WAITING;
    gw_infer_queue_put(&ticket->version->queue, &ticket->wait);
    pthread_cond_signal(&service->work);
}

// What a batch of so many rows is planned for; 0: it is one call, with its inputs as they are.
static uint32_t rows_planned(const struct gw_infer_version *version, uint32_t rows)
{
    bool together = version->by_rows && rows > 0 && rows <= version->rules.rows_max;
    return together ? gw_infer_plan_rows(rows, version->rules.rows_max) : 0;
}

// With the lock, before and after. True: it failed, and each of its calls may do better alone.
static bool serve(struct gw_infer_service *service, struct gw_infer_batch *batch)
{
    struct gw_infer_ends ends = {0};
    struct base_error error = {0};
    struct gw_infer_version *version = batch->version;
    uint32_t last = batch->count - 1;
    batch->rows = rows_planned(version, batch->from[last] + batch->tickets[last]->wait.rows);
    uint64_t began_us = base_clock_mono_us();
    batch->session = take_session(version, batch->shape, batch->rows);
    batch->planned = batch->session != NULL && batch->session->shape == batch->shape &&
                     batch->session->rows == batch->rows;
    enum base_status status = run(service, batch, &error);
    if (status == BASE_ERR_LIMIT) {
        // LIMIT of a call says that others were in its way. This one would fail alone, and again.
        status = error.status = BASE_ERR_TOO_LARGE;
    }
    bool again = status != BASE_OK && status != BASE_ERR_TIMEOUT && batch->count > 1;
    if (status == BASE_OK) {
        answer(service, batch, &ends);
    } else if (is_stopped_here(batch, status)) {
        wait_again(service, batch);
    } else if (!again) {
        fail(service, batch, &error, &ends);
    }
    give_session(service, batch, &ends);
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    uint64_t ended_us = base_clock_mono_us();
    pthread_mutex_lock(&service->lock);
    if (status == BASE_OK && batch->planned && batch->rows > 0) {
        gw_infer_cost_add(&version->costs, batch->shape, batch->rows, ended_us - began_us);
    }
    return again;
}

// The same: each call that is left, in a batch of its own.
static void serve_alone(struct gw_infer_service *service, struct gw_infer_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct gw_infer_batch one = {.version = batch->version};
        struct gw_infer_ticket *ticket = batch->tickets[i];
        if (ticket == NULL) {
            continue; // it ended meanwhile
        }
        batch->tickets[i] = NULL;
        batch->left--;
        join(&one, ticket);
        (void)serve(service, &one);
    }
}

// With the lock, before and after.
static void serve_batch(struct gw_infer_service *service, struct gw_infer_batch *batch)
{
    struct gw_infer_ends ends = {0};
    if (serve(service, batch)) {
        serve_alone(service, batch);
    }
    batch->version->running--;
    if (batch->version->queue.count > 0) {
        pthread_cond_signal(&service->work); // another batch may have waited for the instance
    }
    gw_infer_version_drop(service, batch->version, &ends);
    pthread_mutex_unlock(&service->lock);
    gw_infer_ends_run(&ends);
    pthread_mutex_lock(&service->lock);
}

// Texts have any length.
static bool has_texts(const struct gw_infer_ticket *ticket)
{
    size_t count = eng_model_input_count(ticket->version->engine);
    for (size_t i = 0; i < count; i++) {
        if (ticket->inputs[i]->desc.dtype == ENG_STRING) {
            return true;
        }
    }
    return false;
}

bool gw_infer_may_run_here(const struct gw_infer_service *service,
                           const struct gw_infer_ticket *ticket)
{
    const struct gw_infer_version *version = ticket->version;
    uint32_t rows = rows_planned(version, ticket->wait.rows);
    const struct gw_infer_session *session = version->idle;
    while (session != NULL && (session->shape != ticket->wait.shape || session->rows != rows)) {
        session = session->next;
    }
    return service->ticket_count == 0 && version->running < version->instances &&
           version->rules.delay_us == 0 && session != NULL && session->run_us > 0 &&
           session->run_us <= GW_INFER_RUN_HERE_US && !session->by_contents && !has_texts(ticket) &&
           ticket->wait.arrived_us >= service->here_us + session->run_us / 2;
}

void gw_infer_run_here(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    struct gw_infer_batch batch = {.here = true};
    struct gw_infer_wait *wait = &ticket->wait;
    base_assert(ticket->version->running < ticket->version->instances);
    begin(&batch, ticket->version, &wait, 1);
    serve_batch(service, &batch);
    service->here_us = base_clock_mono_us();
}

void *gw_infer_run_main(void *arg)
{
    struct gw_infer_service *service = arg;
    bool read = false; // it read last: so that neither kind of work waits for all of the other
    pthread_mutex_lock(&service->lock);
    while (!service->stopping) {
        struct gw_infer_batch batch = {0};
        uint64_t look_us;
        if (!read && gw_infer_read_next(service)) {
            read = true;
        } else if (pick(service, &batch, &look_us)) {
            serve_batch(service, &batch);
            read = false;
        } else if (read) {
            read = false;
        } else {
            gw_infer_wait_until(&service->work, &service->lock, look_us);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}
