// Shadows, and the arms of a release: which version a call is for, and what is counted of it. A
// shadow begins when the answer of its call is away (gw_infer_ends_run), is a call of the lowest
// priority like any other, and ends by itself or when a caller's call needs the thread
// (gw_infer_shadow_yield). Its batches have nobody else in them. Threads of the service.
#include "infer/infer_arm.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES ((size_t)16 << 10)
#define ARENA_ROOM_BYTES  ((size_t)64 << 10) // beside the copies: tensors, names

struct gw_infer_shadow {
    struct gw_infer_ticket ticket; // first
    struct gw_infer_shadow *next;
    struct gw_infer_service *service;
    struct base_arena arena;
    struct gw_infer_call call;
    struct gw_infer_tensor *wanted; // what the caller got
    size_t wanted_count;
    struct gw_infer_agree agree;
    char version[GW_INFER_VERSION_TEXT];
};
_Static_assert(offsetof(struct gw_infer_shadow, ticket) == 0, "shadow_done casts");

// ---- Arms

static uint64_t caller_of(const struct gw_infer_ticket *ticket)
{
    uint64_t caller = ticket->caller != 0 ? ticket->caller : gw_infer_caller(ticket->call->id);
    return caller != 0 ? caller : ticket->peer;
}

struct gw_infer_version *gw_infer_choose(struct gw_infer_service *service,
                                         struct gw_infer_ticket *ticket)
{
    const struct gw_infer_call *call = ticket->call;
    struct gw_infer_version *version =
        gw_infer_find(service, call->model, call->version, &ticket->error);
    if (version == NULL || call->version.size > 0 || service->trial_count == 0) {
        return version;
    }
    struct gw_infer_model *model = gw_infer_model_find(service, call->model);
    struct gw_infer_candidate *candidate = &model->candidate;
    if (candidate->text[0] == '\0') {
        return version;
    }
    struct base_error why = {0};
    struct gw_infer_version *other =
        gw_infer_find(service, call->model, base_str_of(candidate->text), &why);
    if (other == NULL || other == version) {
        return version;
    }
    ticket->model = model;
    ticket->trial = candidate->number;
    if (gw_infer_split_has(&candidate->split, caller_of(ticket))) {
        ticket->arm = GW_INFER_ARM_CANDIDATE;
        return other;
    }
    ticket->arm = gw_infer_split_shadows(&candidate->split, candidate->calls++)
                      ? GW_INFER_ARM_SHADOWED
                      : GW_INFER_ARM_SERVING;
    return version;
}

// What is compared is how long runs take, not how long calls wait: threads are shared, so that
// calls of a quick version wait for those of a slow one.
void gw_infer_arms_begin(struct gw_infer_batch *batch, uint64_t now_us)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct gw_infer_ticket *ticket = batch->tickets[i];
        if (ticket != NULL) {
            ticket->began_us = now_us;
        }
    }
}

// Its caller gave it less time than runs of the serving version take, or than can be known of it
// before that is known: that it came too late says nothing of a version.
static bool is_hasty(const struct gw_infer_ticket *ticket, const struct gw_infer_seen *serving,
                     enum base_status status)
{
    const struct gw_infer_wait *wait = &ticket->wait;
    bool late = status == BASE_ERR_TIMEOUT || status == BASE_ERR_LIMIT;
    if (!late || wait->deadline_us == UINT64_MAX) {
        return false;
    }
    uint64_t least_us = serving->us.count >= GW_INFER_P99_CALLS_LEAST
                            ? base_hist_quantile(&serving->us, 0.99)
                            : GW_INFER_SHADOW_US_MAX;
    return wait->deadline_us < base_sat_add_u64(wait->arrived_us, least_us);
}

void gw_infer_arm_count(struct gw_infer_ticket *ticket, enum base_status status)
{
    const struct gw_infer_model *model = ticket->model;
    if (ticket->arm == GW_INFER_ARM_NONE || ticket->arm == GW_INFER_ARM_SHADOW ||
        model->candidate.number != ticket->trial || status == BASE_ERR_CLOSED ||
        status == BASE_ERR_BUSY) {
        return;
    }
    struct gw_infer_trial *trial = model->candidate.trial;
    bool tried = ticket->arm == GW_INFER_ARM_CANDIDATE;
    struct gw_infer_seen *seen = tried ? &trial->candidate : &trial->serving;
    if (is_hasty(ticket, &trial->serving, status)) {
        return;
    }
    if (!gw_infer_callers_count(model->candidate.callers,
                                tried ? GW_INFER_COUNTED_CANDIDATE : GW_INFER_COUNTED_SERVING,
                                ticket->who, status == BASE_OK, &seen->most)) {
        trial->uncounted++;
        return;
    }
    seen->calls++;
    if (status == BASE_OK) {
        base_hist_add(&seen->us, base_clock_mono_us() - ticket->began_us);
    } else {
        seen->failed++;
    }
}

static bool serving_takes(struct gw_infer_service *service, const struct gw_infer_ticket *ticket)
{
    struct gw_infer_ticket other = {.call = ticket->call};
    const struct gw_infer_version *serving =
        gw_infer_find(service, ticket->call->model, BASE_STR(""), &other.error);
    return serving != NULL && gw_infer_check(serving, &other) == BASE_OK;
}

void gw_infer_arm_refused(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                          enum base_status status)
{
    bool input = base_status_is_input(status);
    if (!input || (ticket->arm == GW_INFER_ARM_CANDIDATE && serving_takes(service, ticket))) {
        gw_infer_arm_count(ticket, status);
    }
}

// ---- A shadow ends

static bool agrees(const struct gw_infer_shadow *shadow)
{
    const struct gw_infer_result *result = &shadow->ticket.result;
    if (result->output_count != shadow->wanted_count) {
        return false;
    }
    for (size_t i = 0; i < shadow->wanted_count; i++) {
        const struct gw_infer_tensor *wanted = &shadow->wanted[i];
        const struct gw_infer_tensor *given = &result->outputs[i];
        const struct eng_array one = {wanted->desc, (void *)(uintptr_t)wanted->data};
        const struct eng_array other = {given->desc, (void *)(uintptr_t)given->data};
        if (!gw_infer_agrees(&shadow->agree, &one, &other)) {
            return false;
        }
    }
    return true;
}

static void count_shadow(const struct gw_infer_shadow *shadow, bool agreed)
{
    const struct gw_infer_ticket *ticket = &shadow->ticket;
    const struct gw_infer_model *model = ticket->model;
    struct gw_infer_trial *trial = model->candidate.trial;
    if (model->candidate.number != ticket->trial) {
        return; // of a trial that is over
    }
    if (ticket->status == BASE_ERR_LIMIT || ticket->status == BASE_ERR_CLOSED ||
        ticket->status == BASE_ERR_BUSY || ticket->status == BASE_ERR_CONFLICT ||
        ticket->status == BASE_ERR_NOT_FOUND) {
        trial->dropped++; // stopped, or the candidate was unloaded meanwhile
    } else if (!gw_infer_callers_count(model->candidate.callers, GW_INFER_COUNTED_SHADOW,
                                       ticket->who, agreed, &trial->shadows_most)) {
        trial->uncounted++; // others of its caller ended meanwhile
    } else if (ticket->status == BASE_OK) {
        base_hist_add(&trial->shadow_us, base_clock_mono_us() - ticket->began_us);
        trial->agreed += agreed;
        trial->differed += !agreed;
    } else {
        trial->shadows_failed++;
    }
}

static void free_shadow(struct gw_infer_shadow *shadow)
{
    base_arena_done(&shadow->arena);
    free(shadow);
}

static void shadow_done(struct gw_infer_ticket *ticket)
{
    struct gw_infer_shadow *shadow = (struct gw_infer_shadow *)ticket;
    bool agreed = ticket->status == BASE_OK && agrees(shadow);
    pthread_mutex_lock(&shadow->service->lock);
    base_check(shadow->service->shadow_count > 0);
    shadow->service->shadow_count--;
    count_shadow(shadow, agreed);
    pthread_mutex_unlock(&shadow->service->lock);
    free_shadow(shadow);
}

// ---- A shadow begins

bool gw_infer_shadow_room(struct gw_infer_service *service, struct gw_infer_ticket *ticket)
{
    const struct gw_infer_model *model = ticket->model;
    if (model->candidate.number != ticket->trial) {
        return false;
    }
    if (gw_infer_callers_full(model->candidate.callers, GW_INFER_COUNTED_SHADOW, ticket->who)) {
        model->candidate.trial->uncounted++;
        return false;
    }
    // The call itself is one of the tickets, and so is every shadow.
    uint32_t calls = service->ticket_count - (service->shadow_count < service->ticket_count
                                                  ? service->shadow_count
                                                  : service->ticket_count);
    if (service->draining || service->shadow_count == GW_INFER_SHADOWS_MAX ||
        calls > service->thread_count) {
        model->candidate.trial->dropped++;
        return false;
    }
    service->shadow_count++;
    return true;
}

static size_t size_of(const struct gw_infer_tensor *tensor)
{
    size_t size = tensor->bytes;
    const struct eng_string *texts = tensor->data;
    for (int64_t i = 0; tensor->desc.dtype == ENG_STRING && i < eng_desc_count(&tensor->desc);
         i++) {
        size += (size_t)texts[i].size; // of what is in memory: no overflow
    }
    return size;
}

static size_t size_of_all(const struct gw_infer_tensor *tensors, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += size_of(&tensors[i]);
    }
    return size;
}

static bool copy_tensor(struct base_arena *arena, const struct gw_infer_tensor *from,
                        struct gw_infer_tensor *to)
{
    const char *name = base_arena_text(arena, from->name.data, from->name.size);
    void *data = base_arena_copy(arena, from->data, from->bytes);
    *to = *from;
    to->name = (struct base_str){name, from->name.size};
    to->data = data;
    bool fits = name != NULL && (data != NULL || from->bytes == 0);
    struct eng_string *texts = data;
    for (int64_t i = 0; fits && from->desc.dtype == ENG_STRING && i < eng_desc_count(&from->desc);
         i++) {
        texts[i].at = base_arena_copy(arena, texts[i].at, (size_t)texts[i].size);
        fits = texts[i].at != NULL || texts[i].size == 0;
    }
    return fits;
}

static struct gw_infer_tensor *copy_tensors(struct base_arena *arena,
                                            const struct gw_infer_tensor *from, size_t count)
{
    struct gw_infer_tensor *to = base_arena_zalloc(arena, (count + 1) * sizeof(*to));
    for (size_t i = 0; to != NULL && i < count; i++) {
        if (!copy_tensor(arena, &from[i], &to[i])) {
            return NULL;
        }
    }
    return to;
}

// The outputs that the caller asked for, in its order, and all of them as tensors.
static bool copy_wishes(struct gw_infer_shadow *shadow, const struct gw_infer_call *call)
{
    struct gw_infer_wish *wishes =
        base_arena_zalloc(&shadow->arena, (call->wish_count + 1) * sizeof(*wishes));
    for (size_t i = 0; wishes != NULL && i < call->wish_count; i++) {
        struct base_str name = call->wishes[i].name;
        const char *copy = base_arena_text(&shadow->arena, name.data, name.size);
        if (copy == NULL) {
            return false;
        }
        wishes[i].name = (struct base_str){copy, name.size};
    }
    shadow->call.wishes = wishes;
    shadow->call.wish_count = call->wish_count;
    return wishes != NULL;
}

static bool fill(struct gw_infer_shadow *shadow, const struct gw_infer_ticket *of)
{
    const struct gw_infer_call *call = of->call;
    struct base_arena *arena = &shadow->arena;
    shadow->call.inputs = copy_tensors(arena, call->inputs, call->input_count);
    shadow->call.input_count = call->input_count;
    shadow->call.priority = GW_INFER_PRIORITIES - 1;
    shadow->wanted = copy_tensors(arena, of->result.outputs, of->result.output_count);
    shadow->wanted_count = of->result.output_count;
    shadow->call.model = base_str_of(of->model->name); // as long as the service
    return shadow->call.inputs != NULL && shadow->wanted != NULL && copy_wishes(shadow, call);
}

static struct gw_infer_shadow *make(struct gw_infer_service *service,
                                    const struct gw_infer_ticket *of)
{
    size_t size = size_of_all(of->call->inputs, of->call->input_count) +
                  size_of_all(of->result.outputs, of->result.output_count);
    struct gw_infer_shadow *shadow =
        size <= GW_INFER_SHADOW_BYTES_MAX ? calloc(1, sizeof(*shadow)) : NULL;
    if (shadow == NULL) {
        return NULL;
    }
    // What the shadow's own run answers is in there as well.
    base_arena_init(&shadow->arena, base_alloc_heap(), ARENA_CHUNK_BYTES,
                    2 * GW_INFER_SHADOW_BYTES_MAX + ARENA_ROOM_BYTES);
    shadow->service = service;
    shadow->ticket.call = &shadow->call;
    shadow->ticket.arena = &shadow->arena;
    shadow->ticket.done = shadow_done;
    shadow->ticket.who = of->who;
    shadow->ticket.model = of->model;
    shadow->ticket.trial = of->trial;
    shadow->ticket.arm = GW_INFER_ARM_SHADOW;
    return shadow;
}

struct gw_infer_shadow *gw_infer_shadow_copy(struct gw_infer_service *service,
                                             const struct gw_infer_ticket *ticket, bool answered)
{
    struct gw_infer_shadow *shadow = answered ? make(service, ticket) : NULL;
    bool filled = shadow != NULL;
    if (filled) {
        filled = fill(shadow, ticket);
    }
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_candidate *candidate = &ticket->model->candidate;
    bool current = candidate->number == ticket->trial;
    if (current && filled) {
        shadow->agree = candidate->agree;
        memcpy(shadow->version, candidate->text, sizeof(shadow->version));
        shadow->call.version = base_str_of(shadow->version);
    } else {
        service->shadow_count--;
        if (current) {
            candidate->trial->dropped++;
        }
    }
    pthread_mutex_unlock(&service->lock);
    if (shadow != NULL && !(current && filled)) {
        free_shadow(shadow);
        shadow = NULL;
    }
    return shadow;
}

void gw_infer_shadow_put(struct gw_infer_ends *ends, struct gw_infer_shadow *shadow)
{
    shadow->next = ends->shadows;
    ends->shadows = shadow;
}

void gw_infer_shadows_begin(struct gw_infer_shadow *first)
{
    while (first != NULL) {
        struct gw_infer_shadow *shadow = first;
        first = shadow->next;
        shadow->ticket.deadline_us = base_clock_mono_us() + GW_INFER_SHADOW_US_MAX;
        gw_infer_submit(shadow->service, &shadow->ticket);
    }
}

// ---- Somebody else has work

void gw_infer_shadow_yield(struct gw_infer_service *service, const struct gw_infer_version *version,
                           struct gw_infer_ends *ends)
{
    struct gw_infer_ticket *next;
    bool free_thread = service->ticket_count < service->thread_count;
    if (service->shadow_count == 0 || (free_thread && version->running < version->instances)) {
        return;
    }
    for (struct gw_infer_ticket *ticket = service->tickets; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (ticket->arm != GW_INFER_ARM_SHADOW) {
            continue;
        }
        if (ticket->state == GW_INFER_WAITING || ticket->state == GW_INFER_RUNNING) {
            gw_infer_end(service, ticket, BASE_ERR_LIMIT, ends);
        } else {
            ticket->cancelled = true; // a thread is at its memory: it ends before it runs
        }
    }
}
