// What faults decide once a wake: which of them may hit the device at all, what became of its
// storage while it slept, when its process dies, what its clock says. fleet_device.c calls it when
// a device wakes, dies and sleeps; the life of a shard's part is here too.
#include "faults/faults.h"

#include "base/check.h"
#include "base/prng.h"
#include "digest/story_lines.h"

#include <string.h>

#define STATE_TORN_MAX 64 // bytes at the end of what was being written
#define BACKUPS_EVERY  4  // wakes, on average
#define LOOP_CALLS_MAX 8  // a process in a loop of crashes gets no further

bool sim_faults_on(const struct sim_faults *faults)
{
    const struct sim_fault_plan *plan = faults->plan;
    return plan->rule_count > 0 &&
           (plan->until_s == 0 ||
            sim_faults_now_us(faults) - faults->start_us < plan->until_s * UINT64_C(1000000));
}

// ---- The shard

void *sim_faults_zeroed(const struct sim_faults *faults, size_t bytes)
{
    void *memory = faults->alloc->alloc(faults->alloc->ctx, bytes);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void sim_faults_init(struct sim_faults *faults, const struct sim_faults_options *options)
{
    *faults = (struct sim_faults){
        .plan = options->plan,
        .alloc = options->alloc,
        .clock = options->clock,
        .start_us = options->start_us,
        .seed = options->seed,
        .devices = options->devices,
        .faulty_of = options->faulty_of,
        .again = options->again,
    };
}

enum base_status sim_faults_wrap(struct sim_faults *faults, struct sim_transport *transport)
{
    if (faults->plan->rule_count == 0) {
        return BASE_OK;
    }
    base_assert(faults->inner.start == NULL);
    faults->inner = *transport;
    *transport = sim_faults_transport(faults);
    if (sim_fault_plan_has(faults->plan, SIM_FAULT_BACKUP)) {
        faults->backups =
            sim_faults_zeroed(faults, sizeof(faults->backups[0]) * ((size_t)faults->devices + 1));
        if (faults->backups == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    if (sim_fault_plan_has(faults->plan, SIM_FAULT_STALE)) {
        faults->answers =
            sim_faults_zeroed(faults, sizeof(faults->answers[0]) * ((size_t)faults->devices + 1));
        if (faults->answers == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

void sim_faults_done(struct sim_faults *faults)
{
    const struct base_alloc_port *alloc = faults->alloc;
    if (alloc == NULL) {
        return; // nothing was set up
    }
    sim_faults_forget(faults);
    for (uint32_t i = 0; faults->backups != NULL && i < faults->devices; i++) {
        alloc->release(alloc->ctx, faults->backups[i].state);
    }
    alloc->release(alloc->ctx, faults->backups);
    faults->backups = NULL;
}

// ---- Draws

// Of a time in which everybody is hit, and of no exchange or call.
static bool of_window(enum sim_fault_kind kind)
{
    return kind == SIM_FAULT_OUTAGE || kind == SIM_FAULT_STORM || kind == SIM_FAULT_DOWN;
}

const struct sim_fault_rule *sim_fault_of(struct sim_faulty *faulty, enum sim_fault_kind first,
                                          enum sim_fault_kind last, uint32_t count,
                                          uint64_t *out_draw)
{
    struct sim_faults *faults = faulty->faults;
    if (faulty->mask == 0 || !sim_faults_on(faults)) {
        return NULL;
    }
    const struct sim_fault_plan *plan = faults->plan;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        if (rule->kind < first || rule->kind > last || of_window(rule->kind) ||
            (faulty->mask >> i & 1u) == 0) {
            continue;
        }
        uint64_t draw = sim_fault_draw(faults->seed, rule, faulty->index,
                                       (uint64_t)faulty->wakes << 32 | count);
        if (sim_fault_hits(rule, draw)) {
            *out_draw = draw;
            return rule;
        }
    }
    return NULL;
}

void sim_fault_happened(struct sim_faults *faults, uint64_t index, enum sim_fault_kind kind)
{
    base_assert(kind < SIM_FAULT_KIND_COUNT);
    const struct sim_fault_about *about = sim_fault_about(kind);
    faults->hits[kind]++;
    if (faults->story != NULL && faults->story->index == index) {
        sim_story_tell(faults->story,
                       &(struct sim_story_event){sim_faults_now_us(faults), "fault", NULL}, "%s:%s",
                       sim_fault_family_name(about->family), about->name);
    }
}

void sim_fault_met(struct sim_faulty *faulty, enum sim_fault_kind kind)
{
    sim_fault_happened(faulty->faults, faulty->index, kind);
}

void sim_fault_met_once(struct sim_faulty *faulty, enum sim_fault_kind kind)
{
    _Static_assert(SIM_FAULT_KIND_COUNT <= 64, "a bit each");
    if ((faulty->met >> kind & 1u) == 0) {
        faulty->met |= UINT64_C(1) << kind;
        sim_fault_met(faulty, kind);
    }
}

// Of a rule that is drawn once for the device, or once for so many of its wakes.
static const struct sim_fault_rule *device_rule(struct sim_faulty *faulty, enum sim_fault_kind kind,
                                                bool by_window, uint64_t *out_draw)
{
    struct sim_faults *faults = faulty->faults;
    const struct sim_fault_plan *plan = faults->plan;
    for (uint32_t i = 0; i < plan->rule_count && sim_faults_on(faults); i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        if (rule->kind != kind || (faulty->mask >> i & 1u) == 0) {
            continue;
        }
        uint64_t window = by_window ? faulty->wakes / rule->amount : 0;
        *out_draw = sim_fault_draw(faults->seed, rule, faulty->index, window);
        if (sim_fault_hits(rule, *out_draw)) {
            return rule;
        }
    }
    return NULL;
}

static const struct sim_fault_rule *wake_rule(struct sim_faulty *faulty, enum sim_fault_kind kind,
                                              uint64_t *out_draw)
{
    return sim_fault_of(faulty, kind, kind, 0, out_draw);
}

// Rules that may hit a device like this in a wake that begins now.
static uint32_t mask_of(const struct sim_faults *faults, const struct sim_traits *traits)
{
    const struct sim_fault_plan *plan = faults->plan;
    uint64_t now_us = sim_faults_now_us(faults);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        bool begun = sim_fault_begun(&plan->rules[i], now_us - faults->start_us);
        mask |= begun && sim_fault_means(&plan->rules[i], traits) ? 1u << i : 0;
    }
    return mask;
}

// ---- Storage, while the device slept

static void backup_make(struct sim_faulty *faulty, struct sim_backup *backup)
{
    const struct base_alloc_port *alloc = faulty->faults->alloc;
    const struct sim_disk *disk = faulty->disk->disk;
    uint8_t bytes[SIM_STATE_BYTES_MAX];
    size_t size = 0;
    struct sim_states *states = sim_store_states(faulty->disk->store);
    if (sim_states_get(states, disk->state, bytes, sizeof(bytes), &size) != BASE_OK) {
        return; // there is nothing
    }
    uint8_t *state = alloc->alloc(alloc->ctx, size > 0 ? size : 1);
    if (state != NULL) {
        memcpy(state, bytes, size);
        alloc->release(alloc->ctx, backup->state);
        *backup =
            (struct sim_backup){state, (uint32_t)size, sim_disk_image(disk, faulty->disk->store)};
    }
}

// The device has what it had when the backup was made.
static void backup_restore(struct sim_faulty *faulty, const struct sim_backup *backup)
{
    struct sim_store *store = faulty->disk->store;
    struct sim_disk *disk = faulty->disk->disk;
    const struct base_span bytes = {backup->state, backup->state_bytes};
    base_assert(!disk->real);
    sim_disk_done(disk, store, faulty->faults->alloc);
    if (sim_states_put(sim_store_states(store), &disk->state, bytes, false) == BASE_OK) {
        sim_disk_set_image(disk, store, backup->image);
        sim_fault_met(faulty, SIM_FAULT_BACKUP);
    }
    faulty->lost = true;
}

static void storage_of_before(struct sim_faulty *faulty)
{
    struct sim_faults *faults = faulty->faults;
    struct sim_disk *disk = faulty->disk->disk;
    bool real = disk->real;
    uint64_t draw = 0;
    if (faults->backups != NULL && !real) { // what a real device sealed is not in the image
        struct sim_backup *backup = &faults->backups[faulty->device];
        if (backup->state != NULL && wake_rule(faulty, SIM_FAULT_BACKUP, &draw) != NULL) {
            backup_restore(faulty, backup);
        }
        if (base_mix64(faulty->index * 31 + faulty->wakes) % BACKUPS_EVERY == 0) {
            backup_make(faulty, backup);
        }
    }
    if (disk->state != 0 && wake_rule(faulty, SIM_FAULT_CLEAR, &draw) != NULL) {
        sim_disk_done(disk, faulty->disk->store, faulty->faults->alloc);
        disk->real = real;
        faulty->lost = true;
        sim_fault_met(faulty, SIM_FAULT_CLEAR);
    }
}

// ---- The wake

static void process_draw(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    const struct sim_fault_rule *rule = wake_rule(faulty, SIM_FAULT_KILL, &draw);
    if (rule != NULL) {
        faulty->dies_at = 1 + (uint32_t)draw % rule->amount;
        faulty->dies_behind = (draw >> 20 & 1u) != 0;
        faulty->dies_of = SIM_FAULT_KILL;
    }
    if (device_rule(faulty, SIM_FAULT_LOOP, true, &draw) != NULL) {
        draw = base_mix64(draw + faulty->wakes);
        faulty->dies_at = 1 + (uint32_t)draw % LOOP_CALLS_MAX;
        faulty->dies_behind = (draw >> 20 & 1u) != 0;
        faulty->dies_of = SIM_FAULT_LOOP;
    }
}

static uint64_t off_by(const struct sim_fault_rule *rule, uint64_t draw)
{
    uint64_t most_us = rule->amount * UINT64_C(1000000);
    return base_mix64(draw) % (2 * most_us + 1) - most_us;
}

static void clock_draw(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    const struct sim_fault_rule *rule = device_rule(faulty, SIM_FAULT_OFFSET, false, &draw);
    faulty->off_us += rule != NULL ? off_by(rule, draw) : 0;
    faulty->set_wrong = rule != NULL;
    rule = wake_rule(faulty, SIM_FAULT_STEP, &draw);
    faulty->off_us += rule != NULL ? off_by(rule, draw) : 0;
    faulty->stepped = rule != NULL;
    rule = device_rule(faulty, SIM_FAULT_DRIFT, false, &draw);
    if (rule != NULL) {
        faulty->drift_ppm = (draw & 1u) != 0 ? (int32_t)rule->amount : -(int32_t)rule->amount;
    }
    faulty->never_set = device_rule(faulty, SIM_FAULT_UNSET, false, &draw) != NULL;
}

static void storage_draw(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    storage_of_before(faulty);
    const struct sim_fault_rule *rule = wake_rule(faulty, SIM_FAULT_FULL, &draw);
    faulty->full_at = rule != NULL ? rule->amount : 0;
    faulty->readonly = wake_rule(faulty, SIM_FAULT_READONLY, &draw) != NULL;
    rule = device_rule(faulty, SIM_FAULT_DISK, false, &draw);
    faulty->room = rule != NULL ? rule->amount * UINT64_C(1024) : UINT64_MAX;
    rule = device_rule(faulty, SIM_FAULT_CPU, false, &draw);
    faulty->times = rule != NULL ? rule->amount : 1;
}

// Of the path that its messages take, and of the memory it has.
static void limits_draw(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    const struct sim_fault_rule *rule = wake_rule(faulty, SIM_FAULT_MTU, &draw);
    faulty->mtu_bytes = rule != NULL ? rule->amount : 0;
    rule = device_rule(faulty, SIM_FAULT_MEMORY, false, &draw);
    faulty->heap_kib = rule != NULL ? rule->amount : 0;
}

void sim_faults_wake(struct sim_faults *faults, const struct sim_faults_waker *waker,
                     struct sim_faulty *out, struct dev_ports *ports)
{
    if (faults->plan->rule_count == 0) {
        return;
    }
    *out = (struct sim_faulty){
        .faults = faults,
        .index = waker->index,
        .device = waker->device,
        .wakes = waker->wakes,
        .mask = mask_of(faults, waker->traits),
        .room = UINT64_MAX,
        .times = 1,
        .own = waker->exchanges,
        .own_count = waker->exchange_count,
        .disk = waker->disk,
    };
    if (out->mask != 0) {
        storage_draw(out);
        process_draw(out);
        clock_draw(out);
        limits_draw(out);
        sim_fault_ports_wrap(out, ports);
    }
}

void sim_faults_drop(struct sim_faulty *faulty)
{
    if (faulty->mask != 0) {
        sim_fault_ports_drop(faulty);
    }
}

// The file system had made room for what was written last, and had not written it.
void sim_faults_killed(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    if (sim_fault_of(faulty, SIM_FAULT_TORN, SIM_FAULT_TORN, 0, &draw) == NULL) {
        return;
    }
    uint8_t noise[STATE_TORN_MAX];
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)base_mix64(draw + i);
    }
    if (sim_storage_tear(faulty->disk, noise, sizeof(noise))) {
        sim_fault_met(faulty, SIM_FAULT_TORN);
    }
}

// ---- Calls

static void die(struct sim_faulty *faulty)
{
    base_assert(!faulty->dead);
    faulty->dead = true;
    sim_fault_met(faulty, faulty->dies_of);
}

bool sim_fault_call(struct sim_faulty *faulty)
{
    if (faulty->dead) {
        return false;
    }
    faulty->calls++;
    bool dies =
        faulty->dies_at != 0 && faulty->calls == faulty->dies_at && sim_faults_on(faulty->faults);
    if (dies && !faulty->dies_behind) {
        die(faulty);
    }
    return !faulty->dead;
}

void sim_fault_call_ends(struct sim_faulty *faulty)
{
    if (!faulty->dead && faulty->dies_at != 0 && faulty->calls == faulty->dies_at &&
        sim_faults_on(faulty->faults)) {
        die(faulty);
    }
}

// ---- Storms

static const struct sim_fault_rule *storm_rule(const struct sim_faults *faults)
{
    const struct sim_fault_plan *plan = faults->plan;
    uint64_t ran_us = sim_faults_now_us(faults) - faults->start_us;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        if (plan->rules[i].kind == SIM_FAULT_STORM && sim_fault_begun(&plan->rules[i], ran_us)) {
            return &plan->rules[i];
        }
    }
    return NULL;
}

uint64_t sim_faults_storm_us(const struct sim_faults *faults)
{
    const struct sim_fault_rule *rule = sim_faults_on(faults) ? storm_rule(faults) : NULL;
    return rule != NULL ? faults->start_us + (faults->storm + 1) * rule->amount * UINT64_C(1000000)
                        : UINT64_MAX;
}

const struct sim_fault_rule *sim_faults_storm(struct sim_faults *faults, uint64_t now_us)
{
    const struct sim_fault_rule *rule = sim_faults_on(faults) ? storm_rule(faults) : NULL;
    if (rule == NULL) {
        return NULL;
    }
    uint64_t window = (now_us - faults->start_us) / (rule->amount * UINT64_C(1000000));
    bool begins = window > faults->storm;
    faults->storm = begins ? window : faults->storm;
    bool hits = begins && sim_fault_hits(rule, sim_fault_draw(faults->seed, rule, 0, window));
    faults->hits[SIM_FAULT_STORM] += hits;
    return hits ? rule : NULL;
}

// ---- Clock and processor

// A clock that nobody reads is not wrong.
static void met_clock(struct sim_faulty *faulty, enum sim_fault_kind kind, bool is_wrong)
{
    if (is_wrong) {
        sim_fault_met_once(faulty, kind);
    }
}

uint64_t sim_faults_wall_us(struct sim_faulty *faulty, uint64_t wall_us)
{
    const struct sim_faults *faults = faulty->faults;
    if (faulty->mask == 0 || !sim_faults_on(faults)) {
        return wall_us;
    }
    uint64_t mono_us = sim_faults_now_us(faults);
    met_clock(faulty, SIM_FAULT_UNSET, faulty->never_set);
    if (faulty->never_set) {
        return mono_us; // it began to count when the run did
    }
    int64_t drift_us = (int64_t)((mono_us - faults->start_us) / 1000000) * faulty->drift_ppm;
    met_clock(faulty, SIM_FAULT_OFFSET, faulty->set_wrong);
    met_clock(faulty, SIM_FAULT_STEP, faulty->stepped);
    met_clock(faulty, SIM_FAULT_DRIFT, drift_us != 0);
    return wall_us + faulty->off_us + (uint64_t)drift_us;
}

uint64_t sim_faults_run_us(struct sim_faulty *faulty, uint64_t run_us)
{
    bool slow = faulty->mask != 0 && faulty->times > 1 && sim_faults_on(faulty->faults);
    if (slow) {
        sim_fault_met_once(faulty, SIM_FAULT_CPU);
    }
    return slow ? run_us * faulty->times : run_us;
}
