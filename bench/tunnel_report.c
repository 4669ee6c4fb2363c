// Times and counts of one load run. Called by the load generators, at the beginning and the end of
// what they measure.
#include "tunnel_report.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_UTIME     14 // fields of /proc/PID/stat, from 1
#define STAT_STIME     15
#define STATM_RESIDENT 2
#define US_PER_S       1000000.0

// Field `from` to `to` (from 1) of a file of numbers under /proc, added up; 0: no such process.
static uint64_t proc_sum(uint64_t pid, const char *name, int from, int to)
{
    char path[64];
    char text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/%s", pid, name);
    FILE *file = pid != 0 ? fopen(path, "re") : NULL;
    size_t size = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    text[size] = '\0';
    const char *name_end =
        strrchr(text, ')'); // of `stat`: the second field is the name in brackets
    const char *at = name_end != NULL ? name_end : text;
    uint64_t sum = 0;
    for (int field = name_end != NULL ? 3 : 2; at != NULL && field <= to; field++) {
        at = strchr(at + 1, ' ');
        uint64_t value = 0;
        if (at != NULL && field >= from &&
            base_str_u64((struct base_str){at + 1, strcspn(at + 1, " ")}, &value) == BASE_OK) {
            sum += value;
        }
    }
    return sum;
}

static uint64_t ticks_of(uint64_t pid)
{
    return proc_sum(pid, "stat", STAT_UTIME, STAT_STIME);
}

uint64_t tunnel_report_memory(uint64_t pid)
{
    return proc_sum(pid, "statm", STATM_RESIDENT, STATM_RESIDENT) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void tunnel_report_begin(struct tunnel_report *report, uint64_t pid)
{
    report->pid = pid;
    report->began_us = base_clock_mono_us();
    report->server_ticks = ticks_of(pid);
    report->own_ticks = ticks_of((uint64_t)getpid());
}

void tunnel_report_add(struct tunnel_report *report, uint64_t took_us)
{
    if (report->sample_count < TUNNEL_SAMPLES_MAX) {
        report->samples_ms[report->sample_count++] = (double)took_us / 1000.0;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const struct tunnel_report *report, double q)
{
    uint64_t count = report->sample_count;
    uint64_t at = (uint64_t)(q * (double)count);
    return count == 0 ? 0 : report->samples_ms[at < count ? at : count - 1];
}

void tunnel_report_print(struct tunnel_report *report, uint64_t payload_bytes)
{
    double ticks = (double)sysconf(_SC_CLK_TCK);
    double seconds = (double)(base_clock_mono_us() - report->began_us) / US_PER_S;
    double server_s = (double)(ticks_of(report->pid) - report->server_ticks) / ticks;
    double own_s = (double)(ticks_of((uint64_t)getpid()) - report->own_ticks) / ticks;
    qsort(report->samples_ms, report->sample_count, sizeof(double), compare);
    printf("{\"payload\":%" PRIu64 ",\"seconds\":%.3f,\"done\":%" PRIu64 ",\"per_s\":%.0f,"
           "\"server_cpu_s\":%.2f,\"client_cpu_s\":%.2f,\"samples\":%" PRIu64 ",\"p50_ms\":%.3f,"
           "\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           payload_bytes, seconds, report->done, (double)report->done / seconds, server_s, own_s,
           report->sample_count, quantile(report, 0.5), quantile(report, 0.9),
           quantile(report, 0.99), quantile(report, 1.0));
}
