// Counts, log lines and the table of last ones; see device_faults.h. Any thread, one mutex that is
// taken for such answers alone. reply.c and route.c note a refusal on the worker,
// report_intake.c what a device did not believe; why.c and metrics_text.c ask. The table is bounded
// and found by a hash of the device: of the few places of its hash a new fault takes the oldest.
// What anybody says in the name of a proven device is not kept for it.
#include "svc/device/device_faults.h"

#include "base/text/str_cut.h"
#include "base/visible.h"
#include "svc/core_private.h"
#include "svc/access/credentials.h"
#include "svc/device/device_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAYS  4u // places that a device may have in the table
#define SLOTS 6u

static const struct {
    int status; // 0: the other 5xx
    const char *text;
} slots[SLOTS] = {{413, "413"}, {429, "429"}, {500, "500"}, {503, "503"}, {507, "507"}, {0, "5xx"}};

struct gw_faults {
    pthread_mutex_t lock;
    uint32_t said_s[GW_FAULT_WHAT_COUNT][SLOTS]; // when the log told it last; 0: never
    uint64_t unsaid[GW_FAULT_WHAT_COUNT][SLOTS]; // since
    _Atomic uint64_t counts[GW_FAULT_WHAT_COUNT][SLOTS];
    struct gw_fault last[GW_FAULTS_MAX];
};

const char *gw_fault_what_name(enum gw_fault_what what)
{
    static const char *const names[] = {[GW_FAULT_NONE] = "none",
                                        [GW_FAULT_CHECKIN] = "check-in",
                                        [GW_FAULT_REPORT] = "report",
                                        [GW_FAULT_DISBELIEF] = "refusal"};
    return names[what];
}

enum base_status gw_faults_new(struct gw_faults **out_faults)
{
    struct gw_faults *faults = calloc(1, sizeof(*faults));
    if (faults == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&faults->lock, NULL);
    *out_faults = faults;
    return BASE_OK;
}

void gw_faults_free(struct gw_faults *faults)
{
    if (faults != NULL) {
        pthread_mutex_destroy(&faults->lock);
        free(faults);
    }
}

// SLOTS: the answer is none of a fault.
static uint32_t slot_of(int status)
{
    for (uint32_t i = 0; i + 1 < SLOTS; i++) {
        if (slots[i].status == status) {
            return i;
        }
    }
    return status >= 500 ? SLOTS - 1 : SLOTS;
}

// The first of the places of a device.
static struct gw_fault *places_of(const struct gw_core *core, uint64_t device_id)
{
    uint64_t set = base_keyed64_u64(&core->hash_key, device_id) % (GW_FAULTS_MAX / WAYS);
    return &core->faults->last[set * WAYS];
}

// The lock is held.
static void remember(const struct gw_core *core, const struct gw_fault *fault)
{
    struct gw_fault *places = places_of(core, fault->device_id);
    struct gw_fault *place = &places[0];
    for (uint32_t i = 0; i < WAYS; i++) {
        if (places[i].what != GW_FAULT_NONE && places[i].device_id == fault->device_id) {
            place = &places[i];
            break;
        }
        place = places[i].at_s < place->at_s ? &places[i] : place;
    }
    *place = *fault;
}

// The text behind "detail" of a problem, as it stands there: printable ASCII.
static void copy_detail(const struct gw_reply *reply, char out[GW_FAULT_DETAIL_MAX + 1])
{
    static const char mark[] = "\"detail\":\"";
    struct base_str left = {(const char *)reply->body, reply->body_bytes};
    while (left.size > 0 && !base_str_starts(left, BASE_STR(mark))) {
        left = (struct base_str){left.data + 1, left.size - 1};
    }
    size_t skipped = left.size > 0 ? sizeof(mark) - 1 : 0;
    left = (struct base_str){left.data + skipped, left.size - skipped};
    const char *end = left.size > 0 ? memchr(left.data, '"', left.size) : NULL;
    left.size = end != NULL ? (size_t)(end - left.data) : left.size;
    base_str_copy(left, out, GW_FAULT_DETAIL_MAX + 1);
}

// May what this request says of the device be kept for it? A transport asks before anybody looked
// at what the request shows.
static bool is_its_own(struct gw_core *core, const struct gw_exchange *exchange, uint64_t device_id)
{
    struct gw_request request = exchange->request;
    uint16_t tenant = 0;
    request.proven = NULL;
    return gw_device_admit(core, &request, device_id, &tenant) == GW_ADMITTED &&
           (gw_request_proves(&request) || !gw_device_table_proven(core->table, device_id));
}

static void say(struct gw_core *core, const struct gw_fault *fault, struct base_str device,
                uint64_t unsaid)
{
    char more[64] = "";
    if (unsaid > 0) {
        (void)snprintf(more, sizeof(more), " (and %llu such answers before)",
                       (unsigned long long)unsaid);
    }
    base_log_warn(core->log, "devices", "a %s of device %.*s is answered %d: %s%s",
                  gw_fault_what_name(fault->what), (int)(device.size < 32 ? device.size : 32),
                  device.size > 0 ? device.data : "", fault->status, fault->detail, more);
}

void gw_faults_note(struct gw_core *core, enum gw_fault_what what,
                    const struct gw_exchange *exchange)
{
    struct gw_faults *faults = core->faults;
    uint32_t slot = slot_of(exchange->reply.status);
    if (slot == SLOTS) {
        return;
    }
    struct gw_fault fault = {
        .at_s = gw_core_now_s(core), .status = exchange->reply.status, .what = what};
    struct base_str device = exchange->request.device;
    bool named = wire_device_parse(device, &fault.device_id) == BASE_OK;
    bool own = named && is_its_own(core, exchange, fault.device_id);
    copy_detail(&exchange->reply, fault.detail);
    atomic_fetch_add_explicit(&faults->counts[what][slot], 1, memory_order_relaxed);
    pthread_mutex_lock(&faults->lock);
    uint32_t said_s = faults->said_s[what][slot];
    uint64_t unsaid = faults->unsaid[what][slot]++;
    bool now = said_s == 0 || fault.at_s >= said_s + GW_FAULT_LOG_S || fault.at_s < said_s;
    if (now) {
        faults->said_s[what][slot] = fault.at_s;
        faults->unsaid[what][slot] = 0;
    }
    if (own) {
        remember(core, &fault);
    }
    pthread_mutex_unlock(&faults->lock);
    if (now) {
        say(core, &fault, named ? device : (struct base_str){0}, unsaid);
    }
}

void gw_faults_disbelief(struct gw_core *core, uint64_t device_id, struct base_str detail)
{
    struct gw_fault fault = {
        .device_id = device_id, .at_s = gw_core_now_s(core), .what = GW_FAULT_DISBELIEF};
    (void)base_visible_text(detail, fault.detail, sizeof(fault.detail));
    pthread_mutex_lock(&core->faults->lock);
    remember(core, &fault);
    pthread_mutex_unlock(&core->faults->lock);
}

bool gw_faults_last(struct gw_core *core, uint64_t device_id, struct gw_fault *out)
{
    const struct gw_fault *places = places_of(core, device_id);
    bool found = false;
    pthread_mutex_lock(&core->faults->lock);
    for (uint32_t i = 0; i < WAYS && !found; i++) {
        found = places[i].what != GW_FAULT_NONE && places[i].device_id == device_id;
        if (found) {
            *out = places[i];
        }
    }
    pthread_mutex_unlock(&core->faults->lock);
    return found;
}

bool gw_faults_count(const struct gw_core *core, uint32_t i, enum gw_fault_what *out_what,
                     const char **out_status, uint64_t *out_count)
{
    uint32_t what = GW_FAULT_CHECKIN + i / SLOTS;
    if (what >= GW_FAULT_WHAT_COUNT) {
        return false;
    }
    *out_what = (enum gw_fault_what)what;
    *out_status = slots[i % SLOTS].text;
    *out_count = atomic_load_explicit(&core->faults->counts[what][i % SLOTS], memory_order_relaxed);
    return true;
}
