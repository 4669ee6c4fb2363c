// Calls of models in the cloud: a queue by priority in front of the device's connection, what is
// known of the way there, deadlines, and one more try under the same key when a connection is lost.
//
// Called by who has calls (the posix port for tasks, apps, the simulator), by the tick and by the
// transport, on the runtime's thread. Calls are the caller's memory, linked here; nothing of them
// is stored, so a kill ends them.
#include "core/cloud/device_cloud.h"

#include "core/base/runtime.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES (sizeof("/v2/models//infer") + WIRE_TENSOR_MODEL_MAX)
#define SHARE          4 // of the moving average that a new time is

// ---- What is known of the way

static struct dev_cloud_time *time_of(struct dev_cloud *cloud, struct base_str model)
{
    uint64_t name = base_hash64(model.data, model.size) | 1;
    struct dev_cloud_time *oldest = &cloud->times[0];
    for (uint32_t i = 0; i < DEV_CLOUD_MODELS_MAX; i++) {
        struct dev_cloud_time *time = &cloud->times[i];
        if (time->model == name) {
            return time;
        }
        oldest = time->measured_us < oldest->measured_us ? time : oldest;
    }
    *oldest = (struct dev_cloud_time){.model = name};
    return oldest;
}

static uint32_t expected_us(const struct dev_cloud *cloud, struct base_str model, uint64_t now_us)
{
    uint64_t name = base_hash64(model.data, model.size) | 1;
    for (uint32_t i = 0; i < DEV_CLOUD_MODELS_MAX; i++) {
        const struct dev_cloud_time *time = &cloud->times[i];
        if (time->model == name && now_us - time->measured_us < DEV_CLOUD_ESTIMATE_US) {
            return time->took_us;
        }
    }
    return 0;
}

// A call that was late tells that it takes at least so long.
static void time_note(struct dev_cloud *cloud, const struct dev_cloud_call *call, uint64_t now_us,
                      bool late)
{
    struct dev_cloud_time *time = time_of(cloud, call->model);
    uint64_t took_us = now_us - call->sent_us;
    bool fresh = time->took_us > 0 && now_us - time->measured_us < DEV_CLOUD_ESTIMATE_US;
    if (late && fresh && time->took_us > took_us) {
        return;
    }
    if (fresh) {
        took_us = (took_us + (SHARE - 1) * (uint64_t)time->took_us) / SHARE;
    }
    time->took_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
    time->took_us += time->took_us == 0;
    time->measured_us = now_us;
}

static void way_is_up(struct dev_cloud *cloud)
{
    cloud->down = false;
    dev_backoff_reset(&cloud->backoff);
}

static void way_is_down(struct dev_runtime *runtime)
{
    struct dev_cloud *cloud = runtime->cloud;
    uint32_t wait_ms = dev_backoff_next(&cloud->backoff, dev_random(runtime), 0);
    cloud->down = true;
    cloud->down_until_us = dev_now_us(runtime) + wait_ms * 1000ull;
}

static void refused_by_gateway(struct dev_cloud *cloud, enum wire_cloud_why why, uint64_t until_us)
{
    cloud->refused = why;
    cloud->refused_until_us = until_us;
}

// ---- The list

static void list_add(struct dev_cloud *cloud, struct dev_cloud_call *call)
{
    struct dev_cloud_call **at = &cloud->first;
    while (*at != NULL && (*at)->priority <= call->priority) {
        at = &(*at)->next;
    }
    call->next = *at;
    *at = call;
    cloud->calls++;
}

static bool list_remove(struct dev_cloud *cloud, const struct dev_cloud_call *call)
{
    struct dev_cloud_call **at = &cloud->first;
    while (*at != NULL && *at != call) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return false;
    }
    *at = call->next;
    base_assert(cloud->calls > 0);
    cloud->calls--;
    return true;
}

// Takes back the request of a call, if there is one.
static void request_cancel(struct dev_runtime *runtime, struct dev_cloud_call *call)
{
    const struct dev_http_port *http = &runtime->ports->http;
    if (call->exchange != 0) {
        http->cancel(http->ctx, call->exchange);
        call->exchange = 0;
        base_assert(runtime->cloud->under_way > 0);
        runtime->cloud->under_way--;
    }
}

// The call ends: from here on it is its caller's, who may begin another one.
static void call_end(struct dev_runtime *runtime, struct dev_cloud_call *call,
                     enum wire_cloud_why why)
{
    bool answered = why == WIRE_CLOUD_ANSWERED;
    uint64_t took_us = dev_now_us(runtime) - call->started_us;
    size_t text =
        call->answer_bytes < DEV_CLOUD_DETAIL_MAX ? call->answer_bytes : DEV_CLOUD_DETAIL_MAX;
    const struct dev_cloud_end end = {
        .why = why,
        .answer = answered ? call->answer : NULL,
        .answer_bytes = answered ? call->answer_bytes : 0,
        .took_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX,
        .tries = call->tries,
        .detail = {(const char *)call->answer, !answered && call->status != 200 ? text : 0},
    };
    request_cancel(runtime, call);
    bool there = list_remove(runtime->cloud, call);
    base_check(there);
    runtime->cloud->answered += answered;
    runtime->cloud->not_answered += !answered;
    call->on_end(call->ctx, &end);
}

// ---- Requests

static enum base_status request_start(struct dev_runtime *runtime, struct dev_cloud_call *call)
{
    const struct dev_http_port *http = &runtime->ports->http;
    char path[PATH_MAX_BYTES];
    char key[WIRE_CLOUD_KEY_BYTES + 1];
    int path_size = snprintf(path, sizeof(path), "/v2/models/%.*s/infer", (int)call->model.size,
                             call->model.data);
    (void)snprintf(key, sizeof(key), "%016llx%016llx", (unsigned long long)call->key[0],
                   (unsigned long long)call->key[1]);
    const struct dev_request request = {
        .method = DEV_METHOD_POST,
        .path = {path, (size_t)path_size},
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
        .content_type =
            call->packed ? BASE_STR(WIRE_TENSOR_TYPE_PACKED) : BASE_STR(WIRE_TENSOR_TYPE),
        .idempotency_key = {key, WIRE_CLOUD_KEY_BYTES},
        .urgent = call->priority == 0,
        .body = call->body,
        .body_bytes = call->body_bytes,
    };
    uint32_t exchange = dev_exchange_new(runtime);
    BASE_TRY(http->start(http->ctx, exchange, &request));
    call->exchange = exchange;
    call->sent_us = dev_now_us(runtime);
    call->tries++;
    call->status = 0;
    call->answer_bytes = 0;
    call->overflowed = false;
    call->reason[0] = '\0';
    runtime->cloud->under_way++;
    return BASE_OK;
}

static struct dev_cloud_call *waiting(const struct dev_cloud *cloud, uint64_t now_us)
{
    struct dev_cloud_call *call = cloud->first;
    while (call != NULL && (call->exchange != 0 || call->sent_us > now_us)) {
        call = call->next;
    }
    return call;
}

// Sends what waits, as long as there is room.
static void send_waiting(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_cloud *cloud = runtime->cloud;
    struct dev_cloud_call *call = waiting(cloud, now_us);
    while (call != NULL && cloud->under_way < DEV_CLOUD_UNDER_WAY) {
        enum base_status status = request_start(runtime, call);
        if (base_status_is_resource(status)) {
            cloud->again_us = now_us + DEV_CLOUD_AGAIN_US;
            return;
        }
        cloud->again_us = 0;
        if (status != BASE_OK) {
            way_is_down(runtime);
            call_end(runtime, call, WIRE_CLOUD_OFFLINE);
        }
        call = waiting(cloud, now_us);
    }
}

// ---- What comes back

static enum wire_cloud_why why_of_status(int status)
{
    switch (status) {
    case 400:
        return WIRE_CLOUD_REFUSED;
    case 401:
    case 403:
        return WIRE_CLOUD_NOT_ALLOWED;
    case 404:
        return WIRE_CLOUD_NO_MODEL;
    case 413:
        return WIRE_CLOUD_TOO_LARGE;
    case 429:
    case 503:
        return WIRE_CLOUD_BUSY;
    case 504:
        return WIRE_CLOUD_LATE;
    default:
        return WIRE_CLOUD_FAILED;
    }
}

// What an answer that is none says, and for how long it holds for other calls.
static enum wire_cloud_why refusal(struct dev_runtime *runtime, const struct dev_cloud_call *call,
                                   uint64_t now_us)
{
    struct dev_cloud *cloud = runtime->cloud;
    enum wire_cloud_why why = why_of_status(call->status);
    enum wire_cloud_why said = why;
    if (wire_cloud_of_word(base_str_of(call->reason), &said) && said != WIRE_CLOUD_ANSWERED) {
        why = said;
    }
    uint64_t wait_s =
        call->retry_after_s < DEV_CLOUD_WAIT_MAX_S ? call->retry_after_s : DEV_CLOUD_WAIT_MAX_S;
    if (why == WIRE_CLOUD_NOT_ALLOWED) {
        refused_by_gateway(cloud, why, now_us + DEV_CLOUD_DENIED_US);
    } else if ((why == WIRE_CLOUD_QUOTA || why == WIRE_CLOUD_BUSY) && wait_s > 0) {
        refused_by_gateway(cloud, why, now_us + wait_s * 1000000);
    }
    return why;
}

static enum wire_cloud_why whole_answer(struct dev_runtime *runtime, struct dev_cloud_call *call)
{
    uint64_t now_us = dev_now_us(runtime);
    struct wire_tensor_answer answer;
    if (call->status != 200) {
        return refusal(runtime, call, now_us);
    }
    if (call->overflowed) {
        return WIRE_CLOUD_TOO_LARGE;
    }
    time_note(runtime->cloud, call, now_us, false);
    return wire_tensor_answer_parse(call->answer, call->answer_bytes, &answer) == BASE_OK
               ? WIRE_CLOUD_ANSWERED
               : WIRE_CLOUD_FAILED;
}

// Does the gateway still run it, as it came on a connection that was lost? Then it is worth asking
// again: the answer may be kept by then.
static bool has_not_ended(const struct dev_cloud_call *call)
{
    return call->status == 409 && base_str_equal(base_str_of(call->reason), BASE_STR("busy"));
}

static void ended(struct dev_runtime *runtime, struct dev_cloud_call *call, enum base_status status)
{
    struct dev_cloud *cloud = runtime->cloud;
    base_assert(call->exchange != 0);
    call->exchange = 0;
    base_assert(cloud->under_way > 0);
    cloud->under_way--;
    if (status == BASE_OK && has_not_ended(call)) {
        call->sent_us = dev_now_us(runtime) + DEV_CLOUD_REPEAT_US; // its deadline bounds it
    } else if (status == BASE_OK && call->status != 0) {
        call_end(runtime, call, whole_answer(runtime, call));
    } else if (call->tries < DEV_CLOUD_TRIES) {
        return; // it waits again, under the same key
    } else {
        way_is_down(runtime);
        call_end(runtime, call, WIRE_CLOUD_OFFLINE);
    }
}

static void head_came(struct dev_cloud_call *call, const struct dev_response_head *head)
{
    call->status = head->status;
    call->retry_after_s = head->retry_after_s;
    size_t size = head->reason.size < sizeof(call->reason) ? head->reason.size : 0;
    if (size > 0) {
        memcpy(call->reason, head->reason.data, size);
    }
    call->reason[size] = '\0';
}

static void body_came(struct dev_cloud_call *call, struct base_span body)
{
    size_t room = call->answer_capacity - call->answer_bytes;
    call->overflowed |= body.size > room;
    size_t size = body.size < room ? body.size : room;
    if (size > 0) {
        memcpy(call->answer + call->answer_bytes, body.data, size);
        call->answer_bytes += size;
    }
}

static struct dev_cloud_call *call_of(const struct dev_cloud *cloud, uint32_t exchange)
{
    struct dev_cloud_call *call = cloud->first;
    while (call != NULL && call->exchange != exchange) {
        call = call->next;
    }
    return call;
}

// Other parts' exchanges tell as well whether a gateway answers.
static void way_seen(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    struct dev_cloud *cloud = runtime->cloud;
    if (event->kind == DEV_PART_EVENT_HEAD) {
        way_is_up(cloud);
    } else if (event->kind == DEV_PART_EVENT_END && event->status != BASE_OK && !cloud->down) {
        way_is_down(runtime);
    }
}

static bool exchange_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    struct dev_cloud_call *call = call_of(runtime->cloud, event->exchange);
    if (call == NULL) {
        way_seen(runtime, event);
        return false;
    }
    if (event->kind == DEV_PART_EVENT_HEAD) {
        way_is_up(runtime->cloud);
        head_came(call, event->head);
    } else if (event->kind == DEV_PART_EVENT_BODY) {
        body_came(call, event->body);
    } else {
        ended(runtime, call, event->status);
        send_waiting(runtime, dev_now_us(runtime));
    }
    return true;
}

// ---- The doors

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    (void)first_us;
    if (runtime->cloud == NULL) {
        return;
    }
    *runtime->cloud = (struct dev_cloud){.calls_max = runtime->cloud->calls_max};
    dev_backoff_init(&runtime->cloud->backoff, DEV_CLOUD_DOWN_MS, DEV_CLOUD_DOWN_MAX_MS);
}

static uint64_t deadline_us(const struct dev_cloud_call *call)
{
    return call->started_us + call->deadline_ms * 1000ull;
}

static struct dev_cloud_call *overdue(const struct dev_cloud *cloud, uint64_t now_us)
{
    struct dev_cloud_call *call = cloud->first;
    while (call != NULL && deadline_us(call) > now_us) {
        call = call->next;
    }
    return call;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_cloud *cloud = runtime->cloud;
    struct dev_cloud_call *call = cloud != NULL ? overdue(cloud, now_us) : NULL;
    while (call != NULL) {
        if (call->exchange != 0) {
            time_note(cloud, call, now_us, true);
        }
        call_end(runtime, call, WIRE_CLOUD_LATE);
        call = overdue(cloud, now_us);
    }
    if (cloud != NULL && cloud->again_us <= now_us) {
        send_waiting(runtime, now_us);
    }
}

static uint64_t due_us(const struct dev_runtime *runtime)
{
    const struct dev_cloud *cloud = runtime->cloud;
    uint64_t next_us = UINT64_MAX;
    if (cloud == NULL) {
        return next_us;
    }
    for (const struct dev_cloud_call *call = cloud->first; call != NULL; call = call->next) {
        next_us = deadline_us(call) < next_us ? deadline_us(call) : next_us;
        if (call->exchange == 0 && cloud->under_way < DEV_CLOUD_UNDER_WAY) {
            uint64_t from_us = call->sent_us > cloud->again_us ? call->sent_us : cloud->again_us;
            next_us = from_us < next_us ? from_us : next_us;
        }
    }
    return next_us;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (runtime->cloud == NULL) {
        return false;
    }
    if (event->exchange != 0) {
        return exchange_event(runtime, event);
    }
    if (event->kind == DEV_PART_EVENT_STOPPED) {
        while (runtime->cloud->first != NULL) {
            call_end(runtime, runtime->cloud->first, WIRE_CLOUD_CLOSED);
        }
    }
    return false;
}

const struct dev_part dev_cloud_part = {.name = "cloud",
                                        .init = init,
                                        .step = step,
                                        .due_us = due_us,
                                        .on_event = on_event,
                                        .hears = DEV_PART_HEARS(STOPPED) | DEV_PART_HEARS_EXCHANGE};

// ---- For callers

static enum wire_cloud_why known(const struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_cloud *cloud = runtime->cloud;
    if (cloud == NULL) {
        return WIRE_CLOUD_NOT_ALLOWED;
    }
    if (cloud->down && now_us < cloud->down_until_us) {
        return WIRE_CLOUD_OFFLINE;
    }
    if (now_us < cloud->refused_until_us) {
        return cloud->refused;
    }
    return cloud->calls >= cloud->calls_max ? WIRE_CLOUD_BUSY : WIRE_CLOUD_ANSWERED;
}

static enum wire_cloud_why judge(const struct dev_runtime *runtime,
                                 const struct dev_cloud_call *call, uint64_t now_us)
{
    if (!wire_tensor_model_ok(call->model) || call->priority >= WIRE_TENSOR_PRIORITIES ||
        call->deadline_ms == 0 || call->deadline_ms > WIRE_TENSOR_DEADLINE_MS ||
        call->body_bytes == 0) {
        return WIRE_CLOUD_REFUSED;
    }
    if (call->body_bytes > WIRE_TENSOR_CALL_MAX) {
        return WIRE_CLOUD_TOO_LARGE;
    }
    enum wire_cloud_why why = known(runtime, now_us);
    if (why != WIRE_CLOUD_ANSWERED) {
        return why;
    }
    uint64_t takes_us = expected_us(runtime->cloud, call->model, now_us);
    return takes_us > call->deadline_ms * 1000ull ? WIRE_CLOUD_SLOW : WIRE_CLOUD_ANSWERED;
}

enum wire_cloud_why dev_cloud_infer(struct dev_runtime *runtime, struct dev_cloud_call *call)
{
    struct dev_cloud *cloud = runtime->cloud;
    uint64_t now_us = dev_now_us(runtime);
    base_assert(runtime->booted);
    enum wire_cloud_why why = judge(runtime, call, now_us);
    if (why != WIRE_CLOUD_ANSWERED) {
        if (cloud != NULL) {
            cloud->not_answered++;
        }
        return why;
    }
    if (cloud->down) {
        way_is_down(runtime); // this one finds out, the next ones wait for it
    }
    call->started_us = now_us;
    call->key[0] = dev_random(runtime);
    call->key[1] = dev_random(runtime);
    call->exchange = 0;
    call->sent_us = 0;
    call->tries = 0;
    call->status = 0;
    call->answer_bytes = 0;
    list_add(cloud, call);
    return WIRE_CLOUD_ANSWERED;
}

void dev_cloud_cancel(struct dev_runtime *runtime, struct dev_cloud_call *call)
{
    if (runtime->cloud != NULL && list_remove(runtime->cloud, call)) {
        request_cancel(runtime, call);
    }
}

void dev_cloud_look(const struct dev_runtime *runtime, struct base_str model,
                    struct dev_cloud_view *out_view)
{
    const struct dev_cloud *cloud = runtime->cloud;
    uint64_t now_us = dev_now_us(runtime);
    *out_view = (struct dev_cloud_view){.why = known(runtime, now_us)};
    if (cloud != NULL) {
        out_view->expected_us = expected_us(cloud, model, now_us);
        out_view->calls = cloud->calls;
        out_view->answered = cloud->answered;
        out_view->refused = cloud->not_answered;
    }
}
