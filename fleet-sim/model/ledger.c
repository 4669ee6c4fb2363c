// Ground truth of a shard's devices and the oracles over it. Written by the shard's thread, judged
// by the coordinator after the shards have ended. fleet_device.c and fleet_statement.c write down
// what happens when it happens; fleet_run.c adds the counters up once a second and asks for the
// verdict at the end. Nothing here is taken from what a device reports, so the oracles can find a
// device that reports wrongly.
#include "model/ledger.h"

#include "model/facts.h"
#include "model/zero_pages.h"

#include <string.h>

#define NARROW_MASK     ((1u << SIM_NARROW_VERSIONS) - 1)
#define VERSION_MASK    ((1u << SIM_VERSION_BITS) - 1)
#define OUTCOME_MASK    ((1u << SIM_OUTCOME_BITS) - 1)
#define AFTER_MAX       ((1u << SIM_AFTER_BITS) - 1)
#define ACTIVATION_MASK ((1u << SIM_ACTIVATION_BITS) - 1)

enum base_status sim_ledger_init(struct sim_ledger *ledger, const struct base_alloc_port *alloc,
                                 struct sim_versions *versions, uint32_t count)
{
    memset(ledger, 0, sizeof(*ledger));
    ledger->alloc = alloc;
    ledger->versions = versions;
    ledger->count = count;
    base_hist_init(&ledger->offer_to_run_us);
    ledger->entries = sim_pages_new(sizeof(ledger->entries[0]) * count);
    ledger->wide = sim_pages_new(sizeof(ledger->wide[0]) * count);
    ledger->late = sim_pages_new(sizeof(ledger->late[0]) * count);
    if (ledger->entries == NULL || ledger->wide == NULL || ledger->late == NULL) {
        sim_ledger_done(ledger);
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

void sim_ledger_done(struct sim_ledger *ledger)
{
    sim_pages_free(ledger->entries, sizeof(ledger->entries[0]) * ledger->count);
    sim_pages_free(ledger->wide, sizeof(ledger->wide[0]) * ledger->count);
    sim_pages_free(ledger->late, sizeof(ledger->late[0]) * ledger->count);
    memset(ledger, 0, sizeof(*ledger));
}

// ---- Times

static uint32_t time_of(const struct sim_ledger_entry *entry, uint64_t after)
{
    return after > 0 ? entry->offered_ms + (uint32_t)after - 1 : 0;
}

struct sim_ledger_times sim_ledger_times(const struct sim_ledger *ledger, uint32_t device)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    if (entry->late) {
        return ledger->late[device];
    }
    return (struct sim_ledger_times){entry->offered_ms, time_of(entry, entry->downloaded_after),
                                     time_of(entry, entry->activated_after),
                                     time_of(entry, entry->ran_after)};
}

// More than AFTER_MAX: there is no place for it.
static uint32_t after_of(const struct sim_ledger_times *times, uint32_t time_ms)
{
    if (time_ms == 0) {
        return 0;
    }
    const uint32_t after_ms = time_ms - times->offered_ms; // much, where that is later
    return after_ms < AFTER_MAX ? after_ms + 1 : AFTER_MAX + 1;
}

static void set_times(struct sim_ledger *ledger, uint32_t device,
                      const struct sim_ledger_times *times)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    const uint32_t downloaded = after_of(times, times->downloaded_ms);
    const uint32_t activated = after_of(times, times->activated_ms);
    const uint32_t ran = after_of(times, times->ran_ms);
    entry->late = downloaded > AFTER_MAX || activated > AFTER_MAX || ran > AFTER_MAX;
    entry->offered_ms = times->offered_ms;
    if (entry->late) {
        ledger->late[device] = *times;
        return;
    }
    entry->downloaded_after = downloaded & AFTER_MAX;
    entry->activated_after = activated & AFTER_MAX;
    entry->ran_after = ran & AFTER_MAX;
}

static uint32_t not_0(uint32_t time_ms)
{
    return time_ms > 0 ? time_ms : 1;
}

// ---- Masks

static uint64_t bit(uint8_t version)
{
    return 1ull << version;
}

struct sim_ledger_masks sim_ledger_masks(const struct sim_ledger *ledger, uint32_t device)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    struct sim_ledger_masks masks = {entry->ran_narrow, entry->good_narrow, entry->failed_narrow};
    if (ledger->widened) {
        const struct sim_ledger_masks *wide = &ledger->wide[device];
        masks.ran |= wide->ran;
        masks.good |= wide->good;
        masks.failed |= wide->failed;
    }
    return masks;
}

// Sets the bit of a version in each mask that `of` has it in.
static void note(struct sim_ledger *ledger, uint32_t device, struct sim_ledger_masks of)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    entry->ran_narrow |= of.ran & NARROW_MASK;
    entry->good_narrow |= of.good & NARROW_MASK;
    entry->failed_narrow |= of.failed & NARROW_MASK;
    if (((of.ran | of.good | of.failed) & ~(uint64_t)NARROW_MASK) != 0) {
        struct sim_ledger_masks *wide = &ledger->wide[device];
        ledger->widened = true;
        wide->ran |= of.ran & ~(uint64_t)NARROW_MASK;
        wide->good |= of.good & ~(uint64_t)NARROW_MASK;
        wide->failed |= of.failed & ~(uint64_t)NARROW_MASK;
    }
}

static bool has_run(const struct sim_ledger *ledger, uint32_t device, uint8_t version)
{
    return (sim_ledger_masks(ledger, device).ran & bit(version)) != 0;
}

// Is a version running well on the device: active, and run to a good end?
static bool is_current(const struct sim_ledger *ledger, uint32_t device)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    return entry->active != SIM_VERSION_NONE && has_run(ledger, device, entry->active) &&
           entry->outcome == WIRE_OUTCOME_RAN;
}

void sim_ledger_offered(struct sim_ledger *ledger, uint32_t device, uint8_t version,
                        uint32_t now_ms)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    if (version == SIM_VERSION_NONE || entry->offered == version) {
        return;
    }
    entry->offered = version & VERSION_MASK;
    set_times(ledger, device, &(struct sim_ledger_times){.offered_ms = now_ms});
    if (!has_run(ledger, device, version)) {
        ledger->counters.version[version].offered++;
    }
}

void sim_ledger_downloaded(struct sim_ledger *ledger, uint32_t device, uint32_t now_ms)
{
    const struct sim_ledger_entry *entry = &ledger->entries[device];
    struct sim_ledger_times times = sim_ledger_times(ledger, device);
    if (entry->offered == SIM_VERSION_NONE || times.downloaded_ms != 0) {
        return;
    }
    times.downloaded_ms = not_0(now_ms);
    set_times(ledger, device, &times);
    if (!has_run(ledger, device, entry->offered)) {
        ledger->counters.version[entry->offered].downloaded++;
    }
}

void sim_ledger_active(struct sim_ledger *ledger, uint32_t device, uint8_t version, bool back,
                       uint32_t now_ms)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    if (entry->active == version) {
        return;
    }
    if (entry->active != SIM_VERSION_NONE && is_current(ledger, device)) {
        ledger->counters.version[entry->active].current--;
    }
    bool forward = version != SIM_VERSION_NONE && version == entry->offered &&
                   !has_run(ledger, device, version);
    if (forward) {
        sim_ledger_downloaded(ledger, device, now_ms); // all of it was there already
        struct sim_ledger_times times = sim_ledger_times(ledger, device);
        ledger->counters.version[version].activated += times.activated_ms == 0;
        times.activated_ms = not_0(now_ms);
        set_times(ledger, device, &times);
    }
    if ((!forward || back) && entry->active != SIM_VERSION_NONE) {
        ledger->counters.version[entry->active].rolled_back++;
    }
    entry->previous = entry->active;
    entry->active = version & VERSION_MASK;
    entry->marked = SIM_VERSION_NONE;
    entry->outcome = 0;
    if (!forward && version != SIM_VERSION_NONE && has_run(ledger, device, version) &&
        (sim_ledger_masks(ledger, device).failed & bit(version)) == 0) {
        // Back on a version that is known to run here: it counts again without another run.
        entry->outcome = WIRE_OUTCOME_RAN;
        ledger->counters.version[version].current++;
    }
}

void sim_ledger_activated(struct sim_ledger *ledger, uint32_t device, uint64_t activations,
                          uint64_t again, uint8_t version)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    ledger->counters.activations += activations;
    ledger->counters.marked += again;
    entry->activations = (entry->activations + activations) & ACTIVATION_MASK;
    if (version != SIM_VERSION_NONE) {
        entry->marked = version & VERSION_MASK;
    }
}

void sim_ledger_blocked(struct sim_ledger *ledger, uint32_t device, uint8_t version)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    entry->blocked = version & VERSION_MASK;
    if (version != SIM_VERSION_NONE && version == entry->marked) {
        ledger->counters.marked_lost++;
        entry->marked = SIM_VERSION_NONE;
    }
}

void sim_ledger_root(struct sim_ledger *ledger, uint32_t device, uint64_t version)
{
    ledger->entries[device].root = (uint8_t)(version < UINT8_MAX ? version : UINT8_MAX);
}

void sim_ledger_room(struct sim_ledger *ledger, uint32_t device, bool no_room)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    ledger->counters.no_room += no_room && !entry->no_room;
    ledger->counters.no_room -= !no_room && entry->no_room;
    entry->no_room = no_room;
}

void sim_ledger_run_started(struct sim_ledger *ledger, uint32_t device, uint8_t version,
                            bool verified, bool permitted)
{
    struct sim_ledger_entry *entry = &ledger->entries[device];
    ledger->counters.runs++;
    ledger->counters.unverified_runs += verified ? 0 : 1;
    ledger->counters.unpermitted_runs += permitted ? 0 : 1;
    entry->wild = entry->wild || !verified || !permitted;
    if (version == SIM_VERSION_NONE) {
        return;
    }
    if ((ledger->bad_mask & bit(version)) != 0 &&
        (sim_ledger_masks(ledger, device).ran & ledger->bad_mask) == 0) {
        ledger->counters.exposed++;
        entry->before = entry->previous;
    }
    note(ledger, device, (struct sim_ledger_masks){.ran = bit(version)});
}

void sim_ledger_run_ended(struct sim_ledger *ledger, uint32_t device, const struct sim_run_end *end,
                          uint32_t now_ms)
{
    uint8_t version = end->version;
    enum wire_outcome_kind outcome = end->outcome;
    struct sim_ledger_entry *entry = &ledger->entries[device];
    struct sim_version_counters *counters = &ledger->counters.version[version];
    const struct sim_ledger_masks masks = sim_ledger_masks(ledger, device);
    bool was_current = is_current(ledger, device) && entry->active == version;
    if (version == entry->active) { // a run of the version before may end late
        entry->outcome = outcome & OUTCOME_MASK;
    }
    if (wire_outcome_is_failure(outcome)) {
        ledger->counters.run_failures++;
        if (version != SIM_VERSION_NONE && (masks.failed & bit(version)) == 0) {
            note(ledger, device, (struct sim_ledger_masks){.failed = bit(version)});
            entry->failed_as = outcome & OUTCOME_MASK;
            sim_failures_add(&ledger->failures, version, outcome, end->detail);
            counters->failed++;
        }
        counters->current -= was_current ? 1 : 0;
        return;
    }
    if (version == SIM_VERSION_NONE || version != entry->active) {
        return;
    }
    counters->current += was_current ? 0 : 1;
    bool again = (masks.good & bit(version)) != 0; // on the way back, say
    note(ledger, device, (struct sim_ledger_masks){.good = bit(version)});
    struct sim_ledger_times times = sim_ledger_times(ledger, device);
    if (version == entry->offered && times.ran_ms == 0 && !again) {
        times.ran_ms = not_0(now_ms);
        set_times(ledger, device, &times);
        counters->ran++;
        uint32_t took_ms = now_ms > times.offered_ms ? now_ms - times.offered_ms : 0;
        base_hist_add(&ledger->offer_to_run_us, (uint64_t)took_ms * 1000);
    }
}

void sim_counters_request(struct sim_counters *counters, uint32_t kind)
{
    counters->requests++;
    counters->requests_of[kind < SIM_REQUEST_KINDS ? kind : SIM_REQUEST_KINDS - 1]++;
}

void sim_counters_merge(struct sim_counters *into, const struct sim_counters *from)
{
    // Every field is a 64-bit sum, so the structure merges as an array of them.
    _Static_assert(sizeof(struct sim_counters) % sizeof(uint64_t) == 0, "only 64-bit sums");
    uint64_t *restrict to = (uint64_t *)(void *)into;
    const uint64_t *restrict add = (const uint64_t *)(const void *)from;
    for (size_t i = 0; i < sizeof(*into) / sizeof(uint64_t); i++) {
        to[i] += add[i];
    }
}

static const char *const oracle_names[SIM_ORACLE_COUNT] = {
    "verified", "permitted", "sealed", "exact", "recovered", "back",  "stood", "exposure",
    "law",      "once",      "kept",   "calm",  "control",   "ended", "bytes"};
static const char *const oracle_texts[SIM_ORACLE_COUNT] = {
    "nothing unverified ran on any device",
    "nothing ran outside its signed stage",
    "nothing was sealed under a name that is not its hash",
    "work shared between devices agreed with work done for real",
    "every wake recovered from what the device had stored",
    "every device that ran a bad version is on another one at the end",
    "no device gave up a version that it was told to activate once more",
    "no more devices than allowed ran a bad version",
    "records offered = durable + queued + declared lost + gone with a kill, on every device",
    "a task had one active version on every device, activated once",
    "every device woke with what it had saved, and the version and floor that it slept with",
    "no device sent a storm of requests",
    "no device brought content to run once more what it had",
    "after the faults every device came to the release, or off the one that went back",
    "real HTTP/2 and TLS said what is handed over in their place",
};

const char *sim_oracle_name(enum sim_oracle oracle)
{
    return oracle < SIM_ORACLE_COUNT ? oracle_names[oracle] : "?";
}

const char *sim_oracle_text(enum sim_oracle oracle)
{
    return oracle < SIM_ORACLE_COUNT ? oracle_texts[oracle] : "?";
}

// Why one does not apply, and why one that does had nothing to look at.
static const struct {
    const char *unchecked;
    const char *nothing;
} oracle_nothings[SIM_ORACLE_COUNT] = {
    [SIM_ORACLE_VERIFIED] = {"", "no task ran"},
    [SIM_ORACLE_PERMITTED] = {"", "no task ran"},
    [SIM_ORACLE_SEALED] = {"", "no version was activated"},
    [SIM_ORACLE_EXACT] = {"", "no device did its work for real (--real-every)"},
    [SIM_ORACLE_RECOVERED] = {"", "no device woke"},
    [SIM_ORACLE_BACK] = {"no version that a gateway released is called bad (--bad-version)",
                         "no device ran a bad version"},
    [SIM_ORACLE_STOOD] = {"", "no device was told to activate a version once more"},
    [SIM_ORACLE_EXPOSURE] = {"no bad version has a limit (--bad-version, --max-exposed)",
                             "there was no device"},
    [SIM_ORACLE_LAW] = {"no device behaved towards a gateway (--behaviour)",
                        "no device offered a record to a tunnel"},
    [SIM_ORACLE_ONCE] = {"", "no version was activated on a device with one task"},
    [SIM_ORACLE_KEPT] = {"more than a million devices", "no device slept and woke again"},
    [SIM_ORACLE_CALM] = {"more than a million devices", "no request was made"},
    [SIM_ORACLE_CONTROL] = {"", "no device was told to activate a version once more"},
    [SIM_ORACLE_ENDED] = {"faults do not end (--faults-until), or the run ends too soon after them "
                          "or after its rollout",
                          "no device came online"},
    [SIM_ORACLE_BYTES] = {"no device speaks real bytes (--byte-devices)",
                          "no device that speaks real bytes was answered"},
};

const char *sim_oracle_nothing(enum sim_oracle oracle, const struct sim_oracle_result *result)
{
    if (oracle >= SIM_ORACLE_COUNT || (result->checked && result->population > 0)) {
        return NULL;
    }
    return result->checked ? oracle_nothings[oracle].nothing : oracle_nothings[oracle].unchecked;
}

static void set(struct sim_oracle_result *result, bool checked, uint64_t violations,
                uint64_t population)
{
    *result = (struct sim_oracle_result){
        .checked = checked,
        .holds = !checked || violations == 0,
        .violations = violations,
        .population = population,
    };
}

static void judge_exposed(const struct sim_ledger *ledger, struct sim_verdict *out)
{
    for (uint32_t i = 0; i < ledger->count; i++) {
        const struct sim_ledger_entry *entry = &ledger->entries[i];
        if ((sim_ledger_masks(ledger, i).ran & ledger->bad_mask) == 0) {
            continue;
        }
        out->exposed++;
        bool bad =
            entry->active != SIM_VERSION_NONE && (ledger->bad_mask & bit(entry->active)) != 0;
        out->still_bad += bad ? 1 : 0;
        out->none_before += entry->before == SIM_VERSION_NONE;
        out->back_as_before +=
            !bad && entry->before != SIM_VERSION_NONE && entry->active == entry->before;
    }
}

void sim_ledger_judge(const struct sim_ledger *const *ledgers, uint32_t ledger_count, bool released,
                      uint32_t max_exposed_ppm, struct sim_verdict *out)
{
    struct sim_counters sum = {0};
    uint64_t devices = 0;
    bool any_bad = false;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < ledger_count; i++) {
        sim_counters_merge(&sum, &ledgers[i]->counters);
        judge_exposed(ledgers[i], out);
        devices += ledgers[i]->count;
        any_bad = any_bad || ledgers[i]->bad_mask != 0;
    }
    set(&out->oracle[SIM_ORACLE_VERIFIED], true, sum.unverified_runs, sum.runs);
    set(&out->oracle[SIM_ORACLE_PERMITTED], true, sum.unpermitted_runs, sum.runs);
    set(&out->oracle[SIM_ORACLE_SEALED], true, sum.bad_seals, sum.activations);
    set(&out->oracle[SIM_ORACLE_EXACT], true, sum.memo_mismatches, sum.real_compared);
    set(&out->oracle[SIM_ORACLE_RECOVERED], true, sum.boot_failures, sum.wakes);
    any_bad = any_bad && released;
    set(&out->oracle[SIM_ORACLE_BACK], any_bad, out->still_bad, out->exposed);
    set(&out->oracle[SIM_ORACLE_STOOD], true, sum.marked_lost, sum.marked);
    bool limited = any_bad && max_exposed_ppm != UINT32_MAX;
    uint64_t allowed = limited ? devices * max_exposed_ppm / 1000000 : 0;
    uint64_t over = limited && out->exposed > allowed ? out->exposed - allowed : 0;
    set(&out->oracle[SIM_ORACLE_EXPOSURE], limited, over, devices);
    set(&out->oracle[SIM_ORACLE_LAW], false, 0, 0);
    set(&out->oracle[SIM_ORACLE_ONCE], true, sum.twice_active, sum.once_compared);
    bool noted = devices <= SIM_FACTS_DEVICES_MAX;
    set(&out->oracle[SIM_ORACLE_KEPT], noted, sum.kept_lost, sum.kept_compared);
    set(&out->oracle[SIM_ORACLE_CALM], noted, sum.stormed, sum.requests);
    set(&out->oracle[SIM_ORACLE_CONTROL], true, sum.marks_fetched, sum.marks_alone);
    set(&out->oracle[SIM_ORACLE_ENDED], false, 0, 0);
    set(&out->oracle[SIM_ORACLE_BYTES], false, 0, 0);
    out->holds = true;
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        out->holds = out->holds && out->oracle[i].holds;
    }
}

void sim_ledger_judge_ends(struct sim_verdict *verdict, uint64_t astray, uint64_t devices)
{
    set(&verdict->oracle[SIM_ORACLE_ENDED], true, astray, devices);
    verdict->holds = verdict->holds && astray == 0;
}

void sim_ledger_judge_law(struct sim_verdict *verdict, uint64_t broken, uint64_t checked)
{
    set(&verdict->oracle[SIM_ORACLE_LAW], true, broken, checked);
    verdict->holds = verdict->holds && broken == 0;
}

void sim_ledger_judge_bytes(struct sim_verdict *verdict, uint64_t mismatches, uint64_t answers,
                            uint64_t device)
{
    set(&verdict->oracle[SIM_ORACLE_BYTES], true, mismatches, answers);
    verdict->oracle[SIM_ORACLE_BYTES].names_device = mismatches > 0;
    verdict->oracle[SIM_ORACLE_BYTES].device = device;
    verdict->holds = verdict->holds && mismatches == 0;
}
