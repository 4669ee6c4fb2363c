// Overload manager: the rule, and what workers share of it (atomics: limits, the sockets' sum, the
// last measure). One worker measures (gw_overload_measure); all others read. The first part is the
// rule and pure: a level from bytes, limits and time. worker.c measures on the worker that was
// chosen, at most every MEASURE_MS; listener.c, shed.c and send_guard.c read and add on every
// worker's thread; server.c sets limits on the main thread. A reader may see a level that is one
// measure old, which is good enough for a rule that acts in tenths of seconds.
#include "http/memory/overload.h"

#include "http/memory/machine_memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MEASURE_MS 200u
#define TRIM_MS    2000u // between two requests to the C library to give freed memory back

const char *gw_overload_level_name(enum gw_overload_level level)
{
    static const char *const names[GW_OVERLOAD_LEVEL_COUNT] = {
        [GW_OVERLOAD_CALM] = "calm",
        [GW_OVERLOAD_RAISED] = "raised",
        [GW_OVERLOAD_HIGH] = "high",
        [GW_OVERLOAD_CRITICAL] = "critical",
    };
    return (unsigned)level < GW_OVERLOAD_LEVEL_COUNT ? names[level] : "?";
}

// ---- The rule

static const uint64_t begins_percent[GW_OVERLOAD_LEVEL_COUNT] = {
    [GW_OVERLOAD_CALM] = 0,
    [GW_OVERLOAD_RAISED] = GW_OVERLOAD_RAISED_PERCENT,
    [GW_OVERLOAD_HIGH] = GW_OVERLOAD_HIGH_PERCENT,
    [GW_OVERLOAD_CRITICAL] = GW_OVERLOAD_CRITICAL_PERCENT,
};

static uint64_t percent_of(uint64_t used, uint64_t limit)
{
    if (limit == 0) {
        return 0;
    }
    return used > UINT64_MAX / 100 ? UINT64_MAX : used * 100 / limit;
}

uint64_t gw_overload_percent(const struct gw_overload_bytes *used,
                             const struct gw_overload_bytes *limits)
{
    uint64_t process = percent_of(used->process, limits->process);
    uint64_t sockets = percent_of(used->sockets, limits->sockets);
    return process > sockets ? process : sockets;
}

bool gw_overload_step(struct gw_overload_rule *rule, const struct gw_overload_bytes *used,
                      const struct gw_overload_bytes *limits, uint64_t now_ms)
{
    uint64_t percent = gw_overload_percent(used, limits);
    enum gw_overload_level level = GW_OVERLOAD_CRITICAL;
    while (level > GW_OVERLOAD_CALM && percent < begins_percent[level]) {
        level--;
    }
    if (level < rule->level) {
        bool ends = percent + GW_OVERLOAD_BACK_PERCENT < begins_percent[rule->level] &&
                    now_ms - rule->changed_ms >= GW_OVERLOAD_STEP_MS;
        level = ends ? rule->level - 1 : rule->level;
    }
    if (level == rule->level) {
        return false;
    }
    rule->level = level;
    rule->changed_ms = now_ms;
    return true;
}

enum gw_overload_class gw_overload_class_of(bool proven, bool idle, uint64_t held_bytes)
{
    if (!proven) {
        return held_bytes >= GW_SHED_HOLDS_BYTES ? GW_SHED_HOLDING_STRANGER : GW_SHED_STRANGER;
    }
    return idle ? GW_SHED_IDLE : GW_SHED_NEVER;
}

bool gw_overload_sheds(enum gw_overload_level level, enum gw_overload_class kind)
{
    static const enum gw_overload_level from[GW_SHED_CLASS_COUNT] = {
        [GW_SHED_HOLDING_STRANGER] = GW_OVERLOAD_RAISED,
        [GW_SHED_STRANGER] = GW_OVERLOAD_HIGH,
        [GW_SHED_IDLE] = GW_OVERLOAD_CRITICAL,
        [GW_SHED_NEVER] = GW_OVERLOAD_LEVEL_COUNT,
    };
    return level >= from[kind];
}

static uint64_t above(uint64_t used, uint64_t limit)
{
    uint64_t target = limit / 100 * (GW_OVERLOAD_RAISED_PERCENT - GW_OVERLOAD_BACK_PERCENT);
    return limit != 0 && used > target ? used - target : 0;
}

uint64_t gw_overload_excess(const struct gw_overload_bytes *used,
                            const struct gw_overload_bytes *limits)
{
    uint64_t process = above(used->process, limits->process);
    uint64_t sockets = above(used->sockets, limits->sockets);
    return process > sockets ? process : sockets;
}

// ---- Shared

struct gw_overload {
    const struct base_log *log;
    _Atomic uint64_t process_limit;
    _Atomic uint64_t socket_limit;
    _Atomic uint64_t socket_bytes;
    _Atomic uint64_t process_bytes;
    _Atomic uint64_t too_much;
    _Atomic uint32_t level;
    // The measuring worker's.
    struct gw_overload_rule rule;
    uint64_t measured_ms;
    uint64_t trimmed_ms;
};

enum base_status gw_overload_new(const struct base_log *log, struct gw_overload **out_overload)
{
    struct gw_overload *overload = calloc(1, sizeof(*overload));
    if (overload == NULL) {
        return BASE_ERR_NOMEM;
    }
    overload->log = log;
    gw_overload_limit(overload, 0, 0);
    *out_overload = overload;
    return BASE_OK;
}

void gw_overload_free(struct gw_overload *overload)
{
    free(overload);
}

void gw_overload_limit(struct gw_overload *overload, uint64_t process_bytes, uint64_t socket_bytes)
{
    struct gw_machine_memory machine;
    gw_machine_memory_read(&machine);
    if (process_bytes == 0) {
        process_bytes = machine.total_bytes / 4 * 3;
    }
    if (socket_bytes == 0) {
        socket_bytes = machine.total_bytes / 8;
        if (machine.tcp_easy_bytes != 0 && machine.tcp_easy_bytes < socket_bytes) {
            socket_bytes = machine.tcp_easy_bytes; // the kernel itself is at ease below this
        }
    }
    atomic_store(&overload->process_limit, process_bytes);
    atomic_store(&overload->socket_limit, socket_bytes);
}

void gw_overload_sockets(struct gw_overload *overload, uint64_t before, uint64_t now)
{
    if (overload != NULL && before != now) {
        atomic_fetch_add_explicit(&overload->socket_bytes, now - before, memory_order_relaxed);
    }
}

struct gw_overload_bytes gw_overload_used(const struct gw_overload *overload)
{
    if (overload == NULL) {
        return (struct gw_overload_bytes){0};
    }
    return (struct gw_overload_bytes){atomic_load(&overload->process_bytes),
                                      atomic_load(&overload->socket_bytes)};
}

struct gw_overload_bytes gw_overload_limits(const struct gw_overload *overload)
{
    if (overload == NULL) {
        return (struct gw_overload_bytes){0};
    }
    return (struct gw_overload_bytes){atomic_load(&overload->process_limit),
                                      atomic_load(&overload->socket_limit)};
}

static void say(const struct gw_overload *overload, const struct gw_overload_bytes *used,
                const struct gw_overload_bytes *limits)
{
    enum gw_overload_level level = overload->rule.level;
    static const char *const meaning[GW_OVERLOAD_LEVEL_COUNT] = {
        [GW_OVERLOAD_CALM] = "nobody has to go",
        [GW_OVERLOAD_RAISED] = "strangers that hold memory are closed",
        [GW_OVERLOAD_HIGH] = "strangers are closed",
        [GW_OVERLOAD_CRITICAL] = "strangers and idle connections are closed, new ones refused",
    };
    base_log_warn(
        overload->log, "overload", "%s: process %llu of %llu MiB, sockets %llu of %llu MiB; %s",
        gw_overload_level_name(level), (unsigned long long)used->process >> 20,
        (unsigned long long)limits->process >> 20, (unsigned long long)used->sockets >> 20,
        (unsigned long long)limits->sockets >> 20, meaning[level]);
}

void gw_overload_measure(struct gw_overload *overload, uint64_t now_ms)
{
    if (overload == NULL || now_ms - overload->measured_ms < MEASURE_MS) {
        return;
    }
    overload->measured_ms = now_ms;
    atomic_store(&overload->process_bytes, gw_machine_memory_own());
    const struct gw_overload_bytes used = gw_overload_used(overload);
    const struct gw_overload_bytes limits = gw_overload_limits(overload);
    if (gw_overload_step(&overload->rule, &used, &limits, now_ms)) {
        say(overload, &used, &limits);
    }
    atomic_store(&overload->too_much, gw_overload_excess(&used, &limits));
    atomic_store(&overload->level, (uint32_t)overload->rule.level);
    if (overload->rule.level > GW_OVERLOAD_CALM && now_ms - overload->trimmed_ms >= TRIM_MS) {
        overload->trimmed_ms = now_ms;
        (void)malloc_trim(0);
    }
}

enum gw_overload_level gw_overload_now(const struct gw_overload *overload)
{
    return overload != NULL ? (enum gw_overload_level)atomic_load_explicit(&overload->level,
                                                                           memory_order_relaxed)
                            : GW_OVERLOAD_CALM;
}

uint64_t gw_overload_too_much(const struct gw_overload *overload)
{
    return overload != NULL ? atomic_load(&overload->too_much) : 0;
}
