// Counts of decisions between device and cloud, and their form in an outcome's figures. Added up by
// script VMs (device/vm) and by the device's core, read by the gateway, which believes none of them
// before they fit together.
#include "wire/cloud/cloud_counts.h"

#include "base/check.h"

#define SHARE 255u // a byte's whole

unsigned wire_cloud_step(uint64_t took_us)
{
    unsigned step = 0;
    while (step < WIRE_CLOUD_TIMES - 1 &&
           took_us > ((uint64_t)WIRE_CLOUD_TIME_MS << step) * UINT64_C(1000)) {
        step++;
    }
    return step;
}

// At most `most`: what is halved between a call and what is said of its answer may be one more.
static uint16_t sum(uint16_t a, uint16_t b, unsigned by, uint16_t most)
{
    uint32_t whole = ((uint32_t)a + b) >> by;
    return whole < most ? (uint16_t)whole : most;
}

bool wire_cloud_add(struct wire_cloud_counts *counts, const struct wire_cloud_counts *more)
{
    unsigned by = (uint32_t)counts->asked + more->asked > UINT16_MAX ? 1 : 0;
    counts->asked = sum(counts->asked, more->asked, by, UINT16_MAX);
    counts->sent = sum(counts->sent, more->sent, by, counts->asked);
    counts->answered = sum(counts->answered, more->answered, by, counts->sent);
    counts->differed = sum(counts->differed, more->differed, by, counts->answered);
    uint16_t left = counts->answered;
    for (unsigned i = 0; i < WIRE_CLOUD_TIMES; i++) {
        counts->times[i] = sum(counts->times[i], more->times[i], by, left);
        left = (uint16_t)(left - counts->times[i]);
    }
    return by > 0;
}

static uint32_t times_sum(const struct wire_cloud_counts *counts)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < WIRE_CLOUD_TIMES; i++) {
        sum += counts->times[i];
    }
    return sum;
}

bool wire_cloud_counts_ok(const struct wire_cloud_counts *counts)
{
    return counts->differed <= counts->answered && counts->answered <= counts->sent &&
           counts->sent <= counts->asked && times_sum(counts) <= counts->answered;
}

uint32_t wire_cloud_later(const struct wire_cloud_counts *counts, uint32_t ms)
{
    uint32_t later = 0;
    for (unsigned i = wire_cloud_step(ms * UINT64_C(1000)) + 1; i < WIRE_CLOUD_TIMES; i++) {
        later += counts->times[i];
    }
    return later;
}

void wire_cloud_figures_set(struct wire_figures *figures, const struct wire_cloud_counts *counts)
{
    base_assert(wire_cloud_counts_ok(counts));
    figures->cloud_counts = (uint64_t)counts->asked | (uint64_t)counts->sent << 16 |
                            (uint64_t)counts->answered << 32 | (uint64_t)counts->differed << 48;
    figures->cloud_times = 0;
    for (unsigned i = 0; i < WIRE_CLOUD_TIMES && counts->answered > 0; i++) {
        uint32_t share = (counts->times[i] * SHARE + counts->answered / 2u) / counts->answered;
        figures->cloud_times |= (uint64_t)share << 8 * i;
    }
}

bool wire_cloud_figures_get(const struct wire_figures *figures, struct wire_cloud_counts *out)
{
    struct wire_cloud_counts counts = {
        .asked = (uint16_t)figures->cloud_counts,
        .sent = (uint16_t)(figures->cloud_counts >> 16),
        .answered = (uint16_t)(figures->cloud_counts >> 32),
        .differed = (uint16_t)(figures->cloud_counts >> 48),
    };
    uint32_t left = counts.answered;
    for (unsigned i = 0; i < WIRE_CLOUD_TIMES; i++) { // rounded up once too often: of the later
        uint32_t share = (uint32_t)(figures->cloud_times >> 8 * i) & 0xffu;
        uint32_t count = (share * counts.answered + SHARE / 2) / SHARE;
        count = count < left ? count : left;
        counts.times[i] = (uint16_t)count;
        left -= count;
    }
    if (counts.asked == 0 || !wire_cloud_counts_ok(&counts)) {
        return false;
    }
    *out = counts;
    return true;
}
