// What faults make of the device itself: heat and a saved battery that slow its processor, memory
// that a script does not get or that is taken with its process, a system that lets an app's timers
// wait, a network whose names are not found. Called on the shard's thread: by fleet_ports.c and
// fleet_device.c around a run and where a timer is set, by fault_network.c where a request begins.
//
// Windows are each device's own: they begin at a moment of its own and are drawn one by one, so
// whether it is in one depends on the time alone, and not on how often it woke before.
#include "faults/faults.h"

#include "base/check.h"
#include "vm/vm.h"

#define HOT_WINDOW_S 120
#define SAVER_TIMES  2
// The part of a window in which a dozing device's timers go off: its maintenance.
#define OPEN_PART   8
#define OPEN_US_MAX UINT64_C(30000000)

struct window {
    const struct sim_fault_rule *rule;
    uint64_t from_us;
    uint64_t end_us;
};

static uint64_t length_us(const struct sim_fault_rule *rule)
{
    uint32_t seconds = rule->kind == SIM_FAULT_THROTTLE ? HOT_WINDOW_S : rule->amount;
    base_assert(seconds > 0);
    return seconds * UINT64_C(1000000);
}

// Is the device in a window of this kind then, one that is drawn?
static bool in_window(const struct sim_faulty *faulty, enum sim_fault_kind kind, uint64_t at_us,
                      struct window *out)
{
    const struct sim_faults *faults = faulty->faults;
    const struct sim_fault_plan *plan = faults->plan;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        if (rule->kind != kind || (faulty->mask >> i & 1u) == 0) {
            continue;
        }
        uint64_t length = length_us(rule);
        uint64_t begins = sim_fault_draw(faults->seed, rule, faulty->index, UINT64_MAX) % length;
        uint64_t ran_us = at_us - faults->start_us + begins;
        uint64_t draw = sim_fault_draw(faults->seed, rule, faulty->index, ran_us / length);
        if (sim_fault_hits(rule, draw)) {
            uint64_t from_us = at_us - ran_us % length;
            *out = (struct window){rule, from_us, from_us + length};
            return true;
        }
    }
    return false;
}

static bool is_in(const struct sim_faulty *faulty, enum sim_fault_kind kind, struct window *out)
{
    return faulty->mask != 0 && sim_faults_on(faulty->faults) &&
           in_window(faulty, kind, sim_faults_now_us(faulty->faults), out);
}

// ---- Scripts

uint32_t sim_faults_slower(struct sim_faulty *faulty)
{
    struct window window;
    uint32_t times = 1;
    if (is_in(faulty, SIM_FAULT_THROTTLE, &window)) {
        sim_fault_met(faulty, SIM_FAULT_THROTTLE);
        times = window.rule->amount;
    }
    if (is_in(faulty, SIM_FAULT_SAVER, &window)) {
        sim_fault_met_once(faulty, SIM_FAULT_SAVER);
        times *= SAVER_TIMES;
    }
    return times;
}

bool sim_faults_heap_refused(struct sim_faulty *faulty, uint32_t heap_kib)
{
    uint32_t asked_kib = heap_kib > 0 ? heap_kib : DEV_VM_HEAP_KIB_DEFAULT;
    bool refused =
        faulty->heap_kib != 0 && asked_kib > faulty->heap_kib && sim_faults_on(faulty->faults);
    if (refused) {
        sim_fault_met(faulty, SIM_FAULT_MEMORY);
    }
    return refused;
}

bool sim_faults_run_killed(struct sim_faulty *faulty)
{
    uint64_t draw = 0;
    uint32_t number = ++faulty->runs;
    bool killed = sim_fault_of(faulty, SIM_FAULT_KILLER, SIM_FAULT_KILLER, number, &draw) != NULL;
    if (killed) {
        sim_fault_met(faulty, SIM_FAULT_KILLER);
    }
    return killed;
}

// ---- Timers

// From then on nothing goes wrong any more, and no timer waits.
static uint64_t faults_end_us(const struct sim_faults *faults)
{
    const struct sim_fault_plan *plan = faults->plan;
    return plan->until_s != 0 ? faults->start_us + plan->until_s * UINT64_C(1000000) : UINT64_MAX;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t sim_faults_timer_us(struct sim_faulty *faulty, uint64_t due_us, bool sleeps)
{
    struct window window;
    if (faulty->mask == 0) {
        return due_us;
    }
    uint64_t end_us = faults_end_us(faulty->faults);
    uint64_t at_us = due_us;
    if (due_us <= sim_faults_now_us(faulty->faults) || due_us >= end_us) {
        return due_us; // who is at work does not wait
    }
    if (sleeps && in_window(faulty, SIM_FAULT_SAVER, at_us, &window)) {
        at_us = earlier(window.end_us, end_us);
        sim_fault_met_once(faulty, SIM_FAULT_SAVER);
    }
    if (at_us < end_us && in_window(faulty, SIM_FAULT_DOZE, at_us, &window) &&
        at_us - window.from_us >= earlier(length_us(window.rule) / OPEN_PART, OPEN_US_MAX)) {
        at_us = earlier(window.end_us, end_us);
        sim_fault_met_once(faulty, SIM_FAULT_DOZE);
    }
    return at_us;
}

// ---- Requests

bool sim_fault_nameless(struct sim_faulty *faulty)
{
    struct window window;
    bool nameless = !faulty->connected && is_in(faulty, SIM_FAULT_DNS, &window);
    if (nameless) {
        sim_fault_met(faulty, SIM_FAULT_DNS);
    }
    return nameless;
}

bool sim_faults_saves(struct sim_faulty *faulty)
{
    struct window window;
    bool saves = is_in(faulty, SIM_FAULT_SAVER, &window);
    if (saves) {
        sim_fault_met_once(faulty, SIM_FAULT_SAVER);
    }
    return saves;
}
